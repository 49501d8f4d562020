#include "server/calls/store_option.h"

#include "api/describe.h"
#include "kernels/integers.h"
#include "server/calls/audit.h"
#include "server/calls/conditions.h"
#include "server/calls/services.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PART = TD_TENSOR_NAME + 1 }; /* longer parts of a name are invalid */

/* State of a call that stores its outputs. */
struct stored {
    /* Output being stored. Its name is the next member. */
    struct td_store_write write;
    char name[2 * LONGEST_PART + 64];
    const char **names; /* sorted names of all outputs */
};

/* Writes the name of output `i` for the name "w": "w", or "w.0", "w.1", ... if the op has a list of
 * outputs, or "w.values" if the outputs have names. For "w@v", the names are "w.0@v" and so on, so
 * each output has the version v. A name that is too long remains too long, and is therefore
 * invalid. */
static void name_output(struct td_call *call, int i)
{
    struct stored *stored = call->state;
    const char *const *as = call->request.common.store_as;
    const char *name = call->request.common.store;
    if (as) {
        snprintf(stored->name, sizeof stored->name, "%.*s", 2 * LONGEST_PART,
                 as[td_request_output_index(&call->request, i)]);
        stored->write.name = stored->name;
        return;
    }
    const int base = (int)td_smaller((int64_t)td_table_base(name), LONGEST_PART);
    const char *version = name + td_table_base(name);
    switch (td_op_output_form(call->op)) {
    case TD_OUTPUT_ONE:
        snprintf(stored->name, sizeof stored->name, "%.*s%.*s", base, name, LONGEST_PART, version);
        break;
    case TD_OUTPUT_LIST:
        snprintf(stored->name, sizeof stored->name, "%.*s.%d%.*s", base, name, i, LONGEST_PART,
                 version);
        break;
    case TD_OUTPUT_NAMED:
        snprintf(stored->name, sizeof stored->name, "%.*s.%s%.*s", base, name,
                 call->op->outputs[td_request_output_index(&call->request, i)].name, LONGEST_PART,
                 version);
        break;
    }
    stored->write.name = stored->name;
}

/* Checks the names of all outputs. In a list, the last output has the longest name. */
static td_status check_names(struct td_call *call)
{
    const struct stored *stored = call->state;
    const int n = td_request_n_outputs(&call->request);
    td_status status = td_name_check(call->request.common.store, &call->error);
    if (status != TD_OK)
        return td_error_at_attribute(&call->error, status, "store");
    int i = td_op_output_form(call->op) == TD_OUTPUT_LIST && n > 0 ? n - 1 : 0;
    for (; status == TD_OK && i < n; i++) {
        name_output(call, i);
        status = td_name_check(stored->name, &call->error);
        if (status != TD_OK)
            td_error_hint(&call->error,
                          "store would give an output this name; leave the output out with the "
                          "member outputs");
        if (status == TD_OK)
            status = td_catalog_may_write(&call->catalog, stored->name, &call->error);
    }
    return status;
}

td_status td_store_option_check(struct td_call *call)
{
    const char *name = call->request.common.store;
    return name ? td_catalog_may_write(&call->catalog, name, &call->error) : TD_OK;
}

static int in_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the names of all outputs in order. The names have already been checked. */
static td_status list_names(struct td_call *call)
{
    struct stored *stored = call->state;
    const size_t n = (size_t)td_request_n_outputs(&call->request);
    stored->names = td_arena_alloc(&call->arena, n, sizeof *stored->names, &call->error);
    for (size_t i = 0; stored->names && i < n; i++) {
        name_output(call, (int)i);
        stored->names[i] =
            td_arena_text(&call->arena, stored->name, strlen(stored->name), &call->error);
        if (!stored->names[i])
            return call->error.status;
    }
    if (!stored->names)
        return call->error.status;
    qsort(stored->names, n, sizeof *stored->names, in_order);
    return TD_OK;
}

td_status td_store_option_admit(struct td_call *call, struct td_admission *admission)
{
    struct stored *stored = td_arena_alloc(&call->arena, 1, sizeof *stored, &call->error);
    struct td_store *store = call->services->store;
    const int n = td_request_n_outputs(&call->request);
    struct td_store_totals totals = { 0 };
    if (!stored)
        return call->error.status;
    call->state = stored;
    admission->encoded_bound = td_describe_stored_bound(n);
    *stored = (struct stored){ 0 };
    stored->write.is_result = true;
    stored->write.ttl_s = call->request.common.store_ttl_s;
    stored->write.condition = td_conditions_of(call);
    td_status status = check_names(call);
    for (int i = 0; status == TD_OK && i < n; i++) {
        name_output(call, i);
        status = td_store_admit_next(store, &stored->write,
                                     td_tensor_footprint(td_request_output(&call->request, i)),
                                     &totals, &call->error);
    }
    return status == TD_OK ? list_names(call) : status;
}

td_status td_store_option_alloc(struct td_call *call, struct td_tensor *output)
{
    if (output->dtype == TD_DTYPE_STRING || output->bytes <= TD_CALL_BLOCK / 2)
        return td_tensor_alloc(output, &call->arena, &call->error);
    struct td_memory *memory = td_buffer_pool_memory(call->services->buffers);
    struct td_buffer *buffer = memory->take(memory, output->bytes, &call->error);
    if (!buffer || !td_arena_keep(&call->arena, buffer, &call->error))
        return call->error.status;
    output->data = buffer->data;
    output->owner = buffer;
    return TD_OK;
}

td_effect td_store_option_effect(struct td_call *call, struct td_writer *writer)
{
    struct stored *stored = call->state;
    if (!call->request.common.store)
        return TD_EFFECT_NONE;
    *writer = (struct td_writer){ .names = stored->names,
                                  .n_names = td_request_n_outputs(&call->request) };
    stored->write.writer = writer;
    return TD_EFFECT_MEMORY;
}

td_status td_store_option_change(struct td_call *call)
{
    struct stored *stored = call->state;
    const int n = td_request_n_outputs(&call->request);
    const size_t size = td_describe_stored_bound(n);
    struct td_tensor_listing *list =
        td_arena_alloc(&call->arena, (size_t)n, sizeof *list, &call->error);
    char *text = list ? td_arena_alloc(&call->arena, size, 1, &call->error) : NULL;
    td_status status = text ? TD_OK : call->error.status;
    for (int i = 0; status == TD_OK && i < n; i++) {
        bool created;
        name_output(call, i);
        status = td_store_put(call->services->store, &stored->write,
                              td_request_output(&call->request, i), &call->arena, &list[i],
                              &created, &call->error);
        if (status == TD_OK)
            td_audit_table(call, call->op->name, &list[i]);
    }
    if (status == TD_OK)
        td_describe_stored(&call->request, list, text, size, &call->reply);
    return status;
}
