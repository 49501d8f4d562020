#include "api/message/outputs.h"

#include "api/message/named_inputs.h"
#include "api/text/suggest.h"
#include "kernels/shown_text.h"

/* ---- selection ------------------------------------------------------------------------------- */

static td_status refuse(struct td_error *err)
{
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST,
                                 td_common_member_names[TD_COMMON_OUTPUTS]);
}

static td_status refuse_name(const struct td_op *op, const struct td_attr_name *name,
                             struct td_error *err)
{
    const char *names[TD_MAX_OUTPUTS];
    char expected[TD_TENSOR_NAMES_TEXT];
    for (int i = 0; i < op->n_outputs; i++)
        names[i] = op->outputs[i].name;
    td_error_set(err, TD_MALFORMED_REQUEST, "%s has no output \"%s\"; expected %s", op->name,
                 TD_SHOWN(name->text, name->length),
                 td_output_names_text(op, expected, sizeof expected));
    td_suggest(err, name->text, name->length, names, op->n_outputs);
    return refuse(err);
}

td_status td_outputs_select(const struct td_op *op, const struct td_attr_value *value,
                            uint64_t *set, struct td_error *err)
{
    char names[TD_TENSOR_NAMES_TEXT];
    const bool is_empty = value->kind == TD_VALUE_INTS && value->list.count == 0;
    uint64_t selected = 0;
    if (is_empty || (value->kind == TD_VALUE_NAMES && value->names.count == 0)) {
        td_error_set(err, TD_MALFORMED_REQUEST, "outputs is empty; expected one or more of %s",
                     td_output_names_text(op, names, sizeof names));
        return refuse(err);
    }
    if (value->kind != TD_VALUE_NAMES)
        return td_attr_refuse(err, td_common_member_names[TD_COMMON_OUTPUTS], "a list of strings",
                              value);
    for (int i = 0; i < value->names.count; i++) {
        const struct td_attr_name *name = &value->names.values[i];
        const int64_t index = td_named_output_find(op, name->text, name->length);
        if (index < 0)
            return refuse_name(op, name, err);
        if (selected >> index & 1) {
            td_error_set(err, TD_MALFORMED_REQUEST, "outputs contains \"%s\" twice",
                         op->outputs[index].name);
            return refuse(err);
        }
        selected |= UINT64_C(1) << index;
    }
    *set = selected;
    return TD_OK;
}

/* ---- the outputs of a call ------------------------------------------------------------------- */

/* Refuses the selection of an output that only some calls have. */
static td_status refuse_absent(const struct td_request *request, int index, struct td_error *err)
{
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "outputs contains \"%s\", which this call of %s does not have",
                 request->op->outputs[index].name, request->op->name);
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT,
                                 td_common_member_names[TD_COMMON_OUTPUTS]);
}

static bool has_dtype(const struct td_request *request)
{
    return request->common.set >> TD_COMMON_OUTPUT_DTYPE & 1;
}

/* Returns the dtype in which an output is sent or stored. */
static td_dtype dtype_of(const struct td_request *request, td_dtype dtype)
{
    return has_dtype(request) && TD_OUTPUT_DTYPES >> dtype & 1 ? request->common.output_dtype
                                                               : dtype;
}

td_status td_outputs_describe(struct td_request *request, struct td_arena *arena,
                              struct td_error *err)
{
    const struct td_op_args *args = &request->args;
    const uint64_t selected = request->common.outputs;
    request->outputs = NULL;
    if (!selected && !has_dtype(request))
        return TD_OK;
    for (int i = args->n_outputs; i < request->op->n_outputs; i++)
        if (selected >> i & 1)
            return refuse_absent(request, i, err);
    request->n_outputs = 0;
    request->outputs =
        td_arena_alloc(arena, (size_t)args->n_outputs, sizeof *request->outputs, err);
    if (!request->outputs)
        return err->status;
    for (int i = 0; i < args->n_outputs; i++) {
        const struct td_tensor *from = &args->outputs[i];
        struct td_output *output = &request->outputs[request->n_outputs];
        if (selected && !(selected >> i & 1))
            continue;
        *output = (struct td_output){ *from, i };
        const td_dtype dtype = dtype_of(request, from->dtype);
        const td_status status =
            dtype == from->dtype
                ? TD_OK
                : td_tensor_describe(&output->tensor, "output", dtype, &from->shape, err);
        if (status != TD_OK)
            return status;
        request->n_outputs++;
    }
    return TD_OK;
}

bool td_output_is_converted(const struct td_request *request, int i)
{
    const struct td_tensor *from = &request->args.outputs[td_request_output_index(request, i)];
    return td_request_output(request, i)->dtype != from->dtype;
}

td_status td_outputs_convert(struct td_request *request, struct td_exec *exec, struct td_error *err)
{
    td_status status = TD_OK;
    for (int i = 0; request->outputs && i < request->n_outputs && status == TD_OK; i++) {
        struct td_output *output = &request->outputs[i];
        struct td_tensor *from = &request->args.outputs[output->index];
        if (!td_output_is_converted(request, i)) {
            output->tensor = *from;
            continue;
        }
        struct td_op_args cast = { .op = td_converter_op,
                                   .inputs = { { from, 1 } },
                                   .outputs = &output->tensor,
                                   .n_outputs = 1 };
        status = td_converter_op->run(&cast, exec, err);
    }
    return status;
}
