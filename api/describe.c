#include "api/describe.h"

#include "api/message/document.h"
#include "api/message/problem.h"
#include "api/text/text.h"
#include "kernels/op_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool add_endpoint(cJSON *object, const char *name, const char *before, const char *op,
                         const char *after)
{
    char endpoint[128];
    snprintf(endpoint, sizeof endpoint, "%s%s%s", before, op, after);
    return td_document_text(object, name, endpoint);
}

/* ---- ops ---- */

/* Family of each op, in the order of td_ops: its folder in kernels/. */
static const char *const families[TD_OP_COUNT] = {
#define TD_OP(folder, name) #folder,
#include "kernels/ops.def"
#undef TD_OP
};

td_status td_describe_ops(struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    cJSON *document = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(document, "ops");
    bool complete = list != NULL;
    for (int i = 0; i < count && complete; i++) {
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) && td_document_text(item, "name", ops[i]->name) &&
                   td_document_text(item, "family", families[i]) &&
                   td_document_text(item, "summary", ops[i]->summary) &&
                   add_endpoint(item, "endpoint", "POST /v1/", ops[i]->name, "") &&
                   add_endpoint(item, "href", "/v1/ops/", ops[i]->name, "");
    }
    cJSON *table_ops = cJSON_AddObjectToObject(document, "table_ops");
    cJSON *table_parts = cJSON_AddArrayToObject(document, "table_parts");
    complete = complete && table_parts;
    for (int i = 0; complete && td_op_table_part(i); i++)
        complete = td_document_append(table_parts, cJSON_CreateString(td_op_table_part(i)));
    complete = complete && td_document_text(table_ops, "rows", td_table_op->name) &&
               td_document_text(table_ops, "row_numbers", td_row_numbers_op->name) &&
               td_document_text(table_ops, "nearest_rows", td_nearest_rows_op->name);
    return td_document_reply(document, complete, arena, reply, err);
}

static bool add_inputs(cJSON *document, const struct td_op *op)
{
    cJSON *list = cJSON_AddArrayToObject(document, "inputs");
    bool complete = list != NULL;
    for (int i = 0; i < op->n_inputs && complete; i++) {
        const struct td_input_spec *spec = &op->inputs[i];
        cJSON *item = cJSON_CreateObject();
        complete =
            td_document_append(list, item) && td_document_text(item, "name", spec->name) &&
            td_document_text(item, "summary", spec->summary) &&
            td_document_text(item, "role", td_role_name(spec->role)) &&
            td_document_add(item, "optional",
                            cJSON_CreateBool(td_op_input_may_be_omitted(op, i))) &&
            td_document_add(item, "list", cJSON_CreateBool(spec->list)) &&
            td_document_add(item, "keys", cJSON_CreateBool(td_input_is_row_numbers(spec))) &&
            (spec->part == TD_ROW_PART_NONE ||
             td_document_text(item, "part", td_row_part_name(spec->part))) &&
            (!spec->aligned_with || td_document_text(item, "aligned_with", spec->aligned_with)) &&
            td_document_add(item, "dtypes", td_document_dtypes(spec->dtypes));
    }
    return complete;
}

static bool add_attr_name(cJSON *object, const char *name, const struct td_op *op, int attr)
{
    return attr == TD_ROWS_NONE || td_document_text(object, name, op->attrs[attr].name);
}

/* If the op picks rows of a table, adds the members that show from which queries a cell of the
 * output comes. */
static bool add_rows(cJSON *document, const struct td_op *op)
{
    const struct td_op_rows *rows = op->rows;
    if (!rows)
        return true;
    cJSON *item = cJSON_AddObjectToObject(document, "rows");
    return td_document_add(item, "query_rank", cJSON_CreateNumber(rows->query_rank)) &&
           add_attr_name(item, "axis", op, rows->axis_attr) &&
           (rows->batch_attr == TD_ROWS_NONE
                ? td_document_add(item, "batch_dims", cJSON_CreateNumber(rows->batch_dims))
                : add_attr_name(item, "batch_dims", op, rows->batch_attr)) &&
           (!rows->bags || add_attr_name(item, "skip", op, rows->bags->skip_attr));
}

static bool add_outputs(cJSON *document, const struct td_op *op)
{
    cJSON *list = cJSON_AddArrayToObject(document, "outputs");
    bool complete = list != NULL;
    for (int i = 0; i < op->n_outputs && complete; i++) {
        const struct td_output_spec *spec = &op->outputs[i];
        cJSON *item = cJSON_CreateObject();
        complete =
            td_document_append(list, item) && td_document_text(item, "name", spec->name) &&
            td_document_text(item, "summary", spec->summary) &&
            td_document_add(item, "list", cJSON_CreateBool(spec->list)) &&
            td_document_add(item, "dtypes", td_document_dtypes(td_op_output_dtypes(op, spec))) &&
            (!spec->dtype_of || td_document_text(item, "dtype_of", spec->dtype_of)) &&
            (!spec->dtype_rule || td_document_text(item, "dtype_rule", spec->dtype_rule)) &&
            td_document_text(item, "shape_rule", spec->shape_rule);
    }
    return complete;
}

