#include "api/json_encode.h"

#include "api/base64.h"
#include "api/float_text.h"
#include "api/raw.h"
#include "kernels/utf8.h"

#include <inttypes.h>
#include <string.h>

/* ---- elements ---- */

static const char two_digits[] = "0001020304050607080910111213141516171819"
                                 "2021222324252627282930313233343536373839"
                                 "4041424344454647484950515253545556575859"
                                 "6061626364656667686970717273747576777879"
                                 "8081828384858687888990919293949596979899";

/* Decimal digits of value. */
static inline unsigned count_digits(uint32_t value)
{
    static const uint32_t power[] = { 0,      10,      100,      1000,      10000,
                                      100000, 1000000, 10000000, 100000000, 1000000000 };
    unsigned guess = (32 - (unsigned)__builtin_clz(value | 1)) * 1233 >> 12; /* log10(2) */
    return guess + (value >= power[guess]);
}

/* Two digits at a time, from the end, which is where counting them says. */
static inline char *write_uint32(char *at, uint32_t value)
{
    char *end = at + count_digits(value), *to = end;
    while (value >= 100) {
        to -= 2;
        memcpy(to, two_digits + (size_t)(value % 100) * 2, 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(to - 2, two_digits + (size_t)value * 2, 2);
    else
        to[-1] = (char)('0' + value);
    return end;
}

static char *write_uint64(char *at, uint64_t value)
{
    if (value <= UINT32_MAX)
        return write_uint32(at, (uint32_t)value);
    at = write_uint64(at, value / 100000000);
    uint32_t rest = (uint32_t)(value % 100000000);
    for (int i = 6; i >= 0; i -= 2) {
        memcpy(at + i, two_digits + (size_t)(rest % 100) * 2, 2);
        rest /= 100;
    }
    return at + 8;
}

static inline char *write_int32(char *at, int32_t value)
{
    *at = '-';
    at += value < 0;
    return write_uint32(at, value < 0 ? 0 - (uint32_t)value : (uint32_t)value);
}

static char *write_int64(char *at, int64_t value)
{
    *at = '-';
    at += value < 0;
    return write_uint64(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static char *write_literal(char *at, const char *text)
{
    return mempcpy(at, text, strlen(text));
}

static inline char *write_bool_at(char *at, const char *from)
{
    return write_literal(at, *from ? "true" : "false");
}

#define TD_WRITE_INTEGER(name, type, write)                                                        \
    static inline char *write_##name##_at(char *at, const char *from)                              \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, from, sizeof value);                                                        \
        return write(at, value);                                                                   \
    }
TD_WRITE_INTEGER(int8, int8_t, write_int32)
TD_WRITE_INTEGER(int16, int16_t, write_int32)
TD_WRITE_INTEGER(int32, int32_t, write_int32)
TD_WRITE_INTEGER(int64, int64_t, write_int64)
TD_WRITE_INTEGER(uint8, uint8_t, write_uint32)
TD_WRITE_INTEGER(uint16, uint16_t, write_uint32)
TD_WRITE_INTEGER(uint32, uint32_t, write_uint32)
TD_WRITE_INTEGER(uint64, uint64_t, write_uint64)
#undef TD_WRITE_INTEGER

/* Escaped form of each byte: 0 as it is, 'u' as \u00xx, else the letter behind the backslash. */
static const char escapes[256] = {
    ['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
    ['\t'] = 't', [0] = 'u',     [1] = 'u',    [2] = 'u',    [3] = 'u',    [4] = 'u',
    [5] = 'u',    [6] = 'u',     [7] = 'u',    [11] = 'u',   [14] = 'u',   [15] = 'u',
    [16] = 'u',   [17] = 'u',    [18] = 'u',   [19] = 'u',   [20] = 'u',   [21] = 'u',
    [22] = 'u',   [23] = 'u',    [24] = 'u',   [25] = 'u',   [26] = 'u',   [27] = 'u',
    [28] = 'u',   [29] = 'u',    [30] = 'u',   [31] = 'u'
};

static char *write_string(char *at, const char *text, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    *at++ = '"';
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape = escapes[c];
        if (escape == 0) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '\\';
        *at++ = escape;
        if (escape == 'u') {
            *at++ = '0';
            *at++ = '0';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        }
    }
    *at++ = '"';
    return at;
}

/* ---- rows ---- */

/* Writes elements [begin, begin + n) with a comma behind each. */
typedef char *row_fn(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n);

/* X(enum suffix, name, bytes in memory, letters an element takes at most) */
#define ROWS(X)                                                                                    \
    X(BOOL, bool, 1, 5)                                                                            \
    X(INT8, int8, 1, 4)                                                                            \
    X(INT16, int16, 2, 6)                                                                          \
    X(INT32, int32, 4, 11)                                                                         \
    X(INT64, int64, 8, 20)                                                                         \
    X(UINT8, uint8, 1, 3)                                                                          \
    X(UINT16, uint16, 2, 5)                                                                        \
    X(UINT32, uint32, 4, 10)                                                                       \
    X(UINT64, uint64, 8, 20)

#define TD_ROW(dtype, name, width, letters)                                                        \
    static char *row_##name(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)    \
    {                                                                                              \
        const char *from = (const char *)tensor->data + begin * (width);                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            at = write_##name##_at(at, from + i * (width));                                        \
            *at++ = ',';                                                                           \
        }                                                                                          \
        return at;                                                                                 \
    }
ROWS(TD_ROW)
#undef TD_ROW

/* The same for floats, whose text float_text.cc knows. */
#define FLOAT_ROWS(X)                                                                              \
    X(FLOAT16, float16, 2, TD_FLOAT16_TEXT)                                                        \
    X(BFLOAT16, bfloat16, 2, TD_FLOAT16_TEXT)                                                      \
    X(FLOAT32, float32, 4, TD_FLOAT32_TEXT)                                                        \
    X(FLOAT64, float64, 8, TD_FLOAT64_TEXT)

#define TD_ROW(dtype, name, width, letters)                                                        \
    static char *row_##name(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)    \
    {                                                                                              \
        return td_##name##_list(at, (const char *)tensor->data + begin * (width), n);              \
    }
FLOAT_ROWS(TD_ROW)
#undef TD_ROW

/* Complex numbers are lists of two floats. */
#define COMPLEX_ROWS(X)                                                                            \
    X(COMPLEX64, complex64, float32, 8, 2 * TD_FLOAT32_TEXT + 3)                                   \
    X(COMPLEX128, complex128, float64, 16, 2 * TD_FLOAT64_TEXT + 3)

#define TD_ROW(dtype, name, part, width, letters)                                                  \
    static char *row_##name(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)    \
    {                                                                                              \
        const char *from = (const char *)tensor->data + begin * (width);                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            *at++ = '[';                                                                           \
            at = td_##part##_list(at, from + i * (width), 2);                                      \
            at[-1] = ']'; /* where the comma was */                                                \
            *at++ = ',';                                                                           \
        }                                                                                          \
        return at;                                                                                 \
    }
COMPLEX_ROWS(TD_ROW)
#undef TD_ROW

static char *row_string(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n)
{
    for (int64_t i = begin; i < begin + n; i++) {
        at = write_string(at, (const char *)tensor->data + tensor->offsets[i],
                          (size_t)(tensor->offsets[i + 1] - tensor->offsets[i]));
        *at++ = ',';
    }
    return at;
}

static row_fn *const rows[TD_DTYPE_COUNT] = {
#define TD_ROW(dtype, name, ...) [TD_DTYPE_##dtype] = row_##name,
    ROWS(TD_ROW) FLOAT_ROWS(TD_ROW) COMPLEX_ROWS(TD_ROW)
#undef TD_ROW
        [TD_DTYPE_STRING] = row_string,
};

static const size_t letters[TD_DTYPE_COUNT] = {
#define TD_ROW(dtype, name, width, letters)               [TD_DTYPE_##dtype] = (letters),
#define TD_COMPLEX_ROW(dtype, name, part, width, letters) [TD_DTYPE_##dtype] = (letters),
    ROWS(TD_ROW) FLOAT_ROWS(TD_ROW) COMPLEX_ROWS(TD_COMPLEX_ROW)
#undef TD_COMPLEX_ROW
#undef TD_ROW
        [TD_DTYPE_STRING] = 2,
};

/* ---- a tensor ---- */

/* Everything of a tensor but its elements and their lists: names, dtype, 16 dimensions, brackets.
 */
#define ENVELOPE 512

/* Dimensions that data is nested by: behind one of zero there is nothing to nest. */
static int nested_rank(const struct td_tensor *tensor, td_layout layout)
{
    if (layout == TD_LAYOUT_FLAT)
        return 1;
    int rank = 0;
    while (rank < tensor->shape.rank && (rank == 0 || tensor->shape.dim[rank - 1] != 0))
        rank++;
    return rank;
}

/* Bytes that the elements themselves take, data known or not. */
static bool elements_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes)
{
    size_t lists = 1, brackets;
    if (!td_size_mul((size_t)tensor->numel, letters[tensor->dtype] + 1, bytes))
        return false;
    int rank = nested_rank(tensor, layout);
    for (int i = 0; i < rank - 1; i++) {
        /* The lists within each list of this level: brackets and a comma. */
        if (!td_size_mul(lists, (size_t)tensor->shape.dim[i], &lists) ||
            !td_size_mul(lists, 3, &brackets) || !td_size_add(*bytes, brackets, bytes))
            return false;
    }
    return true;
}

