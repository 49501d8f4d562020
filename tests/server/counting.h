/* counting.h - an allocator that counts the buffers it returned and those not yet released. */
#ifndef TD_TESTS_SERVER_COUNTING_H
#define TD_TESTS_SERVER_COUNTING_H

#include "kernels/buffer.h"

struct counting {
    struct td_memory memory; /* first: take casts back */
    atomic_int taken, alive;
};

void counting_init(struct counting *counting);

#endif
