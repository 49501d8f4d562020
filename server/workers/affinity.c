#include "server/workers/affinity.h"

#include <sched.h>
#include <unistd.h>

void td_affinity_init(struct td_affinity *affinity)
{
    *affinity = (struct td_affinity){ .thread = gettid(), .processor = -1 };
}

void td_affinity_sleep(struct td_affinity *affinity)
{
    affinity->processor = sched_getcpu();
}

/* Allows or forbids the worker to run on its processor. If a call fails, the kernel chooses the
 * processor. */
static void set_allowed(const struct td_affinity *affinity, bool allowed)
{
    cpu_set_t processors;
    if (sched_getaffinity(affinity->thread, sizeof(processors), &processors) != 0)
        return;
    if (allowed)
        CPU_SET((size_t)affinity->processor, &processors);
    else
        CPU_CLR((size_t)affinity->processor, &processors);
    if (CPU_COUNT(&processors) > 0)
        (void)sched_setaffinity(affinity->thread, sizeof(processors), &processors);
}

void td_affinity_wake(struct td_affinity *affinity)
{
    if (affinity->elsewhere)
        set_allowed(affinity, true);
    affinity->elsewhere = false;
    affinity->processor = -1;
}

void td_affinity_avoid(struct td_affinity *affinity)
{
    if (affinity->processor < 0 || affinity->processor != sched_getcpu() || affinity->elsewhere)
        return;
    affinity->elsewhere = true;
    set_allowed(affinity, false);
}
