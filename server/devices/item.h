/* item.h - what the batcher works on: calls of ops, and tables to bring to the device.
 *
 *     submit ──► waits ──► td_batch_item_begun ──► in flight ──► td_batch_item_give_back ──► done
 *                  └──────────────────── late, refused ────────────────────▲
 *
 * Every item leaves the batcher through td_batch_item_give_back, whichever part holds it then, and no
 * part looks at it afterwards.
 *
 * Threads  A list is its owner's. Counts may be read by any thread. */
#ifndef TD_SERVER_DEVICES_ITEM_H
#define TD_SERVER_DEVICES_ITEM_H

#include "kernels/op.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How many items there are. Relaxed atomics: each is a number of its own, for reports and estimates. */
struct td_batch_item_counts {
    atomic_uint_fast64_t waiting, in_flight;
    atomic_uint_fast64_t failed; /* given back as DEVICE_UNAVAILABLE, since the start */
};

typedef enum td_batch_kind {
    TD_BATCH_OP, /* one call of an op */
    /* A resident table that is brought to the device and stays there as long as its version lives,
     * evicted last. It goes alone. */
    TD_BATCH_UPLOAD
} td_batch_kind;

/* Tensors of a call that can be tables on the device: bits of td_batch_item.resident. */
enum { TD_BATCH_TABLES = 32 };

struct td_batch_item {
    struct td_batch_item *next;
    td_batch_kind kind;
    const struct td_tensor *table; /* of an upload: its owner names the version */

    /* Of an op. */
    const struct td_op *op;
    struct td_op_args *args; /* inferred; outputs get their data and args->replaced is set */
    uint32_t resident;       /* bit i: the i-th tensor of all inputs, through the lists, is a
                                resident table, and its owner names the version */
    struct td_arena *arena;  /* of the call: where outputs' owners are kept */

    int64_t deadline_ns;
    int64_t start_by_ns;                      /* not launched after it; 0: the deadline */
    bool (*gone)(struct td_batch_item *item); /* has the client left? NULL: never */
    /* TD_OK, or INDEX_OUT_OF_BOUNDS (there are no outputs; the op, run on the host, says which index
     * it is: that takes as long as there are indices, so it is not done on this thread),
     * DEADLINE_EXCEEDED, also when the client has left, MEMORY_EXHAUSTED (the device or the staging
     * memory has no room for it now, though it goes alone), RESOURCE_LIMIT (they never will),
     * DEVICE_UNAVAILABLE, UNSUPPORTED_DTYPE (the device has no kernel for it), DRAINING. err lives
     * during the call; NULL with TD_OK. The item may be freed in it. */
    void (*done)(struct td_batch_item *item, td_status status, const struct td_error *err);

    /* Set by the batcher. */
    int64_t submitted_ns;
    int64_t begun_ns; /* when it was launched; 0 if it never was */
    uint64_t key;     /* those with another one do not merge; 0: with none */
    struct td_batch_item_counts *counts;
};

/* What it does, for messages: the op's name, or "the upload". */
const char *td_batch_item_subject(const struct td_batch_item *item);

/* Of an op: which of its tensors are the same for all that it merges with (kernels/merge.h). */
uint32_t td_batch_item_shared(const struct td_batch_item *item);

/* It waits now, and counts as one that does. */
void td_batch_item_submitted(struct td_batch_item *item, struct td_batch_item_counts *counts,
                             int64_t now_ns);

/* It is in flight. */
void td_batch_item_begun(struct td_batch_item *item, int64_t now_ns);

/* The one way out: counts it and calls done. err is not looked at with TD_OK. */
void td_batch_item_give_back(struct td_batch_item *item, td_status status,
                             const struct td_error *err);

/* ---- lists ----------------------------------------------------------------------------------- */

/* Items in the order in which they were added. */
struct td_item_list {
    struct td_batch_item *first, **end;
};

void td_item_list_init(struct td_item_list *list);
void td_item_list_add(struct td_item_list *list, struct td_batch_item *item);
/* Puts all of `from` behind `to`. */
void td_item_list_move(struct td_item_list *to, struct td_item_list *from);
/* Takes *link off the list, which it is part of. */
struct td_batch_item *td_item_list_take(struct td_item_list *list, struct td_batch_item **link);

#endif
