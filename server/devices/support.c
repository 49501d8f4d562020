#include "server/devices/support.h"

#include "kernels/program/plan.h"

#include <stdio.h>

/* ---- ops ------------------------------------------------------------------------------------- */

/* Finds the input that the error about a missing kernel names: the first input of dtype string, or
 * the first input if there are no strings. */
static void input_at_fault(const struct td_op *op, const struct td_op_args *args, int *input,
                           int *number)
{
    for (*input = 0; *input < op->n_inputs; ++*input)
        for (*number = 0; *number < args->inputs[*input].count; ++*number)
            if (args->inputs[*input].tensors[*number].dtype == TD_DTYPE_STRING)
                return;
    *input = *number = 0;
}

static td_status refuse_inputs(const struct td_op *op, const struct td_op_args *args,
                               struct td_error *err)
{
    char shape[TD_SHAPE_TEXT], list_number[16] = "";
    int input, number;
    input_at_fault(op, args, &input, &number);
    const char *name = op->inputs[input].name;
    const struct td_tensor *tensor = &args->inputs[input].tensors[number];
    if (op->inputs[input].list)
        snprintf(list_number, sizeof list_number, "[%d]", number);
    td_error_set(
        err, TD_UNSUPPORTED_DTYPE,
        "device is 'gpu', but it has no kernel for %s with %s%s = %s%s; expected 'auto' or "
        "'cpu'",
        op->name, name, list_number, td_dtype_info(tensor->dtype)->name,
        td_shape_text(&tensor->shape, shape, sizeof shape));
    return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "%s%s", name, list_number);
}

/* True if the op returns strings. No device supports strings as outputs, because their length is
 * unknown until they are computed. */
static bool returns_strings(const struct td_op_args *args)
{
    for (int i = 0; i < args->n_outputs; i++)
        if (args->outputs[i].dtype == TD_DTYPE_STRING)
            return true;
    return false;
}

static td_status check_op(const struct td_device_api *api, const struct td_op *op,
                          const struct td_op_args *args, struct td_error *err)
{
    const bool supported = api->supports(op, args);
    if (supported && !returns_strings(args))
        return TD_OK;
    if (supported)
        td_error_set(err, TD_UNSUPPORTED_DTYPE,
                     "device is 'gpu', but %s returns strings, which no device supports; expected "
                     "'auto' or 'cpu'",
                     op->name);
    else
        (void)refuse_inputs(op, args, err);
    return td_error_at_device(err, TD_UNSUPPORTED_DTYPE, "gpu");
}

/* ---- programs -------------------------------------------------------------------------------- */

static td_status refuse(const struct td_program_plan *plan, int s, const char *why,
                        struct td_error *err)
{
    td_error_set(err, TD_UNSUPPORTED_DTYPE,
                 "device is 'gpu', but %s of %s; expected 'auto' or 'cpu'", why,
                 plan->program->steps[s].op->name);
    return td_error_at_device(err, TD_UNSUPPORTED_DTYPE, "gpu");
}

/* True if td_op.valid can check the values of the input: offsets, segments, row numbers, and the
 * divisors of an elementwise op. A device checks queries itself. */
static bool is_checked(const struct td_op *op, int input)
{
    const struct td_input_spec *spec = &op->inputs[input];
    return spec->role == TD_ROLE_INDEX ? spec->part != TD_ROW_PART_QUERY : op->chain && input > 0;
}

/* True if the program computes values that only the host can check. */
static bool has_unchecked_values(const struct td_program_plan *plan, int s)
{
    const struct td_op *op = plan->program->steps[s].op;
    const struct td_op_args *args = &plan->steps[s].args;
    for (int i = 0; op->valid && i < op->n_inputs; i++)
        for (int k = 0; is_checked(op, i) && k < args->inputs[i].count; k++)
            if (!args->inputs[i].tensors[k].data)
                return !op->valid(args);
    return false;
}

/* True if the keys of the step's table are an input of the step without being a value of the
 * program. Such keys are not copied to the device. */
static bool has_keys_of_table(const struct td_program_plan *plan, int s)
{
    const struct td_program_step *step = &plan->program->steps[s];
    for (int i = 0; i < step->op->n_inputs; i++)
        if (step->inputs[i].count == 0 && plan->steps[s].args.inputs[i].count > 0)
            return true;
    return false;
}

static td_status check_step(const struct td_device_api *api, const struct td_program_plan *plan,
                            int s, struct td_error *err)
{
    if (!plan->steps[s].is_inferred)
        return refuse(plan, s, "values that the program computes decide the shapes", err);
    if (td_program_shares(plan->program, s))
        return TD_OK;
    if (plan->steps[s].keys)
        return refuse(plan, s, "keys choose the rows", err);
    if (has_keys_of_table(plan, s))
        return refuse(plan, s, "the keys of the table are not an input", err);
    if (has_unchecked_values(plan, s))
        return refuse(plan, s, "only the CPU can check the values", err);
    return check_op(api, plan->program->steps[s].op, &plan->steps[s].args, err);
}

static td_status check_program(const struct td_device_api *api, const struct td_program_plan *plan,
                               struct td_error *err)
{
    td_status status = TD_OK;
    for (int s = 0; s < plan->program->n_steps && status == TD_OK; s++)
        status = td_program_blame(plan->program, s, check_step(api, plan, s, err), err);
    return status;
}

td_status td_support_check(const struct td_device_api *api, const struct td_op *op,
                           const struct td_op_args *args, struct td_error *err)
{
    return td_program_of(op) ? check_program(api, args->plan, err) : check_op(api, op, args, err);
}
