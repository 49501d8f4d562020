#include "server/devices/item.h"

#include "kernels/merge.h"
#include "kernels/program/program.h"

static void count(atomic_uint_fast64_t *counter, uint_fast64_t change)
{
    atomic_fetch_add_explicit(counter, change, memory_order_relaxed);
}

static const uint_fast64_t minus_one = (uint_fast64_t)-1; /* counters wrap around */

const char *td_batch_item_subject(const struct td_batch_item *item)
{
    return item->kind == TD_BATCH_UPLOAD ? "the upload" : item->op->name;
}

uint32_t td_batch_item_shared(const struct td_batch_item *item)
{
    return td_program_of(item->op)
               ? 0
               : td_merge_shared(item->op, item->args, (uint32_t)item->resident.bits[0]);
}

bool td_batch_tables_has(const struct td_batch_tables *tables, int i)
{
    return i < TD_BATCH_TABLES && tables->bits[i / 64] >> i % 64 & 1;
}

void td_batch_tables_set(struct td_batch_tables *tables, int i, bool is_table)
{
    const uint64_t bit = UINT64_C(1) << i % 64;
    if (i >= TD_BATCH_TABLES)
        return;
    tables->bits[i / 64] = is_table ? tables->bits[i / 64] | bit : tables->bits[i / 64] & ~bit;
}

void td_batch_item_submitted(struct td_batch_item *item, struct td_batch_item_counts *counts,
                             int64_t now_ns)
{
    item->counts = counts;
    item->submitted_ns = now_ns;
    item->begun_ns = 0;
    count(&counts->waiting, 1);
}

void td_batch_item_begun(struct td_batch_item *item, int64_t now_ns)
{
    item->begun_ns = now_ns;
    count(&item->counts->in_flight, 1);
    count(&item->counts->waiting, minus_one);
}

void td_batch_item_give_back(struct td_batch_item *item, td_status status,
                             const struct td_error *err)
{
    count(item->begun_ns ? &item->counts->in_flight : &item->counts->waiting, minus_one);
    if (status == TD_DEVICE_UNAVAILABLE)
        count(&item->counts->failed, 1);
    item->done(item, status, status == TD_OK ? NULL : err);
}

/* ---- lists ----------------------------------------------------------------------------------- */

void td_item_list_init(struct td_item_list *list)
{
    *list = (struct td_item_list){ .end = &list->first };
}

void td_item_list_add(struct td_item_list *list, struct td_batch_item *item)
{
    item->next = NULL;
    *list->end = item;
    list->end = &item->next;
}

void td_item_list_move(struct td_item_list *to, struct td_item_list *from)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    td_item_list_init(from);
}

struct td_batch_item *td_item_list_take(struct td_item_list *list, struct td_batch_item **link)
{
    struct td_batch_item *item = *link;
    *link = item->next;
    if (list->end == &item->next)
        list->end = link;
    return item;
}
