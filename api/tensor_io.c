#include "api/tensor_io.h"

#include "api/files/foreign.h"
#include "api/files/npy.h"
#include "api/files/safetensors.h"
#include "api/json/encode.h"
#include "api/json/tensor.h"
#include "api/json/values.h"
#include "api/media_type.h"
#include "api/message/raw.h"
#include "kernels/key_dtype.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <assert.h>
#include <string.h>

#define FORMATS (TD_FORMAT_BIT(JSON) | TD_FORMAT_BIT(SAFETENSORS) | TD_FORMAT_BIT(NPY))

td_status td_tensor_io_body_format(const char *content_type, td_format *out, struct td_error *err)
{
    return td_media_of_body(content_type, FORMATS, out, err);
}

td_format td_tensor_io_recognise(const char *body, size_t bytes)
{
    if (td_npy_is(body, bytes))
        return TD_FORMAT_NPY;
    if (td_safetensors_is(body, bytes))
        return TD_FORMAT_SAFETENSORS;
    return TD_FORMAT_JSON;
}

td_status td_tensor_io_reply_format(const char *accept, td_format *out, struct td_error *err)
{
    return td_media_of_reply(accept, FORMATS, TD_FORMAT_JSON, out, err);
}

/* ---- reading ---- */

/* Copies the body and appends zeros, because the number parser reads the character after a number,
 * which does not exist if the body is only a number. Returns false with err filled if memory is
 * exhausted. */
static bool end_number(struct td_json_source *source)
{
    struct td_json_scan *scan = &source->scan;
    size_t bytes = (size_t)(scan->end - scan->begin);
    char *copy = td_arena_alloc(source->arena, bytes + TD_JSON_PADDING, 1, source->err);
    if (!copy)
        return false;
    memcpy(copy, scan->begin, bytes);
    memset(copy + bytes, 0, TD_JSON_PADDING);
    *scan = (struct td_json_scan){ copy, copy + (scan->at - scan->begin), copy + bytes };
    return true;
}

/* Returns the dtypes for JSON values that do not give a dtype. */
static struct td_untyped untyped_of(td_role role)
{
    return role == TD_ROLE_KEY
               ? (struct td_untyped){ TD_DTYPE_INT64, TD_DTYPE_INT64, true, TD_DTYPES_KEY_GIVEN }
               : (struct td_untyped){ TD_DTYPE_FLOAT32, TD_DTYPE_INT32, false, TD_DTYPES_ALL };
}

