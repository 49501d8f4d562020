#include "api/files/npy.h"

#include "api/message/raw.h"
#include "api/text/text.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <string.h>

/* The header is a Python literal that NumPy writes with repr():
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * The parser accepts only literals that can occur in such a dict. */
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
    while (literal->at < literal->end && (*literal->at == ' ' || *literal->at == '\n' ||
                                          *literal->at == '\t' || *literal->at == '\r'))
        literal->at++;
    return (char)(literal->at < literal->end ? *literal->at : '\0');
}

static bool take(struct literal *literal, char c)
{
    bool found = peek(literal) == c && literal->at < literal->end;
    literal->at += found;
    return found;
}

static bool take_word(struct literal *literal, const char *word)
{
    peek(literal);
    if (!td_name_begins(word, literal->at, (size_t)(literal->end - literal->at)))
        return false;
    literal->at += strlen(word);
    return true;
}

/* Reads a string without escapes, because no string in a header needs them. Python 2 can write
 * u'...'. */
static bool take_string(struct literal *literal, const char **text, size_t *length)
{
    (void)take(literal, 'u');
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

/* NumPy's array-protocol type strings without the byte order: the kind and the number of bytes. */
static const char descrs[TD_DTYPE_COUNT][4] = {
    [TD_DTYPE_BOOL] = "b1",      [TD_DTYPE_INT8] = "i1",       [TD_DTYPE_INT16] = "i2",
    [TD_DTYPE_INT32] = "i4",     [TD_DTYPE_INT64] = "i8",      [TD_DTYPE_UINT8] = "u1",
    [TD_DTYPE_UINT16] = "u2",    [TD_DTYPE_UINT32] = "u4",     [TD_DTYPE_UINT64] = "u8",
    [TD_DTYPE_FLOAT16] = "f2",   [TD_DTYPE_FLOAT32] = "f4",    [TD_DTYPE_FLOAT64] = "f8",
    [TD_DTYPE_COMPLEX64] = "c8", [TD_DTYPE_COMPLEX128] = "c16"
};

static bool is_single(td_dtype dtype)
{
    return td_dtype_info(dtype)->size == 1;
}

/* Refuses a type string. `order` is the number of characters for the byte order, which precede the
 * kind. */
static td_status refuse_descr(const char *text, size_t length, size_t order, struct td_error *err)
{
    const int kind = length > order ? text[order] : 0;
    const char *what = kind == 'O'   ? "Python objects (numpy.stack(x) makes a matrix of rows; "
                                       "x.astype('float32') makes numbers)"
                       : kind == 'V' ? "raw records (send bfloat16 as safetensors)"
                       : kind == 'U' || kind == 'S' || kind == 'a' || kind == 'T'
                           ? "text (send strings as JSON; to import them as the keys of a table, "
                             "use deploy/import TABLE --keys-from FILE.npy)"
                       : kind == 'M' || kind == 'm' ? "dates or times"
                                                    : "a type that tensord has no dtype for";
    return td_error_set(err, TD_MALFORMED_REQUEST,
                        "the .npy file holds '%s', %s; expected '<' or '>' and one of b1, i1 to "
                        "i8, u1 to u8, f2, f4, f8, c8, c16",
                        TD_SHOWN(text, length), what);
}

/* Returns the dtype for a type string without its byte order, or for a dtype name that
 * numpy.dtype() accepts. Returns TD_DTYPE_COUNT if there is no such dtype. */
static int find_dtype(const char *text, size_t length)
{
    if (td_name_is("?", text, length))
        return TD_DTYPE_BOOL;
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (descrs[i][0] && (td_name_is(descrs[i], text, length) ||
                             td_name_is(td_dtype_info((td_dtype)i)->name, text, length)))
            return i;
    return TD_DTYPE_COUNT;
}

/* Reads the type. '=', '|' or a missing byte order stands for the machine's byte order, which is
 * little-endian. */
static td_status read_descr(struct literal *literal, struct td_npy *out)
{
    const char *text;
    size_t length;
    if (peek(literal) == '[' || peek(literal) == '(')
        return td_error_set(
            literal->err, TD_MALFORMED_REQUEST,
            "the .npy file holds a structured array; expected an array of plain numbers");
    if (!take_string(literal, &text, &length) || length == 0)
        return refuse(literal, "a type such as '<f4'");
    const size_t order = text[0] == '<' || text[0] == '>' || text[0] == '=' || text[0] == '|';
    const int dtype = find_dtype(text + order, length - order);
    if (dtype == TD_DTYPE_COUNT)
        return refuse_descr(text, length, order, literal->err);
    out->tensor.dtype = (td_dtype)dtype;
    out->big_endian = text[0] == '>' && !is_single((td_dtype)dtype);
    return TD_OK;
}

static td_status read_shape(struct literal *literal, struct td_shape *shape)
{
    /* A Python tuple of one element needs a comma, because (6) is a number. */
    bool tuple = false;
    shape->rank = 0;
    if (!take(literal, '('))
        return refuse(literal, "a shape such as (3, 4)");
    while (!take(literal, ')')) {
        int64_t dim;
        if (!take_size(literal, &dim))
            return refuse(literal, "a dimension from 0 to 2^63 - 1");
        take(literal, 'L'); /* 'L' is the suffix of a Python 2 long */
        if (shape->rank == TD_MAX_RANK)
            return td_error_resource(literal->err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK,
                                     "the array in the .npy file");
        shape->dim[shape->rank++] = dim;
        const bool comma = take(literal, ',');
        if (!comma && peek(literal) != ')')
            return refuse(literal, "',' or ')'");
        tuple |= comma;
    }
    return shape->rank == 1 && !tuple
               ? refuse(literal, "a comma in a shape of one dimension, such as (6,)")
               : TD_OK;
}

/* True if Fortran and C order differ. The orders are the same if the array is empty or has at most
 * one dimension larger than 1. */
static bool has_order(const struct td_shape *shape)
{
    int more = 0;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == 0)
            return false;
        more += shape->dim[i] > 1;
    }
    return more > 1;
}

