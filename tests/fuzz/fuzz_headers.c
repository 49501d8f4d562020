/* fuzz_headers.c - request headers and targets that the daemon parses itself.
 *
 * Input    A byte that selects the parser; the text. Where a parser takes two texts, a line feed
 *          separates them. */
#include "api/files/range.h"
#include "api/media_type.h"
#include "server/compression/deflate.h"
#include "server/http/origin.h"
#include "server/http/proxies.h"
#include "server/http/target.h"
#include "server/observe/trace_context.h"
#include "server/store/etag.h"
#include "server/store/precondition.h"
#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Text of a header, which the HTTP library ends with a NUL. */
struct text {
    const char *text;
    size_t length;
};

static void range(struct text text)
{
    static const char body[] = "0123456789abcdefghij";
    const size_t size = sizeof body - 1;
    struct td_arena *arena = fuzz_arena_open();
    struct td_reply reply = { 0 };
    struct td_error err = { .offset = -1 };
    size_t sent;
    td_reply_set(&reply, 200, "text/plain", body, 7);
    reply.own[1] = (struct td_chunk){ body + 7, size - 7 };
    reply.n_chunks = 2;
    const td_status status = td_range_apply(text.text, &reply, arena, &err);
    if (status == TD_OK) {
        char *part = fuzz_reply(&reply, size, &sent);
        size_t first = 0, last = size - 1;
        if (reply.http_status == 206)
            REQUIRE(sscanf(reply.headers[1].value, "bytes %zu-%zu/20", &first, &last) == 2, "%s",
                    reply.headers[1].value);
        REQUIRE(first <= last && last < size && sent == last - first + 1 &&
                    memcmp(part, body + first, sent) == 0,
                "%zu bytes of %zu-%zu", sent, first, last);
        free(part);
    } else {
        REQUIRE(status == TD_RANGE_NOT_SATISFIABLE, "%s", err.message);
        fuzz_expect_error(&err, status, text.length);
    }
    fuzz_arena_close(arena);
}

static void media(struct text text)
{
    const unsigned all = TD_FORMAT_BIT(JSON) | TD_FORMAT_BIT(SAFETENSORS) | TD_FORMAT_BIT(NPY);
    for (unsigned formats = TD_FORMAT_BIT(JSON); formats <= all; formats += 2) { /* with JSON */
        struct td_error err = { .offset = -1 };
        td_format format;
        td_status status = td_media_of_body(text.text, formats, &format, &err);
        REQUIRE(status != TD_OK || (formats & 1u << format), "format %d", (int)format);
        if (status != TD_OK)
            fuzz_expect_error(&err, status, text.length);
        err = (struct td_error){ .offset = -1 };
        status = td_media_of_reply(text.text, formats, TD_FORMAT_JSON, &format, &err);
        REQUIRE(status != TD_OK || (formats & 1u << format), "format %d", (int)format);
        if (status != TD_OK)
            fuzz_expect_error(&err, status, text.length);
    }
}

/* Requires elements in order, and each within the text. */
static void preferences(struct text text)
{
    const char *list = text.text, *end = text.text + text.length, *before = list;
    struct td_preference one;
    for (size_t n = 0; td_preference_next(&list, end, &one); n++) {
        REQUIRE(n <= text.length, "more elements than bytes");
        REQUIRE(one.weight >= 0 && one.weight <= 1000, "weight %d", one.weight);
        REQUIRE(one.name.length == 0 ||
                    (one.name.text >= before && one.name.text + one.name.length <= end &&
                     (!memchr(one.name.text, ',', one.name.length) ||
                      memchr(one.name.text, '"', one.name.length))), /* a comma in quotes */
                "the name of element %zu", n);
        before = one.name.length ? one.name.text + one.name.length : before;
    }
    const td_encoding encoding = td_deflate_choose(text.text);
    REQUIRE(encoding == TD_ENCODING_NONE || strchr(text.text, '*') ||
                strcasestr(text.text, td_encoding_name(encoding)),
            "%s", td_encoding_name(encoding));
}

/* A list of tags contains a tag only if the tag, with its quotes, is in the text. */
static void tags(struct text text)
{
    static const char *const etags[] = { "\"abc\"", NULL };
    for (int i = 0; i < 4; i++) {
        struct td_error err = { .offset = -1 };
        const char *etag = etags[i / 2];
        const bool weak = i % 2;
        bool listed;
        const td_status status =
            td_etag_listed("If-None-Match", text.text, etag, weak, &listed, &err);
        if (status != TD_OK) {
            REQUIRE(status == TD_MALFORMED_REQUEST, "%s", err.message);
            fuzz_expect_error(&err, status, text.length);
            continue;
        }
        REQUIRE(!listed || (etag && (strstr(text.text, etag) || strchr(text.text, '*'))),
                "%s is listed", etag ? etag : "no tag");
        const struct td_condition condition = { .if_match = i < 2 ? text.text : NULL,
                                                .if_none_match = i < 2 ? NULL : text.text };
        const td_status checked = td_condition_check(&condition, "t", etag, &err);
        REQUIRE(checked == TD_OK || checked == TD_PRECONDITION_FAILED, "%s", err.message);
        if (checked != TD_OK)
            fuzz_expect_error(&err, checked, text.length);
    }
}

