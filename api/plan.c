#include "api/plan.h"

#include "api/json/values.h"
#include "api/message/attrs.h"
#include "api/text/suggest.h"
#include "api/text/text.h"
#include "kernels/name.h"
#include "kernels/op_check.h"
#include "kernels/op_plan.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the request ---- */

/* Members that a request has in addition to the attributes of the op. */
#define SHAPES "shapes"
#define DTYPE  "dtype"

struct reader {
    struct td_json_scan scan;
    struct td_arena *arena;
    struct td_request *request;
    struct td_error *err;
    bool has_shapes, has_dtype;
    struct td_shape *shapes; /* array of `most` shapes */
    int n_shapes, most;
    td_dtype dtype;
};

static td_status read_attr(struct reader *reader, const struct td_json_path *path)
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
                 "there are more than %d shapes; %s takes 1 to %d inputs", reader->most,
                 reader->request->op->name, reader->most);
    td_json_set_pointer(step, reader->err);
    return td_error_at_attribute(reader->err, TD_INVALID_ARGUMENT, SHAPES);
}

static td_status read_shapes(struct reader *reader, const struct td_json_path *path)
{
    struct td_json_scan *scan = &reader->scan;
    const char c = td_json_peek(scan);
    const char *kind = td_json_value_kind(scan);
    if (!kind)
        return td_json_syntax(scan, scan->at, reader->err, "expected a list of shapes");
    if (c != '[')
        return td_json_refuse(path, reader->err, "shapes is %s; expected a list of shapes", kind);
    bool more;
    td_status status = td_json_open(scan, '[', ']', &more, reader->err);
    while (status == TD_OK && more) {
        const struct td_json_path step = { .up = path, .index = reader->n_shapes };
        if (reader->n_shapes == reader->most)
            return too_many(reader, &step);
        status = td_json_shape(scan, &step, &reader->shapes[reader->n_shapes++], reader->err);
        if (status == TD_OK)
            status = td_json_next(scan, ']', &more, reader->err);
    }
    return status;
}

static td_status unknown_member(struct reader *reader, const struct td_json_path *path)
{
    const struct td_op *op = reader->request->op;
    const char *names[TD_MAX_ATTRS + 2];
    char listed[256];
    int n = 0;
    for (int i = 0; i < op->n_attrs; i++)
        names[n++] = op->attrs[i].name;
    names[n++] = SHAPES;
    names[n++] = DTYPE;
    td_json_refuse(path, reader->err, "a plan has no member \"%s\"; expected %s",
                   TD_SHOWN(path->key, path->key_length),
                   td_names_text(names, n, listed, sizeof listed));
    td_suggest(reader->err, path->key, path->key_length, names, n);
    return TD_MALFORMED_REQUEST;
}

static bool is_attr(const struct td_op *op, const struct td_json_path *path)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (td_name_is(op->attrs[i].name, path->key, path->key_length))
            return true;
    return false;
}

static td_status read_member(struct reader *reader, const struct td_json_path *path)
{
    const bool is_shapes = td_name_is(SHAPES, path->key, path->key_length);
    if (is_attr(reader->request->op, path))
        return read_attr(reader, path);
    if (!is_shapes && !td_name_is(DTYPE, path->key, path->key_length))
        return unknown_member(reader, path);
    bool *given = is_shapes ? &reader->has_shapes : &reader->has_dtype;
    if (*given)
        return given_twice(reader, path);
    *given = true;
    return is_shapes
               ? read_shapes(reader, path)
               : td_json_dtype(&reader->scan, reader->arena, path, &reader->dtype, reader->err);
}

