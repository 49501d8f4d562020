#include "kernels/gather/gather.h"
#include "kernels/op.h"
#include "kernels/op_check.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <math.h>
#include <string.h>

TD_TEST(an_op_is_found_by_its_name)
{
    ck_assert_ptr_eq(td_op_named("gather", 6), &td_op_gather);
    ck_assert_ptr_eq(td_op_named("batch_gather", 12), &td_op_batch_gather);
    ck_assert_ptr_eq(td_op_named("gather_nd", 6), &td_op_gather); /* need not end in NUL */
    ck_assert_ptr_null(td_op_named("gathe", 5));
    ck_assert_ptr_null(td_op_named("Gather", 6));
    ck_assert_ptr_null(td_op_named("", 0));
}

static bool is_table_part(const char *name)
{
    int i = 0;
    while (td_op_table_part(i) && strcmp(td_op_table_part(i), name) != 0)
        i++;
    return td_op_table_part(i) != NULL;
}

TD_TEST(the_parts_of_a_table_are_the_names_of_companions)
{
    ck_assert_str_eq(td_op_table_part(0), "scale");
    ck_assert_str_eq(td_op_table_part(1), "offset");
    ck_assert_str_eq(td_op_table_part(2), "zero_point");
    ck_assert_ptr_null(td_op_table_part(3));
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < ops[i]->n_inputs; k++)
            if (ops[i]->inputs[k].companion)
                ck_assert_msg(is_table_part(ops[i]->inputs[k].name), "%s of %s",
                              ops[i]->inputs[k].name, ops[i]->name);
}

TD_TEST(the_table_has_the_ops_of_ops_def)
{
    static const char *const names[] = {
#define TD_OP(folder, name) #name,
#include "kernels/ops.def"
#undef TD_OP
    };
    int count;
    const struct td_op *const *ops = td_ops(&count);
    ck_assert_int_eq(count, COUNT_OF(names));
    for (int i = 0; i < count; i++)
        ck_assert_str_eq(ops[i]->name, names[i]);
}

TD_TEST(keys_are_given_for_queries_by_key_and_in_place_of_row_numbers)
{
    ck_assert_int_eq(td_op_keys_input(td_op_named("find", 4)), 1);   /* queries */
    ck_assert_int_eq(td_op_keys_input(td_op_named("lookup", 6)), 2); /* queries */
    ck_assert_int_eq(td_op_keys_input(td_op_named("gather", 6)), 1); /* indices */
    ck_assert_int_eq(td_op_keys_input(td_op_named("gather_nd", 9)), -1);
    ck_assert_int_eq(td_op_keys_input(td_op_named("cast", 4)), -1);
}

TD_TEST(policies_have_the_names_of_the_api)
{
    ck_assert_str_eq(td_bounds_name(TD_BOUNDS_ERROR), "error");
    ck_assert_str_eq(td_bounds_name(TD_BOUNDS_ZERO), "zero");
    ck_assert_str_eq(td_bounds_name(TD_BOUNDS_CLIP), "clip");
    ck_assert_str_eq(td_bounds_name(TD_BOUNDS_WRAP), "wrap");
}

/* An op with every kind of argument. */
struct sample_attrs {
    int64_t count;
    int64_t axis;
    td_bounds bounds;
    const char *equation;
    struct td_ints axes;
    double epsilon;
    bool keep;
    td_dtype dtype;
};

static const struct td_input_spec sample_inputs[] = {
    { .name = "one", .summary = "One.", .role = TD_ROLE_INDEX, .dtypes = TD_DTYPES_INDEX },
    { .name = "many",
      .dtypes = TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(INT16),
      .one_dtype = true,
      .list = true },
    { .name = "like",
      .dtypes = TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(INT16),
      .one_dtype = true,
      .optional = true },
};

