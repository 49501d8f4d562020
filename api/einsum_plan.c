#include "api/einsum_plan.h"

#include "api/json/values.h"
#include "api/text/suggest.h"
#include "api/text/text.h"
#include "kernels/einsum/plan.h"
#include "kernels/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the request ---- */

static const char *const member_names[] = { "equation", "shapes", "dtype" };
enum { N_MEMBERS = sizeof member_names / sizeof *member_names };

struct reader {
    struct td_json_scan scan;
    struct td_arena *arena;
    struct td_request *request;
    struct td_error *err;
    bool has_shapes, has_dtype;
    struct td_shape shapes[TD_EINSUM_MAX_INPUTS];
    int n_shapes;
    td_dtype dtype;
};

static td_status read_equation(struct reader *reader, const struct td_json_path *path)
{
    struct td_attr_value value;
    bool known;
    td_status status = td_json_attr(&reader->scan, reader->arena, &value, reader->err);
    if (status != TD_OK)
        return status;
    status = td_attrs_set(reader->request, path->key, path->key_length, &value, reader->arena,
                          &known, reader->err);
    if (status != TD_OK)
        td_json_set_pointer(path, reader->err);
    return status;
}

static td_status given_twice(struct reader *reader, const struct td_json_path *path)
{
    return td_json_refuse(path, reader->err, "%s is given twice",
                          TD_SHOWN(path->key, path->key_length));
}

static td_status too_many(struct reader *reader, const struct td_json_path *step)
{
    td_error_set(reader->err, TD_INVALID_ARGUMENT,
                 "there are more than %d shapes; einsum takes 1 to %d inputs", TD_EINSUM_MAX_INPUTS,
                 TD_EINSUM_MAX_INPUTS);
    td_json_set_pointer(step, reader->err);
    return td_error_at_attribute(reader->err, TD_INVALID_ARGUMENT, "shapes");
}

static td_status read_shapes(struct reader *reader, const struct td_json_path *path)
{
    struct td_json_scan *scan = &reader->scan;
    const char c = td_json_peek(scan);
    const char *kind = td_json_value_kind(scan);
    if (!kind)
        return td_json_syntax(scan, scan->at, reader->err, "expected a list of shapes");
    if (c != '[')
        return td_json_refuse(path, reader->err, "shapes is %s; a list of shapes is expected",
                              kind);
    bool more;
    td_status status = td_json_open(scan, '[', ']', &more, reader->err);
    while (status == TD_OK && more) {
        const struct td_json_path step = { .up = path, .index = reader->n_shapes };
        if (reader->n_shapes == TD_EINSUM_MAX_INPUTS)
            return too_many(reader, &step);
        status = td_json_shape(scan, &step, &reader->shapes[reader->n_shapes++], reader->err);
        if (status == TD_OK)
            status = td_json_next(scan, ']', &more, reader->err);
    }
    return status;
}

static td_status unknown_member(struct reader *reader, const struct td_json_path *path)
{
    td_json_refuse(path, reader->err,
                   "a plan has no member \"%s\"; expected equation, shapes or dtype",
                   TD_SHOWN(path->key, path->key_length));
    td_suggest(reader->err, path->key, path->key_length, member_names, N_MEMBERS);
    return TD_MALFORMED_REQUEST;
}

static td_status read_member(struct reader *reader, const struct td_json_path *path)
{
    int member = 0;
    while (member < N_MEMBERS && !td_name_is(member_names[member], path->key, path->key_length))
        member++;
    switch (member) {
    case 0:
        return read_equation(reader, path);
    case 1:
        if (reader->has_shapes)
            return given_twice(reader, path);
        reader->has_shapes = true;
        return read_shapes(reader, path);
    case 2:
        if (reader->has_dtype)
            return given_twice(reader, path);
        reader->has_dtype = true;
        return td_json_dtype(&reader->scan, reader->arena, path, &reader->dtype, reader->err);
    default:
        return unknown_member(reader, path);
    }
}

static td_status read_document(struct reader *reader)
{
    struct td_json_scan *scan = &reader->scan;
    const char c = td_json_peek(scan);
    const char *kind = td_json_value_kind(scan);
    if (c != '{' && kind)
        return td_json_refuse(NULL, reader->err,
                              "the body is %s; a JSON object with equation and shapes is expected",
                              kind);
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, reader->err);
    while (status == TD_OK && more) {
        const char *key = "";
        size_t length = 0;
        status = td_json_key(scan, reader->arena, &key, &length, reader->err);
        if (status != TD_OK)
            return status;
        const struct td_json_path path = td_json_member(NULL, key, length);
        status = read_member(reader, &path);
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, reader->err);
    }
    if (status != TD_OK)
        return status;
    td_json_peek(scan);
    return scan->at == scan->end
               ? TD_OK
               : td_json_syntax(scan, scan->at, reader->err, "expected the end of the body");
}

