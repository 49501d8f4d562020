#include "api/safetensors.h"

#include "api/attrs.h"
#include "api/json_scan.h"
#include "api/raw.h"
#include "api/suggest.h"
#include "api/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define HEADER_LIMIT UINT64_C(100000000) /* as the reference implementation has it */

/* ---- reading a header ---- */

/* Where the data of a tensor lies. */
struct range {
    uint64_t begin, end;
    int entry;
};

struct header {
    struct td_json_scan scan;
    struct td_arena *arena;
    struct td_error *err;
    char *data; /* behind the header */
    uint64_t data_size;
    struct td_safetensors *out;
    struct range *ranges; /* of the entries */
    int entry_room, note_room;
};

static td_status refuse(struct td_error *err, const char *name)
{
    return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", name);
}

/* A string as a NUL-terminated copy. */
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

/* A list of integers that are not negative; *count of them, at most `most`. */
static td_status read_integers(struct header *header, const char *expected, int most, int64_t *out,
                               int *count)
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
        if (!fits || value < 0 || *count == most)
            return td_json_syntax(scan, begin, header->err, "expected %s", expected);
        out[(*count)++] = value;
        status = td_json_next(scan, ']', &more, header->err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

enum { MEMBER_DTYPE = 1, MEMBER_SHAPE = 2, MEMBER_OFFSETS = 4, MEMBERS = 7 };

static bool key_is(const char *key, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(key, name, length) == 0;
}

static td_status read_dtype(struct header *header, const char *entry, td_dtype *dtype)
{
    struct td_json_scan *scan = &header->scan;
    const char *name = "";
    size_t length = 0;
    if (td_json_peek(scan) != '"')
        return td_json_syntax(scan, scan->at, header->err, "expected the name of a dtype");
    td_status status = td_json_string(scan, header->arena, &name, &length, header->err);
    if (status != TD_OK || td_dtype_from_safetensors(name, length, dtype))
        return status;
    td_error_set(header->err, TD_MALFORMED_REQUEST,
                 "tensor \"%.100s\" has dtype \"%.*s\"; expected BOOL, I8 to I64, U8 to U64, F16, "
                 "BF16, F32, F64 or C64",
                 entry, (int)(length < 32 ? length : 32), name);
    return refuse(header->err, entry);
}

/* {"dtype": ..., "shape": ..., "data_offsets": [begin, end]} */
static td_status read_entry(struct header *header, const char *name, struct td_tensor *tensor,
                            struct range *range)
{
    struct td_json_scan *scan = &header->scan;
    struct td_error *err = header->err;
    td_dtype dtype = TD_DTYPE_BOOL;
    struct td_shape shape = { 0 };
    int64_t offsets[2] = { 0 };
    unsigned seen = 0;
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, err);
    if (status != TD_OK)
        return status;
    while (more) {
        const char *key = "", *begin = scan->at;
        size_t length = 0;
        int count = 0;
        if (td_json_peek(scan) != '"')
            return td_json_syntax(scan, scan->at, err, "expected a member name in quotes");
        status = td_json_string(scan, header->arena, &key, &length, err);
        if (status == TD_OK)
            status = td_json_expect(scan, ':', err);
        if (status != TD_OK)
            return status;
        unsigned member = key_is(key, length, "dtype")          ? MEMBER_DTYPE
                          : key_is(key, length, "shape")        ? MEMBER_SHAPE
                          : key_is(key, length, "data_offsets") ? MEMBER_OFFSETS
                                                                : 0;
        if (member == 0 || (seen & member))
            return td_json_syntax(scan, begin, err,
                                  "expected each of dtype, shape and data_offsets once and nothing "
                                  "else");
        seen |= member;
        if (member == MEMBER_DTYPE) {
            status = read_dtype(header, name, &dtype);
        } else if (member == MEMBER_SHAPE) {
            status =
                read_integers(header, "a list of at most 16 dimensions, each from 0 to 2^63 - 1",
                              TD_MAX_RANK, shape.dim, &count);
            shape.rank = count;
        } else {
            status = read_integers(header, "data_offsets as [begin, end]", 2, offsets, &count);
            if (status == TD_OK && count != 2)
                return td_json_syntax(scan, begin, err, "expected data_offsets as [begin, end]");
        }
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
        if (status != TD_OK)
            return status;
    }
    if (seen != MEMBERS) {
        td_error_set(err, TD_MALFORMED_REQUEST, "tensor \"%.100s\" lacks %s", name,
                     !(seen & MEMBER_DTYPE)   ? "dtype"
                     : !(seen & MEMBER_SHAPE) ? "shape"
                                              : "data_offsets");
        return refuse(err, name);
    }
    memset(tensor, 0, sizeof *tensor);
    status = td_tensor_describe(tensor, name, dtype, &shape, err);
    if (status != TD_OK)
        return status;
    range->begin = (uint64_t)offsets[0];
    range->end = (uint64_t)offsets[1];
    if (range->begin > range->end || range->end > header->data_size) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "tensor \"%.100s\" has data_offsets [%" PRIu64 ", %" PRIu64
                     "], which is no range within the %" PRIu64 " bytes of data",
                     name, range->begin, range->end, header->data_size);
        return refuse(err, name);
    }
    if (range->end - range->begin != tensor->bytes) {
        char text[TD_SHAPE_TEXT];
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "tensor \"%.100s\" has %" PRIu64
                     " bytes of data, but %s of shape %.100s takes %zu",
                     name, range->end - range->begin, td_dtype_info(dtype)->name,
                     td_shape_text(&shape, text, sizeof text), tensor->bytes);
        return refuse(err, name);
    }
    tensor->data = header->data + range->begin;
    status = td_raw_check(tensor, err);
    return status == TD_OK ? TD_OK : refuse(err, name);
}