/* Starts reading a JSON body and moves the scan to its value. */
static td_status begin_json(const char *body, size_t bytes, struct td_resolver *resolver,
                            struct td_arena *arena, struct td_json_source *source,
                            struct td_error *err)
{
    *source = (struct td_json_source){ .scan = { .begin = body, .at = body, .end = body + bytes },
                                       .resolver = resolver,
                                       .arena = arena,
                                       .err = err };
    const char c = td_json_peek(&source->scan);
    if (source->scan.at == source->scan.end) {
        td_error_set(err, TD_MALFORMED_REQUEST, "the body is empty; expected a tensor");
        err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    return (c == '-' || (c >= '0' && c <= '9')) && !end_number(source) ? err->status : TD_OK;
}

static td_status end_json(struct td_json_source *source)
{
    struct td_json_scan *scan = &source->scan;
    td_json_peek(scan);
    return scan->at == scan->end
               ? TD_OK
               : td_json_syntax(scan, scan->at, source->err, "expected the end of the body");
}

static td_status read_json(td_role role, const char *body, size_t bytes,
                           struct td_resolver *resolver, struct td_arena *arena,
                           struct td_tensor *out, struct td_error *err)
{
    struct td_json_source source;
    td_status status = begin_json(body, bytes, resolver, arena, &source, err);
    source.of_keys = role == TD_ROLE_KEY;
    if (status == TD_OK)
        status = td_json_tensor(&source, NULL, untyped_of(role), NULL, out);
    return status == TD_OK ? end_json(&source) : status;
}

/* Sets *out to true if the document at the scan is a table: it has a member "tensor" or "keys",
 * which no tensor has. */
static td_status is_table(const struct td_json_source *source, bool *out)
{
    bool keys;
    td_status status =
        td_json_begins_with(&source->scan, source->arena, "tensor", out, source->err);
    if (status == TD_OK)
        status = td_json_begins_with(&source->scan, source->arena, "keys", &keys, source->err);
    *out |= status == TD_OK && keys;
    return status;
}

static td_status read_table_member(struct td_json_source *source, const char *key, size_t length,
                                   struct td_table_document *out, unsigned *seen)
{
    const struct td_json_path path = td_json_member(NULL, key, length);
    const bool keys = td_name_is("keys", key, length);
    if (!keys && !td_name_is("tensor", key, length))
        return td_json_refuse(&path, source->err,
                              "a table has no member \"%s\"; expected tensor and keys",
                              TD_SHOWN(key, length));
    if (*seen & 1u << keys)
        return td_json_refuse(&path, source->err, "%s is given twice", keys ? "keys" : "tensor");
    *seen |= 1u << keys;
    out->has_keys |= keys;
    return td_json_tensor(source, NULL, untyped_of(keys ? TD_ROLE_KEY : TD_ROLE_DATA), &path,
                          keys ? &out->keys : &out->rows);
}

static td_status read_json_table(struct td_json_source *source, struct td_table_document *out)
{
    unsigned seen = 0;
    bool more;
    td_status status = td_json_open(&source->scan, '{', '}', &more, source->err);
    while (status == TD_OK && more) {
        const char *key = "";
        size_t length = 0;
        status = td_json_key(&source->scan, source->arena, &key, &length, source->err);
        if (status == TD_OK)
            status = read_table_member(source, key, length, out, &seen);
        if (status == TD_OK)
            status = td_json_next(&source->scan, '}', &more, source->err);
    }
    if (status == TD_OK && seen != 3)
        status =
            td_json_refuse(NULL, source->err, "a table must have tensor and keys; %s is missing",
                           seen & 1 ? "keys" : "tensor");
    return status == TD_OK ? end_json(source) : status;
}

/* Suffixes of the entry names for a table's keys. A suffix follows the name of the table. Without
 * its dot, it is also a name by itself. */
#define KEYS    ".keys"
#define OFFSETS ".keys.offsets"
#define BYTES   ".keys.bytes"

/* True if `name` is a part of the table, as "w.keys" is a part of "w". If `table` is NULL, the part
 * has no prefix, such as "keys". */
static bool is_part(const char *name, const char *table, const char *part)
{
    if (!table)
        return strcmp(name, part + 1) == 0;
    return td_name_begins(table, name, strlen(name)) && strcmp(name + strlen(table), part) == 0;
}

static const struct td_tensor *part_of(const struct td_safetensors *file, const char *table,
                                       const char *part, td_dtype_set dtypes)
{
    for (int i = 0; i < file->n_entries; i++)
        if (is_part(file->entries[i].name, table, part) &&
            dtypes >> file->entries[i].tensor.dtype & 1)
            return &file->entries[i].tensor;
    return NULL;
}

/* Builds string keys from the entries "keys.offsets" and "keys.bytes". Copies the offsets, because
 * they determine addresses and the body can be unaligned. */
static td_status join_keys(const struct td_tensor *offsets, const struct td_tensor *bytes,
                           struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    const struct td_shape vector = { .rank = 1, .dim = { offsets->numel - 1 } };
    td_status status = offsets->numel < 1 || offsets->shape.rank != 1
                           ? td_error_set(err, TD_MALFORMED_REQUEST,
                                          "keys.offsets is not a vector with at least one element")
                           : td_tensor_describe(out, "keys", TD_DTYPE_STRING, &vector, err);
    if (status != TD_OK)
        return status;
    out->offsets = td_arena_alloc(arena, (size_t)offsets->numel, sizeof *out->offsets, err);
    if (!out->offsets)
        return err->status;
    memcpy(out->offsets, offsets->data, offsets->bytes);
    bool valid = out->offsets[0] == 0 && out->offsets[out->numel] == bytes->bytes;
    for (int64_t i = 0; i < out->numel; i++)
        valid &= out->offsets[i] <= out->offsets[i + 1];
    if (!valid)
        return td_error_set(
            err, TD_MALFORMED_REQUEST,
            "keys.offsets does not increase from 0 to %zu, the number of bytes in keys.bytes",
            bytes->bytes);
    out->data = bytes->data;
    out->bytes = bytes->bytes;
    return TD_OK;
}

/* Reads the keys of a table from a file: numbers in one of these dtypes, or strings. Sets *n to the
 * number of entries that hold the keys, or to 0 if there are no keys. */
static td_status read_key_entries(const struct td_safetensors *file, const char *table,
                                  td_dtype_set dtypes, struct td_arena *arena,
                                  struct td_tensor *out, int *n, struct td_error *err)
{
    const struct td_tensor *numbers = part_of(file, table, KEYS, dtypes),
                           *offsets = part_of(file, table, OFFSETS, TD_DTYPE_BIT(INT64)),
                           *bytes = part_of(file, table, BYTES, TD_DTYPE_BIT(UINT8));
    *n = numbers ? 1 : offsets && bytes ? 2 : 0;
    if (*n == 1)
        *out = *numbers;
    return *n == 2 ? join_keys(offsets, bytes, arena, out, err) : TD_OK;
}

static td_status refuse_count(const struct td_safetensors *file, struct td_error *err)
{
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "the safetensors file holds %d tensors; expected exactly one, or NAME together "
                 "with either keys (int64, uint64, int32 or uint32) or keys.offsets (int64) and "
                 "keys.bytes (uint8), which can also be called NAME.keys, ...",
                 file->n_entries);
    err->offset = 0;
    return TD_MALFORMED_REQUEST;
}

