/* Compares gather, batch_gather and gather_nd with their definitions, element by element, for
 * random shapes, dtypes, attributes, policies and splits. Seeds are fixed: a failure prints its
 * seed. */
#include "kernels/op.h"
#include "tests/support/op_call.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdio.h>
#include <string.h>

/* 1 to 4, sometimes 0. */
static int64_t random_dim(void)
{
    return random_below(20) == 0 ? 0 : 1 + random_below(4);
}

/* The position that an index selects by definition, NOWHERE (zeros) or REFUSED. */
enum { NOWHERE = -1, REFUSED = -2 };

static int64_t place_of(int64_t index, int64_t bound, td_bounds policy)
{
    if (index >= 0 && index < bound)
        return index;
    if (policy == TD_BOUNDS_ZERO)
        return NOWHERE;
    if (policy == TD_BOUNDS_ERROR || bound == 0)
        return REFUSED;
    if (policy == TD_BOUNDS_CLIP)
        return index < 0 ? 0 : bound - 1;
    while (index < 0)
        index += bound;
    while (index >= bound)
        index -= bound;
    return index;
}

/* Advances to the next position in row-major order. */
static void advance(const struct td_shape *dims, int64_t *position)
{
    for (int i = dims->rank - 1; i >= 0; i--) {
        if (++position[i] < dims->dim[i])
            return;
        position[i] = 0;
    }
}

static int64_t linear(const struct td_shape *dims, const int64_t *position)
{
    int64_t at = 0;
    for (int i = 0; i < dims->rank; i++)
        at = at * dims->dim[i] + position[i];
    return at;
}

/* A case: a gather along `axis`, or, with axis -1, a gather_nd by tuples of `depth`. */
struct sample {
    const char *op;
    char attrs[80];
    struct td_tensor params, indices;
    td_bounds policy;
    int axis, batch_dims, depth;
};

/* The position in params of the element at output position `out`, NOWHERE or REFUSED. */
static int64_t source_of(const struct sample *s, const int64_t *out)
{
    int64_t from[2 * TD_MAX_RANK], tuple[2 * TD_MAX_RANK];
    int params_rank = s->params.shape.rank, indices_rank = s->indices.shape.rank;
    bool nowhere = false;
    if (s->axis >= 0) {
        int picked = indices_rank - s->batch_dims; /* output dimensions from indices */
        memcpy(tuple, out, (size_t)s->batch_dims * sizeof(*out));
        memcpy(tuple + s->batch_dims, out + s->axis, (size_t)picked * sizeof(*out));
        memcpy(from, out, (size_t)s->axis * sizeof(*out));
        int64_t index = td_tensor_index_at(&s->indices, linear(&s->indices.shape, tuple));
        from[s->axis] = place_of(index, s->params.shape.dim[s->axis], s->policy);
        if (from[s->axis] < 0)
            return from[s->axis];
        for (int i = s->axis + 1; i < params_rank; i++)
            from[i] = out[i - 1 + picked];
        return linear(&s->params.shape, from);
    }
    memcpy(from, out, (size_t)s->batch_dims * sizeof(*out));
    memcpy(tuple, out, (size_t)(indices_rank - 1) * sizeof(*out));
    for (int c = 0; c < s->depth; c++) {
        tuple[indices_rank - 1] = c;
        int64_t index = td_tensor_index_at(&s->indices, linear(&s->indices.shape, tuple));
        int64_t bound = s->params.shape.dim[s->batch_dims + c];
        from[s->batch_dims + c] = place_of(index, bound, s->policy);
        if (from[s->batch_dims + c] < 0)
            nowhere = true;
    }
    for (int i = s->batch_dims + s->depth; i < params_rank; i++)
        from[i] = out[i - s->batch_dims - s->depth + indices_rank - 1];
    return nowhere ? NOWHERE : linear(&s->params.shape, from);
}

/* The bound of element i of the index tensor. */
static int64_t bound_of(const struct sample *s, int64_t i)
{
    int dim = s->axis >= 0 ? s->axis : s->batch_dims + (int)(i % s->depth);
    return s->params.shape.dim[dim];
}

