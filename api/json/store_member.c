#include "api/json/store_member.h"

#include "api/json/members.h"
#include "api/json/values.h"
#include "api/message/attrs.h"
#include "api/message/named_inputs.h"
#include "api/text/suggest.h"
#include "kernels/shown_text.h"

#include <string.h>

struct reader {
    struct td_json_source *source;
    struct td_request *request;
    bool by_output; /* a member names an output */
};

static td_status read_option(struct reader *reader, const struct td_json_path *path,
                             const char *name)
{
    struct td_json_source *source = reader->source;
    struct td_attr_value value;
    bool known;
    td_status status = td_json_attr(&source->scan, source->arena, &value, source->err);
    if (status == TD_OK)
        status = td_attrs_set(reader->request, name, strlen(name), &value, source->arena, &known,
                              source->err);
    if (status != TD_OK)
        td_json_set_pointer(path, source->err);
    return status;
}

/* Reads the name under which one output is stored. */
static td_status read_output(struct reader *reader, const struct td_json_path *path, int output)
{
    struct td_json_source *source = reader->source;
    struct td_common_members *common = &reader->request->common;
    const int n = reader->request->op->n_outputs;
    const char *text = "";
    size_t length = 0;
    td_status status = td_json_text(&source->scan, source->arena, path, "the name of a tensor",
                                    &text, &length, source->err);
    if (status != TD_OK)
        return status;
    if (memchr(text, '\0', length))
        return td_json_refuse(path, source->err,
                              "the name contains a NUL; names cannot contain one");
    if (!common->store_as) {
        common->store_as =
            td_arena_alloc(source->arena, (size_t)n, sizeof *common->store_as, source->err);
        if (!common->store_as)
            return source->err->status;
        memset((void *)common->store_as, 0, (size_t)n * sizeof *common->store_as);
    }
    for (int i = 0; i < n; i++)
        if (common->store_as[i] && td_name_is(common->store_as[i], text, length))
            return td_json_refuse(path, source->err, "'%s' is the name of two outputs",
                                  common->store_as[i]);
    const char *copy = td_arena_text(source->arena, text, length, source->err);
    common->store_as[output] = copy;
    common->store = copy;
    common->outputs |= UINT64_C(1) << output;
    reader->by_output = true;
    return copy ? TD_OK : source->err->status;
}

static td_status unknown(const struct reader *reader, const struct td_json_path *path,
                         struct td_json_name name)
{
    const struct td_op *op = reader->request->op;
    const char *names[TD_MAX_OUTPUTS + 2];
    int n = 0;
    for (int i = 0; op->named_outputs && i < op->n_outputs; i++)
        names[n++] = op->outputs[i].name;
    names[n++] = "name";
    names[n++] = "ttl_s";
    td_json_refuse(path, reader->source->err,
                   op->named_outputs
                       ? "store has no member \"%s\"; expected outputs of %s, and ttl_s"
                       : "store has no member \"%s\"; expected name and ttl_s",
                   TD_SHOWN(name.text, name.length), op->name);
    td_suggest(reader->source->err, name.text, name.length, names, n);
    return TD_MALFORMED_REQUEST;
}

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct reader *reader = context;
    const struct td_op *op = reader->request->op;
    const int output =
        op->named_outputs ? (int)td_named_output_find(op, name.text, name.length) : -1;
    if (output >= 0)
        return read_output(reader, path, output);
    if (td_json_name_is(name, "name"))
        return read_option(reader, path, "store");
    return td_json_name_is(name, "ttl_s") ? read_option(reader, path, "store.ttl_s")
                                          : unknown(reader, path, name);
}

td_status td_json_store(struct td_json_source *source, struct td_request *request,
                        const struct td_json_path *path)
{
    struct reader reader = { .source = source, .request = request };
    const bool by_query = request->common.set >> TD_COMMON_STORE & 1;
    const td_status status = td_json_object(&source->scan, path, "store", read_member, &reader,
                                            source->arena, source->err);
    if (status != TD_OK)
        return status;
    if (!request->common.store)
        return td_json_refuse(path, source->err, "store has no member \"name\"");
    if (reader.by_output && (by_query || request->common.set >> TD_COMMON_STORE & 1))
        return td_json_refuse(path, source->err,
                              "store has one name for all outputs and names for single outputs; "
                              "expected only one of them");
    if (reader.by_output && request->common.set >> TD_COMMON_OUTPUTS & 1)
        return td_json_refuse(path, source->err,
                              "store and outputs both select outputs; leave one of them out");
    return TD_OK;
}