/* True if an entry with this name holds keys without a table name. n entries hold the keys: 1 for
 * "keys", or 2 for "keys.offsets" and "keys.bytes". The names that are not used for keys can name a
 * table. */
static bool is_keys_entry(const char *name, int n)
{
    return n == 1 ? is_part(name, NULL, KEYS)
                  : is_part(name, NULL, OFFSETS) || is_part(name, NULL, BYTES);
}

/* Finds the entry of the table in a file. Sets *n to the number of entries that hold the table's
 * keys. */
static td_status find_table(const struct td_safetensors *file, td_dtype_set dtypes,
                            struct td_arena *arena, struct td_tensor *keys, int *n, int *table,
                            struct td_error *err)
{
    td_status status = read_key_entries(file, NULL, dtypes, arena, keys, n, err);
    *table = 0;
    if (status != TD_OK || *n > 0) {
        while (*n > 0 && is_keys_entry(file->entries[*table].name, *n))
            ++*table;
        return status;
    }
    for (int i = 0; i < file->n_entries && *n == 0 && status == TD_OK; i++) {
        status = read_key_entries(file, file->entries[i].name, dtypes, arena, keys, n, err);
        *table = i;
    }
    return status;
}

static td_status read_safetensors_table(const char *body, size_t bytes, struct td_arena *arena,
                                        struct td_table_document *out, struct td_error *err)
{
    enum { MOST = 3 }; /* a table, and at most two entries for its keys */
    struct td_safetensors file;
    int n = 0, table = 0;
    td_status status = td_safetensors_open(body, bytes, arena, &file, err);
    const bool maybe_keys = file.n_entries > 1 && file.n_entries <= MOST;
    if (status == TD_OK && maybe_keys)
        status = find_table(&file, TD_DTYPES_KEY, arena, &out->keys, &n, &table, err);
    /* "keys" can be the name of a table, so an entry with another dtype is used as keys only if no
     * other entry qualifies. */
    if (status == TD_OK && maybe_keys && n == 0)
        status = find_table(&file, TD_DTYPES_ALL, arena, &out->keys, &n, &table, err);
    if (status == TD_OK && file.n_entries != n + 1)
        status = refuse_count(&file, err);
    if (status != TD_OK)
        return status;
    out->rows = file.entries[table].tensor;
    out->has_keys = n > 0;
    return TD_OK;
}

/* Reads string keys from a file with two entries: "keys.offsets" and "keys.bytes". Both names can
 * follow the name of a table. */
static td_status read_strings(const struct td_safetensors *file, struct td_arena *arena,
                              struct td_tensor *out, int *n, struct td_error *err)
{
    td_status status = read_key_entries(file, NULL, TD_DTYPES_KEY, arena, out, n, err);
    for (int i = 0; i < file->n_entries && *n == 0 && status == TD_OK; i++) {
        const char *name = file->entries[i].name;
        if (!td_name_ends(OFFSETS, name, strlen(name)))
            continue;
        const char *table = td_arena_text(arena, name, strlen(name) - strlen(OFFSETS), err);
        status = table ? read_key_entries(file, table, TD_DTYPES_KEY, arena, out, n, err)
                       : TD_MEMORY_EXHAUSTED;
    }
    return status;
}

