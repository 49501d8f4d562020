/* The ops of kernels/shapes against their definitions, element by element: for every dtype, number
 * of threads, size of ranges and instruction set. */
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The position in x of the element at a position of the output. */
typedef int64_t source_fn(const void *context, const int64_t *position);

static int64_t linear(const struct td_shape *shape, const int64_t *position)
{
    int64_t at = 0;
    for (int d = 0; d < shape->rank; d++)
        at = at * shape->dim[d] + position[d];
    return at;
}

static void expect_elements(const struct td_tensor *out, const struct td_shape *want_shape,
                            const struct td_tensor *x, source_fn *source, const void *context,
                            const char *what)
{
    int64_t position[TD_MAX_RANK];
    EXPECT(out->dtype == x->dtype && td_shape_equal(&out->shape, want_shape), "%s: shape", what);
    for (int64_t k = 0; k < out->numel; k++) {
        size_t got_size, want_size;
        td_shape_unravel(&out->shape, k, position);
        const void *got = tensor_element(out, k, &got_size);
        const void *want = tensor_element(x, source(context, position), &want_size);
        EXPECT(got_size == want_size && memcmp(got, want, got_size) == 0, "%s: element %" PRId64,
               what, k);
    }
}

/* A shape of up to 4 dimensions; small ones, and some that have more than a tile. */
static struct td_shape random_shape(void)
{
    struct td_shape shape = { .rank = random_below(5) };
    int64_t left = 30000;
    for (int d = 0; d < shape.rank; d++) {
        static const int most[] = { 2, 5, 20, 90, 400 };
        shape.dim[d] = random_below(25) == 0 ? 0 : 1 + random_below(most[random_below(5)]);
        if (shape.dim[d] > left)
            shape.dim[d] = 1;
        left /= shape.dim[d] > 0 ? shape.dim[d] : 1;
    }
    return shape;
}

/* Runs a call with a random number of threads, size of ranges and instruction set. */
static void run_somehow(struct op_call *call, const char *op, const char *attrs, int n_inputs,
                        const struct td_tensor *inputs, const char *what)
{
    struct thread_exec exec;
    td_isa isa;
    do
        isa = (td_isa)random_below(TD_ISA_COUNT);
    while (!td_isa_supported(isa));
    thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(40));
    exec.backwards = random_below(2);
    exec.exec.isa = isa;
    call_begin_lists(call, op, attrs, n_inputs, inputs, 0, NULL);
    call_run(call, op, &exec.exec);
    EXPECT(call->status == TD_OK, "%s: %s %s: %s", what, op, attrs, call->err.message);
}

/* Appends ",3" to a list of an attribute, or "name=3" to the first. */
static void append(char *attrs, size_t size, const char *name, int i, int64_t value)
{
    const size_t used = strlen(attrs);
    if (i == 0)
        snprintf(attrs + used, size - used, " %s=%" PRId64, name, value);
    else
        snprintf(attrs + used, size - used, ",%" PRId64, value);
}

static void shuffle(int *items, int n)
{
    for (int i = n - 1; i > 0; i--) {
        const int k = random_below(i + 1), item = items[i];
        items[i] = items[k];
        items[k] = item;
    }
}

/* ---- transpose --------------------------------------------------------------------------- */

struct permuted {
    const struct td_shape *x;
    int perm[TD_MAX_RANK];
};

/* output[p[0], p[1], ...] is the element of x whose index along dimension perm[d] is p[d]. */
static int64_t permuted_source(const void *context, const int64_t *position)
{
    const struct permuted *permuted = context;
    int64_t of_x[TD_MAX_RANK];
    for (int d = 0; d < permuted->x->rank; d++)
        of_x[permuted->perm[d]] = position[d];
    return linear(permuted->x, of_x);
}

static void check_transpose(const struct td_tensor *x, const char *what)
{
    struct permuted permuted = { .x = &x->shape };
    struct td_shape shape = { .rank = x->shape.rank };
    struct op_call call;
    char attrs[200] = "";
    const bool given = random_below(4) > 0;
    for (int d = 0; d < shape.rank; d++)
        permuted.perm[d] = shape.rank - 1 - d;
    if (given)
        shuffle(permuted.perm, shape.rank);
    for (int d = 0; d < shape.rank; d++) {
        shape.dim[d] = x->shape.dim[permuted.perm[d]];
        if (given)
            append(attrs, sizeof(attrs), "perm", d,
                   permuted.perm[d] - (random_below(2) ? shape.rank : 0));
    }
    run_somehow(&call, "transpose", attrs, 1, x, what);
    expect_elements(&call.args.outputs[0], &shape, x, permuted_source, &permuted, what);
}