static void trace(struct text text)
{
    struct td_trace_context context;
    const bool valid = td_trace_context_read(text.text, &context);
    REQUIRE(strlen(context.trace_id) == (valid ? TD_TRACE_ID_DIGITS : 0), "%s", context.trace_id);
    REQUIRE(strlen(context.span_id) == (valid ? TD_SPAN_ID_DIGITS : 0), "%s", context.span_id);
    REQUIRE(!valid || (strncmp(text.text + 3, context.trace_id, TD_TRACE_ID_DIGITS) == 0 &&
                       strspn(context.trace_id, "0123456789abcdef") == TD_TRACE_ID_DIGITS &&
                       strspn(context.trace_id, "0") < TD_TRACE_ID_DIGITS &&
                       strspn(context.span_id, "0") < TD_SPAN_ID_DIGITS),
            "%s", text.text);
    if (!td_trace_state_is_valid(text.text))
        return;
    REQUIRE(text.length <= TD_TRACE_STATE && strchr(text.text, '='), "%s", text.text);
    for (size_t i = 0; i < text.length; i++)
        REQUIRE(text.text[i] == '\t' || (text.text[i] >= ' ' && text.text[i] <= '~'), "byte %d",
                text.text[i]);
}

/* Requires a host that belongs to this machine, in the forms that browsers send. */
static void expect_local(struct td_field host)
{
    char copy[300] = "";
    struct in_addr address;
    REQUIRE(host.length < sizeof copy, "a host of %zu bytes", host.length);
    memcpy(copy, host.text, host.length);
    if (copy[0] != '[')
        copy[strcspn(copy, ":")] = '\0';
    size_t length = strlen(copy);
    if (length > 0 && copy[length - 1] == '.')
        copy[--length] = '\0';
    const bool name = strcasecmp(copy, "localhost") == 0 ||
                      (length > 10 && strcasecmp(copy + length - 10, ".localhost") == 0);
    const bool ipv4 = inet_pton(AF_INET, copy, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
    REQUIRE(name || ipv4 || copy[0] == '[' || strcasecmp(copy, "ok.example") == 0,
            "'%s' is not local", copy);
}

static struct td_field field_of(struct text text)
{
    return (struct td_field){ text.text, text.length };
}

/* Host, a line feed, Origin. */
static void origins(struct text text)
{
    static const char allowed[] = "https://app.example";
    char message[256];
    struct td_origins *list = td_origins_new(allowed, "ok.example", message, sizeof message);
    const char *feed = memchr(text.text, '\n', text.length);
    const size_t host = feed ? (size_t)(feed - text.text) : text.length;
    struct td_origin_request request = { .host = { text.text, host }, .loopback = true };
    struct td_error err = { .offset = -1 };
    bool listed;
    REQUIRE(list, "%s", message);
    if (feed)
        request.origin = (struct td_field){ feed + 1, text.length - host - 1 };
    const td_status status = td_origin_check(list, &request, &listed, &err);
    REQUIRE(status == TD_OK || status == TD_FORBIDDEN, "%s", err.message);
    REQUIRE(!listed || strncasecmp(request.origin.text, allowed, strlen(allowed)) == 0, "listed");
    if (status == TD_OK)
        expect_local(request.host);
    else
        fuzz_expect_error(&err, status, text.length);
    td_origins_free(list);
    list = td_origins_new(text.text, text.text, message, sizeof message);
    REQUIRE(list || strlen(message) > 8, "no message");
    td_origins_free(list);
}

/* A list of proxies, a line feed, X-Forwarded-For. */
static void proxies(struct text text)
{
    char message[256], *copy = fuzz_copy((const uint8_t *)text.text, text.length, 1);
    copy[text.length] = '\0';
    char *feed = strchr(copy, '\n');
    if (feed)
        *feed = '\0';
    struct td_proxies *list = td_proxies_new(copy, message, sizeof message);
    REQUIRE(list || strlen(message) > 8, "no message");
    if (list && feed) {
        struct td_forwarded client = { 0 };
        struct td_sender_text shown;
        if (td_proxies_client(list, feed + 1, &client)) {
            td_sender_print(&(struct td_sender){ .forwarded = client }, &shown);
            REQUIRE(client.known && shown.forwarded[0], "no client");
        }
    }
    td_proxies_free(list);
    free(copy);
}

/* Percent-decoding never makes a text longer, and keeps a text without '%'. */
static void target(struct text text)
{
    struct td_arena *arena = fuzz_arena_open();
    struct td_error err = { .offset = -1 };
    struct td_target found;
    td_status status = td_target_read("GET", text.text, &found, &err);
    if (status == TD_OK)
        REQUIRE(found.path[0] == '/' &&
                    (!found.authority.text || td_origin_is_authority(found.authority)),
                "%s", found.path);
    else
        fuzz_expect_error(&err, status, text.length);
    const char *decoded = text.text;
    size_t length = text.length;
    err = (struct td_error){ .offset = -1 };
    status = td_target_decode_segment(&decoded, &length, arena, &err);
    if (status == TD_OK) {
        const char *percent = strchr(text.text, '%');
        REQUIRE(length <= text.length && !memchr(decoded, '\0', length), "%zu bytes", length);
        REQUIRE(percent || (length == text.length && memcmp(decoded, text.text, length) == 0),
                "it has changed");
    } else {
        REQUIRE(status == TD_MALFORMED_REQUEST, "%s", err.message);
        fuzz_expect_error(&err, status, text.length);
    }
    (void)td_origin_is_authority(field_of(text));
    fuzz_arena_close(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parsers[])(struct text) = { range, media,   preferences, tags,
                                                    trace, origins, proxies,     target };
    const uint8_t choice = fuzz_byte(&data, &size);
    char *copy = fuzz_copy(data, size, 1);
    copy[size] = '\0';
    parsers[choice % (sizeof parsers / sizeof *parsers)]((struct text){ copy, strlen(copy) });
    free(copy);
    return 0;
}
