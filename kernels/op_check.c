#include "kernels/op_check.h"

#include "kernels/dtype_advice.h"
#include "kernels/key_dtype.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Writes a set of dtypes as a choice, such as "int16, int32 or int64". */
static const char *dtype_choice(td_dtype_set set, char *text, size_t size)
{
    char list[TD_DTYPE_SET_TEXT];
    td_dtype_set_text(set, list, sizeof(list));
    const char *comma = strrchr(list, ',');
    if (comma)
        snprintf(text, size, "%.*s or%s", (int)(comma - list), list, comma + 1);
    else
        snprintf(text, size, "%s", list);
    return text;
}

/* Writes the name of a tensor: "params", or "inputs[2]" for an element of a list. */
#define TENSOR_NAME 64
static const char *tensor_name(const struct td_input_spec *spec, int element, char *text)
{
    if (spec->list)
        snprintf(text, TENSOR_NAME, "%s[%d]", spec->name, element);
    else
        snprintf(text, TENSOR_NAME, "%s", spec->name);
    return text;
}

/* Returns the input with which this input seems to have been swapped, or NULL. Each of the two has
 * a dtype that only the other accepts. */
static const struct td_input_spec *exchanged(const struct td_op *op, const struct td_op_args *args,
                                             const struct td_input_spec *spec, td_dtype dtype)
{
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_input_spec *other = &op->inputs[i];
        const struct td_operand *given = &args->inputs[i];
        if (other == spec || given->count == 0 || !(other->dtypes >> dtype & 1))
            continue;
        const td_dtype its = given->tensors[0].dtype;
        if (!(other->dtypes >> its & 1) && spec->dtypes >> its & 1)
            return other;
    }
    return NULL;
}

/* Returns the dtypes that the input can have, given the other inputs. If all inputs of its role
 * must have one dtype, this is the dtype of the first such input. */
static td_dtype_set accepted_beside(const struct td_op *op, const struct td_op_args *args,
                                    const struct td_input_spec *spec)
{
    for (int i = 0; i < op->n_inputs && spec->one_dtype; i++) {
        const struct td_input_spec *first = &op->inputs[i];
        if (first == spec)
            break;
        if (first->one_dtype && first->role == spec->role && args->inputs[i].count > 0)
            return spec->dtypes & (td_dtype_set)1 << args->inputs[i].tensors[0].dtype;
    }
    return spec->dtypes;
}

/* Returns the dtype to advise for indices: int64, or the first that the input accepts. */
static const struct td_dtype_info *index_dtype(const struct td_input_spec *spec)
{
    const bool wide = spec->dtypes & TD_DTYPE_BIT(INT64);
    return td_dtype_info(wide ? TD_DTYPE_INT64 : (td_dtype)__builtin_ctz(spec->dtypes));
}

static td_status refuse_dtype(const struct td_op *op, const struct td_op_args *args,
                              const struct td_input_spec *spec, int element,
                              const struct td_tensor *tensor, struct td_error *err)
{
    const struct td_input_spec *other = exchanged(op, args, spec, tensor->dtype);
    char accepted[TD_DTYPE_SET_TEXT + 2], name[TENSOR_NAME];
    const td_dtype to = td_dtype_to_cast(accepted_beside(op, args, spec), tensor->dtype);
    dtype_choice(spec->dtypes, accepted, sizeof(accepted));
    td_error_set(err, TD_UNSUPPORTED_DTYPE, "%s has dtype %s; expected %s",
                 tensor_name(spec, element, name), td_dtype_info(tensor->dtype)->name, accepted);
    if (other)
        td_error_hint(err, "%s and %s seem to be swapped", spec->name, other->name);
    else if (spec->role == TD_ROLE_KEY && tensor->dtype == TD_DTYPE_BOOL)
        td_error_hint(err, "a mask has no keys; use the positions where it is true as row numbers");
    else if (spec->part == TD_ROW_PART_QUERY && tensor->dtype == TD_DTYPE_BOOL)
        td_error_hint(err, "for a mask, pass the positions where it is true");
    else if (spec->role == TD_ROLE_INDEX && tensor->dtype == TD_DTYPE_BOOL)
        return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "%s", name);
    else if (spec->role == TD_ROLE_INDEX && td_dtype_is_float(tensor->dtype))
        td_error_hint(err, "pass integers as %s", index_dtype(spec)->name);
    else if (spec->role == TD_ROLE_INDEX && tensor->dtype != TD_DTYPE_STRING)
        td_error_hint(err, "pass them as %s", index_dtype(spec)->name);
    else if (to != TD_DTYPE_COUNT)
        td_error_hint(err, "the op cast with dtype = %s %s it", td_dtype_info(to)->name,
                      td_dtype_holds(to, tensor->dtype) ? "converts" : "rounds");
    return td_error_at_input(err, TD_UNSUPPORTED_DTYPE, "%s", name);
}

