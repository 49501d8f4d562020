#include "api/json/members.h"
#include "api/json/values.h"
#include "api/message/attr_values.h"
#include "api/message/document.h"
#include "api/oip/oip.h"
#include "api/text/text.h"
#include "kernels/name.h"

#include <string.h>

/* ---- bodies ---- */

/* State for reading a small JSON object. The body can be empty. */
struct small_body {
    struct td_json_scan scan;
    struct td_arena *arena;
    struct td_error *err;
    const struct td_oip_model *model; /* for td_oip_repository_load */
    struct td_oip_region *region;     /* filled by td_oip_read_region */
};

static td_status read_small(struct small_body *small, td_json_member_fn *member)
{
    struct td_json_scan *scan = &small->scan;
    bool absent; /* td_json_object accepts null as an object without members */
    td_json_peek(scan);
    if (scan->at == scan->end)
        return TD_OK;
    td_status status = td_json_null(scan, &absent, small->err);
    if (absent && status == TD_OK)
        return td_json_refuse(NULL, small->err, "the body is null; expected a JSON object");
    if (status == TD_OK)
        status = td_json_object(scan, NULL, "the body", member, small, small->arena, small->err);
    if (status != TD_OK)
        return status;
    td_json_peek(scan);
    return scan->at == scan->end
               ? TD_OK
               : td_json_syntax(scan, scan->at, small->err, "expected the end of the body");
}

static struct small_body small_body(const char *body, size_t bytes, struct td_arena *arena,
                                    struct td_error *err)
{
    return (struct small_body){ .scan = { .begin = body, .at = body, .end = body + bytes },
                                .arena = arena,
                                .err = err };
}

/* ---- the repository ---- */

static td_status read_index_member(void *context, const struct td_json_path *path,
                                   struct td_json_name name)
{
    struct small_body *small = context;
    const char c = td_json_peek(&small->scan);
    td_status status = td_json_skip(&small->scan, 1, small->arena, small->err);
    if (status != TD_OK || !td_json_name_is(name, "ready") || c == 't' || c == 'f' || c == 'n')
        return status;
    return td_json_refuse(path, small->err, "ready is %s; expected true or false", td_json_kind(c));
}

enum {
    /* Size of an element of the index, including the comma but excluding the name and the
     * version. */
    ENTRY_BYTES =
        sizeof "{\"name\":\"\",\"version\":\"\",\"state\":\"UNAVAILABLE\",\"reason\":\"\"},"
};

static void write_entry(struct td_text *text, const struct td_oip_entry *entry)
{
    td_text_string(text, "{\"name\":\"");
    td_text_add(text, entry->name, entry->name_length);
    td_text_string(text, "\",\"version\":\"");
    td_text_string(text, entry->version);
    td_text_string(text, entry->reason ? "\",\"state\":\"UNAVAILABLE\",\"reason\":\""
                                       : "\",\"state\":\"READY\",\"reason\":\"");
    td_text_string(text, entry->reason ? entry->reason : "");
    td_text_string(text, "\"},");
}

td_status td_oip_check_index(const char *body, size_t bytes, struct td_arena *arena,
                             struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    return read_small(&small, read_index_member);
}

td_status td_oip_write_index(const struct td_oip_entry *entries, int count, struct td_arena *arena,
                             struct td_reply *reply, struct td_error *err)
{
    size_t size = sizeof "[]";
    for (int i = 0; i < count; i++)
        size += ENTRY_BYTES + entries[i].name_length + strlen(entries[i].version) +
                (entries[i].reason ? strlen(entries[i].reason) : 0);
    char *begin = td_arena_alloc(arena, size, 1, err);
    if (!begin)
        return err->status;
    struct td_text text = { .at = begin, .end = begin + size };
    td_text_string(&text, "[");
    for (int i = 0; i < count; i++)
        write_entry(&text, &entries[i]);
    text.at -= count > 0; /* removes the last comma */
    td_text_string(&text, "]");
    td_reply_set(reply, 200, "application/json", begin, (size_t)(text.at - begin));
    return TD_OK;
}

static td_status read_load_parameter(void *context, const struct td_json_path *path,
                                     struct td_json_name name)
{
    struct small_body *small = context;
    if (td_json_name_is(name, "config") || td_name_begins("file:", name.text, name.length)) {
        td_json_refuse(path, small->err, "%s has a fixed configuration, which cannot be replaced",
                       small->model->table  ? "a resident tensor"
                       : small->model->text ? "a stored program"
                                            : "a built-in op");
        return TD_MALFORMED_REQUEST;
    }
    return td_json_skip(&small->scan, 2, small->arena, small->err);
}

