#include "server/traces/otlp.h"
#include "tests/support/suite.h"

#include <cjson/cJSON.h>

#include <stdlib.h>
#include <string.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static const struct td_otlp_resource resource = { .version = "1.2.3", .instance_id = "the-id" };
static const struct td_span_ids root = { .trace_id = TRACE, .span_id = SPAN };

static struct td_span *span_of(const struct td_span_ids *ids)
{
    struct td_span *span = td_span_new(ids);
    ck_assert_ptr_nonnull(span);
    span->name = "POST /v1/{op}";
    span->begun_ns = INT64_C(1700000000123456789);
    span->ended_ns = INT64_C(1700000000123999999);
    return span;
}

/* Writes the list, into a heap block of exactly this size so that sanitizers see any overrun, and
 * parses it. */
static cJSON *write_all(const struct td_span *spans, size_t size, int *n)
{
    char *body = malloc(size);
    ck_assert_ptr_nonnull(body);
    struct td_text text = { .at = body, .end = body + size };
    *n = td_otlp_write(&resource, spans, &text);
    ck_assert(!text.full);
    cJSON *root_object = cJSON_ParseWithLength(body, (size_t)(text.at - body));
    ck_assert_msg(root_object != NULL, "%.*s", (int)(text.at - body), body);
    free(body);
    return root_object;
}

static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    ck_assert_msg(found != NULL, "no %s", name);
    return found;
}

static const cJSON *only(const cJSON *object, const char *name)
{
    const cJSON *array = member(object, name);
    ck_assert_int_eq(cJSON_GetArraySize(array), 1);
    return cJSON_GetArrayItem(array, 0);
}

static void check_text(const cJSON *object, const char *name, const char *expected)
{
    const cJSON *value = member(object, name);
    ck_assert(cJSON_IsString(value));
    ck_assert_str_eq(value->valuestring, expected);
}

/* The value of an attribute, of the kind that it must have. */
static void check_attribute(const cJSON *object, int at, const char *name, const char *kind,
                            const char *expected)
{
    const cJSON *attribute = cJSON_GetArrayItem(member(object, "attributes"), at);
    check_text(attribute, "key", name);
    check_text(member(attribute, "value"), kind, expected);
}

static const cJSON *spans_of(const cJSON *message)
{
    return member(only(only(message, "resourceSpans"), "scopeSpans"), "spans");
}

TD_TEST(the_resource_and_the_scope_say_what_it_is)
{
    int n;
    struct td_span *span = span_of(&root);
    cJSON *message = write_all(span, TD_OTLP_LEAST, &n);
    const cJSON *of = only(message, "resourceSpans");
    check_attribute(member(of, "resource"), 0, "service.name", "stringValue", "tensord");
    check_attribute(member(of, "resource"), 1, "service.version", "stringValue", "1.2.3");
    check_attribute(member(of, "resource"), 2, "service.instance.id", "stringValue", "the-id");
    check_text(member(only(of, "scopeSpans"), "scope"), "name", "tensord");
    ck_assert_int_eq(n, 1);
    cJSON_Delete(message);
    td_span_free(span);
}

TD_TEST(ids_are_hexadecimal_times_are_strings_and_enums_are_numbers)
{
    int n;
    struct td_span *span = span_of(&root);
    td_span_text(span, "url.path", "/v1/gather", 100);
    td_span_number(span, "http.response.status_code", 200);
    cJSON *message = write_all(span, TD_OTLP_LEAST, &n);
    const cJSON *written = cJSON_GetArrayItem(spans_of(message), 0);
    check_text(written, "traceId", TRACE);
    check_text(written, "spanId", SPAN);
    check_text(written, "name", "POST /v1/{op}");
    check_text(written, "startTimeUnixNano", "1700000000123456789");
    check_text(written, "endTimeUnixNano", "1700000000123999999");
    ck_assert_int_eq(member(written, "kind")->valueint, 2);
    ck_assert_int_eq(member(written, "flags")->valueint, 0x101);
    check_attribute(written, 0, "url.path", "stringValue", "/v1/gather");
    check_attribute(written, 1, "http.response.status_code", "intValue", "200");
    ck_assert_ptr_null(cJSON_GetObjectItem(written, "parentSpanId"));
    ck_assert_ptr_null(cJSON_GetObjectItem(written, "traceState"));
    ck_assert_ptr_null(cJSON_GetObjectItem(written, "status"));
    cJSON_Delete(message);
    td_span_free(span);
}

