#include "api/json/hints.h"

#include "kernels/dtype_advice.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>

/* ---- NaN and the infinities ------------------------------------------------------------------ */

bool td_json_is_nonfinite(const char *at, const char *end)
{
    static const char *const names[] = { "nan", "inf", "infinity" };
    const bool quoted = at < end && *at == '"';
    at += quoted;
    if (!quoted && td_name_begins("null", at, (size_t)(end - at)))
        return true;
    at += at < end && (*at == '-' || *at == '+');
    size_t length = 0;
    while (at + length < end && ((at[length] | 0x20) >= 'a' && (at[length] | 0x20) <= 'z'))
        length++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (td_name_is_caseless(names[i], at, length))
            return !quoted || (at + length < end && at[length] == '"');
    return false;
}

void td_json_hint_nonfinite(struct td_error *err, td_dtype dtype)
{
    td_error_hint(err,
                  "write NaN, Infinity and -Infinity as strings in a tensor with a dtype: "
                  "{\"dtype\":\"%s\",\"data\":[%s]}",
                  td_dtype_info(dtype)->name,
                  td_dtype_is_complex(dtype) ? "[\"NaN\",0]" : "\"NaN\"");
}

/* ---- typed arrays of JavaScript -------------------------------------------------------------- */

void td_json_hint_typed_array(struct td_error *err, const char *at, const char *end)
{
    static const char key[] = "\"0\"";
    if (at == end || *at != '{')
        return;
    at = td_json_skip_space(at + 1, end);
    if (td_name_begins(key, at, (size_t)(end - at)))
        td_error_hint(
            err, "JSON.stringify turns a typed array x into such an object; send Array.from(x)");
}

/* ---- complex numbers ------------------------------------------------------------------------- */

void td_json_hint_complex(struct td_error *err)
{
    td_error_hint(err, "in data, a complex number is [re, im]; this last dimension of size 2 is "
                       "not part of the shape");
}

/* True if the client might have caused the error by counting the pair [re, im] as a dimension of a
 * complex tensor. */
static bool is_about_shape(const struct td_tensor *tensor, const struct td_error *err)
{
    return err->status == TD_SHAPE_MISMATCH || err->status == TD_INVALID_AXIS ||
           (err->status == TD_INVALID_ARGUMENT && tensor->shape.rank == 0);
}

/* ---- the dtype of another tensor ------------------------------------------------------------- */

/* True if the message says that a number is not an element of this integer dtype. Errors about keys
 * and indices have a different message, because keys and indices cannot have fractions. */
static bool is_fraction_for(const char *message, td_dtype dtype)
{
    const char *name = td_dtype_info(dtype)->name;
    const bool is_number = message[0] == '-' || (message[0] >= '0' && message[0] <= '9');
    char says[32];
    snprintf(says, sizeof says, " is not %s %s", name[0] == 'i' ? "an" : "a", name);
    return (name[0] == 'i' || name[0] == 'u') && is_number && strstr(message, says);
}

void td_json_hint_dtype(struct td_error *err, const char *of, td_dtype dtype, td_json_other other)
{
    if (err->status != TD_MALFORMED_REQUEST || !err->has_pointer)
        return;
    const bool is_fraction = other != TD_JSON_OTHER_KEYS && is_fraction_for(err->message, dtype);
    const bool resident = other == TD_JSON_OTHER_RESIDENT;
    td_error_hint(err, "expected dtype %s, as in %s", td_dtype_info(dtype)->name, of);
    if (!is_fraction)
        return;
    const bool is_change = strcmp(of, TD_THE_TABLE) == 0;
    const struct td_dtype_pair pair = { .first_name = of,
                                        .name = "numbers",
                                        .first = dtype,
                                        .dtype = TD_DTYPE_FLOAT64,
                                        .accepted = TD_DTYPES_ALL,
                                        .role = TD_ROLE_DATA,
                                        .is_change = is_change };
    char advice[TD_DTYPE_ADVICE];
    if (dtype == TD_DTYPE_INT32 && (resident || is_change))
        td_error_hint(err, "without a dtype, numbers without a fraction are int32");
    if (resident || is_change || dtype == TD_DTYPE_INT8 || dtype == TD_DTYPE_UINT8)
        td_error_hint(err, "%s", td_dtype_advise(&pair, advice) + strlen(": "));
    else
        td_error_hint(err, "to use fractions, give %s as {\"dtype\": \"float64\", \"data\": [...]}",
                      of);
}

