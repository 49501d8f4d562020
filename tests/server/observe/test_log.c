#include "server/observe/log.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <cjson/cJSON.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST 4096

/* The log writes into a pair of datagram sockets, so each read returns one write. */
static int log_end, reading_end;

static void pair_open(void)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    log_end = ends[0];
    reading_end = ends[1];
}

static void pair_close(void)
{
    close(log_end);
    close(reading_end);
}

static struct td_log log_of(enum td_log_level level, enum td_log_format format)
{
    return (struct td_log){ .level = level, .format = format, .fd = log_end };
}

/* The next write; "" for none. */
static const char *written(void)
{
    static char line[2 * LONGEST];
    const ssize_t length = recv(reading_end, line, sizeof line - 1, MSG_DONTWAIT);
    line[length > 0 ? length : 0] = '\0';
    ck_assert(length <= 0 || (size_t)length == strlen(line));
    return line;
}

/* Fails unless the whole text matches the extended regular expression. */
static void expect_match(const char *text, const char *pattern)
{
    regex_t regex;
    char whole[1024];
    snprintf(whole, sizeof whole, "^%s$", pattern);
    ck_assert_int_eq(regcomp(&regex, whole, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_msg(regexec(&regex, text, 0, NULL, 0) == 0, "'%s' is not '%s'", text, pattern);
    regfree(&regex);
}

/* One line of JSON; the caller deletes it. */
static cJSON *parsed(const char *line)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithOpts(line, &end, false);
    const char *tail = strlen(line) > 60 ? line + strlen(line) - 60 : line;
    ck_assert_msg(cJSON_IsObject(root), "not an object: %.100s ... %s", line, tail);
    ck_assert_msg(strcmp(end, "\n") == 0, "more than an object: %.100s ... %s", line, tail);
    return root;
}

static const char *text_of(const cJSON *root, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
    ck_assert_msg(cJSON_IsString(item), "%s is not a string", name);
    return item->valuestring;
}

#define TIME "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"

/* ---- the two formats ------------------------------------------------------------------------- */

TD_TEST(a_text_line_is_time_level_event_and_fields)
{
    const struct td_log log = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    td_log(&log, TD_LOG_INFO, "listening", TD_TEXT("address", "127.0.0.1:8080"),
           TD_INT("workers", 2), TD_MS("start_ms", 1234567), TD_INT("least", INT64_MIN));
    expect_match(written(), TIME " info listening address=127\\.0\\.0\\.1:8080 workers=2 "
                                 "start_ms=1\\.235 least=-9223372036854775808\n");
}

TD_TEST(a_json_line_is_one_object)
{
    const struct td_log log = log_of(TD_LOG_INFO, TD_LOG_JSON);
    td_log(&log, TD_LOG_WARN, "listening", TD_TEXT("address", "127.0.0.1:8080"),
           TD_INT("workers", 2), TD_MS("start_ms", 1500000));
    cJSON *root = parsed(written());
    expect_match(text_of(root, "time"), TIME);
    ck_assert_str_eq(text_of(root, "level"), "warn");
    ck_assert_str_eq(text_of(root, "event"), "listening");
    ck_assert_str_eq(text_of(root, "address"), "127.0.0.1:8080");
    ck_assert_double_eq(cJSON_GetObjectItem(root, "workers")->valuedouble, 2);
    ck_assert_double_eq(cJSON_GetObjectItem(root, "start_ms")->valuedouble, 1.5);
    ck_assert_int_eq(cJSON_GetArraySize(root), 6);
    cJSON_Delete(root);
}

TD_TEST(fields_without_a_text_are_left_out)
{
    const struct td_log text = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    td_log(&text, TD_LOG_INFO, "e", TD_TEXT("a", NULL), TD_TEXT("b", "x"), TD_TEXT("c", NULL));
    expect_match(written(), TIME " info e b=x\n");
    const struct td_log json = log_of(TD_LOG_INFO, TD_LOG_JSON);
    td_log(&json, TD_LOG_INFO, "e", TD_TEXT("a", NULL), TD_TEXT("b", "x"), TD_TEXT("c", NULL));
    cJSON *root = parsed(written());
    ck_assert_int_eq(cJSON_GetArraySize(root), 4);
    cJSON_Delete(root);
    td_log_write(&text, TD_LOG_INFO, "e", NULL, 0);
    expect_match(written(), TIME " info e\n");
}

TD_TEST(a_level_passes_events_of_equal_or_higher_severity)
{
    static const char *const names[] = { "error", "warn", "info", "debug" };
    for (int at = TD_LOG_ERROR; at <= TD_LOG_DEBUG; at++)
        for (int level = TD_LOG_ERROR; level <= TD_LOG_DEBUG; level++) {
            const struct td_log log = log_of((enum td_log_level)level, TD_LOG_TEXT);
            char pattern[100] = "";
            if (at <= level)
                snprintf(pattern, sizeof pattern, TIME " %s event a=1\n", names[at]);
            td_log(&log, (enum td_log_level)at, "event", TD_INT("a", 1));
            expect_match(written(), pattern);
            ck_assert_int_eq(td_log_wants(&log, (enum td_log_level)at), at <= level);
        }
}

static const struct {
    int64_t ns;
    const char *text;
} durations[] = {
    { 0, "0.000" },
    { 499, "0.000" },
    { 500, "0.001" },
    { 999499, "0.999" },
    { 999500, "1.000" },
    { 1000000, "1.000" },
    { 1234567, "1.235" },
    { -1500000, "-1.500" },
    { INT64_MAX, "9223372036854.776" },
    { INT64_MIN, "-9223372036854.776" },
};

TD_TEST_EACH(a_duration_is_in_milliseconds_with_three_decimals, durations)
{
    const struct td_log log = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    char pattern[200];
    td_log(&log, TD_LOG_INFO, "e", TD_MS("ms", durations[_i].ns));
    snprintf(pattern, sizeof pattern, TIME " info e ms=%s\n", durations[_i].text);
    expect_match(written(), pattern);
}

static const struct {
    int64_t number;
    const char *text;
} numbers[] = { { 0, "0" },
                { 1, "1" },
                { -1, "-1" },
                { 10, "10" },
                { INT64_MAX, "9223372036854775807" },
                { INT64_MIN, "-9223372036854775808" } };

TD_TEST_EACH(a_number_has_all_its_digits_and_a_count_of_0_is_left_out, numbers)
{
    const struct td_log log = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    char pattern[200];
    td_log(&log, TD_LOG_INFO, "e", TD_INT("n", numbers[_i].number), TD_COUNT("zero", 0),
           TD_COUNT("count", 7));
    snprintf(pattern, sizeof pattern, TIME " info e n=%s count=7\n", numbers[_i].text);
    expect_match(written(), pattern);
}

/* ---- values from outside --------------------------------------------------------------------- */

static const struct {
    const char *description, *value, *text, *json;
} escapes[] = {
    { "plain", "/v1/gather?x", "v=/v1/gather?x", "\"v\":\"/v1/gather?x\"" },
    { "an empty value is quoted", "", "v=\"\"", "\"v\":\"\"" },
    { "a space needs quotes", "a b", "v=\"a b\"", "\"v\":\"a b\"" },
    { "so does an equals sign", "a=b", "v=\"a=b\"", "\"v\":\"a=b\"" },
    { "a quote does not end the value", "a\"b", "v=\"a\\\"b\"", "\"v\":\"a\\\"b\"" },
    { "nor does a backslash before it", "a\\\" x=1", "v=\"a\\\\\\\" x=1\"",
      "\"v\":\"a\\\\\\\" x=1\"" },
    { "a line feed does not begin a line", "a\nb\r", "v=a\\x0ab\\x0d",
      "\"v\":\"a\\u000ab\\u000d\"" },
    { "nor does an escape sequence reach the terminal", "\x1b[31m", "v=\\x1b[31m",
      "\"v\":\"\\u001b[31m\"" },
    { "delete and tab", "\x7f\t", "v=\\x7f\\x09", "\"v\":\"\\u007f\\u0009\"" },
    { "text beyond ASCII is escaped, in JSON as characters", "\xc3\xa9", "v=\\xc3\\xa9",
      "\"v\":\"\\u00e9\"" },
    { "a character beyond U+FFFF is two escapes of JSON", "\xf0\xa0\xae\xb7",
      "v=\\xf0\\xa0\\xae\\xb7", "\"v\":\"\\ud842\\udfb7\"" },
    { "invalid UTF-8 is escaped byte by byte", "\xff\x80", "v=\\xff\\x80",
      "\"v\":\"\\u00ff\\u0080\"" },
    { "also at the end", "\xe2\x82", "v=\\xe2\\x82", "\"v\":\"\\u00e2\\u0082\"" },
};

TD_TEST_EACH(a_value_cannot_break_out_of_its_field, escapes)
{
    const struct td_log text = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    const struct td_log json = log_of(TD_LOG_INFO, TD_LOG_JSON);
    td_log(&text, TD_LOG_INFO, "event", TD_TEXT("v", escapes[_i].value), TD_INT("n", 1));
    const char *line = written();
    const char *behind = strstr(line, " event ") + 7;
    ck_assert_msg(strncmp(behind, escapes[_i].text, strlen(escapes[_i].text)) == 0 &&
                      strcmp(behind + strlen(escapes[_i].text), " n=1\n") == 0,
                  "%s: %s", escapes[_i].description, line);
    td_log(&json, TD_LOG_INFO, "event", TD_TEXT("v", escapes[_i].value), TD_INT("n", 1));
    line = written();
    ck_assert_msg(strstr(line, escapes[_i].json) != NULL, "%s: %s", escapes[_i].description, line);
    cJSON *root = parsed(line);
    ck_assert_double_eq(cJSON_GetObjectItem(root, "n")->valuedouble, 1);
    cJSON_Delete(root);
}

TD_TEST(every_byte_is_logged_as_printable_ascii)
{
    for (int format = TD_LOG_TEXT; format <= TD_LOG_JSON; format++)
        for (int byte = 1; byte < 256; byte++) {
            const struct td_log log = log_of(TD_LOG_INFO, (enum td_log_format)format);
            const char value[] = { 'a', (char)byte, 'b', '\0' };
            td_log(&log, TD_LOG_INFO, "event", TD_TEXT("v", value));
            const char *line = written();
            const size_t length = strlen(line);
            for (size_t i = 0; i + 1 < length; i++)
                ck_assert_msg(line[i] >= ' ' && line[i] < 0x7f, "byte %d: %s", byte, line);
            ck_assert_int_eq(line[length - 1], '\n');
            if (format == TD_LOG_JSON)
                cJSON_Delete(parsed(line));
        }
}

/* ---- long lines ------------------------------------------------------------------------------ */

TD_TEST(a_long_value_is_truncated)
{
    char value[3 * LONGEST];
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    const struct td_log text = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    td_log(&text, TD_LOG_INFO, "event", TD_TEXT("v", value), TD_INT("after", 1));
    const char *line = written();
    ck_assert_uint_le(strlen(line), LONGEST);
    ck_assert_uint_gt(strlen(line), LONGEST - 100);
    expect_match(line, TIME " info event v=x+\\.\\.\\.\n");
    const struct td_log json = log_of(TD_LOG_INFO, TD_LOG_JSON);
    td_log(&json, TD_LOG_INFO, "event", TD_TEXT("v", value), TD_INT("after", 1));
    line = written();
    ck_assert_uint_le(strlen(line), LONGEST);
    cJSON *root = parsed(line);
    expect_match(text_of(root, "v"), "x+\\.\\.\\.");
    ck_assert_ptr_null(cJSON_GetObjectItem(root, "after"));
    cJSON_Delete(root);
}

/* The repeated text of a long value, its width in the line, and whether fields follow. */
static const struct {
    char unit;
    size_t width;
    bool behind;
} long_values[] = {
    { 'x', 1, false }, { '"', 2, false }, { '\x01', 6, false }, { '\xff', 6, false },
    { 'x', 1, true },  { '"', 2, true },  { '\x01', 6, true },  { '\xff', 6, true },
};

TD_TEST_EACH(a_line_truncated_anywhere_is_valid_json, long_values)
{
    const struct td_log log = log_of(TD_LOG_INFO, TD_LOG_JSON);
    const size_t width = long_values[_i].width;
    for (size_t before = 0; before < width; before++) /* shifts the cut within the repeated text */
        for (size_t length = 3850 / width; length < 4150 / width; length++) {
            char value[4200];
            memset(value, 'x', before);
            memset(value + before, long_values[_i].unit, length);
            value[before + length] = '\0';
            if (long_values[_i].behind)
                td_log(&log, TD_LOG_INFO, "request", TD_TEXT("v", value), TD_INT("status", 200),
                       TD_TEXT("detail", "a b"), TD_MS("ms", 1));
            else
                td_log(&log, TD_LOG_INFO, "request", TD_TEXT("v", value));
            const char *line = written();
            ck_assert_uint_le(strlen(line), LONGEST);
            cJSON_Delete(parsed(line));
        }
}

TD_TEST(a_line_that_fits_is_not_truncated)
{
    const struct td_log log = log_of(TD_LOG_INFO, TD_LOG_JSON);
    char value[4000];
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    td_log(&log, TD_LOG_INFO, "e", TD_TEXT("v", value));
    cJSON *root = parsed(written());
    ck_assert_str_eq(text_of(root, "v"), value);
    cJSON_Delete(root);
}

/* ---- writing --------------------------------------------------------------------------------- */

TD_TEST(a_line_is_one_write)
{
    char value[3000];
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = '\0';
    const struct td_log log = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    td_log(&log, TD_LOG_INFO, "first", TD_TEXT("a", "1"), TD_TEXT("b", value));
    td_log(&log, TD_LOG_INFO, "second", TD_INT("c", 3));
    expect_match(written(), TIME " info first a=1 b=x{10}x+\n");
    expect_match(written(), TIME " info second c=3\n");
    ck_assert_str_eq(written(), "");
}

enum { WRITERS = 4, LINES = 500 };

static void *write_lines(void *argument)
{
    const struct td_log *log = argument;
    for (int i = 0; i < LINES; i++)
        td_log(log, TD_LOG_INFO, "event", TD_INT("line", i),
               TD_TEXT("padding", "xxxxxxxxxxxxxxxxxx"));
    return NULL;
}

TD_TEST(lines_of_several_threads_do_not_mix)
{
    int ends[2];
    pthread_t threads[WRITERS];
    ck_assert_int_eq(pipe(ends), 0);
    struct td_log log = { .level = TD_LOG_INFO, .format = TD_LOG_JSON, .fd = ends[1] };
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, &log), 0);
    FILE *in = fdopen(ends[0], "r");
    char line[LONGEST];
    for (int i = 0; i < WRITERS * LINES; i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, in));
        cJSON_Delete(parsed(line));
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    fclose(in);
    close(ends[1]);
}

