#include "server/calls/tensor_list.h"

#include "api/describe.h"
#include "api/message/attr_values.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"
#include "server/calls/services.h"
#include "server/calls/stored_programs.h"

#include <limits.h>
#include <string.h>

enum parameter { PREFIX, AFTER, LIMIT, N_PARAMETERS };
static const char *const names[N_PARAMETERS] = { "prefix", "after", "limit" };

struct state {
    struct td_name_range range;
    unsigned given; /* bit set of enum parameter */
};

static td_status begin_list(struct td_call *call)
{
    struct state *state = td_arena_alloc(&call->arena, 1, sizeof *state, &call->error);
    if (!state)
        return TD_MEMORY_EXHAUSTED;
    *state = (struct state){ .range = { .prefix = "", .after = "" } };
    call->state = state;
    call->reply_format = TD_FORMAT_JSON;
    return TD_OK;
}

static td_status unknown(struct td_call *call, const char *name, size_t length)
{
    const char *shown = TD_SHOWN(name, length);
    td_error_set(&call->error, TD_MALFORMED_REQUEST,
                 "the list has no query parameter \"%s\"; expected prefix, after or "
                 "limit",
                 shown);
    td_suggest(&call->error, name, length, names, N_PARAMETERS);
    return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, shown);
}

static td_status set_limit(struct td_call *call, const char *text, size_t length)
{
    static const struct td_attr_spec spec = { .name = "limit", .kind = TD_ATTR_INT };
    struct state *state = call->state;
    struct td_attr_value value;
    const td_status status =
        td_attr_of_text(&spec, text, length, &call->arena, &value, &call->error);
    if (status != TD_OK)
        return status;
    if (value.kind != TD_VALUE_INT || value.integer < 1)
        return td_attr_refuse(&call->error, spec.name, "an integer of at least 1", &value);
    state->range.limit = value.integer < INT_MAX ? (int)value.integer : INT_MAX - 1;
    return TD_OK;
}

/* Sets a text parameter. Refuses a NUL, because names cannot contain a NUL and it would end the
 * text here. */
static td_status set_name(struct td_call *call, enum parameter parameter, const char *text,
                          size_t length)
{
    struct state *state = call->state;
    if (memchr(text, '\0', length)) {
        td_error_set(&call->error, TD_MALFORMED_REQUEST,
                     "%s contains a NUL; names cannot contain one", names[parameter]);
        return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, names[parameter]);
    }
    const char *copy = td_arena_text(&call->arena, text, length, &call->error);
    if (!copy)
        return TD_MEMORY_EXHAUSTED;
    *(parameter == PREFIX ? &state->range.prefix : &state->range.after) = copy;
    return TD_OK;
}

static td_status list_argument(struct td_call *call, const char *name, size_t length,
                               const char *value, size_t value_length)
{
    struct state *state = call->state;
    int parameter = 0;
    while (parameter < N_PARAMETERS && !td_name_is(names[parameter], name, length))
        parameter++;
    if (parameter == N_PARAMETERS)
        return unknown(call, name, length);
    if (state->given >> parameter & 1) {
        td_error_set(&call->error, TD_MALFORMED_REQUEST, "%s is given twice", names[parameter]);
        return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, names[parameter]);
    }
    state->given |= 1U << parameter;
    return parameter == LIMIT ? set_limit(call, value, value_length)
                              : set_name(call, (enum parameter)parameter, value, value_length);
}

/* Sets the maximum size of the reply. If the list is long, a worker encodes it. */
static td_status admit_list(struct td_call *call, struct td_admission *admission)
{
    enum { PER_TENSOR = 512 };
    const struct state *state = call->state;
    const size_t limit = (size_t)state->range.limit;
    const size_t tensors = (size_t)td_store_usage(call->services->store).tensors;
    admission->encoded_bound = PER_TENSOR * ((limit && limit < tensors ? limit : tensors) + 1);
    return td_call_admit_memory(call, admission->encoded_bound);
}

static td_status encode_list(struct td_call *call)
{
    const struct state *state = call->state;
    struct td_tensor_listing *list;
    int count;
    bool more;
    const td_status status = td_catalog_list(&call->catalog, &state->range, &call->arena, &list,
                                             &count, &more, &call->error);
    return status != TD_OK
               ? status
               : td_describe_tensors(list, count, more, &call->arena, &call->reply, &call->error);
}

const struct td_task td_tensor_list_task = {
    .begin = begin_list, .argument = list_argument, .admit = admit_list, .encode = encode_list
};

static td_status encode_programs(struct td_call *call)
{
    const struct state *state = call->state;
    struct td_tensor_listing *list;
    int count;
    bool more;
    const td_status status = td_catalog_list_programs(&call->catalog, &state->range, &call->arena,
                                                      &list, &count, &more, &call->error);
    struct td_program_listing *programs =
        status == TD_OK
            ? td_arena_alloc(&call->arena, (size_t)count, sizeof *programs, &call->error)
            : NULL;
    if (!programs)
        return call->error.status;
    for (int i = 0; i < count; i++)
        programs[i] = td_stored_program_listing(&list[i]);
    return td_describe_programs(programs, count, more, &call->arena, &call->reply, &call->error);
}

const struct td_task td_program_list_task = {
    .begin = begin_list, .argument = list_argument, .admit = admit_list, .encode = encode_programs
};