/* Sets the inputs to tensors without data; infer uses only their shapes. */
static td_status set_inputs(struct reader *reader)
{
    struct td_operand *inputs = &reader->request->args.inputs[0];
    if (reader->n_shapes == 0) {
        td_error_set(reader->err, TD_INVALID_ARGUMENT, "%s; a list of 1 to %d shapes is expected",
                     reader->has_shapes ? "shapes is empty" : "shapes is missing",
                     TD_EINSUM_MAX_INPUTS);
        return td_error_at_attribute(reader->err, TD_INVALID_ARGUMENT, "shapes");
    }
    inputs->tensors = td_arena_alloc(reader->arena, (size_t)reader->n_shapes,
                                     sizeof *inputs->tensors, reader->err);
    if (!inputs->tensors)
        return reader->err->status;
    for (int i = 0; i < reader->n_shapes; i++) {
        char name[32];
        snprintf(name, sizeof name, "inputs[%d]", i);
        const td_status status = td_tensor_describe(&inputs->tensors[i], name, reader->dtype,
                                                    &reader->shapes[i], reader->err);
        if (status != TD_OK)
            return status;
    }
    inputs->count = reader->n_shapes;
    return TD_OK;
}

/* ---- the reply ---- */

static void add_count(struct td_text *text, const char *before, uint64_t value)
{
    td_text_string(text, before);
    td_text_uint(text, value);
}

/* The path as numpy.einsum_path has it: each step removes its operands from a list, by position,
 * and appends its result. */
static void add_path(struct td_text *text, const struct td_einsum_plan *plan)
{
    int list[TD_EINSUM_MAX_INPUTS], n = plan->equation->n_inputs;
    td_text_string(text, ",\"path\":[");
    if (n == 1 && !plan->nothing_to_do)
        td_text_string(text, "[0]");
    for (int i = 0; i < n; i++)
        list[i] = i;
    for (int i = 0; i < plan->n_pairs; i++) {
        int at[2] = { 0, 0 }, kept = 0;
        for (int j = 0; j < n; j++)
            if (list[j] == plan->pairs[i].a)
                at[0] = j;
            else if (list[j] == plan->pairs[i].b)
                at[1] = j;
            else
                list[kept++] = list[j];
        td_text_print(text, "%s[%d,%d]", i ? "," : "", at[0] < at[1] ? at[0] : at[1],
                      at[0] < at[1] ? at[1] : at[0]);
        list[kept++] = plan->equation->n_inputs + i;
        n = kept;
    }
    td_text_string(text, "]");
}

static const char *kind_name(td_contraction_kind kind)
{
    static const char *const names[] = { [TD_CONTRACT_PERMUTE] = "permute",
                                         [TD_CONTRACT_SUMPROD] = "sumprod",
                                         [TD_CONTRACT_GEMM] = "gemm" };
    return names[kind];
}

static uint64_t step_bytes(const struct td_einsum_step *step)
{
    return (uint64_t)step->numel * td_dtype_info(step->dtype)->size;
}

static void add_step(struct td_text *text, const struct td_einsum_plan *plan, int number)
{
    const struct td_einsum_step *step = &plan->steps[number];
    td_text_print(text, "%s{\"operands\":[%d", number ? "," : "", step->a);
    if (step->b >= 0)
        td_text_print(text, ",%d", step->b);
    td_text_print(text, "],\"result\":%d,\"equation\":", plan->equation->n_inputs + number);
    td_text_quote(text, step->equation, strlen(step->equation));
    td_text_print(text, ",\"kind\":\"%s\"", kind_name(step->contraction.kind));
    if (step->contraction.kind == TD_CONTRACT_GEMM) {
        const struct td_gemm_sizes sizes = td_contraction_gemm_sizes(&step->contraction);
        td_text_print(text,
                      ",\"batch\":%" PRId64 ",\"m\":%" PRId64 ",\"n\":%" PRId64 ",\"k\":%" PRId64,
                      sizes.batch, sizes.m, sizes.n, sizes.k);
    }
    add_count(text, ",\"flops\":", step->flops);
    td_text_print(text, ",\"dtype\":\"%s\",\"shape\":[", td_dtype_info(step->dtype)->name);
    for (int i = 0; i < step->result.rank; i++)
        td_text_print(text, "%s%" PRId64, i ? "," : "",
                      plan->equation->extent[step->result.label[i]]);
    add_count(text, "],\"bytes\":", step_bytes(step));
    td_text_string(text, "}");
}

