#include "server/http/headers.h"

#include "api/oip/oip.h"
#include "kernels/op_change.h"
#include "kernels/shown_text.h"
#include "server/calls/services.h"
#include "server/observe/clock.h"

#include <errno.h>
#include <microhttpd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Headers that are checked in this file and not stored in the call. */
struct header_fields {
    struct td_call *call;
    /* Header that was repeated although it is allowed only once. */
    const char *repeated;
    /* Bit i is set if place i holds a list that was sent in several lines. */
    unsigned lists;
    struct td_field host, content_length, transfer_encoding;
    struct td_field request_id, inference_header;
    struct td_field origin, sec_fetch_site, preflight_method, content_range;
};

/* Meaning of repeated lines with the same header. */
enum repetition {
    ONCE, /* repeating the header is an error */
    LAST, /* only the last line is used */
    LIST, /* the lines form one list (RFC 9110, section 5.3) */
    VOID  /* all lines are ignored */
};

/* Place where the value of a header is stored. */
struct header_place {
    const char *name;
    size_t length;
    /* Offset of the value: a string in struct td_headers, or a field in struct header_fields. */
    size_t offset;
    bool in_fields;
    enum repetition repetition;
};

/* The table is constant and has known lengths, because every header of every request is looked up
 * in it. */
#define PLACE(text, type, member, in_fields, repetition)                                           \
    {                                                                                              \
        text, sizeof(text) - 1, offsetof(type, member), in_fields, repetition                      \
    }
#define TO_CALL(text, member, repetition) PLACE(text, struct td_headers, member, false, repetition)
#define TO_FIELDS(text, member, repetition)                                                        \
    PLACE(text, struct header_fields, member, true, repetition)

static const struct header_place places[] = {
    TO_FIELDS("Host", host, ONCE),
    TO_CALL("Content-Type", content_type, ONCE),
    TO_FIELDS("Content-Length", content_length, ONCE),
    TO_CALL("Accept", accept, LIST),
    TO_CALL("Accept-Encoding", accept_encoding, LIST),
    TO_FIELDS("Transfer-Encoding", transfer_encoding, ONCE),
    TO_CALL("Authorization", authorization, ONCE),
    TO_CALL("Content-Encoding", content_encoding, ONCE),
    TO_FIELDS("X-Request-Id", request_id, LAST),
    TO_CALL("X-Request-Timeout-Ms", timeout_ms, ONCE),
    TO_CALL("traceparent", traceparent, VOID),
    TO_CALL("If-Match", if_match, LIST),
    TO_CALL("If-None-Match", if_none_match, LIST),
    TO_CALL("Range", range, ONCE),
    TO_CALL("If-Range", if_range, ONCE),
    TO_CALL("Expect", expect, LAST),
    TO_CALL("X-Forwarded-For", forwarded_for, LIST),
    TO_FIELDS("Inference-Header-Content-Length", inference_header, ONCE),
    TO_FIELDS("Origin", origin, ONCE),
    TO_FIELDS("Sec-Fetch-Site", sec_fetch_site, ONCE),
    TO_FIELDS("Access-Control-Request-Method", preflight_method, ONCE),
    TO_FIELDS("Content-Range", content_range, LAST),
};

#undef TO_FIELDS
#undef TO_CALL
#undef PLACE

/* Returns the string of a place in the call's headers. */
static const char **text_at(struct td_call *call, const struct header_place *place)
{
    return (const char **)(void *)((char *)&call->headers + place->offset);
}

_Static_assert(sizeof places / sizeof *places <= 32, "a bit of lists for each place");

/* Sets a header's value. Returns true if the value was already set. */
static bool place_header(const struct header_place *place, struct header_fields *fields,
                         const char *value, size_t length)
{
    if (place->in_fields) {
        struct td_field *field = (struct td_field *)(void *)((char *)fields + place->offset);
        const bool before = field->text != NULL;
        *field = (struct td_field){ value, length };
        return before;
    }
    const char **text = text_at(fields->call, place);
    const bool before = *text != NULL;
    *text = value;
    return before;
}

