#include "kernels/op.h"

#include "kernels/dtype_advice.h"
#include "kernels/key_dtype.h"
#include "kernels/op_change.h"
#include "kernels/op_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TD_OP(folder, name) extern const struct td_op td_op_##name;
#include "kernels/ops.def"
#undef TD_OP

static const struct td_op *const ops[TD_OP_COUNT] = {
#define TD_OP(folder, name) &td_op_##name,
#include "kernels/ops.def"
#undef TD_OP
};

const struct td_op *const *td_ops(int *count)
{
    *count = TD_OP_COUNT;
    return ops;
}

const struct td_op *const td_table_op = &td_op_gather;
const struct td_op *const td_row_numbers_op = &td_op_find;
const struct td_op *const td_keyed_rows_op = &td_op_lookup;
const struct td_op *const td_row_writer = &td_op_scatter;
const struct td_op *const td_key_writer = &td_op_upsert;
const struct td_op *const td_row_remover = &td_op_remove;

const struct td_op *td_op_named(const char *name, size_t length)
{
    /* The names of the ops with their lengths, so a search does not read the descriptors. */
    static const struct {
        const char *name;
        size_t length;
    } names[TD_OP_COUNT] = {
#define TD_OP(folder, name) { #name, sizeof(#name) - 1 },
#include "kernels/ops.def"
#undef TD_OP
    };
    for (int i = 0; i < TD_OP_COUNT; i++)
        if (names[i].length == length && memcmp(names[i].name, name, length) == 0)
            return ops[i];
    return NULL;
}

/* ---- Inputs and outputs ------------------------------------------------------------------ */

const char *td_role_name(td_role role)
{
    static const char *const names[TD_ROLE_COUNT] = {
        [TD_ROLE_DATA] = "data",
        [TD_ROLE_INDEX] = "index",
        [TD_ROLE_KEY] = "key",
        [TD_ROLE_CONDITION] = "condition",
    };
    return names[role];
}

bool td_input_is_row_numbers(const struct td_input_spec *spec)
{
    return spec->or_keys;
}

bool td_input_is_row_keys(const struct td_input_spec *spec)
{
    return spec->part == TD_ROW_PART_PER_ROW && spec->role == TD_ROLE_KEY;
}

bool td_input_is_used(const struct td_input_spec *spec, const struct td_op_args *args)
{
    return !spec->is_used || spec->is_used(args);
}

bool td_input_reads_values(const struct td_input_spec *spec)
{
    return spec->reads_values || spec->role != TD_ROLE_DATA;
}

struct td_untyped td_input_untyped(const struct td_input_spec *spec)
{
    static const td_dtype empty[TD_ROLE_COUNT] = {
        [TD_ROLE_DATA] = TD_DTYPE_FLOAT32,
        [TD_ROLE_INDEX] = TD_DTYPE_INT32,
        [TD_ROLE_KEY] = TD_DTYPE_INT64,
        [TD_ROLE_CONDITION] = TD_DTYPE_BOOL,
    };
    const td_dtype usual = empty[spec->role];
    const td_dtype_set numbers = TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(FLOAT32);
    const bool only_float = (spec->dtypes & numbers) == TD_DTYPE_BIT(FLOAT32);
    return (struct td_untyped){
        .empty = spec->dtypes >> usual & 1 ? usual : (td_dtype)__builtin_ctz(spec->dtypes),
        .integer = spec->role == TD_ROLE_KEY ? TD_DTYPE_INT64
                   : only_float              ? TD_DTYPE_FLOAT32
                                             : TD_DTYPE_INT32,
        .no_fractions = spec->role == TD_ROLE_INDEX || spec->role == TD_ROLE_KEY,
        .others = spec->dtypes,
    };
}

td_output_form td_op_output_form(const struct td_op *op)
{
    if (op->n_outputs > 1)
        return TD_OUTPUT_NAMED;
    return op->outputs[0].list ? TD_OUTPUT_LIST : TD_OUTPUT_ONE;
}

