#include "kernels/cast/cast.h"

#include "kernels/cast/loops.h"
#include "kernels/convert/convert.h"
#include "kernels/integers.h"
#include "kernels/isa.h"
#include "kernels/rows/rows.h"

#include <assert.h>
#include <string.h>

/* ---- Paths ------------------------------------------------------------------------------- */

/* One loop of a path; one of the three is set. */
struct step {
    td_cast_fn *loop;
    td_widen_fn *widen;
    td_narrow_fn *narrow;
};

/* The loops that elements pass through, one after the other. */
#define MAX_STEPS 3 /* complex128 to float64, to float32, to float16 */
struct path {
    struct step steps[MAX_STEPS];
    int n_steps;
};

static void add_step(struct path *path, struct step step)
{
    assert(path->n_steps < MAX_STEPS && (step.loop || step.widen || step.narrow));
    path->steps[path->n_steps++] = step;
}

static bool is_half(td_dtype dtype)
{
    return dtype == TD_DTYPE_FLOAT16 || dtype == TD_DTYPE_BFLOAT16;
}

static const struct td_cast_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_cast_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_cast_loops_avx2;
#endif
    (void)isa;
    return &td_cast_loops_generic;
}

/* NULL where there is none. */
static td_cast_fn *direct_loop(const struct td_cast_loops *loops, td_dtype from, td_dtype to)
{
    return loops->direct[from] ? loops->direct[from][to] : NULL;
}

static void add_direct(struct path *path, const struct td_cast_loops *loops, td_dtype from,
                       td_dtype to)
{
    if (from != to)
        add_step(path, (struct step){ .loop = direct_loop(loops, from, to) });
}

/* Between different dtypes, of which at most one is complex. */
static void find_path(struct path *path, td_dtype from, td_dtype to, td_isa isa)
{
    const struct td_cast_loops *loops = loops_of(isa);
    const td_dtype real = td_dtype_part(to);
    *path = (struct path){ 0 };
    if (direct_loop(loops, from, to)) {
        add_direct(path, loops, from, to);
        return;
    }
    add_direct(path, loops, from, td_dtype_part(from));
    from = td_dtype_part(from);
    if (is_half(from)) {
        add_step(path, (struct step){ .widen = td_widen(from, isa) });
        from = TD_DTYPE_FLOAT32;
    }
    if (is_half(real)) {
        if (loops->odd[from])
            add_step(path, (struct step){ .loop = loops->odd[from] });
        else
            add_direct(path, loops, from, TD_DTYPE_FLOAT32);
        add_step(path, (struct step){ .narrow = td_narrow(real, isa) });
    } else {
        add_direct(path, loops, from, real);
    }
    add_direct(path, loops, real, to);
}

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_dtype dtype_of(const struct td_op_args *args)
{
    struct td_cast_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof(attrs));
    return attrs.dtype;
}

static td_status infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    struct td_error local;
    if (!err)
        err = &local;
    args->outputs = td_arena_alloc(arena, 1, sizeof(args->outputs[0]), err);
    if (!args->outputs)
        return err->status;
    args->n_outputs = 1;
    return td_tensor_describe(&args->outputs[0], "output", dtype_of(args),
                              &args->inputs[0].tensors[0].shape, err);
}

static struct td_cost cost(const struct td_op_args *args)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    return (struct td_cost){
        .bytes_read = x->bytes,
        .bytes_written = args->outputs[0].bytes,
        .flops = (uint64_t)x->numel,
    };
}

/* ---- Execution --------------------------------------------------------------------------- */

/* Elements between two steps of a path: with two buffers of 8 bytes an element, half the first cache. */
#define BLOCK 1024

struct job {
    struct path path;
    const char *from;
    char *to;
    size_t from_size, to_size; /* of an element */
};

static void run_step(const struct step *step, void *to, const void *from, int64_t n)
{
    if (step->loop)
        step->loop(to, from, n);
    else if (step->widen)
        step->widen(to, from, 1, n);
    else
        step->narrow(to, 1, from, n);
}

static void cast_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    const int last = job->path.n_steps - 1;
    _Alignas(64) char buffers[2][BLOCK * sizeof(double)]; /* no dtype between two steps is wider */
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = td_smaller(end - at, BLOCK);
        const void *from = job->from + (size_t)at * job->from_size;
        for (int i = 0; i < last; i++) {
            run_step(&job->path.steps[i], buffers[i % 2], from, n);
            from = buffers[i % 2];
        }
        run_step(&job->path.steps[last], job->to + (size_t)at * job->to_size, from, n);
    }
}

static void copy_range(void *context, int64_t begin, int64_t end)
{
    const struct job *job = context;
    memcpy(job->to + (size_t)begin * job->to_size, job->from + (size_t)begin * job->from_size,
           (size_t)(end - begin) * job->to_size);
}

static td_status run(struct td_op_args *args, struct td_exec *exec, struct td_error *err)
{
    const struct td_tensor *x = &args->inputs[0].tensors[0];
    const struct td_tensor *out = &args->outputs[0];
    struct job job = { .from = x->data, .to = out->data };
    td_dtype from = x->dtype, to = out->dtype;
    int64_t n = x->numel;
    if (td_dtype_is_complex(from) && td_dtype_is_complex(to)) { /* part by part */
        from = td_dtype_part(from);
        to = td_dtype_part(to);
        n *= 2;
    }
    job.from_size = td_dtype_info(from)->size;
    job.to_size = td_dtype_info(to)->size;
    const size_t fit = TD_ROWS_RANGE_BYTES / (job.from_size + job.to_size);
    const int64_t grain = (int64_t)(fit / BLOCK * BLOCK);
    if (from == to)
        return td_exec_for(exec, n, grain, copy_range, &job, err);
    find_path(&job.path, from, to, td_isa_resolve(exec->isa));
    return td_exec_for(exec, n, grain, cast_range, &job, err);
}

/* ---- Descriptor -------------------------------------------------------------------------- */

#define CASTABLE (TD_DTYPES_ALL & ~TD_DTYPE_BIT(STRING))

static const struct td_input_spec inputs_specs[] = {
    {
        .name = "x",
        .summary = "The tensor to convert, of any shape.",
        .dtypes = CASTABLE,
        .reads_values = true,
    },
};

static const struct td_attr_spec attrs_specs[] = {
    {
        .name = "dtype",
        .summary = "The dtype to convert to.",
        .kind = TD_ATTR_DTYPE,
        .required = true,
        .dtypes = CASTABLE,
        .offset = offsetof(struct td_cast_attrs, dtype),
    },
};

static const td_status errors[] = {
    TD_UNSUPPORTED_DTYPE,
    TD_INVALID_ARGUMENT,
    TD_RESOURCE_LIMIT,
    TD_OK,
};

static const struct td_output_spec outputs_specs[] = {
    {
        .name = "output",
        .summary = "The converted elements.",
        .shape_rule = "x.shape",
        .dtype_of = "dtype",
    },
};

const struct td_op td_op_cast = {
    .name = "cast",
    .summary = "Converts the elements of a tensor to another dtype.",
    .source = "tf.cast (TensorFlow 2 API reference); floats out of the range of an integer dtype "
              "saturate, and NaN gives 0",
    .inputs = inputs_specs,
    .n_inputs = 1,
    .attrs = attrs_specs,
    .n_attrs = 1,
    .outputs = outputs_specs,
    .n_outputs = 1,
    .errors = errors,
    .example = "{\"x\":[1.5,-2.5,3e10],\"dtype\":\"int32\"}",
    .infer = infer,
    .cost = cost,
    .run = run,
};