/* Reads one tensor, whatever its name. For role KEY, also reads string keys from two entries. */
static td_status read_safetensors(td_role role, const char *body, size_t bytes,
                                  struct td_arena *arena, struct td_tensor *out,
                                  struct td_error *err)
{
    struct td_safetensors file;
    int n = 0;
    td_status status = td_safetensors_open(body, bytes, arena, &file, err);
    if (status == TD_OK && role == TD_ROLE_KEY && file.n_entries == 2)
        status = read_strings(&file, arena, out, &n, err);
    if (status != TD_OK || n == 2)
        return status;
    if (file.n_entries != 1)
        return refuse_count(&file, err);
    *out = file.entries[0].tensor;
    return TD_OK;
}

static td_status read_tensor(td_format format, td_role role, const char *body, size_t bytes,
                             struct td_resolver *resolver, struct td_arena *arena,
                             struct td_tensor *out, bool *in_body, struct td_error *err)
{
    *in_body = false;
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        *in_body = true;
        return read_safetensors(role, body, bytes, arena, out, err);
    case TD_FORMAT_NPY:
        return td_npy_read(body, bytes, arena, out, in_body, err);
    default:
        assert(format == TD_FORMAT_JSON);
        return read_json(role, body, bytes, resolver, arena, out, err);
    }
}

td_status td_tensor_read(td_format format, td_role role, const char *body, size_t bytes,
                         struct td_resolver *resolver, struct td_arena *arena,
                         struct td_tensor *out, bool *in_body, struct td_error *err)
{
    const td_status status =
        read_tensor(format, role, body, bytes, resolver, arena, out, in_body, err);
    return td_foreign_explain_body(status, format, body, bytes, err);
}

static td_status read_table(td_format format, const char *body, size_t bytes,
                            struct td_resolver *resolver, struct td_arena *arena,
                            struct td_table_document *out, struct td_error *err)
{
    struct td_json_source source;
    bool table = false;
    out->has_keys = out->in_body = false;
    if (format == TD_FORMAT_SAFETENSORS) {
        out->in_body = true;
        return read_safetensors_table(body, bytes, arena, out, err);
    }
    if (format == TD_FORMAT_NPY)
        return td_npy_read(body, bytes, arena, &out->rows, &out->in_body, err);
    td_status status = begin_json(body, bytes, resolver, arena, &source, err);
    if (status == TD_OK)
        status = is_table(&source, &table);
    if (status != TD_OK)
        return status;
    if (table)
        return read_json_table(&source, out);
    status = td_json_tensor(&source, NULL, untyped_of(TD_ROLE_DATA), NULL, &out->rows);
    return status == TD_OK ? end_json(&source) : status;
}

td_status td_table_read(td_format format, const char *body, size_t bytes,
                        struct td_resolver *resolver, struct td_arena *arena,
                        struct td_table_document *out, struct td_error *err)
{
    const td_status status = read_table(format, body, bytes, resolver, arena, out, err);
    return td_foreign_explain_body(status, format, body, bytes, err);
}

/* ---- writing ---- */

bool td_tensor_write_bound(td_format format, td_layout layout, const struct td_tensor *tensor,
                           size_t *bytes)
{
    if (format == TD_FORMAT_JSON)
        return td_json_tensor_bound(tensor, layout, bytes);
    /* Adds the header, and the data if it is copied after the header. */
    return td_size_add(TD_NPY_HEADER + 64, td_raw_is_copied(tensor) ? tensor->bytes : 0, bytes);
}

static td_status write_npy(const struct td_tensor *tensor, struct td_arena *arena,
                           struct td_reply *reply, struct td_error *err)
{
    char header[TD_NPY_HEADER];
    size_t size;
    td_status status = td_npy_write_header(tensor, header, &size, err);
    if (status != TD_OK)
        return status;
    return td_raw_reply(td_media_type(TD_FORMAT_NPY), header, size, tensor, arena, reply, err);
}

static td_status write_tensor(td_format format, td_layout layout, const struct td_tensor *tensor,
                              struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    switch (format) {
    case TD_FORMAT_SAFETENSORS:
        return td_safetensors_encode_tensor(tensor, arena, reply, err);
    case TD_FORMAT_NPY:
        return write_npy(tensor, arena, reply, err);
    default:
        assert(format == TD_FORMAT_JSON);
        return td_json_encode_tensor(tensor, layout, arena, reply, err);
    }
}

td_status td_tensor_write(td_format format, td_layout layout, const struct td_tensor *tensor,
                          struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    const td_status status = write_tensor(format, layout, tensor, arena, reply, err);
    if (status == TD_NOT_ACCEPTABLE && format != TD_FORMAT_JSON)
        td_error_hint(err, "ask for it with Accept: application/json and ?response=base64");
    return status;
}