TD_TEST(a_closed_log_does_not_stop_the_process)
{
    const struct td_log log = { .level = TD_LOG_INFO, .format = TD_LOG_TEXT, .fd = -1 };
    td_log(&log, TD_LOG_INFO, "event", TD_INT("n", 1));
}

/* ---- a reader that does not read ------------------------------------------------------------- */

/* A log whose lines nobody reads: a pipe, a pipe without the right to open it again, a socket. */
enum { FULL_PIPE, FULL_SHARED, FULL_SOCKET, FULL_KINDS };

struct full_log {
    struct td_log log;
    struct td_log_state state;
    int reading, writing;
};

static void full_log_open(struct full_log *full, int kind)
{
    static const enum td_log_kind kinds[] = {
        [FULL_PIPE] = TD_LOG_PLAIN, [FULL_SHARED] = TD_LOG_SHARED, [FULL_SOCKET] = TD_LOG_SOCKET
    };
    int ends[2];
    ck_assert_int_eq(kind == FULL_SOCKET ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends),
                     0);
    full->reading = ends[0];
    full->writing = ends[1];
    td_log_open(&full->log, full->writing, TD_LOG_INFO, TD_LOG_JSON, &full->state);
    if (kind == FULL_SHARED) {
        close(full->log.fd);
        full->log.fd = full->writing;
        full->log.kind = TD_LOG_SHARED;
    }
    ck_assert_int_eq(full->log.kind, kinds[kind]);
}