static td_status read_header(struct literal *literal, struct td_npy *out, struct td_shape *shape)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    unsigned seen = 0;
    td_status status = TD_OK;
    if (!take(literal, '{'))
        return refuse(literal, "'{'");
    while (!take(literal, '}')) {
        const char *key;
        size_t length;
        unsigned i = 0;
        if (!take_string(literal, &key, &length))
            return refuse(literal, "a key in quotes");
        while (i < 3 && !td_name_is(keys[i], key, length))
            i++;
        if (i == 3 || (seen & 1u << i) || !take(literal, ':'))
            return refuse(literal, "each of 'descr', 'fortran_order' and 'shape' once");
        seen |= 1u << i;
        if (i == 0) {
            status = read_descr(literal, out);
        } else if (i == 1) {
            out->fortran = take_word(literal, "True");
            if (!out->fortran && !take_word(literal, "False"))
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
        return refuse(literal, "only spaces to the end");
    out->fortran = out->fortran && has_order(shape);
    return TD_OK;
}

bool td_npy_is(const void *bytes, size_t size)
{
    static const char magic[] = "\x93NUMPY";
    return size >= sizeof magic - 1 && memcmp(bytes, magic, sizeof magic - 1) == 0;
}

td_status td_npy_open(const void *bytes, size_t size, struct td_npy *out, struct td_error *err)
{
    const unsigned char *file = bytes;
    memset(out, 0, sizeof *out);
    enum { PREFIX = 8 }; /* size of \x93NUMPY and two bytes of version */
    if (size < PREFIX || !td_npy_is(bytes, size)) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "not a .npy file: it does not start with \\x93NUMPY and a version");
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
        td_error_set(
            err, TD_MALFORMED_REQUEST,
            "the .npy file ends inside its header: it has %zu bytes, and the header has %" PRIu32,
            size, length);
        err->offset = (int64_t)size;
        return TD_MALFORMED_REQUEST;
    }
    const char *header = (const char *)file + PREFIX + length_bytes;
    struct literal literal = { (const char *)file, header, header + length, err };
    struct td_shape shape = { 0 };
    td_status status = read_header(&literal, out, &shape);
    if (status == TD_OK)
        status = td_tensor_describe(&out->tensor, "array", out->tensor.dtype, &shape, err);
    if (status != TD_OK)
        return status;
    size_t data_size = left - length_bytes - length;
    if (data_size != out->tensor.bytes) {
        char text[TD_SHAPE_TEXT];
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "the .npy file has %zu bytes of data, but %s of shape %s takes %zu%s",
                            data_size, td_dtype_info(out->tensor.dtype)->name,
                            td_shape_text(&shape, text, sizeof text), out->tensor.bytes,
                            data_size > out->tensor.bytes ? "; save each array to its own file"
                                                          : "");
    }
    out->tensor.data = (char *)header + length;
    return td_raw_check(&out->tensor, err);
}

