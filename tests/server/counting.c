#include "tests/server/counting.h"

#include "kernels/status.h"

#include <stdlib.h>

struct counted {
    struct td_buffer base; /* first: release casts back */
    struct td_buffer *inner;
    struct counting *counting;
};

static void release(struct td_buffer *base)
{
    struct counted *counted = (struct counted *)(void *)base;
    atomic_fetch_sub(&counted->counting->alive, 1);
    td_buffer_unref(counted->inner);
    free(counted);
}

static struct td_buffer *take(struct td_memory *memory, size_t bytes, struct td_error *err)
{
    struct counting *counting = (struct counting *)(void *)memory;
    struct td_buffer *inner = td_memory_heap()->take(td_memory_heap(), bytes, err);
    struct counted *counted = inner ? malloc(sizeof *counted) : NULL;
    if (!counted) {
        td_buffer_unref(inner);
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory");
        return NULL;
    }
    counted->inner = inner;
    counted->counting = counting;
    td_buffer_init(&counted->base, counted->inner->data, bytes, release);
    atomic_fetch_add(&counting->taken, 1);
    atomic_fetch_add(&counting->alive, 1);
    return &counted->base;
}

void counting_init(struct counting *counting)
{
    counting->memory.take = take;
    atomic_init(&counting->taken, 0);
    atomic_init(&counting->alive, 0);
}