static void full_log_close(const struct full_log *full)
{
    if (full->log.fd != full->writing)
        close(full->log.fd);
    close(full->writing);
    close(full->reading);
}

static bool can_read(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    return poll(&poller, 1, 0) == 1;
}

/* Reads all lines, each a complete object, and returns the sum of their members `dropped`. */
static double read_lines(int fd, int *count)
{
    static char text[1 << 20];
    size_t length = 0;
    double dropped = 0;
    while (can_read(fd))
        length += (size_t)read(fd, text + length, sizeof text - 1 - length);
    text[length] = '\0';
    *count = 0;
    for (char *line = text, *end; *line; line = end + 1, ++*count) {
        end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        cJSON *root = cJSON_Parse(line);
        ck_assert_msg(cJSON_IsObject(root), "not an object: %.200s", line);
        const cJSON *member = cJSON_GetObjectItem(root, "dropped");
        dropped += member ? member->valuedouble : 0;
        cJSON_Delete(root);
    }
    return dropped;
}

TD_TEST_LOOP(a_full_log_drops_lines_counts_them_and_does_not_wait, 0, FULL_KINDS)
{
    struct full_log full;
    enum { TRIED = 20000 };
    int before, after;
    full_log_open(&full, _i);
    for (int i = 0; i < TRIED; i++)
        td_log(&full.log, TD_LOG_INFO, "event", TD_INT("line", i));
    const uint64_t dropped = atomic_load(&full.state.dropped);
    ck_assert_uint_gt(dropped, 0);
    ck_assert_double_eq(read_lines(full.reading, &before), 0);
    ck_assert_uint_eq((uint64_t)before + dropped, TRIED);
    td_log(&full.log, TD_LOG_INFO, "next", TD_INT("line", 0));
    td_log(&full.log, TD_LOG_INFO, "after", TD_INT("line", 0));
    ck_assert_double_eq(read_lines(full.reading, &after), (double)dropped);
    ck_assert_int_eq(after, 2);
    ck_assert_uint_eq(atomic_load(&full.state.dropped), dropped);
    full_log_close(&full);
}

