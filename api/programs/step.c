#include "api/programs/step.h"

#include "api/json/members.h"
#include "api/json/values.h"
#include "api/message/attrs.h"
#include "api/message/common_members.h"
#include "api/message/unknown_member.h"
#include "api/programs/arguments.h"
#include "api/text/suggest.h"
#include "kernels/key_dtype.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>

#define OP   "op"
#define AS   "as"
#define REF  "ref"
#define KEYS "keys"

/* A step that is being read. */
struct reader {
    struct td_program_builder *builder;
    int number;
    struct td_json_path path;  /* of the step */
    struct td_json_skipped as; /* the value of "as" */
    bool has_as;
    /* The op with the attributes of the step. */
    struct td_request request;
    struct td_program_operand *inputs;   /* [n_inputs] */
    struct td_program_binding *bindings; /* [n_attrs], of a stored program */
};

static struct td_program_step *step_of(const struct reader *reader)
{
    return &reader->builder->steps[reader->number];
}

static struct td_json_scan *scan_of(struct reader *reader)
{
    return &reader->builder->source.scan;
}

static struct td_error *error_of(const struct reader *reader)
{
    return reader->builder->source.err;
}

/* Names the step in an error. */
static td_status blame(const struct reader *reader, td_status status)
{
    struct td_error *err = error_of(reader);
    const struct td_program_step *step = step_of(reader);
    if (status == TD_OK || err->has_step)
        return status;
    err->has_step = true;
    err->step = reader->number;
    if (step->as)
        snprintf(err->as, sizeof(err->as), "%s", step->as);
    if (step->op)
        snprintf(err->op, sizeof(err->op), "%s", step->op->name);
    return status;
}

/* ---- The op ------------------------------------------------------------------------------ */

static td_status unknown_op(const struct reader *reader, const struct td_json_path *path,
                            const char *name, size_t length)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    const char *names[TD_OP_COUNT];
    for (int i = 0; i < count; i++)
        names[i] = ops[i]->name;
    (void)td_unknown_name(error_of(reader), TD_UNKNOWN_OP, OP, name, length, names, count,
                          "GET /v1/ops");
    td_json_set_pointer(path, error_of(reader));
    return TD_UNKNOWN_OP;
}

static td_status read_op(struct reader *reader, const struct td_json_path *path)
{
    const char *name = "";
    size_t length = 0;
    const td_status status = td_json_text(scan_of(reader), reader->builder->source.arena, path, OP,
                                          &name, &length, error_of(reader));
    if (status != TD_OK)
        return status;
    step_of(reader)->op = td_op_named(name, length);
    return step_of(reader)->op ? TD_OK : unknown_op(reader, path, name, length);
}

/* Reads the members op and as, and skips the others. */
static td_status read_head_member(void *context, const struct td_json_path *path,
                                  struct td_json_name name)
{
    struct reader *reader = context;
    if (td_json_name_is(name, OP))
        return read_op(reader, path);
    if (!td_json_name_is(name, AS))
        return td_json_ignore(scan_of(reader), reader->builder->source.arena, error_of(reader));
    reader->has_as = true;
    td_json_peek(scan_of(reader));
    return td_json_skip_unread(scan_of(reader), &reader->as, error_of(reader));
}

/* ---- Names of results -------------------------------------------------------------------- */

/* Adds the name of a result. */
static td_status add_name(struct reader *reader, const struct td_json_path *path, const char *text,
                          size_t length, int value)
{
    struct td_program_names *names = &reader->builder->names;
    const td_status status = td_program_names_add(names, text, length, value, reader->number,
                                                  reader->builder->source.arena, error_of(reader));
    if (status == TD_MALFORMED_REQUEST)
        td_json_set_pointer(path, error_of(reader));
    if (status == TD_OK && !step_of(reader)->as)
        step_of(reader)->as = names->at[names->count - 1].text;
    return status;
}

static td_status read_name(struct reader *reader, const struct td_json_path *path, int value)
{
    const char *text = "";
    size_t length = 0;
    const td_status status = td_json_text(scan_of(reader), reader->builder->source.arena, path, AS,
                                          &text, &length, error_of(reader));
    return status == TD_OK ? add_name(reader, path, text, length, value) : status;
}