static bool base64_bound(const struct td_tensor *tensor, size_t *bytes)
{
    size_t lengths;
    *bytes = tensor->bytes;
    if (tensor->dtype == TD_DTYPE_STRING &&
        (!td_size_mul((size_t)tensor->numel, sizeof(uint32_t), &lengths) ||
         !td_size_add(tensor->bytes, lengths, bytes)))
        return false;
    return td_base64_encoded_size(*bytes, bytes);
}

/* Letters that escaping adds to a tensor's strings. */
static size_t escape_letters(const struct td_tensor *tensor)
{
    size_t more = 0;
    const unsigned char *bytes = tensor->data;
    for (uint64_t i = tensor->offsets[0]; i < tensor->offsets[tensor->numel]; i++)
        more += escapes[bytes[i]] == 0 ? 0 : escapes[bytes[i]] == 'u' ? 5 : 1;
    return more;
}

/* Can every string be a JSON string? */
static bool all_utf8(const struct td_tensor *tensor)
{
    for (int64_t i = 0; i < tensor->numel; i++)
        if (!td_utf8_valid((const char *)tensor->data + tensor->offsets[i],
                           (size_t)(tensor->offsets[i + 1] - tensor->offsets[i])))
            return false;
    return true;
}

static bool tensor_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes)
{
    bool strings = tensor->dtype == TD_DTYPE_STRING;
    bool filled = tensor->data != NULL;
    if (layout == TD_LAYOUT_BASE64 || (strings && filled && !all_utf8(tensor)))
        return base64_bound(tensor, bytes) && td_size_add(*bytes, ENVELOPE, bytes);
    return elements_bound(tensor, layout, bytes) && td_size_add(*bytes, ENVELOPE, bytes) &&
           td_size_add(*bytes, tensor->bytes * strings, bytes) &&
           (!strings || !filled || td_size_add(*bytes, escape_letters(tensor), bytes));
}

