#include "api/message/attrs.h"

#include "api/text/suggest.h"
#include "kernels/name.h"

#include <stdio.h>
#include <string.h>

/* Request-wide members, by their bit in td_options.set. */
enum option { OPTION_DEVICE, OPTION_RESPONSE, OPTION_TIMING, OPTION_STORE, OPTION_COUNT };

static const char *const option_names[OPTION_COUNT] = { "device", "response", "timing", "store" };

/* Indexed by enum value. */
const char *const td_device_names[] = { "auto", "cpu", "gpu", NULL };
const char *const td_layout_names[] = { "nested", "flat", "base64", NULL };
const char *const td_bool_names[] = { "0", "1", "false", "true", NULL };

int td_attrs_choose(const char *name, const char *const *choices, const char *text, size_t length,
                    struct td_error *err)
{
    const struct td_attr_value value = { .kind = TD_VALUE_TEXT,
                                         .text = text,
                                         .text_length = length };
    return td_attr_choose(name, choices, &value, err);
}

static td_status set_option(struct td_options *options, enum option option,
                            const struct td_attr_value *value, struct td_arena *arena,
                            struct td_error *err)
{
    int chosen = -1;
    switch (option) {
    case OPTION_DEVICE:
        chosen = td_attr_choose(option_names[option], td_device_names, value, err);
        if (chosen >= 0)
            options->device = (td_device_choice)chosen;
        break;
    case OPTION_RESPONSE:
        chosen = td_attr_choose(option_names[option], td_layout_names, value, err);
        if (chosen >= 0)
            options->layout = (td_layout)chosen;
        break;
    case OPTION_TIMING: {
        /* In JSON timing may also be 0, 1, true or false. */
        struct td_attr_value text = *value;
        const bool is_number =
            value->kind == TD_VALUE_INT && (value->integer == 0 || value->integer == 1);
        if (is_number || value->kind == TD_VALUE_BOOL)
            text = (struct td_attr_value){
                .kind = TD_VALUE_TEXT,
                .text = td_bool_names[is_number ? value->integer == 1 : value->boolean],
                .text_length = 1
            };
        chosen = td_attr_choose(option_names[option], td_bool_names, &text, err);
        if (chosen >= 0)
            options->timing = chosen % 2 == 1;
        break;
    }
    case OPTION_STORE:
        return td_attr_copy_text(option_names[option], value, arena, &options->store, err);
    case OPTION_COUNT:
        break;
    }
    return chosen < 0 ? TD_MALFORMED_REQUEST : TD_OK;
}

static const struct td_attr_spec *find_attr(const struct td_op *op, const char *name, size_t length,
                                            int *index)
{
    for (*index = 0; *index < op->n_attrs; ++*index)
        if (td_name_is(op->attrs[*index].name, name, length))
            return &op->attrs[*index];
    return NULL;
}

static int find_option(const char *name, size_t length)
{
    int i = 0;
    while (i < OPTION_COUNT && !td_name_is(option_names[i], name, length))
        i++;
    return i;
}

td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                       const struct td_attr_value *value, struct td_arena *arena, bool *known,
                       struct td_error *err)
{
    int index;
    const struct td_attr_spec *spec = find_attr(request->op, name, length, &index);
    int option = spec ? OPTION_COUNT : find_option(name, length);
    *known = spec || option < OPTION_COUNT;
    if (!*known)
        return TD_OK;
    uint32_t *set = spec ? &request->args.attrs_set : &request->options.set;
    uint32_t bit = UINT32_C(1) << (spec ? index : option);
    const char *own_name = spec ? spec->name : option_names[option];
    if (*set & bit) {
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is given twice", own_name);
        return td_error_at_attribute(err, TD_MALFORMED_REQUEST, own_name);
    }
    td_status status = spec ? td_attr_store(spec, value, &request->args, arena, err)
                            : set_option(&request->options, (enum option)option, value, arena, err);
    if (status == TD_OK)
        *set |= bit;
    return status;
}

td_status td_attrs_set_text(struct td_request *request, const char *name, size_t length,
                            const char *text, size_t text_length, struct td_arena *arena,
                            bool *known, struct td_error *err)
{
    struct td_attr_value value = { .kind = TD_VALUE_TEXT,
                                   .text = text,
                                   .text_length = text_length };
    int index;
    const struct td_attr_spec *spec = find_attr(request->op, name, length, &index);
    const td_status status =
        spec ? td_attr_of_text(spec, text, text_length, arena, &value, err) : TD_OK;
    return status != TD_OK ? status
                           : td_attrs_set(request, name, length, &value, arena, known, err);
}

td_status td_attrs_unknown(const struct td_op *op, const char *name, size_t length,
                           const char *where, struct td_error *err)
{
    enum { MAX_NAMES = TD_MAX_INPUTS + TD_MAX_ATTRS + OPTION_COUNT };
    const char *names[MAX_NAMES];
    int n = 0;
    for (int i = 0; i < op->n_inputs && n < MAX_NAMES; i++) {
        if (td_name_is(op->inputs[i].name, name, length)) {
            td_error_set(err, TD_MALFORMED_REQUEST,
                         "%s is an input of %s; it belongs in the body, not in a %s",
                         op->inputs[i].name, op->name, where);
            return td_error_at_attribute(err, TD_MALFORMED_REQUEST, op->inputs[i].name);
        }
        names[n++] = op->inputs[i].name;
    }
    for (int i = 0; i < op->n_attrs && n < MAX_NAMES; i++)
        names[n++] = op->attrs[i].name;
    for (int i = 0; i < OPTION_COUNT && n < MAX_NAMES; i++)
        names[n++] = option_names[i];

    const char *shown = TD_SHOWN(name, length);
    td_error_set(err, TD_MALFORMED_REQUEST, "%s has no %s \"%s\"", op->name, where, shown);
    td_suggest(err, name, length, names, n);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, shown);
}

void td_request_init(struct td_request *request, const struct td_op *op)
{
    memset(request, 0, sizeof *request);
    request->op = op;
    td_op_set_defaults(op, &request->args);
}

int td_table_keys_input(const struct td_request *request, const char *name, size_t length)
{
    return request->table_has_keys && td_name_is(TD_TABLE_KEYS, name, length)
               ? td_op_keys_input(request->op)
               : -1;
}

uint32_t td_inputs_set(const struct td_request *request)
{
    uint32_t set = 0;
    for (int i = 0; i < TD_MAX_INPUTS; i++)
        set |= (uint32_t)(request->args.inputs[i].count > 0) << i;
    return set;
}

td_status td_input_set_by_path(const struct td_input_spec *spec, struct td_error *err)
{
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "%s is given by the path; it may not be in the body as well", spec->name);
    return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", spec->name);
}