/* Reads {"values": "best"}: the names of some of the outputs. */
static td_status read_named_result(void *context, const struct td_json_path *path,
                                   struct td_json_name name)
{
    struct reader *reader = context;
    const struct td_op *op = step_of(reader)->op;
    const char *outputs[TD_MAX_INPUTS];
    for (int i = 0; i < op->n_outputs; i++) {
        if (td_json_name_is(name, op->outputs[i].name))
            return read_name(reader, path, step_of(reader)->results[i]);
        outputs[i] = op->outputs[i].name;
    }
    td_json_refuse(path, error_of(reader), "%s has no output \"%s\"", op->name,
                   TD_SHOWN(name.text, name.length));
    td_suggest(error_of(reader), name.text, name.length, outputs, op->n_outputs);
    return TD_MALFORMED_REQUEST;
}

/* Adds a value for a result of the step. */
static td_status add_result(struct reader *reader, int result, int *value)
{
    return td_builder_value(
        reader->builder,
        (struct td_program_value){ .step = reader->number, .result = result, .output = -1 }, value);
}

/* Counts the elements of the list at the scan. */
static td_status count_element(void *context, const struct td_json_path *path)
{
    struct reader *reader = context;
    (void)path;
    if (step_of(reader)->n_results <= TD_PROGRAM_RESULTS)
        step_of(reader)->n_results++;
    return td_json_ignore(scan_of(reader), reader->builder->source.arena, error_of(reader));
}

/* Reads an element of a list of names, which can be null. */
static td_status read_listed_name(void *context, const struct td_json_path *path)
{
    struct reader *reader = context;
    bool is_null;
    const td_status status = td_json_null(scan_of(reader), &is_null, error_of(reader));
    return status != TD_OK || is_null
               ? status
               : read_name(reader, path, step_of(reader)->results[path->index]);
}

/* Adds the values of all results of the step. */
static td_status add_results(struct reader *reader)
{
    struct td_program_step *step = step_of(reader);
    const int n = step->n_results;
    reader->builder->n_results += n;
    if (reader->builder->n_results > TD_PROGRAM_RESULTS)
        return td_error_resource(error_of(reader), "results", TD_PROGRAM_RESULTS + 1,
                                 TD_PROGRAM_RESULTS, "the program");
    int *results = td_arena_alloc(reader->builder->source.arena, (size_t)n, sizeof(*results),
                                  error_of(reader));
    td_status status = results ? TD_OK : error_of(reader)->status;
    for (int r = 0; r < n && status == TD_OK; r++)
        status = add_result(reader, r, &results[r]);
    step->results = results;
    return status;
}

static td_status wrong_as(const struct reader *reader, const struct td_json_path *path,
                          td_output_form form)
{
    static const char *const expected[] = {
        [TD_OUTPUT_ONE] = "a name",
        [TD_OUTPUT_LIST] = "a list of names, with null for a tensor that is not used",
        [TD_OUTPUT_NAMED] = "an object with the names of its outputs: {\"OUTPUT\": NAME}",
    };
    return td_json_refuse(path, error_of(reader), "as is %s; for %s, it is %s",
                          td_json_kind(*reader->as.scan.at), step_of(reader)->op->name,
                          expected[form]);
}

/* Reads the names in the form of the op's outputs. */
static td_status read_as(struct reader *reader)
{
    static const char begins[] = {
        [TD_OUTPUT_ONE] = '"', [TD_OUTPUT_LIST] = '[', [TD_OUTPUT_NAMED] = '{'
    };
    struct td_program_step *step = step_of(reader);
    struct td_arena *arena = reader->builder->source.arena;
    const struct td_json_path path = td_json_member(&reader->path, AS, strlen(AS));
    const td_output_form form = td_op_output_form(step->op);
    td_status status = TD_OK;
    *scan_of(reader) = reader->as.scan;
    if (*reader->as.scan.at != begins[form])
        return td_json_kind(*reader->as.scan.at)
                   ? wrong_as(reader, &path, form)
                   : td_json_syntax(scan_of(reader), reader->as.scan.at, error_of(reader),
                                    "expected a name");
    step->n_results = form == TD_OUTPUT_LIST ? 0 : step->op->n_outputs;
    if (form == TD_OUTPUT_LIST)
        status = td_json_list(scan_of(reader), &path, AS, count_element, reader, error_of(reader));
    if (status == TD_OK)
        status = add_results(reader);
    *scan_of(reader) = reader->as.scan;
    if (status != TD_OK)
        return status;
    if (form == TD_OUTPUT_ONE)
        return read_name(reader, &path, step->results[0]);
    if (form == TD_OUTPUT_LIST)
        return td_json_list(scan_of(reader), &path, AS, read_listed_name, reader, error_of(reader));
    return td_json_object(scan_of(reader), &path, AS, read_named_result, reader, arena,
                          error_of(reader));
}

