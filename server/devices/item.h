/* item.h - work items of the batcher: calls of ops, and uploads of tables to the device.
 *
 *     submit ──► waits ──► td_batch_item_begun ──► in flight ──► td_batch_item_give_back ──► done
 *                  └──────────────────── late, refused ────────────────────▲
 *
 * Every item leaves the batcher through td_batch_item_give_back and is not accessed afterwards.
 *
 * Threads  Only its owner uses a list. Any thread can read the counts. */
#ifndef TD_SERVER_DEVICES_ITEM_H
#define TD_SERVER_DEVICES_ITEM_H

#include "kernels/op.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Counts of items. Relaxed atomics, because the counts are independent and are used only in reports
 * and estimates. */
struct td_batch_item_counts {
    atomic_uint_fast64_t waiting, in_flight;
    /* items given back as DEVICE_UNAVAILABLE since the server started */
    atomic_uint_fast64_t failed;
};

typedef enum td_batch_kind {
    TD_BATCH_OP, /* one call of an op */
    /* Upload of a resident table. The table remains on the device as long as its version lives, and
     * is evicted last. Uploads are never merged. */
    TD_BATCH_UPLOAD
} td_batch_kind;

/* Maximum number of a call's tensors that can be tables on the device. Programs have the most. */
enum { TD_BATCH_TABLES = 512 };

/* The tensors of a call that are resident tables. The owner of a table identifies its version.
 * Tensors are numbered through the lists of all inputs, or as in td_program_plan.inputs. */
struct td_batch_tables {
    uint64_t bits[TD_BATCH_TABLES / 64];
};
bool td_batch_tables_has(const struct td_batch_tables *tables, int i);
/* Ignores a tensor that cannot be a table because of its number. */
void td_batch_tables_set(struct td_batch_tables *tables, int i, bool is_table);

struct td_batch_item {
    struct td_batch_item *next;
    td_batch_kind kind;
    const struct td_tensor *table; /* table to upload; its owner identifies the version */

    /* The following members apply only to a call of an op. */
    const struct td_op *op;
    /* The inferred arguments. The batcher sets the outputs' data and args->replaced. */
    struct td_op_args *args;
    struct td_batch_tables resident;
    /* The call's arena, which holds the references to the outputs' owners. */
    struct td_arena *arena;

    int64_t deadline_ns;
    /* Time after which the item is not launched, even if its deadline is later. TD_NEVER: only the
     * deadline applies. */
    int64_t start_by_ns;
    /* Returns true if the client has disconnected. NULL: the client never disconnects. */
    bool (*gone)(struct td_batch_item *item);
    /* Receives the result. The callback can free the item. `err` is valid during the callback, and
     * NULL for TD_OK. The status is one of:
     * - TD_OK
     * - INDEX_OUT_OF_BOUNDS: no outputs. The caller finds the index by running the op on the host,
     *   which takes time proportional to the number of indices and is therefore not done on this
     *   thread.
     * - DEADLINE_EXCEEDED: also if the client has disconnected
     * - MEMORY_EXHAUSTED: no room now on the device or in staging memory, even unmerged
     * - RESOURCE_LIMIT: the item can never fit
     * - DEVICE_UNAVAILABLE
     * - UNSUPPORTED_DTYPE: the device has no kernel for the op
     * - DRAINING */
    void (*done)(struct td_batch_item *item, td_status status, const struct td_error *err);

    /* Set by the batcher. */
    int64_t submitted_ns;
    int64_t begun_ns; /* time of the launch; 0: not launched */
    uint64_t key;     /* items merge only if their keys are equal; 0: never merged */
    struct td_batch_item_counts *counts;
};

/* Returns the op's name or "the upload", for messages. */
const char *td_batch_item_subject(const struct td_batch_item *item);

/* For an item that calls an op, returns the mask of the tensors that all items of a merged launch
 * share (kernels/merge.h). The items of a program share no inputs, but have the same constants. */
uint32_t td_batch_item_shared(const struct td_batch_item *item);

/* Marks and counts the item as waiting. */
void td_batch_item_submitted(struct td_batch_item *item, struct td_batch_item_counts *counts,
                             int64_t now_ns);

/* Marks and counts the item as in flight. */
void td_batch_item_begun(struct td_batch_item *item, int64_t now_ns);

/* Updates the counts and calls `done`. Every item leaves the batcher through this function. `err`
 * is ignored if the status is TD_OK. */
void td_batch_item_give_back(struct td_batch_item *item, td_status status,
                             const struct td_error *err);

/* ---- lists ----------------------------------------------------------------------------------- */

/* A FIFO list of items. */
struct td_item_list {
    struct td_batch_item *first, **end;
};

void td_item_list_init(struct td_item_list *list);
void td_item_list_add(struct td_item_list *list, struct td_batch_item *item);
/* Moves all items of `from` to the end of `to`. */
void td_item_list_move(struct td_item_list *to, struct td_item_list *from);
/* Removes *link from the list and returns it. */
struct td_batch_item *td_item_list_take(struct td_item_list *list, struct td_batch_item **link);

#endif
