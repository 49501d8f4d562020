#include "server/calls/path_table.h"

#include "api/message/table_keys.h"
#include "api/text/text.h"
#include "server/calls/companions.h"
#include "server/calls/models.h"
#include "server/calls/services.h"
#include "server/calls/table_reads.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Returns "movies@20261122" for a version. For other tensors, returns the name and the tensor's
 * version number. The text is percent-encoded as in a path, because header values must be ASCII. */
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

/* Replaces the table with its keys, for an op that searches only the keys. */
static td_status use_keys(struct td_call *call, const char *version, struct td_tensor *tensor)
{
    if (!tensor->keys)
        return td_table_without_keys(version, call->request.whole, tensor, call->op, &call->error);
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
    const char *version = table->name;
    uint64_t number;
    td_status status = td_resolve(&call->borrowed.resolver, table->name, strlen(table->name),
                                  &call->arena, tensor, &call->error);
    /* Errors name the version instead of the alias, because their advice applies to the version. */
    if (status == TD_OK)
        (void)td_store_identity(tensor, &version, &number);
    call->request.table_has_keys = status == TD_OK && tensor->keys;
    if (!call->request.table_has_keys) /* an error can already name the whole table */
        call->request.whole = td_companions_table(call, version);
    if (status == TD_OK && td_input_is_row_keys(&call->op->inputs[0]))
        status = use_keys(call, version, tensor);
    if (status != TD_OK)
        return status;
    call->request.table = version;
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
    if (call->program)
        return call->program_version;
    return call->table.model && td_store_identity(tensor, &name, &number) ? td_model_version(name)
                                                                          : NULL;
}

/* Returns where the name occurs as a whole word in the text, or NULL. */
static const char *find_word(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + length, word))
        if ((at == text || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[length]) && at[length] != '_')
            return at;
    return NULL;
}

/* Replaces `length` bytes of the message at `at` with `text`, if the result fits. */
static void replace(struct td_error *err, const char *at, size_t length, const char *text)
{
    const size_t start = (size_t)(at - err->message), end = start + length, size = strlen(text);
    const size_t rest = strlen(err->message + end) + 1;
    if (start + size + rest > sizeof err->message)
        return;
    memmove(err->message + start + size, err->message + end, rest);
    memcpy(err->message + start, text, size);
}

static void call_keys(const char *name, struct td_error *err)
{
    static const char others[] = " and keys ";
    if (strcmp(err->input, name) != 0)
        return;
    snprintf(err->input, sizeof err->input, "%s", TD_TABLE_KEYS);
    const char *both = strstr(err->message, others);
    if (both && err->status == TD_UNSUPPORTED_DTYPE)
        replace(err, both, strlen(others), " and the keys of the table ");
    if (find_word(err->message, name) == err->message)
        replace(err, err->message, strlen(name), TD_TABLE_KEYS);
}

void td_path_table_explain(struct td_call *call)
{
    const struct td_request *request = &call->request;
    struct td_error *err = &call->error;
    if (!call->op || request->op != call->op || !request->table)
        return;
    const struct td_input_spec *inputs = call->op->inputs;
    const int queries = td_op_keys_input(call->op);
    if (request->called_keys && queries > 0 && !td_input_is_row_numbers(&inputs[queries]))
        call_keys(inputs[queries].name, err);
    char text[2 * TD_TENSOR_NAME];
    /* A misspelt name, such as "params" for "parameters", does not refer to the table. */
    if (inputs[0].role != TD_ROLE_DATA || err->did_you_mean[0] ||
        !find_word(err->message, inputs[0].name))
        return;
    snprintf(text, sizeof text, "; %s is the table '%s'", inputs[0].name, request->table);
    replace(err, err->message + strlen(err->message), 0, text);
}

void td_path_table_tell(struct td_call *call)
{
    if (call->table.found)
        td_reply_header(&call->reply, "X-Tensord-Table", call->table.found);
}
