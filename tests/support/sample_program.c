#include "tests/support/sample_program.h"

#include "kernels/op_check.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static void *room(size_t n, size_t size)
{
    struct td_error err;
    void *place = td_arena_alloc(&test_arena, n, size, &err);
    EXPECT(place != NULL, "%s", err.message);
    return place;
}

void sample_begin(struct sample *sample)
{
    memset(sample, 0, sizeof(*sample));
    sample->program.op.name = "sample";
    sample->program.op.inputs = sample->inputs;
    sample->program.op.outputs = sample->output_specs;
    sample->program.values = sample->values;
    sample->program.steps = sample->steps;
    sample->program.outputs = sample->outputs;
}

static int add_value(struct sample *sample, struct td_program_value value)
{
    EXPECT(sample->program.n_values < SAMPLE_MOST, "too many values");
    sample->values[sample->program.n_values] = value;
    return sample->program.n_values++;
}

int sample_input(struct sample *sample, struct td_tensor tensor)
{
    const int i = sample->program.op.n_inputs++;
    sample->inputs[i] = (struct td_input_spec){ .name = "input", .dtypes = TD_DTYPES_ALL };
    sample->tensors[i] = tensor;
    return add_value(sample, (struct td_program_value){ .step = -1, .output = -1 });
}

int sample_constant(struct sample *sample, struct td_tensor tensor)
{
    struct td_tensor *constant = room(1, sizeof(*constant));
    *constant = tensor;
    return add_value(sample,
                     (struct td_program_value){ .step = -1, .constant = constant, .output = -1 });
}

int sample_step(struct sample *sample, const char *op_name, const char *attrs, const int *operands,
                int n_results)
{
    const struct td_op *op = td_op_named(op_name, strlen(op_name));
    struct td_program_step *step = &sample->steps[sample->program.n_steps];
    struct td_program_operand *inputs = room((size_t)op->n_inputs, sizeof(*inputs));
    struct op_call call;
    int *values = room(SAMPLE_MOST, sizeof(*values)),
        *results = room((size_t)n_results, sizeof(int));
    memset(inputs, 0, (size_t)op->n_inputs * sizeof(*inputs));
    inputs[0].values = values;
    for (int i = 0; *operands != END; operands++) {
        if (*operands == NEXT)
            inputs[++i].values = values;
        else
            inputs[i].count++;
        if (*operands != NEXT)
            *values++ = *operands;
    }
    for (int r = 0; r < n_results; r++)
        results[r] =
            add_value(sample, (struct td_program_value){
                                  .step = sample->program.n_steps, .result = r, .output = -1 });
    call_begin(&call, op_name, attrs, tensor("int32[] 0"), tensor("int32[] 0"));
    *step = (struct td_program_step){ .op = op,
                                      .as = "as",
                                      .inputs = inputs,
                                      .attrs_set = call.args.attrs_set,
                                      .results = results,
                                      .n_results = n_results };
    memcpy(step->attrs, call.args.attrs, sizeof(step->attrs));
    sample->program.n_steps++;
    return results[0];
}

void sample_output(struct sample *sample, int value)
{
    const int i = sample->program.op.n_outputs++;
    sample->outputs[i] = value;
    sample->values[value].output = i;
}

td_status sample_infer(struct sample *sample, struct op_call *call)
{
    memset(call, 0, sizeof(*call));
    td_program_describe(&sample->program, sample->inputs);
    td_op_set_defaults(&sample->program.op, &call->args);
    for (int i = 0; i < sample->program.op.n_inputs; i++) {
        struct td_tensor *copy = room(1, sizeof(*copy));
        *copy = sample->tensors[i];
        call->args.inputs[i] = (struct td_operand){ copy, 1 };
    }
    call->status = td_op_infer(&sample->program.op, &call->args, &test_arena, &call->err);
    return call->status;
}