static void *write_until_dropped(void *argument)
{
    struct full_log *full = argument;
    for (int i = 0; i < 10000; i++)
        td_log(&full->log, TD_LOG_INFO, "event", TD_INT("line", i));
    return NULL;
}

TD_TEST_LOOP(several_threads_fill_a_log_and_none_waits, 0, FULL_KINDS)
{
    struct full_log full;
    pthread_t threads[WRITERS];
    int lines;
    full_log_open(&full, _i);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_until_dropped, &full), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    read_lines(full.reading, &lines);
    ck_assert_uint_eq((uint64_t)lines + atomic_load(&full.state.dropped), WRITERS * 10000);
    full_log_close(&full);
}

TD_TEST_LOOP(the_descriptor_of_others_still_blocks, 0, FULL_KINDS)
{
    struct full_log full;
    full_log_open(&full, _i);
    ck_assert_int_eq(fcntl(full.writing, F_GETFL) & O_NONBLOCK, 0);
    full_log_close(&full);
}

TD_TEST(a_file_is_continued_after_a_line_that_was_written_in_part)
{
    char path[] = "/tmp/tensord-log-XXXXXX", text[4096];
    const int fd = mkstemp(path);
    struct td_log log;
    struct td_log_state state;
    struct rlimit before, limit;
    ck_assert_int_ge(fd, 0);
    unlink(path);
    signal(SIGXFSZ, SIG_IGN);
    td_log_open(&log, fd, TD_LOG_INFO, TD_LOG_JSON, &state);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){ .rlim_cur = 20, .rlim_max = before.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    td_log(&log, TD_LOG_INFO, "first", TD_INT("n", 1));
    td_log(&log, TD_LOG_INFO, "second", TD_INT("n", 2));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    td_log(&log, TD_LOG_INFO, "third", TD_INT("n", 3));
    const ssize_t length = pread(fd, text, sizeof text - 1, 0);
    ck_assert_int_gt(length, 20);
    text[length] = '\0';
    ck_assert_int_eq(text[20], '\n');
    cJSON *root = parsed(text + 21);
    ck_assert_str_eq(text_of(root, "event"), "third");
    ck_assert_double_eq(cJSON_GetObjectItem(root, "dropped")->valuedouble, 2);
    cJSON_Delete(root);
    close(fd);
}