/* ---- slice ------------------------------------------------------------------------------- */

struct selected {
    const struct td_shape *x;
    int64_t indices[TD_MAX_RANK][512]; /* along each dimension */
};

static int64_t selected_source(const void *context, const int64_t *position)
{
    const struct selected *selected = context;
    int64_t of_x[TD_MAX_RANK];
    for (int d = 0; d < selected->x->rank; d++)
        of_x[d] = selected->indices[d][position[d]];
    return linear(selected->x, of_x);
}

/* Walks from the start to the stop, as Python's reference describes it. Returns the number of
 * elements. */
static int64_t walk(int64_t start, int64_t stop, int64_t step, int64_t size, int64_t *indices)
{
    int64_t n = 0;
    start = start < 0 ? start + size : start;
    stop = stop < 0 ? stop + size : stop;
    if (step > 0 && start < 0)
        start = 0;
    if (step < 0 && start >= size)
        start = size - 1;
    for (int64_t i = start; i >= 0 && i < size && (step > 0 ? i < stop : i > stop); i += step)
        indices[n++] = i;
    return n;
}

static void check_slice(const struct td_tensor *x, const char *what)
{
    static struct selected selected;
    struct td_shape shape = x->shape;
    struct op_call call;
    char starts[100] = "", stops[100] = "", steps[100] = "", axes[100] = "", attrs[400];
    int dims[TD_MAX_RANK], n = random_below(shape.rank + 1);
    selected.x = &x->shape;
    for (int d = 0; d < shape.rank; d++) {
        dims[d] = d;
        for (int64_t i = 0; i < shape.dim[d]; i++)
            selected.indices[d][i] = i;
    }
    const bool with_axes = random_below(2), with_steps = random_below(2);
    if (with_axes)
        shuffle(dims, shape.rank);
    for (int i = 0; i < n; i++) {
        const int d = dims[i], range = (int)x->shape.dim[d] + 3;
        const int64_t start = random_below(2 * range) - range;
        const int64_t stop = random_below(3)   ? random_below(2 * range) - range
                             : random_below(2) ? INT64_MAX
                                               : INT64_MIN;
        const int64_t step = !with_steps ? 1 : (1 + random_below(3)) * (random_below(2) ? 1 : -1);
        shape.dim[d] = walk(start, stop, step, x->shape.dim[d], selected.indices[d]);
        append(starts, sizeof(starts), "starts", i, start);
        append(stops, sizeof(stops), "stops", i, stop);
        append(steps, sizeof(steps), "steps", i, step);
        append(axes, sizeof(axes), "axes", i, d - (random_below(2) ? shape.rank : 0));
    }
    if (n == 0)
        snprintf(attrs, sizeof(attrs), "starts= stops=");
    else
        snprintf(attrs, sizeof(attrs), "%s%s%s%s", starts, stops, with_steps ? steps : "",
                 with_axes ? axes : "");
    run_somehow(&call, "slice", attrs, 1, x, what);
    expect_elements(&call.args.outputs[0], &shape, x, selected_source, &selected, what);
}

/* ---- reshape, expand_dims, squeeze ------------------------------------------------------- */

static int64_t same_source(const void *context, const int64_t *position)
{
    return linear(context, position);
}

static void check_reshape(const struct td_tensor *x, const char *what)
{
    struct op_call call;
    char attrs[200] = "";
    const int inferred = x->numel > 0 ? random_below(x->shape.rank + 1) : 0;
    const struct td_shape flat = { .rank = 1, .dim = { x->numel } };
    struct td_tensor vector = *x;
    vector.shape = flat;
    for (int d = 0; d < x->shape.rank; d++)
        append(attrs, sizeof(attrs), "shape", d, d == inferred - 1 ? -1 : x->shape.dim[d]);
    run_somehow(&call, "reshape", x->shape.rank > 0 ? attrs : "shape=", 1, &vector, what);
    expect_elements(&call.args.outputs[0], &x->shape, x, same_source, &x->shape, what);
}

