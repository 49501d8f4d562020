#include "kernels/op.h"

#include "kernels/op_change.h"
#include "kernels/op_rows.h"

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
const struct td_op *const td_nearest_rows_op = &td_op_search;
const struct td_op *const td_converter_op = &td_op_cast;
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

const char *td_op_table_part(int i)
{
    /* The names of all inputs with a companion. A constant list, because paths of tables are
     * compared with it in every lookup; a unit test compares the list with the descriptors. */
    static const char *const parts[] = { "scale", "offset", "zero_point" };
    return i < (int)(sizeof parts / sizeof *parts) ? parts[i] : NULL;
}

td_output_form td_op_output_form(const struct td_op *op)
{
    if (op->n_outputs > 1 || op->named_outputs)
        return TD_OUTPUT_NAMED;
    return op->outputs[0].list ? TD_OUTPUT_LIST : TD_OUTPUT_ONE;
}

bool td_op_takes_table(const struct td_op *op)
{
    return op->inputs[0].part != TD_ROW_PART_NONE;
}

int td_op_keys_input(const struct td_op *op)
{
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_input_spec *spec = &op->inputs[i];
        if (spec->or_keys ||
            (op->rows && spec->part == TD_ROW_PART_QUERY && spec->role == TD_ROLE_KEY))
            return i;
    }
    return -1;
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

td_bounds td_op_bounds(const struct td_op *op, const struct td_op_args *args)
{
    td_bounds bounds = TD_BOUNDS_ERROR;
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].choices == td_bounds_names)
            memcpy(&bounds, args->attrs + op->attrs[i].offset, sizeof(bounds));
    return bounds;
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
