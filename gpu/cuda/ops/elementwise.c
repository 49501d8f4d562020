/* elementwise.c - the elementwise ops and cast, one at a time or as a chain. */
#include "kernels/elementwise/elementwise.h"

#include "gpu/cuda/ops/ops.h"
#include "kernels/broadcast.h"

#include <string.h>

#define SAME_ELEMENT(name) _Static_assert((int)TD_CUDA_ELEMENT_##name == (int)TD_DTYPE_##name, "");
SAME_ELEMENT(BOOL)
SAME_ELEMENT(INT64)
SAME_ELEMENT(UINT8)
SAME_ELEMENT(FLOAT16)
SAME_ELEMENT(FLOAT64)
_Static_assert(TD_CUDA_ELEMENTWISE_INPUTS == TD_CHAIN_INPUTS &&
                   TD_CUDA_ELEMENTWISE_STEPS == TD_CHAIN_STEPS &&
                   TD_CUDA_ELEMENTWISE_RANK == TD_MAX_RANK,
               "a chain fits into the arguments of the kernel");

/* ---- Ops ------------------------------------------------------------------------------------- */

static bool is_supported(td_dtype dtype)
{
    return (int)dtype < (int)TD_CUDA_ELEMENTS;
}

static bool elementwise_supports(const struct td_op_args *args)
{
    bool supported = is_supported(args->outputs[0].dtype);
    for (int i = 0; i < args->op->n_inputs; i++)
        supported = supported && is_supported(args->inputs[i].tensors[0].dtype);
    return supported;
}