static const struct td_attr_spec sample_attr_specs[] = {
    { .name = "count",
      .kind = TD_ATTR_INT,
      .required = true,
      .range = &(const struct td_int_range){ 0, INT64_MAX },
      .offset = offsetof(struct sample_attrs, count) },
    { .name = "axis",
      .kind = TD_ATTR_INT,
      .default_int = TD_ATTR_UNSET,
      .offset = offsetof(struct sample_attrs, axis) },
    { .name = "bounds",
      .kind = TD_ATTR_CHOICE,
      .choices = td_bounds_names,
      .default_int = TD_BOUNDS_CLIP,
      .offset = offsetof(struct sample_attrs, bounds) },
    { .name = "equation", .kind = TD_ATTR_TEXT, .offset = offsetof(struct sample_attrs, equation) },
    { .name = "axes",
      .kind = TD_ATTR_INTS,
      .range = &(const struct td_int_range){ -4, 3 },
      .offset = offsetof(struct sample_attrs, axes) },
    { .name = "epsilon",
      .kind = TD_ATTR_FLOAT,
      .float_range = &(const struct td_float_range){ 0, INFINITY },
      .default_float = 1e-5,
      .offset = offsetof(struct sample_attrs, epsilon) },
    { .name = "keep",
      .kind = TD_ATTR_BOOL,
      .default_int = true,
      .offset = offsetof(struct sample_attrs, keep) },
    { .name = "dtype",
      .kind = TD_ATTR_DTYPE,
      .dtypes = TD_DTYPES_INDEX,
      .default_int = TD_DTYPE_INT16,
      .offset = offsetof(struct sample_attrs, dtype) },
};
enum { COUNT, AXIS, BOUNDS, EQUATION, AXES, EPSILON, KEEP, DTYPE };

static int inferred;

static td_status sample_infer(struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    (void)args;
    (void)arena;
    inferred++;
    return td_error_set(err, TD_INVALID_EQUATION, "from infer");
}

static const struct td_op sample = {
    .name = "sample",
    .inputs = sample_inputs,
    .n_inputs = 3,
    .attrs = sample_attr_specs,
    .n_attrs = COUNT_OF(sample_attr_specs),
    .infer = sample_infer,
};

TD_TEST(defaults_fill_every_attribute)
{
    struct td_op_args args;
    struct sample_attrs attrs;
    memset(&args, 0xFF, sizeof(args));
    td_op_set_defaults(&sample, &args);
    memcpy(&attrs, args.attrs, sizeof(attrs));
    ck_assert_int_eq(attrs.count, 0);
    ck_assert_int_eq(attrs.axis, TD_ATTR_UNSET);
    ck_assert_int_eq(attrs.bounds, TD_BOUNDS_CLIP);
    ck_assert_ptr_null(attrs.equation);
    ck_assert_ptr_null(attrs.axes.values);
    ck_assert_double_eq(attrs.epsilon, 1e-5);
    ck_assert(attrs.keep);
    ck_assert_int_eq(attrs.dtype, TD_DTYPE_INT16);
    ck_assert_uint_eq(args.attrs_set, 0);
}

static const struct {
    const char *case_name;
    int attr;
    struct sample_attrs value;
    td_status status;
    const char *message;
} ranges[] = {
    { "the minimum", COUNT, { .count = 0 }, TD_OK, "" },
    { "below the minimum",
      COUNT,
      { .count = -1 },
      TD_INVALID_ARGUMENT,
      "count is -1; expected 0 or more" },
    { "no list", AXES, { .axes = { (const int64_t[]){ 0 }, 0 } }, TD_OK, "" },
    { "a list", AXES, { .axes = { (const int64_t[]){ -4, 3 }, 2 } }, TD_OK, "" },
    { "one value of a list",
      AXES,
      { .axes = { (const int64_t[]){ 1, 4 }, 2 } },
      TD_INVALID_ARGUMENT,
      "axes[1] is 4; expected a value from -4 to 3" },
    { "a float", EPSILON, { .epsilon = 0 }, TD_OK, "" },
    { "a float below the minimum",
      EPSILON,
      { .epsilon = -0.5 },
      TD_INVALID_ARGUMENT,
      "epsilon is -0.5; expected 0 or more" },
    { "a dtype", DTYPE, { .dtype = TD_DTYPE_INT64 }, TD_OK, "" },
    { "another dtype",
      DTYPE,
      { .dtype = TD_DTYPE_STRING },
      TD_UNSUPPORTED_DTYPE,
      "dtype is string; expected int16, int32 or int64" },
};