static char *write_shape(char *at, const struct td_shape *shape)
{
    *at++ = '[';
    for (int i = 0; i < shape->rank; i++) {
        if (i)
            *at++ = ',';
        at = write_int64(at, shape->dim[i]);
    }
    *at++ = ']';
    return at;
}

/* Lists in lists: a row at a time, and around it the brackets of the lists that begin and end with
 * it. Only the last of the dimensions may be zero. */
static char *write_nested(char *at, const struct td_tensor *tensor, int rank)
{
    row_fn *row = rows[tensor->dtype];
    const int64_t *dim = tensor->shape.dim;
    if (rank == 0)
        return row(at, tensor, 0, 1) - 1; /* no comma */
    int64_t n_rows = 1, done[TD_MAX_RANK] = { 0 };
    for (int i = 0; i < rank - 1; i++)
        n_rows *= dim[i];
    int64_t width = dim[rank - 1];
    int open = rank;
    for (int64_t r = 0; r < n_rows; r++) {
        memset(at, '[', (size_t)open);
        at += open;
        if (width)
            at = row(at, tensor, r * width, width) - 1;
        *at++ = ']';
        open = 1;
        for (int i = rank - 2; i >= 0 && ++done[i] == dim[i]; i--) {
            done[i] = 0;
            *at++ = ']';
            open++;
        }
        *at++ = ',';
    }
    return at - 1;
}