/* Returns the step of an op, without its operands. */
static enum td_cuda_elementwise_name name_of(const struct td_op_args *args)
{
    static const char *const names[] = {
#define TD_ELEMENTWISE(name, ...) #name,
#include "kernels/elementwise/elementwise.def"
#undef TD_ELEMENTWISE
    };
    int name = 0;
    while (name < TD_CUDA_ELEMENTWISE_gelu_tanh && strcmp(names[name], args->op->name) != 0)
        name++;
    if (name == TD_CUDA_ELEMENTWISE_gelu_tanh)
        return TD_CUDA_ELEMENTWISE_cast;
    struct td_gelu_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return name == TD_CUDA_ELEMENTWISE_gelu && attrs.approximate ? TD_CUDA_ELEMENTWISE_gelu_tanh
                                                                 : name;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* The inputs of a chain, and how they are repeated. */
struct inputs {
    const struct td_tensor *tensors[TD_CUDA_ELEMENTWISE_INPUTS];
    int n;
};

static bool is_same(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->data == b->data && a->dtype == b->dtype && td_shape_equal(&a->shape, &b->shape);
}

/* Returns the number of an input. Adds the input if it is new. */
static int add_input(struct inputs *inputs, const struct td_tensor *tensor)
{
    int i = 0;
    while (i < inputs->n && !is_same(inputs->tensors[i], tensor))
        i++;
    inputs->tensors[i] = tensor;
    inputs->n = i < inputs->n ? inputs->n : i + 1;
    return i;
}

static void set_inputs(const struct inputs *inputs, const struct td_shape *of,
                       struct td_cuda_elementwise_args *args)
{
    const struct td_shape *shapes[TD_CUDA_ELEMENTWISE_INPUTS];
    uint32_t full[TD_CUDA_ELEMENTWISE_INPUTS];
    struct td_shape shape = *of;
    for (int i = 0; i < inputs->n; i++)
        shapes[i] = &inputs->tensors[i]->shape;
    td_broadcast_merge(&shape, shapes, inputs->n, full);
    args->rank = shape.rank;
    memcpy(args->extent, shape.dim, sizeof(shape.dim));
    for (int i = 0; i < inputs->n; i++) {
        struct td_repeat repeat;
        td_repeat_init(&repeat, &shape, full[i]);
        memcpy(args->stride[i], repeat.stride, sizeof(repeat.stride));
        args->inputs[i].data = inputs->tensors[i]->data;
        args->inputs[i].bytes = (unsigned char)td_cuda_element_bytes(inputs->tensors[i]);
        args->inputs[i].repeat = inputs->tensors[i]->numel == args->n ? TD_CUDA_REPEAT_NEVER
                                 : inputs->tensors[i]->numel == 1     ? TD_CUDA_REPEAT_SCALAR
                                                                      : TD_CUDA_REPEAT_STRIDED;
    }
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Returns the last call of the chain that uses the result of call c, or c. */
static int last_use(const struct td_chain_call *calls, int n, int c)
{
    int last = c;
    for (int u = c + 1; u < n; u++)
        for (int i = 0; i < calls[u].args->op->n_inputs; i++)
            last = calls[u].operands[i] == c ? u : last;
    return last;
}

/* Gives the result of call c a slot that no result needs at the same time. */
static int take_slot(const struct td_chain_call *calls, int n, int c, int *busy_until)
{
    int slot = 0;
    while (busy_until[slot] > c)
        slot++;
    busy_until[slot] = last_use(calls, n, c);
    return slot;
}

static void add_step(const struct td_chain_call *call, const int *operands, int slot,
                     struct td_cuda_elementwise_args *args)
{
    const struct td_op *op = call->args->op;
    const struct td_tensor *out = &call->args->outputs[0];
    const struct td_tensor *values = call->args->inputs[op->n_inputs - 1].tensors;
    const int s = args->n_steps++;
    args->steps[s].to = call->is_inner ? NULL : out->data;
    args->steps[s].name = (unsigned char)name_of(call->args);
    args->steps[s].from = (unsigned char)values->dtype;
    args->steps[s].result = (unsigned char)out->dtype;
    args->steps[s].bytes = (unsigned char)td_cuda_element_bytes(out);
    args->steps[s].slot = (unsigned char)slot;
    for (int i = 0; i < 3; i++)
        args->steps[s].operands[i] = (unsigned char)operands[i < op->n_inputs ? i : 0];
}

static void set_chain(const struct td_chain_call *calls, int n,
                      struct td_cuda_elementwise_args *args)
{
    struct inputs inputs = { .n = 0 };
    int slots[TD_CUDA_ELEMENTWISE_STEPS], busy_until[TD_CUDA_ELEMENTWISE_STEPS] = { 0 };
    memset(args, 0, sizeof(*args));
    args->n = calls[0].args->outputs[0].numel;
    for (int c = 0; c < n; c++) {
        int operands[TD_CHAIN_OPERANDS];
        for (int i = 0; i < calls[c].args->op->n_inputs; i++)
            operands[i] = calls[c].operands[i] < 0
                              ? add_input(&inputs, calls[c].args->inputs[i].tensors)
                              : TD_CUDA_ELEMENTWISE_INPUTS + slots[calls[c].operands[i]];
        slots[c] = take_slot(calls, n, c, busy_until);
        args->n_slots = slots[c] < args->n_slots ? args->n_slots : slots[c] + 1;
        add_step(&calls[c], operands, slots[c], args);
    }
    set_inputs(&inputs, &calls[0].args->outputs[0].shape, args);
}

/* ---- The op ---------------------------------------------------------------------------------- */

static size_t elementwise_workspace_bytes(struct td_device *device,
                                          const struct td_device_work *work)
{
    (void)device;
    (void)work;
    return 0;
}

static td_status elementwise_run(struct td_device_stream *stream, const struct td_device_work *work,
                                 struct td_error *err)
{
    const struct td_chain_call single = { .args = work->args, .operands = { -1, -1, -1 } };
    struct td_cuda_elementwise_args args;
    td_cuda_report_none(work);
    if (work->args->outputs[0].numel == 0)
        return TD_OK;
    set_chain(work->chain ? work->chain : &single, work->chain ? work->n_chain : 1, &args);
    return td_cuda_check(stream->device, td_cuda_elementwise(&args, stream->stream),
                         "compute elements", err);
}

const struct td_cuda_op td_cuda_elementwise_op = { elementwise_supports,
                                                   elementwise_workspace_bytes, elementwise_run };
