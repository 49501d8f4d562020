/* item.h - work items of the batcher: calls of ops, and uploads of tables to the device.
 *
 *     submit ──► waits ──► td_batch_item_begun ──► in flight ──► td_batch_item_give_back ──► done
 *                  └──────────────────── late, refused ────────────────────▲
 *
 * Every item leaves the batcher through td_batch_item_give_back and is not accessed afterwards.
 *
 * Threads  A list is used by its owner only. Any thread may read the counts. */
#ifndef TD_SERVER_DEVICES_ITEM_H
#define TD_SERVER_DEVICES_ITEM_H

#include "kernels/op.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Counts of items. Relaxed atomics: they are independent, and used for reports and estimates. */
struct td_batch_item_counts {
    atomic_uint_fast64_t waiting, in_flight;
    atomic_uint_fast64_t failed; /* given back as DEVICE_UNAVAILABLE, since the start */
};

typedef enum td_batch_kind {
    TD_BATCH_OP, /* one call of an op */
    /* Upload of a resident table, which stays on the device as long as its version lives and is
     * evicted last. Never merged. */
    TD_BATCH_UPLOAD
} td_batch_kind;

/* Tensors of a call that can be tables on the device: bits of td_batch_item.resident. */
enum { TD_BATCH_TABLES = 32 };

struct td_batch_item {
    struct td_batch_item *next;
    td_batch_kind kind;
    const struct td_tensor *table; /* of an upload; its owner identifies the version */

    /* Of an op. */
    const struct td_op *op;
    struct td_op_args *args; /* inferred; outputs get their data and args->replaced is set */
    uint32_t resident;       /* bit i: tensor i, counted through the lists of all inputs, is a
                                resident table, and its owner identifies the version */
    struct td_arena *arena;  /* of the call; holds the references to the outputs' owners */

    int64_t deadline_ns;
    int64_t start_by_ns; /* not launched after this; 0: the deadline */
    /* Has the client disconnected? NULL: never. */
    bool (*gone)(struct td_batch_item *item);
    /* TD_OK, INDEX_OUT_OF_BOUNDS (no outputs; running the op on the host finds the index, in time
     * proportional to the number of indices, so it is not done on this thread), DEADLINE_EXCEEDED
     * (also when the client has disconnected), MEMORY_EXHAUSTED (no room now on the device or in
     * staging memory, even unmerged), RESOURCE_LIMIT (there never is), DEVICE_UNAVAILABLE,
     * UNSUPPORTED_DTYPE (the device has no kernel for it) or DRAINING. err is valid during the
     * callback; NULL with TD_OK. The callback may free the item. */
    void (*done)(struct td_batch_item *item, td_status status, const struct td_error *err);

    /* Set by the batcher. */
    int64_t submitted_ns;
    int64_t begun_ns; /* time of the launch; 0: not launched */
    uint64_t key;     /* items merge only if their keys are equal; 0: never merged */
    struct td_batch_item_counts *counts;
};

/* The op's name or "the upload", for messages. */
const char *td_batch_item_subject(const struct td_batch_item *item);

/* Of an op: which of its tensors all items of a merged launch have in common (kernels/merge.h). */
uint32_t td_batch_item_shared(const struct td_batch_item *item);

/* Marks and counts it as waiting. */
void td_batch_item_submitted(struct td_batch_item *item, struct td_batch_item_counts *counts,
                             int64_t now_ns);

/* Marks and counts it as in flight. */
void td_batch_item_begun(struct td_batch_item *item, int64_t now_ns);

/* The only way out of the batcher: updates the counts and calls done. err is ignored with TD_OK. */
void td_batch_item_give_back(struct td_batch_item *item, td_status status,
                             const struct td_error *err);

/* ---- lists ----------------------------------------------------------------------------------- */

/* A FIFO list of items. */
struct td_item_list {
    struct td_batch_item *first, **end;
};

void td_item_list_init(struct td_item_list *list);
void td_item_list_add(struct td_item_list *list, struct td_batch_item *item);
/* Appends all of `from` to `to`. */
void td_item_list_move(struct td_item_list *to, struct td_item_list *from);
/* Removes *link from the list. */
struct td_batch_item *td_item_list_take(struct td_item_list *list, struct td_batch_item **link);

#endif
