/* workspace.h - the scratch memory of a contraction: one shared part, and one slot for each thread
 * that may work at a time.
 *
 * Ownership  The caller's memory, of the sizes that td_contraction_workspace told, lent for one
 *            contraction after the other.
 * Threads    `shared` is for the thread that runs the contraction to hand out. A range function
 *            claims a slot, has it to itself, and releases it before it returns; since no more
 *            ranges run at once than there are slots, there is always a free one. */
#ifndef TD_KERNELS_EINSUM_NEST_WORKSPACE_H
#define TD_KERNELS_EINSUM_NEST_WORKSPACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* More threads than this do not share one contraction. */
#define TD_MAX_SLOTS 256

struct td_workspace {
    char *shared; /* aligned to 64 */
    char *slots;  /* n_slots of slot_bytes, a multiple of 64, each */
    size_t slot_bytes;
    int n_slots;
    atomic_uchar taken[TD_MAX_SLOTS];
};

/* Rounded up to the 64 bytes that every part of a workspace is aligned to; UINT64_MAX when that
 * overflows. */
static inline uint64_t td_workspace_lines(uint64_t bytes)
{
    return bytes > UINT64_MAX - 63 ? UINT64_MAX : (bytes + 63) / 64 * 64;
}

/* Number of a free slot. */
static inline int td_workspace_claim(struct td_workspace *workspace)
{
    for (int i = 0;; i = i + 1 < workspace->n_slots ? i + 1 : 0)
        /* acquire: what the last holder did in the slot is over */
        if (!atomic_exchange_explicit(&workspace->taken[i], 1, memory_order_acquire))
            return i;
}

static inline void *td_workspace_slot(const struct td_workspace *workspace, int slot)
{
    return workspace->slots + (size_t)slot * workspace->slot_bytes;
}

static inline void td_workspace_release(struct td_workspace *workspace, int slot)
{
    atomic_store_explicit(&workspace->taken[slot], 0, memory_order_release);
}

#endif