TD_TEST_EACH(given_attributes_are_checked_against_their_ranges, ranges)
{
    struct td_tensor one = tensor("int32[1] 0"), many = tensor("int16[1] 0");
    struct td_op_args args = { .attrs_set = 1u << COUNT | 1u << ranges[_i].attr };
    struct td_error err = { .message = "" };
    args.inputs[0] = (struct td_operand){ &one, 1 };
    args.inputs[1] = (struct td_operand){ &many, 1 };
    memcpy(args.attrs, &ranges[_i].value, sizeof(ranges[_i].value));
    ck_assert_msg(td_op_check(&sample, &args, &err) == ranges[_i].status, "%s",
                  ranges[_i].case_name);
    ck_assert_str_eq(err.message, ranges[_i].message);
    if (ranges[_i].status != TD_OK)
        ck_assert_str_eq(err.attribute, sample.attrs[ranges[_i].attr].name);
}

TD_TEST(an_attribute_is_copied_with_what_it_points_to)
{
    int64_t axes[] = { 3, 1, 2 };
    char equation[] = "ij->i";
    struct sample_attrs attrs = { .count = 7,
                                  .equation = equation,
                                  .axes = { axes, 3 },
                                  .epsilon = 0.5,
                                  .dtype = TD_DTYPE_INT32 };
    struct td_op_args from = { 0 }, to = { 0 };
    struct td_error err;
    memcpy(from.attrs, &attrs, sizeof(attrs));
    for (int i = 0; i < sample.n_attrs; i++) {
        size_t size, copied;
        ck_assert(td_op_attr_copy(&sample.attrs[i], &from, &to, &test_arena, &err));
        const void *bytes = td_op_attr_bytes(&sample.attrs[i], &from, &size);
        const void *copy = td_op_attr_bytes(&sample.attrs[i], &to, &copied);
        ck_assert_uint_eq(size, copied);
        ck_assert_mem_eq(copy, bytes, size);
    }
    memset(axes, 0, sizeof(axes));
    memset(equation, 'x', sizeof(equation) - 1);
    memcpy(&attrs, to.attrs, sizeof(attrs));
    ck_assert_str_eq(attrs.equation, "ij->i");
    ck_assert_int_eq(attrs.axes.values[0], 3);
    ck_assert_int_eq(attrs.axes.count, 3);
}

static const struct {
    const char *case_name;
    const char *one[2], *many[2]; /* tensors; NULL: none */
    uint32_t attrs_set;
    td_status status;
    const char *message, *input, *attribute;
} checks[] = {
    { "valid arguments", LIST("int32[1] 0"), LIST("float32[1] 0", "float32[0]"), 1, TD_OK, "", "",
      "" },
    { "a missing input", LIST(NULL), LIST("float32[1] 0"), 1, TD_INVALID_ARGUMENT,
      "one is missing; expected: One", "one", "" },
    { "a list where one is expected", LIST("int32[1] 0", "int32[1] 0"), LIST("float32[1] 0"), 1,
      TD_INVALID_ARGUMENT, "one is a list of 2 tensors; expected one", "one", "" },
    { "an empty list", LIST("int32[1] 0"), LIST(NULL), 1, TD_INVALID_ARGUMENT,
      "many has no tensors; expected a list of at least one", "many", "" },
    { "an unsupported dtype of three", LIST("uint8[1] 0"), LIST("float32[1] 0"), 1,
      TD_UNSUPPORTED_DTYPE,
      "one has dtype uint8; expected int16, int32 or int64; pass them as int64", "one", "" },
    { "the second of a list", LIST("int64[1] 0"), LIST("float32[1] 0", "float64[1] 0"), 1,
      TD_UNSUPPORTED_DTYPE,
      "many[1] has dtype float64; expected int16 or float32; the op cast with dtype = float32 "
      "rounds it",
      "many[1]", "" },
    { "two dtypes where there must be one", LIST("int64[1] 0"), LIST("float32[1] 0", "int16[1] 0"),
      1, TD_UNSUPPORTED_DTYPE,
      "many[1] has dtype int16 and many[0] float32; the dtypes must be equal: the op cast with "
      "dtype = float32 converts many[1]",
      "many[1]", "" },
    { "a required attribute", LIST("int64[1] 0"), LIST("float32[1] 0"), 2, TD_INVALID_ARGUMENT,
      "count is missing; sample requires it", "", "count" },
};