/* {"name": "text", ...} */
static td_status read_notes(struct header *header)
{
    struct td_json_scan *scan = &header->scan;
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, header->err);
    if (status != TD_OK)
        return status;
    while (more) {
        struct td_safetensors_note note = { 0 };
        status = read_text(header, "a metadata name in quotes", &note.key);
        if (status == TD_OK)
            status = td_json_expect(scan, ':', header->err);
        if (status == TD_OK)
            status = read_text(header, "a metadata value in quotes", &note.value);
        if (status != TD_OK)
            return status;
        struct td_safetensors *out = header->out;
        if (out->n_notes == header->note_room) {
            int room = header->note_room ? header->note_room * 2 : 4;
            struct td_safetensors_note *notes =
                td_arena_alloc(header->arena, (size_t)room, sizeof *notes, header->err);
            if (!notes)
                return header->err->status;
            if (out->n_notes)
                memcpy(notes, out->notes, (size_t)out->n_notes * sizeof *notes);
            out->notes = notes;
            header->note_room = room;
        }
        out->notes[out->n_notes++] = note;
        status = td_json_next(scan, '}', &more, header->err);
        if (status != TD_OK)
            return status;
    }
    return TD_OK;
}

/* Doubles the room for entries and their ranges; false, with err filled, without memory. */
static bool grow_entries(struct header *header, struct td_safetensors *out)
{
    int room = header->entry_room ? header->entry_room * 2 : 4;
    struct td_safetensors_entry *entries =
        td_arena_alloc(header->arena, (size_t)room, sizeof *entries, header->err);
    struct range *larger =
        entries ? td_arena_alloc(header->arena, (size_t)room, sizeof *larger, header->err) : NULL;
    if (!larger)
        return false;
    if (out->entries && header->ranges) {
        memcpy(entries, out->entries, (size_t)out->n_entries * sizeof *entries);
        memcpy(larger, header->ranges, (size_t)out->n_entries * sizeof *larger);
    }
    out->entries = entries;
    header->ranges = larger;
    header->entry_room = room;
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

/* Refuses a name that occurs twice. Few names are compared in pairs, many are sorted. */
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
    int most = out->n_entries > out->n_notes ? out->n_entries : out->n_notes;
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
    for (int i = 0; i < out->n_notes; i++)
        names[i] = out->notes[i].key;
    return check_names(header, "metadata entry", names, out->n_notes);
}

