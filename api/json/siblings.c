#include "api/json/siblings.h"

#include "api/json/hints.h"
#include "api/json/values.h"
#include "api/message/table_keys.h"
#include "kernels/key_dtype.h"

#include <string.h>

struct td_json_sibling {
    int input, index;
    struct td_json_skipped value;
};

#define KEYS_OF_TABLE "the keys of the table"

/* Returns the dtype that a typed tensor gives its siblings. For 32-bit keys, this is the 64-bit
 * dtype, because keys are widened before they are compared. */
static struct td_json_sibling_dtype
dtype_for_others(const struct td_input_spec *spec, const struct td_tensor *tensor, const char *name)
{
    const td_dtype dtype =
        spec->role == TD_ROLE_KEY ? td_key_widened(tensor->dtype, TD_DTYPE_INT64) : tensor->dtype;
    return (struct td_json_sibling_dtype){ true, tensor->owner != NULL, dtype, name };
}

void td_json_siblings_begin(struct td_json_siblings *siblings, const struct td_request *request)
{
    memset(siblings, 0, sizeof *siblings);
    for (int i = 0; i < request->op->n_inputs; i++) {
        const struct td_input_spec *spec = &request->op->inputs[i];
        const struct td_operand *given = &request->args.inputs[i];
        struct td_json_sibling_dtype *of = &siblings->of[spec->role];
        if (of->known || !spec->one_dtype || !given->tensors)
            continue;
        *of = dtype_for_others(spec, &given->tensors[0],
                               spec->role == TD_ROLE_KEY ? KEYS_OF_TABLE : TD_THE_TABLE);
        of->resident = false; /* a change to a table cannot use a converted copy */
    }
}

static td_json_other other_of(const struct td_input_spec *spec,
                              const struct td_json_sibling_dtype *of)
{
    return spec->role == TD_ROLE_KEY ? TD_JSON_OTHER_KEYS
           : of->resident            ? TD_JSON_OTHER_RESIDENT
                                     : TD_JSON_OTHER_INPUT;
}

/* True if the input accepts the common dtype. An input that does not accept it gets its own
 * dtype. */
static bool accepts(const struct td_input_spec *spec, const struct td_json_sibling_dtype *of)
{
    return of->known && (spec->dtypes >> of->dtype & 1);
}

/* Skips a value and remembers its position. */
static td_status skip_untyped(struct td_json_siblings *siblings, struct td_json_source *source,
                              int input, int index)
{
    struct td_json_scan *scan = &source->scan;
    if (siblings->count == siblings->capacity) {
        const int capacity = siblings->capacity ? 2 * siblings->capacity : 8;
        struct td_json_sibling *larger =
            td_arena_alloc(source->arena, (size_t)capacity, sizeof *larger, source->err);
        if (!larger)
            return source->err->status;
        if (siblings->count)
            memcpy(larger, siblings->untyped, (size_t)siblings->count * sizeof *larger);
        siblings->untyped = larger;
        siblings->capacity = capacity;
    }
    if (!td_json_kind(td_json_peek(scan))) {
        td_json_syntax(scan, scan->at, source->err, "expected a value");
        if (td_json_is_nonfinite(scan->at, scan->end))
            td_json_hint_nonfinite(source->err, TD_DTYPE_FLOAT32);
        return TD_MALFORMED_REQUEST;
    }
    struct td_json_sibling *sibling = &siblings->untyped[siblings->count++];
    *sibling = (struct td_json_sibling){ .input = input, .index = index };
    return td_json_skip_unread(scan, &sibling->value, source->err);
}

