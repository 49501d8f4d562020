#include "api/programs/read.h"

#include "api/json/members.h"
#include "api/json/store_member.h"
#include "api/json/values.h"
#include "api/message/attrs.h"
#include "api/message/unknown_member.h"
#include "api/programs/declare.h"
#include "api/programs/step.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>

enum part { INPUTS, STEPS, OUTPUTS, PARTS };
static const char *const part_names[PARTS + 1] = { "inputs", "steps", "outputs" };
#define STORE "store"

struct reader {
    struct td_program_builder *builder;
    struct td_request *request; /* NULL for a stored program */
    struct td_json_skipped parts[PARTS];
    bool has[PARTS];
    struct td_json_skipped store; /* the member "store" if it is an object */
    bool has_store;
    struct td_input_spec *specs; /* [TD_MAX_INPUTS] */
    struct td_tensor *tensors;   /* [TD_MAX_INPUTS]: the inputs of the call */
    int n_inputs;
    int *outputs; /* values of the outputs */
    struct td_output_spec *output_specs;
    int n_outputs;
};

static struct td_json_scan *scan_of(struct reader *reader)
{
    return &reader->builder->source.scan;
}

static struct td_arena *arena_of(const struct reader *reader)
{
    return reader->builder->source.arena;
}

static struct td_error *error_of(const struct reader *reader)
{
    return reader->builder->source.err;
}

static struct td_json_path path_of(enum part part)
{
    return td_json_member(NULL, part_names[part], strlen(part_names[part]));
}

/* ---- Parts ------------------------------------------------------------------------------- */

/* True for members that apply to a call, such as "device". */
static bool is_option(struct td_json_name name, int n_outputs)
{
    return td_common_member_find(name.text, name.length, n_outputs) != TD_COMMON_MEMBER_COUNT;
}

/* Refuses a member that is not a part of a stored program or of a plan. */
static td_status refuse_option(const struct reader *reader, const struct td_json_path *path,
                               struct td_json_name name)
{
    td_json_refuse(
        path, error_of(reader), "%s has no member \"%s\"; expected %s",
        reader->request ? "a plan" : "a stored program", TD_SHOWN(name.text, name.length),
        is_option(name, 2) ? "it in the call that runs the program" : "inputs, steps, outputs");
    td_suggest(error_of(reader), name.text, name.length, part_names, PARTS);
    return TD_MALFORMED_REQUEST;
}

static td_status read_option(struct reader *reader, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct td_attr_value value;
    bool known = false;
    const bool is_plan = reader->builder->form == TD_PROGRAM_PLAN;
    if (!reader->request || (is_plan && is_option(name, 2) && !is_option(name, 0)))
        return refuse_option(reader, path, name);
    td_status status = td_json_attr(scan_of(reader), arena_of(reader), &value, error_of(reader));
    if (status == TD_OK)
        status = td_attrs_set(reader->request, name.text, name.length, &value, arena_of(reader),
                              &known, error_of(reader));
    if (status == TD_OK && !known)
        status =
            td_unknown_member(reader->request, name.text, name.length, TD_MEMBER, error_of(reader));
    if (status != TD_OK)
        td_json_set_pointer(path, error_of(reader));
    return status;
}

/* Keeps {"OUTPUT": NAME} until the outputs are known. */
static td_status skip_store(struct reader *reader)
{
    reader->has_store = true;
    return td_json_skip_unread(scan_of(reader), &reader->store, error_of(reader));
}

static td_status skip_part(void *context, const struct td_json_path *path, struct td_json_name name)
{
    struct reader *reader = context;
    for (int part = 0; part < PARTS; part++) {
        if (!td_json_name_is(name, part_names[part]))
            continue;
        reader->has[part] = true;
        td_json_peek(scan_of(reader));
        return td_json_skip_unread(scan_of(reader), &reader->parts[part], error_of(reader));
    }
    return reader->builder->form == TD_PROGRAM_RUN && td_json_name_is(name, STORE) &&
                   td_json_peek(scan_of(reader)) == '{'
               ? skip_store(reader)
               : read_option(reader, path, name);
}