static struct td_operand operand(const char *const *texts, struct td_tensor *tensors)
{
    int count = 0;
    for (; count < 2 && texts[count]; count++)
        tensors[count] = tensor(texts[count]);
    return (struct td_operand){ tensors, count };
}

TD_TEST_EACH(arguments_are_checked_before_infer, checks)
{
    struct td_op_args args = { .attrs_set = checks[_i].attrs_set };
    struct td_tensor one[2], many[2];
    struct td_error err = { .message = "" };
    args.inputs[0] = operand(checks[_i].one, one);
    args.inputs[1] = operand(checks[_i].many, many);
    ck_assert_int_eq(td_op_check(&sample, &args, &err), checks[_i].status);
    ck_assert_str_eq(err.message, checks[_i].message);
    ck_assert_str_eq(err.input, checks[_i].input);
    ck_assert_str_eq(err.attribute, checks[_i].attribute);
    ck_assert_int_eq(td_op_check(&sample, &args, TD_IGNORED), checks[_i].status);

    inferred = 0;
    td_status status = td_op_infer(&sample, &args, &test_arena, &err);
    ck_assert_int_eq(inferred, checks[_i].status == TD_OK);
    ck_assert_int_eq(status, inferred ? TD_INVALID_EQUATION : checks[_i].status);
}