td_status td_json_siblings_read(struct td_json_siblings *siblings, struct td_json_source *source,
                                const struct td_request *request, int input, int index,
                                const struct td_json_path *path, struct td_tensor *out)
{
    const struct td_input_spec *spec = &request->op->inputs[input];
    struct td_json_sibling_dtype *of = &siblings->of[spec->role];
    const bool typed = td_json_peek(&source->scan) == '{';
    if (!typed && !of->known) {
        /* use_keys_of_table can look at the tensor before it is read. */
        *out = (struct td_tensor){ .keys = NULL };
        return skip_untyped(siblings, source, input, index);
    }
    const bool as_other = accepts(spec, of);
    struct td_untyped untyped = td_json_untyped(spec);
    /* Errors do not suggest another dtype, because the siblings might have this dtype too. */
    untyped.others = 0;
    const td_status status =
        td_json_tensor(source, as_other ? &of->dtype : NULL, untyped, path, out);
    /* Only the end of the body shows whether an optional input is used. If a matrix is given
     * instead of the keys of its rows, the matrix is the error, so its dtype is not used for other
     * inputs. */
    const bool is_matrix = td_input_is_row_keys(spec) && out->shape.rank != 1;
    if (status == TD_OK && !of->known && !spec->is_used && !is_matrix)
        *of = dtype_for_others(spec, out, spec->name);
    if (status != TD_OK && !typed && as_other)
        td_json_hint_dtype(source->err, of->name, of->dtype, other_of(spec, of));
    return status;
}

/* Reads a skipped value with dtype *as, or infers the dtype if `as` is NULL. In errors, of->name is
 * the tensor that has this dtype. */
static td_status read_skipped(struct td_json_source *source, struct td_request *request,
                              const struct td_json_sibling *sibling, const td_dtype *as,
                              const struct td_json_sibling_dtype *of)
{
    const struct td_input_spec *spec = &request->op->inputs[sibling->input];
    const bool called_keys =
        request->called_keys && sibling->input == td_op_keys_input(request->op);
    const char *name = called_keys ? TD_TABLE_KEYS : spec->name;
    const struct td_json_path path = td_json_member(NULL, name, strlen(name));
    const struct td_json_path step = { .up = &path, .index = sibling->index };
    struct td_json_skipped value = sibling->value;
    struct td_untyped untyped = td_json_untyped(spec);
    if (of->known)
        untyped.others = 0;
    source->scan = value.scan;
    td_status status =
        td_json_tensor(source, as, untyped, spec->list ? &step : &path,
                       &request->args.inputs[sibling->input].tensors[sibling->index]);
    value.scan = source->scan;
    if (status == TD_OK)
        status = td_json_skipped_end(&value, source->err);
    if (status == TD_OK)
        return TD_OK;
    if (as)
        td_json_hint_dtype(source->err, of->name, *as, other_of(spec, of));
    return spec->list ? td_error_at_input(source->err, status, "%s[%d]", spec->name, sibling->index)
                      : td_error_at_input(source->err, status, "%s", spec->name);
}

static const struct td_tensor *tensor_of(const struct td_request *request,
                                         const struct td_json_sibling *sibling)
{
    return &request->args.inputs[sibling->input].tensors[sibling->index];
}

/* Returns the rank of an inferred numeric dtype in the order of widening, or 0 for other dtypes. */
static int promotion_rank(td_dtype dtype)
{
    switch (dtype) {
    case TD_DTYPE_INT32:
        return 1;
    case TD_DTYPE_INT64:
        return 2;
    case TD_DTYPE_UINT64:
        return 3;
    case TD_DTYPE_FLOAT32:
        return 4;
    default:
        return 0;
    }
}

static td_role role_of(const struct td_request *request, const struct td_json_sibling *sibling)
{
    return request->op->inputs[sibling->input].role;
}

/* True if other tensors can get the dtype of this tensor: its input is used and accepts the dtype.
 * If the input does not accept the dtype, the error names only this tensor. */
static bool is_accepted(const struct td_request *request, const struct td_json_sibling *sibling)
{
    const struct td_input_spec *spec = &request->op->inputs[sibling->input];
    return td_input_is_used(spec, &request->args) &&
           spec->dtypes >> tensor_of(request, sibling)->dtype & 1;
}

/* Finds the dtype that a single list of all elements of this role would have, ignoring empty
 * tensors. Returns false if there are no elements, or if numbers are mixed with strings or
 * booleans. */
