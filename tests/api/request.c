#include "tests/api/request.h"

#include "api/codec.h"
#include "api/message/message.h"
#include "tests/support/random.h"
#include "tests/support/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct td_input_spec list_inputs[] = {
    { .name = "lists",
      .summary = "Tensors of any shape.",
      .dtypes = TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(STRING),
      .list = true },
    { .name = "ints",
      .summary = "Integers of any shape.",
      .dtypes = TD_DTYPE_BIT(INT32),
      .role = TD_ROLE_INDEX,
      .list = true },
};

struct list_attrs {
    int64_t count;
    td_bounds bounds;
    const char *equation;
    enum { SIZE_SMALL, SIZE_LARGE, SIZE_HUGE } size;
    struct td_ints axes;
    double epsilon;
    bool keep;
    td_dtype dtype;
};

static const char *const sizes[] = { "small", "large", "huge", NULL };

static const struct td_attr_spec list_attrs[] = {
    { .name = "count",
      .summary = "A number.",
      .kind = TD_ATTR_INT,
      .default_int = 7,
      .offset = offsetof(struct list_attrs, count) },
    { .name = "bounds",
      .summary = "A policy.",
      .kind = TD_ATTR_CHOICE,
      .choices = td_bounds_names,
      .default_int = TD_BOUNDS_CLIP,
      .offset = offsetof(struct list_attrs, bounds) },
    { .name = "equation",
      .summary = "Text.",
      .kind = TD_ATTR_TEXT,
      .required = true,
      .offset = offsetof(struct list_attrs, equation) },
    { .name = "size",
      .summary = "One of three.",
      .kind = TD_ATTR_CHOICE,
      .choices = sizes,
      .default_int = SIZE_LARGE,
      .offset = offsetof(struct list_attrs, size) },
    { .name = "axes",
      .summary = "Some dimensions.",
      .kind = TD_ATTR_INTS,
      .range = &(const struct td_int_range){ -16, 15 },
      .default_text = "all",
      .offset = offsetof(struct list_attrs, axes) },
    { .name = "epsilon",
      .summary = "A small number.",
      .kind = TD_ATTR_FLOAT,
      .float_range = &(const struct td_float_range){ 0, INFINITY },
      .default_float = 1e-5,
      .offset = offsetof(struct list_attrs, epsilon) },
    { .name = "keep",
      .summary = "Whether.",
      .kind = TD_ATTR_BOOL,
      .default_int = true,
      .offset = offsetof(struct list_attrs, keep) },
    { .name = "dtype",
      .summary = "A dtype.",
      .kind = TD_ATTR_DTYPE,
      .dtypes = TD_DTYPES_INDEX,
      .default_int = TD_DTYPE_INT16,
      .offset = offsetof(struct list_attrs, dtype) },
};

static const td_status list_errors[] = { TD_INVALID_ARGUMENT, TD_OK };

static const struct td_output_spec list_outputs[] = {
    { .name = "outputs",
      .summary = "Tensors.",
      .shape_rule = "none",
      .dtype_of = "lists",
      .list = true },
};

static const struct td_op_example examples[] = { { "nothing", "{}" }, { NULL, NULL } };

const struct td_op list_op = {
    .name = "list_op",
    .summary = "An op of the tests.",
    .source = "nowhere",
    .inputs = list_inputs,
    .n_inputs = COUNT_OF(list_inputs),
    .attrs = list_attrs,
    .n_attrs = COUNT_OF(list_attrs),
    .outputs = list_outputs,
    .n_outputs = COUNT_OF(list_outputs),
    .errors = list_errors,
    .examples = examples,
};