/* ---- the level ------------------------------------------------------------------------------- */

TD_TEST(the_level_changes_within_its_bounds_and_says_so)
{
    static const struct {
        int by;
        const char *line;
    } steps[] = {
        { -1, "from=info to=warn" },  { -1, "from=warn to=error" }, { -1, "from=error to=error" },
        { 1, "from=error to=warn" },  { 1, "from=warn to=info" },   { 1, "from=info to=debug" },
        { 1, "from=debug to=debug" },
    };
    struct td_log log = log_of(TD_LOG_INFO, TD_LOG_TEXT);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        char pattern[200];
        td_log_change_level(&log, steps[i].by);
        snprintf(pattern, sizeof pattern, TIME " info log_level %s\n", steps[i].line);
        expect_match(written(), pattern);
    }
    ck_assert(td_log_wants(&log, TD_LOG_DEBUG));
}

static void *change_levels(void *argument)
{
    struct td_log *log = argument;
    for (int i = 0; i < LINES; i++)
        td_log_change_level(log, i % 2 ? 1 : -1);
    return NULL;
}

TD_TEST(the_level_may_change_while_others_write)
{
    struct full_log full;
    pthread_t writer, changer;
    full_log_open(&full, FULL_PIPE);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_until_dropped, &full), 0);
    ck_assert_int_eq(pthread_create(&changer, NULL, change_levels, &full.log), 0);
    pthread_join(writer, NULL);
    pthread_join(changer, NULL);
    ck_assert(td_log_wants(&full.log, TD_LOG_INFO));
    full_log_close(&full);
}

TD_FIXTURE(pair_open, pair_close);