/* ---- conversion ---- */

/* Transposes an array from Fortran order, in which the first dimension is contiguous, to C order,
 * in which the last dimension is contiguous. */
struct transposition {
    int rank; /* at least 2 */
    size_t width;
    int64_t size[TD_MAX_RANK];                            /* extents of the next block */
    int64_t from_step[TD_MAX_RANK], to_step[TD_MAX_RANK]; /* strides in bytes */
    const struct td_stop *stop;
    struct td_error *err;
    /* Result of the last check of `stop`. Transposition ends after an error. */
    td_status status;
};

/* Maximum number of elements of a block that is not divided further. In either order, the cache
 * lines of such a block fit in the L1 cache. 16 by 16 was chosen with tests/bench/bench_npy. */
#define BLOCK_ELEMENTS 256

/* Transposes one plane, which spans the first and the last dimension. */
static inline void transpose_plane_inline(const struct transposition *t, const char *from, char *to,
                                          size_t width)
{
    int last = t->rank - 1;
    int64_t from_step = t->from_step[last], to_step = t->to_step[0];
    for (int64_t i = 0; i < t->size[0]; i++)
        for (int64_t j = 0; j < t->size[last]; j++)
            memcpy(to + i * to_step + j * (int64_t)width, from + i * (int64_t)width + j * from_step,
                   width);
}

/* Transposes one plane. The width is a constant in each case, so each copy is a single move. */
static void transpose_plane(const struct transposition *t, const char *from, char *to)
{
    switch (t->width) {
    case 1:
        transpose_plane_inline(t, from, to, 1);
        break;
    case 2:
        transpose_plane_inline(t, from, to, 2);
        break;
    case 4:
        transpose_plane_inline(t, from, to, 4);
        break;
    case 8:
        transpose_plane_inline(t, from, to, 8);
        break;
    default:
        transpose_plane_inline(t, from, to, 16);
        break;
    }
}

/* Transposes a block: one plane for each index of the dimensions in between. */
static void transpose_block(const struct transposition *t, const char *from, char *to)
{
    int64_t done[TD_MAX_RANK] = { 0 };
    int d;
    do {
        transpose_plane(t, from, to);
        for (d = t->rank - 2; d > 0; d--) {
            from += t->from_step[d];
            to += t->to_step[d];
            if (++done[d] < t->size[d])
                break;
            from -= done[d] * t->from_step[d];
            to -= done[d] * t->to_step[d];
            done[d] = 0;
        }
    } while (d > 0);
}

/* Returns the index of the widest dimension, which is divided next. Among equally wide dimensions,
 * prefers an inner dimension, because the first and the last dimension are each contiguous in one
 * of the two orders. */
static int widest(const struct transposition *t)
{
    int best = 0;
    for (int d = 1; d < t->rank; d++) {
        bool inner = 2 * d < t->rank;
        if (t->size[d] > t->size[best] || (inner && t->size[d] == t->size[best]))
            best = d;
    }
    return best;
}

static void transpose_recursive(struct transposition *t, const char *from, char *to)
{
    int64_t elements = 1;
    for (int d = 0; d < t->rank; d++)
        elements *= t->size[d];
    if (t->status != TD_OK)
        return;
    if (elements <= BLOCK_ELEMENTS) {
        transpose_block(t, from, to);
        return;
    }
    if (elements <= TD_STOP_ELEMENTS && 2 * elements > TD_STOP_ELEMENTS)
        t->status = td_stop_check(t->stop, t->err);
    /* Divides at a power of two, so that blocks start at cache-line boundaries. */
    int d = widest(t);
    int64_t whole = t->size[d];
    int64_t first = (int64_t)1 << (63 - __builtin_clzll((unsigned long long)whole - 1));
    t->size[d] = first;
    transpose_recursive(t, from, to);
    t->size[d] = whole - first;
    transpose_recursive(t, from + first * t->from_step[d], to + first * t->to_step[d]);
    t->size[d] = whole;
}

static td_status transpose(const struct td_tensor *tensor, void *to, const struct td_stop *stop,
                           struct td_error *err)
{
    struct transposition t = { .width = td_dtype_info(tensor->dtype)->size,
                               .stop = stop,
                               .err = err };
    int64_t step = (int64_t)t.width;
    for (int d = 0; d < tensor->shape.rank; d++) {
        if (tensor->shape.dim[d] == 1)
            continue;
        t.size[t.rank] = tensor->shape.dim[d];
        t.from_step[t.rank++] = step;
        step *= tensor->shape.dim[d];
    }
    step = (int64_t)t.width;
    for (int d = t.rank - 1; d >= 0; d--) {
        t.to_step[d] = step;
        step *= t.size[d];
    }
    transpose_recursive(&t, tensor->data, to);
    return t.status;
}

