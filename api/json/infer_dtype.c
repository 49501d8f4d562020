#include "api/json/infer_dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct td_untyped td_json_untyped(const struct td_input_spec *spec)
{
    static const td_dtype empty[TD_ROLE_COUNT] = {
        [TD_ROLE_DATA] = TD_DTYPE_FLOAT32,
        [TD_ROLE_INDEX] = TD_DTYPE_INT32,
        [TD_ROLE_KEY] = TD_DTYPE_INT64,
        [TD_ROLE_CONDITION] = TD_DTYPE_BOOL,
    };
    const td_dtype usual = empty[spec->role];
    const td_dtype_set numbers = TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(FLOAT32);
    const bool only_float = (spec->dtypes & numbers) == TD_DTYPE_BIT(FLOAT32);
    return (struct td_untyped){
        .empty = spec->dtypes >> usual & 1 ? usual : (td_dtype)__builtin_ctz(spec->dtypes),
        .integer = spec->role == TD_ROLE_KEY ? TD_DTYPE_INT64
                   : only_float              ? TD_DTYPE_FLOAT32
                                             : TD_DTYPE_INT32,
        .no_fractions = spec->role == TD_ROLE_INDEX || spec->role == TD_ROLE_KEY,
        .others = spec->dtypes,
    };
}

void td_json_array_set_limit(struct td_json_array *array)
{
    const size_t room = (size_t)(array->memory_end - array->parser.next);
    const size_t step = (size_t)TD_STOP_ELEMENTS * array->width;
    array->parser.limit = array->parser.next + (room < step ? room : step);
}

static void set_parser(struct td_json_array *array)
{
    array->parse = td_parse_scalars_of(array->dtype, array->style);
    array->parser.group = td_parse_floats_of(array->dtype, TD_ISA_AUTO);
}

td_status td_json_array_start(struct td_json_array *array)
{
    bool strings = array->dtype == TD_DTYPE_STRING;
    /* n strings have n + 1 offsets */
    size_t count = (size_t)array->capacity + strings;
    array->width = strings ? sizeof(uint64_t) : td_dtype_info(array->dtype)->size;
    array->data = td_arena_alloc(array->arena, count, array->width, array->err);
    if (!array->data)
        return array->err->status;
    array->parser.next = array->data;
    if (strings) {
        array->parser.bytes = td_arena_alloc(array->arena, array->text_bytes, 1, array->err);
        if (!array->parser.bytes)
            return array->err->status;
        array->parser.bytes_next = array->parser.bytes;
        memset(array->data, 0, array->width); /* offsets[0] */
        array->parser.next += array->width;
    }
    array->memory_end = array->data + count * array->width;
    td_json_array_set_limit(array);
    set_parser(array);
    array->started = true;
    return TD_OK;
}

td_status td_json_infer_dtype(struct td_json_array *array, const char *p)
{
    switch (p < array->parser.end ? *p : '\0') {
    case 't':
    case 'f':
        array->dtype = TD_DTYPE_BOOL;
        break;
    case '"':
        array->dtype = TD_DTYPE_STRING;
        break;
    default:
        array->dtype = array->integer_dtype;
        break;
    }
    return td_json_array_start(array);
}

/* Returns the magnitude and the sign of an element of an inferred integer dtype. */
static uint64_t integer_at(const struct td_json_array *array, int64_t i, bool *negative)
{
    const char *from = array->data + (size_t)i * array->width;
    int32_t narrow = 0;
    uint64_t bits;
    if (array->dtype == TD_DTYPE_INT32) {
        memcpy(&narrow, from, sizeof narrow);
        bits = (uint64_t)(int64_t)narrow;
    } else {
        memcpy(&bits, from, sizeof bits);
    }
    *negative = array->dtype != TD_DTYPE_UINT64 && bits >> 63;
    return *negative ? 0 - bits : bits;
}

/* Records an integer whose value changes in float32, unless an earlier integer is already recorded.
 * The caller has determined that the integer is not exact in float32. */