int td_op_keys_input(const struct td_op *op)
{
    const int query = op->rows ? td_op_rows_input(op, TD_ROW_PART_QUERY) : -1;
    return query >= 0 && (op->inputs[query].role == TD_ROLE_KEY || op->inputs[query].or_keys)
               ? query
               : -1;
}

bool td_op_input_may_be_omitted(const struct td_op *op, int input)
{
    const struct td_input_spec *spec = &op->inputs[input];
    return spec->optional || (input > 0 && td_input_is_row_keys(spec));
}

td_dtype_set td_op_output_dtypes(const struct td_op *op, const struct td_output_spec *spec)
{
    for (int i = 0; spec->dtype_of && i < op->n_inputs; i++)
        if (strcmp(op->inputs[i].name, spec->dtype_of) == 0)
            return op->inputs[i].dtypes;
    for (int i = 0; spec->dtype_of && i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, spec->dtype_of) == 0)
            return op->attrs[i].dtypes | spec->dtypes;
    return spec->dtypes;
}

/* ---- Attributes -------------------------------------------------------------------------- */

const char *const td_bounds_names[TD_BOUNDS_COUNT + 1] = {
    [TD_BOUNDS_ERROR] = "error",
    [TD_BOUNDS_ZERO] = "zero",
    [TD_BOUNDS_CLIP] = "clip",
    [TD_BOUNDS_WRAP] = "wrap",
};

const char *td_bounds_name(td_bounds bounds)
{
    return td_bounds_names[bounds];
}

/* GCC and Clang represent an enum without negative values as unsigned int. */
_Static_assert(sizeof(td_bounds) == sizeof(unsigned), "choices are stored as unsigned int");
_Static_assert(sizeof(td_dtype) == sizeof(unsigned), "dtypes are stored as unsigned int");

size_t td_attr_size(td_attr_kind kind)
{
    static const size_t sizes[TD_ATTR_KIND_COUNT] = {
        [TD_ATTR_INT] = sizeof(int64_t),       [TD_ATTR_INTS] = sizeof(struct td_ints),
        [TD_ATTR_FLOAT] = sizeof(double),      [TD_ATTR_BOOL] = sizeof(bool),
        [TD_ATTR_CHOICE] = sizeof(unsigned),   [TD_ATTR_DTYPE] = sizeof(td_dtype),
        [TD_ATTR_TEXT] = sizeof(const char *),
    };
    return sizes[kind];
}

int td_op_choice(const struct td_attr_spec *attr, const struct td_op_args *args)
{
    unsigned value;
    memcpy(&value, args->attrs + attr->offset, sizeof(value));
    return (int)value;
}

void td_op_set_choice(const struct td_attr_spec *attr, struct td_op_args *args, int choice)
{
    unsigned value = (unsigned)choice;
    memcpy(args->attrs + attr->offset, &value, sizeof(value));
}

void td_op_set_defaults(const struct td_op *op, struct td_op_args *args)
{
    args->op = op;
    memset(args->attrs, 0, sizeof(args->attrs)); /* sets texts and lists to NULL */
    args->attrs_set = 0;
    for (int i = 0; i < op->n_attrs; i++) {
        const struct td_attr_spec *attr = &op->attrs[i];
        unsigned char *place = args->attrs + attr->offset;
        switch (attr->kind) {
        case TD_ATTR_INT:
            memcpy(place, &attr->default_int, sizeof(attr->default_int));
            break;
        case TD_ATTR_FLOAT:
            memcpy(place, &attr->default_float, sizeof(attr->default_float));
            break;
        case TD_ATTR_BOOL:
            *place = attr->default_int != 0;
            break;
        case TD_ATTR_CHOICE:
        case TD_ATTR_DTYPE:
            td_op_set_choice(attr, args, (int)attr->default_int);
            break;
        case TD_ATTR_INTS:
        case TD_ATTR_TEXT:
        case TD_ATTR_KIND_COUNT:
            break;
        }
    }
}