static bool is_place(const struct header_place *place, const char *name, size_t length)
{
    return place->length == length && strncasecmp(name, place->name, length) == 0;
}

static const struct header_place *place_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (is_place(&places[i], name, length))
            return &places[i];
    return NULL;
}

static enum MHD_Result visit_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    size_t length, const char *value, size_t value_length)
{
    struct header_fields *fields = context;
    const struct header_place *place = place_of(name, length);
    (void)kind;
    if (!place || !place_header(place, fields, value ? value : "", value ? value_length : 0))
        return MHD_YES;
    if (place->repetition == ONCE)
        fields->repeated = place->name;
    if (place->repetition == LIST)
        fields->lists |= 1U << (place - places);
    if (place->repetition == VOID)
        *text_at(fields->call, place) = "";
    return MHD_YES;
}

/* Lines of a list, joined by commas. */
struct joined {
    const struct header_place *place;
    char *text; /* buffer, or NULL to compute only `bytes` */
    size_t bytes;
};

static enum MHD_Result append_line(void *context, enum MHD_ValueKind kind, const char *name,
                                   size_t length, const char *value, size_t value_length)
{
    struct joined *joined = context;
    (void)kind;
    if (!value || !is_place(joined->place, name, length))
        return MHD_YES;
    if (joined->text) {
        memcpy(joined->text + joined->bytes, value, value_length);
        joined->text[joined->bytes + value_length] = ',';
    }
    joined->bytes += value_length + 1;
    return MHD_YES;
}

/* Joins the lines of each list that was sent in several lines. Measures the lines first, so the
 * arena allocates no more than the joined list needs. */
static td_status join_lists(struct header_fields *fields)
{
    struct td_call *call = fields->call;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct joined joined = { .place = &places[i] };
        if (!(fields->lists >> i & 1))
            continue;
        MHD_get_connection_values_n(call->http.connection, MHD_HEADER_KIND, append_line, &joined);
        joined.text = td_arena_alloc(&call->arena, joined.bytes + 1, 1, &call->error);
        if (!joined.text)
            return call->error.status;
        joined.bytes = 0;
        MHD_get_connection_values_n(call->http.connection, MHD_HEADER_KIND, append_line, &joined);
        joined.text[joined.bytes > 0 ? joined.bytes - 1 : 0] = '\0'; /* overwrites the last comma */
        *text_at(call, &places[i]) = joined.text;
    }
    return TD_OK;
}

/* Uses the client's request ID if it is short and printable, and generates an ID otherwise. */
static void choose_request_id(struct td_call *call, struct td_field given)
{
    bool plain = given.length > 0 && given.length < TD_REQUEST_ID_SIZE;
    for (size_t i = 0; plain && i < given.length; i++)
        plain = given.text[i] > ' ' && given.text[i] < 0x7f && given.text[i] != '"' &&
                given.text[i] != '\\';
    if (plain) {
        memcpy(call->request_id, given.text, given.length);
        call->request_id[given.length] = '\0';
        return;
    }
    td_request_id_make(call->services, call->request_id);
}

static td_status refuse_header(struct td_error *err, td_status status, const char *name,
                               const char *sentence)
{
    td_error_set(err, status, "%s", sentence);
    return td_error_at_attribute(err, status, name);
}

static td_status refuse_timeout(const char *text, struct td_error *err)
{
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "X-Request-Timeout-Ms is '%s'; expected a whole number of milliseconds, from 1 to "
                 "86400000",
                 TD_SHOWN(text, strlen(text)));
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, "X-Request-Timeout-Ms");
}

static td_status read_deadline(struct td_call *call)
{
    const char *text = call->headers.timeout_ms;
    int64_t ms = call->services->config.default_timeout_ms;
    if (text) {
        char *end;
        errno = 0;
        ms = strtoll(text, &end, 10);
        if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || ms < 1 ||
            ms > 86400000)
            return refuse_timeout(text, &call->error);
    }
    call->schedule.deadline_ns = ms > 0 ? call->times.begun + ms * 1000000 : TD_NEVER;
    return TD_OK;
}

