#include "api/json/array.h"

#include "api/json/float_text.h"
#include "api/json/hints.h"
#include "api/json/infer_dtype.h"
#include "kernels/shown_text.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reports an error for the value whose path is array->path followed by the first n_steps elements
 * of `index`. */
static td_status refuse_at(const struct td_json_array *array, const int64_t *index, int n_steps,
                           const char *message)
{
    struct td_json_path steps[TD_MAX_RANK];
    const struct td_json_path *up = array->path;
    for (int i = 0; i < n_steps; i++) {
        steps[i] = (struct td_json_path){ .up = up, .index = index[i] };
        up = &steps[i];
    }
    return td_json_refuse(up, array->err, "%s", message);
}

/* Copies the number token at p for a message, truncating a long token. */
static const char *token_text(const char *p, const char *end, char *text, size_t size)
{
    bool is_integer;
    const char *stop = td_json_number_end(p, end, &is_integer);
    size_t length = stop ? (size_t)(stop - p) : 0;
    if (length < size)
        snprintf(text, size, "%.*s", (int)length, p);
    else
        snprintf(text, size, "%.*s...", (int)(size - 4), p);
    return text;
}

/* Returns "the string \"a\"" for the string token at p, with its escapes as written. Truncates a
 * long string between characters. */
enum { STRING_TEXT = 64 };
static const char *string_text(const char *p, const char *end, char text[STRING_TEXT])
{
    enum { SHOWN = 40 };
    struct td_shown shown;
    size_t length = 0, kept = 0;
    for (p++; p + length < end && length <= SHOWN && p[length] != '"';) {
        length += p[length] == '\\' ? 2 : 1;
        const bool is_whole = p + length >= end || ((unsigned char)p[length] & 0xc0) != 0x80;
        if (is_whole && length <= SHOWN - 3)
            kept = length;
    }
    const bool is_long = length > SHOWN;
    snprintf(text, STRING_TEXT, "the string \"%s%s\"",
             td_shown_text(p, is_long ? kept : length, &shown), is_long ? "..." : "");
    return text;
}

/* Checks the syntax of the value at p, except for elements inside brackets. */
static td_status check_syntax(const struct td_json_array *array, const char *p)
{
    struct td_json_scan scan = *array->scan;
    struct td_json_raw raw;
    size_t commas;
    scan.at = p;
    switch (p < scan.end ? *p : '\0') {
    case '"':
        return td_json_raw_string(&scan, &raw, array->err);
    case 't':
    case 'f':
    case 'n':
        return td_json_literal(&scan, array->err) ? TD_OK : TD_MALFORMED_REQUEST;
    case '[':
    case '{':
        if (td_json_measure(p, scan.end, &commas))
            return TD_OK;
        return td_json_syntax(&scan, scan.end, array->err, "expected the end of %s",
                              td_json_kind(*p));
    default: {
        bool is_integer;
        if (p >= scan.end || !td_json_kind(*p))
            return td_json_syntax(&scan, p, array->err, "expected a value");
        const char *end = td_json_number_end(p, scan.end, &is_integer);
        if (!end)
            return td_json_bad_number(&scan, p, array->err);
        if (end == scan.end)
            return td_json_syntax(&scan, end, array->err, "expected ',' or ']'");
        return TD_OK;
    }
    }
}

/* Returns a description, for messages, of how the Open Inference Protocol writes elements of a
 * dtype. */
static const char *oip_elements(td_dtype dtype)
{
    return dtype == TD_DTYPE_BOOL     ? "true, false, 1 or 0"
           : dtype == TD_DTYPE_STRING ? "a string"
           : td_dtype_is_float(dtype) ? "a number, or NaN, Infinity or -Infinity without quotes"
                                      : "an integer";
}

#define NOT_WITH_OTHERS "neither int64 nor uint64 can hold %s together with the other elements"

/* True if the integer at the start of `token` is exact in float64. */
static bool is_exact_in_float64(const char *token)
{
    bool negative;
    uint64_t magnitude;
    if (!td_json_integral(token, token + strlen(token), &negative, &magnitude))
        return false;
    while (magnitude > 0 && magnitude % 2 == 0)
        magnitude /= 2;
    return magnitude <= (uint64_t)1 << DBL_MANT_DIG;
}

