#include "api/message/named_inputs.h"

#include "api/message/path_inputs.h"
#include "api/message/table_keys.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INPUT_NAME = 64 }; /* larger than any input name with its suffix */

/* Parses a number without leading zeros, such as "3". Returns -1 for any other text. */
static int64_t number(const char *digits, const char *end)
{
    int64_t value = 0;
    if (digits == end || end - digits >= 10 || (*digits == '0' && end - digits > 1))
        return -1;
    for (; digits < end; digits++) {
        if (*digits < '0' || *digits > '9')
            return -1;
        value = value * 10 + (*digits - '0');
    }
    return value;
}

/* Returns the number after the dot if `name` has the form "LIST.NUMBER", otherwise -1. */
static int64_t list_index(const char *list, const char *name, size_t length)
{
    const char *dot = memrchr(name, '.', length);
    return dot && td_name_is(list, name, (size_t)(dot - name)) ? number(dot + 1, name + length)
                                                               : -1;
}

/* Returns the request's own name for the keys that replace this input, or NULL. */
static const char *keys_name(const struct td_request *request, const struct td_input_spec *spec)
{
    return spec - request->op->inputs == td_op_keys_input(request->op) ? request->row_keys_name
                                                                       : NULL;
}

/* True if `name` names the keys of rows: "INPUT.keys", or the request's own name for them. */
static bool is_row_keys(const struct td_request *request, const struct td_input_spec *spec,
                        const char *name, size_t length)
{
    static const char suffix[] = ".keys";
    if (!td_input_is_row_numbers(spec))
        return false;
    const char *own = keys_name(request, spec);
    if (own)
        return td_name_is(own, name, length);
    return td_name_ends(suffix, name, length) &&
           td_name_is(spec->name, name, length - strlen(suffix));
}

struct td_named_input td_named_input_find(const struct td_request *request, const char *name,
                                          size_t length)
{
    const struct td_op *op = request->op;
    const int of_table = td_table_keys_input(request, name, length);
    if (of_table >= 0)
        return (struct td_named_input){ of_table, -1,
                                        td_input_is_row_numbers(&op->inputs[of_table]), true };
    for (int i = 0; i < op->n_inputs; i++) {
        const struct td_input_spec *spec = &op->inputs[i];
        int64_t index = spec->list ? list_index(spec->name, name, length) : -1;
        if (spec->list ? index >= 0 : td_name_is(spec->name, name, length))
            return (struct td_named_input){ i, index, false, false };
        if (is_row_keys(request, spec, name, length))
            return (struct td_named_input){ i, -1, true, false };
    }
    return (struct td_named_input){ -1, -1, false, false };
}

int64_t td_named_output_find(const struct td_op *op, const char *name, size_t length)
{
    if (td_op_output_form(op) == TD_OUTPUT_LIST)
        return list_index(op->outputs[0].name, name, length);
    for (int i = 0; i < op->n_outputs; i++)
        if (td_name_is(op->outputs[i].name, name, length))
            return i;
    return -1;
}

void td_named_output_write(struct td_text *text, const struct td_op *op, int index)
{
    if (td_op_output_form(op) != TD_OUTPUT_LIST) {
        td_text_string(text, op->outputs[index].name);
        return;
    }
    td_text_string(text, op->outputs[0].name);
    td_text_string(text, ".");
    td_text_uint(text, (uint64_t)index);
}

const char *td_output_names_text(const struct td_op *op, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < op->n_outputs && used < size; i++) {
        const char *name = op->outputs[i].name;
        used += (size_t)snprintf(text + used, size - used,
                                 op->outputs[i].list ? "%s%s.0, %s.1, ..." : "%s%s",
                                 used ? ", " : "", name, name);
    }
    return text;
}

bool td_named_input_find_ref(const struct td_request *request, const char *key, size_t length,
                             struct td_named_input *out)
{
    static const char suffix[] = ".ref";
    if (!td_name_ends(suffix, key, length))
        return false;
    *out = td_named_input_find(request, key, length - strlen(suffix));
    return out->input >= 0;
}