static bool add_attrs(cJSON *document, const struct td_op *op)
{
    cJSON *list = cJSON_AddArrayToObject(document, "attributes");
    bool complete = list != NULL;
    for (int i = 0; i < op->n_attrs && complete; i++) {
        const struct td_attr_spec *spec = &op->attrs[i];
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) && td_document_text(item, "name", spec->name) &&
                   td_document_text(item, "summary", spec->summary) && td_document_attr(item, spec);
    }
    return complete;
}

static bool add_error(cJSON *list, td_status status)
{
    const struct td_problem *problem = td_problem_of(status);
    cJSON *item = cJSON_CreateObject();
    return td_document_append(list, item) &&
           td_document_text(item, "code", td_status_name(status)) &&
           td_document_add(item, "status", cJSON_CreateNumber(problem->http_status)) &&
           add_endpoint(item, "type", "/problems/", problem->slug, "");
}

/* Adds the errors of the op. If keys can replace row numbers, also adds the error for unknown keys,
 * which the op itself cannot return. */
static bool add_errors(cJSON *document, const struct td_op *op)
{
    cJSON *list = cJSON_AddArrayToObject(document, "errors");
    bool complete = list != NULL, takes_keys = false;
    for (int i = 0; op->errors[i] != TD_OK && complete; i++)
        complete = add_error(list, op->errors[i]);
    for (int i = 0; i < op->n_inputs; i++)
        takes_keys |= td_input_is_row_numbers(&op->inputs[i]);
    return complete && (!takes_keys || add_error(list, TD_KEY_NOT_FOUND));
}

/* Adds the first example, with the endpoint to send it to, and the list of all examples. */
static bool add_examples(cJSON *document, const struct td_op *op)
{
    const struct td_op_example *at = op->examples;
    cJSON *first = cJSON_AddObjectToObject(document, "example");
    bool complete = add_endpoint(first, "endpoint", "POST /v1/", op->name, "") &&
                    td_document_add(first, "request", cJSON_CreateRaw(at->request));
    cJSON *list = cJSON_AddArrayToObject(document, "examples");
    for (; at->title && complete; at++) {
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(list, item) && td_document_text(item, "title", at->title) &&
                   td_document_add(item, "request", cJSON_CreateRaw(at->request));
    }
    return complete;
}

td_status td_describe_op(const struct td_op *op, struct td_arena *arena, struct td_reply *reply,
                         struct td_error *err)
{
    cJSON *document = cJSON_CreateObject();
    bool complete =
        td_document_text(document, "name", op->name) &&
        td_document_text(document, "summary", op->summary) &&
        td_document_text(document, "source", op->source) &&
        add_endpoint(document, "endpoint", "POST /v1/", op->name, "") &&
        (!op->explain || add_endpoint(document, "plan", "POST /v1/", op->name, "/plan")) &&
        add_inputs(document, op) && add_rows(document, op) && add_attrs(document, op) &&
        td_document_text(document, "output",
                         td_op_output_form(op) == TD_OUTPUT_ONE ? "output" : "outputs") &&
        (op->n_outputs > 1 ||
         td_document_text(document, "shape_rule", op->outputs[0].shape_rule)) &&
        add_outputs(document, op) &&
        td_document_add(document, "max_rank", cJSON_CreateNumber(TD_MAX_RANK)) &&
        add_errors(document, op) && add_examples(document, op);
    return td_document_reply(document, complete, arena, reply, err);
}

/* ---- tensors ---- */

/* Maximum length of a listing without name, source and ETag: 16 dimensions, seven more numbers of
 * at most 20 digits, and the names of the members. */
#define LISTING_TEXT 800

/* Maximum length of the name and ETag of a stored output. In JSON, the name needs no escapes, and
 * the ETag needs escapes only for its quotes. A stored output has no source. */
#define MOST_STORED 256

/* Returns the maximum length of a listing. In JSON, each byte of a string can take six bytes. */
static size_t listing_size(const struct td_tensor_listing *listing)
{
    return LISTING_TEXT + 6 * (strlen(listing->name) + strlen(listing->etag) +
                               (listing->source ? strlen(listing->source) : 0));
}

static void add_member(struct td_text *text, const char *name, const char *value)
{
    td_text_string(text, name);
    td_text_quote(text, value);
}

static void add_count(struct td_text *text, const struct td_row_count *rows)
{
    td_text_string(text, ",\"");
    td_text_string(text, rows->name);
    td_text_string(text, "\":");
    td_text_uint(text, (uint64_t)rows->count);
}

static const char *const integrity_names[] = { [TD_INTEGRITY_NONE] = "none",
                                               [TD_INTEGRITY_PENDING] = "pending",
                                               [TD_INTEGRITY_VERIFIED] = "verified",
                                               [TD_INTEGRITY_DAMAGED] = "damaged" };

/* Writes a listing. Does not use cJSON, which would be slow because a reply can have thousands of
 * listings. */