/* The ranges follow each other without overlap or hole, from the first byte of data to the last. */
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
                         "the data of tensor \"%.100s\" begins at %" PRIu64
                         " of the data, where the tensors before it end at %" PRIu64
                         "; neither overlap nor hole is allowed",
                         name, ranges[i].begin, covered);
            return refuse(header->err, name);
        }
        covered = ranges[i].end;
    }
    if (covered != header->data_size) {
        td_error_set(header->err, TD_MALFORMED_REQUEST,
                     "the tensors end at %" PRIu64 " of the data, but there are %" PRIu64 " bytes",
                     covered, header->data_size);
        header->err->offset = header->data - header->scan.begin + (int64_t)covered;
        return TD_MALFORMED_REQUEST;
    }
    return TD_OK;
}

td_status td_safetensors_open(const void *bytes, size_t size, struct td_arena *arena,
                              struct td_safetensors *out, struct td_error *err)
{
    const char *file = bytes;
    uint64_t length = 0;
    memset(out, 0, sizeof *out);
    if (size >= LENGTH_BYTES)
        memcpy(&length, file, LENGTH_BYTES);
    if (size < LENGTH_BYTES || length > size - LENGTH_BYTES || length > HEADER_LIMIT) {
        if (size < LENGTH_BYTES)
            td_error_set(err, TD_MALFORMED_REQUEST,
                         "%zu bytes are no safetensors file: expected 8 bytes of header length, a "
                         "JSON header and the data",
                         size);
        else
            td_error_set(err, TD_MALFORMED_REQUEST,
                         "the header length is %" PRIu64 "; expected at most %" PRIu64
                         " and at most what follows it, %zu",
                         length, HEADER_LIMIT, size - LENGTH_BYTES);
        err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    struct header header = {
        .scan = { .begin = file, .at = file + LENGTH_BYTES, .end = file + LENGTH_BYTES + length },
        .arena = arena,
        .err = err,
        .data = (char *)file + LENGTH_BYTES + length,
        .data_size = size - LENGTH_BYTES - length,
        .out = out,
    };
    struct td_json_scan *scan = &header.scan;
    bool notes_read = false;
    bool more;
    td_status status = td_json_open(scan, '{', '}', &more, err);
    if (status != TD_OK)
        return status;
    while (more) {
        const char *name = "", *begin = scan->at;
        status = read_text(&header, "the name of a tensor in quotes", &name);
        if (status == TD_OK)
            status = td_json_expect(scan, ':', err);
        if (status != TD_OK)
            return status;
        if (strcmp(name, "__metadata__") == 0) {
            if (notes_read)
                return td_json_syntax(scan, begin, err, "expected __metadata__ only once");
            notes_read = true;
            status = read_notes(&header);
        } else {
            bool full = !out->entries || !header.ranges || out->n_entries == header.entry_room;
            if (full && !grow_entries(&header, out))
                return err->status;
            out->entries[out->n_entries].name = name;
            header.ranges[out->n_entries].entry = out->n_entries;
            status = read_entry(&header, name, &out->entries[out->n_entries].tensor,
                                &header.ranges[out->n_entries]);
            out->n_entries++;
        }
        if (status == TD_OK)
            status = td_json_next(scan, '}', &more, err);
        if (status != TD_OK)
            return status;
    }
    td_json_peek(scan);
    if (scan->at != scan->end)
        return td_json_syntax(scan, scan->at, err, "expected the end of the header");
    status = check_all_names(&header);
    return status == TD_OK ? check_ranges(&header) : status;
}

/* ---- a request ---- */

/* Which tensor of which input a name means: "params", or "indices.3" where the input is a list. */
struct slot {
    int input;     /* -1 when it means none */
    int64_t index; /* -1 for an input that is no list */
};

static struct slot find_slot(const struct td_op *op, const char *name, size_t length)
{
    struct slot slot = { -1, -1 };
    const char *dot = memrchr(name, '.', length);
    size_t stem = dot ? (size_t)(dot - name) : length;
    for (int i = 0; i < op->n_inputs && slot.input < 0; i++)
        if (op->inputs[i].list ? dot && key_is(name, stem, op->inputs[i].name)
                               : key_is(name, length, op->inputs[i].name))
            slot.input = i;
    if (slot.input < 0 || !op->inputs[slot.input].list)
        return slot;
    const char *digits = dot + 1, *end = name + length;
    bool good = end > digits && end - digits < 10 && (*digits != '0' || end - digits == 1);
    slot.index = 0;
    for (; digits < end && good; digits++) {
        good = *digits >= '0' && *digits <= '9';
        slot.index = slot.index * 10 + (*digits - '0');
    }
    return good ? slot : (struct slot){ -1, -1 };
}

static td_status refuse_name(const struct td_op *op, const char *name, struct td_error *err)
{
    const char *names[TD_MAX_INPUTS];
    char expected[160] = "";
    size_t used = 0;
    for (int i = 0; i < op->n_inputs; i++) {
        names[i] = op->inputs[i].name;
        used += (size_t)snprintf(expected + used, sizeof expected - used,
                                 op->inputs[i].list ? "%s%s.0, %s.1, ..." : "%s%s", i ? "; " : "",
                                 names[i], names[i]);
        used = used < sizeof expected ? used : sizeof expected - 1;
    }
    td_error_set(err, TD_MALFORMED_REQUEST, "%s has no input \"%.100s\"; expected %s", op->name,
                 name, expected);
    td_suggest(err, name, strlen(name), names, op->n_inputs);
    return refuse(err, name);
}

/* Is this note the name of a resident tensor? Its key without ".ref" is an input's. */
static bool is_ref(const struct td_op *op, const char *key, struct slot *slot)
{
    static const char suffix[] = ".ref";
    size_t length = strlen(key), suffix_length = sizeof suffix - 1;
    if (length <= suffix_length || strcmp(key + length - suffix_length, suffix) != 0)
        return false;
    *slot = find_slot(op, key, length - suffix_length);
    return slot->input >= 0;
}

/* Counts a tensor for its input. */
static td_status count_slot(struct td_request *request, struct slot slot, struct td_error *err)
{
    const struct td_input_spec *spec = &request->op->inputs[slot.input];
    int *count = &request->args.inputs[slot.input].count;
    if (++*count <= (spec->list ? TD_MAX_LIST : 1))
        return TD_OK;
    if (spec->list)
        return td_error_resource(err, "tensors", (uint64_t)*count, TD_MAX_LIST,
                                 "a list of tensors");
    td_error_set(err, TD_MALFORMED_REQUEST, "%s is given twice", spec->name);
    return refuse(err, spec->name);
}

/* The place of a tensor, once all are counted; NULL with err filled when the numbers of a list have
 * gaps or repeat themselves. */
static struct td_tensor *fill_slot(struct td_request *request, struct slot slot,
                                   struct td_error *err)
{
    const struct td_operand *operand = &request->args.inputs[slot.input];
    const char *name = request->op->inputs[slot.input].name;
    int64_t index = slot.index < 0 ? 0 : slot.index;
    if (index < operand->count && operand->tensors[index].data == NULL)
        return &operand->tensors[index];
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "%s.%" PRId64 " is given%s, with %d in all: they are numbered from 0, each once",
                 name, index, index < operand->count ? " twice" : "", operand->count);
    td_error_at_input(err, TD_MALFORMED_REQUEST, "%s[%" PRId64 "]", name, index);
    return NULL;
}

