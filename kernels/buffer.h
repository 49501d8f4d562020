/* buffer.h - reference-counted memory of tensor data: from the pool, a request body, a mapped file.
 *
 * Ownership  A new buffer has one reference. The last td_buffer_unref calls release, which frees
 *            the memory and the struct. Implementations embed struct td_buffer in their own struct.
 * Threads    ref and unref from any thread. They do not synchronise access to the bytes: each
 *            implementation documents who may write. */
#ifndef TD_KERNELS_BUFFER_H
#define TD_KERNELS_BUFFER_H

#include <stdatomic.h>
#include <stddef.h>

struct td_buffer {
    atomic_size_t refs;
    size_t size; /* usable bytes at data */
    void *data;  /* 64-byte aligned, except in mapped files */
    void (*release)(struct td_buffer *self);
};

void td_buffer_init(struct td_buffer *buffer, void *data, size_t size,
                    void (*release)(struct td_buffer *self));
struct td_buffer *td_buffer_ref(struct td_buffer *buffer);
void td_buffer_unref(struct td_buffer *buffer); /* NULL is allowed */

/* An allocator of buffers. The server's implementation counts them against the memory budget and
 * reuses warm ones; td_memory_heap is plain malloc, for tests and tools. */
struct td_error;
struct td_memory {
    /* Returns a buffer of at least `bytes` writable bytes, contents undefined, or NULL with err
     * filled (RESOURCE_LIMIT or MEMORY_EXHAUSTED). */
    struct td_buffer *(*take)(struct td_memory *self, size_t bytes, struct td_error *err);
};
struct td_memory *td_memory_heap(void);

#endif
