#include "api/message/attrs.h"

#include "api/text/suggest.h"
#include "kernels/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Request-wide members, by their bit in td_options.set. */
enum wide { WIDE_DEVICE, WIDE_RESPONSE, WIDE_TIMING, WIDE_STORE, WIDE_COUNT };

static const char *const wide_names[WIDE_COUNT] = { "device", "response", "timing", "store" };

/* Their values, by enum value. */
const char *const td_device_names[] = { "auto", "cpu", "gpu", NULL };
const char *const td_layout_names[] = { "nested", "flat", "base64", NULL };
const char *const td_truth_names[] = { "0", "1", "false", "true", NULL };

td_status td_attrs_refuse(struct td_error *err, const char *name, const char *expected,
                          const struct td_attr_value *value)
{
    if (value->kind == TD_VALUE_INT)
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is %" PRId64 "; expected %s", name,
                     value->integer, expected);
    else if (value->kind == TD_VALUE_TEXT)
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is \"%s\"; expected %s", name,
                     TD_SHOWN(value->text, value->text_length), expected);
    else
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is %s; expected %s", name,
                     TD_SHOWN(value->text, value->text_length), expected);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, name);
}

/* One of a list of names, or -1 with err filled. */
static int choose(const char *name, const char *const *choices, const struct td_attr_value *value,
                  struct td_error *err)
{
    int n = 0;
    for (; choices[n]; n++)
        if (value->kind == TD_VALUE_TEXT && td_name_is(choices[n], value->text, value->text_length))
            return n;
    char expected[128];
    size_t used = 0;
    for (int i = 0; i < n && used < sizeof expected; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s\"%s\"",
                                 i == 0       ? ""
                                 : i == n - 1 ? " or "
                                              : ", ",
                                 choices[i]);
    td_attrs_refuse(err, name, expected, value);
    if (value->kind == TD_VALUE_TEXT)
        td_suggest(err, value->text, value->text_length, choices, n);
    return -1;
}

int td_attrs_choose(const char *name, const char *const *choices, const char *text, size_t length,
                    struct td_error *err)
{
    const struct td_attr_value value = { .kind = TD_VALUE_TEXT,
                                         .text = text,
                                         .text_length = length };
    return choose(name, choices, &value, err);
}

/* A string as a NUL-terminated copy in the arena. */
static td_status copy_text(const char *name, const struct td_attr_value *value,
                           struct td_arena *arena, const char **out, struct td_error *err)
{
    if (value->kind != TD_VALUE_TEXT)
        return td_attrs_refuse(err, name, "a string", value);
    if (memchr(value->text, '\0', value->text_length))
        return td_attrs_refuse(err, name, "a string without NUL characters", value);
    *out = td_arena_text(arena, value->text, value->text_length, err);
    return *out ? TD_OK : err->status;
}

static td_status set_attr(struct td_op_args *args, const struct td_attr_spec *spec,
                          const struct td_attr_value *value, struct td_arena *arena,
                          struct td_error *err)
{
    unsigned char *field = args->attrs + spec->offset;
    switch (spec->kind) {
    case TD_ATTR_INT:
        if (value->kind != TD_VALUE_INT)
            return td_attrs_refuse(err, spec->name, "a 64-bit integer", value);
        memcpy(field, &value->integer, sizeof value->integer);
        return TD_OK;
    case TD_ATTR_CHOICE: {
        int chosen = choose(spec->name, spec->choices, value, err);
        if (chosen < 0)
            return TD_MALFORMED_REQUEST;
        td_op_choose(spec, args, chosen);
        return TD_OK;
    }
    case TD_ATTR_TEXT: {
        const char *copy = NULL;
        td_status status = copy_text(spec->name, value, arena, &copy, err);
        if (status == TD_OK)
            memcpy(field, &copy, sizeof copy);
        return status;
    }
    }
    return TD_OK;
}

