#include "api/json/decode.h"

#include "api/json/array.h"
#include "api/json/hints.h"
#include "api/json/members.h"
#include "api/json/siblings.h"
#include "api/json/store_member.h"
#include "api/json/values.h"
#include "api/message/attr_values.h"
#include "api/message/attrs.h"
#include "api/message/named_inputs.h"
#include "api/message/path_inputs.h"
#include "api/message/table_keys.h"
#include "api/message/unknown_member.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/op_rows.h"
#include "kernels/shown_text.h"

#include <string.h>

struct reader {
    struct td_json_source source;
    struct td_request *request;
    uint64_t by_path; /* bit set of the inputs that the path names */
    struct td_json_siblings siblings;
    /* Skipped row keys, in the order of request->row_keys. They are read when the table is
     * known. */
    struct td_json_skipped row_keys[TD_MAX_ROW_KEYS];
};

/* ---- keys in place of row numbers ---- */

/* Sets *out to true if the value at the scan is {"keys": ...} and the input accepts keys instead of
 * row numbers. */
static td_status is_row_keys(struct reader *reader, int input, bool *out)
{
    const struct td_input_spec *spec = &reader->request->op->inputs[input];
    *out = false;
    return td_input_is_row_numbers(spec)
               ? td_json_begins_with(&reader->source.scan, reader->source.arena, "keys", out,
                                     reader->source.err)
               : TD_OK;
}

/* Skips the keys. They must be read with the dtype of the table's keys, but the table can come
 * later in the body. */
static td_status skip_keys(struct reader *reader, int input)
{
    struct td_json_scan *scan = &reader->source.scan;
    struct td_error *err = reader->source.err;
    if (!td_json_kind(td_json_peek(scan)))
        return td_json_syntax(scan, scan->at, err, "expected a value");
    struct td_request *request = reader->request;
    const td_status status = td_json_skip_unread(scan, &reader->row_keys[request->n_row_keys], err);
    if (status != TD_OK)
        return status;
    struct td_tensor *keys = td_arena_alloc(reader->source.arena, 1, sizeof *keys, err);
    if (!keys)
        return err->status;
    td_request_add_row_keys(request, input, keys);
    return TD_OK;
}

static td_status skip_row_keys(struct reader *reader, int input, const struct td_json_path *path)
{
    struct td_json_scan *scan = &reader->source.scan;
    struct td_error *err = reader->source.err;
    const char *key = "";
    size_t length = 0;
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, err);
    if (status == TD_OK)
        status = td_json_key(scan, reader->source.arena, &key, &length, err);
    if (status == TD_OK)
        status = skip_keys(reader, input);
    if (status == TD_OK)
        status = td_json_next(scan, '}', &more, err);
    return status == TD_OK && more
               ? td_json_refuse(path, err, "an input with keys cannot have other members")
               : status;
}

/* Adds a hint to an error about lists of different lengths, because the client probably meant
 * bags. */
static void hint_bags(const struct reader *reader, int input)
{
    const struct td_op *op = reader->request->op;
    const int offsets = td_op_rows_input(op, TD_ROW_PART_OFFSETS);
    struct td_error *err = reader->source.err;
    if (offsets >= 0 && op->inputs[input].part == TD_ROW_PART_QUERY &&
        td_name_begins(TD_JSON_RAGGED, err->message, strlen(err->message)))
        td_error_hint(err,
                      "give bags of different lengths as one flat list, and in %s the position "
                      "where each bag starts",
                      op->inputs[offsets].name);
}

/* Reads skipped keys after all members. Plain values get the dtype of the table's keys. */
static td_status read_row_keys(struct reader *reader, const struct td_row_keys *row_keys,
                               struct td_json_skipped *skipped)
{
    struct td_request *request = reader->request;
    const struct td_tensor *table = request->args.inputs[0].tensors;
    const td_dtype *dtype = table && table->keys ? &table->keys->dtype : NULL;
    const char *own =
        row_keys->input == td_op_keys_input(request->op) ? request->row_keys_name : NULL;
    const char *name = own ? own : request->op->inputs[row_keys->input].name;
    const struct td_json_path path = td_json_member(NULL, name, strlen(name));
    const struct td_json_path step = own ? path : td_json_member(&path, "keys", 4);
    const struct td_untyped untyped = { .empty = TD_DTYPE_INT64,
                                        .integer = TD_DTYPE_INT64,
                                        .no_fractions = true };
    reader->source.scan = skipped->scan;
    const bool typed = td_json_peek(&reader->source.scan) == '{';
    td_status status = td_json_tensor(&reader->source, dtype, untyped, &step, row_keys->keys);
    skipped->scan = reader->source.scan;
    if (status != TD_OK)
        hint_bags(reader, row_keys->input);
    if (status != TD_OK && dtype && !typed)
        td_json_hint_dtype(reader->source.err, "the keys of the table", *dtype, TD_JSON_OTHER_KEYS);
    if (status == TD_OK)
        status = td_json_skipped_end(skipped, reader->source.err);
    return status == TD_OK ? TD_OK : td_error_at_input(reader->source.err, status, "%s", name);
}