/* squeeze undoes expand_dims. */
static void check_expand_dims(const struct td_tensor *x, const char *what)
{
    struct op_call call, undone;
    struct td_shape shape = { .rank = 0 };
    char attrs[32];
    const int axis = random_below(x->shape.rank + 1);
    for (int d = 0; d <= x->shape.rank; d++)
        shape.dim[shape.rank++] = d == axis ? 1 : x->shape.dim[d - (d > axis)];
    snprintf(attrs, sizeof(attrs), "axis=%d", axis - (random_below(2) ? shape.rank : 0));
    run_somehow(&call, "expand_dims", attrs, 1, x, what);
    expect_elements(&call.args.outputs[0], &shape, x, same_source, &shape, what);
    snprintf(attrs, sizeof(attrs), "axes=%d", axis - (random_below(2) ? shape.rank : 0));
    run_somehow(&undone, "squeeze", attrs, 1, &call.args.outputs[0], what);
    expect_same_tensor(&undone.args.outputs[0], x, what);
}

/* ---- stack ------------------------------------------------------------------------------- */

static void check_stack(const struct td_tensor *x, const char *what)
{
    enum { MOST = 200 };
    struct td_tensor inputs[MOST];
    struct op_call call;
    char attrs[32];
    const struct td_shape *of_input = &x->shape;
    const int most = random_below(2) ? 5 : x->numel < 400 ? MOST : 40;
    const int n = 1 + random_below(most), axis = random_below(of_input->rank + 1);
    for (int i = 0; i < n; i++)
        inputs[i] = i == 0 ? *x : random_tensor(x->dtype, of_input);
    snprintf(attrs, sizeof(attrs), "axis=%d", axis - (random_below(2) ? of_input->rank + 1 : 0));
    run_somehow(&call, "stack", attrs, n, inputs, what);
    const struct td_tensor *out = &call.args.outputs[0];
    EXPECT(out->dtype == x->dtype && out->shape.rank == of_input->rank + 1 &&
               out->shape.dim[axis] == n,
           "%s: shape", what);
    for (int64_t k = 0; k < out->numel; k++) {
        int64_t position[TD_MAX_RANK];
        size_t got_size, want_size;
        td_shape_unravel(&out->shape, k, position);
        const int64_t i = position[axis];
        memmove(position + axis, position + axis + 1,
                (size_t)(of_input->rank - axis) * sizeof(position[0]));
        const void *got = tensor_element(out, k, &got_size);
        const void *want = tensor_element(&inputs[i], linear(of_input, position), &want_size);
        EXPECT(got_size == want_size && memcmp(got, want, got_size) == 0,
               "%s: element %" PRId64 " of %s", what, k, attrs);
    }
}

/* ---- one_hot ----------------------------------------------------------------------------- */

/* The bits of 1 in each dtype. */
static uint64_t one_of(td_dtype dtype)
{
    const float single = 1;
    const double twice = 1;
    uint64_t bits = 1;
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        return 0x3c00;
    case TD_DTYPE_BFLOAT16:
        return 0x3f80;
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64:
        memcpy(&bits, &(const float[2]){ single, 0 }, sizeof(bits));
        return bits;
    case TD_DTYPE_FLOAT64:
    case TD_DTYPE_COMPLEX128:
        memcpy(&bits, &twice, sizeof(bits));
        return bits;
    default:
        return 1;
    }
}

static void check_one_hot(td_dtype dtype, const char *what)
{
    static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    const int depth = 1 + random_below(random_below(2) ? 5 : 300), n = random_below(200);
    int64_t values[200];
    char attrs[64];
    struct op_call call;
    for (int i = 0; i < n; i++)
        values[i] = random_below(depth + 4) - 2;
    const struct td_tensor indices = index_vector(index_dtypes[random_below(3)], values, n);
    snprintf(attrs, sizeof(attrs), "depth=%d dtype=%s", depth, td_dtype_info(dtype)->name);
    run_somehow(&call, "one_hot", attrs, 1, &indices, what);
    const struct td_tensor *out = &call.args.outputs[0];
    EXPECT(out->dtype == dtype && out->numel == (int64_t)n * depth, "%s: shape", what);
    for (int64_t k = 0; k < out->numel; k++) {
        unsigned char want[16] = { 0 };
        size_t size;
        const uint64_t one = one_of(dtype);
        const void *got = tensor_element(out, k, &size);
        if (values[k / depth] == k % depth)
            memcpy(want, &one, sizeof(one));
        EXPECT(memcmp(got, want, size) == 0, "%s: element %" PRId64 " of %s", what, k, attrs);
    }
}