static td_status set_wide(struct td_options *options, enum wide wide,
                          const struct td_attr_value *value, struct td_arena *arena,
                          struct td_error *err)
{
    int chosen = -1;
    switch (wide) {
    case WIDE_DEVICE:
        chosen = choose(wide_names[wide], td_device_names, value, err);
        if (chosen >= 0)
            options->device = (td_device_choice)chosen;
        break;
    case WIDE_RESPONSE:
        chosen = choose(wide_names[wide], td_layout_names, value, err);
        if (chosen >= 0)
            options->layout = (td_layout)chosen;
        break;
    case WIDE_TIMING: {
        /* As JSON it may also be a number or a truth value, which say the same. */
        struct td_attr_value text = *value;
        if (value->kind == TD_VALUE_INT && (value->integer == 0 || value->integer == 1))
            text = (struct td_attr_value){ .kind = TD_VALUE_TEXT,
                                           .text = td_truth_names[value->integer],
                                           .text_length = 1 };
        else if (value->kind == TD_VALUE_OTHER &&
                 (td_name_is("true", value->text, value->text_length) ||
                  td_name_is("false", value->text, value->text_length)))
            text.kind = TD_VALUE_TEXT;
        chosen = choose(wide_names[wide], td_truth_names, &text, err);
        if (chosen >= 0)
            options->timing = chosen % 2 == 1;
        break;
    }
    case WIDE_STORE:
        return copy_text(wide_names[wide], value, arena, &options->store, err);
    case WIDE_COUNT:
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

static int find_wide(const char *name, size_t length)
{
    int i = 0;
    while (i < WIDE_COUNT && !td_name_is(wide_names[i], name, length))
        i++;
    return i;
}

td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                       const struct td_attr_value *value, struct td_arena *arena, bool *known,
                       struct td_error *err)
{
    int index;
    const struct td_attr_spec *spec = find_attr(request->op, name, length, &index);
    int wide = spec ? WIDE_COUNT : find_wide(name, length);
    *known = spec || wide < WIDE_COUNT;
    if (!*known)
        return TD_OK;
    uint32_t *set = spec ? &request->args.attrs_set : &request->options.set;
    uint32_t bit = UINT32_C(1) << (spec ? index : wide);
    const char *own_name = spec ? spec->name : wide_names[wide];
    if (*set & bit) {
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is given twice", own_name);
        return td_error_at_attribute(err, TD_MALFORMED_REQUEST, own_name);
    }
    td_status status = spec ? set_attr(&request->args, spec, value, arena, err)
                            : set_wide(&request->options, (enum wide)wide, value, arena, err);
    if (status == TD_OK)
        *set |= bit;
    return status;
}

/* Decimal digits with an optional sign, all of the text. */
static bool parse_int64(const char *text, size_t length, int64_t *out)
{
    const char *at = text, *end = text + length;
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return false;
    int64_t value = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        int digit = negative ? '0' - *at : *at - '0';
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)digit, &value))
            return false;
    }
    *out = value;
    return true;
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
    if (spec && spec->kind == TD_ATTR_INT && parse_int64(text, text_length, &value.integer))
        value.kind = TD_VALUE_INT;
    return td_attrs_set(request, name, length, &value, arena, known, err);
}

td_status td_attrs_unknown(const struct td_op *op, const char *name, size_t length,
                           const char *where, struct td_error *err)
{
    enum { MAX_NAMES = TD_MAX_INPUTS + 32 + WIDE_COUNT };
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
    for (int i = 0; i < WIDE_COUNT && n < MAX_NAMES; i++)
        names[n++] = wide_names[i];

    const char *shown = TD_SHOWN(name, length);
    td_error_set(err, TD_MALFORMED_REQUEST, "%s does not know the %s \"%s\"", op->name, where,
                 shown);
    td_suggest(err, name, length, names, n);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, shown);
}

void td_request_init(struct td_request *request, const struct td_op *op)
{
    memset(request, 0, sizeof *request);
    request->op = op;
    td_op_defaults(op, &request->args);
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
                 "%s is given by the path; it may not stand in the body as well", spec->name);
    return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", spec->name);
}