static void add_listing(struct td_text *text, const struct td_tensor_listing *listing)
{
    const struct td_tensor *tensor = listing->tensor;
    add_member(text, "{\"name\":", listing->name);
    add_member(text, ",\"dtype\":", td_dtype_info(tensor->dtype)->name);
    td_text_string(text, ",\"shape\":[");
    td_text_dims(text, tensor->shape.dim, tensor->shape.rank);
    td_text_string(text, "],\"bytes\":");
    td_text_uint(text, td_tensor_footprint(tensor));
    td_text_string(text, ",\"version\":");
    td_text_uint(text, listing->version);
    add_member(text, ",\"etag\":", listing->etag);
    if (listing->keys)
        add_member(text, ",\"keys\":", td_dtype_info(listing->keys->dtype)->name);
    if (listing->source)
        add_member(text, ",\"source\":", listing->source);
    if (listing->source)
        add_member(text, ",\"checksum\":", integrity_names[listing->integrity]);
    if (listing->ttl_s)
        td_text_print(text, ",\"ttl_s\":%" PRId64, listing->ttl_s);
    if (listing->device)
        add_member(text, ",\"device\":", listing->device);
    for (int i = 0; i < 2 && listing->rows[i].name; i++)
        add_count(text, &listing->rows[i]);
    td_text_string(text, listing->persisted ? ",\"persisted\":true}" : ",\"persisted\":false}");
}

/* Allocates a text of `capacity` bytes. Returns false with err filled if memory is exhausted. */
static bool begin_text(struct td_text *text, size_t capacity, struct td_arena *arena,
                       struct td_error *err)
{
    text->at = td_arena_alloc(arena, capacity, 1, err);
    text->end = text->at ? text->at + capacity : NULL;
    text->full = false;
    return text->at != NULL;
}

/* Writes listings separated by commas, without brackets. If `named` is not NULL, precedes each
 * listing with the name of this request's output. */
static void add_listings(struct td_text *text, const struct td_request *named,
                         const struct td_tensor_listing *list, int count)
{
    for (int i = 0; i < count; i++) {
        td_text_string(text, i > 0 ? "," : "");
        if (named) {
            td_text_quote(text, named->op->outputs[td_request_output_index(named, i)].name);
            td_text_string(text, ":");
        }
        add_listing(text, &list[i]);
    }
}

static size_t listings_size(const struct td_tensor_listing *list, int count)
{
    size_t capacity = LISTING_TEXT;
    for (int i = 0; i < count; i++)
        capacity += listing_size(&list[i]);
    return capacity;
}

static void reply_with_text(const char *begin, const struct td_text *text, struct td_reply *reply)
{
    assert(!text->full);
    td_reply_set(reply, 200, "application/json", begin, (size_t)(text->at - begin));
}

td_status td_describe_tensors(const struct td_tensor_listing *list, int count, bool more,
                              struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    struct td_text text;
    const size_t next_size = more ? LISTING_TEXT + 6 * strlen(list[count - 1].name) : 0;
    if (!begin_text(&text, listings_size(list, count) + next_size, arena, err))
        return err->status;
    const char *begin = text.at;
    td_text_string(&text, "{\"tensors\":[");
    add_listings(&text, NULL, list, count);
    td_text_string(&text, "]");
    if (more)
        add_member(&text, ",\"next\":", list[count - 1].name);
    td_text_string(&text, "}");
    reply_with_text(begin, &text, reply);
    return TD_OK;
}

td_status td_describe_tensor(const struct td_tensor_listing *tensor, struct td_arena *arena,
                             struct td_reply *reply, struct td_error *err)
{
    struct td_text text;
    if (!begin_text(&text, listing_size(tensor), arena, err))
        return err->status;
    const char *begin = text.at;
    add_listing(&text, tensor);
    reply_with_text(begin, &text, reply);
    return TD_OK;
}

size_t td_describe_stored_bound(int n_outputs)
{
    return LISTING_TEXT + (size_t)n_outputs * (LISTING_TEXT + MOST_STORED);
}

void td_describe_stored(const struct td_request *request, const struct td_tensor_listing *stored,
                        char *begin, size_t size, struct td_reply *reply)
{
    const struct td_op_args *args = &request->args;
    const int n = td_request_n_outputs(request);
    struct td_text text = { .at = begin, .end = begin + size };
    switch (td_op_output_form(request->op)) {
    case TD_OUTPUT_ONE:
        td_text_string(&text, "{\"output\":");
        add_listing(&text, stored);
        break;
    case TD_OUTPUT_LIST:
        td_text_string(&text, "{\"outputs\":[");
        add_listings(&text, NULL, stored, n);
        td_text_string(&text, "]");
        break;
    case TD_OUTPUT_NAMED:
        td_text_string(&text, "{\"outputs\":{");
        add_listings(&text, request, stored, n);
        td_text_string(&text, "}");
        break;
    }
    if (args->replaced)
        td_text_print(&text, ",\"bounds\":{\"policy\":\"%s\",\"replaced\":%" PRId64 "}",
                      td_bounds_name(td_request_bounds(request)), args->replaced);
    td_text_string(&text, "}");
    reply_with_text(begin, &text, reply);
}