static void note_rounded(struct td_json_array *array, int64_t element, uint64_t magnitude,
                         bool negative)
{
    char text[sizeof array->rounded];
    if (array->rounded[0])
        return;
    const int length = snprintf(text, sizeof text, "%s%" PRIu64, negative ? "-" : "", magnitude);
    if (td_scalar_keeps_integer(text, text + length, TD_DTYPE_FLOAT32))
        return;
    memcpy(array->rounded, text, sizeof text);
    array->rounded_element = element;
}

/* Converts the integers read so far to float32, in place. Every inferred integer dtype is at least
 * as wide as float32. */
static void integers_to_float32(struct td_json_array *array)
{
    int64_t n = td_json_array_numel(array);
    for (int64_t i = 0; i < n; i++) {
        bool negative;
        const uint64_t magnitude = integer_at(array, i, &negative);
        if (!td_integer_is_exact(magnitude, TD_FLOAT32_BITS))
            note_rounded(array, i, magnitude, negative);
        const float value = negative ? -(float)magnitude : (float)magnitude;
        memcpy(array->data + (size_t)i * sizeof value, &value, sizeof value);
    }
    array->dtype = TD_DTYPE_FLOAT32;
    array->width = sizeof(float);
    set_parser(array);
    array->parser.next = array->data + (size_t)n * array->width;
    td_json_array_set_limit(array);
}

static td_status int32_to_int64(struct td_json_array *array)
{
    const char *narrow = array->data;
    int64_t n = td_json_array_numel(array);
    array->dtype = TD_DTYPE_INT64;
    td_status status = td_json_array_start(array);
    if (status != TD_OK)
        return status;
    for (int64_t i = 0; i < n; i++) {
        int32_t value;
        memcpy(&value, narrow + (size_t)i * sizeof value, sizeof value);
        int64_t wide = value;
        memcpy(array->parser.next, &wide, sizeof wide);
        array->parser.next += sizeof wide;
    }
    return TD_OK;
}

static bool any_negative(const struct td_json_array *array)
{
    int64_t lowest = 0;
    for (const char *at = array->data; at < array->parser.next; at += sizeof lowest) {
        int64_t value;
        memcpy(&value, at, sizeof value);
        lowest = value < lowest ? value : lowest;
    }
    return lowest < 0;
}

td_status td_json_widen_dtype(struct td_json_array *array, const char *p, bool *widened)
{
    *widened = false;
    bool is_integer;
    const char *stop = td_json_number_end(p, array->parser.end, &is_integer);
    bool integers = array->dtype == TD_DTYPE_INT32 || array->dtype == TD_DTYPE_INT64 ||
                    array->dtype == TD_DTYPE_UINT64;
    if (array->style != TD_SCALARS_INFERRED || !integers || !stop)
        return TD_OK;
    *widened = true;
    if (is_integer && array->dtype == TD_DTYPE_INT32)
        return int32_to_int64(array);
    if (is_integer && array->dtype == TD_DTYPE_INT64 && *p != '-' && !any_negative(array)) {
        array->dtype = TD_DTYPE_UINT64;
        set_parser(array);
        return TD_OK;
    }
    if (array->no_fractions) {
        *widened = false;
        return TD_OK;
    }
    if (is_integer) {
        array->overflow = p;
        array->overflow_element = td_json_array_numel(array);
    }
    array->integers_end = p;
    integers_to_float32(array);
    return TD_OK;
}

void td_json_restore_negative_zeros(struct td_json_array *array, const char *begin, const char *end)
{
    const float negative_zero = -0.0F;
    int64_t element = 0;
    for (const char *p = begin; p < end; p++) {
        element += *p == ',';
        /* p[2] exists, because the text cannot end with this number. */
        if (p[0] == '-' && p[1] == '0' && p[2] != '.' && (p[2] | 0x20) != 'e' &&
            (p == begin || (p[-1] | 0x20) != 'e'))
            memcpy(array->data + (size_t)element * sizeof negative_zero, &negative_zero,
                   sizeof negative_zero);
    }
}