/* Attributes, and what libraries note by themselves. */
static td_status apply_note(struct td_request *request, const struct td_safetensors_note *note,
                            struct td_arena *arena, struct td_error *err)
{
    bool known;
    td_status status = td_attrs_set_text(request, note->key, strlen(note->key), note->value,
                                         strlen(note->value), arena, &known, err);
    if (status != TD_OK || known)
        return status;
    if (strcmp(note->key, "format") == 0)
        return TD_OK; /* safetensors for Python says "pt", "np", ... */
    return td_attrs_unknown(request->op, note->key, strlen(note->key), "metadata entry", err);
}

static td_status refuse_ref(const struct td_op *op, struct slot slot, td_status status,
                            struct td_error *err)
{
    const struct td_input_spec *spec = &op->inputs[slot.input];
    return spec->list ? td_error_at_input(err, status, "%s[%" PRId64 "]", spec->name, slot.index)
                      : td_error_at_input(err, status, "%s", spec->name);
}

td_status td_safetensors_decode(const char *body, size_t bytes, struct td_resolver *resolver,
                                struct td_arena *arena, struct td_request *request,
                                struct td_error *err)
{
    const struct td_op *op = request->op;
    struct td_op_args *args = &request->args;
    struct td_safetensors file;
    struct slot slot;
    td_status status = td_safetensors_open(body, bytes, arena, &file, err);
    if (status != TD_OK)
        return status;

