#include "server/devices/batch_queue.h"

#include "kernels/integers.h"
#include "kernels/merge.h"
#include "server/devices/launch.h"
#include "server/observe/clock.h"

#include <stdlib.h>
#include <string.h>

bool td_batch_queue_init(struct td_batch_queue *queue, int batch_limit, uint64_t batch_bytes)
{
    *queue = (struct td_batch_queue){ .batch_limit = batch_limit, .batch_bytes = batch_bytes };
    td_item_list_init(&queue->waiting);
    queue->picked = calloc((size_t)batch_limit, sizeof(struct td_batch_item *));
    return queue->picked != NULL;
}

void td_batch_queue_destroy(struct td_batch_queue *queue)
{
    free(queue->picked);
}

void td_batch_queue_refuse(struct td_batch_queue *queue, td_status status,
                           const struct td_error *err)
{
    struct td_item_list refused; /* items added during the loop remain in the queue */
    td_item_list_init(&refused);
    td_item_list_move(&refused, &queue->waiting);
    while (refused.first)
        td_batch_item_give_back(td_item_list_take(&refused, &refused.first), status, err);
}

/* ---- late items ------------------------------------------------------------------------------ */

/* Returns the time after which the item is not launched. */
static int64_t start_by(const struct td_batch_item *item)
{
    return td_smaller(item->start_by_ns, item->deadline_ns);
}

static bool is_late(const struct td_batch_item *item, int64_t now_ns, struct td_error *err)
{
    if (now_ns <= start_by(item))
        return false;
    td_error_set(err, TD_DEADLINE_EXCEEDED, "the deadline passed while %s was waiting",
                 td_batch_item_subject(item));
    return true;
}

static bool is_wanted(struct td_batch_item *item, int64_t now_ns, struct td_error *err)
{
    if (is_late(item, now_ns, err))
        return false;
    if (!item->gone || !item->gone(item))
        return true;
    td_error_set(err, TD_DEADLINE_EXCEEDED, "the client disconnected while %s was waiting",
                 td_batch_item_subject(item));
    return false;
}

static void give_back_late(struct td_batch_queue *queue, struct td_batch_item **link,
                           const struct td_error *err)
{
    td_batch_item_give_back(td_item_list_take(&queue->waiting, link), TD_DEADLINE_EXCEEDED, err);
}

void td_batch_queue_drop_late(struct td_batch_queue *queue, int64_t now_ns)
{
    struct td_batch_item **link = &queue->waiting.first;
    struct td_error err;
    while (*link)
        if (is_late(*link, now_ns, &err))
            give_back_late(queue, link, &err);
        else
            link = &(*link)->next;
}

int64_t td_batch_queue_late_ns(const struct td_batch_queue *queue)
{
    int64_t earliest_ns = TD_NEVER;
    for (const struct td_batch_item *item = queue->waiting.first; item; item = item->next)
        earliest_ns = td_smaller(start_by(item), earliest_ns);
    return earliest_ns;
}

/* ---- choosing a batch ------------------------------------------------------------------------ */

/* Clears the resident bits of tables without a version, such as tables copied for alignment. These
 * tables are ordinary inputs. */
static void check_residents(struct td_batch_item *item)
{
    const int n = td_launch_count_inputs(item->op, item->args);
    for (int i = 0; i < n && i < TD_BATCH_TABLES; i++)
        if (!td_launch_input(item->args, i)->owner)
            td_batch_tables_set(&item->resident, i, false);
}

void td_batch_queue_prepare(struct td_batch_item *item)
{
    item->key = 0; /* never merged */
    if (item->kind != TD_BATCH_OP)
        return;
    check_residents(item);
    if (td_launch_can_merge(item))
        item->key = td_merge_key(item->op, item->args, td_batch_item_shared(item));
}

/* Estimates the staging memory that an item needs. */
static uint64_t staging_of(const struct td_batch_item *item)
{
    const struct td_op_args *args = item->args;
    uint64_t bytes = 0;
    if (item->kind != TD_BATCH_OP)
        return 0;
    const int n = td_launch_count_inputs(item->op, args);
    for (int i = 0; i < n; i++)
        if (!td_batch_tables_has(&item->resident, i))
            bytes += td_launch_input(args, i)->bytes;
    for (int i = 0; i < args->n_outputs; i++)
        bytes += args->outputs[i].bytes;
    return bytes;
}

static bool merges_with(const struct td_batch_item *lead, const struct td_batch_item *item)
{
    return lead->key != 0 && item->key == lead->key &&
           memcmp(&item->resident, &lead->resident, sizeof lead->resident) == 0 &&
           td_merge_fits(lead->args, item->args, td_batch_item_shared(lead));
}

int td_batch_queue_pick(struct td_batch_queue *queue, int64_t now_ns)
{
    struct td_batch_item **picked = queue->picked, **link = &queue->waiting.first;
    uint64_t bytes = 0;
    int n = 0;
    while (*link && n < queue->batch_limit) {
        struct td_batch_item *item = *link;
        struct td_error err;
        if (n > 0 && !merges_with(picked[0], item)) {
            link = &item->next;
        } else if (!is_wanted(item, now_ns, &err)) {
            give_back_late(queue, link, &err);
        } else {
            bytes += staging_of(item);
            if (n > 0 && bytes > queue->batch_bytes)
                break;
            picked[n++] = item;
            link = &item->next;
            if (picked[0]->key == 0)
                break;
        }
    }
    return n;
}

void td_batch_queue_take(struct td_batch_queue *queue, int n)
{
    struct td_batch_item **link = &queue->waiting.first;
    for (int i = 0; i < n;) {
        if (*link == queue->picked[i]) {
            (void)td_item_list_take(&queue->waiting, link);
            i++;
        } else {
            link = &(*link)->next;
        }
    }
}

int td_batch_queue_count_mergeable(const struct td_batch_queue *queue)
{
    const struct td_batch_item *lead = queue->waiting.first;
    int n = 0;
    for (const struct td_batch_item *item = lead; item && n < queue->batch_limit; item = item->next)
        n += item == lead || item->key == lead->key;
    return n;
}