TD_TEST(data_and_keys_may_differ_in_dtype)
{
    static const struct td_input_spec inputs[] = {
        { .name = "x", .dtypes = TD_DTYPES_ALL, .one_dtype = true },
        { .name = "keys", .role = TD_ROLE_KEY, .dtypes = TD_DTYPES_ALL, .one_dtype = true },
        { .name = "queries", .role = TD_ROLE_KEY, .dtypes = TD_DTYPES_ALL, .one_dtype = true },
    };
    const struct td_op op = { .name = "keyed", .inputs = inputs, .n_inputs = COUNT_OF(inputs) };
    struct td_tensor x = tensor("float32[1] 0"), keys = tensor("int64[1] 0");
    struct td_tensor queries = tensor("uint64[1] 0");
    struct td_op_args args = { .inputs = { { &x, 1 }, { &keys, 1 }, { &keys, 1 } } };
    struct td_error err;
    ck_assert_int_eq(td_op_check(&op, &args, &err), TD_OK);
    args.inputs[2] = (struct td_operand){ &queries, 1 };
    ck_assert_int_eq(td_op_check(&op, &args, &err), TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(err.message,
                     "queries has dtype uint64 and keys int64; the dtypes must be equal: pass it "
                     "as int64; a value that does not fit cannot be one of the keys");
}

TD_TEST(an_input_that_cannot_have_the_dtype_of_the_first_may_differ)
{
    static const struct td_input_spec inputs[] = {
        { .name = "x", .dtypes = TD_DTYPES_ALL, .one_dtype = true },
        { .name = "weights",
          .dtypes = TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64),
          .one_dtype = true },
    };
    const struct td_op op = { .name = "weighted", .inputs = inputs, .n_inputs = COUNT_OF(inputs) };
    struct td_tensor x = tensor("int8[1] 0"), weights = tensor("float32[1] 0");
    struct td_op_args args = { .inputs = { { &x, 1 }, { &weights, 1 } } };
    struct td_error err;
    ck_assert_int_eq(td_op_check(&op, &args, &err), TD_OK);
    x = tensor("float64[1] 0");
    ck_assert_int_eq(td_op_check(&op, &args, &err), TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(err.input, "weights");
}

TD_TEST(an_optional_input_is_checked_when_it_is_given)
{
    struct td_tensor one = tensor("int32[1] 0"), many = tensor("int16[1] 0");
    struct td_tensor like = tensor("int16[1] 0"), other = tensor("float32[1] 0");
    struct td_op_args args = { .attrs_set = 1 };
    struct td_error err;
    args.inputs[0] = (struct td_operand){ &one, 1 };
    args.inputs[1] = (struct td_operand){ &many, 1 };
    ck_assert_int_eq(td_op_check(&sample, &args, &err), TD_OK);
    args.inputs[2] = (struct td_operand){ &like, 1 };
    ck_assert_int_eq(td_op_check(&sample, &args, &err), TD_OK);
    args.inputs[2] = (struct td_operand){ &other, 1 };
    ck_assert_int_eq(td_op_check(&sample, &args, &err), TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(err.input, "like");
    struct td_op other_code = sample;
    other_code.mixed_dtypes = TD_INVALID_ARGUMENT;
    ck_assert_int_eq(td_op_check(&other_code, &args, &err), TD_INVALID_ARGUMENT);
}

static const struct {
    const char *case_name;
    struct td_input_spec spec;
    bool reads;
} roles[] = {
    { "the values of data are not read", LIST(.dtypes = TD_DTYPES_ALL), false },
    { "data is read if the descriptor says so",
      LIST(.dtypes = TD_DTYPE_BIT(BOOL), .reads_values = true), true },
    { "indices are read", LIST(.role = TD_ROLE_INDEX, .dtypes = TD_DTYPES_INDEX), true },
    { "keys are read", LIST(.role = TD_ROLE_KEY, .dtypes = TD_DTYPE_BIT(INT64)), true },
    { "conditions are read", LIST(.role = TD_ROLE_CONDITION, .dtypes = TD_DTYPE_BIT(BOOL)), true },
};

TD_TEST_EACH(the_role_of_an_input_decides_whether_its_values_are_read, roles)
{
    ck_assert_msg(td_input_reads_values(&roles[_i].spec) == roles[_i].reads, "%s",
                  roles[_i].case_name);
}

/* Was the data of the two inputs aligned when infer was called? */
static bool was_aligned[2];

static td_status recording_infer(struct td_op_args *args, struct td_arena *arena,
                                 struct td_error *err)
{
    (void)arena;
    (void)err;
    for (int i = 0; i < 2; i++)
        was_aligned[i] = td_tensor_is_aligned(&args->inputs[i].tensors[0]);
    return TD_OK;
}

TD_TEST(values_that_an_op_reads_are_aligned_before_infer)
{
    static const struct td_input_spec specs[] = {
        { .name = "read", .dtypes = TD_DTYPES_ALL, .list = true, .reads_values = true },
        { .name = "moved", .dtypes = TD_DTYPES_ALL },
    };
    static const struct td_op op = { .inputs = specs, .n_inputs = 2, .infer = recording_infer };
    struct td_error err;
    for (size_t offset = 0; offset < 8; offset++) {
        _Alignas(8) char bytes[24];
        struct td_tensor given = tensor("int64[2] 7 8");
        memcpy(bytes + offset, given.data, given.bytes);
        given.data = bytes + offset;
        struct td_tensor read = given, moved = given;
        struct td_op_args args = { .inputs = { { &read, 1 }, { &moved, 1 } } };
        ck_assert_int_eq(td_op_infer(&op, &args, &test_arena, &err), TD_OK);
        ck_assert(was_aligned[0]);
        ck_assert(was_aligned[1] == (offset == 0)); /* not copied: its values are not read */
        ck_assert_mem_eq(read.data, bytes + offset, read.bytes);
    }
}
