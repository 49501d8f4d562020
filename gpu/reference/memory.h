/* memory.h - device and pinned host memory of the reference device.
 *
 * Both are allocated on the heap and kept in lists of blocks, against which addresses are
 * checked. */
#ifndef TD_GPU_REFERENCE_MEMORY_H
#define TD_GPU_REFERENCE_MEMORY_H

#include "gpu/reference/state.h"

/* Functions of the vtable. */
td_status td_reference_alloc(struct td_device *device, size_t bytes, void **out,
                             struct td_error *err);
void td_reference_free(struct td_device *device, void *memory);
td_status td_reference_host_alloc(struct td_device *device, size_t bytes, void **out,
                                  struct td_error *err);
void td_reference_host_free(struct td_device *device, void *memory);

/* Are all these bytes in one of the blocks? True for 0 bytes at any address. */
bool td_reference_in_blocks(const struct td_reference_block *blocks, const void *address,
                            size_t bytes);

/* Frees a list; returns the number of its blocks. */
uint64_t td_reference_free_blocks(struct td_reference_block *blocks);

#endif