static td_status read_head(struct reader *reader)
{
    const char *missing = NULL;
    td_status status = td_json_object(scan_of(reader), &reader->path, "a step", read_head_member,
                                      reader, reader->builder->source.arena, error_of(reader));
    if (status != TD_OK)
        return status;
    if (!step_of(reader)->op)
        missing = "op: the name of the op";
    else if (!reader->has_as)
        missing = "as: the name of the result";
    if (missing)
        return td_json_refuse(&reader->path, error_of(reader), "the step has no %s", missing);
    status = read_as(reader);
    if (status != TD_OK || step_of(reader)->as)
        return status;
    const struct td_json_path as = td_json_member(&reader->path, AS, strlen(AS));
    step_of(reader)->as = "";
    return td_json_refuse(&as, error_of(reader),
                          "as names no result, so the step has no effect; name a result, or remove "
                          "the step");
}

td_status td_step_read_head(struct td_program_builder *builder, int step,
                            const struct td_json_path *steps)
{
    struct reader reader = { .builder = builder,
                             .number = step,
                             .path = { .up = steps, .index = step } };
    builder->source.scan = builder->texts[step].object.scan;
    return blame(&reader, read_head(&reader));
}

/* ---- Inputs ------------------------------------------------------------------------------ */

/* Keeps a string in place of a tensor for hints. */
static void keep_string(struct reader *reader, int input, const char *text, size_t length)
{
    struct td_step_text *step = &reader->builder->texts[reader->number];
    if (step->string)
        return;
    step->string = text;
    step->string_length = length;
    step->of = step_of(reader)->op->inputs[input].name;
}

/* Reads "$name" if it is at the scan. Otherwise sets *value to -1 and leaves the scan unchanged. */
static td_status read_reference(struct reader *reader, int input, const struct td_json_path *path,
                                int *value)
{
    struct td_json_scan *scan = scan_of(reader);
    const char *text = "";
    size_t length = 0;
    *value = -1;
    if (td_json_peek(scan) != '"')
        return TD_OK;
    const struct td_json_scan begin = *scan;
    td_status status =
        td_json_string(scan, reader->builder->source.arena, &text, &length, error_of(reader));
    if (status != TD_OK)
        return status;
    if (length == 0 || text[0] != '$') {
        *scan = begin;
        keep_string(reader, input, text, length);
        return TD_OK;
    }
    status = td_program_names_use(&reader->builder->names, text + 1, length - 1, reader->number,
                                  value, error_of(reader));
    if (status == TD_MALFORMED_REQUEST)
        td_json_set_pointer(path, error_of(reader));
    return status;
}

/* The name of a resident tensor: {"ref": NAME}. */
struct ref {
    struct reader *reader;
    const char *name;
    size_t length;
};

static td_status read_ref_member(void *context, const struct td_json_path *path,
                                 struct td_json_name name)
{
    struct ref *ref = context;
    if (!td_json_name_is(name, REF))
        return td_json_refuse(path, error_of(ref->reader),
                              "a tensor with ref cannot have other members");
    return td_json_text(scan_of(ref->reader), ref->reader->builder->source.arena, path, REF,
                        &ref->name, &ref->length, error_of(ref->reader));
}

/* Adds a hint to an error about a tensor that does not exist: {"ref": NAME} at `begin`. */
static void hint_ref(struct reader *reader, const struct td_json_scan *begin,
                     const struct td_json_path *path)
{
    struct td_error *err = error_of(reader);
    const struct td_error kept = *err;
    struct ref ref = { .reader = reader };
    *scan_of(reader) = *begin;
    const td_status status = td_json_object(scan_of(reader), path, "a tensor", read_ref_member,
                                            &ref, reader->builder->source.arena, err);
    *err = kept;
    if (status == TD_OK)
        td_program_names_hint(&reader->builder->names, ref.name, ref.length, reader->number, err);
}

