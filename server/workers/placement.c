#include "server/workers/placement.h"

#include <sched.h>
#include <unistd.h>

void td_placement_init(struct td_placement *placement)
{
    *placement = (struct td_placement){ .thread = gettid(), .processor = -1 };
}

void td_placement_sleep(struct td_placement *placement)
{
    placement->processor = sched_getcpu();
}

/* Allows or forbids the worker to run on its processor. If a call fails, the kernel chooses the
 * processor. */
static void set_allowed(const struct td_placement *placement, bool allowed)
{
    cpu_set_t processors;
    if (sched_getaffinity(placement->thread, sizeof(processors), &processors) != 0)
        return;
    if (allowed)
        CPU_SET((size_t)placement->processor, &processors);
    else
        CPU_CLR((size_t)placement->processor, &processors);
    if (CPU_COUNT(&processors) > 0)
        (void)sched_setaffinity(placement->thread, sizeof(processors), &processors);
}

void td_placement_wake(struct td_placement *placement)
{
    if (placement->elsewhere)
        set_allowed(placement, true);
    placement->elsewhere = false;
    placement->processor = -1;
}

void td_placement_avoid(struct td_placement *placement)
{
    if (placement->processor < 0 || placement->processor != sched_getcpu() || placement->elsewhere)
        return;
    placement->elsewhere = true;
    set_allowed(placement, false);
}
