#include "server/http/headers.h"

#include "api/oip/oip.h"
#include "server/calls/services.h"
#include "server/observe/clock.h"

#include <errno.h>
#include <microhttpd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Headers that are checked here and not stored in the call. */
struct header_fields {
    struct td_call *call;
    const char *repeated; /* a header that may be given once but was repeated */
    struct td_field host, content_length, transfer_encoding, authorization;
    struct td_field request_id, inference_header;
    struct td_field origin, sec_fetch_site, sec_fetch_mode, preflight_method;
};

/* Where the value of a header is stored. The last value of a repeatable header counts. */
struct header_place {
    const char *name;
    size_t length;
    size_t
        offset; /* of the value: a text in struct td_headers, or a field in struct header_fields */
    bool in_fields;
    bool repeatable;
};

/* A constant table with known lengths, since it is searched for every header of every request. */
#define PLACE(text, type, member, in_fields, repeatable)                                           \
    {                                                                                              \
        text, sizeof(text) - 1, offsetof(type, member), in_fields, repeatable                      \
    }
#define TO_CALL(text, member, repeatable) PLACE(text, struct td_headers, member, false, repeatable)
#define TO_FIELDS(text, member, repeatable)                                                        \
    PLACE(text, struct header_fields, member, true, repeatable)

static const struct header_place places[] = {
    TO_FIELDS("Host", host, false),
    TO_CALL("Content-Type", content_type, false),
    TO_FIELDS("Content-Length", content_length, false),
    TO_CALL("Accept", accept, true),
    TO_CALL("Accept-Encoding", accept_encoding, true),
    TO_FIELDS("Transfer-Encoding", transfer_encoding, false),
    TO_FIELDS("Authorization", authorization, false),
    TO_CALL("Content-Encoding", content_encoding, false),
    TO_FIELDS("X-Request-Id", request_id, true),
    TO_CALL("X-Request-Timeout-Ms", timeout_ms, false),
    TO_CALL("traceparent", traceparent, true),
    TO_CALL("If-Match", if_match, false),
    TO_CALL("If-None-Match", if_none_match, false),
    TO_CALL("Range", range, false),
    TO_CALL("If-Range", if_range, false),
    TO_CALL("Expect", expect, true),
    TO_FIELDS("Inference-Header-Content-Length", inference_header, false),
    TO_FIELDS("Origin", origin, false),
    TO_FIELDS("Sec-Fetch-Site", sec_fetch_site, false),
    TO_FIELDS("Sec-Fetch-Mode", sec_fetch_mode, false),
    TO_FIELDS("Access-Control-Request-Method", preflight_method, false),
};

#undef TO_FIELDS
#undef TO_CALL
#undef PLACE

/* Sets a header's value. Returns whether it was set before. */
static bool place_header(const struct header_place *place, struct header_fields *fields,
                         const char *value, size_t length)
{
    if (place->in_fields) {
        struct td_field *field = (struct td_field *)(void *)((char *)fields + place->offset);
        const bool before = field->text != NULL;
        *field = (struct td_field){ value, length };
        return before;
    }
    const char **text = (const char **)(void *)((char *)&fields->call->headers + place->offset);
    const bool before = *text != NULL;
    *text = value;
    return before;
}

static enum MHD_Result visit_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    size_t length, const char *value, size_t value_length)
{
    struct header_fields *fields = context;
    (void)kind;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct header_place *place = &places[i];
        if (place->length != length || strncasecmp(name, place->name, length) != 0)
            continue;
        if (place_header(place, fields, value ? value : "", value ? value_length : 0) &&
            !place->repeatable)
            fields->repeated = place->name;
    }
    return MHD_YES;
}

/* Echoes the client's id when it is short and printable; else makes one. */
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
    const uint64_t number =
        atomic_fetch_add_explicit(&call->services->next_request, 1, memory_order_relaxed);
    /* An odd factor makes it a bijection, so ids repeat only when the counter does. */
    uint64_t id = (number + call->services->request_seed) * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 16; i++, id >>= 4)
        call->request_id[i] = "0123456789abcdef"[id & 15];
    call->request_id[16] = '\0';
}

static td_status refuse_header(struct td_error *err, td_status status, const char *name,
                               const char *sentence)
{
    td_error_set(err, status, "%s", sentence);
    return td_error_at_attribute(err, status, name);
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
            return refuse_header(&call->error, TD_MALFORMED_REQUEST, "X-Request-Timeout-Ms",
                                 "X-Request-Timeout-Ms is not a whole number from 1 to 86400000");
    }
    call->deadline_ns = ms > 0 ? call->times.begun + ms * 1000000 : TD_NEVER;
    return TD_OK;
}

/* libmicrohttpd refuses ambiguous framing in its strict mode; this check does not depend on it. */
static td_status check_framing(struct header_fields *fields)
{
    struct td_call *call = fields->call;
    char sentence[128];
    const char *at_fault = fields->repeated;
    if (!at_fault && fields->content_length.text && fields->transfer_encoding.text)
        at_fault = "Content-Length";
    if (!at_fault)
        return TD_OK;
    /* The client, or a proxy before it, may disagree about where this request ends, so no other
     * request is accepted on the connection. */
    call->close_connection = true;
    if (fields->repeated)
        snprintf(sentence, sizeof sentence, "duplicate header %s", fields->repeated);
    else
        snprintf(sentence, sizeof sentence,
                 "the request has both Content-Length and Transfer-Encoding; one is expected");
    return refuse_header(&call->error, TD_MALFORMED_REQUEST, at_fault, sentence);
}

/* The header has a meaning only under /v2. */
static td_status read_inference_header(struct td_call *call, const char *text)
{
    return call->style == TD_STYLE_OIP
               ? td_oip_header_length(text, &call->headers.inference_header, &call->error)
               : TD_OK;
}

/* A refused request is answered before its body. The connection closes then, since a client that
 * does not use Expect: 100-continue is already sending the body. */
static td_status check_origin(const struct td_origins *origins, const struct header_fields *fields)
{
    struct td_call *call = fields->call;
    const struct td_origin_request request = { .method = call->method,
                                               .path = call->path,
                                               .host = fields->host,
                                               .origin = fields->origin,
                                               .sec_fetch_site = fields->sec_fetch_site,
                                               .sec_fetch_mode = fields->sec_fetch_mode };
    bool listed;
    const td_status status = td_origin_check(origins, &request, &listed, &call->error);
    if (listed)
        call->origin = fields->origin.text;
    if (status != TD_OK && (call->headers.chunked || call->headers.content_length > 0))
        call->close_connection = true;
    if (status == TD_OK && listed && fields->preflight_method.text)
        call->preflight = strcmp(call->method, "OPTIONS") == 0;
    return status;
}

td_status td_headers_read(struct td_call *call, const struct td_origins *origins,
                          struct td_field authority)
{
    struct header_fields fields = { .call = call };
    MHD_get_connection_values_n(call->connection, MHD_HEADER_KIND, visit_header, &fields);
    if (authority.text)
        fields.host = authority;
    choose_request_id(call, fields.request_id);
    call->headers.chunked = fields.transfer_encoding.text != NULL;
    call->headers.content_length =
        fields.content_length.text ? strtoll(fields.content_length.text, NULL, 10) : -1;
    td_status status = check_framing(&fields);
    if (status == TD_OK)
        status = check_origin(origins, &fields);
    if (status == TD_OK)
        status = read_deadline(call);
    if (status == TD_OK)
        status = read_inference_header(call, fields.inference_header.text);
    return status;
}