/* Reads {"ref": NAME} in a stored program if it is at the scan. Otherwise, sets *value to -1. Each
 * call looks up the table. */
static td_status read_table(struct reader *reader, int input, const struct td_json_path *path,
                            int *value)
{
    struct td_program_builder *builder = reader->builder;
    struct ref ref = { .reader = reader };
    bool is_ref;
    *value = -1;
    td_status status =
        td_json_begins_with(scan_of(reader), builder->source.arena, REF, &is_ref, error_of(reader));
    if (status != TD_OK || !is_ref)
        return status;
    status = td_json_object(scan_of(reader), path, "a tensor", read_ref_member, &ref,
                            builder->source.arena, error_of(reader));
    if (status == TD_OK)
        status =
            td_builder_value(builder, (struct td_program_value){ .step = -1, .output = -1 }, value);
    const char *name = status == TD_OK ? td_arena_text(builder->source.arena, ref.name, ref.length,
                                                       error_of(reader))
                                       : NULL;
    if (!name)
        return error_of(reader)->status;
    return td_builder_table(
        builder, &(struct td_program_table){ .name = name,
                                             .length = ref.length,
                                             .value = *value,
                                             .step = reader->number,
                                             .input = step_of(reader)->op->inputs[input].name });
}

/* Reads a tensor, or the name of a table, whose dtype does not depend on other inputs. */
static td_status read_value_tensor(struct reader *reader, const struct td_json_path *path,
                                   struct td_untyped untyped, int *value)
{
    struct td_program_builder *builder = reader->builder;
    struct td_tensor *tensor =
        td_arena_alloc(builder->source.arena, 1, sizeof(*tensor), error_of(reader));
    if (!tensor)
        return error_of(reader)->status;
    const td_status status = td_json_tensor(&builder->source, NULL, untyped, path, tensor);
    return status == TD_OK ? td_builder_value(builder,
                                              (struct td_program_value){
                                                  .step = -1, .constant = tensor, .output = -1 },
                                              value)
                           : status;
}

/* Reads a constant. */
static td_status read_constant(struct reader *reader, int input, int index,
                               const struct td_json_path *path, int *value)
{
    struct td_program_builder *builder = reader->builder;
    const struct td_input_spec *spec = &step_of(reader)->op->inputs[input];
    struct td_json_siblings *siblings = &builder->texts[reader->number].siblings;
    const int n_untyped = siblings->count;
    if (!spec->one_dtype)
        return read_value_tensor(reader, path, td_json_untyped(spec), value);
    struct td_tensor *tensor =
        td_arena_alloc(builder->source.arena, 1, sizeof(*tensor), error_of(reader));
    if (!tensor)
        return error_of(reader)->status;
    const char *const begin = scan_of(reader)->at;
    const td_status status = td_json_siblings_read(siblings, &builder->source, &reader->request,
                                                   input, index, path, tensor);
    if (siblings->count > n_untyped)
        builder->untyped_bytes += (size_t)(scan_of(reader)->at - begin);
    return status == TD_OK
               ? td_builder_value(builder,
                                  (struct td_program_value){
                                      .step = -1,
                                      .constant = siblings->count > n_untyped ? NULL : tensor,
                                      .output = -1 },
                                  value)
               : status;
}

static td_status read_tensor(struct reader *reader, int input, int index,
                             const struct td_json_path *path, int *value)
{
    const struct td_input_spec *spec = &step_of(reader)->op->inputs[input];
    if (reader->builder->n_operands++ == TD_PROGRAM_OPERANDS)
        return td_error_resource(error_of(reader), "operands", TD_PROGRAM_OPERANDS + 1,
                                 TD_PROGRAM_OPERANDS, "the program");
    td_json_peek(scan_of(reader));
    const struct td_json_scan begin = *scan_of(reader);
    td_status status = read_reference(reader, input, path, value);
    if (status == TD_OK && *value < 0 && reader->builder->form == TD_PROGRAM_STORED)
        status = read_table(reader, input, path, value);
    if (status == TD_OK && *value < 0)
        status = read_constant(reader, input, index, path, value);
    if (status == TD_OK)
        return TD_OK;
    if (status == TD_TENSOR_NOT_FOUND)
        hint_ref(reader, &begin, path);
    return spec->list ? td_error_at_input(error_of(reader), status, "%s[%d]", spec->name, index)
                      : td_error_at_input(error_of(reader), status, "%s", spec->name);
}