/* Returns the length of the first sentence, without the full stop. */
static int first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    const size_t length = end ? (size_t)(end - text) : strlen(text);
    return (int)length - (length > 0 && text[length - 1] == '.');
}

static td_status check_input(const struct td_op *op, const struct td_op_args *args, int input,
                             struct td_error *err)
{
    const struct td_input_spec *spec = &op->inputs[input];
    const struct td_operand *given = &args->inputs[input];
    if (given->count == 0 && spec->optional)
        return TD_OK;
    if (given->count == 0) {
        if (spec->list)
            td_error_set(err, TD_INVALID_ARGUMENT,
                         "%s has no tensors; expected a list of at least one", spec->name);
        else
            td_error_set(err, TD_INVALID_ARGUMENT, "%s is missing; expected: %.*s", spec->name,
                         first_sentence(spec->summary), spec->summary);
        return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", spec->name);
    }
    if (!spec->list && given->count > 1) {
        td_error_set(err, TD_INVALID_ARGUMENT, "%s is a list of %d tensors; expected one",
                     spec->name, given->count);
        return td_error_at_input(err, TD_INVALID_ARGUMENT, "%s", spec->name);
    }
    for (int i = 0; i < given->count; i++)
        if (!(spec->dtypes & ((td_dtype_set)1 << given->tensors[i].dtype)))
            return refuse_dtype(op, args, spec, i, &given->tensors[i], err);
    return TD_OK;
}

/* A tensor of an input. */
struct element {
    const struct td_input_spec *spec;
    int number; /* in a list */
    const struct td_tensor *tensor;
};

static td_status refuse_mixed(const struct td_op *op, const struct element *first,
                              const struct element *other, struct td_error *err)
{
    const td_status status = op->mixed_dtypes ? op->mixed_dtypes : TD_UNSUPPORTED_DTYPE;
    char first_name[TENSOR_NAME], name[TENSOR_NAME], advice[TD_DTYPE_ADVICE];
    const struct td_dtype_pair pair = {
        .first_name = tensor_name(first->spec, first->number, first_name),
        .name = tensor_name(other->spec, other->number, name),
        .first = first->tensor->dtype,
        .dtype = other->tensor->dtype,
        .accepted = first->spec->dtypes & other->spec->dtypes,
        .role = first->spec->role,
        .is_change = op->change != NULL && first->spec->role == TD_ROLE_DATA,
    };
    td_error_set(err, status, "%s has dtype %s and %s %s; the dtypes must be equal%s", name,
                 td_dtype_info(pair.dtype)->name, first_name, td_dtype_info(pair.first)->name,
                 td_dtype_advise(&pair, advice));
    return td_error_at_input(err, status, "%s", name);
}

/* Checks that all tensors of this role in inputs with one_dtype have the dtype of the first such
 * tensor. Inputs that do not accept that dtype are exempt. */