/* True if the client can send float64 instead of the dtype of this float tensor. */
static bool may_widen(const struct td_json_array *array)
{
    return (array->dtype == TD_DTYPE_FLOAT16 || array->dtype == TD_DTYPE_BFLOAT16 ||
            array->dtype == TD_DTYPE_FLOAT32) &&
           array->others & TD_DTYPE_BIT(FLOAT64);
}

#define GIVE_FLOAT64 "give the values another dtype: {\"dtype\": \"float64\", \"data\": [...]}"

/* Writes the message for an integer, shown as `token`, that the array would store as another
 * number. The message suggests float64 only if float64 is accepted and represents the integer
 * exactly. */
enum { ROUNDED_TEXT = 320 };
static const char *rounded_text(const struct td_json_array *array, const char *token,
                                char text[ROUNDED_TEXT])
{
    const char *dtype = td_dtype_info(array->dtype)->name;
    const bool widens = may_widen(array) && is_exact_in_float64(token);
    /* JavaScript omits ".0", so the message suggests Math.fround. */
    char script[80] = "";
    if (array->dtype == TD_DTYPE_FLOAT32)
        snprintf(script, sizeof script, ", in JavaScript Math.fround(%s)", token);
    if (array->dtype == TD_DTYPE_INT64 || array->dtype == TD_DTYPE_UINT64)
        snprintf(text, ROUNDED_TEXT,
                 "%s might be a rounded integer, because some programs print doubles of 10^15 or "
                 "more this way; write all digits of the integer without a fraction or an "
                 "exponent, or write it as a string",
                 token);
    else if (td_dtype_is_complex(array->dtype))
        snprintf(
            text, ROUNDED_TEXT,
            "[re, im] has an integer that is not exact in %s; write it with .0 to accept rounding",
            dtype);
    else
        snprintf(text, ROUNDED_TEXT,
                 "%s is not exact in %s; write it as %s.0 to accept rounding%s%s", token, dtype,
                 token, script, widens ? ", or " GIVE_FLOAT64 : "");
    return text;
}

/* Adds hints to the error for a number at p that is too large. The hints suggest a wider dtype and,
 * if the client did not choose the dtype, explain why the tensor has it. */
static void hint_range(const struct td_json_array *array, const char *p)
{
    bool is_integer;
    double value;
    const char *stop = td_json_number_end(p, array->parser.end, &is_integer);
    if (array->style == TD_SCALARS_INFERRED)
        td_error_hint(array->err, "without a dtype, numbers with a fraction or an exponent are "
                                  "float32");
    if (may_widen(array) && stop && td_float64_read(p, stop, &value))
        td_error_hint(array->err, GIVE_FLOAT64);
}

/* Reports a number at p that would need float32, in a tensor of integers. */
static td_status refuse_fraction(const struct td_json_array *array, const char *p, int level)
{
    char message[256], token[48];
    bool is_integer;
    (void)td_json_number_end(p, array->parser.end, &is_integer);
    token_text(p, array->parser.end, token, sizeof token);
    if (is_integer)
        snprintf(message, sizeof message, NOT_WITH_OTHERS, token);
    else
        snprintf(message, sizeof message,
                 "%s is not an integer; indices and keys must be integers, written without a "
                 "fraction or an exponent",
                 token);
    refuse_at(array, array->count, level, message);
    if (!is_integer)
        array->err->status = TD_UNSUPPORTED_DTYPE;
    return array->err->status;
}

/* True if the string at p contains a valid JSON number, which must be an integer if `of_integers`
 * is true. */
static bool is_quoted_number(const char *p, const char *end, bool of_integers)
{
    bool is_integer;
    const char *stop = td_json_number_end(p + 1, end, &is_integer);
    return stop && stop < end && *stop == '"' && (is_integer || !of_integers);
}

/* If only the quotes of the value at p are wrong, returns advice on writing it as an element of the
 * dtype. Otherwise returns "". */
static const char *expected_element(td_dtype dtype, const char *p, const char *end)
{
    bool is_integer;
    if (dtype == TD_DTYPE_BOOL)
        return ": expected true or false";
    if (dtype == TD_DTYPE_STRING)
        return td_json_number_end(p, end, &is_integer) ? ": write it in quotes" : "";
    return *p == '"' && is_quoted_number(p, end, !td_dtype_is_float(dtype))
               ? ": write it without quotes"
               : "";
}