/* The values of a list that is being read. */
struct list {
    struct reader *reader;
    int input;
    int *values;
    int count, capacity;
};

static td_status read_element(void *context, const struct td_json_path *path)
{
    struct list *list = context;
    struct td_error *err = error_of(list->reader);
    int value = -1;
    if (list->count == TD_MAX_LIST) {
        td_error_resource(err, "tensors", TD_MAX_LIST + 1, TD_MAX_LIST, "a list of tensors");
        td_json_set_pointer(path->up, err);
        return TD_RESOURCE_LIMIT;
    }
    list->values = td_arena_grow(list->reader->builder->source.arena, list->values, list->count,
                                 &list->capacity, sizeof(*list->values), err);
    if (!list->values)
        return err->status;
    const td_status status = read_tensor(list->reader, list->input, list->count, path, &value);
    list->values[list->count++] = value;
    return status;
}

/* The keys of a table in place of row numbers: {"keys": VALUE}. */
struct keys {
    struct reader *reader;
    int input, value;
};

static td_status read_keys_member(void *context, const struct td_json_path *path,
                                  struct td_json_name name)
{
    static const struct td_input_spec spec = { .role = TD_ROLE_KEY, .dtypes = TD_DTYPES_KEY_GIVEN };
    struct keys *keys = context;
    struct reader *reader = keys->reader;
    if (!td_json_name_is(name, KEYS))
        return td_json_refuse(path, error_of(reader),
                              "an input with keys cannot have other members");
    const td_status status = read_reference(reader, keys->input, path, &keys->value);
    return status == TD_OK && keys->value < 0
               ? read_value_tensor(reader, path, td_json_untyped(&spec), &keys->value)
               : status;
}

/* Reads {"keys": VALUE} if it is at the scan and the input takes row numbers. */
static td_status read_keys(struct reader *reader, int input, const struct td_json_path *path,
                           bool *by_keys, int *value)
{
    const struct td_input_spec *spec = &step_of(reader)->op->inputs[input];
    struct keys keys = { .reader = reader, .input = input, .value = -1 };
    *by_keys = false;
    if (!td_input_is_row_numbers(spec))
        return TD_OK;
    td_status status = td_json_begins_with(scan_of(reader), reader->builder->source.arena, KEYS,
                                           by_keys, error_of(reader));
    if (status == TD_OK && *by_keys)
        status = td_json_object(scan_of(reader), path, spec->name, read_keys_member, &keys,
                                reader->builder->source.arena, error_of(reader));
    *value = keys.value;
    return status == TD_OK ? TD_OK : td_error_at_input(error_of(reader), status, "%s", spec->name);
}

static td_status read_input(struct reader *reader, int input, const struct td_json_path *path)
{
    bool by_keys = false;
    const struct td_input_spec *spec = &step_of(reader)->op->inputs[input];
    struct list list = { .reader = reader, .input = input };
    td_status status;
    if (spec->list) {
        status =
            td_json_list(scan_of(reader), path, spec->name, read_element, &list, error_of(reader));
    } else {
        list.values = td_arena_alloc(reader->builder->source.arena, 1, sizeof(list.values[0]),
                                     error_of(reader));
        list.count = 1;
        status = list.values ? read_keys(reader, input, path, &by_keys, list.values)
                             : error_of(reader)->status;
        if (status == TD_OK && !by_keys)
            status = read_tensor(reader, input, 0, path, list.values);
    }
    reader->inputs[input] = (struct td_program_operand){ list.values, list.count, by_keys };
    return status;
}

/* ---- Attributes -------------------------------------------------------------------------- */

/* Reads the value of an attribute. */
static td_status read_value(struct reader *reader, const struct td_json_path *path,
                            struct td_json_name name)
{
    struct td_attr_value value;
    struct td_arena *arena = reader->builder->source.arena;
    bool known;
    td_status status = td_json_attr(scan_of(reader), arena, &value, error_of(reader));
    if (status != TD_OK)
        return status;
    status = td_attrs_set(&reader->request, name.text, name.length, &value, arena, &known,
                          error_of(reader));
    if (status == TD_OK && !known)
        status = td_unknown_member(&reader->request, name.text, name.length, TD_MEMBER,
                                   error_of(reader));
    if (status != TD_OK)
        td_json_set_pointer(path, error_of(reader));
    return status;
}