    for (int i = 0; i < file.n_entries && status == TD_OK; i++) {
        slot = find_slot(op, file.entries[i].name, strlen(file.entries[i].name));
        status = slot.input < 0 ? refuse_name(op, file.entries[i].name, err)
                                : count_slot(request, slot, err);
    }
    for (int i = 0; i < file.n_notes && status == TD_OK; i++)
        status = is_ref(op, file.notes[i].key, &slot)
                     ? count_slot(request, slot, err)
                     : apply_note(request, &file.notes[i], arena, err);
    if (status != TD_OK)
        return status;

    for (int i = 0; i < op->n_inputs; i++) {
        size_t count = (size_t)args->inputs[i].count;
        if (count == 0)
            continue;
        args->inputs[i].tensors =
            td_arena_alloc(arena, count, sizeof *args->inputs[i].tensors, err);
        if (!args->inputs[i].tensors)
            return err->status;
        memset(args->inputs[i].tensors, 0, count * sizeof *args->inputs[i].tensors);
    }
    for (int i = 0; i < file.n_entries; i++) {
        slot = find_slot(op, file.entries[i].name, strlen(file.entries[i].name));
        struct td_tensor *tensor = fill_slot(request, slot, err);
        if (!tensor)
            return TD_MALFORMED_REQUEST;
        *tensor = file.entries[i].tensor;
    }
    for (int i = 0; i < file.n_notes; i++) {
        if (!is_ref(op, file.notes[i].key, &slot))
            continue;
        struct td_tensor *tensor = fill_slot(request, slot, err);
        if (!tensor)
            return TD_MALFORMED_REQUEST;
        const char *name = file.notes[i].value;
        status = td_resolve(resolver, name, strlen(name), arena, tensor, err);
        if (status != TD_OK)
            return refuse_ref(op, slot, status, err);
    }
    return TD_OK;
}

/* ---- a reply ---- */

/* Outputs up to this size are copied behind the header: a piece of its own costs a reply more than
 * that copy: header and body leave in two system calls. */
#define COPIED ((size_t)64 * 1024)

/* Header text of one output: name, dtype, 16 dimensions and two offsets of 19 digits. */
#define ENTRY_TEXT ((size_t)512)

static bool is_copied(const struct td_tensor *tensor)
{
    return tensor->bytes < COPIED;
}

bool td_safetensors_encoded_bound(const struct td_request *request, size_t *bytes)
{
    const struct td_op_args *args = &request->args;
    *bytes = LENGTH_BYTES + ENTRY_TEXT;
    for (int i = 0; i < args->n_outputs; i++)
        if (!td_size_add(*bytes, ENTRY_TEXT + sizeof(struct td_piece) * 2, bytes) ||
            (is_copied(&args->outputs[i]) && !td_size_add(*bytes, args->outputs[i].bytes, bytes)))
            return false;
    return true;
}

/* Writes the JSON header with its length in front, filled up with spaces so that the data behind it
 * is aligned to 8 bytes. */