static td_status check_one_dtype(const struct td_op *op, const struct td_op_args *args,
                                 td_role role, struct td_error *err)
{
    struct element first = { NULL, 0, NULL };
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_input_spec *spec = &op->inputs[i];
        if (!spec->one_dtype || spec->role != role || !td_input_is_used(spec, args))
            continue;
        for (int j = 0; j < args->inputs[i].count; j++) {
            const struct element other = { spec, j, &args->inputs[i].tensors[j] };
            if (!first.tensor)
                first = other;
            if (other.tensor->dtype != first.tensor->dtype &&
                spec->dtypes >> first.tensor->dtype & 1)
                return refuse_mixed(op, &first, &other, err);
        }
    }
    return TD_OK;
}

/* True if the input contains keys of rows and is not a vector. */
static bool is_matrix(const struct td_op *op, const struct td_op_args *args, int i)
{
    return td_input_is_row_keys(&op->inputs[i]) && args->inputs[i].count == 1 &&
           args->inputs[i].tensors->shape.rank != 1;
}

/* Checks that keys of rows are vectors. Runs before dtypes are compared. Otherwise, if a table is
 * passed as its own keys, the error would concern the dtype of another input. */
static td_status check_row_keys(const struct td_op *op, const struct td_op_args *args,
                                struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_tensor *keys = args->inputs[i].tensors;
        if (!is_matrix(op, args, i))
            continue;
        td_error_set(err, TD_SHAPE_MISMATCH, "%s has shape %s; expected a vector",
                     op->inputs[i].name, td_shape_text(&keys->shape, text, sizeof(text)));
        td_error_add_shape(err, op->inputs[i].name, &keys->shape);
        return td_error_at_input(err, TD_SHAPE_MISMATCH, "%s", op->inputs[i].name);
    }
    return TD_OK;
}

/* Checks that integers are in range. For a list, the error names the invalid element, such as
 * "steps[1]". */
static td_status check_ints(const struct td_attr_spec *attr, const int64_t *values, int count,
                            struct td_error *err)
{
    const struct td_int_range *range = attr->range;
    for (int i = 0; range && i < count; i++) {
        char place[16] = "", most[32] = " or more";
        if (values[i] >= range->min && values[i] <= range->max)
            continue;
        if (attr->kind == TD_ATTR_INTS)
            snprintf(place, sizeof(place), "[%d]", i);
        if (range->max != INT64_MAX)
            snprintf(most, sizeof(most), " to %" PRId64, range->max);
        td_error_set(err, TD_INVALID_ARGUMENT, "%s%s is %" PRId64 "; expected %s%" PRId64 "%s",
                     attr->name, place, values[i], range->max != INT64_MAX ? "a value from " : "",
                     range->min, most);
        return td_error_at_attribute(err, TD_INVALID_ARGUMENT, attr->name);
    }
    return TD_OK;
}

static td_status check_float(const struct td_attr_spec *attr, double value, struct td_error *err)
{
    const struct td_float_range *range = attr->float_range;
    if (!range || (value >= range->min && value <= range->max))
        return TD_OK;
    if (isinf(range->max))
        td_error_set(err, TD_INVALID_ARGUMENT, "%s is %g; expected %g or more", attr->name, value,
                     range->min);
    else
        td_error_set(err, TD_INVALID_ARGUMENT, "%s is %g; expected a value from %g to %g",
                     attr->name, value, range->min, range->max);
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, attr->name);
}

static td_status check_dtype(const struct td_attr_spec *attr, td_dtype dtype, struct td_error *err)
{
    char accepted[TD_DTYPE_SET_TEXT + 2];
    if (attr->dtypes >> dtype & 1)
        return TD_OK;
    td_error_set(err, TD_UNSUPPORTED_DTYPE, "%s is %s; expected %s", attr->name,
                 td_dtype_info(dtype)->name,
                 dtype_choice(attr->dtypes, accepted, sizeof(accepted)));
    return td_error_at_attribute(err, TD_UNSUPPORTED_DTYPE, attr->name);
}