/* Reads {"attr": NAME, "default": VALUE} in a stored program. */
static td_status read_bound(struct reader *reader, const struct td_json_path *path, int attr)
{
    struct td_program_step *step = step_of(reader);
    const struct td_attr_spec *spec = &step->op->attrs[attr];
    struct td_argument argument;
    td_status status = td_argument_read(&reader->builder->source, path, &argument);
    if (status != TD_OK)
        return status;
    if (argument.has_default) {
        const struct td_json_scan end = *scan_of(reader);
        const struct td_json_path of_default =
            td_json_member(path, TD_ARGUMENT_DEFAULT, strlen(TD_ARGUMENT_DEFAULT));
        *scan_of(reader) = argument.value;
        status = read_value(reader, &of_default,
                            (struct td_json_name){ spec->name, strlen(spec->name) });
        *scan_of(reader) = end;
    }
    if (status == TD_OK)
        status =
            td_argument_add(reader->builder, &argument, reader->number, attr, &reader->request.args,
                            path, &reader->bindings[step->n_bindings].attr);
    reader->bindings[step->n_bindings].step_attr = attr;
    step->n_bindings += status == TD_OK;
    return status;
}

/* Adds a hint to the error about an attribute that is "$NAME", or a list with other elements than
 * numbers, because the client probably meant an argument. */
static void hint_argument(const struct reader *reader, const struct td_json_scan *begin,
                          const char *attr)
{
    struct td_json_scan scan = *begin;
    const bool is_list = td_json_peek(&scan) == '[';
    scan.at++;
    const int first = is_list ? td_json_peek(&scan) : *scan.at;
    if (is_list ? first != '{' && first != '"' : *begin->at != '"' || first != '$')
        return;
    if (reader->builder->form != TD_PROGRAM_STORED)
        td_error_hint(error_of(reader), "an attribute is a plain value here; only a stored program "
                                        "has arguments");
    else
        td_error_hint(error_of(reader),
                      "to make %s an argument of a call, write \"%s\": {\"attr\": \"%s\"}%s", attr,
                      attr, attr, is_list ? "; an argument replaces the whole list" : "");
}

static td_status read_attribute(struct reader *reader, const struct td_json_path *path,
                                struct td_json_name name)
{
    const struct td_op *op = step_of(reader)->op;
    const char c = td_json_peek(scan_of(reader));
    const struct td_json_scan begin = *scan_of(reader);
    int i = 0;
    while (i < op->n_attrs && !td_json_name_is(name, op->attrs[i].name))
        i++;
    if (td_common_member_find(name.text, name.length, 2) != TD_COMMON_MEMBER_COUNT)
        return td_json_refuse(path, error_of(reader),
                              "%s belongs to the whole program, not to a step",
                              TD_SHOWN(name.text, name.length));
    if (i < op->n_attrs && c == '{')
        return reader->builder->form == TD_PROGRAM_STORED
                   ? read_bound(reader, path, i)
                   : td_json_refuse(path, error_of(reader),
                                    "%s is an object; expected a value. Only a stored program has "
                                    "arguments",
                                    op->attrs[i].name);
    const td_status status = read_value(reader, path, name);
    if (status == TD_MALFORMED_REQUEST && i < op->n_attrs)
        hint_argument(reader, &begin, op->attrs[i].name);
    return status;
}

static td_status read_argument(void *context, const struct td_json_path *path,
                               struct td_json_name name)
{
    struct reader *reader = context;
    const struct td_op *op = step_of(reader)->op;
    if (td_json_name_is(name, OP) || td_json_name_is(name, AS))
        return td_json_ignore(scan_of(reader), reader->builder->source.arena, error_of(reader));
    for (int i = 0; i < op->n_inputs; i++)
        if (td_json_name_is(name, op->inputs[i].name))
            return read_input(reader, i, path);
    return read_attribute(reader, path, name);
}

