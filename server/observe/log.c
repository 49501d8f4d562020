#include "server/observe/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE = 4096 };

/* A line being built; `cut` is set once it is full. */
struct line {
    char text[LINE_SIZE];
    size_t length;
    bool cut;
};

static const char *const level_names[] = { "error", "warn", "info", "debug" };

static void put(struct line *line, const char *text, size_t length)
{
    /* put_end uses the last eight bytes. */
    const size_t room = line->length < LINE_SIZE - 8 ? LINE_SIZE - 8 - line->length : 0;
    if (length > room || line->cut) {
        line->cut = true; /* all or nothing: half an escape sequence is invalid JSON */
        return;
    }
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

/* Ends a value or the line: there is always room for it. */
static void put_end(struct line *line, const char *text)
{
    memcpy(line->text + line->length, text, strlen(text));
    line->length += strlen(text);
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Escapes quotes, control characters and bytes that are not ASCII as \uXXXX or \xXX. */
static void put_escaped(struct line *line, const char *text, enum td_log_format format)
{
    for (const unsigned char *at = (const unsigned char *)text; *at && !line->cut; at++) {
        char escaped[8];
        if (*at == '"' || *at == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", *at);
        else if (*at < 0x20 || *at >= 0x7f)
            snprintf(escaped, sizeof escaped, format == TD_LOG_JSON ? "\\u%04x" : "\\x%02x", *at);
        else
            snprintf(escaped, sizeof escaped, "%c", *at);
        put_text(line, escaped);
    }
}

static void put_value(struct line *line, const struct td_log_field *field,
                      enum td_log_format format)
{
    char number[32];
    switch (field->kind) {
    case TD_FIELD_TEXT:
        put_escaped(line, field->text, format);
        return;
    case TD_FIELD_INT:
        snprintf(number, sizeof number, "%lld", (long long)field->number);
        break;
    case TD_FIELD_MS:
        snprintf(number, sizeof number, "%.3f", (double)field->number / 1e6);
        break;
    }
    put_text(line, number);
}

/* Adds a field; a full line ends within a text, with "...", or before the field. */
static void put_field(struct line *line, const struct td_log_field *field,
                      enum td_log_format format)
{
    const bool json = format == TD_LOG_JSON, text = field->kind == TD_FIELD_TEXT;
    const bool quoted =
        text && (json || field->text[0] == '\0' || strpbrk(field->text, " =\"") != NULL);
    const size_t before = line->length;
    put_text(line, json ? ",\"" : " ");
    put_text(line, field->name);
    put_text(line, json ? "\":" : "=");
    put_text(line, quoted ? "\"" : "");
    const bool begun = text && !line->cut;
    put_value(line, field, format);
    if (line->cut && !begun) {
        line->length = before;
        return;
    }
    put_end(line, line->cut ? (quoted ? "...\"" : "...") : (quoted ? "\"" : ""));
}

static void put_time(struct line *line)
{
    struct timespec now;
    struct tm utc;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + length, sizeof text - length, ".%03ldZ", now.tv_nsec / 1000000);
    put_text(line, text);
}

void td_log_write(const struct td_log *log, enum td_log_level level, const char *event,
                  const struct td_log_field *fields, int n_fields)
{
    if (!td_log_wants(log, level))
        return;
    const bool json = log->format == TD_LOG_JSON;
    struct line line = { .length = 0 };
    put_text(&line, json ? "{\"time\":\"" : "");
    put_time(&line);
    put_text(&line, json ? "\",\"level\":\"" : " ");
    put_text(&line, level_names[level]);
    put_text(&line, json ? "\",\"event\":\"" : " ");
    put_text(&line, event);
    put_text(&line, json ? "\"" : "");
    for (int i = 0; i < n_fields && !line.cut; i++)
        if (fields[i].kind != TD_FIELD_TEXT || fields[i].text)
            put_field(&line, &fields[i], log->format);
    put_end(&line, json ? "}\n" : "\n");
    for (size_t written = 0; written < line.length;) {
        ssize_t n = write(log->fd, line.text + written, line.length - written);
        if (n <= 0)
            return; /* a closed log must not stop the daemon */
        written += (size_t)n;
    }
}