/* Checks that the value of an attribute is in range. */
static td_status check_attr(const struct td_attr_spec *attr, const struct td_op_args *args,
                            struct td_error *err)
{
    const unsigned char *place = args->attrs + attr->offset;
    int64_t integer;
    struct td_ints list;
    double number;
    td_dtype dtype;
    switch (attr->kind) {
    case TD_ATTR_INT:
        memcpy(&integer, place, sizeof(integer));
        return check_ints(attr, &integer, 1, err);
    case TD_ATTR_INTS:
        memcpy(&list, place, sizeof(list));
        return check_ints(attr, list.values, list.count, err);
    case TD_ATTR_FLOAT:
        memcpy(&number, place, sizeof(number));
        return check_float(attr, number, err);
    case TD_ATTR_DTYPE:
        memcpy(&dtype, place, sizeof(dtype));
        return check_dtype(attr, dtype, err);
    default:
        return TD_OK;
    }
}

td_status td_op_check(const struct td_op *op, const struct td_op_args *args, struct td_error *err)
{
    td_status status = TD_OK;
    assert(op->n_inputs <= TD_MAX_INPUTS);
    for (int i = 0; i < op->n_inputs && status == TD_OK; i++)
        status = check_input(op, args, i, err);
    if (status == TD_OK)
        status = check_one_dtype(op, args, TD_ROLE_DATA, err);
    if (status == TD_OK)
        status = check_row_keys(op, args, err);
    if (status == TD_OK)
        status = check_one_dtype(op, args, TD_ROLE_KEY, err);
    for (int i = 0; i < op->n_attrs && status == TD_OK; i++) {
        const char *name = op->attrs[i].name;
        if (args->attrs_set & ((uint32_t)1 << i)) {
            status = check_attr(&op->attrs[i], args, err);
        } else if (op->attrs[i].required) {
            td_error_set(err, TD_INVALID_ARGUMENT, "%s is missing; %s requires it", name, op->name);
            status = td_error_at_attribute(err, TD_INVALID_ARGUMENT, name);
        }
    }
    return status;
}

static bool is_key(const struct td_op *op, const struct td_op_args *args, int i)
{
    return op->inputs[i].role == TD_ROLE_KEY && !op->inputs[i].list && args->inputs[i].count == 1;
}

/* Widens keys to uint64 if any keys of the call are uint64, and to int64 otherwise. */
static td_status widen_keys(const struct td_op *op, struct td_op_args *args, struct td_arena *arena,
                            struct td_error *err)
{
    td_dtype widest = TD_DTYPE_INT64;
    td_status status = TD_OK;
    for (int i = 0; i < op->n_inputs; i++)
        if (is_key(op, args, i) && args->inputs[i].tensors[0].dtype == TD_DTYPE_UINT64)
            widest = TD_DTYPE_UINT64;
    for (int i = 0; i < op->n_inputs && status == TD_OK; i++)
        /* Skips a matrix, which is refused later with its original dtype in the message. */
        if (is_key(op, args, i) && !is_matrix(op, args, i))
            status = td_key_widen(args->inputs[i].tensors, op->inputs[i].name, widest, arena, err);
    return status;
}

static td_status align_inputs(const struct td_op *op, struct td_op_args *args,
                              struct td_arena *arena, struct td_error *err)
{
    for (int i = 0; i < op->n_inputs; i++)
        for (int j = 0; td_input_reads_values(&op->inputs[i]) && j < args->inputs[i].count; j++) {
            td_status status = td_tensor_align(&args->inputs[i].tensors[j], arena, err);
            if (status != TD_OK)
                return status;
        }
    return TD_OK;
}

td_status td_op_infer(const struct td_op *op, struct td_op_args *args, struct td_arena *arena,
                      struct td_error *err)
{
    args->op = op;
    td_status status = widen_keys(op, args, arena, err);
    if (status == TD_OK)
        status = td_op_check(op, args, err);
    if (status == TD_OK)
        status = align_inputs(op, args, arena, err);
    return status == TD_OK ? op->infer(args, arena, err) : status;
}
