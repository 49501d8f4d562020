/* eventually.h - waits for other threads. Prefer a join, a semaphore or a gate; EVENTUALLY is for a
 * state that no event announces. */
#ifndef TD_TESTS_SUPPORT_EVENTUALLY_H
#define TD_TESTS_SUPPORT_EVENTUALLY_H

#include "tests/support/tensors.h"

#include <semaphore.h>

/* Lets other threads run. */
void moment(void);

/* How many moments a state may take: minutes, which only end a hang. */
enum { MOMENTS = 1000000 };

/* Returns when the condition is true. On the test's thread only. */
#define EVENTUALLY(condition)                                                                      \
    for (int moments = 0; !(condition); moments++) {                                               \
        EXPECT(moments < MOMENTS, "this never becomes true: %s", #condition);                      \
        moment();                                                                                  \
    }

/* A place at which threads stop until the test lets them continue. */
struct gate {
    sem_t entered, open;
};

void gate_init(struct gate *gate);

/* Waits for a semaphore, also if signals interrupt it. */
void await(sem_t *semaphore);

/* Stops here until gate_open; one thread for each gate_open. */
void gate_pass(struct gate *gate);

/* Returns when a thread has arrived at the gate; each thread counts once. */
void gate_await(struct gate *gate);

void gate_open(struct gate *gate);

#endif
