#include "kernels/buffer.h"

#include "kernels/shape.h"
#include "kernels/status.h"

#include <assert.h>
#include <stdlib.h>

void td_buffer_init(struct td_buffer *buffer, void *data, size_t size,
                    void (*release)(struct td_buffer *self))
{
    atomic_init(&buffer->refs, 1);
    buffer->size = size;
    buffer->data = data;
    buffer->release = release;
}

struct td_buffer *td_buffer_ref(struct td_buffer *buffer)
{
    /* Relaxed order is enough. The caller already holds a reference, so no synchronisation is
     * needed. */
    atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

void td_buffer_unref(struct td_buffer *buffer)
{
    if (!buffer)
        return;
    /* Release order makes this holder's writes happen before the free. Acquire order makes all
     * other holders' writes visible to the last holder. */
    if (atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) == 1)
        buffer->release(buffer);
}

/* A heap buffer is one allocation, with the struct in the first cache line and the data after
 * it. */
#define HEAP_ALIGN 64
static_assert(sizeof(struct td_buffer) <= HEAP_ALIGN, "the data must start on a cache line");

static void heap_release(struct td_buffer *buffer)
{
    free(buffer);
}

static struct td_buffer *heap_take(struct td_memory *self, size_t bytes, struct td_error *err)
{
    (void)self;
    size_t total;
    void *block = NULL;
    if (!td_size_add(bytes, HEAP_ALIGN, &total) || posix_memalign(&block, HEAP_ALIGN, total) != 0) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "%zu bytes of memory are not available", bytes);
        return NULL;
    }
    struct td_buffer *buffer = block;
    td_buffer_init(buffer, (char *)block + HEAP_ALIGN, bytes, heap_release);
    return buffer;
}

struct td_memory *td_memory_heap(void)
{
    static struct td_memory heap = { .take = heap_take };
    return &heap;
}
