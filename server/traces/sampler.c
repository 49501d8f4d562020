#include "server/traces/sampler.h"

#include <stdlib.h>
#include <string.h>

/* Returns the bits as mixed by splitmix64. */
static uint64_t mix(uint64_t bits)
{
    bits += UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

static bool is_chosen(double fraction, uint64_t random)
{
    const uint64_t last_56_bits = random & ((UINT64_C(1) << 56) - 1);
    return (double)last_56_bits * 0x1p-56 < fraction;
}

/* Writes an ID as text. Writes 0 as 1, because IDs of zeros are invalid. */
static void print_id(uint64_t id, char text[TD_SPAN_ID_DIGITS + 1])
{
    id = id ? id : 1;
    for (int i = TD_SPAN_ID_DIGITS; i > 0; id >>= 4)
        text[--i] = "0123456789abcdef"[id & 15];
    text[TD_SPAN_ID_DIGITS] = '\0';
}

bool td_sampler_choose(const struct td_sampler *sampler, const struct td_trace_context *parent,
                       int64_t begun_ns, const void *address, struct td_span_ids *ids)
{
    const bool has_parent = parent->trace_id[0] != '\0';
    const uint64_t request = mix(sampler->seed[0] ^ mix((uint64_t)(uintptr_t)address));
    const uint64_t random = mix(request + (uint64_t)begun_ns);
    if (has_parent ? !parent->sampled : !is_chosen(sampler->fraction, random))
        return false;
    *ids = (struct td_span_ids){ .remote = has_parent };
    if (has_parent) {
        memcpy(ids->trace_id, parent->trace_id, sizeof ids->trace_id);
        memcpy(ids->parent_id, parent->span_id, sizeof ids->parent_id);
    } else {
        print_id(mix(random ^ sampler->seed[1]), ids->trace_id);
        print_id(random, ids->trace_id + TD_SPAN_ID_DIGITS);
    }
    print_id(mix(random + sampler->seed[1]), ids->span_id);
    return true;
}

void td_span_child_ids(const struct td_span_ids *span, int n, struct td_span_ids *child)
{
    const uint64_t id = strtoull(span->span_id, NULL, 16);
    *child = (struct td_span_ids){ .remote = false };
    memcpy(child->trace_id, span->trace_id, sizeof child->trace_id);
    memcpy(child->parent_id, span->span_id, sizeof child->parent_id);
    print_id(mix(id + (uint64_t)n), child->span_id);
}
