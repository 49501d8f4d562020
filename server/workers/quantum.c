#include "server/workers/quantum.h"

#include "server/observe/clock.h"

#include <sys/syscall.h>

#include <sched.h>
#include <unistd.h>

/* Argument of sched_setattr(2), in the kernel's layout. glibc 2.36 has no wrapper for the call. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void td_quantum_set_slice(uint64_t slice_ns)
{
    struct attributes attributes = { .size = sizeof attributes };
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0)
        return;
    attributes.runtime_ns = slice_ns;
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0); /* failure is harmless */
}

void td_quantum_begin(struct td_quantum *quantum)
{
    quantum->began_ns = td_now_ns();
}

void td_quantum_check(struct td_quantum *quantum)
{
    if (td_now_ns() - quantum->began_ns < TD_QUANTUM_NS)
        return;
    sched_yield();
    td_quantum_begin(quantum);
}
