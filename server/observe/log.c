#include "server/observe/log.h"

#include "api/text/text.h"
#include "kernels/utf8.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Equal to PIPE_BUF, because a write of at most this size to a pipe either completes or fails. */
enum { LINE_SIZE = 4096 };

/* A line being built. It starts with a line feed, which is written only if the previous line is
 * incomplete. Text that does not fit sets `out.full`. The last eight bytes of `text` are reserved
 * for put_end. */
struct line {
    char text[LINE_SIZE];
    struct td_text out;
};

static const char *const level_names[] = { "error", "warn", "info", "debug" };

/* Ends a value or the line, for which there is always room. */
static void put_end(struct td_text *out, const char *text)
{
    out->at = mempcpy(out->at, text, strlen(text));
    if (out->at > out->end)
        out->end = out->at; /* leaves no room for another field */
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

/* Adds as much of the text as fits. */
static void put_plain(struct td_text *out, const char *text, size_t length)
{
    const size_t room = (size_t)(out->end - out->at);
    td_text_add(out, text, length < room ? length : room);
    out->full |= length > room;
}

/* Writes the escape sequence of the text's first character, and returns the character's size. An
 * escape in JSON is a UTF-16 code unit, so a character outside ASCII has one or two escapes. A byte
 * that is not valid UTF-8 is escaped on its own. */
static size_t escape(const char *text, enum td_log_format format, char escaped[16])
{
    const unsigned char *at = (const unsigned char *)text;
    const size_t size = format == TD_LOG_JSON ? td_utf8_character(at, TD_UTF8_MAX) : 0;
    const uint32_t c = size > 0 ? td_utf8_code_point(at, size) : *at;
    if (c == '"' || c == '\\')
        snprintf(escaped, 16, "\\%c", (char)c);
    else if (c >= 0x10000)
        snprintf(escaped, 16, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                 0xdc00 + (c & 0x3ff));
    else
        snprintf(escaped, 16, format == TD_LOG_JSON ? "\\u%04x" : "\\x%02x", c);
    return size > 0 ? size : 1;
}

/* Escapes quotes, control characters and characters outside ASCII. */
static void put_escaped(struct td_text *out, const char *text, enum td_log_format format)
{
    while (*text && !out->full) {
        char escaped[16];
        size_t plain = 0;
        while (is_plain((unsigned char)text[plain]))
            plain++;
        put_plain(out, text, plain);
        text += plain;
        if (!*text)
            return;
        text += escape(text, format, escaped);
        td_text_string(out, escaped);
    }
}

/* Adds a number with `decimals` digits after the point. snprintf would take ten times as long,
 * which is a third of the time for a line. */
static void put_number(struct td_text *out, bool negative, uint64_t number, int decimals)
{
    char text[32];
    char *at = text + sizeof text;
    for (int digits = 0; number > 0 || digits <= decimals; number /= 10) {
        *--at = (char)('0' + number % 10);
        if (++digits == decimals)
            *--at = '.';
    }
    if (negative)
        *--at = '-';
    td_text_add(out, at, (size_t)(text + sizeof text - at));
}

static void put_value(struct td_text *out, const struct td_log_field *field,
                      enum td_log_format format)
{
    const bool negative = field->number < 0;
    const uint64_t number = negative ? 0 - (uint64_t)field->number : (uint64_t)field->number;
    switch (field->kind) {
    case TD_FIELD_TEXT:
        put_escaped(out, field->text, format);
        break;
    case TD_FIELD_INT:
    case TD_FIELD_COUNT:
        put_number(out, negative, number, 0);
        break;
    case TD_FIELD_MS: /* rounded to microseconds */
        put_number(out, negative, (number + 500) / 1000, 3);
        break;
    }
}

/* Adds a field unless it is omitted. A full line ends within a string, with "...", or before the
 * field. */
static void put_field(struct td_text *out, const struct td_log_field *field,
                      enum td_log_format format)
{
    const bool json = format == TD_LOG_JSON, text = field->kind == TD_FIELD_TEXT;
    const bool quoted = text && field->text &&
                        (json || field->text[0] == '\0' || strpbrk(field->text, " =\"") != NULL);
    char *before = out->at;
    if ((text && !field->text) || (field->kind == TD_FIELD_COUNT && field->number == 0))
        return;
    td_text_string(out, json ? ",\"" : " ");
    td_text_string(out, field->name);
    td_text_string(out, json ? "\":" : "=");
    td_text_string(out, quoted ? "\"" : "");
    const bool begun = text && !out->full;
    put_value(out, field, format);
    if (out->full && !begun) {
        out->at = before;
        return;
    }
    put_end(out, out->full ? (quoted ? "...\"" : "...") : (quoted ? "\"" : ""));
}

static void put_time(struct td_text *out)
{
    struct timespec now;
    struct tm utc;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, sizeof text - length, ".%03ldZ", now.tv_nsec / 1000000);
    td_text_string(out, text);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* True if there is room for a line. For a pipe, POLLOUT means that PIPE_BUF bytes fit. */
static bool has_room(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLOUT };
    return poll(&poller, 1, 0) > 0 && (poller.revents & POLLOUT);
}

/* Writes text without waiting. Returns the number of bytes written, or -1 on error, including
 * EAGAIN. Returns 0 if a TD_LOG_SHARED log has no room. */
