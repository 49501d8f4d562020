#include "server/memory/reserve.h"

#include "kernels/status.h"

#include <stdlib.h>

struct reserved {
    struct td_buffer base; /* must be first, because release casts back */
    struct td_reserve *reserve;
};

static void release(struct td_buffer *buffer)
{
    struct reserved *reserved = (struct reserved *)(void *)buffer;
    atomic_fetch_add(&reserved->reserve->left, 1);
    free(buffer->data);
    free(reserved);
}

static struct td_buffer *allocate(struct td_reserve *reserve, size_t bytes)
{
    enum { ALIGNMENT = 64 };
    struct reserved *reserved = malloc(sizeof *reserved);
    void *data = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    if (!reserved || !data) {
        free(reserved);
        free(data);
        return NULL;
    }
    td_buffer_init(&reserved->base, data, bytes, release);
    reserved->reserve = reserve;
    return &reserved->base;
}

static struct td_buffer *take(struct td_memory *self, size_t bytes, struct td_error *err)
{
    struct td_reserve *reserve = (struct td_reserve *)(void *)self;
    struct td_error refused;
    struct td_buffer *buffer = reserve->first->take(reserve->first, bytes, &refused);
    if (buffer)
        return buffer;
    if (bytes > 0 && bytes <= TD_RESERVE_BYTES) {
        if (atomic_fetch_sub(&reserve->left, 1) > 0)
            buffer = allocate(reserve, bytes);
        if (!buffer)
            atomic_fetch_add(&reserve->left, 1);
    }
    if (!buffer)
        *err = refused;
    return buffer;
}

void td_reserve_init(struct td_reserve *reserve, struct td_memory *first, int buffers)
{
    reserve->base.take = take;
    reserve->first = first;
    atomic_init(&reserve->left, buffers);
}