static td_status read_parts(struct reader *reader)
{
    td_status status = td_json_object(scan_of(reader), NULL, "the body", skip_part, reader,
                                      arena_of(reader), error_of(reader));
    if (status != TD_OK)
        return status;
    td_json_peek(scan_of(reader));
    if (scan_of(reader)->at != scan_of(reader)->end)
        return td_json_syntax(scan_of(reader), scan_of(reader)->at, error_of(reader),
                              "expected the end of the body");
    for (int part = 0; part < PARTS; part++)
        if (!reader->has[part])
            return td_json_refuse(NULL, error_of(reader), "the program has no %s",
                                  part_names[part]);
    return TD_OK;
}

/* Checks that a part that was skipped ends where it was read to. */
static td_status end_part(struct reader *reader, enum part part, td_status status)
{
    struct td_json_skipped skipped = reader->parts[part];
    skipped.scan = *scan_of(reader);
    return status == TD_OK ? td_json_skipped_end(&skipped, error_of(reader)) : status;
}

/* ---- Inputs ------------------------------------------------------------------------------ */

static td_status add_input(struct reader *reader, const struct td_json_path *path,
                           struct td_json_name name)
{
    struct td_program_builder *builder = reader->builder;
    int value;
    td_status status = reader->n_inputs < TD_MAX_INPUTS
                           ? TD_OK
                           : td_error_resource(error_of(reader), "inputs", TD_MAX_INPUTS + 1,
                                               TD_MAX_INPUTS, "the program");
    if (status == TD_OK)
        status = td_builder_value(builder, (struct td_program_value){ .step = -1, .output = -1 },
                                  &value);
    if (status == TD_OK)
        status = td_program_names_add(&builder->names, name.text, name.length, value, -1,
                                      arena_of(reader), error_of(reader));
    if (status != TD_OK)
        td_json_set_pointer(path, error_of(reader));
    return status;
}

/* Sets the summary of a declared input, such as "float32 [n,64]". Errors about a missing input show
 * it. */
static td_status summarize(struct reader *reader, int i, td_dtype dtype)
{
    const struct td_program_builder *builder = reader->builder;
    char shape[TD_PROGRAM_SHAPE_TEXT], text[TD_PROGRAM_SHAPE_TEXT + 16];
    td_program_shape_text(&builder->shapes[i], builder->letters, shape, sizeof(shape));
    snprintf(text, sizeof(text), "%s %s", td_dtype_info(dtype)->name, shape);
    reader->specs[i].summary =
        td_arena_text(arena_of(reader), text, strlen(text), error_of(reader));
    return reader->specs[i].summary ? TD_OK : error_of(reader)->status;
}

/* Reads the tensor of input i, or its declaration. */
static td_status read_value(struct reader *reader, const struct td_json_path *path, int i)
{
    struct td_program_builder *builder = reader->builder;
    struct td_input_spec *spec = &reader->specs[i];
    const struct td_input_spec any = { .dtypes = TD_DTYPES_ALL };
    td_dtype dtype = TD_DTYPE_FLOAT32;
    td_status status;
    if (builder->form != TD_PROGRAM_STORED) {
        builder->source.is_plan = builder->form == TD_PROGRAM_PLAN;
        status = td_json_tensor(&builder->source, NULL, td_json_untyped(&any), path,
                                &reader->tensors[i]);
        builder->source.is_plan = false; /* constants of steps have data */
        return status;
    }
    status = td_declare_input(builder, path, &dtype, &builder->shapes[i]);
    spec->dtypes = (td_dtype_set)1 << dtype;
    spec->plain_as_dtype = true;
    return status == TD_OK ? summarize(reader, i, dtype) : status;
}

