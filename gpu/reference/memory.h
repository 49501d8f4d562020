/* memory.h - device memory and pinned host memory of the reference device.
 *
 * Both consist of heap blocks, which are kept in lists that the device uses to check addresses. */
#ifndef TD_GPU_REFERENCE_MEMORY_H
#define TD_GPU_REFERENCE_MEMORY_H

#include "gpu/reference/state.h"

/* These functions implement the vtable. */
td_status td_reference_alloc(struct td_device *device, size_t bytes, void **out,
                             struct td_error *err);
void td_reference_free(struct td_device *device, void *memory);
td_status td_reference_host_alloc(struct td_device *device, size_t bytes, void **out,
                                  struct td_error *err);
void td_reference_host_free(struct td_device *device, void *memory);

/* True if all `bytes` bytes at `address` are in one of the blocks, or if `bytes` is 0. */
bool td_reference_in_blocks(const struct td_reference_block *blocks, const void *address,
                            size_t bytes);

/* Frees the list and returns the number of blocks freed. */
uint64_t td_reference_free_blocks(struct td_reference_block *blocks);

#endif