static ssize_t write_some(const struct td_log *log, const char *text, size_t length)
{
    if (log->kind == TD_LOG_SOCKET)
        return send(log->fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    return log->kind == TD_LOG_SHARED && !has_room(log->fd) ? 0 : write(log->fd, text, length);
}

/* Writes as much of the text as possible. Returns the number of bytes written, which is less than
 * `length` if there is no more room or writing fails, for example because the log is closed. A
 * closed log must not stop the daemon. */
static size_t write_most(const struct td_log *log, const char *text, size_t length)
{
    size_t written = 0;
    while (written < length) {
        const ssize_t n = write_some(log, text + written, length - written);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        written += n > 0 ? (size_t)n : 0;
    }
    return written;
}

/* Writes a line. If the previous line was only partly written, ends that line first. Returns false
 * if the line is not written completely. */
static bool write_line(const struct td_log *log, const struct line *line)
{
    struct td_log_state *state = log->state;
    const bool torn = state && atomic_load_explicit(&state->torn, memory_order_relaxed) &&
                      atomic_exchange_explicit(&state->torn, false, memory_order_relaxed);
    const char *begin = line->text + (torn ? 0 : 1);
    const size_t length = (size_t)(line->out.at - begin);
    const size_t written = write_most(log, begin, length);
    if (state && written < length && (torn || written > 0))
        atomic_store_explicit(&state->torn, true, memory_order_relaxed);
    return written == length;
}

/* Finishes and writes a line. The line reports that `reported` lines were dropped before it. If the
 * line itself is dropped, adds it and the `reported` lines to the count of dropped lines. */
static void finish_line(const struct td_log *log, struct line *line, uint64_t reported)
{
    struct td_log_state *state = log->state;
    put_end(&line->out, log->format == TD_LOG_JSON ? "}\n" : "\n");
    if (log->kind == TD_LOG_SHARED)
        pthread_mutex_lock(&state->mutex);
    const bool ok = write_line(log, line);
    if (log->kind == TD_LOG_SHARED)
        pthread_mutex_unlock(&state->mutex);
    if (ok || !state)
        return;
    atomic_fetch_add_explicit(&state->dropped, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&state->unwritten, reported + 1, memory_order_relaxed);
}

/* Returns the number of dropped lines that this line reports. */
static uint64_t take_unwritten(const struct td_log *log)
{
    struct td_log_state *state = log->state;
    return state && atomic_load_explicit(&state->unwritten, memory_order_relaxed) > 0
               ? atomic_exchange_explicit(&state->unwritten, 0, memory_order_relaxed)
               : 0;
}

void td_log_write(const struct td_log *log, enum td_log_level level, const char *event,
                  const struct td_log_field *fields, int n_fields)
{
    const bool json = log->format == TD_LOG_JSON;
    const uint64_t unwritten = take_unwritten(log);
    struct line line;
    struct td_text *out = &line.out;
    *out = (struct td_text){ .at = line.text, .end = line.text + LINE_SIZE - 8 };
    td_text_string(out, json ? "\n{\"time\":\"" : "\n");
    put_time(out);
    td_text_string(out, json ? "\",\"level\":\"" : " ");
    td_text_string(out, level_names[level]);
    td_text_string(out, json ? "\",\"event\":\"" : " ");
    td_text_string(out, event);
    td_text_string(out, json ? "\"" : "");
    put_field(out, &TD_COUNT("dropped", unwritten), log->format);
    for (int i = 0; i < n_fields && !out->full; i++)
        put_field(out, &fields[i], log->format);
    finish_line(log, &line, unwritten);
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Opens a pipe or terminal again, to get a descriptor that does not block. O_NONBLOCK on the
 * original descriptor would affect all processes that share it. Returns -1 if the process is not
 * allowed to open it. */
static int open_again(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void td_log_open(struct td_log *log, int fd, enum td_log_level level, enum td_log_format format,
                 struct td_log_state *state)
{
    struct stat info;
    *log = (struct td_log){ .level = level, .format = format, .fd = fd, .state = state };
    atomic_init(&state->dropped, 0);
    atomic_init(&state->unwritten, 0);
    atomic_init(&state->torn, false);
    pthread_mutex_init(&state->mutex, NULL);
    if (fstat(fd, &info) != 0)
        return;
    if (S_ISSOCK(info.st_mode))
        log->kind = TD_LOG_SOCKET;
    if (!S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode))
        return;
    const int own = open_again(fd);
    log->kind = own < 0 ? TD_LOG_SHARED : TD_LOG_PLAIN;
    log->fd = own < 0 ? fd : own;
}

void td_log_change_level(struct td_log *log, int by)
{
    const enum td_log_level from = atomic_load_explicit(&log->level, memory_order_relaxed);
    const int wanted = (int)from + by;
    const enum td_log_level to =
        wanted < TD_LOG_ERROR || wanted > TD_LOG_DEBUG ? from : (enum td_log_level)wanted;
    const struct td_log_field fields[] = { TD_TEXT("from", level_names[from]),
                                           TD_TEXT("to", level_names[to]) };
    atomic_store_explicit(&log->level, to, memory_order_relaxed);
    td_log_write(log, TD_LOG_INFO, "log_level", fields, 2);
}