static td_status read_input(void *context, const struct td_json_path *path,
                            struct td_json_name name)
{
    struct reader *reader = context;
    struct td_error *err = error_of(reader);
    td_status status = add_input(reader, path, name);
    if (status != TD_OK)
        return status;
    const int i = reader->n_inputs++;
    const char *own = reader->builder->names.at[i].text;
    reader->specs[i] = (struct td_input_spec){ .name = own,
                                               .summary = "An input of the program.",
                                               .dtypes = TD_DTYPES_ALL };
    status = read_value(reader, path, i);
    if (status == TD_RESOURCE_LIMIT && !err->has_pointer)
        td_json_set_pointer(path, err);
    return status == TD_OK ? TD_OK : td_error_at_input(err, status, "%s", own);
}

static td_status read_inputs(struct reader *reader)
{
    const struct td_json_path path = path_of(INPUTS);
    reader->specs =
        td_arena_alloc(arena_of(reader), TD_MAX_INPUTS, sizeof(reader->specs[0]), error_of(reader));
    reader->tensors = td_arena_alloc(arena_of(reader), TD_MAX_INPUTS, sizeof(reader->tensors[0]),
                                     error_of(reader));
    reader->builder->shapes = td_arena_alloc(arena_of(reader), TD_MAX_INPUTS,
                                             sizeof(reader->builder->shapes[0]), error_of(reader));
    if (!reader->specs || !reader->tensors || !reader->builder->shapes)
        return error_of(reader)->status;
    *scan_of(reader) = reader->parts[INPUTS].scan;
    const td_status status = td_json_object(scan_of(reader), &path, "inputs", read_input, reader,
                                            arena_of(reader), error_of(reader));
    return end_part(reader, INPUTS, status);
}

/* ---- Steps ------------------------------------------------------------------------------- */

static td_status skip_step(void *context, const struct td_json_path *path)
{
    struct reader *reader = context;
    struct td_json_skipped object;
    td_json_peek(scan_of(reader));
    td_status status = td_json_skip_unread(scan_of(reader), &object, error_of(reader));
    if (status == TD_OK)
        status = td_builder_step(reader->builder, &object);
    if (status == TD_RESOURCE_LIMIT)
        td_json_set_pointer(path->up, error_of(reader));
    return status;
}

static td_status read_steps(struct reader *reader)
{
    struct td_program_builder *builder = reader->builder;
    const struct td_json_path path = path_of(STEPS);
    *scan_of(reader) = reader->parts[STEPS].scan;
    td_status status =
        td_json_list(scan_of(reader), &path, "steps", skip_step, reader, error_of(reader));
    status = end_part(reader, STEPS, status);
    if (status == TD_OK && builder->n_steps == 0)
        return td_json_refuse(&path, error_of(reader),
                              "steps is empty; expected at least one step");
    for (int s = 0; s < builder->n_steps && status == TD_OK; s++)
        status = td_step_read_head(builder, s, &path);
    for (int s = 0; s < builder->n_steps && status == TD_OK; s++)
        status = td_step_read_arguments(builder, s, &path);
    return status;
}

/* ---- Outputs ----------------------------------------------------------------------------- */