/* Reports that the value at p, in a list at this level, is not an element of the tensor. */
static td_status refuse_scalar(const struct td_json_array *array, const char *p, int level)
{
    td_status status = array->parser.fault == TD_SCALAR_FAULT_REPORTED ? TD_MALFORMED_REQUEST
                                                                       : check_syntax(array, p);
    if (status != TD_OK)
        return status;

    const struct td_dtype_info *info = td_dtype_info(array->dtype);
    const char *kind = td_json_kind(*p),
               *dtype = array->style == TD_SCALARS_OIP ? info->oip : info->name;
    char message[ROUNDED_TEXT], token[48], string[STRING_TEXT];
    const bool quoted = *p == '"' && array->parser.fault == TD_SCALAR_FAULT_RANGE;
    if (array->no_fractions && array->dtype != TD_DTYPE_STRING && array->dtype != TD_DTYPE_BOOL &&
        strcmp(kind, "a number") == 0)
        return refuse_fraction(array, p, level);
    if (strcmp(kind, "a number") == 0 || quoted)
        kind = token_text(p + quoted, array->parser.end, token, sizeof token);
    else if (*p == '"')
        kind = string_text(p, array->parser.end, string);
    if (array->parser.fault == TD_SCALAR_FAULT_ROUNDED && array->overflow)
        snprintf(message, sizeof message, NOT_WITH_OTHERS, kind);
    else if (array->parser.fault == TD_SCALAR_FAULT_ROUNDED)
        rounded_text(array, kind, message);
    else if (td_dtype_is_complex(array->dtype))
        snprintf(message, sizeof message, "%s is not a %s: expected [re, im], two numbers that fit",
                 kind, dtype);
    else if (array->parser.fault == TD_SCALAR_FAULT_RANGE)
        snprintf(message, sizeof message, "%s does not fit %s", kind, dtype);
    else if (array->style == TD_SCALARS_INFERRED && td_json_array_numel(array) == 0 && *p != '[')
        snprintf(message, sizeof message,
                 "%s is not an element of a tensor: expected a number, a string, true or false",
                 kind);
    else if (*p == '[')
        snprintf(message, sizeof message, "expected a scalar like the elements before, not a list");
    else if (array->style == TD_SCALARS_INFERRED)
        snprintf(message, sizeof message, "found %s in a tensor of %s", kind,
                 array->dtype == TD_DTYPE_BOOL     ? "booleans"
                 : array->dtype == TD_DTYPE_STRING ? "strings"
                                                   : "numbers");
    else if (array->style == TD_SCALARS_OIP)
        snprintf(message, sizeof message, "%s is not %s: expected %s", kind, dtype,
                 oip_elements(array->dtype));
    else
        snprintf(message, sizeof message, "%s is not %s %s%s", kind, dtype[0] == 'i' ? "an" : "a",
                 dtype, expected_element(array->dtype, p, array->parser.end));
    status = refuse_at(array, array->count, level, message);
    if (array->parser.fault == TD_SCALAR_FAULT_RANGE)
        hint_range(array, p);
    return status;
}

/* True if any element that was read as a string spells NaN or an infinity. */
static bool any_nonfinite_string(const struct td_json_array *array)
{
    const char *text = array->parser.bytes;
    for (int64_t i = 0, n = td_json_array_numel(array); i < n; i++) {
        uint64_t end;
        memcpy(&end, array->data + (size_t)(i + 1) * array->width, sizeof end);
        const char *next = array->parser.bytes + end;
        if (td_json_is_nonfinite(text, next))
            return true;
        text = next;
    }
    return false;
}

/* True if the value at p, or a string before it, was probably meant as NaN or an infinity. */
static bool means_nonfinite(const struct td_json_array *array, const char *p)
{
    static const td_dtype_set floats = TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) |
                                       TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64) |
                                       TD_DTYPE_BIT(COMPLEX64) | TD_DTYPE_BIT(COMPLEX128);
    const char *end = array->parser.end, *kind = p < end ? td_json_kind(*p) : NULL;
    if (array->style == TD_SCALARS_INFERRED && array->dtype == TD_DTYPE_STRING)
        return kind && strcmp(kind, "a number") == 0 && any_nonfinite_string(array);
    if (array->style == TD_SCALARS_INFERRED)
        return array->dtype != TD_DTYPE_BOOL && td_json_is_nonfinite(p, end);
    if (td_dtype_is_complex(array->dtype) && p < end && *p == '[')
        while (++p < end && *p != ']' && !td_json_is_nonfinite(p, end))
            ;
    return (floats >> array->dtype & 1) && array->style == TD_SCALARS_TYPED &&
           td_json_is_nonfinite(p, end);
}