static td_status read_load_member(void *context, const struct td_json_path *path,
                                  struct td_json_name name)
{
    struct small_body *small = context;
    if (td_json_name_is(name, "parameters"))
        return td_json_object(&small->scan, path, "parameters", read_load_parameter, small,
                              small->arena, small->err);
    return td_json_skip(&small->scan, 1, small->arena, small->err);
}

td_status td_oip_repository_load(const char *body, size_t bytes, const struct td_oip_model *model,
                                 struct td_arena *arena, struct td_reply *reply,
                                 struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    small.model = model;
    td_status status = read_small(&small, read_load_member);
    if (status == TD_OK)
        td_reply_set(reply, 200, "application/json", "{}", 2);
    return status;
}

static td_status skip_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct small_body *small = context;
    (void)path;
    (void)name;
    return td_json_skip(&small->scan, 1, small->arena, small->err);
}

td_status td_oip_repository_unload(const char *body, size_t bytes, const struct td_oip_model *model,
                                   struct td_arena *arena, struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    const td_status status = read_small(&small, skip_member);
    if (status != TD_OK)
        return status;
    return model->table
               ? td_error_set(
                     err, TD_INVALID_ARGUMENT,
                     "a resident tensor cannot be unloaded; DELETE /v1/tensors/%s deletes it",
                     model->name)
               : td_error_set(err, TD_INVALID_ARGUMENT, "a built-in op cannot be unloaded");
}

/* ---- regions of shared memory ---- */

static td_status read_size(struct small_body *small, const struct td_json_path *path,
                           const char *name, uint64_t *out)
{
    struct td_attr_value value = { .kind = TD_VALUE_OTHER, .text = "" };
    td_status status = td_json_attr(&small->scan, small->arena, &value, small->err);
    if (status != TD_OK)
        return status;
    if (value.kind == TD_VALUE_INT && value.integer >= 0) {
        *out = (uint64_t)value.integer;
        return TD_OK;
    }
    td_attr_refuse(small->err, name, "an integer from 0 to 2^63 - 1", &value);
    td_json_set_pointer(path, small->err);
    return TD_MALFORMED_REQUEST;
}

static td_status read_key(struct small_body *small, const struct td_json_path *path)
{
    const char *text = "";
    size_t length = 0;
    td_status status =
        td_json_text(&small->scan, small->arena, path, "key", &text, &length, small->err);
    if (status != TD_OK)
        return status;
    if (memchr(text, '\0', length))
        return td_json_refuse(path, small->err, "key contains a NUL character");
    small->region->key = td_arena_text(small->arena, text, length, small->err);
    return small->region->key ? TD_OK : small->err->status;
}

static td_status read_region_member(void *context, const struct td_json_path *path,
                                    struct td_json_name name)
{
    struct small_body *small = context;
    if (td_json_name_is(name, "key"))
        return read_key(small, path);
    if (td_json_name_is(name, "offset"))
        return read_size(small, path, "offset", &small->region->offset);
    if (td_json_name_is(name, "byte_size"))
        return read_size(small, path, "byte_size", &small->region->bytes);
    return td_json_skip(&small->scan, 1, small->arena, small->err);
}

td_status td_oip_read_region(const char *body, size_t bytes, struct td_arena *arena,
                             struct td_oip_region *out, struct td_error *err)
{
    struct small_body small = small_body(body, bytes, arena, err);
    memset(out, 0, sizeof *out);
    small.region = out;
    td_status status = read_small(&small, read_region_member);
    if (status != TD_OK)
        return status;
    if (out->key && out->bytes > 0)
        return TD_OK;
    return td_json_refuse(NULL, err,
                          "%s; expected {\"key\": a name, \"offset\": a number, \"byte_size\": a "
                          "number above 0}",
                          out->key ? "byte_size is missing or 0" : "key is missing");
}

td_status td_oip_describe_regions(const struct td_oip_region *list, int count,
                                  struct td_arena *arena, struct td_reply *reply,
                                  struct td_error *err)
{
    cJSON *document = cJSON_CreateArray();
    bool complete = document != NULL;
    for (int i = 0; i < count && complete; i++) {
        cJSON *item = cJSON_CreateObject();
        complete = td_document_append(document, item) &&
                   td_document_text(item, "name", list[i].name) &&
                   td_document_text(item, "key", list[i].key) &&
                   td_document_add(item, "offset", td_document_count(list[i].offset)) &&
                   td_document_add(item, "byte_size", td_document_count(list[i].bytes));
    }
    return td_document_reply(document, complete, arena, reply, err);
}