static td_status read_arguments(struct reader *reader)
{
    struct td_program_step *step = step_of(reader);
    struct td_arena *arena = reader->builder->source.arena;
    reader->inputs = td_arena_alloc(arena, (size_t)step->op->n_inputs, sizeof(reader->inputs[0]),
                                    error_of(reader));
    reader->bindings = td_arena_alloc(arena, (size_t)step->op->n_attrs, sizeof(reader->bindings[0]),
                                      error_of(reader));
    if (!reader->inputs || !reader->bindings)
        return error_of(reader)->status;
    memset(reader->inputs, 0, (size_t)step->op->n_inputs * sizeof(reader->inputs[0]));
    const td_status status = td_json_object(scan_of(reader), &reader->path, "a step", read_argument,
                                            reader, arena, error_of(reader));
    step->inputs = reader->inputs;
    step->bindings = reader->bindings;
    memcpy(step->attrs, reader->request.args.attrs, sizeof(step->attrs));
    step->attrs_set = reader->request.args.attrs_set;
    return status;
}

td_status td_step_read_arguments(struct td_program_builder *builder, int step,
                                 const struct td_json_path *steps)
{
    static const char *const members[] = { OP, AS, NULL };
    struct reader reader = { .builder = builder,
                             .number = step,
                             .path = { .up = steps, .index = step } };
    td_request_init(&reader.request, builder->steps[step].op);
    reader.request.is_step = true;
    reader.request.other_members = members;
    builder->source.scan = builder->texts[step].object.scan;
    return blame(&reader, read_arguments(&reader));
}

/* ---- Plain values ------------------------------------------------------------------------ */

/* Gives plain values the dtype of the first tensor of their role that is not a plain value. */
static void use_dtypes(const struct td_program *program, int number, const struct td_op_args *args,
                       struct td_json_siblings *siblings)
{
    const struct td_program_step *step = &program->steps[number];
    for (int i = 0; i < step->op->n_inputs; i++) {
        const struct td_input_spec *spec = &step->op->inputs[i];
        struct td_json_sibling_dtype *of = &siblings->of[spec->role];
        for (int k = 0; spec->one_dtype && k < step->inputs[i].count && !of->known; k++) {
            const struct td_program_value *value = &program->values[step->inputs[i].values[k]];
            const bool is_plain = value->step < 0 && !value->constant &&
                                  step->inputs[i].values[k] >= program->op.n_inputs;
            if (!is_plain && td_input_is_used(spec, args))
                *of = (struct td_json_sibling_dtype){ .known = true,
                                                      .dtype = args->inputs[i].tensors[k].dtype,
                                                      .name = spec->name };
        }
    }
}

/* Puts the path of the step before the JSON Pointer of an error. */
static void prefix_pointer(struct td_error *err, int step)
{
    char pointer[sizeof(err->pointer)];
    if (!err->has_pointer)
        return;
    const int length = snprintf(pointer, sizeof(pointer), "/steps/%d%.*s", step,
                                (int)err->pointer_length, err->pointer);
    err->pointer_length = (size_t)length < sizeof(pointer) ? (size_t)length : sizeof(pointer) - 1;
    memcpy(err->pointer, pointer, sizeof(pointer));
}

td_status td_step_complete(const struct td_program *program, int step, struct td_op_args *args,
                           struct td_arena *arena, struct td_error *err)
{
    const struct td_program_builder *builder = program->context;
    struct td_json_siblings siblings = builder->texts[step].siblings;
    struct td_json_source source = builder->source;
    struct td_request request;
    if (siblings.count == 0)
        return TD_OK;
    source.arena = arena;
    source.err = err;
    td_request_init(&request, program->steps[step].op);
    request.args = *args;
    use_dtypes(program, step, args, &siblings);
    const td_status status = td_json_siblings_end(&siblings, &source, &request);
    if (status != TD_OK)
        prefix_pointer(err, step);
    return status;
}

/* ---- Hints ------------------------------------------------------------------------------- */

void td_step_explain(const struct td_program *program, int step, struct td_error *err)
{
    const struct td_program_builder *builder = program->context;
    const struct td_step_text *text = &builder->texts[step];
    if (!text->string || !td_name_is(text->of, err->input, strcspn(err->input, "[")))
        return;
    /* An error about a plain value that gets its dtype from other inputs already has this hint. */
    if (!err->has_pointer)
        td_error_hint(err, "refer to a resident tensor as {\"ref\": \"%s\"}",
                      TD_SHOWN(text->string, text->string_length));
    td_program_names_hint(&builder->names, text->string, text->string_length, step, err);
}