/* True if keys are accepted instead of row numbers. Also true if the path does not name the table,
 * because it is not yet known whether the table has keys. */
static bool takes_row_keys(const struct td_request *request, const struct td_input_spec *spec)
{
    return td_input_is_row_numbers(spec) &&
           (!td_path_gives_input(request, 0) || request->args.inputs[0].tensors->keys);
}

/* Writes the name of an input, or of the keys that the request gives instead of the input. */
static const char *name_text(const struct td_request *request, int input, bool keys, char *text,
                             size_t size)
{
    const char *own = keys ? keys_name(request, &request->op->inputs[input]) : NULL;
    snprintf(text, size, "%s%s", own ? own : request->op->inputs[input].name,
             keys && !own ? ".keys" : "");
    return text;
}

const char *td_input_names_text(const struct td_request *request, char *text, size_t size)
{
    const struct td_op *op = request->op;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < op->n_inputs && used < size; i++) {
        const struct td_input_spec *spec = &op->inputs[i];
        char other[INPUT_NAME] = "";
        if (td_path_gives_input(request, i) ||
            (request->table_has_keys && td_input_is_row_keys(spec)))
            continue;
        if (spec->list)
            snprintf(other, sizeof other, "%s.1, ...", spec->name);
        else if (request->table_has_keys && i == td_op_keys_input(op))
            snprintf(other, sizeof other, "%s", TD_TABLE_KEYS);
        else if (takes_row_keys(request, spec))
            name_text(request, i, true, other, sizeof other);
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", used ? "; " : "", spec->name,
                                 spec->list ? ".0, "
                                 : *other   ? " or "
                                            : "",
                                 other);
    }
    return text;
}

const char *td_inputs_owner(const struct td_request *request)
{
    return request->row_keys_name ? "the table" : request->op->name;
}

static td_status refuse_name(const struct td_request *request, const char *name, size_t length,
                             struct td_error *err)
{
    const struct td_op *op = request->op;
    const char *names[TD_MAX_INPUTS + 1];
    char expected[TD_TENSOR_NAMES_TEXT], keys[INPUT_NAME], first[TD_MAX_INPUTS][INPUT_NAME];
    const char *shown = TD_SHOWN(name, length);
    int n = 0;
    if (request->table) {
        const td_status status = td_table_keys_misplaced(request, name, length, err);
        if (status != TD_OK)
            return status;
    }
    for (int i = 0; i < op->n_inputs; i++) {
        snprintf(first[i], INPUT_NAME, "%s%s", op->inputs[i].name, op->inputs[i].list ? ".0" : "");
        if (!td_path_gives_input(request, i))
            names[n++] = first[i];
        if (takes_row_keys(request, &op->inputs[i]))
            names[n++] = name_text(request, i, true, keys, sizeof keys);
    }
    td_error_set(err, TD_MALFORMED_REQUEST, "%s has no input \"%s\"; expected %s",
                 td_inputs_owner(request), shown,
                 td_input_names_text(request, expected, sizeof expected));
    td_suggest(err, name, length, names, n);
    return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", shown);
}

static td_status refuse_input(const struct td_request *request, struct td_named_input target,
                              td_status status, struct td_error *err)
{
    const struct td_input_spec *spec = &request->op->inputs[target.input];
    if (spec->list)
        return td_error_at_input(err, status, "%s[%" PRId64 "]", spec->name, target.index);
    const char *own = target.of_table ? TD_TABLE_KEYS
                      : target.keys   ? keys_name(request, spec)
                                      : NULL;
    return td_error_at_input(err, status, "%s", own ? own : spec->name);
}

/* Returns the name that the request uses for an input. */
static const char *called(const struct td_request *request, struct td_named_input target,
                          char text[INPUT_NAME])
{
    return target.of_table ? TD_TABLE_KEYS
                           : name_text(request, target.input, target.keys, text, INPUT_NAME);
}