static td_status read_output(void *context, const struct td_json_path *path)
{
    struct reader *reader = context;
    struct td_program_builder *builder = reader->builder;
    const char *text = "";
    size_t length = 0;
    int value;
    td_status status = td_json_text(scan_of(reader), arena_of(reader), path, "an output", &text,
                                    &length, error_of(reader));
    if (status != TD_OK)
        return status;
    status = td_program_names_use(&builder->names, text, length, builder->n_steps, &value,
                                  error_of(reader));
    if (status != TD_OK) {
        td_json_set_pointer(path, error_of(reader));
        return status;
    }
    if (reader->n_outputs == TD_MAX_OUTPUTS) {
        td_error_resource(error_of(reader), "outputs", TD_MAX_OUTPUTS + 1, TD_MAX_OUTPUTS,
                          "the program");
        td_json_set_pointer(path->up, error_of(reader));
        return TD_RESOURCE_LIMIT;
    }
    if (builder->values[value].step < 0)
        return td_json_refuse(path, error_of(reader),
                              "\"%s\" is an input; expected the result of a step",
                              TD_SHOWN(text, length));
    if (builder->values[value].output >= 0)
        return td_json_refuse(path, error_of(reader), "\"%s\" is given twice",
                              TD_SHOWN(text, length));
    builder->values[value].output = reader->n_outputs;
    reader->outputs[reader->n_outputs] = value;
    reader->output_specs[reader->n_outputs++] =
        (struct td_output_spec){ .name = td_program_names_of(&builder->names, value),
                                 .summary = "A result of the program.",
                                 .shape_rule = "set by the steps",
                                 .dtypes = TD_DTYPES_ALL };
    return TD_OK;
}

static td_status read_outputs(struct reader *reader)
{
    const struct td_json_path path = path_of(OUTPUTS);
    const size_t most = (size_t)reader->builder->names.count;
    reader->outputs =
        td_arena_alloc(arena_of(reader), most, sizeof(reader->outputs[0]), error_of(reader));
    reader->output_specs =
        td_arena_alloc(arena_of(reader), most, sizeof(reader->output_specs[0]), error_of(reader));
    if (!reader->outputs || !reader->output_specs)
        return error_of(reader)->status;
    *scan_of(reader) = reader->parts[OUTPUTS].scan;
    td_status status =
        td_json_list(scan_of(reader), &path, "outputs", read_output, reader, error_of(reader));
    status = end_part(reader, OUTPUTS, status);
    if (status == TD_OK && reader->n_outputs == 0)
        return td_json_refuse(&path, error_of(reader),
                              "outputs is empty; expected the names of results");
    return status;
}

/* Adds a hint to the error about an unused name if a step has the name without "$". */
static void hint_use(const struct td_program_builder *builder, const char *name,
                     struct td_error *err)
{
    int step = 0, table = 0;
    while (step < builder->n_steps &&
           !(builder->texts[step].string &&
             td_name_is(name, builder->texts[step].string, builder->texts[step].string_length)))
        step++;
    while (table < builder->n_tables &&
           !td_name_is(name, builder->tables[table].name, builder->tables[table].length))
        table++;
    if (step < builder->n_steps)
        td_error_hint(err, "step %d has \"%s\" without \"$\"", step, name);
    else if (table < builder->n_tables)
        td_error_hint(err, "step %d has the resident tensor {\"ref\": \"%s\"} instead",
                      builder->tables[table].step, name);
}

/* Refuses an input or a result that is never used. */
static td_status check_uses(struct reader *reader)
{
    const struct td_program_names *names = &reader->builder->names;
    const struct td_json_path inputs = path_of(INPUTS), steps = path_of(STEPS);
    for (int i = 0; i < names->count; i++) {
        const struct td_program_name *name = &names->at[i];
        if (name->used)
            continue;
        const struct td_json_path input = td_json_member(&inputs, name->text, strlen(name->text));
        const struct td_json_path step = { .up = &steps, .index = name->step };
        const struct td_json_path as = td_json_member(&step, "as", 2);
        td_json_refuse(name->step < 0 ? &input : &as, error_of(reader),
                       "nothing uses \"%s\"; remove it, or use it in a later step as \"$%s\", or "
                       "in outputs",
                       name->text, name->text);
        hint_use(reader->builder, name->text, error_of(reader));
        return TD_MALFORMED_REQUEST;
    }
    return TD_OK;
}

/* ---- The program ------------------------------------------------------------------------- */

static td_status read_program(struct reader *reader)
{
    td_status status = read_parts(reader);
    if (status == TD_OK)
        status = read_inputs(reader);
    if (status == TD_OK)
        status = read_steps(reader);
    if (status == TD_OK)
        status = read_outputs(reader);
    return status == TD_OK ? check_uses(reader) : status;
}

