#include "api/message/unknown_member.h"

#include "api/message/common_members.h"
#include "api/message/table_keys.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <string.h>

/* True if the op has the input and the path does not name it. */
static bool lacks_input(const struct td_request *request, const char *name)
{
    for (int i = 0; i < request->op->n_inputs; i++)
        if (strcmp(request->op->inputs[i].name, name) == 0)
            return request->args.inputs[i].count == 0;
    return false;
}

enum { MAX_NAMES = TD_MAX_INPUTS + TD_MAX_ATTRS + TD_COMMON_MEMBER_COUNT + 8 };

/* True if `name` is the name of the input, or INPUT.ref or INPUT.0.ref as in the metadata of
 * safetensors. */
static bool is_of_input(const char *input, const char *name, size_t length)
{
    const size_t own = strlen(input);
    return td_name_is(input, name, length) ||
           (length > own && td_name_begins(input, name, length) && name[own] == '.' &&
            td_name_ends(".ref", name, length));
}

/* Reports an error for the name of an input where inputs are not allowed. */
static td_status refuse_place(const struct td_op *op, const struct td_input_spec *spec,
                              const char *where, struct td_error *err)
{
    const char *first = spec->list ? ".0" : "";
    const bool is_member = strcmp(where, TD_MEMBER) == 0;
    td_error_set(err, TD_MALFORMED_REQUEST, "%s is an input of %s%s%s", spec->name, op->name,
                 is_member ? "" : "; it belongs in the body, not in a ", is_member ? "" : where);
    if (strcmp(where, TD_METADATA) == 0)
        td_error_hint(err, "the entry \"%s%s.ref\" names a resident tensor", spec->name, first);
    else
        td_error_hint(err,
                      "to use a resident tensor, give \"%s\": %s{\"ref\": \"NAME\"}%s in JSON, or "
                      "the metadata entry \"%s%s.ref\" in safetensors",
                      spec->name, spec->list ? "[" : "", spec->list ? "]" : "", spec->name, first);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, spec->name);
}

/* Lists the known names for an error about an unknown name. Lists inputs only if they are members
 * of the body. */
static const char *list_names(const struct td_request *request, const char *const *names, int n,
                              bool inputs, char *text, size_t size)
{
    const char *listed[MAX_NAMES];
    int count = 0;
    for (int i = 0; i < n; i++)
        if (i >= request->op->n_inputs || (inputs && request->args.inputs[i].count == 0))
            listed[count++] = names[i];
    return td_names_text(listed, count, text, size);
}

td_status td_unknown_member(const struct td_request *request, const char *name, size_t length,
                            const char *where, struct td_error *err)
{
    const struct td_op *op = request->op;
    const bool inputs = strcmp(where, TD_MEMBER) == 0;
    const char *names[MAX_NAMES];
    char listed[352];
    int n = 0;
    for (int i = 0; i < op->n_inputs && n < MAX_NAMES; i++) {
        if (is_of_input(op->inputs[i].name, name, length))
            return refuse_place(op, &op->inputs[i], where, err);
        names[n++] = op->inputs[i].name;
    }
    const int keys = td_table_keys_input(request, TD_TABLE_KEYS, strlen(TD_TABLE_KEYS));
    if (inputs && keys >= 0 && !lacks_input(request, TD_TABLE_KEYS))
        names[n++] = TD_TABLE_KEYS;
    for (int i = 0; inputs && request->other_members && request->other_members[i]; i++)
        if (n < MAX_NAMES)
            names[n++] = request->other_members[i];
    for (int i = 0; i < op->n_attrs && n < MAX_NAMES; i++)
        names[n++] = op->attrs[i].name;
    for (int i = 0; !request->is_step && i < TD_COMMON_MEMBER_COUNT && n < MAX_NAMES; i++)
        if (td_common_member_allowed((enum td_common_member)i, td_request_n_choices(request)))
            names[n++] = td_common_member_names[i];
    if (request->is_change && td_name_is(TD_PERSIST, name, length)) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     TD_PERSIST " belongs in the query string, ?" TD_PERSIST "=1, not in a %s",
                     where);
        return td_error_at_attribute(err, TD_MALFORMED_REQUEST, TD_PERSIST);
    }
    if (request->is_change && !inputs)
        names[n++] = TD_PERSIST;

    const char *shown = TD_SHOWN(name, length);
    td_error_set(err, TD_MALFORMED_REQUEST, "%s has no %s \"%s\"; expected %s%s", op->name, where,
                 shown, list_names(request, names, n, inputs, listed, sizeof listed),
                 strcmp(where, TD_METADATA) == 0 ? ", <input>.ref" : "");
    td_suggest(err, name, length, names, n);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, shown);
}