static const struct td_input_spec pair_inputs[] = {
    { .name = "x", .summary = "Data.", .dtypes = TD_DTYPES_ALL, .one_dtype = true },
    { .name = "more",
      .summary = "More data.",
      .dtypes = TD_DTYPES_ALL,
      .one_dtype = true,
      .optional = true,
      .list = true },
    { .name = "keys",
      .summary = "Keys.",
      .role = TD_ROLE_KEY,
      .dtypes = TD_DTYPE_BIT(INT64) | TD_DTYPE_BIT(UINT64) | TD_DTYPE_BIT(STRING),
      .one_dtype = true,
      .optional = true },
    { .name = "condition",
      .summary = "Conditions.",
      .role = TD_ROLE_CONDITION,
      .dtypes = TD_DTYPE_BIT(BOOL),
      .optional = true },
    { .name = "queries",
      .summary = "Keys to find.",
      .role = TD_ROLE_KEY,
      .dtypes = TD_DTYPE_BIT(INT64) | TD_DTYPE_BIT(UINT64) | TD_DTYPE_BIT(STRING),
      .one_dtype = true,
      .optional = true },
};

static const struct td_output_spec pair_outputs[] = {
    { .name = "values", .summary = "Values.", .shape_rule = "x.shape", .dtype_of = "x" },
    { .name = "places",
      .summary = "Places.",
      .shape_rule = "x.shape",
      .dtypes = TD_DTYPE_BIT(INT32) },
};

const struct td_op pair_op = {
    .name = "pair_op",
    .summary = "Another op of the tests.",
    .source = "nowhere",
    .inputs = pair_inputs,
    .n_inputs = COUNT_OF(pair_inputs),
    .outputs = pair_outputs,
    .n_outputs = COUNT_OF(pair_outputs),
    .errors = list_errors,
    .examples = examples,
};

static td_status resolve(struct td_resolver *self, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    struct test_resolver *resolver = (struct test_resolver *)self;
    (void)arena;
    if (length == 5 && memcmp(name, "table", 5) == 0) {
        *out = resolver->table;
        return TD_OK;
    }
    return td_error_set(err, TD_TENSOR_NOT_FOUND, "no tensor is called \"%.*s\"", (int)length,
                        name);
}

void test_resolver_init(struct test_resolver *resolver, struct td_tensor table)
{
    resolver->base.resolve = resolve;
    resolver->table = table;
}

char *padded_copy(const void *bytes, size_t size, int padding)
{
    char *copy = malloc(size + TD_JSON_PADDING);
    EXPECT(copy, "no memory");
    if (size)
        memcpy(copy, bytes, size);
    memset(copy + size, padding, TD_JSON_PADDING);
    return copy;
}

static void decode(struct decoded *out, td_format format, const struct td_op *op, char *body,
                   size_t size, struct td_resolver *resolver)
{
    memset(&out->err, 0, sizeof out->err);
    td_request_init(&out->request, op);
    out->status =
        td_codec_decode(format, body, size, resolver, &test_arena, &out->request, &out->err);
}

void decode_json(struct decoded *out, const struct td_op *op, const void *body, size_t size,
                 struct td_resolver *resolver)
{
    char *copy = padded_copy(body, size, '1');
    decode(out, TD_FORMAT_JSON, op, copy, size, resolver);
    free(copy); /* no result of decoding JSON points into its body */
    out->body = NULL;
}

void decode_safetensors(struct decoded *out, const struct td_op *op, const void *body, size_t size,
                        struct td_resolver *resolver)
{
    char *copy = malloc(size ? size : 1); /* this decoder requires no padding */
    EXPECT(copy, "no memory");
    if (size)
        memcpy(copy, body, size);
    body_keep(out, copy);
    decode(out, TD_FORMAT_SAFETENSORS, op, copy, size, resolver);
}

static char **bodies;
static size_t n_bodies;

void body_keep(struct decoded *out, char *body)
{
    out->body = body;
    bodies = realloc(bodies, (n_bodies + 1) * sizeof *bodies);
    EXPECT(bodies, "no memory");
    bodies[n_bodies++] = body;
}

void bodies_free(void)
{
    while (n_bodies > 0)
        free(bodies[--n_bodies]);
    free(bodies);
    bodies = NULL;
}