TD_TEST(a_failed_request_of_a_trace_has_status_parent_and_state)
{
    int n;
    const struct td_span_ids ids = {
        .trace_id = TRACE, .span_id = SPAN, .parent_id = "b7ad6b7169203331", .remote = true
    };
    struct td_span *span = span_of(&ids);
    span->state = "vendor=\"x\"";
    span->failed = true;
    span->reason = "no memory";
    cJSON *message = write_all(span, TD_OTLP_LEAST, &n);
    const cJSON *written = cJSON_GetArrayItem(spans_of(message), 0);
    check_text(written, "parentSpanId", "b7ad6b7169203331");
    check_text(written, "traceState", "vendor=\"x\"");
    ck_assert_int_eq(member(written, "flags")->valueint, 0x301);
    ck_assert_int_eq(member(member(written, "status"), "code")->valueint, 2);
    check_text(member(written, "status"), "message", "no memory");
    cJSON_Delete(message);
    td_span_free(span);
}

TD_TEST(stages_are_children)
{
    int n;
    struct td_span *span = span_of(&root);
    td_span_stage(span, "decode", 5, 7);
    td_span_stage(span, "queue", 7, 7); /* no time: none */
    td_span_stage(span, "compute", 8, 9);
    ck_assert_int_eq(td_span_count(span), 3);
    cJSON *message = write_all(span, TD_OTLP_LEAST, &n);
    ck_assert_int_eq(cJSON_GetArraySize(spans_of(message)), 3);
    const cJSON *decode = cJSON_GetArrayItem(spans_of(message), 1);
    const cJSON *compute = cJSON_GetArrayItem(spans_of(message), 2);
    check_text(decode, "name", "decode");
    check_text(decode, "traceId", TRACE);
    check_text(decode, "parentSpanId", SPAN);
    check_text(decode, "startTimeUnixNano", "5");
    check_text(decode, "endTimeUnixNano", "7");
    ck_assert_int_eq(member(decode, "kind")->valueint, 1);
    check_text(compute, "name", "compute");
    ck_assert_str_ne(member(decode, "spanId")->valuestring, member(compute, "spanId")->valuestring);
    cJSON_Delete(message);
    td_span_free(span);
}

TD_TEST(texts_of_any_bytes_are_json)
{
    int n;
    char any[256];
    struct td_span *span = span_of(&root);
    for (int i = 0; i < 255; i++)
        any[i] = (char)(i + 1);
    any[255] = '\0';
    td_span_text(span, "user_agent.original", any, sizeof any);
    cJSON *message = write_all(span, TD_OTLP_LEAST, &n);
    const cJSON *written = cJSON_GetArrayItem(spans_of(message), 0);
    const cJSON *value = member(cJSON_GetArrayItem(member(written, "attributes"), 0), "value");
    const char *text = member(value, "stringValue")->valuestring;
    ck_assert_int_eq(memcmp(text, any, 127), 0); /* ASCII, control characters included */
    ck_assert_int_eq(memcmp(text + 127, "\xef\xbf\xbd", 3), 0);
    cJSON_Delete(message);
    td_span_free(span);
}