/* ---- Random calls ------------------------------------------------------------------------ */

TD_TEST_LOOP(any_call_gives_what_its_definition_says, 0, 10)
{
    const int samples = 40 * test_effort();
    for (int s = 0; s < samples; s++) {
        char what[64];
        td_arena_reset(&test_arena);
        random_seed((uint64_t)(_i * samples + s));
        const td_dtype dtype = (td_dtype)random_below(TD_DTYPE_COUNT);
        const struct td_shape shape = random_shape();
        const struct td_tensor x = random_tensor(dtype, &shape);
        snprintf(what, sizeof(what), "seed %d, %s", _i * samples + s, td_dtype_info(dtype)->name);
        check_transpose(&x, what);
        check_slice(&x, what);
        check_reshape(&x, what);
        check_expand_dims(&x, what);
        if (x.numel < 4000)
            check_stack(&x, what);
        if (dtype != TD_DTYPE_STRING)
            check_one_hot(dtype, what);
    }
}

/* ---- Outputs of many ranges -------------------------------------------------------------- */

static const struct {
    const char *op;
    const char *attrs;
    const char *x;
    int n; /* inputs */
} large[] = {
    { "reshape", "shape=-1,7", "float32[7,100000]", 1 },
    { "reshape", "shape=-1", "string[300,70]", 1 },
    { "squeeze", "", "string[1,10007]", 1 },
    { "transpose", "", "uint8[1000,1001]", 1 },
    { "transpose", "perm=1,0,2", "complex128[200,201,3]", 1 },
    { "transpose", "", "string[150,151]", 1 },
    { "transpose", "perm=1,0,2", "string[20,30,40]", 1 },
    { "slice", "starts=5,-1 stops=995,-2000 steps=1,-1", "int16[1000,1001]", 1 },
    { "slice", "starts=-1 stops=-200000 steps=-3", "string[90000]", 1 },
    { "stack", "axis=-1", "float64[30000]", 3 },
    { "stack", "axis=-1", "int16[3000]", 70 },
    { "stack", "axis=1", "string[300,20]", 3 },
    { "stack", "axis=0", "uint8[70001]", 8 },
    { "one_hot", "depth=100 dtype=float16", "int32[9000]", 1 },
    { "one_hot", "depth=100003", "int32[8]", 1 },
};

static int large_inputs(int which, struct td_tensor *inputs)
{
    const struct td_tensor like = tensor_without_data(large[which].x);
    random_seed(1);
    for (int i = 0; i < large[which].n; i++)
        inputs[i] = random_tensor(like.dtype, &like.shape);
    for (int64_t i = 0; large[which].op[0] == 'o' && i < like.numel; i++)
        ((int32_t *)inputs[0].data)[i] = random_below(100010) - 3;
    return large[which].n;
}

TD_TEST_EACH(a_large_output_does_not_depend_on_how_it_is_split, large)
{
    static const int64_t grains[] = { 0, 1, 3 };
    struct td_tensor inputs[70];
    struct op_call call, parallel;
    call_begin_lists(&call, large[_i].op, large[_i].attrs, large_inputs(_i, inputs), inputs, 0,
                     NULL);
    call_run(&call, large[_i].op, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    for (int g = 0; g < COUNT_OF(grains); g++)
        for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++) {
            struct thread_exec exec;
            if (!td_isa_supported(isa))
                continue;
            thread_exec_init(&exec, 3, grains[g]);
            exec.exec.isa = isa;
            call_begin_lists(&parallel, large[_i].op, large[_i].attrs, large[_i].n, inputs, 0,
                             NULL);
            call_run(&parallel, large[_i].op, &exec.exec);
            ck_assert_int_eq(parallel.status, TD_OK);
            expect_same_tensor(&parallel.args.outputs[0], &call.args.outputs[0], large[_i].attrs);
        }
}