static struct sample random_sample(void)
{
    static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };
    struct sample s = { .policy = (td_bounds)random_below(TD_BOUNDS_COUNT) };
    struct td_shape params = { .rank = 1 + random_below(5) }, indices = { .rank = 0 };
    for (int i = 0; i < params.rank; i++)
        params.dim[i] = random_dim();
    if (random_below(10) == 0) /* long enough for several chunks */
        params.dim[random_below(params.rank)] = 100 + random_below(900);

    int kind = random_below(3), extra = random_below(3);
    const char *bounds = td_bounds_name(s.policy);
    if (kind == 0) {
        s.op = "gather";
        s.axis = random_below(params.rank);
        s.batch_dims = random_below(s.axis + 1);
        indices.rank = s.batch_dims + extra;
        int axis = random_below(2) ? s.axis : s.axis - params.rank;
        int batch_dims = random_below(2) || extra == 0 ? s.batch_dims : -extra;
        snprintf(s.attrs, sizeof(s.attrs), "axis=%d batch_dims=%d bounds=%s", axis, batch_dims,
                 bounds);
    } else if (kind == 1) {
        s.op = "batch_gather";
        s.axis = s.batch_dims = random_below(params.rank);
        indices.rank = s.batch_dims + 1;
        snprintf(s.attrs, sizeof(s.attrs), "bounds=%s", bounds);
    } else {
        s.op = "gather_nd";
        s.axis = -1;
        s.batch_dims = random_below(params.rank + 1);
        s.depth = random_below(params.rank - s.batch_dims + 1);
        indices.rank = s.batch_dims + extra + 1;
        snprintf(s.attrs, sizeof(s.attrs), "batch_dims=%d bounds=%s", s.batch_dims, bounds);
    }
    for (int i = 0; i < indices.rank; i++)
        indices.dim[i] = i < s.batch_dims ? params.dim[i] : random_dim();
    if (indices.rank > s.batch_dims && random_below(20) == 0)
        indices.dim[s.batch_dims] = 1500;
    if (s.axis < 0)
        indices.dim[indices.rank - 1] = s.depth;

    s.params = random_tensor((td_dtype)random_below(TD_DTYPE_COUNT), &params);
    s.indices = random_tensor(index_dtypes[random_below(3)], &indices);
    bool some_bad = random_below(2);
    size_t size = td_dtype_info(s.indices.dtype)->size;
    for (int64_t i = 0; i < s.indices.numel; i++) {
        int64_t bound = bound_of(&s, i);
        int64_t index = bound > 0 ? random_below((int)bound) : 0;
        if (some_bad && random_below(8) == 0)
            index = random_below(200) - 100;
        memcpy((char *)s.indices.data + (size_t)i * size, &index, size);
    }
    return s;
}

static void expect_output(const struct sample *s, const struct td_tensor *out, const char *what)
{
    static const char zeros[16];
    int64_t position[2 * TD_MAX_RANK] = { 0 };
    EXPECT(out->dtype == s->params.dtype, "%s: dtype", what);
    for (int64_t i = 0; i < out->numel; i++, advance(&out->shape, position)) {
        int64_t from = source_of(s, position);
        size_t size, want_size = td_dtype_info(out->dtype)->size;
        const void *got = tensor_element(out, i, &size), *want = zeros;
        EXPECT(from != REFUSED, "%s: should have been refused", what);
        if (from != NOWHERE)
            want = tensor_element(&s->params, from, &want_size);
        EXPECT(size == want_size && memcmp(got, want, size) == 0, "%s: element %lld", what,
               (long long)i);
    }
}

TD_TEST_LOOP(any_gather_agrees_with_its_definition, 0, 60)
{
    enum { SAMPLES = 80 };
    for (int n = 0; n < SAMPLES * test_effort(); n++) {
        int seed = _i + n * 60;
        td_arena_reset(&test_arena);
        random_seed((uint64_t)seed);
        struct sample s = random_sample();
        char what[300], params[TD_SHAPE_TEXT], indices[TD_SHAPE_TEXT];
        snprintf(what, sizeof(what), "seed %d: %s %s params %s %.60s indices %.60s", seed, s.op,
                 s.attrs, td_dtype_info(s.params.dtype)->name,
                 td_shape_text(&s.params.shape, params, sizeof(params)),
                 td_shape_text(&s.indices.shape, indices, sizeof(indices)));

        int64_t n_bad = 0, n_refused = 0,
                first = -1; /* clip and wrap refuse only indices into an empty dimension */
        for (int64_t i = 0; i < s.indices.numel; i++) {
            int64_t index = td_tensor_index_at(&s.indices, i);
            if (index >= 0 && index < bound_of(&s, i))
                continue;
            n_bad++;
            if (place_of(index, bound_of(&s, i), s.policy) == REFUSED && n_refused++ == 0)
                first = i;
        }
        struct thread_exec exec;
        struct op_call call;
        thread_exec_init(&exec, 1 + random_below(3), random_below(2) ? 0 : 1 + random_below(2000));
        call_begin(&call, s.op, s.attrs, s.params, s.indices);
        call_infer(&call, s.op);
        EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
        if (call.args.outputs[0].numel > 50000)
            continue; /* long slices with many indices: slow, and covered by others */
        call_run(&call, s.op, &exec.exec);
        if (n_refused > 0) {
            EXPECT(call.status == TD_INDEX_OUT_OF_BOUNDS, "%s: %s", what,
                   td_status_name(call.status));
            EXPECT(linear(&s.indices.shape, call.err.position) == first, "%s: first", what);
            EXPECT(call.err.bad_count == n_refused, "%s: count", what);
            EXPECT(call.err.bound == bound_of(&s, first), "%s: bound", what);
        } else {
            EXPECT(call.status == TD_OK, "%s: %s", what, call.err.message);
            EXPECT(call.args.replaced == n_bad, "%s: replaced", what);
            expect_output(&s, &call.args.outputs[0], what);
        }
    }
}
