#include "api/npy.h"

#include "api/raw.h"

#include <inttypes.h>
#include <string.h>

/* The header is a Python literal that numpy writes with repr():
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * Only what such a dict can hold is read here. */
struct literal {
    const char *begin, *at, *end;
    struct td_error *err;
};

static td_status refuse(struct literal *literal, const char *expected)
{
    long long offset = literal->at - literal->begin;
    td_error_set(literal->err, TD_MALFORMED_REQUEST, "expected %s at byte %lld of the .npy header",
                 expected, offset);
    literal->err->offset = offset;
    return TD_MALFORMED_REQUEST;
}

static char peek(struct literal *literal)
{
    while (literal->at < literal->end && (*literal->at == ' ' || *literal->at == '\n'))
        literal->at++;
    return (char)(literal->at < literal->end ? *literal->at : '\0');
}

static bool take(struct literal *literal, char c)
{
    bool there = peek(literal) == c && literal->at < literal->end;
    literal->at += there;
    return there;
}

static bool take_word(struct literal *literal, const char *word)
{
    size_t length = strlen(word);
    peek(literal);
    if ((size_t)(literal->end - literal->at) < length || memcmp(literal->at, word, length) != 0)
        return false;
    literal->at += length;
    return true;
}

/* A string without escapes: none of numpy's needs one. */
static bool take_string(struct literal *literal, const char **text, size_t *length)
{
    char quote = peek(literal);
    if (quote != '\'' && quote != '"')
        return false;
    const char *begin = literal->at + 1;
    const char *close = memchr(begin, quote, (size_t)(literal->end - begin));
    if (!close)
        return false;
    *text = begin;
    *length = (size_t)(close - begin);
    literal->at = close + 1;
    return true;
}

static bool take_size(struct literal *literal, int64_t *out)
{
    char c = peek(literal);
    if (c < '0' || c > '9')
        return false;
    int64_t value = 0;
    for (; literal->at < literal->end && *literal->at >= '0' && *literal->at <= '9'; literal->at++)
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*literal->at - '0'), &value))
            return false;
    *out = value;
    return true;
}

/* numpy's array-protocol type string: byte order, kind, bytes. */
static td_status read_descr(struct literal *literal, td_dtype *dtype)
{
    static const struct {
        char text[4];
        td_dtype dtype;
    } known[] = {
        { "b1", TD_DTYPE_BOOL },      { "i1", TD_DTYPE_INT8 },        { "i2", TD_DTYPE_INT16 },
        { "i4", TD_DTYPE_INT32 },     { "i8", TD_DTYPE_INT64 },       { "u1", TD_DTYPE_UINT8 },
        { "u2", TD_DTYPE_UINT16 },    { "u4", TD_DTYPE_UINT32 },      { "u8", TD_DTYPE_UINT64 },
        { "f2", TD_DTYPE_FLOAT16 },   { "f4", TD_DTYPE_FLOAT32 },     { "f8", TD_DTYPE_FLOAT64 },
        { "c8", TD_DTYPE_COMPLEX64 }, { "c16", TD_DTYPE_COMPLEX128 },
    };
    const char *text;
    size_t length;
    if (peek(literal) == '[')
        return td_error_set(
            literal->err, TD_MALFORMED_REQUEST,
            "the .npy file holds a structured array; one of plain numbers is expected");
    if (!take_string(literal, &text, &length) || length < 2)
        return refuse(literal, "a type such as '<f4'");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strlen(known[i].text) != length - 1 || memcmp(text + 1, known[i].text, length - 1) != 0)
            continue;
        *dtype = known[i].dtype;
        bool single = td_dtype_info(*dtype)->size == 1;
        if (text[0] == '<' || (text[0] == '|' && single))
            return TD_OK;
        if (text[0] == '>' && !single)
            return td_error_set(literal->err, TD_MALFORMED_REQUEST,
                                "the .npy file is big-endian (%.*s); little-endian is expected",
                                (int)length, text);
    }
    return td_error_set(
        literal->err, TD_MALFORMED_REQUEST,
        "the .npy file holds '%.*s', %s; expected '<' and one of b1, i1 to i8, u1 to "
        "u8, f2, f4, f8, c8, c16",
        (int)(length < 32 ? length : 32), text,
        text[1] == 'O'   ? "Python objects"
        : text[1] == 'V' ? "raw records (bfloat16 travels as safetensors)"
        : text[1] == 'U' || text[1] == 'S' || text[1] == 'a' ? "text of fixed width"
                                                             : "which tensord has no dtype for");
}

