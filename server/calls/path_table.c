#include "server/calls/path_table.h"

#include "api/message/attrs.h"
#include "api/text/text.h"
#include "server/calls/models.h"
#include "server/calls/services.h"
#include "server/calls/table_reads.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

#include <string.h>

/* "movies@20261122" of a version; of other tensors the name and the number of their version. Encoded as in a
 * path, because a header is ASCII. */
static const char *describe(struct td_call *call, const struct td_tensor *tensor)
{
    enum { SIZE = 3 * (size_t)TD_TENSOR_NAME + sizeof "@18446744073709551615" };
    const char *name;
    uint64_t number;
    char *found = td_arena_alloc(&call->arena, SIZE, 1, &call->error);
    if (!found || !td_store_identity(tensor, &name, &number))
        return NULL;
    struct td_text text = { .at = found, .end = found + SIZE - 1 };
    td_text_segment(&text, name, strlen(name));
    if (!td_table_version(name)) {
        td_text_string(&text, "@");
        td_text_uint(&text, number);
    }
    *text.at = '\0';
    return found;
}

/* The keys of the table, for an op that looks rows up in these alone. */
static td_status use_keys(struct td_call *call, struct td_tensor *tensor)
{
    if (!tensor->keys)
        return td_table_without_keys(call->table.name, call->op, &call->error);
    const struct td_tensor keys = *tensor->keys;
    *tensor = keys;
    return TD_OK;
}

td_status td_path_table_bind(struct td_call *call)
{
    struct td_path_table *table = &call->table;
    struct td_tensor *tensor = td_arena_alloc(&call->arena, 1, sizeof *tensor, &call->error);
    if (!tensor)
        return call->error.status;
    td_status status = td_resolve(&call->sources.resolver, table->name, strlen(table->name),
                                  &call->arena, tensor, &call->error);
    call->request.table = table->name;
    call->request.table_has_keys = status == TD_OK && tensor->keys;
    if (status == TD_OK && td_input_is_row_keys(&call->op->inputs[0]))
        status = use_keys(call, tensor);
    if (status != TD_OK)
        return status;
    call->request.args.inputs[0] = (struct td_operand){ tensor, 1 };
    table->place = td_table_reads_place(call->services->metrics, tensor);
    table->found = describe(call, tensor);
    return table->found ? TD_OK : call->error.status;
}

const char *td_path_table_version(const struct td_call *call)
{
    const char *name;
    uint64_t number;
    const struct td_tensor *tensor = call->request.args.inputs[0].tensors;
    return call->table.model && td_store_identity(tensor, &name, &number) ? td_model_version(name)
                                                                          : NULL;
}

void td_path_table_tell(struct td_call *call)
{
    if (call->table.found)
        td_reply_header(&call->reply, "X-Tensord-Table", call->table.found);
}
