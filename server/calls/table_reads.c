#include "server/calls/table_reads.h"

#include "kernels/op_rows.h"
#include "server/calls/services.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <string.h>

/* Writes the name under which all versions of the tensor are counted. */
static void name_of(const struct td_tensor *tensor, char name[TD_TENSOR_NAME])
{
    const char *whole;
    uint64_t number;
    name[0] = '\0';
    if (td_store_identity(tensor, &whole, &number))
        snprintf(name, TD_TENSOR_NAME, "%.*s", (int)td_table_base(whole), whole);
}

int td_table_reads_place(struct td_metrics *metrics, const struct td_tensor *tensor)
{
    const char *whole;
    char name[TD_TENSOR_NAME];
    atomic_int *kept = td_store_place_of(tensor, &whole);
    int place = kept ? atomic_load_explicit(kept, memory_order_relaxed) : 0;
    if (kept && place == 0) {
        name_of(tensor, name);
        place = td_metrics_table(metrics, name) + 1;
        atomic_store_explicit(kept, place, memory_order_relaxed);
    }
    return place;
}

/* Returns the place in the metrics of the table that the call reads, plus 1, or 0 if the call reads
 * no table. */
static int place_of(const struct td_call *call)
{
    const struct td_operand *params = &call->request.args.inputs[0];
    if (call->table.place > 0)
        return call->table.place;
    return call->operation <= TD_OPERATION_LAST_OP && call->request.decoded && params->count == 1 &&
                   td_op_takes_table(call->request.op)
               ? td_table_reads_place(call->services->metrics, params->tensors)
               : 0;
}

void td_table_reads_count(const struct td_call *call, int shard, bool succeeded)
{
    struct td_metrics *metrics = call->services->metrics;
    const int place = place_of(call) - 1;
    if (place < 0)
        return;
    td_metrics_count_lookup(metrics, shard, place, succeeded, &call->times);
    if (!succeeded || !call->request.decoded || !call->request.op)
        return;
    const struct td_rows_read read = td_op_rows_read(call->request.op, &call->request.args);
    td_metrics_count_rows(metrics, shard, place, read.rows, read.bytes);
}

static void add_table(struct td_table_totals *to, const struct td_table_totals *from)
{
    to->rows += from->rows;
    to->bytes += from->bytes;
    to->succeeded += from->succeeded;
    to->failed += from->failed;
}

int td_table_reads_known_to(const struct td_access *access, struct td_metrics *metrics,
                            struct td_table_totals tables[TD_METRICS_TABLES + 1])
{
    const int n = td_metrics_read_tables(metrics, tables);
    struct td_table_totals others = { .name = TD_METRICS_OTHERS };
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (td_access_has_table(access, tables[i].name, strlen(tables[i].name)))
            tables[kept++] = tables[i];
        else
            add_table(&others, &tables[i]);
    if (kept < n)
        tables[kept++] = others;
    return kept;
}

void td_table_reads_totals(struct td_metrics *metrics, const struct td_tensor *tensor,
                           struct td_inference_totals *out)
{
    char name[TD_TENSOR_NAME];
    name_of(tensor, name);
    td_metrics_read_table(metrics, name, out);
}
