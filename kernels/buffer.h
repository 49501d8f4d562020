/* buffer.h - reference-counted memory for tensor data: the pool, a request body or a mapped file.
 *
 * Ownership  A new buffer has one reference. The last td_buffer_unref calls release, which frees
 *            the memory and the struct. Implementations embed struct td_buffer in their own struct.
 * Threads    Any thread can call ref and unref. They do not synchronise access to the bytes. Each
 *            implementation documents who is allowed to write. */
#ifndef TD_KERNELS_BUFFER_H
#define TD_KERNELS_BUFFER_H

#include <stdatomic.h>
#include <stddef.h>

struct td_buffer {
    atomic_size_t refs;
    size_t size; /* number of usable bytes at data */
    void *data;  /* aligned to 64 bytes, except in mapped files */
    void (*release)(struct td_buffer *self);
};

void td_buffer_init(struct td_buffer *buffer, void *data, size_t size,
                    void (*release)(struct td_buffer *self));
struct td_buffer *td_buffer_ref(struct td_buffer *buffer);
void td_buffer_unref(struct td_buffer *buffer); /* NULL is allowed */

/* An allocator of buffers. The server's allocator counts buffers against the memory budget and
 * reuses buffers that are still in the cache. Tests and tools use td_memory_heap, which calls
 * malloc. */
struct td_error;
struct td_memory {
    /* Allocates a buffer of at least `bytes` writable bytes with undefined contents. On failure,
     * returns NULL and fills err with RESOURCE_LIMIT or MEMORY_EXHAUSTED. */
    struct td_buffer *(*take)(struct td_memory *self, size_t bytes, struct td_error *err);
};
struct td_memory *td_memory_heap(void);

#endif