/* Reports an input that the request has already given, under the name of `first`. */
static td_status refuse_second(struct td_request *request, struct td_named_input first,
                               struct td_named_input target, struct td_error *err)
{
    char text[2][INPUT_NAME];
    const bool swap = first.keys + first.of_table > target.keys + target.of_table;
    const char *one = called(request, swap ? target : first, text[0]);
    const char *other = called(request, swap ? first : target, text[1]);
    if (strcmp(one, other) != 0)
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "both %s and %s are given; expected only one of them", one, other);
    else
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is given twice", one);
    /* The error names the member that was read last. */
    request->called_keys = target.of_table;
    return refuse_input(request, target, TD_MALFORMED_REQUEST, err);
}

td_status td_named_input_count_ref(struct td_request *request, struct td_named_input target,
                                   struct td_error *err)
{
    const struct td_input_spec *spec = &request->op->inputs[target.input];
    int *count = &request->args.inputs[target.input].count;
    if (td_path_gives_input(request, target.input))
        return td_path_input_refuse(spec, err);
    /* Keys count as the input that they replace. */
    const struct td_named_input first = {
        .input = target.input,
        .keys = td_request_row_keys(request, target.input) != NULL,
        .of_table = request->called_keys && td_op_keys_input(request->op) == target.input,
    };
    if (target.keys && !first.keys)
        td_request_add_row_keys(request, target.input, NULL);
    request->called_keys |= target.of_table;
    if (++*count <= (spec->list ? TD_MAX_LIST : 1))
        return TD_OK;
    if (spec->list)
        return td_error_resource(err, "tensors", (uint64_t)*count, TD_MAX_LIST,
                                 "a list of tensors");
    return refuse_second(request, first, target, err);
}

td_status td_named_input_count(struct td_request *request, const char *name, size_t length,
                               struct td_named_input *out, struct td_error *err)
{
    *out = td_named_input_find(request, name, length);
    return out->input < 0 ? refuse_name(request, name, length, err)
                          : td_named_input_count_ref(request, *out, err);
}

td_status td_named_inputs_alloc(struct td_request *request, struct td_arena *arena,
                                struct td_error *err)
{
    for (int i = 0; i < request->op->n_inputs; i++) {
        struct td_operand *operand = &request->args.inputs[i];
        if (operand->count == 0 || td_path_gives_input(request, i))
            continue;
        size_t count = (size_t)operand->count;
        operand->tensors = td_arena_alloc(arena, count, sizeof *operand->tensors, err);
        if (!operand->tensors)
            return err->status;
        memset(operand->tensors, 0, count * sizeof *operand->tensors);
        struct td_row_keys *row_keys = td_request_row_keys(request, i);
        if (row_keys) {
            row_keys->keys = operand->tensors;
            if (request->called_keys)
                request->row_keys_name = TD_TABLE_KEYS;
            *operand = (struct td_operand){ NULL, 0 };
        }
    }
    return TD_OK;
}

td_status td_named_input_tensor(struct td_request *request, struct td_named_input target,
                                struct td_tensor **place, struct td_error *err)
{
    const struct td_row_keys *row_keys = td_request_row_keys(request, target.input);
    const struct td_operand keys = { row_keys ? row_keys->keys : NULL, row_keys ? 1 : 0 };
    const struct td_operand *operand = target.keys ? &keys : &request->args.inputs[target.input];
    const char *name = request->op->inputs[target.input].name;
    int64_t index = target.index < 0 ? 0 : target.index;
    if (index < operand->count && operand->tensors[index].data == NULL) {
        *place = &operand->tensors[index];
        return TD_OK;
    }
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "%s.%" PRId64 " is given%s, with %d in all; number them from 0, each once", name,
                 index, index < operand->count ? " twice" : "", operand->count);
    return refuse_input(request, target, TD_MALFORMED_REQUEST, err);
}

td_status td_named_input_resolve(struct td_request *request, struct td_named_input target,
                                 const char *name, size_t length, struct td_resolver *resolver,
                                 struct td_arena *arena, struct td_error *err)
{
    struct td_tensor *place = NULL;
    td_status status = td_named_input_tensor(request, target, &place, err);
    if (status != TD_OK)
        return status;
    status = td_resolve(resolver, name, length, arena, place, err);
    return status == TD_OK ? TD_OK : refuse_input(request, target, status, err);
}