TD_TEST(long_texts_are_shortened_and_those_without_room_left_out)
{
    static char text[TD_SPAN_TEXTS + 1];
    struct td_span *span = span_of(&root);
    memset(text, 'x', sizeof text - 1);
    td_span_text(span, "short", text, 5);
    ck_assert_str_eq(span->attributes[0].text, "xxxxx");
    td_span_text(span, "whole", text, sizeof text);
    ck_assert_int_eq(span->n_attributes, 1);
    td_span_text(span, "none", "", 5);
    td_span_text(span, "null", NULL, 5);
    ck_assert_int_eq(span->n_attributes, 1);
    for (int i = 0; i < 2 * TD_SPAN_ATTRIBUTES; i++)
        td_span_number(span, "n", i);
    ck_assert_int_eq(span->n_attributes, TD_SPAN_ATTRIBUTES);
    for (int i = 0; i < 2 * TD_SPAN_STAGES; i++)
        td_span_stage(span, "stage", 1, 2);
    ck_assert_int_eq(span->n_stages, TD_SPAN_STAGES);
    td_span_free(span);
}

/* Each byte of its texts takes six in JSON. */
static struct td_span *longest_span(void)
{
    static char text[TD_SPAN_TEXTS];
    struct td_span *span = span_of(&root);
    memset(text, '\x01', sizeof text - 1);
    for (int i = 0; i < TD_SPAN_ATTRIBUTES; i++)
        td_span_text(span, "http.request.method_original", text,
                     TD_SPAN_TEXTS / TD_SPAN_ATTRIBUTES - 1);
    for (int i = 0; i < TD_SPAN_STAGES; i++)
        td_span_stage(span, "compute", INT64_MAX - 1, INT64_MAX);
    ck_assert_int_eq(span->n_attributes, TD_SPAN_ATTRIBUTES);
    span->begun_ns = span->ended_ns = INT64_MAX;
    return span;
}

TD_TEST(the_longest_span_fits_in_the_least_room)
{
    int n;
    struct td_span *span = longest_span();
    cJSON *message = write_all(span, TD_OTLP_LEAST, &n);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(cJSON_GetArraySize(spans_of(message)), 1 + TD_SPAN_STAGES);
    cJSON_Delete(message);
    td_span_free(span);
}

TD_TEST(what_does_not_fit_is_left_for_the_next_message)
{
    enum { SPANS = 5 };
    int n, written = 0;
    struct td_span *spans[SPANS];
    for (int i = 0; i < SPANS; i++) {
        spans[i] = longest_span();
        if (i > 0)
            spans[i - 1]->next = spans[i];
    }
    while (written < SPANS) {
        cJSON *message = write_all(spans[written], 2 * TD_OTLP_LEAST, &n);
        ck_assert_int_ge(n, 1);
        ck_assert_int_lt(n, SPANS);
        ck_assert_int_eq(cJSON_GetArraySize(spans_of(message)), n * (1 + TD_SPAN_STAGES));
        cJSON_Delete(message);
        written += n;
    }
    ck_assert_int_eq(written, SPANS);
    for (int i = 0; i < SPANS; i++)
        td_span_free(spans[i]);
}

static const struct {
    const char *reply;
    int64_t rejected;
} replies[] = {
    { "", 0 },
    { "{}", 0 },
    { "no json", 0 },
    { "[]", 0 },
    { "{\"partialSuccess\":null}", 0 },
    { "{\"partialSuccess\":{}}", 0 },
    { "{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"x\"}}", 3 },
    { "{\"partialSuccess\":{\"rejectedSpans\":3}}", 3 },
    { "{\"partialSuccess\":{\"rejectedSpans\":\"-3\"}}", 0 },
    { "{\"partialSuccess\":{\"rejectedSpans\":\"99999999999999999999\"}}", INT64_MAX },
    { "{\"partialSuccess\":{\"rejectedSpans\":{}}}", 0 },
};

TD_TEST_LOOP(a_reply_says_how_many_spans_were_rejected, 0, (int)(sizeof replies / sizeof *replies))
{
    const size_t length = strlen(replies[_i].reply);
    char *reply = malloc(length + 1); /* without a NUL: sanitizers see a read beyond */
    ck_assert_ptr_nonnull(reply);
    memcpy(reply, replies[_i].reply, length);
    ck_assert_int_eq(td_otlp_rejected(reply, length), replies[_i].rejected);
    free(reply);
}