static char *write_flat(char *at, const struct td_tensor *tensor)
{
    *at++ = '[';
    if (tensor->numel)
        at = rows[tensor->dtype](at, tensor, 0, tensor->numel) - 1;
    *at++ = ']';
    return at;
}

/* NULL with err filled: strings as base64 need their lengths between them first. */
static char *write_base64(char *at, const struct td_tensor *tensor, struct td_arena *arena,
                          struct td_error *err)
{
    const void *bytes = tensor->data;
    size_t size = tensor->bytes;
    if (tensor->dtype == TD_DTYPE_STRING) {
        if (!td_raw_strings_size(tensor, &size)) {
            td_error_set(err, TD_NOT_ACCEPTABLE, "a string of 4 GiB or more has no base64 form");
            return NULL;
        }
        char *joined = td_arena_alloc(arena, size, 1, err);
        if (!joined)
            return NULL;
        td_raw_write_strings(joined, tensor);
        bytes = joined;
    }
    return td_base64_encode(at, bytes, size);
}

static char *write_tensor(char *at, const struct td_tensor *tensor, td_layout layout,
                          struct td_arena *arena, struct td_error *err)
{
    if (tensor->dtype == TD_DTYPE_STRING && !all_utf8(tensor))
        layout = TD_LAYOUT_BASE64;
    at = write_literal(at, "{\"dtype\":\"");
    at = write_literal(at, td_dtype_info(tensor->dtype)->name);
    at = write_literal(at, "\",\"shape\":");
    at = write_shape(at, &tensor->shape);
    at = write_literal(at, layout == TD_LAYOUT_BASE64 ? ",\"base64\":\"" : ",\"data\":");
    switch (layout) {
    case TD_LAYOUT_NESTED:
        at = write_nested(at, tensor, nested_rank(tensor, layout));
        break;
    case TD_LAYOUT_FLAT:
        at = write_flat(at, tensor);
        break;
    case TD_LAYOUT_BASE64:
        at = write_base64(at, tensor, arena, err);
        if (!at)
            return NULL;
        *at++ = '"';
        break;
    }
    *at++ = '}';
    return at;
}

/* ---- the reply ---- */

bool td_json_encoded_bound(const struct td_request *request, size_t *bytes)
{
    const struct td_op_args *args = &request->args;
    *bytes = ENVELOPE;
    for (int i = 0; i < args->n_outputs; i++) {
        size_t tensor;
        if (!tensor_bound(&args->outputs[i], request->options.layout, &tensor) ||
            !td_size_add(*bytes, tensor, bytes))
            return false;
    }
    return true;
}

td_status td_json_encode(const struct td_request *request, struct td_arena *arena,
                         struct td_reply *reply, struct td_error *err)
{
    const struct td_op_args *args = &request->args;
    bool list = request->op->output_list;
    size_t room;
    if (!td_json_encoded_bound(request, &room))
        return td_error_resource(err, "output_bytes", UINT64_MAX, INT64_MAX, "the reply as JSON");
    char *text = td_arena_alloc(arena, room, 1, err);
    if (!text)
        return err->status;

    char *at = write_literal(text, list ? "{\"outputs\":[" : "{\"output\":");
    for (int i = 0; i < args->n_outputs; i++) {
        if (i)
            *at++ = ',';
        at = write_tensor(at, &args->outputs[i], request->options.layout, arena, err);
        if (!at)
            return err->status;
    }
    if (list)
        *at++ = ']';
    if (args->replaced) {
        at = write_literal(at, ",\"bounds\":{\"policy\":\"");
        at = write_literal(at, td_bounds_name(td_request_bounds(request)));
        at = write_literal(at, "\",\"replaced\":");
        at = write_int64(at, args->replaced);
        *at++ = '}';
    }
    *at++ = '}';
    td_reply_set(reply, 200, "application/json", text, (size_t)(at - text));
    return TD_OK;
}
