#include "server/traces/span.h"

#include <stdlib.h>
#include <string.h>

struct td_span *td_span_new(const struct td_span_ids *ids)
{
    struct td_span *span = malloc(sizeof *span);
    if (!span)
        return NULL;
    memset(span, 0, offsetof(struct td_span, texts));
    span->ids = *ids;
    return span;
}

void td_span_free(struct td_span *span)
{
    free(span);
}

const char *td_span_copy(struct td_span *span, const char *text, size_t most)
{
    const size_t length = strnlen(text, most), left = sizeof span->texts - span->text_bytes;
    char *at = span->texts + span->text_bytes;
    if (length >= left)
        return NULL;
    memcpy(at, text, length);
    at[length] = '\0';
    span->text_bytes += length + 1;
    return at;
}

static void add(struct td_span *span, const struct td_span_attribute *attribute)
{
    if (span->n_attributes < TD_SPAN_ATTRIBUTES)
        span->attributes[span->n_attributes++] = *attribute;
}

void td_span_text(struct td_span *span, const char *name, const char *text, size_t most)
{
    const char *copy = text && text[0] ? td_span_copy(span, text, most) : NULL;
    if (copy)
        add(span, &(struct td_span_attribute){ .name = name, .text = copy });
}

void td_span_number(struct td_span *span, const char *name, int64_t number)
{
    add(span, &(struct td_span_attribute){ .name = name, .number = number });
}

void td_span_stage(struct td_span *span, const char *name, int64_t begun_ns, int64_t ended_ns)
{
    if (span->n_stages < TD_SPAN_STAGES && ended_ns > begun_ns)
        span->stages[span->n_stages++] = (struct td_span_stage){ name, begun_ns, ended_ns };
}
