#include "api/message/attrs.h"

#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>

/* Request-wide members, numbered by their bit in td_options.set. */
enum option {
    OPTION_DEVICE,
    OPTION_RESPONSE,
    OPTION_TIMING,
    OPTION_STORE,
    OPTION_STORE_TTL,
    OPTION_COUNT
};

static const char *const option_names[OPTION_COUNT] = { "device", "response", "timing", "store",
                                                        "store.ttl_s" };

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

static td_status set_ttl(const struct td_attr_value *value, struct td_arena *arena, int64_t *out,
                         struct td_error *err)
{
    static const struct td_attr_spec spec = { .name = "store.ttl_s", .kind = TD_ATTR_INT };
    struct td_attr_value seconds = *value;
    const td_status status =
        value->kind == TD_VALUE_TEXT
            ? td_attr_of_text(&spec, value->text, value->text_length, arena, &seconds, err)
            : TD_OK;
    if (status != TD_OK)
        return status;
    if (seconds.kind != TD_VALUE_INT || seconds.integer < 1 || seconds.integer > TD_STORE_TTL_MAX)
        return td_attrs_refuse(err, spec.name, "an integer from 1 to 31536000, in seconds", value);
    *out = seconds.integer;
    return TD_OK;
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
        /* In JSON, timing can also be 0, 1, true or false. */
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
    case OPTION_STORE_TTL:
        return set_ttl(value, arena, &options->store_ttl_s, err);
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

static bool has_option(const struct td_request *request, enum option option)
{
    return !request->has_no_output || option == OPTION_DEVICE || option == OPTION_TIMING;
}

static int find_option(const struct td_request *request, const char *name, size_t length)
{
    int i = 0;
    while (i < OPTION_COUNT &&
           !(has_option(request, (enum option)i) && td_name_is(option_names[i], name, length)))
        i++;
    return i;
}

static bool same_options(const struct td_options *a, const struct td_options *b)
{
    return a->device == b->device && a->layout == b->layout && a->timing == b->timing &&
           a->store_ttl_s == b->store_ttl_s &&
           (a->store == b->store || (a->store && b->store && strcmp(a->store, b->store) == 0));
}

static bool same_attr(const struct td_attr_spec *spec, const struct td_op_args *a,
                      const struct td_op_args *b)
{
    size_t a_size = 0, b_size = 0;
    const void *a_bytes = td_op_attr_bytes(spec, a, &a_size);
    const void *b_bytes = td_op_attr_bytes(spec, b, &b_size);
    return a_size == b_size && (a_size == 0 || memcmp(a_bytes, b_bytes, a_size) == 0);
}

/* The attribute or request-wide option to which a name in a request refers. */
struct place {
    const struct td_attr_spec *spec; /* NULL for an option */
    enum option option;
    const char *name;
    uint32_t bit; /* bit of the name in `set` and `by_query` */
    /* Sets of the request that the bit belongs to. NULL if the name is unknown. */
    uint32_t *set, *by_query;
};

static struct place find_place(struct td_request *request, const char *name, size_t length)
{
    int index;
    const struct td_attr_spec *spec = find_attr(request->op, name, length, &index);
    if (spec)
        return (struct place){ .spec = spec,
                               .name = spec->name,
                               .bit = UINT32_C(1) << index,
                               .set = &request->args.attrs_set,
                               .by_query = &request->by_query.attrs };
    const int option = find_option(request, name, length);
    if (option == OPTION_COUNT)
        return (struct place){ .set = NULL };
    return (struct place){ .option = (enum option)option,
                           .name = option_names[option],
                           .bit = UINT32_C(1) << option,
                           .set = &request->options.set,
                           .by_query = &request->by_query.options };
}

static td_status set_place(const struct place *place, const struct td_attr_value *value,
                           struct td_op_args *args, struct td_options *options,
                           struct td_arena *arena, struct td_error *err)
{
    return place->spec ? td_attr_store(place->spec, value, args, arena, err)
                       : set_option(options, place->option, value, arena, err);
}

/* Checks that the values in the body and in the query string are equal. */
static td_status check_repeated(const struct place *place, const struct td_attr_value *value,
                                struct td_request *request, struct td_arena *arena,
                                struct td_error *err)
{
    struct td_op_args args = request->args;
    struct td_options options = request->options;
    const td_status status = set_place(place, value, &args, &options, arena, err);
    *place->by_query &= ~place->bit;
    if (status != TD_OK || (place->spec ? same_attr(place->spec, &args, &request->args)
                                        : same_options(&options, &request->options)))
        return status;
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "%s has different values in the query string and in the body", place->name);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, place->name);
}