static bool common_dtype(const struct td_json_siblings *siblings, const struct td_request *request,
                         td_role role, td_dtype *out)
{
    bool any = false;
    for (int i = 0; i < siblings->count; i++) {
        const struct td_tensor *tensor = tensor_of(request, &siblings->untyped[i]);
        if (tensor->numel == 0 || role_of(request, &siblings->untyped[i]) != role ||
            !is_accepted(request, &siblings->untyped[i]))
            continue;
        if (any && tensor->dtype != *out &&
            (!promotion_rank(tensor->dtype) || !promotion_rank(*out)))
            return false;
        if (!any || promotion_rank(tensor->dtype) > promotion_rank(*out))
            *out = tensor->dtype;
        any = true;
    }
    return any;
}

/* Reads the skipped values of a role. The values might have to be read to determine the common
 * dtype. Values that then turn out to have another dtype are read again. */
static td_status read_role(struct td_json_siblings *siblings, struct td_json_source *source,
                           struct td_request *request, td_role role)
{
    const struct td_json_sibling_dtype *of = &siblings->of[role];
    td_dtype dtype = of->dtype;
    td_status status = TD_OK;
    for (int i = 0; i < siblings->count && status == TD_OK; i++) {
        const struct td_json_sibling *sibling = &siblings->untyped[i];
        if (role_of(request, sibling) == role)
            status =
                read_skipped(source, request, sibling,
                             accepts(&request->op->inputs[sibling->input], of) ? &dtype : NULL, of);
    }
    if (status != TD_OK || of->known || !common_dtype(siblings, request, role, &dtype))
        return status;
    for (int i = 0; i < siblings->count && status == TD_OK; i++)
        if (role_of(request, &siblings->untyped[i]) == role &&
            is_accepted(request, &siblings->untyped[i]) &&
            tensor_of(request, &siblings->untyped[i])->dtype != dtype)
            status = read_skipped(source, request, &siblings->untyped[i], &dtype,
                                  &(struct td_json_sibling_dtype){ .name = "the other values" });
    return status;
}

/* Gives the other keys the dtype of the table's keys if the request omits the keys of the rows,
 * because the table's keys then replace them. */
static void use_keys_of_table(struct td_json_siblings *siblings, const struct td_request *request)
{
    const struct td_tensor *table = request->args.inputs[0].tensors;
    for (int i = 1; table && table->keys && i < request->op->n_inputs; i++) {
        const struct td_input_spec *spec = &request->op->inputs[i];
        struct td_json_sibling_dtype *of = &siblings->of[spec->role];
        if (td_input_is_row_keys(spec) && !request->args.inputs[i].tensors && !of->known)
            *of = (struct td_json_sibling_dtype){ .known = true,
                                                  .dtype = table->keys->dtype,
                                                  .name = KEYS_OF_TABLE };
    }
}

/* Applies the dtypes of typed inputs that are used only with some attributes. Called after all
 * attributes have been read. */
static void use_optional_inputs(struct td_json_siblings *siblings, const struct td_request *request)
{
    for (int i = 0; i < request->op->n_inputs; i++) {
        const struct td_input_spec *spec = &request->op->inputs[i];
        const struct td_tensor *given = request->args.inputs[i].tensors;
        bool untyped = false;
        for (int j = 0; j < siblings->count; j++)
            untyped |= siblings->untyped[j].input == i;
        if (spec->is_used && given && !untyped && !siblings->of[spec->role].known &&
            td_input_is_used(spec, &request->args))
            siblings->of[spec->role] = dtype_for_others(spec, given, spec->name);
    }
}

td_status td_json_siblings_end(struct td_json_siblings *siblings, struct td_json_source *source,
                               struct td_request *request)
{
    const struct td_json_scan scan = source->scan;
    td_status status = TD_OK;
    use_keys_of_table(siblings, request);
    use_optional_inputs(siblings, request);
    for (int role = 0; siblings->count && role < TD_ROLE_COUNT && status == TD_OK; role++)
        status = read_role(siblings, source, request, (td_role)role);
    source->scan = scan;
    return status;
}