static td_status read_shape(struct literal *literal, struct td_shape *shape)
{
    shape->rank = 0;
    if (!take(literal, '('))
        return refuse(literal, "a shape such as (3, 4)");
    while (!take(literal, ')')) {
        int64_t dim;
        if (!take_size(literal, &dim))
            return refuse(literal, "a dimension from 0 to 2^63 - 1");
        if (shape->rank == TD_MAX_RANK)
            return td_error_resource(literal->err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK,
                                     "the array in the .npy file");
        shape->dim[shape->rank++] = dim;
        if (!take(literal, ',') && peek(literal) != ')')
            return refuse(literal, "',' or ')'");
    }
    return TD_OK;
}

static td_status read_header(struct literal *literal, td_dtype *dtype, struct td_shape *shape)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    unsigned seen = 0;
    td_status status = TD_OK;
    bool fortran = false;
    if (!take(literal, '{'))
        return refuse(literal, "'{'");
    while (!take(literal, '}')) {
        const char *key;
        size_t length;
        unsigned i = 0;
        if (!take_string(literal, &key, &length))
            return refuse(literal, "a key in quotes");
        while (i < 3 && (strlen(keys[i]) != length || memcmp(keys[i], key, length) != 0))
            i++;
        if (i == 3 || (seen & 1u << i) || !take(literal, ':'))
            return refuse(literal, "each of 'descr', 'fortran_order' and 'shape' once");
        seen |= 1u << i;
        if (i == 0) {
            status = read_descr(literal, dtype);
        } else if (i == 1) {
            fortran = take_word(literal, "True");
            if (!fortran && !take_word(literal, "False"))
                return refuse(literal, "True or False");
        } else {
            status = read_shape(literal, shape);
        }
        if (status != TD_OK)
            return status;
        if (!take(literal, ',') && peek(literal) != '}')
            return refuse(literal, "',' or '}'");
    }
    if (seen != 7)
        return refuse(literal, "'descr', 'fortran_order' and 'shape' before '}'");
    peek(literal);
    if (literal->at != literal->end)
        return refuse(literal, "spaces to the end");
    if (fortran && shape->rank > 1)
        return td_error_set(literal->err, TD_MALFORMED_REQUEST,
                            "the array in the .npy file is in Fortran order; C order is expected "
                            "(numpy.ascontiguousarray)");
    return TD_OK;
}

td_status td_npy_open(const void *bytes, size_t size, struct td_tensor *out, struct td_error *err)
{
    const unsigned char *file = bytes;
    enum { PREFIX = 8 }; /* \x93NUMPY and two bytes of version */
    if (size < PREFIX || memcmp(file, "\x93NUMPY", 6) != 0) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "no .npy file: it does not begin with \\x93NUMPY and a version");
        err->offset = 0;
        return TD_MALFORMED_REQUEST;
    }
    int version = file[6];
    if (version < 1 || version > 3 || file[7] != 0)
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            ".npy version %d.%d is not known; expected 1.0, 2.0 or 3.0", version,
                            file[7]);
    size_t length_bytes = version == 1 ? 2 : 4, left = size - PREFIX;
    uint32_t length = 0;
    if (left >= length_bytes)
        memcpy(&length, file + PREFIX, length_bytes);
    if (left < length_bytes || length > left - length_bytes) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "the .npy file ends within its header: %zu bytes for a header of %" PRIu32,
                     size, length);
        err->offset = (int64_t)size;
        return TD_MALFORMED_REQUEST;
    }
    const char *header = (const char *)file + PREFIX + length_bytes;
    struct literal literal = { (const char *)file, header, header + length, err };
    td_dtype dtype = TD_DTYPE_BOOL;
    struct td_shape shape = { 0 };
    td_status status = read_header(&literal, &dtype, &shape);
    if (status != TD_OK)
        return status;

    memset(out, 0, sizeof *out);
    status = td_tensor_describe(out, "array", dtype, &shape, err);
    if (status != TD_OK)
        return status;
    size_t data_size = left - length_bytes - length;
    if (data_size != out->bytes) {
        char text[TD_SHAPE_TEXT];
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "the .npy file has %zu bytes of data, but %s of shape %s takes %zu",
                            data_size, td_dtype_info(dtype)->name,
                            td_shape_text(&shape, text, sizeof text), out->bytes);
    }
    out->data = (char *)header + length;
    return td_raw_check(out, err);
}