/* Adds a hint to the error for the value at p if the client probably meant NaN or a typed array of
 * JavaScript. */
static td_status hint(const struct td_json_array *array, const char *p, td_status status)
{
    const bool is_nonfinite = means_nonfinite(array, p);
    if (is_nonfinite && array->no_fractions)
        td_error_hint(array->err, "indices and keys must be integers; leave out this value");
    else if (is_nonfinite)
        td_json_hint_nonfinite(array->err,
                               array->style == TD_SCALARS_TYPED ? array->dtype : TD_DTYPE_FLOAT32);
    td_json_hint_typed_array(array->err, p, array->parser.end);
    return status;
}

/* True if the '[' at p starts a complex element [re, im] rather than a list of elements. */
static bool is_pair(const char *p, const char *end)
{
    p = td_json_skip_space(p + 1, end);
    return p < end && *p != '[' && *p != ']';
}

/* Reports that the data has more elements than the given shape. Cannot happen without a given
 * shape, because memory sized from the text is always large enough. */
static td_status refuse_too_many(const struct td_json_array *array)
{
    char message[96];
    snprintf(message, sizeof message, "data has more elements than its shape, which has %" PRId64,
             array->capacity);
    return refuse_at(array, array->count, 0, message);
}

/* Raises the parser's limit, or reports an error if the limit is already the end of the memory. */
static td_status continue_reading(struct td_json_array *array)
{
    if (array->parser.next == array->memory_end)
        return refuse_too_many(array);
    td_json_array_set_limit(array);
    return td_stop_check(&array->arena->stop, array->err);
}

/* Reads the elements from p to the end of their list. */
static td_status read_scalars(struct td_json_array *array, const char **p, int level)
{
    td_status status = TD_OK;
    /* A scalar has one element, because a comma after it belongs to the caller. */
    if (level == 0)
        array->capacity = 1;
    if (!array->started && (status = td_json_infer_dtype(array, *p)) != TD_OK)
        return status;
    int64_t before = td_json_array_numel(array);
    if (level == 0)
        array->parser.limit = array->parser.next + array->width;
    for (;;) {
        status = array->parser.next == array->parser.limit ? continue_reading(array) : TD_OK;
        if (status != TD_OK)
            return status;
        *p = array->parse(&array->parser, *p);
        if (level > 0)
            array->count[level - 1] = td_json_array_numel(array) - before;
        if (array->parser.fault == TD_SCALAR_FAULT_NONE && level > 0 && *p < array->parser.end &&
            **p == ',') { /* the parser stopped at its limit */
            *p = td_json_skip_space(*p + 1, array->parser.end);
            continue;
        }
        if (array->parser.fault == TD_SCALAR_FAULT_NONE)
            return TD_OK;
        bool widened = false;
        if (array->parser.fault != TD_SCALAR_FAULT_REPORTED)
            status = td_json_widen_dtype(array, *p, &widened);
        if (status != TD_OK)
            return status;
        if (!widened)
            return hint(array, *p, refuse_scalar(array, *p, level));
    }
}

/* Ends the list at `level`. Its length must equal the length of the other lists at this level. */
static td_status close_list(struct td_json_array *array, int level)
{
    int64_t *dim = &array->dim[level - 1], count = array->count[level - 1];
    if (*dim < 0)
        *dim = count;
    if (*dim == count)
        return TD_OK;
    char message[160];
    snprintf(message, sizeof message,
             TD_JSON_RAGGED "%" PRId64 "; the lists before it have length %" PRId64, count, *dim);
    return refuse_at(array, array->count, level - 1, message);
}

/* Reads a value: nested lists of scalars. Iterative, so deeply nested lists do not exhaust the
 * stack. */
