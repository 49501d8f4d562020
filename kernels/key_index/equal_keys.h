/* equal_keys.h - the pair of equal keys that the error about repeated keys names: of all pairs, the
 * pair whose second key comes first. */
#ifndef TD_KERNELS_KEY_INDEX_EQUAL_KEYS_H
#define TD_KERNELS_KEY_INDEX_EQUAL_KEYS_H

#include "kernels/status.h"
#include "kernels/tensor.h"

#include <stdatomic.h>
#include <stdint.h>

/* The pair found so far, as positions in ascending order, or { 0, -1 } if no keys are equal. */
struct td_equal_keys {
    atomic_flag lock;
    int64_t pair[2];
};
#define TD_NO_EQUAL_KEYS                                                                           \
    {                                                                                              \
        .lock = ATOMIC_FLAG_INIT, .pair = { 0, -1 }                                                \
    }

/* Records a pair if its second position is smaller than that of the recorded pair. Threads can call
 * this function at the same time. */
void td_equal_keys_note(struct td_equal_keys *found, int64_t first, int64_t second);

/* Returns INVALID_ARGUMENT, with both positions, if a pair is recorded. `input` is the name of the
 * keys in the error. */
TD_MUST_CHECK td_status td_equal_keys_refuse(const struct td_equal_keys *found,
                                             const struct td_tensor *keys, const char *input,
                                             struct td_error *err);

#endif
