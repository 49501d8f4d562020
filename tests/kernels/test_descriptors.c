/* Requirements of every descriptor in ops.def, on which routes, checks, metadata and replies
 * depend. tests/api/test_describe.c runs the examples. */
#include "kernels/op_rows.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <ctype.h>
#include <string.h>

#define FOR_EACH_OP(op)                                                                            \
    for (const struct td_op *const *at = first_op(), *op; at < first_op() + n_ops() && (op = *at); \
         at++)

static int n_ops(void)
{
    int count;
    (void)td_ops(&count);
    return count;
}

static const struct td_op *const *first_op(void)
{
    int count;
    return td_ops(&count);
}

/* Names are lower case, as all names of the API, and fit the buffers that hold names. */
static bool is_name(const char *name)
{
    const size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > 32 || !islower((unsigned char)name[0]))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static bool is_sentence(const char *text)
{
    return text && text[0] != '\0' && text[strlen(text) - 1] == '.';
}

static bool is_text(const char *text)
{
    return text && text[0] != '\0';
}

TD_TEST(every_op_has_its_texts_and_functions)
{
    FOR_EACH_OP(op)
    {
        EXPECT(is_name(op->name), "\"%s\" is no name", op->name);
        EXPECT(is_sentence(op->summary), "%s has no summary", op->name);
        EXPECT(is_text(op->source) && (op->plan_example != NULL) == (op->explain != NULL),
               "%s lacks a text", op->name);
        EXPECT(op->infer && op->cost && op->run, "%s lacks a function", op->name);
        EXPECT(td_op_named(op->name, strlen(op->name)) == op, "%s is there twice", op->name);
    }
}

TD_TEST(every_op_has_examples_with_titles)
{
    FOR_EACH_OP(op)
    {
        const struct td_op_example *examples = op->examples;
        EXPECT(examples && examples[0].title, "%s has no example", op->name);
        for (int i = 0; examples[i].title; i++) {
            EXPECT(is_text(examples[i].title) && is_text(examples[i].request), "%s lacks a text",
                   op->name);
            for (int k = 0; k < i; k++)
                EXPECT(strcmp(examples[i].title, examples[k].title) != 0, "%s has two: %s",
                       op->name, examples[i].title);
        }
    }
}

static void check_input(const struct td_op *op, const struct td_input_spec *spec)
{
    const td_dtype_set integers = TD_DTYPES_INDEX | TD_DTYPE_BIT(INT8) | TD_DTYPE_BIT(UINT8) |
                                  TD_DTYPE_BIT(UINT16) | TD_DTYPE_BIT(UINT32) |
                                  TD_DTYPE_BIT(UINT64);
    EXPECT(is_name(spec->name), "%s: \"%s\" is no name", op->name, spec->name);
    EXPECT(is_sentence(spec->summary), "%s: %s has no summary", op->name, spec->name);
    EXPECT(spec->dtypes != 0 && !(spec->dtypes & ~TD_DTYPES_ALL), "%s: the dtypes of %s", op->name,
           spec->name);
    EXPECT(spec->role != TD_ROLE_INDEX || !(spec->dtypes & ~integers),
           "%s: %s are indices, but not integers", op->name, spec->name);
    EXPECT(spec->role != TD_ROLE_CONDITION || spec->dtypes == TD_DTYPE_BIT(BOOL),
           "%s: %s are conditions, but not bool", op->name, spec->name);
    EXPECT(spec->role == TD_ROLE_DATA || !spec->reads_values, "%s: %s is no data", op->name,
           spec->name);
    EXPECT(spec->role == TD_ROLE_DATA || spec->role == TD_ROLE_KEY || !spec->one_dtype,
           "%s: %s is neither data nor keys", op->name, spec->name);
}

TD_TEST(inputs_are_described_in_full)
{
    FOR_EACH_OP(op)
    {
        EXPECT(op->n_inputs >= 1 && op->n_inputs <= TD_MAX_INPUTS, "%s has %d inputs", op->name,
               op->n_inputs);
        EXPECT(!op->inputs[0].optional, "the first input of %s is optional", op->name);
        for (int i = 0; i < op->n_inputs; i++)
            check_input(op, &op->inputs[i]);
    }
}

/* Is the default documented: a value within the range, or a text? */
static bool has_default(const struct td_attr_spec *spec)
{
    const int64_t value = spec->default_int;
    int n = 0;
    while (spec->choices && spec->choices[n])
        n++;
    if (spec->default_text)
        return true;
    switch (spec->kind) {
    case TD_ATTR_INT:
        return value != TD_ATTR_UNSET &&
               (!spec->range || (value >= spec->range->min && value <= spec->range->max));
    case TD_ATTR_FLOAT:
        return !spec->float_range || (spec->default_float >= spec->float_range->min &&
                                      spec->default_float <= spec->float_range->max);
    case TD_ATTR_BOOL:
        return value == 0 || value == 1;
    case TD_ATTR_CHOICE:
        return value >= 0 && value < n;
    case TD_ATTR_DTYPE:
        return value >= 0 && value < TD_DTYPE_COUNT && (spec->dtypes >> value & 1);
    default:
        return false;
    }
}

