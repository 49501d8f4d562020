/* copy.h - copies of tensors in the store's memory.
 *
 * Threads    Reentrant.
 * Errors     MEMORY_EXHAUSTED, and the errors of `stop`. */
#ifndef TD_SERVER_STORE_COPY_H
#define TD_SERVER_STORE_COPY_H

#include "kernels/buffer.h"
#include "kernels/stop.h"
#include "kernels/tensor.h"

/* Sets *copy to a copy of the tensor, without an owner. The offsets of copied strings start at 0.
 * *bytes keeps the data and the offsets alive, and its reference passes to the caller. */
TD_MUST_CHECK td_status td_store_copy(struct td_memory *memory, const struct td_tensor *tensor,
                                      const struct td_stop *stop, struct td_tensor *copy,
                                      struct td_buffer **bytes, struct td_error *err);

#endif