static void describe_program(struct reader *reader)
{
    struct td_program_builder *builder = reader->builder;
    *builder->program = (struct td_program){
        .op = { .name = builder->form == TD_PROGRAM_PLAN ? "programs/plan" : "programs/run",
                .summary = "Runs a program.",
                .inputs = reader->specs,
                .n_inputs = reader->n_inputs,
                .attrs = builder->arguments,
                .n_attrs = builder->n_arguments,
                .outputs = reader->output_specs,
                .n_outputs = reader->n_outputs },
        .values = builder->values,
        .n_values = builder->n_values,
        .steps = builder->steps,
        .n_steps = builder->n_steps,
        .n_operands = builder->n_operands,
        .completed_bytes = builder->untyped_bytes,
        .outputs = reader->outputs,
        .shapes = builder->form == TD_PROGRAM_STORED ? builder->shapes : NULL,
        .letters = builder->letters,
        .n_letters = builder->n_letters,
        .complete = td_step_complete,
        .explain = td_step_explain,
        .context = builder,
    };
    td_program_describe(builder->program, reader->specs);
}

static td_status read_store(struct reader *reader)
{
    const struct td_json_path path = td_json_member(NULL, STORE, strlen(STORE));
    if (!reader->has_store)
        return TD_OK;
    *scan_of(reader) = reader->store.scan;
    const td_status status = td_json_store(&reader->builder->source, reader->request, &path);
    reader->store.scan = *scan_of(reader);
    return status == TD_OK ? td_json_skipped_end(&reader->store, error_of(reader)) : status;
}

static td_status set_request(struct reader *reader)
{
    struct td_request *request = reader->request;
    const struct td_common_members common = request->common;
    const bool has_no_output = request->has_no_output;
    td_request_init(request, &reader->builder->program->op);
    request->common = common;
    request->has_no_output = has_no_output;
    request->has_complex_base64 = reader->builder->source.has_complex_base64;
    for (int i = 0; i < reader->n_inputs; i++)
        request->args.inputs[i] = (struct td_operand){ &reader->tensors[i], 1 };
    return read_store(reader);
}

static struct td_program_builder *begin(td_program_form form, const char *text, size_t bytes,
                                        struct td_resolver *resolver, struct td_arena *arena,
                                        struct td_error *err)
{
    struct td_program_builder *builder = td_arena_alloc(arena, 1, sizeof(*builder), err);
    struct td_program *program = td_arena_alloc(arena, 1, sizeof(*program), err);
    if (!builder || !program)
        return NULL;
    memset(builder, 0, sizeof(*builder));
    builder->source =
        (struct td_json_source){ .scan = { .begin = text, .at = text, .end = text + bytes },
                                 .resolver = resolver,
                                 .arena = arena,
                                 .err = err };
    builder->form = form;
    builder->program = program;
    return builder;
}

td_status td_program_read_request(td_program_form form, const char *body, size_t bytes,
                                  struct td_resolver *resolver, struct td_arena *arena,
                                  struct td_request *request, struct td_error *err)
{
    struct reader reader = { .builder = begin(form, body, bytes, resolver, arena, err),
                             .request = request };
    request->other_members = part_names;
    const td_status status = reader.builder ? read_program(&reader) : err->status;
    if (status != TD_OK)
        return status;
    describe_program(&reader);
    return set_request(&reader);
}

td_status td_program_read_declared(const char *text, size_t bytes, struct td_arena *arena,
                                   struct td_program_builder **out, struct td_error *err)
{
    struct reader reader = { .builder = begin(TD_PROGRAM_STORED, text, bytes, NULL, arena, err) };
    const td_status status = reader.builder ? read_program(&reader) : err->status;
    if (status != TD_OK)
        return status;
    describe_program(&reader);
    *out = reader.builder;
    return TD_OK;
}