static inline void swap_step(char *to, const char *from, size_t bytes, size_t width)
{
    for (size_t at = 0; at < bytes; at += width) {
        uint64_t value = 0;
        memcpy(&value, from + at, width);
        value = __builtin_bswap64(value) >> (64 - 8 * width);
        memcpy(to + at, &value, width);
    }
}

/* Swaps the bytes of each number. `from` and `to` can be the same. Callers pass the width as a
 * constant. */
static inline __attribute__((always_inline)) td_status swap_bytes(char *to, const char *from,
                                                                  size_t bytes, size_t width,
                                                                  const struct td_stop *stop,
                                                                  struct td_error *err)
{
    td_status status = TD_OK;
    for (size_t at = 0; at < bytes && status == TD_OK; at += TD_STOP_STEP) {
        const size_t left = bytes - at;
        swap_step(to + at, from + at, left < TD_STOP_STEP ? left : TD_STOP_STEP, width);
        if (left > TD_STOP_STEP)
            status = td_stop_check(stop, err);
    }
    return status;
}

td_status td_npy_convert(const struct td_npy *file, void *to, const struct td_stop *stop,
                         struct td_error *err)
{
    const struct td_tensor *tensor = &file->tensor;
    const void *from = tensor->data;
    if (file->fortran) {
        const td_status status = transpose(tensor, to, stop, err);
        if (status != TD_OK)
            return status;
        from = to;
    }
    /* Bytes are swapped within each number. The width of a number is the dtype's alignment, because
     * a complex number consists of two numbers. */
    switch (file->big_endian ? td_dtype_info(tensor->dtype)->align : 1) {
    case 8:
        return swap_bytes(to, from, tensor->bytes, 8, stop, err);
    case 4:
        return swap_bytes(to, from, tensor->bytes, 4, stop, err);
    case 2:
        return swap_bytes(to, from, tensor->bytes, 2, stop, err);
    default:
        return from == to ? TD_OK : td_stop_copy(stop, to, from, tensor->bytes, err);
    }
}

td_status td_npy_read(const void *bytes, size_t size, struct td_arena *arena, struct td_tensor *out,
                      bool *in_file, struct td_error *err)
{
    struct td_npy file;
    td_status status = td_npy_open(bytes, size, &file, err);
    if (status != TD_OK)
        return status;
    *out = file.tensor;
    *in_file = td_npy_is_plain(&file);
    if (*in_file)
        return TD_OK;
    status = td_tensor_alloc(out, arena, err);
    return status == TD_OK ? td_npy_convert(&file, out->data, &arena->stop, err) : status;
}

/* ---- writing ---- */

td_status td_npy_write_header(const struct td_tensor *tensor, char header[TD_NPY_HEADER],
                              size_t *size, struct td_error *err)
{
    enum { PREFIX = 10, ALIGNMENT = 64 };
    static const char magic[] = "\x93NUMPY\x01";
    const struct td_shape *shape = &tensor->shape;
    if (!descrs[tensor->dtype][0])
        return td_error_set(err, TD_NOT_ACCEPTABLE, ".npy has no type for %s",
                            td_dtype_info(tensor->dtype)->name);
    struct td_text text = { .at = header + PREFIX, .end = header + TD_NPY_HEADER };
    td_text_print(&text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                  is_single(tensor->dtype) ? '|' : '<', descrs[tensor->dtype]);
    for (int d = 0; d < shape->rank; d++)
        td_text_print(&text,
                      shape->rank == 1 ? "%" PRId64 ","
                      : d              ? ", %" PRId64
                                       : "%" PRId64,
                      shape->dim[d]);
    td_text_string(&text, "), }");
    while ((text.at + 1 - header) % ALIGNMENT != 0)
        td_text_add(&text, " ", 1);
    td_text_add(&text, "\n", 1);
    *size = (size_t)(text.at - header);
    size_t length = *size - PREFIX;
    memcpy(header, magic, 8); /* the NUL of `magic` is the minor version */
    header[8] = (char)(length & 0xff);
    header[9] = (char)(length >> 8);
    return TD_OK;
}