void decode_gather(struct decoded *out, const char *body)
{
    decode_json(out, td_op_named("gather", 6), body, strlen(body), NULL);
}

void expect_clean_error(const struct td_error *err, td_status status, size_t body_size,
                        const char *case_name)
{
    EXPECT(err->status == status, "%s: status %d in the error, %d returned", case_name, err->status,
           status);
    EXPECT(strlen(err->message) > 8, "%s: no message", case_name);
    EXPECT(err->offset >= -1 && err->offset <= (int64_t)body_size, "%s: offset %lld of %zu bytes",
           case_name, (long long)err->offset, body_size);
    bool has_position = err->offset >= 0 || err->has_pointer || err->input[0] || err->attribute[0];
    EXPECT(has_position, "%s: \"%s\" has no position", case_name, err->message);
}

/* Makes one to four changes. A new byte is often one that is significant in JSON or UTF-8. */
size_t mutate(char *body, size_t size, size_t capacity, uint64_t *state)
{
    static const char significant[] = "[]{},:\"\\-+.eE019tfn \n\x00\x1f\x7f\x80\xc0\xed\xf4\xff";
    int changes = 1 + (int)(random_from(state) % 4);
    for (int i = 0; i < changes && size > 1; i++) {
        size_t at = (size_t)(random_from(state) % size);
        size_t other = (size_t)(random_from(state) % size);
        uint64_t draw = random_from(state);
        switch (draw % 5) {
        case 0:
            body[at] = (char)(draw >> 8);
            break;
        case 1:
            body[at] = significant[(draw >> 8) % (sizeof significant - 1)];
            break;
        case 2: /* removes a byte */
            memmove(body + at, body + at + 1, size - at - 1);
            size--;
            break;
        case 3: /* repeats a few bytes */
            if (size < capacity) {
                size_t count = (draw >> 8) % (size - at) % 16 + 1;
                count = count < capacity - size ? count : capacity - size;
                count = count < size - at ? count : size - at;
                memmove(body + at + count, body + at, size - at);
                size += count;
            }
            break;
        default: {
            char byte = body[at];
            body[at] = body[other];
            body[other] = byte;
            break;
        }
        }
    }
    return size;
}

static void expect_clean_failure(decode_fn *decode_with, const struct td_op *op, const void *body,
                                 size_t size, const char *case_name)
{
    struct decoded decoded;
    decode_with(&decoded, op, body, size, NULL);
    if (decoded.status != TD_OK)
        expect_clean_error(&decoded.err, decoded.status, size, case_name);
    bodies_free();
    td_arena_reset(&test_arena);
}

void expect_clean_failures(decode_fn *decode_with, const struct td_op *op, const void *body,
                           size_t size, int mutations, uint64_t seed)
{
    char case_name[64];
    struct decoded whole;
    decode_with(&whole, op, body, size, NULL);
    EXPECT(whole.status == TD_OK || whole.status == TD_TENSOR_NOT_FOUND, "%s", whole.err.message);
    bodies_free();
    td_arena_reset(&test_arena);
    for (size_t cut = 0; cut < size; cut++) {
        struct decoded decoded;
        snprintf(case_name, sizeof case_name, "cut off after %zu bytes", cut);
        decode_with(&decoded, op, body, cut, NULL);
        EXPECT(decoded.status != TD_OK, "%s: accepted", case_name);
        expect_clean_error(&decoded.err, decoded.status, cut, case_name);
        bodies_free();
        td_arena_reset(&test_arena);
    }
    size_t capacity = size + 256;
    char *changed = malloc(capacity);
    EXPECT(changed, "no memory");
    for (int i = 0; i < mutations; i++) {
        memcpy(changed, body, size);
        size_t changed_size = mutate(changed, size, capacity, &seed);
        snprintf(case_name, sizeof case_name, "mutation %d", i);
        expect_clean_failure(decode_with, op, changed, changed_size, case_name);
    }
    free(changed);
}