static void write_header(const struct td_request *request, struct td_text *text)
{
    const struct td_op_args *args = &request->args;
    char *length_at = text->at;
    uint64_t offset = 0;
    text->at += LENGTH_BYTES;
    td_text_word(text, "{");
    if (args->replaced)
        td_text_print(
            text,
            "\"__metadata__\":{\"bounds.policy\":\"%s\",\"bounds.replaced\":\"%" PRId64 "\"}%s",
            td_bounds_name(td_request_bounds(request)), args->replaced, args->n_outputs ? "," : "");
    for (int i = 0; i < args->n_outputs; i++) {
        const struct td_tensor *tensor = &args->outputs[i];
        td_text_word(text, i > 0 ? "," : "");
        td_text_word(text, request->op->output_list ? "\"outputs." : "\"output");
        if (request->op->output_list)
            td_text_uint(text, (uint64_t)i);
        td_text_word(text, "\":{\"dtype\":\"");
        td_text_word(text, td_dtype_info(tensor->dtype)->safetensors);
        td_text_word(text, "\",\"shape\":[");
        for (int d = 0; d < tensor->shape.rank; d++) {
            td_text_word(text, d > 0 ? "," : "");
            td_text_uint(text, (uint64_t)tensor->shape.dim[d]);
        }
        td_text_word(text, "],\"data_offsets\":[");
        td_text_uint(text, offset);
        td_text_word(text, ",");
        offset += tensor->bytes;
        td_text_uint(text, offset);
        td_text_word(text, "]}");
    }
    td_text_word(text, "}");
    while ((text->at - length_at) % 8 != 0)
        td_text_add(text, " ", 1);
    uint64_t length = (uint64_t)(text->at - length_at) - LENGTH_BYTES;
    memcpy(length_at, &length, LENGTH_BYTES);
}

td_status td_safetensors_can_encode(const struct td_request *request, struct td_error *err)
{
    for (int i = 0; i < request->args.n_outputs; i++) {
        const struct td_dtype_info *info = td_dtype_info(request->args.outputs[i].dtype);
        if (info->safetensors[0] == '\0')
            return td_error_set(err, TD_NOT_ACCEPTABLE,
                                "safetensors has no dtype for %s; ask for it with Accept: "
                                "application/json",
                                info->name);
    }
    return TD_OK;
}

td_status td_safetensors_encode(const struct td_request *request, struct td_arena *arena,
                                struct td_reply *reply, struct td_error *err)
{
    const struct td_op_args *args = &request->args;
    td_status status = td_safetensors_can_encode(request, err);
    if (status != TD_OK)
        return status;
    size_t copied = 0;
    int n_pieces = 1;
    for (int i = 0; i < args->n_outputs; i++) {
        const struct td_tensor *tensor = &args->outputs[i];
        if (is_copied(tensor))
            copied += tensor->bytes;
        else
            n_pieces += 2; /* itself, and what is copied behind it */
    }
    size_t header_room = LENGTH_BYTES + ENTRY_TEXT * ((size_t)args->n_outputs + 1);
    char *bytes = td_arena_alloc(arena, header_room + copied, 1, err);
    if (!bytes)
        return err->status;
    td_reply_set(reply, 200, "application/vnd.safetensors", bytes, 0);
    if (n_pieces > TD_REPLY_PIECES) {
        reply->pieces = td_arena_alloc(arena, (size_t)n_pieces, sizeof *reply->pieces, err);
        if (!reply->pieces)
            return err->status;
    }
    struct td_text text = { .at = bytes, .end = bytes + header_room };
    write_header(request, &text);

    char *at = text.at; /* what is copied goes on here, and makes pieces with what is not */
    const char *piece_begin = bytes;
    reply->n_pieces = 0;
    for (int i = 0; i < args->n_outputs; i++) {
        const struct td_tensor *tensor = &args->outputs[i];
        if (is_copied(tensor)) {
            memcpy(at, tensor->data, tensor->bytes);
            at += tensor->bytes;
            continue;
        }
        if (at > piece_begin)
            reply->pieces[reply->n_pieces++] =
                (struct td_piece){ piece_begin, (size_t)(at - piece_begin) };
        piece_begin = at;
        reply->pieces[reply->n_pieces++] = (struct td_piece){ tensor->data, tensor->bytes };
    }
    if (at > piece_begin)
        reply->pieces[reply->n_pieces++] =
            (struct td_piece){ piece_begin, (size_t)(at - piece_begin) };
    return TD_OK;
}
