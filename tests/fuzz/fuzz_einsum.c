/* fuzz_einsum.c - equations of einsum, parsed, planned and run on small shapes. The result is
 * compared with that of one loop over all labels.
 *
 * Input    Text: the dtype, a space, the shapes with one digit a dimension, separated by commas, a
 *          line break, the equation: "float32 23,34\nij,jk->ik". */
#include "api/message/message.h"
#include "kernels/einsum/einsum.h"
#include "kernels/einsum/equation.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PRODUCTS = 1 << 14, MOST_ELEMENTS = 1 << 14 };

/* ---- the input ------------------------------------------------------------------------------ */

struct problem {
    td_dtype dtype;
    int n;
    struct td_tensor inputs[TD_EINSUM_MAX_INPUTS + 1];
    const char *equation;
};

/* False for text that is none, and for tensors that are too large. */
static bool parse(char *text, struct problem *out)
{
    char *equation = strchr(text, '\n'), *shapes = strchr(text, ' ');
    if (!equation || !shapes || shapes > equation ||
        !td_dtype_from_name(text, (size_t)(shapes - text), &out->dtype) ||
        out->dtype == TD_DTYPE_STRING)
        return false;
    out->equation = equation + 1;
    out->n = 1;
    struct td_shape shape = { 0 };
    struct td_error err;
    for (const char *at = shapes + 1; at <= equation; at++) {
        if (*at >= '0' && *at <= '9' && shape.rank < TD_MAX_RANK) {
            shape.dim[shape.rank++] = *at - '0';
        } else if (*at == ',' || at == equation) {
            if (td_tensor_describe(&out->inputs[out->n - 1], "input", out->dtype, &shape, &err) !=
                    TD_OK ||
                out->inputs[out->n - 1].numel > MOST_ELEMENTS)
                return false;
            shape.rank = 0;
            if (*at == ',' && ++out->n > TD_EINSUM_MAX_INPUTS + 1)
                return false;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- values --------------------------------------------------------------------------------- */

/* Element i as a small integer, so that all sums are exact in every dtype but the ones of 16 bits
 * and fewer. The imaginary part of complex numbers is set too. */
static int value_at(int input, int64_t i)
{
    return (int)((i * 7 + input * 3 + i / 5) % 3) - 1;
}

#define FLOATS(X)                                                                                  \
    X(FLOAT32, float, 1)                                                                           \
    X(FLOAT64, double, 1)                                                                          \
    X(COMPLEX64, float, 2)                                                                         \
    X(COMPLEX128, double, 2)
#define INTS(X)                                                                                    \
    X(INT8, int8_t, 1)                                                                             \
    X(INT16, int16_t, 1)                                                                           \
    X(INT32, int32_t, 1)                                                                           \
    X(INT64, int64_t, 1)                                                                           \
    X(UINT8, uint8_t, 1)                                                                           \
    X(UINT16, uint16_t, 1)                                                                         \
    X(UINT32, uint32_t, 1)                                                                         \
    X(UINT64, uint64_t, 1)

static void fill(struct td_tensor *tensor, int input)
{
    for (int64_t i = 0; i < tensor->numel; i++)
        switch (tensor->dtype) {
#define FILL(dtype, type, parts)                                                                   \
    case TD_DTYPE_##dtype:                                                                         \
        for (int part = 0; part < (parts); part++)                                                 \
            ((type *)tensor->data)[i * (parts) + part] = (type)value_at(input + part, i);          \
        break;
            FLOATS(FILL)
            INTS(FILL)
#undef FILL
        default:
            break; /* zeros */
        }
}

/* A number of the reference: integers wrap around in 64 bits, of which each dtype has the
 * lowest. */
struct number {
    uint64_t re, im;
};

static struct number element(const struct td_tensor *tensor, int64_t i)
{
    switch (tensor->dtype) {
#define GET(dtype, type, parts)                                                                    \
    case TD_DTYPE_##dtype: {                                                                       \
        const type *at = (const type *)tensor->data + i * (parts);                                 \
        return (struct number){ (uint64_t)(int64_t)at[0],                                          \
                                (parts) == 1 ? 0 : (uint64_t)(int64_t)at[(parts)-1] };             \
    }
        FLOATS(GET)
        INTS(GET)
#undef GET
    default:
        return (struct number){ 0, 0 };
    }
}

/* Equal in the dtype, whose integers wrap around? */
static bool equals(const struct td_tensor *tensor, int64_t i, struct number want)
{
    switch (tensor->dtype) {
#define EQUAL_INT(dtype, type, parts)                                                              \
    case TD_DTYPE_##dtype:                                                                         \
        return ((const type *)tensor->data)[i] == (type)want.re;
        INTS(EQUAL_INT)
#undef EQUAL_INT
    default:
        break;
    }
    const struct number got = element(tensor, i);
    return got.re == want.re && got.im == want.im;
}

/* ---- the reference -------------------------------------------------------------------------- */

/* The place of an operand's element at these values of the labels; an extent of 1 broadcasts. */
static int64_t place(const struct td_subscript *subscript, const struct td_shape *shape,
                     const int64_t *at)
{
    int64_t place = 0;
    for (int i = 0; i < subscript->rank; i++)
        place = place * shape->dim[i] + (shape->dim[i] == 1 ? 0 : at[subscript->label[i]]);
    return place;
}

static void add_product(const struct td_equation *equation, const struct td_tensor *inputs,
                        const int64_t *at, struct number *sum)
{
    struct number product = { 1, 0 };
    for (int i = 0; i < equation->n_inputs; i++) {
        const struct number x =
            element(&inputs[i], place(&equation->inputs[i], &inputs[i].shape, at));
        product = (struct number){ product.re * x.re - product.im * x.im,
                                   product.re * x.im + product.im * x.re };
    }
    sum->re += product.re;
    sum->im += product.im;
}

static bool next(const struct td_equation *equation, int64_t *at)
{
    for (int i = equation->n_labels - 1; i >= 0; i--) {
        if (++at[i] < equation->extent[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static void expect_result(const struct td_equation *equation, const struct td_tensor *inputs,
                          const struct td_tensor *output)
{
    int64_t at[TD_EINSUM_MAX_LABELS] = { 0 }, products = 1;
    for (int i = 0; i < equation->n_labels; i++) {
        if (products > MOST_PRODUCTS)
            return;
        products *= equation->extent[i];
    }
    if (products > MOST_PRODUCTS || output->dtype == TD_DTYPE_FLOAT16 ||
        output->dtype == TD_DTYPE_BFLOAT16)
        return;
    struct number *sums = calloc((size_t)output->numel + 1, sizeof *sums);
    REQUIRE(sums, "no memory");
    if (products > 0)
        do
            add_product(equation, inputs, at, &sums[place(&equation->output, &output->shape, at)]);
        while (next(equation, at));
    for (int64_t i = 0; i < output->numel; i++)
        REQUIRE(equals(output, i, sums[i]), "element %lld is not %lld, %lld", (long long)i,
                (long long)sums[i].re, (long long)sums[i].im);
    free(sums);
}

/* ---- the target ----------------------------------------------------------------------------- */

static void run(struct problem *problem, struct td_arena *arena)
{
    struct td_request request;
    struct td_einsum_attrs attrs = { problem->equation };
    struct td_equation *equation;
    const struct td_shape *shapes[TD_EINSUM_MAX_INPUTS + 1];
    struct td_error err = { 0 };
    for (int i = 0; i < problem->n; i++)
        shapes[i] = &problem->inputs[i].shape;
    const td_status parsed =
        td_equation_parse(problem->equation, shapes, problem->n, arena, &equation, &err);
    if (parsed != TD_OK)
        fuzz_expect_error(&err, parsed, strlen(problem->equation));
    td_request_init(&request, &td_op_einsum);
    memcpy(request.args.attrs, &attrs, sizeof attrs);
    request.args.attrs_set = 1;
    request.args.inputs[0] = (struct td_operand){ problem->inputs, problem->n };
    for (int i = 0; i < problem->n; i++) {
        if (td_tensor_alloc(&problem->inputs[i], arena, &err) != TD_OK)
            return;
        memset(problem->inputs[i].data, 0, problem->inputs[i].bytes);
        fill(&problem->inputs[i], i);
    }
    if (!fuzz_run(&request, arena))
        return;
    REQUIRE(parsed == TD_OK, "run but not parsed");
    REQUIRE(td_shape_equal(&equation->output_shape, &request.args.outputs[0].shape),
            "another shape");
    expect_result(equation, problem->inputs, &request.args.outputs[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem = { 0 };
    struct td_arena *arena = fuzz_arena_open();
    char *text = fuzz_copy(data, size, 1);
    text[size] = '\0';
    if (parse(text, &problem))
        run(&problem, arena);
    free(text);
    fuzz_arena_close(arena);
    return 0;
}