/* ---- inputs ---- */

/* Copies the tensors of a list to a larger array. */
static struct td_tensor *grow(struct td_arena *arena, const struct td_tensor *tensors, int count,
                              int capacity, struct td_error *err)
{
    struct td_tensor *larger = td_arena_alloc(arena, (size_t)capacity, sizeof *larger, err);
    if (larger && count)
        memcpy(larger, tensors, (size_t)count * sizeof *larger);
    return larger;
}

static td_status read_tensor(struct reader *reader, int input, int index,
                             const struct td_json_path *path, struct td_tensor *out)
{
    const struct td_input_spec *spec = &reader->request->op->inputs[input];
    if (spec->one_dtype)
        return td_json_siblings_read(&reader->siblings, &reader->source, reader->request, input,
                                     index, path, out);
    const td_dtype only = (td_dtype)__builtin_ctz(spec->dtypes);
    return td_json_tensor(&reader->source, spec->plain_as_dtype ? &only : NULL,
                          td_json_untyped(spec), path, out);
}

static td_status read_list(struct reader *reader, int input, const struct td_json_path *path,
                           struct td_operand *operand)
{
    const struct td_input_spec *spec = &reader->request->op->inputs[input];
    struct td_json_scan *scan = &reader->source.scan;
    char c = td_json_peek(scan);
    const char *kind = td_json_value_kind(scan);
    if (!kind)
        return td_json_syntax(scan, scan->at, reader->source.err, "expected a list of tensors");
    if (c != '[') {
        td_json_refuse(path, reader->source.err, "%s is %s; expected a list of tensors", spec->name,
                       kind);
        td_json_hint_string(scan, &reader->source);
        td_json_hint_typed_array(reader->source.err, scan->at, scan->end);
        return td_error_at_input(reader->source.err, TD_MALFORMED_REQUEST, "%s", spec->name);
    }
    bool more;
    td_status status = td_json_open(scan, '[', ']', &more, reader->source.err);
    if (status != TD_OK)
        return status;
    int capacity = 4;
    operand->count = 0;
    operand->tensors = grow(reader->source.arena, NULL, 0, capacity, reader->source.err);
    if (!operand->tensors)
        return reader->source.err->status;
    while (more) {
        struct td_json_path step = { .up = path, .index = operand->count };
        if (operand->count == TD_MAX_LIST) {
            td_error_resource(reader->source.err, "tensors", TD_MAX_LIST + 1, TD_MAX_LIST,
                              "a list of tensors");
            td_json_set_pointer(path, reader->source.err);
            return td_error_at_input(reader->source.err, TD_RESOURCE_LIMIT, "%s", spec->name);
        }
        if (operand->count == capacity) {
            capacity *= 2;
            operand->tensors = grow(reader->source.arena, operand->tensors, operand->count,
                                    capacity, reader->source.err);
            if (!operand->tensors)
                return reader->source.err->status;
        }
        status =
            read_tensor(reader, input, operand->count, &step, &operand->tensors[operand->count]);
        if (status != TD_OK)
            return td_error_at_input(reader->source.err, status, "%s[%d]", spec->name,
                                     operand->count);
        operand->count++;
        status = td_json_next(scan, ']', &more, reader->source.err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

/* Reads an input. `of_table` is true if the member is named "keys" and refers to the table that the
 * path names. */
static td_status read_input(struct reader *reader, int input, bool of_table,
                            const struct td_json_path *path)
{
    const struct td_input_spec *spec = &reader->request->op->inputs[input];
    struct td_operand *operand = &reader->request->args.inputs[input];
    if (reader->by_path >> input & 1) {
        td_path_input_refuse(spec, reader->source.err);
        td_json_set_pointer(path, reader->source.err);
        return TD_MALFORMED_REQUEST;
    }
    if (operand->tensors || td_request_row_keys(reader->request, input)) {
        if (of_table == reader->request->called_keys)
            td_json_refuse(path, reader->source.err, "%s is given twice",
                           of_table ? TD_TABLE_KEYS : spec->name);
        else
            td_json_refuse(path, reader->source.err,
                           "both %s and %s are given; expected only one of them", spec->name,
                           TD_TABLE_KEYS);
        /* The error names the member that was read last. */
        reader->request->called_keys = of_table;
        return td_error_at_input(reader->source.err, TD_MALFORMED_REQUEST, "%s",
                                 of_table ? TD_TABLE_KEYS : spec->name);
    }
    reader->request->called_keys |= of_table;
    struct td_json_scan *scan = &reader->source.scan;
    if (spec->optional && td_json_peek(scan) == 'n' &&
        td_name_begins("null", scan->at, (size_t)(scan->end - scan->at))) {
        td_json_refuse(path, reader->source.err, "%s is null; leave it out instead", spec->name);
        return td_error_at_input(reader->source.err, TD_MALFORMED_REQUEST, "%s", spec->name);
    }
    if (spec->list)
        return read_list(reader, input, path, operand);
    if (of_table && td_input_is_row_numbers(spec)) {
        reader->request->row_keys_name = TD_TABLE_KEYS;
        return skip_keys(reader, input);
    }
    bool keys;
    td_status status = is_row_keys(reader, input, &keys);
    if (status != TD_OK || keys)
        return status != TD_OK ? status : skip_row_keys(reader, input, path);
    struct td_tensor *tensor =
        td_arena_alloc(reader->source.arena, 1, sizeof *tensor, reader->source.err);
    if (!tensor)
        return reader->source.err->status;
    reader->source.or_keys = td_input_is_row_numbers(spec);
    reader->source.of_keys = spec->role == TD_ROLE_KEY;
    status = read_tensor(reader, input, 0, path, tensor);
    reader->source.or_keys = reader->source.of_keys = false;
    if (status != TD_OK)
        hint_bags(reader, input);
    if (status != TD_OK)
        return td_error_at_input(reader->source.err, status, "%s", spec->name);
    operand->tensors = tensor;
    operand->count = 1;
    return TD_OK;
}

/* ---- attributes and common members ---- */

static td_status read_attr(struct reader *reader, const struct td_json_path *path, const char *name,
                           size_t length)
{
    struct td_attr_value value;
    td_status status =
        td_json_attr(&reader->source.scan, reader->source.arena, &value, reader->source.err);
    if (status != TD_OK)
        return status;
    bool known;
    status = td_attrs_set(reader->request, name, length, &value, reader->source.arena, &known,
                          reader->source.err);
    if (status == TD_OK && !known)
        status = td_table_keys_misplaced(reader->request, name, length, reader->source.err);
    if (status == TD_OK && !known)
        status = td_unknown_member(reader->request, name, length, TD_MEMBER, reader->source.err);
    if (status != TD_OK)
        td_json_set_pointer(path, reader->source.err);
    return status;
}

static td_status read_option(struct reader *reader, const struct td_json_path *path)
{
    return td_name_is("store", path->key, path->key_length) &&
                   td_json_peek(&reader->source.scan) == '{'
               ? td_json_store(&reader->source, reader->request, path)
               : read_attr(reader, path, path->key, path->key_length);
}

/* ---- the request ---- */

static int find_input(const struct td_op *op, const char *name, size_t length)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (td_name_is(op->inputs[i].name, name, length))
            return i;
    return -1;
}

td_status td_json_decode(const char *body, size_t bytes, struct td_resolver *resolver,
                         struct td_arena *arena, struct td_request *request, struct td_error *err)
{
    struct reader reader = {
        .source = { .scan = { .begin = body, .at = body, .end = body + bytes },
                    .resolver = resolver,
                    .arena = arena,
                    .err = err,
                    .is_plan = request->is_plan },
        .request = request,
        .by_path = td_path_inputs(request),
    };
    struct td_json_scan *scan = &reader.source.scan;
    td_json_siblings_begin(&reader.siblings, request);
    char c = td_json_peek(scan);
    if (scan->at == scan->end) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "the body is empty; expected a JSON object with the inputs of %s",
                     request->op->name);
        err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    const char *kind = td_json_value_kind(scan);
    if (c != '{' && kind)
        return td_json_refuse(NULL, err,
                              "the body is %s; expected a JSON object with the inputs of %s", kind,
                              request->op->name);
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, err);
    if (status != TD_OK)
        return status;
    while (more) {
        const char *key = "";
        size_t length = 0;
        status = td_json_key(scan, arena, &key, &length, err);
        if (status != TD_OK)
            return status;
        struct td_json_path path = td_json_member(NULL, key, length);
        const int of_table = td_table_keys_input(request, key, length);
        const int input = of_table >= 0 ? of_table : find_input(request->op, key, length);
        status = input < 0 ? read_option(&reader, &path)
                           : read_input(&reader, input, of_table >= 0, &path);
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
        if (status != TD_OK)
            return status;
    }
    td_json_peek(scan);
    if (scan->at != scan->end)
        return td_json_syntax(scan, scan->at, err, "expected the end of the body");
    status = td_json_siblings_end(&reader.siblings, &reader.source, request);
    request->has_complex_base64 = reader.source.has_complex_base64;
    for (int i = 0; i < request->n_row_keys && status == TD_OK; i++)
        status = read_row_keys(&reader, &request->row_keys[i], &reader.row_keys[i]);
    return status;
}