/* Refuses ambiguous framing. libmicrohttpd does this in its strict mode, but this check does not
 * depend on it. */
static td_status check_framing(struct header_fields *fields)
{
    struct td_call *call = fields->call;
    char sentence[128];
    const char *at_fault = fields->repeated;
    if (!at_fault && fields->content_length.text && fields->transfer_encoding.text)
        at_fault = "Content-Length";
    if (!at_fault)
        return TD_OK;
    /* The client, or a proxy in front of it, might disagree about where this request ends, so the
     * connection accepts no more requests. */
    call->http.close_connection = true;
    if (fields->repeated)
        snprintf(sentence, sizeof sentence, "duplicate header %s", fields->repeated);
    else
        snprintf(sentence, sizeof sentence,
                 "the request has both Content-Length and Transfer-Encoding; expected only one");
    return refuse_header(&call->error, TD_MALFORMED_REQUEST, at_fault, sentence);
}

/* Refuses Content-Range, because a body with this header is only part of the content (RFC 9110,
 * section 14.5). */
static td_status check_whole_body(const struct header_fields *fields)
{
    struct td_call *call = fields->call;
    const bool reads = strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0;
    if (!fields->content_range.text || reads)
        return TD_OK;
    td_error_set(&call->error, TD_MALFORMED_REQUEST,
                 "Content-Range is '%s', but partial bodies are not supported; send the whole body "
                 "without Content-Range",
                 TD_SHOWN(fields->content_range.text, fields->content_range.length));
    if (strcmp(call->method, "PUT") == 0)
        td_error_hint(&call->error,
                      "use POST /v1/tensors/{name}/%s to change some rows of a tensor",
                      td_row_writer->name);
    return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, "Content-Range");
}

/* Reads Inference-Header-Content-Length, which has a meaning only under /v2. */
static td_status read_inference_header(struct td_call *call, const char *text)
{
    return call->style == TD_STYLE_OIP
               ? td_oip_header_length(text, &call->headers.inference_header, &call->error)
               : TD_OK;
}

/* Checks the origin of a request. A refused request is answered before its body arrives, and its
 * connection is then closed, because a client that does not use Expect: 100-continue is already
 * sending the body. */
static td_status check_origin(const struct td_origins *origins, bool loopback,
                              const struct header_fields *fields)
{
    struct td_call *call = fields->call;
    const struct td_origin_request request = { .host = fields->host,
                                               .origin = fields->origin,
                                               .sec_fetch_site = fields->sec_fetch_site,
                                               .loopback = loopback,
                                               .page =
                                                   td_origin_is_page(call->method, call->path) };
    bool listed;
    const td_status status = td_origin_check(origins, &request, &listed, &call->error);
    if (listed)
        call->http.origin = fields->origin.text;
    if (status != TD_OK && (call->headers.chunked || call->headers.content_length > 0))
        call->http.close_connection = true;
    if (status == TD_OK && listed && fields->preflight_method.text)
        call->http.preflight = strcmp(call->method, "OPTIONS") == 0;
    return status;
}

td_status td_headers_read(struct td_call *call, const struct td_origins *origins, bool loopback,
                          struct td_field authority)
{
    struct header_fields fields = { .call = call };
    MHD_get_connection_values_n(call->http.connection, MHD_HEADER_KIND, visit_header, &fields);
    if (authority.text)
        fields.host = authority;
    choose_request_id(call, fields.request_id);
    call->headers.chunked = fields.transfer_encoding.text != NULL;
    call->headers.content_length =
        fields.content_length.text ? strtoll(fields.content_length.text, NULL, 10) : -1;
    td_status status = check_framing(&fields);
    if (status == TD_OK)
        status = join_lists(&fields);
    if (status == TD_OK)
        status = origins ? check_origin(origins, loopback, &fields) : TD_OK;
    if (status == TD_OK)
        status = read_deadline(call);
    if (status == TD_OK)
        status = check_whole_body(&fields);
    if (status == TD_OK)
        status = read_inference_header(call, fields.inference_header.text);
    return status;
}