/* ---- resident tensors and keys --------------------------------------------------------------- */

static void hint_ref(struct td_error *err, const char *name, size_t length)
{
    td_error_hint(err, "refer to a resident tensor as {\"ref\": \"%s\"}", TD_SHOWN(name, length));
}

void td_json_hint_string(const struct td_json_scan *scan, const struct td_json_source *source)
{
    struct td_json_scan at = *scan;
    const char *name = "";
    size_t length = 0;
    if (td_json_peek(&at) == '"' &&
        td_json_string(&at, source->arena, &name, &length, TD_IGNORED) == TD_OK)
        hint_ref(source->err, name, length);
}

/* Returns the first optional input for row numbers, or NULL if there is none or it is given. */
static const struct td_input_spec *missing_rows(const struct td_request *request)
{
    for (int i = 0; i < request->op->n_inputs; i++) {
        const struct td_input_spec *spec = &request->op->inputs[i];
        if (spec->optional && td_input_is_row_numbers(spec))
            return request->args.inputs[i].count == 0 ? spec : NULL;
    }
    return NULL;
}

static void hint_strings(const struct td_request *request, const struct td_input_spec *spec,
                         bool is_first, const struct td_tensor *tensor, struct td_error *err)
{
    const struct td_input_spec *rows = missing_rows(request);
    const char *text = (const char *)tensor->data + tensor->offsets[0];
    const size_t length = (size_t)(tensor->offsets[1] - tensor->offsets[0]);
    if (td_input_is_row_numbers(spec))
        td_error_hint(err, "refer to rows by their keys as {\"keys\": [\"%s\"]}",
                      TD_SHOWN(text, length));
    else if (tensor->shape.rank == 0 && (is_first || spec->role == TD_ROLE_DATA))
        hint_ref(err, text, length);
    else if (td_json_is_nonfinite(text, text + length))
        td_json_hint_nonfinite(err, TD_DTYPE_FLOAT32);
    else if (!is_first && rows && spec->role == TD_ROLE_DATA)
        td_error_hint(err, "to refer to rows by their keys, give %s as {\"keys\": [\"%s\"]}",
                      rows->name, TD_SHOWN(text, length));
}

/* True if this input might have caused the error: the error names the input, or it is the first
 * input, on which all others depend. */
static bool may_concern(const struct td_input_spec *spec, int i, const struct td_error *err)
{
    return i == 0 || td_name_is(spec->name, err->input, strcspn(err->input, "["));
}

void td_json_hint_inputs(const struct td_request *request, struct td_error *err)
{
    for (int i = 0; i < request->op->n_inputs; i++) {
        const struct td_input_spec *spec = &request->op->inputs[i];
        const struct td_operand *operand = &request->args.inputs[i];
        for (int j = 0; j < operand->count && may_concern(spec, i, err); j++) {
            const struct td_tensor *tensor = &operand->tensors[j];
            if (tensor->dtype == TD_DTYPE_STRING && !tensor->owner && tensor->offsets &&
                tensor->numel > 0) {
                hint_strings(request, spec, i == 0, tensor, err);
                return;
            }
            if (td_dtype_is_complex(tensor->dtype) && !tensor->owner &&
                !request->has_complex_base64 && is_about_shape(tensor, err)) {
                td_json_hint_complex(err);
                return;
            }
        }
    }
}