static void check_range(const struct td_op *op, const struct td_attr_spec *spec)
{
    const bool integers = spec->kind == TD_ATTR_INT || spec->kind == TD_ATTR_INTS;
    EXPECT(!spec->range || (integers && spec->range->min <= spec->range->max),
           "%s: the range of %s", op->name, spec->name);
    EXPECT(!spec->float_range ||
               (spec->kind == TD_ATTR_FLOAT && spec->float_range->min <= spec->float_range->max),
           "%s: the range of %s", op->name, spec->name);
}

static void check_attr(const struct td_op *op, const struct td_attr_spec *spec)
{
    EXPECT(is_name(spec->name), "%s: \"%s\" is no name", op->name, spec->name);
    EXPECT(is_sentence(spec->summary), "%s: %s has no summary", op->name, spec->name);
    EXPECT(spec->kind < TD_ATTR_KIND_COUNT, "%s: %s is of no kind", op->name, spec->name);
    EXPECT(spec->offset + td_attr_size(spec->kind) <= TD_ATTRS_SIZE, "%s: no room for %s", op->name,
           spec->name);
    EXPECT(!spec->required || !spec->default_text, "%s: %s is required and has a default", op->name,
           spec->name);
    EXPECT(spec->required || has_default(spec), "%s: the default of %s", op->name, spec->name);
    EXPECT((spec->kind == TD_ATTR_CHOICE) == (spec->choices != NULL), "%s: the choices of %s",
           op->name, spec->name);
    EXPECT((spec->kind == TD_ATTR_DTYPE) == (spec->dtypes != 0), "%s: the dtypes of %s", op->name,
           spec->name);
    check_range(op, spec);
}

TD_TEST(attributes_are_described_in_full)
{
    FOR_EACH_OP(op)
    {
        EXPECT(op->n_attrs >= 0 && op->n_attrs <= TD_MAX_ATTRS, "%s has %d attributes", op->name,
               op->n_attrs);
        unsigned char used[TD_ATTRS_SIZE] = { 0 };
        for (int i = 0; i < op->n_attrs; i++) {
            const struct td_attr_spec *spec = &op->attrs[i];
            check_attr(op, spec);
            for (size_t k = 0; k < td_attr_size(spec->kind); k++)
                EXPECT(used[spec->offset + k]++ == 0, "%s: %s overlaps another attribute", op->name,
                       spec->name);
        }
    }
}

TD_TEST(names_are_unique)
{
    FOR_EACH_OP(op)
    {
        const char *names[TD_MAX_INPUTS + TD_MAX_ATTRS];
        int n = 0;
        for (int i = 0; i < op->n_inputs; i++)
            names[n++] = op->inputs[i].name;
        for (int i = 0; i < op->n_attrs; i++)
            names[n++] = op->attrs[i].name;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < i; k++)
                EXPECT(strcmp(names[i], names[k]) != 0, "%s has two %s", op->name, names[i]);
    }
}

static bool names_input(const struct td_op *op, const char *name)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (strcmp(op->inputs[i].name, name) == 0)
            return true;
    return false;
}

static bool has_a_dtype(const struct td_op *op, const char *name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return op->attrs[i].kind == TD_ATTR_DTYPE;
    return names_input(op, name);
}

static void check_output(const struct td_op *op, const struct td_output_spec *spec)
{
    EXPECT(is_name(spec->name), "%s: \"%s\" is no name", op->name, spec->name);
    EXPECT(is_sentence(spec->summary) && is_text(spec->shape_rule), "%s: %s lacks a text", op->name,
           spec->name);
    EXPECT(spec->dtype_of || spec->dtypes, "%s: the dtype of %s", op->name, spec->name);
    EXPECT(!spec->dtype_of || !spec->dtypes || !names_input(op, spec->dtype_of),
           "%s: %s has the dtype of an input, and others", op->name, spec->name);
    EXPECT(!spec->dtype_of || has_a_dtype(op, spec->dtype_of),
           "%s: %s has the dtype of %s, which has none", op->name, spec->name, spec->dtype_of);
    EXPECT(td_op_output_dtypes(op, spec) != 0, "%s: the dtypes of %s", op->name, spec->name);
}

TD_TEST(outputs_are_described_in_full)
{
    FOR_EACH_OP(op)
    {
        EXPECT(op->n_outputs >= 1, "%s has no outputs", op->name);
        for (int i = 0; i < op->n_outputs; i++) {
            check_output(op, &op->outputs[i]);
            for (int k = 0; k < i; k++)
                EXPECT(strcmp(op->outputs[i].name, op->outputs[k].name) != 0, "%s has two %s",
                       op->name, op->outputs[i].name);
        }
        if (op->n_outputs == 1)
            ck_assert_str_eq(op->outputs[0].name, op->outputs[0].list ? "outputs" : "output");
        for (int i = 0; op->n_outputs > 1 && i < op->n_outputs; i++)
            EXPECT(!op->outputs[i].list, "%s has a list beside other outputs", op->name);
        EXPECT(!op->stack || !op->outputs[0].list, "%s stacks calls with a list of outputs",
               op->name);
    }
}