static td_status read_value(struct td_json_array *array)
{
    const char *end = array->scan->end;
    const char *p = td_json_skip_space(array->scan->at, end);
    int level = 0; /* number of open lists */
    td_status status;
    array->rank = -1;
    for (int i = 0; i < TD_MAX_RANK; i++)
        array->dim[i] = -1;

    for (;;) {
        /* A list or an element starts at p. */
        bool list = p < end && *p == '[' && level != array->rank;
        if (list && array->rank < 0 && array->started && td_dtype_is_complex(array->dtype))
            list = !is_pair(p, end);
        if (list) {
            if (level == TD_MAX_RANK) {
                td_error_resource(array->err, "rank", TD_MAX_RANK + 1, TD_MAX_RANK,
                                  "a tensor given as nested lists");
                td_json_set_pointer(array->path, array->err);
                return TD_RESOURCE_LIMIT;
            }
            array->count[level++] = 0;
            p = td_json_skip_space(p + 1, end);
            if (p >= end || *p != ']')
                continue;
            if (array->rank < 0)
                array->rank = level;
        } else {
            if (array->rank < 0)
                array->rank = level;
            if (level != array->rank) {
                const struct td_json_scan here = { array->scan->begin, p, end };
                const char *kind = td_json_value_kind(&here);
                char message[96];
                if (kind)
                    snprintf(message, sizeof message,
                             "expected a list like the elements before, not %s", kind);
                return hint(array, p,
                            kind ? refuse_at(array, array->count, level, message)
                                 : td_json_syntax(array->scan, p, array->err, "expected a value"));
            }
            status = read_scalars(array, &p, level);
            if (status != TD_OK)
                return status;
            if (level == 0)
                break;
        }
        /* A value is followed by another value or by the end of one or more lists. */
        bool more = false;
        while (level > 0 && !more) {
            p = td_json_skip_space(p, end);
            if (p >= end || (*p != ',' && *p != ']'))
                return td_json_syntax(array->scan, p, array->err, "expected ',' or ']'");
            if (*p == ',') {
                more = true;
            } else {
                status = close_list(array, level);
                if (status != TD_OK)
                    return status;
                level--;
                if (level > 0)
                    array->count[level - 1]++;
            }
            p++;
        }
        if (!more)
            break;
        p = td_json_skip_space(p, end);
    }
    array->scan->at = p;
    return TD_OK;
}

/* Builds a tensor of the given shape from the elements. */
static td_status finish(struct td_json_array *array, const struct td_shape *shape,
                        struct td_tensor *out)
{
    memset(out, 0, sizeof *out);
    td_status status = td_tensor_describe(out, "data", array->dtype, shape, array->err);
    if (status != TD_OK)
        return status;
    out->data = array->data;
    const size_t room = (size_t)(array->memory_end - array->data);
    if (array->dtype != TD_DTYPE_STRING)
        td_arena_trim(array->arena, array->data, room, (size_t)(array->parser.next - array->data));
    if (array->dtype == TD_DTYPE_STRING) {
        out->offsets = (uint64_t *)(void *)array->data;
        out->data = array->parser.bytes;
        out->bytes = (size_t)(array->parser.bytes_next - array->parser.bytes);
    }
    return TD_OK;
}

static void shape_of(const struct td_json_array *array, struct td_shape *shape)
{
    shape->rank = array->rank;
    for (int i = 0; i < array->rank; i++)
        shape->dim[i] = array->dim[i];
}

/* Computes upper bounds for the number of elements and for the bytes of strings. Does not scan
 * short texts, because an element for every two bytes needs little memory. read_value reports a
 * value without an end. */
static void measure(struct td_json_array *array)
{
    enum { SHORT_TEXT = 2048 };
    const char *at = array->scan->at;
    const size_t left = (size_t)(array->scan->end - at);
    size_t commas = left / 2;
    const char *stop = left <= SHORT_TEXT ? NULL : td_json_measure(at, array->scan->end, &commas);
    array->text_bytes = stop ? (size_t)(stop - at) : left;
    array->capacity = (int64_t)(td_dtype_is_complex(array->dtype) ? commas / 2 : commas) + 1;
}

td_status td_json_read_untyped(struct td_json_scan *scan, struct td_untyped untyped,
                               const struct td_json_path *path, struct td_arena *arena,
                               struct td_tensor *out, struct td_error *err)
{
    struct td_json_array array = {
        .scan = scan,
        .path = path,
        .arena = arena,
        .err = err,
        .integer_dtype = untyped.integer,
        .no_fractions = untyped.no_fractions,
        .others = untyped.others,
        .style = TD_SCALARS_INFERRED,
        .parser = { .end = scan->end, .scan = scan, .err = err },
    };
    td_json_peek(scan);
    const char *begin = scan->at;
    measure(&array);
    td_status status = read_value(&array);
    if (status == TD_OK && !array.started) {
        array.dtype = untyped.empty;
        status = td_json_array_start(&array);
    }
    if (status != TD_OK)
        return status;

