#include "api/files/safetensors.h"

#include "api/json/scan.h"
#include "api/message/attrs.h"
#include "api/message/chunks.h"
#include "api/message/named_inputs.h"
#include "api/message/raw.h"
#include "api/message/unknown_member.h"
#include "api/text/text.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define HEADER_LIMIT UINT64_C(100000000) /* maximum header size in the reference implementation */

/* ---- reading a header ---- */

/* Byte range of a tensor's data. */
struct range {
    uint64_t begin, end;
    int entry;
};

struct header {
    struct td_json_scan scan;
    struct td_arena *arena;
    struct td_error *err;
    char *data; /* start of the data section */
    uint64_t data_size;
    struct td_safetensors *out;
    struct range *ranges; /* one range per entry, in the same order */
    int entry_capacity, metadata_capacity;
};

static td_status refuse(struct td_error *err, const char *name)
{
    return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", name);
}

/* Reads a string and copies it, NUL-terminated. */
static td_status read_text(struct header *header, const char *expected, const char **out)
{
    const char *text = "";
    size_t length = 0;
    if (td_json_peek(&header->scan) != '"')
        return td_json_syntax(&header->scan, header->scan.at, header->err, "expected %s", expected);
    const char *begin = header->scan.at;
    td_status status = td_json_string(&header->scan, header->arena, &text, &length, header->err);
    if (status != TD_OK)
        return status;
    if (memchr(text, '\0', length))
        return td_json_syntax(&header->scan, begin, header->err,
                              "expected text without NUL characters");
    *out = td_arena_text(header->arena, text, length, header->err);
    return *out ? TD_OK : header->err->status;
}

/* Reads a list of nonnegative integers. Sets *count to their number and stores the first `room`
 * integers in `out`. */