static int count_parts(const struct td_op *op, td_row_part part)
{
    int n = 0;
    for (int i = 0; i < op->n_inputs; i++)
        n += op->inputs[i].part == part;
    return n;
}

static bool is_choice(const struct td_op *op, int attr)
{
    return attr >= 0 && attr < op->n_attrs && op->attrs[attr].kind == TD_ATTR_CHOICE;
}

static bool is_int_or_none(const struct td_op *op, int attr)
{
    return attr == TD_ROWS_NONE ||
           (attr >= 0 && attr < op->n_attrs && op->attrs[attr].kind == TD_ATTR_INT);
}

static void check_rows(const struct td_op *op)
{
    const struct td_op_rows *rows = op->rows;
    const int query = td_op_rows_input(op, TD_ROW_PART_QUERY);
    EXPECT(rows->is_plain && !op->stack, "%s: is_plain, and no stack", op->name);
    EXPECT(op->inputs[0].part == TD_ROW_PART_TABLE || td_input_is_row_keys(&op->inputs[0]),
           "%s: the first input is the table, or the keys of its rows", op->name);
    EXPECT(count_parts(op, TD_ROW_PART_QUERY) == 1 && count_parts(op, TD_ROW_PART_NONE) == 0,
           "%s: one input has the queries, and each has a part", op->name);
    EXPECT(op->inputs[query].role == TD_ROLE_INDEX || op->inputs[query].role == TD_ROLE_KEY,
           "%s: the queries are numbers or keys", op->name);
    /* A descriptor that leaves out both would mean its first attribute by both. */
    EXPECT(rows->axis_attr == TD_ROWS_NONE || rows->axis_attr != rows->batch_attr,
           "%s: the axis and the batch dimensions are different attributes", op->name);
    EXPECT((count_parts(op, TD_ROW_PART_SEGMENTS) > 0) == (rows->count_attr != TD_ROWS_NONE),
           "%s: the number of bags", op->name);
    EXPECT(is_int_or_none(op, rows->axis_attr) && is_int_or_none(op, rows->batch_attr),
           "%s: the dimensions of the table", op->name);
    if (rows->policy_attr == TD_ROWS_NONE)
        return;
    ck_assert_msg(is_choice(op, rows->policy_attr), "%s: the policy", op->name);
    ck_assert_str_eq(op->attrs[rows->policy_attr].choices[TD_ROWS_POLICY_ERROR], "error");
    ck_assert_str_eq(op->attrs[rows->policy_attr].choices[TD_ROWS_POLICY_ZERO], "zero");
    EXPECT((rows->found_output == TD_ROWS_NONE) == (op->inputs[query].role == TD_ROLE_INDEX),
           "%s: queries by key need the output found", op->name);
}

TD_TEST(inputs_of_ops_that_pick_rows_have_parts)
{
    FOR_EACH_OP(op)
    {
        if (op->rows)
            check_rows(op);
        else
            EXPECT(count_parts(op, TD_ROW_PART_NONE) + count_parts(op, TD_ROW_PART_TABLE) +
                           count_parts(op, TD_ROW_PART_PER_ROW) ==
                       op->n_inputs,
                   "%s has parts of queries", op->name);
        for (int i = 0; i < op->n_inputs; i++) {
            EXPECT(!op->inputs[i].aligned_with || names_input(op, op->inputs[i].aligned_with),
                   "%s: %s is aligned with no input", op->name, op->inputs[i].name);
            EXPECT(!op->inputs[i].or_keys || op->inputs[i].role == TD_ROLE_INDEX,
                   "%s: keys in place of %s", op->name, op->inputs[i].name);
        }
    }
}

TD_TEST(ops_that_reshape_have_one_input_and_an_output_of_its_dtype)
{
    FOR_EACH_OP(op)
    {
        if (!op->reshapes)
            continue;
        EXPECT(op->n_inputs == 1 && !op->inputs[0].list, "%s reshapes several tensors", op->name);
        EXPECT(op->n_outputs == 1 && !op->outputs[0].list, "%s has several outputs", op->name);
        EXPECT(op->outputs[0].dtype_of && strcmp(op->outputs[0].dtype_of, op->inputs[0].name) == 0,
               "%s reshapes, but its output does not have the dtype of %s", op->name,
               op->inputs[0].name);
    }
}

TD_TEST(errors_are_listed_once)
{
    FOR_EACH_OP(op)
    {
        int n = 0;
        for (; op->errors[n] != TD_OK; n++) {
            ck_assert_int_lt(op->errors[n], TD_STATUS_COUNT);
            for (int k = 0; k < n; k++)
                EXPECT(op->errors[n] != op->errors[k], "%s has %s twice", op->name,
                       td_status_name(op->errors[n]));
        }
        EXPECT(n > 0, "%s has no errors", op->name);
    }
}