/* Size of the largest intermediate result in bytes. That may be another one than the largest in
 * elements: 16-bit operands are 32 bits wide between steps. */
static uint64_t largest_bytes(const struct td_einsum_plan *plan, const struct td_tensor *output)
{
    uint64_t largest = output->bytes;
    for (int i = 0; !plan->nothing_to_do && i < plan->n_steps; i++)
        largest = step_bytes(&plan->steps[i]) > largest ? step_bytes(&plan->steps[i]) : largest;
    return largest;
}

/* Writes the limits and those that the request exceeds, with the names that RESOURCE_LIMIT has. */
static void add_limits(struct td_text *text, const struct td_einsum_plan *plan,
                       uint64_t output_bytes, uint64_t workspace,
                       const struct td_plan_limits *limits)
{
    const uint64_t capacity = output_bytes < limits->memory ? limits->memory - output_bytes : 0;
    const struct {
        const char *resource;
        bool exceeded;
    } checks[] = {
        { "flops", limits->max_flops > 0 && plan->flops > limits->max_flops },
        { "output_bytes", output_bytes > limits->max_output },
        { "workspace_bytes", output_bytes > limits->memory || workspace > capacity },
    };
    bool any = false;
    add_count(text, ",\"limits\":{\"max_flops\":", limits->max_flops);
    add_count(text, ",\"max_output\":", limits->max_output);
    add_count(text, ",\"memory_limit\":", limits->memory);
    td_text_string(text, "},\"exceeds\":[");
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].exceeded) {
            td_text_print(text, "%s\"%s\"", any ? "," : "", checks[i].resource);
            any = true;
        }
    td_text_print(text, "],\"admitted\":%s", any ? "false" : "true");
}

static void add_plan(struct td_text *text, const struct td_op_args *args,
                     const struct td_plan_limits *limits)
{
    const struct td_einsum_plan *plan = args->plan;
    const struct td_tensor *output = &args->outputs[0];
    const uint64_t workspace = td_einsum_plan_workspace(plan, limits->threads);
    td_text_print(text, "{\"output\":{\"dtype\":\"%s\",\"shape\":[",
                  td_dtype_info(output->dtype)->name);
    td_text_dims(text, &output->shape);
    add_count(text, "],\"bytes\":", output->bytes);
    td_text_string(text, "}");
    add_path(text, plan);
    add_count(text, ",\"flops\":", plan->flops);
    add_count(text, ",\"naive_flops\":", plan->naive_flops);
    add_count(text, ",\"largest_intermediate\":{\"elements\":", plan->largest_intermediate);
    add_count(text, ",\"bytes\":", largest_bytes(plan, output));
    add_count(text, "},\"workspace_bytes\":", workspace);
    add_limits(text, plan, output->bytes, workspace, limits);
    td_text_string(text, ",\"steps\":[");
    for (int i = 0; !plan->nothing_to_do && i < plan->n_steps; i++)
        add_step(text, plan, i);
    td_text_string(text, "]}");
}

/* Prints into larger and larger buffers until the plan fits: its length depends on its labels. */
static td_status write_plan(const struct td_op_args *args, const struct td_plan_limits *limits,
                            struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    for (size_t capacity = 4096;; capacity *= 4) {
        char *body = td_arena_alloc(arena, capacity, 1, err);
        if (!body)
            return err->status;
        struct td_text text = { .at = body, .end = body + capacity };
        add_plan(&text, args, limits);
        if (text.full)
            continue;
        td_reply_set(reply, 200, "application/json", body, (size_t)(text.at - body));
        return TD_OK;
    }
}

td_status td_einsum_plan_reply(const char *body, size_t bytes, const struct td_plan_limits *limits,
                               struct td_arena *arena, struct td_request *request,
                               struct td_reply *reply, struct td_error *err)
{
    struct reader reader = {
        .scan = { .begin = body, .at = body, .end = body + bytes },
        .arena = arena,
        .request = request,
        .err = err,
        .dtype = TD_DTYPE_FLOAT32,
    };
    td_status status = read_document(&reader);
    if (status == TD_OK)
        status = set_inputs(&reader);
    if (status == TD_OK)
        status = td_op_infer(request->op, &request->args, arena, err);
    return status == TD_OK ? write_plan(&request->args, limits, arena, reply, err) : status;
}