td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                       const struct td_attr_value *value, struct td_arena *arena, bool *known,
                       struct td_error *err)
{
    const struct place place = find_place(request, name, length);
    *known = place.set != NULL;
    if (!*known)
        return TD_OK;
    if (*place.by_query & place.bit)
        return check_repeated(&place, value, request, arena, err);
    if (*place.set & place.bit) {
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is given twice", place.name);
        return td_error_at_attribute(err, TD_MALFORMED_REQUEST, place.name);
    }
    const td_status status =
        set_place(&place, value, &request->args, &request->options, arena, err);
    if (status == TD_OK)
        *place.set |= place.bit;
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

td_status td_attrs_set_query(struct td_request *request, const char *name, size_t length,
                             const char *text, size_t text_length, struct td_arena *arena,
                             bool *known, struct td_error *err)
{
    const struct place place = find_place(request, name, length);
    *known = place.set != NULL;
    if (!*known)
        return TD_OK;
    *place.by_query &= ~place.bit; /* a repeated query parameter is an error */
    const td_status status =
        td_attrs_set_text(request, name, length, text, text_length, arena, known, err);
    if (status == TD_OK)
        *place.by_query |= place.bit;
    return status;
}

/* True if the op has the input and the path does not name it. */
static bool lacks_input(const struct td_request *request, const char *name)
{
    for (int i = 0; i < request->op->n_inputs; i++)
        if (strcmp(request->op->inputs[i].name, name) == 0)
            return request->args.inputs[i].count == 0;
    return false;
}

enum { MAX_NAMES = TD_MAX_INPUTS + TD_MAX_ATTRS + OPTION_COUNT + 2 };

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

td_status td_attrs_unknown(const struct td_request *request, const char *name, size_t length,
                           const char *where, struct td_error *err)
{
    const struct td_op *op = request->op;
    const bool inputs = strcmp(where, TD_MEMBER) == 0;
    const char *names[MAX_NAMES];
    char listed[320];
    int n = 0;
    for (int i = 0; i < op->n_inputs && n < MAX_NAMES; i++) {
        if (is_of_input(op->inputs[i].name, name, length))
            return refuse_place(op, &op->inputs[i], where, err);
        names[n++] = op->inputs[i].name;
    }
    const int keys = td_table_keys_input(request, TD_TABLE_KEYS, strlen(TD_TABLE_KEYS));
    if (inputs && keys >= 0 && !lacks_input(request, TD_TABLE_KEYS))
        names[n++] = TD_TABLE_KEYS;
    for (int i = 0; i < op->n_attrs && n < MAX_NAMES; i++)
        names[n++] = op->attrs[i].name;
    for (int i = 0; i < OPTION_COUNT && n < MAX_NAMES; i++)
        if (has_option(request, (enum option)i))
            names[n++] = option_names[i];
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

td_status td_table_without_keys(const char *table, const char *whole,
                                const struct td_tensor *tensor, const struct td_op *op,
                                struct td_error *err)
{
    if (tensor && tensor->key_index)
        return td_error_set(
            err, TD_INVALID_ARGUMENT,
            "this tensor holds the keys of '%s' and has no keys itself; look up rows in '%s'",
            table, table);
    if (whole)
        return td_error_set(
            err, TD_INVALID_ARGUMENT,
            "'%s' has no keys to find rows by, but it has the same rows as '%s'; if "
            "that table has keys, POST /v1/tensors/%s/%s gives their row numbers",
            table, whole, whole, td_row_numbers_op->name);
    char numbers[96] = "";
    const int input = td_op_keys_input(op);
    if (input > 0 && td_input_is_row_numbers(&op->inputs[input]))
        snprintf(numbers, sizeof numbers, "give row numbers as %s, or ", op->inputs[input].name);
    /* An alias names a version, to which keys cannot be added later. */
    if (strchr(table, '@'))
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "'%s' has no keys to find rows by; %sput another version with its "
                            "keys, {\"tensor\": [...], \"keys\": [...]}, or import one with --keys",
                            table, numbers);
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%s' has no keys to find rows by; %sset keys with "
                        "PUT /v1/tensors/%s/keys, or import the table with --keys",
                        table, numbers, table);
}

td_status td_table_keys_misplaced(const struct td_request *request, const char *name, size_t length,
                                  struct td_error *err)
{
    const int input = td_op_keys_input(request->op);
    if (!td_name_is(TD_TABLE_KEYS, name, length) || (input < 0 && !request->table))
        return TD_OK;
    if (input < 0) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "%s takes row numbers, not keys; POST /v1/tensors/%s/%s gives the row "
                     "numbers of keys",
                     request->op->name, request->table, td_row_numbers_op->name);
        return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", TD_TABLE_KEYS);
    }
    const char *rows = request->op->inputs[input].name;
    if (request->table)
        td_table_without_keys(request->table, request->whole, request->args.inputs[0].tensors,
                              request->op, err);
    else
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "%s has no member \"keys\"; give keys of a resident table as \"%s\": "
                     "{\"keys\": [...]}, together with \"%s\": {\"ref\": \"NAME\"}",
                     request->op->name, rows, request->op->inputs[0].name);
    return td_error_at_input(err, request->table ? TD_INVALID_ARGUMENT : TD_MALFORMED_REQUEST, "%s",
                             TD_TABLE_KEYS);
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
                 "%s is given by the path; it cannot be in the body as well", spec->name);
    return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", spec->name);
}
