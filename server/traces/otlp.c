#include "server/traces/otlp.h"

#include <cjson/cJSON.h>

#include <stdlib.h>
#include <string.h>

/* Constants from opentelemetry/proto/trace/v1/trace.proto. */
enum { SPAN_KIND_INTERNAL = 1, SPAN_KIND_SERVER = 2, STATUS_CODE_ERROR = 2 };

/* The W3C flag `sampled`, the bit that marks the next bit as valid, and the bit for a remote
 * parent. */
enum { FLAG_SAMPLED = 1, FLAG_HAS_IS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };

/* Text after the spans. */
#define END "]}]}]}"

static void write_number(struct td_text *text, int64_t number)
{
    td_text_string(text, number < 0 ? "-" : "");
    td_text_uint(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

static void write_text(struct td_text *text, const char *name, const char *value)
{
    td_text_string(text, "{\"key\":\"");
    td_text_string(text, name);
    td_text_string(text, "\",\"value\":{\"stringValue\":");
    td_text_quote(text, value);
    td_text_string(text, "}}");
}

static void write_attribute(struct td_text *text, const struct td_span_attribute *attribute)
{
    if (attribute->text) {
        write_text(text, attribute->name, attribute->text);
        return;
    }
    td_text_string(text, "{\"key\":\"");
    td_text_string(text, attribute->name);
    td_text_string(text, "\",\"value\":{\"intValue\":\"");
    write_number(text, attribute->number);
    td_text_string(text, "\"}}");
}

static void write_ids(struct td_text *text, const struct td_span_ids *ids)
{
    const int flags = FLAG_SAMPLED | FLAG_HAS_IS_REMOTE | (ids->remote ? FLAG_IS_REMOTE : 0);
    td_text_string(text, "{\"traceId\":\"");
    td_text_string(text, ids->trace_id);
    td_text_string(text, "\",\"spanId\":\"");
    td_text_string(text, ids->span_id);
    if (ids->parent_id[0]) {
        td_text_string(text, "\",\"parentSpanId\":\"");
        td_text_string(text, ids->parent_id);
    }
    td_text_string(text, "\",\"flags\":");
    write_number(text, flags);
}

static void write_times(struct td_text *text, int kind, int64_t begun_ns, int64_t ended_ns)
{
    td_text_string(text, ",\"kind\":");
    write_number(text, kind);
    td_text_string(text, ",\"startTimeUnixNano\":\"");
    write_number(text, begun_ns);
    td_text_string(text, "\",\"endTimeUnixNano\":\"");
    write_number(text, ended_ns);
    td_text_string(text, "\"");
}

static void write_request(struct td_text *text, const struct td_span *span)
{
    write_ids(text, &span->ids);
    if (span->state) {
        td_text_string(text, ",\"traceState\":");
        td_text_quote(text, span->state);
    }
    td_text_string(text, ",\"name\":");
    td_text_quote(text, span->name ? span->name : "HTTP");
    write_times(text, SPAN_KIND_SERVER, span->begun_ns, span->ended_ns);
    td_text_string(text, ",\"attributes\":[");
    for (int i = 0; i < span->n_attributes; i++) {
        td_text_string(text, i > 0 ? "," : "");
        write_attribute(text, &span->attributes[i]);
    }
    td_text_string(text, "]");
    if (span->failed) {
        td_text_string(text, ",\"status\":{\"code\":");
        write_number(text, STATUS_CODE_ERROR);
        if (span->reason) {
            td_text_string(text, ",\"message\":");
            td_text_quote(text, span->reason);
        }
        td_text_string(text, "}");
    }
    td_text_string(text, "}");
}

static void write_stage(struct td_text *text, const struct td_span *span, int i)
{
    const struct td_span_stage *stage = &span->stages[i];
    struct td_span_ids ids;
    td_span_child_ids(&span->ids, i + 1, &ids);
    td_text_string(text, ",");
    write_ids(text, &ids);
    td_text_string(text, ",\"name\":");
    td_text_quote(text, stage->name);
    write_times(text, SPAN_KIND_INTERNAL, stage->begun_ns, stage->ended_ns);
    td_text_string(text, "}");
}

int td_otlp_write(const struct td_otlp_resource *resource, const struct td_span *spans,
                  struct td_text *text)
{
    const struct td_text room = { .at = text->at, .end = text->end - strlen(END) };
    struct td_text body = room;
    int n = 0;
    td_text_string(&body, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    write_text(&body, "service.name", "tensord");
    td_text_string(&body, ",");
    write_text(&body, "service.version", resource->version);
    td_text_string(&body, ",");
    write_text(&body, "service.instance.id", resource->instance_id);
    td_text_string(&body, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"tensord\",\"version\":");
    td_text_quote(&body, resource->version);
    td_text_string(&body, "},\"spans\":[");
    for (const struct td_span *span = spans; span; span = span->next, n++) {
        struct td_text after = body;
        td_text_string(&after, n > 0 ? "," : "");
        write_request(&after, span);
        for (int i = 0; i < span->n_stages; i++)
            write_stage(&after, span, i);
        if (after.full)
            break;
        body = after;
    }
    text->at = body.at;
    td_text_string(text, END);
    return n;
}

int64_t td_otlp_rejected(const char *reply, size_t length)
{
    cJSON *root = cJSON_ParseWithLength(reply, length);
    const cJSON *partial = cJSON_GetObjectItemCaseSensitive(root, "partialSuccess");
    const cJSON *spans = cJSON_GetObjectItemCaseSensitive(partial, "rejectedSpans");
    int64_t rejected = 0;
    if (cJSON_IsString(spans))
        rejected = strtoll(spans->valuestring, NULL, 10);
    else if (cJSON_IsNumber(spans))
        rejected = spans->valueint;
    cJSON_Delete(root);
    return rejected > 0 ? rejected : 0;
}
