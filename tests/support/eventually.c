#include "tests/support/eventually.h"

#include <errno.h>
#include <time.h>

void moment(void)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

void gate_init(struct gate *gate)
{
    sem_init(&gate->entered, 0, 0);
    sem_init(&gate->open, 0, 0);
}

void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0 && errno == EINTR)
        continue;
}

void gate_pass(struct gate *gate)
{
    sem_post(&gate->entered);
    await(&gate->open);
}

void gate_await(struct gate *gate)
{
    await(&gate->entered);
}

void gate_open(struct gate *gate)
{
    sem_post(&gate->open);
}