TD_TEST_EACH(a_deadline_ends_a_large_call, large)
{
    struct td_tensor inputs[70];
    struct op_call call;
    call_begin_lists(&call, large[_i].op, large[_i].attrs, large_inputs(_i, inputs), inputs, 0,
                     NULL);
    expect_deadlines(&call, large[_i].op, 1, large[_i].attrs);
}

/* A row of more than one part: the 1 may be the first or the last element of a part. */
TD_TEST(a_one_at_the_edge_of_a_part_is_written_once)
{
    enum { PART = 128 * 1024, DEPTH = 2 * PART + 5 };
    static const int64_t hot[] = {
        0, PART - 1, PART, 2 * PART - 1, 2 * PART, DEPTH - 1, DEPTH, -1
    };
    const struct td_tensor indices = index_vector(TD_DTYPE_INT64, hot, COUNT_OF(hot));
    struct op_call call;
    char attrs[64];
    snprintf(attrs, sizeof(attrs), "depth=%d dtype=uint8", DEPTH);
    call_op(&call, "one_hot", attrs, indices, indices, NULL);
    ck_assert_int_eq(call.status, TD_OK);
    const unsigned char *out = call.args.outputs[0].data;
    for (int64_t k = 0; k < (int64_t)COUNT_OF(hot) * DEPTH; k++)
        EXPECT(out[k] == (k % DEPTH == hot[k / DEPTH]), "element %" PRId64, k);
}

/* Outputs of more than 32 MiB are written with streaming stores. */
static const struct {
    const char *says;
    const char *op;
    const char *attrs;
    const char *x;
    int n;
} streamed[] = {
    { "parts of rows", "stack", "axis=0", "uint8[12000001]", 3 },
    { "chunks", "stack", "axis=1", "uint8[3000,4001]", 3 },
    { "tiles", "stack", "axis=-1", "uint8[12000001]", 3 },
};

TD_TEST_EACH(a_large_stack_is_written_with_streaming_stores, streamed)
{
    struct td_tensor inputs[3];
    struct op_call call;
    struct thread_exec exec;
    const struct td_tensor like = tensor_without_data(streamed[_i].x);
    random_seed(1);
    for (int i = 0; i < streamed[_i].n; i++)
        inputs[i] = random_tensor(like.dtype, &like.shape);
    thread_exec_init(&exec, 2, 0);
    call_begin_lists(&call, streamed[_i].op, streamed[_i].attrs, streamed[_i].n, inputs, 0, NULL);
    call_run(&call, streamed[_i].op, &exec.exec);
    ck_assert_int_eq(call.status, TD_OK);
    const struct td_tensor *out = &call.args.outputs[0];
    const int axis = streamed[_i].attrs[5] == '-' ? like.shape.rank : streamed[_i].attrs[5] - '0';
    int64_t inner;
    ck_assert(td_shape_product(&out->shape, axis + 1, out->shape.rank, &inner));
    const unsigned char *bytes = out->data;
    for (int64_t k = 0; k < out->numel; k++) {
        const int64_t i = k / inner % streamed[_i].n, row = k / inner / streamed[_i].n;
        EXPECT(bytes[k] == ((const unsigned char *)inputs[i].data)[row * inner + k % inner],
               "%s: element %" PRId64, streamed[_i].says, k);
    }
}

TD_TEST(a_large_one_hot_is_written_with_streaming_stores)
{
    enum { DEPTH = 1031, ROWS = 9000 };
    static int64_t hot[ROWS];
    for (int i = 0; i < ROWS; i++)
        hot[i] = i % (DEPTH + 2) - 1;
    const struct td_tensor indices = index_vector(TD_DTYPE_INT16, hot, ROWS);
    struct op_call call;
    struct thread_exec exec;
    thread_exec_init(&exec, 2, 0);
    call_op(&call, "one_hot", "depth=1031 dtype=int32", indices, indices, &exec.exec);
    ck_assert_int_eq(call.status, TD_OK);
    const int32_t *out = call.args.outputs[0].data;
    for (int64_t k = 0; k < (int64_t)ROWS * DEPTH; k++)
        EXPECT(out[k] == (k % DEPTH == hot[k / DEPTH]), "element %" PRId64, k);
}