static td_status read_document(struct reader *reader)
{
    struct td_json_scan *scan = &reader->scan;
    const char c = td_json_peek(scan);
    const char *kind = td_json_value_kind(scan);
    if (c != '{' && kind)
        return td_json_refuse(
            NULL, reader->err,
            "the body is %s; expected a JSON object with shapes instead of tensors", kind);
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

/* Sets the inputs to tensors without data, because infer uses only shapes. */
static td_status set_inputs(struct reader *reader)
{
    struct td_operand *inputs = &reader->request->args.inputs[0];
    if (reader->n_shapes == 0) {
        td_error_set(reader->err, TD_INVALID_ARGUMENT, "%s; expected a list of 1 to %d shapes",
                     reader->has_shapes ? "shapes is empty" : "shapes is missing", reader->most);
        return td_error_at_attribute(reader->err, TD_INVALID_ARGUMENT, SHAPES);
    }
    inputs->tensors = td_arena_alloc(reader->arena, (size_t)reader->n_shapes,
                                     sizeof *inputs->tensors, reader->err);
    if (!inputs->tensors)
        return reader->err->status;
    for (int i = 0; i < reader->n_shapes; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s[%d]", reader->request->op->inputs[0].name, i);
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

static void add_path(struct td_text *text, const struct td_plan *plan)
{
    td_text_string(text, ",\"path\":[");
    for (int i = 0; i < plan->n_path; i++) {
        td_text_print(text, "%s[%d", i ? "," : "", plan->path[i][0]);
        if (plan->path[i][1] >= 0)
            td_text_print(text, ",%d", plan->path[i][1]);
        td_text_string(text, "]");
    }
    td_text_string(text, "]");
}

static void add_step(struct td_text *text, const struct td_plan *plan, int number)
{
    const struct td_plan_step *step = &plan->steps[number];
    td_text_print(text, "%s{\"operands\":[%d", number ? "," : "", step->operands[0]);
    if (step->operands[1] >= 0)
        td_text_print(text, ",%d", step->operands[1]);
    td_text_print(text, "],\"result\":%d,\"equation\":", plan->n_inputs + number);
    td_text_quote(text, step->equation);
    td_text_print(text, ",\"kind\":\"%s\"", step->kind);
    if (step->is_product)
        td_text_print(text,
                      ",\"batch\":%" PRId64 ",\"m\":%" PRId64 ",\"n\":%" PRId64 ",\"k\":%" PRId64,
                      step->batch, step->m, step->n, step->k);
    add_count(text, ",\"flops\":", step->flops);
    td_text_print(text, ",\"dtype\":\"%s\",\"shape\":[", td_dtype_info(step->dtype)->name);
    td_text_dims(text, step->dims, step->rank);
    add_count(text, "],\"bytes\":", step->bytes);
    td_text_string(text, "}");
}

/* Writes the limits and the names of the limits that the request exceeds, as in RESOURCE_LIMIT
 * errors. */
static void add_limits(struct td_text *text, const struct td_plan *plan, uint64_t output_bytes,
                       const struct td_plan_limits *limits)
{
    const uint64_t capacity = output_bytes < limits->memory ? limits->memory - output_bytes : 0;
    const struct {
        const char *resource;
        bool exceeded;
    } checks[] = {
        { "flops", limits->max_flops > 0 && plan->flops > limits->max_flops },
        { "output_bytes", output_bytes > limits->max_output },
        { "workspace_bytes", output_bytes > limits->memory || plan->workspace > capacity },
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

static void add_plan(struct td_text *text, const struct td_plan *plan,
                     const struct td_tensor *output, const struct td_plan_limits *limits)
{
    td_text_print(text, "{\"output\":{\"dtype\":\"%s\",\"shape\":[",
                  td_dtype_info(output->dtype)->name);
    td_text_dims(text, output->shape.dim, output->shape.rank);
    add_count(text, "],\"bytes\":", output->bytes);
    td_text_string(text, "},\"equation\":");
    td_text_quote(text, plan->equation);
    add_path(text, plan);
    add_count(text, ",\"flops\":", plan->flops);
    add_count(text, ",\"naive_flops\":", plan->naive_flops);
    add_count(text, ",\"largest_intermediate\":{\"elements\":", plan->largest_elements);
    add_count(text, ",\"bytes\":", plan->largest_bytes);
    add_count(text, "},\"workspace_bytes\":", plan->workspace);
    add_limits(text, plan, output->bytes, limits);
    td_text_string(text, ",\"steps\":[");
    for (int i = 0; i < plan->n_steps; i++)
        add_step(text, plan, i);
    td_text_string(text, "]}");
}

/* Prints the plan into larger and larger buffers until it fits, because its length depends on the
 * labels of the equation. */
static td_status write_plan(const struct td_plan *plan, const struct td_tensor *output,
                            const struct td_plan_limits *limits, struct td_arena *arena,
                            struct td_reply *reply, struct td_error *err)
{
    for (size_t capacity = 4096;; capacity *= 4) {
        char *body = td_arena_alloc(arena, capacity, 1, err);
        if (!body)
            return err->status;
        struct td_text text = { .at = body, .end = body + capacity };
        add_plan(&text, plan, output, limits);
        if (text.full)
            continue;
        td_reply_set(reply, 200, "application/json", body, (size_t)(text.at - body));
        return TD_OK;
    }
}

td_status td_plan_reply(const char *body, size_t bytes, const struct td_plan_limits *limits,
                        struct td_arena *arena, struct td_request *request, struct td_reply *reply,
                        struct td_error *err)
{
    const int most = request->op->inputs[0].list ? request->op->inputs[0].most : 1;
    struct td_plan plan;
    struct reader reader = {
        .scan = { .begin = body, .at = body, .end = body + bytes },
        .arena = arena,
        .request = request,
        .err = err,
        .dtype = TD_DTYPE_FLOAT32,
        .shapes = td_arena_alloc(arena, (size_t)most, sizeof *reader.shapes, err),
        .most = most,
    };
    if (!reader.shapes)
        return err->status;
    td_status status = read_document(&reader);
    if (status == TD_OK)
        status = set_inputs(&reader);
    if (status == TD_OK)
        status = td_op_infer(request->op, &request->args, arena, err);
    if (status == TD_OK)
        status = request->op->explain(&request->args, limits->threads, arena, &plan, err);
    return status == TD_OK ? write_plan(&plan, &request->args.outputs[0], limits, arena, reply, err)
                           : status;
}