static td_status read_integers(struct header *header, const char *expected, int64_t room,
                               int64_t *out, int64_t *count)
{
    struct td_json_scan *scan = &header->scan;
    *count = 0;
    if (td_json_peek(scan) != '[')
        return td_json_syntax(scan, scan->at, header->err, "expected %s", expected);
    bool more;
    td_status status = td_json_open(scan, '[', ']', &more, header->err);
    if (status != TD_OK)
        return status;
    while (more) {
        int64_t value;
        bool fits;
        td_json_peek(scan);
        const char *begin = scan->at;
        status = td_json_int64(scan, &value, &fits, header->err);
        if (status != TD_OK)
            return status;
        if (!fits || value < 0)
            return td_json_syntax(scan, begin, header->err, "expected %s", expected);
        if (*count < room)
            out[*count] = value;
        ++*count;
        status = td_json_next(scan, ']', &more, header->err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

enum { MEMBER_DTYPE = 1, MEMBER_SHAPE = 2, MEMBER_OFFSETS = 4, MEMBERS = 7 };

/* Members of an entry. */
struct description {
    unsigned seen; /* bit set of the members read so far */
    const char *dtype;
    size_t dtype_length;
    struct td_shape shape; /* shape; valid if `rank` is at most TD_MAX_RANK */
    int64_t rank;
    int64_t offsets[2];
};

static td_status read_dtype(struct header *header, struct description *out)
{
    struct td_json_scan *scan = &header->scan;
    if (td_json_peek(scan) != '"')
        return td_json_syntax(scan, scan->at, header->err, "expected the name of a dtype");
    return td_json_string(scan, header->arena, &out->dtype, &out->dtype_length, header->err);
}

static td_status read_shape(struct header *header, struct description *out)
{
    const td_status status = read_integers(header, "a list of dimensions, each from 0 to 2^63 - 1",
                                           TD_MAX_RANK, out->shape.dim, &out->rank);
    out->shape.rank = out->rank <= TD_MAX_RANK ? (int)out->rank : 0;
    return status;
}

static td_status read_offsets(struct header *header, struct description *out)
{
    static const char expected[] = "data_offsets as [begin, end]";
    int64_t count;
    td_json_peek(&header->scan);
    const char *begin = header->scan.at;
    const td_status status = read_integers(header, expected, 2, out->offsets, &count);
    return status == TD_OK && count != 2
               ? td_json_syntax(&header->scan, begin, header->err, "expected %s", expected)
               : status;
}

static td_status read_member_of_entry(struct header *header, struct description *out)
{
    struct td_json_scan *scan = &header->scan;
    const char *key = "", *begin = scan->at;
    size_t length = 0;
    if (td_json_peek(scan) != '"')
        return td_json_syntax(scan, scan->at, header->err, "expected a member name in quotes");
    td_status status = td_json_string(scan, header->arena, &key, &length, header->err);
    if (status == TD_OK)
        status = td_json_expect(scan, ':', header->err);
    if (status != TD_OK)
        return status;
    const unsigned member = td_name_is("dtype", key, length)          ? MEMBER_DTYPE
                            : td_name_is("shape", key, length)        ? MEMBER_SHAPE
                            : td_name_is("data_offsets", key, length) ? MEMBER_OFFSETS
                                                                      : 0;
    /* The reference implementation also ignores unknown members. */
    if (member == 0)
        return td_json_ignore(scan, header->arena, header->err);
    if (out->seen & member)
        return td_json_syntax(scan, begin, header->err,
                              "expected each of dtype, shape and data_offsets once");
    out->seen |= member;
    return member == MEMBER_DTYPE   ? read_dtype(header, out)
           : member == MEMBER_SHAPE ? read_shape(header, out)
                                    : read_offsets(header, out);
}

/* Reads {"dtype": ..., "shape": ..., "data_offsets": [begin, end]}. */
static td_status read_description(struct header *header, const char *name, struct description *out)
{
    bool more;
    td_status status = td_json_open(&header->scan, '{', '}', &more, header->err);
    while (status == TD_OK && more) {
        status = read_member_of_entry(header, out);
        if (status == TD_OK)
            status = td_json_next(&header->scan, '}', &more, header->err);
    }
    if (status != TD_OK || out->seen == MEMBERS)
        return status;
    td_error_set(header->err, TD_MALFORMED_REQUEST, "tensor \"%.100s\" has no %s", name,
                 !(out->seen & MEMBER_DTYPE)   ? "dtype"
                 : !(out->seen & MEMBER_SHAPE) ? "shape"
                                               : "data_offsets");
    return refuse(header->err, name);
}

/* Marks an entry that tensord cannot represent as unreadable, with the reason. */
__attribute__((format(printf, 3, 4))) static td_status
mark_unreadable(struct header *header, struct td_safetensors_entry *entry, const char *format, ...)
{
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    entry->tensor = (struct td_tensor){ 0 };
    entry->unreadable = td_arena_text(header->arena, reason, strlen(reason), header->err);
    return entry->unreadable ? TD_OK : header->err->status;
}

/* Returns the number of bits per element of a safetensors dtype that tensord does not support, or 0
 * if the dtype is unknown. */
static int foreign_bits(const struct description *of)
{
    static const struct {
        const char *name;
        int bits;
    } dtypes[] = { { "F4", 4 },      { "F6_E2M3", 6 }, { "F6_E3M2", 6 },     { "F8_E4M3", 8 },
                   { "F8_E5M2", 8 }, { "F8_E8M0", 8 }, { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 } };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (td_name_is(dtypes[i].name, of->dtype, of->dtype_length))
            return dtypes[i].bits;
    return 0;
}

/* Checks a tensor whose dtype tensord does not support, and marks it as unreadable. Checks the size
 * of its data only if the size of the dtype is known. */
static td_status describe_foreign(struct header *header, struct td_safetensors_entry *entry,
                                  const struct description *of)
{
    const int bits = foreign_bits(of);
    int64_t numel;
    size_t all_bits;
    const char *dtype = TD_SHOWN(of->dtype, of->dtype_length);
    if (bits > 0 && of->rank <= TD_MAX_RANK &&
        (!td_shape_numel(&of->shape, &numel) ||
         !td_size_mul((size_t)numel, (size_t)bits, &all_bits) || all_bits % 8 != 0 ||
         all_bits / 8 != (size_t)(of->offsets[1] - of->offsets[0]))) {
        char text[TD_SHAPE_TEXT];
        td_error_set(header->err, TD_MALFORMED_REQUEST,
                     "tensor \"%.100s\" has %" PRIu64
                     " bytes of data, which is not the size of %s of shape %.100s",
                     entry->name, (uint64_t)(of->offsets[1] - of->offsets[0]), dtype,
                     td_shape_text(&of->shape, text, sizeof text));
        return refuse(header->err, entry->name);
    }
    return mark_unreadable(header, entry,
                           "tensor \"%.100s\" has dtype \"%s\"; expected BOOL, I8 to I64, U8 to "
                           "U64, F16, BF16, F32, F64 or C64",
                           entry->name, dtype);
}

static td_status describe_tensor(struct header *header, struct td_safetensors_entry *entry,
                                 const struct description *of)
{
    struct td_tensor *tensor = &entry->tensor;
    td_dtype dtype;
    if (!td_dtype_from_safetensors(of->dtype, of->dtype_length, &dtype))
        return describe_foreign(header, entry, of);
    if (of->rank > TD_MAX_RANK)
        return mark_unreadable(header, entry,
                               "tensor \"%.100s\" has %" PRId64 " dimensions; expected at most %d",
                               entry->name, of->rank, TD_MAX_RANK);
    td_status status = td_tensor_describe(tensor, entry->name, dtype, &of->shape, header->err);
    if (status != TD_OK)
        return status;
    if ((uint64_t)(of->offsets[1] - of->offsets[0]) != tensor->bytes) {
        char text[TD_SHAPE_TEXT];
        td_error_set(header->err, TD_MALFORMED_REQUEST,
                     "tensor \"%.100s\" has %" PRId64
                     " bytes of data, but %s of shape %.100s takes %zu",
                     entry->name, of->offsets[1] - of->offsets[0], td_dtype_info(dtype)->name,
                     td_shape_text(&of->shape, text, sizeof text), tensor->bytes);
        return refuse(header->err, entry->name);
    }
    tensor->data = header->data + of->offsets[0];
    return TD_OK;
}

static td_status read_entry(struct header *header, struct td_safetensors_entry *entry,
                            struct range *range)
{
    struct description of = { 0 };
    const td_status status = read_description(header, entry->name, &of);
    if (status != TD_OK)
        return status;
    range->begin = (uint64_t)of.offsets[0];
    range->end = (uint64_t)of.offsets[1];
    if (range->begin > range->end || range->end > header->data_size) {
        td_error_set(header->err, TD_MALFORMED_REQUEST,
                     "tensor \"%.100s\" has data_offsets [%" PRIu64 ", %" PRIu64
                     "], which is not a range within the %" PRIu64 " bytes of data",
                     entry->name, range->begin, range->end, header->data_size);
        return refuse(header->err, entry->name);
    }
    return describe_tensor(header, entry, &of);
}

/* Reads the metadata: {"name": "text", ...}, or null if there is none. */
static td_status read_metadata(struct header *header)
{
    struct td_json_scan *scan = &header->scan;
    bool more;
    if (td_json_peek(scan) == 'n')
        return td_json_literal(scan, header->err) ? TD_OK : TD_MALFORMED_REQUEST;
    td_status status = td_json_open(scan, '{', '}', &more, header->err);
    if (status != TD_OK)
        return status;
    while (more) {
        struct td_safetensors_metadata item = { 0 };
        status = read_text(header, "a metadata name in quotes", &item.key);
        if (status == TD_OK)
            status = td_json_expect(scan, ':', header->err);
        if (status == TD_OK)
            status = read_text(header, "a metadata value in quotes", &item.value);
        if (status != TD_OK)
            return status;
        struct td_safetensors *out = header->out;
        if (out->n_metadata == header->metadata_capacity) {
            int capacity = header->metadata_capacity ? header->metadata_capacity * 2 : 4;
            struct td_safetensors_metadata *metadata =
                td_arena_alloc(header->arena, (size_t)capacity, sizeof *metadata, header->err);
            if (!metadata)
                return header->err->status;
            if (out->n_metadata)
                memcpy(metadata, out->metadata, (size_t)out->n_metadata * sizeof *metadata);
            out->metadata = metadata;
            header->metadata_capacity = capacity;
        }
        out->metadata[out->n_metadata++] = item;
        status = td_json_next(scan, '}', &more, header->err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

/* Doubles the capacity for entries and ranges. Returns false with err filled if memory is
 * exhausted. */
static bool grow_entries(struct header *header, struct td_safetensors *out)
{
    int capacity = header->entry_capacity ? header->entry_capacity * 2 : 4;
    struct td_safetensors_entry *entries =
        td_arena_alloc(header->arena, (size_t)capacity, sizeof *entries, header->err);
    struct range *larger =
        entries ? td_arena_alloc(header->arena, (size_t)capacity, sizeof *larger, header->err)
                : NULL;
    if (!larger)
        return false;
    if (out->entries && header->ranges) {
        memcpy(entries, out->entries, (size_t)out->n_entries * sizeof *entries);
        memcpy(larger, header->ranges, (size_t)out->n_entries * sizeof *larger);
    }
    out->entries = entries;
    header->ranges = larger;
    header->entry_capacity = capacity;
    return true;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct range *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return left->end < right->end ? -1 : left->end > right->end;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Refuses repeated names. Compares a few names pairwise, and sorts longer lists. */
static td_status check_names(struct header *header, const char *what, const char **names, int n)
{
    const char *twice = NULL;
    if (n <= 8) {
        for (int i = 1; i < n && !twice; i++)
            for (int j = 0; j < i && !twice; j++)
                twice = strcmp(names[i], names[j]) == 0 ? names[i] : NULL;
    } else {
        qsort(names, (size_t)n, sizeof *names, compare_names);
        for (int i = 1; i < n && !twice; i++)
            twice = strcmp(names[i], names[i - 1]) == 0 ? names[i] : NULL;
    }
    if (!twice)
        return TD_OK;
    td_error_set(header->err, TD_MALFORMED_REQUEST, "the header has the %s \"%.100s\" twice", what,
                 twice);
    return refuse(header->err, twice);
}

static td_status check_all_names(struct header *header)
{
    struct td_safetensors *out = header->out;
    int most = out->n_entries > out->n_metadata ? out->n_entries : out->n_metadata;
    const char *few[8];
    const char **names =
        most <= 8 ? few : td_arena_alloc(header->arena, (size_t)most, sizeof *names, header->err);
    if (!names)
        return header->err->status;
    for (int i = 0; i < out->n_entries; i++)
        names[i] = out->entries[i].name;
    td_status status = check_names(header, "tensor", names, out->n_entries);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < out->n_metadata; i++)
        names[i] = out->metadata[i].key;
    return check_names(header, "metadata entry", names, out->n_metadata);
}

/* Checks that the ranges cover the data without overlaps or gaps. */
static td_status check_ranges(struct header *header)
{
    const struct td_safetensors *out = header->out;
    struct range *ranges = header->ranges;
    int n = ranges ? out->n_entries : 0;
    bool sorted = true;
    for (int i = 1; i < n && sorted; i++)
        sorted = compare_ranges(&ranges[i - 1], &ranges[i]) <= 0;
    if (!sorted)
        qsort(ranges, (size_t)n, sizeof *ranges, compare_ranges);
    uint64_t covered = 0;
    for (int i = 0; i < n; i++) {
        if (ranges[i].begin != covered) {
            const char *name = out->entries[ranges[i].entry].name;
            td_error_set(header->err, TD_MALFORMED_REQUEST,
                         "the data of tensor \"%.100s\" starts at byte %" PRIu64
                         " of the data, but the tensors before it end at byte %" PRIu64
                         "; overlaps and gaps are not allowed",
                         name, ranges[i].begin, covered);
            return refuse(header->err, name);
        }
        covered = ranges[i].end;
    }
    if (covered != header->data_size) {
        td_error_set(header->err, TD_MALFORMED_REQUEST,
                     "the tensors end at byte %" PRIu64 " of the data, but the data has %" PRIu64
                     " bytes",
                     covered, header->data_size);
        header->err->offset = header->data - header->scan.begin + (int64_t)covered;
        return TD_MALFORMED_REQUEST;
    }
    return TD_OK;
}

/* Checks the values of all tensors. Must run after check_ranges, which refuses overlapping ranges,
 * so each byte is read only once. */
static td_status check_values(struct header *header)
{
    const struct td_safetensors *out = header->out;
    td_status status = TD_OK;
    for (int i = 0; i < out->n_entries && status == TD_OK; i++) {
        struct td_safetensors_entry *entry = &out->entries[i];
        struct td_error why;
        if (!entry->unreadable && td_raw_check(&entry->tensor, &why) != TD_OK)
            status = mark_unreadable(header, entry, "%s", why.message);
    }
    return status;
}

static td_status read_length(const char *file, size_t size, uint64_t *length, struct td_error *err)
{
    if (size >= LENGTH_BYTES) {
        memcpy(length, file, LENGTH_BYTES);
        if (*length <= size - LENGTH_BYTES && *length <= HEADER_LIMIT)
            return TD_OK;
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "the header length is %" PRIu64 "; expected at most %" PRIu64
                     " and at most the number of bytes after it, %zu",
                     *length, HEADER_LIMIT, size - LENGTH_BYTES);
    } else {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "%zu bytes are not a safetensors file: expected 8 bytes of header length, a "
                     "JSON header and the data",
                     size);
    }
    err->offset = 0;
    return TD_MALFORMED_REQUEST;
}

/* Reads a member of the header, which is either the metadata or a tensor. */
static td_status read_member(struct header *header, bool *metadata_read)
{
    struct td_json_scan *scan = &header->scan;
    struct td_safetensors *out = header->out;
    const char *name = "", *begin = scan->at;
    td_status status = read_text(header, "the name of a tensor in quotes", &name);
    if (status == TD_OK)
        status = td_json_expect(scan, ':', header->err);
    if (status != TD_OK)
        return status;
    if (strcmp(name, "__metadata__") == 0) {
        if (*metadata_read)
            return td_json_syntax(scan, begin, header->err, "expected __metadata__ only once");
        *metadata_read = true;
        return read_metadata(header);
    }
    const bool full = !out->entries || !header->ranges || out->n_entries == header->entry_capacity;
    if (full && !grow_entries(header, out))
        return header->err->status;
    const int entry = out->n_entries++;
    out->entries[entry] = (struct td_safetensors_entry){ .name = name };
    header->ranges[entry].entry = entry;
    return read_entry(header, &out->entries[entry], &header->ranges[entry]);
}

td_status td_safetensors_open_partly(const void *bytes, size_t size, struct td_arena *arena,
                                     struct td_safetensors *out, struct td_error *err)
{
    const char *file = bytes;
    uint64_t length = 0;
    memset(out, 0, sizeof *out);
    td_status status = read_length(file, size, &length, err);
    if (status != TD_OK)
        return status;
    struct header header = {
        .scan = { .begin = file, .at = file + LENGTH_BYTES, .end = file + LENGTH_BYTES + length },
        .arena = arena,
        .err = err,
        .data = (char *)file + LENGTH_BYTES + length,
        .data_size = size - LENGTH_BYTES - length,
        .out = out,
    };
    struct td_json_scan *scan = &header.scan;
    out->data = header.data;
    bool metadata_read = false, more;
    status = td_json_open(scan, '{', '}', &more, err);
    while (status == TD_OK && more) {
        status = read_member(&header, &metadata_read);
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
    }
    if (status != TD_OK)
        return status;
    td_json_peek(scan);
    if (scan->at != scan->end)
        return td_json_syntax(scan, scan->at, err, "expected the end of the header");
    status = check_all_names(&header);
    if (status == TD_OK)
        status = check_ranges(&header);
    return status == TD_OK ? check_values(&header) : status;
}

bool td_safetensors_is(const void *bytes, size_t size)
{
    enum { HEADER = 8 }; /* offset of the JSON header, after its length */
    static const char upper_half[4] = { 0 };
    const char *at = bytes;
    return size > HEADER && memcmp(at + 4, upper_half, sizeof upper_half) == 0 && at[HEADER] == '{';
}

td_status td_safetensors_open(const void *bytes, size_t size, struct td_arena *arena,
                              struct td_safetensors *out, struct td_error *err)
{
    const td_status status = td_safetensors_open_partly(bytes, size, arena, out, err);
    for (int i = 0; i < out->n_entries && status == TD_OK; i++)
        if (out->entries[i].unreadable) {
            td_error_set(err, TD_MALFORMED_REQUEST, "%s", out->entries[i].unreadable);
            return refuse(err, out->entries[i].name);
        }
    return status;
}

/* ---- a request ---- */

/* Applies a metadata entry if it is an attribute, and ignores an entry written by a library. */
static td_status apply_metadata(struct td_request *request,
                                const struct td_safetensors_metadata *item, struct td_arena *arena,
                                struct td_error *err)
{
    bool known;
    td_status status = td_attrs_set_text(request, item->key, strlen(item->key), item->value,
                                         strlen(item->value), arena, &known, err);
    if (status != TD_OK || known)
        return status;
    if (strcmp(item->key, "format") == 0)
        return TD_OK; /* "format" is written by the Python library */
    return td_unknown_member(request, item->key, strlen(item->key), TD_METADATA, err);
}

td_status td_safetensors_decode(const char *body, size_t bytes, struct td_resolver *resolver,
                                struct td_arena *arena, struct td_request *request,
                                struct td_error *err)
{
    struct td_safetensors file;
    struct td_named_input target;
    td_status status = td_safetensors_open(body, bytes, arena, &file, err);
    if (status != TD_OK)
        return status;

    for (int i = 0; i < file.n_entries && status == TD_OK; i++)
        status = td_named_input_count(request, file.entries[i].name, strlen(file.entries[i].name),
                                      &target, err);
    for (int i = 0; i < file.n_metadata && status == TD_OK; i++)
        status = td_named_input_find_ref(request, file.metadata[i].key,
                                         strlen(file.metadata[i].key), &target)
                     ? td_named_input_count_ref(request, target, err)
                     : apply_metadata(request, &file.metadata[i], arena, err);
    if (status == TD_OK)
        status = td_named_inputs_alloc(request, arena, err);

    for (int i = 0; i < file.n_entries && status == TD_OK; i++) {
        struct td_tensor *place = NULL;
        target = td_named_input_find(request, file.entries[i].name, strlen(file.entries[i].name));
        status = td_named_input_tensor(request, target, &place, err);
        if (status == TD_OK)
            *place = file.entries[i].tensor;
    }
    for (int i = 0; i < file.n_metadata && status == TD_OK; i++) {
        const struct td_safetensors_metadata *item = &file.metadata[i];
        if (td_named_input_find_ref(request, item->key, strlen(item->key), &target))
            status = td_named_input_resolve(request, target, item->value, strlen(item->value),
                                            resolver, arena, err);
    }
    return status;
}

/* ---- a reply ---- */

/* Maximum length of the header text for one output: name, dtype, 16 dimensions, and two offsets of
 * 19 digits each. */
#define ENTRY_TEXT ((size_t)512)

bool td_safetensors_encoded_bound(const struct td_request *request, size_t *bytes)
{
    int n_large = 0;
    *bytes = LENGTH_BYTES + ENTRY_TEXT;
    for (int i = 0; i < td_request_n_outputs(request); i++)
        if (!td_size_add(*bytes, ENTRY_TEXT + sizeof(struct td_chunk) * 2, bytes) ||
            !td_chunk_count(td_request_output(request, i)->bytes, bytes, &n_large))
            return false;
    return true;
}

/* Starts a header by leaving space for the length, which end_header writes, and opening the
 * object. */
static char *begin_header(struct td_text *text)
{
    char *length_at = text->at;
    text->at += LENGTH_BYTES;
    td_text_string(text, "{");
    return length_at;
}

/* Writes the part of an entry that follows the tensor's name. Advances *offset from the start of
 * the tensor's data to its end. */
static void write_entry(struct td_text *text, const struct td_tensor *tensor, uint64_t *offset)
{
    td_text_string(text, ":{\"dtype\":\"");
    td_text_string(text, td_dtype_info(tensor->dtype)->safetensors);
    td_text_string(text, "\",\"shape\":[");
    td_text_dims(text, tensor->shape.dim, tensor->shape.rank);
    td_text_string(text, "],\"data_offsets\":[");
    td_text_uint(text, *offset);
    td_text_string(text, ",");
    *offset += tensor->bytes;
    td_text_uint(text, *offset);
    td_text_string(text, "]}");
}

/* Pads the header with spaces to align the data to 8 bytes, and writes the length of the header. */
static void end_header(struct td_text *text, char *length_at)
{
    td_text_string(text, "}");
    while ((text->at - length_at) % 8 != 0)
        td_text_add(text, " ", 1);
    uint64_t length = (uint64_t)(text->at - length_at) - LENGTH_BYTES;
    memcpy(length_at, &length, LENGTH_BYTES);
}

/* Writes the entries about replaced indices, bounds.policy and bounds.replaced, and for a program
 * bounds.STEP.policy, bounds.STEP.replaced and steps.STEP.ms. */
static void write_metadata(const struct td_request *request, struct td_text *text)
{
    const struct td_op_args *args = &request->args;
    if (args->replaced)
        td_text_print(text, "\"bounds.policy\":\"%s\",\"bounds.replaced\":\"%" PRId64 "\"",
                      td_bounds_name(td_request_bounds(request)), args->replaced);
    for (int i = 0; i < args->n_replaced_in; i++) {
        const struct td_step_replaced *in = &args->replaced_in[i];
        td_text_print(text, "%s\"bounds.%d.policy\":\"%s\",\"bounds.%d.replaced\":\"%" PRId64 "\"",
                      i ? "," : "", in->step, td_bounds_name(in->policy), in->step, in->replaced);
    }
    for (int i = 0; i < args->n_times; i++)
        td_text_print(text, "%s\"steps.%d.ms\":\"%.4f\"",
                      i > 0 || args->n_replaced_in > 0 ? "," : "", args->times[i].first,
                      (double)args->times[i].ns / 1e6);
}

static void write_header(const struct td_request *request, struct td_text *text)
{
    const struct td_op_args *args = &request->args;
    const int n = td_request_n_outputs(request);
    uint64_t offset = 0;
    char *length_at = begin_header(text);
    if (args->replaced || args->n_replaced_in > 0 || args->n_times > 0) {
        td_text_string(text, "\"__metadata__\":{");
        write_metadata(request, text);
        td_text_string(text, n ? "}," : "}");
    }
    for (int i = 0; i < n; i++) {
        td_text_string(text, i > 0 ? ",\"" : "\"");
        td_named_output_write(text, request->op, td_request_output_index(request, i));
        td_text_string(text, "\"");
        write_entry(text, td_request_output(request, i), &offset);
    }
    end_header(text, length_at);
}

static td_status check_dtype(const struct td_tensor *tensor, struct td_error *err)
{
    const struct td_dtype_info *info = td_dtype_info(tensor->dtype);
    if (info->safetensors[0])
        return TD_OK;
    return td_error_set(err, TD_NOT_ACCEPTABLE, "safetensors has no dtype for %s", info->name);
}

td_status td_safetensors_can_encode(const struct td_request *request, struct td_error *err)
{
    for (int i = 0; i < td_request_n_outputs(request); i++)
        if (check_dtype(td_request_output(request, i), err) != TD_OK)
            return TD_NOT_ACCEPTABLE;
    return TD_OK;
}

td_status td_safetensors_encode(const struct td_request *request, struct td_arena *arena,
                                struct td_reply *reply, struct td_error *err)
{
    const int n = td_request_n_outputs(request);
    td_status status = td_safetensors_can_encode(request, err);
    if (status != TD_OK)
        return status;
    size_t capacity = LENGTH_BYTES + ENTRY_TEXT * ((size_t)n + 1) + td_replaced_bound(request) +
                      td_step_times_bound(request);
    const size_t header_size = capacity;
    int n_large = 0;
    for (int i = 0; i < n; i++)
        if (!td_chunk_count(td_request_output(request, i)->bytes, &capacity, &n_large))
            return td_error_resource(err, "output_bytes", UINT64_MAX, INT64_MAX, "the reply");
    char *bytes = td_arena_alloc(arena, capacity, 1, err);
    if (!bytes)
        return err->status;
    struct td_text text = { .at = bytes, .end = bytes + header_size };
    write_header(request, &text);

    struct td_chunk_writer writer;
    status = td_chunk_writer_begin(&writer, reply, "application/vnd.safetensors", bytes,
                                   (size_t)(text.at - bytes), n_large, arena, err);
    if (status != TD_OK)
        return status;
    for (int i = 0; i < n; i++)
        td_chunk_writer_add(&writer, td_request_output(request, i)->data,
                            td_request_output(request, i)->bytes);
    td_chunk_writer_end(&writer);
    return TD_OK;
}

td_status td_safetensors_encode_tensor(const struct td_tensor *tensor, struct td_arena *arena,
                                       struct td_reply *reply, struct td_error *err)
{
    char header[LENGTH_BYTES + ENTRY_TEXT];
    td_status status = check_dtype(tensor, err);
    if (status != TD_OK)
        return status;
    struct td_text text = { .at = header, .end = header + sizeof header };
    uint64_t offset = 0;
    char *length_at = begin_header(&text);
    td_text_string(&text, "\"tensor\"");
    write_entry(&text, tensor, &offset);
    end_header(&text, length_at);
    return td_raw_reply("application/vnd.safetensors", header, (size_t)(text.at - header), tensor,
                        arena, reply, err);
}