const void *td_op_attr_bytes(const struct td_attr_spec *attr, const struct td_op_args *args,
                             size_t *size)
{
    const unsigned char *place = args->attrs + attr->offset;
    struct td_ints list;
    const char *text;
    switch (attr->kind) {
    case TD_ATTR_INTS:
        memcpy(&list, place, sizeof(list));
        *size = (size_t)list.count * sizeof(list.values[0]);
        return list.values;
    case TD_ATTR_TEXT:
        memcpy((void *)&text, place, sizeof(text));
        *size = text ? strlen(text) : 0;
        return text;
    default:
        *size = td_attr_size(attr->kind);
        return place;
    }
}

bool td_op_attr_copy(const struct td_attr_spec *attr, const struct td_op_args *from,
                     struct td_op_args *to, struct td_arena *arena, struct td_error *err)
{
    unsigned char *place = to->attrs + attr->offset;
    size_t size;
    const void *bytes = td_op_attr_bytes(attr, from, &size);
    memcpy(place, from->attrs + attr->offset, td_attr_size(attr->kind));
    if (!bytes || (attr->kind != TD_ATTR_INTS && attr->kind != TD_ATTR_TEXT))
        return true;
    char *copy = td_arena_alloc(arena, size + 1, 1, err); /* the extra byte is the NUL of a text */
    if (!copy)
        return false;
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    memcpy(place, &copy,
           /* The value of a text is the pointer, and a struct td_ints starts with the pointer. */
           sizeof(copy));
    return true;
}

_Static_assert(offsetof(struct td_ints, values) == 0, "td_op_attr_copy sets the first member");

/* ---- Checks ------------------------------------------------------------------------------ */

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
        td_error_hint(err, "pass integers as int64");
    else if (spec->role == TD_ROLE_INDEX && tensor->dtype != TD_DTYPE_STRING)
        td_error_hint(err, "pass them as int64");
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

/* Checks that all tensors of this role in inputs with one_dtype have the dtype of the first such
 * tensor. Inputs that do not accept that dtype are exempt. */
static td_status check_one_dtype(const struct td_op *op, const struct td_op_args *args,
                                 td_role role, struct td_error *err)
{
    const struct td_tensor *first = NULL;
    td_dtype_set accepted = 0;
    char first_name[TENSOR_NAME], name[TENSOR_NAME];
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_input_spec *spec = &op->inputs[i];
        if (!spec->one_dtype || spec->role != role || !td_input_is_used(spec, args))
            continue;
        for (int j = 0; j < args->inputs[i].count; j++) {
            const struct td_tensor *tensor = &args->inputs[i].tensors[j];
            if (!first) {
                first = tensor;
                accepted = spec->dtypes;
                tensor_name(spec, j, first_name);
            }
            if (tensor->dtype == first->dtype || !(spec->dtypes >> first->dtype & 1))
                continue;
            const td_status status = op->mixed_dtypes ? op->mixed_dtypes : TD_UNSUPPORTED_DTYPE;
            char advice[TD_DTYPE_ADVICE];
            const struct td_dtype_pair pair = {
                .first_name = first_name,
                .name = tensor_name(spec, j, name),
                .first = first->dtype,
                .dtype = tensor->dtype,
                .accepted = accepted & spec->dtypes,
                .role = role,
                .is_change = op->change != NULL && role == TD_ROLE_DATA,
            };
            td_error_set(err, status, "%s has dtype %s and %s %s; the dtypes must be equal%s", name,
                         td_dtype_info(tensor->dtype)->name, first_name,
                         td_dtype_info(first->dtype)->name, td_dtype_advise(&pair, advice));
            return td_error_at_input(err, status, "%s", name);
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

td_status td_op_outputs(struct td_op_args *args, int n, struct td_arena *arena,
                        struct td_error *err)
{
    args->outputs = td_arena_alloc(arena, (size_t)n, sizeof(args->outputs[0]), err);
    args->n_outputs = args->outputs ? n : 0;
    return args->outputs ? TD_OK : err->status;
}

td_status td_op_output(struct td_op_args *args, td_dtype dtype, const struct td_shape *shape,
                       struct td_arena *arena, struct td_error *err)
{
    const td_status status = td_op_outputs(args, 1, arena, err);
    return status == TD_OK ? td_tensor_describe(&args->outputs[0], "output", dtype, shape, err)
                           : status;
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