    if (array.integers_end)
        td_json_restore_negative_zeros(&array, begin, array.integers_end);
    struct td_shape shape;
    shape_of(&array, &shape);
    if (array.rounded[0] && !array.overflow) {
        int64_t position[TD_MAX_RANK];
        char message[ROUNDED_TEXT];
        td_shape_unravel(&shape, array.rounded_element, position);
        return refuse_at(&array, position, shape.rank,
                         rounded_text(&array, array.rounded, message));
    }
    if (array.overflow) {
        bool fraction = false;
        for (const char *p = begin; p < scan->at && !fraction; p++)
            fraction = *p == '.' || *p == 'e' || *p == 'E';
        if (!fraction) {
            int64_t position[TD_MAX_RANK];
            char message[128], token[48];
            td_shape_unravel(&shape, array.overflow_element, position);
            snprintf(message, sizeof message, NOT_WITH_OTHERS,
                     token_text(array.overflow, scan->end, token, sizeof token));
            return refuse_at(&array, position, shape.rank, message);
        }
    }
    return finish(&array, &shape, out);
}

/* True if data whose lists have the shape `nested` can fill a tensor of shape `given`. */
static bool shape_fits(const struct td_shape *nested, const struct td_shape *given, int64_t numel)
{
    if (td_shape_equal(nested, given))
        return true;
    if (nested->rank == 1 && nested->dim[0] == numel)
        return true; /* flat data */
    /* A dimension of size 0 contains no lists, so the text does not show later dimensions. */
    if (numel != 0 || nested->rank == 0 || nested->rank > given->rank ||
        nested->dim[nested->rank - 1] != 0)
        return false;
    struct td_shape prefix = *given;
    prefix.rank = nested->rank;
    return td_shape_equal(nested, &prefix);
}

static td_status read_typed(struct td_json_scan *scan, enum td_scalar_style style, td_dtype dtype,
                            td_dtype_set others, const struct td_shape *shape,
                            const struct td_json_path *path, struct td_arena *arena,
                            struct td_tensor *out, struct td_error *err)
{
    struct td_json_array array = {
        .scan = scan,
        .path = path,
        .arena = arena,
        .err = err,
        .dtype = dtype,
        .others = others,
        .style = style,
        .parser = { .end = scan->end, .scan = scan, .err = err },
    };
    td_json_peek(scan);
    int64_t numel = 0;
    if (!shape || dtype == TD_DTYPE_STRING)
        measure(&array);
    if (shape) {
        if (!td_shape_numel(shape, &numel))
            return td_tensor_describe(out, "data", dtype, shape, err);
        /* An element takes at least a byte and a comma, so the remaining text limits the memory
         * even for a larger shape. */
        int64_t most = (scan->end - scan->at) / 2 + 1;
        array.capacity = numel < most ? numel : most;
        array.capacity = array.capacity > 0 ? array.capacity : 1;
    }
    td_status status = td_json_array_start(&array);
    if (status == TD_OK)
        status = read_value(&array);
    if (status != TD_OK)
        return status;

    struct td_shape nested;
    shape_of(&array, &nested);
    if (shape && !shape_fits(&nested, shape, numel)) {
        char nested_text[TD_SHAPE_TEXT], shape_text[TD_SHAPE_TEXT];
        td_json_refuse(path, err, "data has shape %s, but shape is %s",
                       td_shape_text(&nested, nested_text, sizeof nested_text),
                       td_shape_text(shape, shape_text, sizeof shape_text));
        if (td_dtype_is_complex(dtype))
            td_json_hint_complex(err);
        return TD_MALFORMED_REQUEST;
    }
    return finish(&array, shape ? shape : &nested, out);
}

td_status td_json_read_typed(struct td_json_scan *scan, td_dtype dtype, td_dtype_set others,
                             const struct td_shape *shape, const struct td_json_path *path,
                             struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    return read_typed(scan, TD_SCALARS_TYPED, dtype, others, shape, path, arena, out, err);
}

td_status td_json_read_oip(struct td_json_scan *scan, td_dtype dtype, const struct td_shape *shape,
                           const struct td_json_path *path, struct td_arena *arena,
                           struct td_tensor *out, struct td_error *err)
{
    return read_typed(scan, TD_SCALARS_OIP, dtype, 0, shape, path, arena, out, err);
}
