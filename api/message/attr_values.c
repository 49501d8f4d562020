#include "api/message/attr_values.h"

#include "api/text/suggest.h"
#include "api/text/text.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- refusals ---- */

td_status td_attr_refuse(struct td_error *err, const char *name, const char *expected,
                         const struct td_attr_value *value)
{
    if (value->kind == TD_VALUE_INT)
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is %" PRId64 "; expected %s", name,
                     value->integer, expected);
    else if (value->kind == TD_VALUE_TEXT)
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is \"%s\"; expected %s", name,
                     TD_SHOWN(value->text, value->text_length), expected);
    else
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is %s; expected %s", name,
                     TD_SHOWN(value->text, value->text_length), expected);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, name);
}

int td_attr_choose(const char *name, const char *const *choices, const struct td_attr_value *value,
                   struct td_error *err)
{
    int n = 0;
    for (; choices[n]; n++)
        if (value->kind == TD_VALUE_TEXT && td_name_is(choices[n], value->text, value->text_length))
            return n;
    char expected[256];
    size_t used = 0;
    for (int i = 0; i < n && used < sizeof expected; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s\"%s\"",
                                 i == 0       ? ""
                                 : i == n - 1 ? " or "
                                              : ", ",
                                 choices[i]);
    td_attr_refuse(err, name, expected, value);
    if (value->kind == TD_VALUE_TEXT)
        td_suggest(err, value->text, value->text_length, choices, n);
    return -1;
}

/* ---- text ---- */

/* Parses an integer. The whole text must be an optional sign and decimal digits. */
static bool parse_int64(const char *text, size_t length, int64_t *out)
{
    const char *at = text, *end = text + length;
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return false;
    int64_t value = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        int digit = negative ? '0' - *at : *at - '0';
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)digit, &value))
            return false;
    }
    *out = value;
    return true;
}

/* Parses a list such as "0,2". Leaves list->values unchanged if the text is not a list of at most
 * TD_MAX_INTS integers. */
static td_status parse_ints(const char *text, size_t length, struct td_arena *arena,
                            struct td_ints *list, struct td_error *err)
{
    int64_t values[TD_MAX_INTS];
    int count = 0;
    const char *end = text + length;
    for (const char *at = text; length > 0 && at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if (count == TD_MAX_INTS || !parse_int64(at, (size_t)(stop - at), &values[count++]))
            return TD_OK;
        at = stop + 1;
    }
    int64_t *kept = td_arena_alloc(arena, (size_t)count, sizeof *kept, err);
    if (!kept)
        return err->status;
    memcpy(kept, values, (size_t)count * sizeof *kept);
    *list = (struct td_ints){ kept, count };
    return TD_OK;
}

/* Parses a decimal number. As in JSON, the number must start with a digit after an optional minus
 * sign. This rule excludes "nan" and "inf", which strtod accepts. The check for 'x' excludes
 * hexadecimal numbers. */
static bool parse_number(const char *text, size_t length, double *out)
{
    enum { LONGEST = 64 };
    char copy[LONGEST + 1], *end;
    const size_t sign = length > 0 && text[0] == '-';
    if (length > LONGEST || length <= sign || text[sign] < '0' || text[sign] > '9' ||
        memchr(text, 'x', length) || memchr(text, 'X', length))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = strtod(copy, &end);
    return end == copy + length;
}

td_status td_attr_of_text(const struct td_attr_spec *spec, const char *text, size_t length,
                          struct td_arena *arena, struct td_attr_value *out, struct td_error *err)
{
    td_status status = TD_OK;
    *out = (struct td_attr_value){ .kind = TD_VALUE_TEXT, .text = text, .text_length = length };
    switch (spec->kind) {
    case TD_ATTR_INT:
        if (parse_int64(text, length, &out->integer))
            out->kind = TD_VALUE_INT;
        break;
    case TD_ATTR_INTS:
        status = parse_ints(text, length, arena, &out->list, err);
        if (out->list.values)
            out->kind = TD_VALUE_INTS;
        break;
    case TD_ATTR_FLOAT:
        if (parse_number(text, length, &out->number))
            out->kind = TD_VALUE_FLOAT;
        break;
    case TD_ATTR_BOOL:
        out->boolean = td_name_is("true", text, length) || td_name_is("1", text, length);
        if (out->boolean || td_name_is("false", text, length) || td_name_is("0", text, length))
            out->kind = TD_VALUE_BOOL;
        break;
    default:
        break;
    }
    return status;
}

td_status td_attr_names_of_text(const char *text, size_t length, struct td_arena *arena,
                                struct td_attr_value *out, struct td_error *err)
{
    struct td_attr_name names[TD_MAX_NAMES];
    int count = 0;
    const char *end = text + length;
    *out = (struct td_attr_value){ .kind = TD_VALUE_TEXT, .text = text, .text_length = length };
    for (const char *at = text; length > 0 && at <= end; count++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if (count == TD_MAX_NAMES)
            return TD_OK;
        names[count] = (struct td_attr_name){ at, (size_t)(stop - at) };
        at = stop + 1;
    }
    struct td_attr_name *kept = td_arena_alloc(arena, (size_t)count, sizeof *kept, err);
    if (!kept)
        return err->status;
    memcpy(kept, names, (size_t)count * sizeof *kept);
    out->kind = TD_VALUE_NAMES;
    out->names = (struct td_attr_names){ kept, count };
    return TD_OK;
}

/* ---- the attrs struct ---- */

td_status td_attr_copy_text(const char *name, const struct td_attr_value *value,
                            struct td_arena *arena, const char **out, struct td_error *err)
{
    if (value->kind != TD_VALUE_TEXT)
        return td_attr_refuse(err, name, "a string", value);
    if (memchr(value->text, '\0', value->text_length))
        return td_attr_refuse(err, name, "a string without NUL characters", value);
    *out = td_arena_text(arena, value->text, value->text_length, err);
    return *out ? TD_OK : err->status;
}

/* Stores a dtype. If the attribute does not accept the dtype, td_op_check reports the error
 * later. */
static td_status store_dtype(const struct td_attr_spec *spec, const struct td_attr_value *value,
                             struct td_op_args *args, struct td_error *err)
{
    const char *accepted[TD_DTYPE_COUNT + 1] = { NULL };
    int n_accepted = 0;
    td_dtype dtype;
    if (value->kind == TD_VALUE_TEXT &&
        td_dtype_from_name(value->text, value->text_length, &dtype)) {
        td_op_set_choice(spec, args, (int)dtype);
        return TD_OK;
    }
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (spec->dtypes >> i & 1)
            accepted[n_accepted++] = td_dtype_info((td_dtype)i)->name;
    if (td_attr_choose(spec->name, accepted, value, err) >= 0)
        return TD_OK;
    if (value->kind == TD_VALUE_TEXT)
        td_suggest_dtype(err, value->text, value->text_length, spec->dtypes);
    return TD_MALFORMED_REQUEST;
}

static td_status store_choice(const struct td_attr_spec *spec, const struct td_attr_value *value,
                              struct td_op_args *args, struct td_error *err)
{
    const int chosen = td_attr_choose(spec->name, spec->choices, value, err);
    if (chosen < 0)
        return TD_MALFORMED_REQUEST;
    td_op_set_choice(spec, args, chosen);
    return TD_OK;
}

td_status td_attr_store(const struct td_attr_spec *spec, const struct td_attr_value *value,
                        struct td_op_args *args, struct td_arena *arena, struct td_error *err)
{
    unsigned char *field = args->attrs + spec->offset;
    switch (spec->kind) {
    case TD_ATTR_INT:
        if (value->kind != TD_VALUE_INT)
            return td_attr_refuse(err, spec->name, "a 64-bit integer", value);
        memcpy(field, &value->integer, sizeof value->integer);
        return TD_OK;
    case TD_ATTR_INTS:
        if (value->kind != TD_VALUE_INTS)
            return td_attr_refuse(err, spec->name,
                                  "a list of at most " TD_TEXT_NUMBER(TD_MAX_INTS) " integers",
                                  value);
        memcpy(field, &value->list, sizeof value->list);
        return TD_OK;
    case TD_ATTR_FLOAT: {
        const double number = value->kind == TD_VALUE_INT ? (double)value->integer : value->number;
        if ((value->kind != TD_VALUE_INT && value->kind != TD_VALUE_FLOAT) || !isfinite(number))
            return td_attr_refuse(err, spec->name, "a number that fits float64", value);
        memcpy(field, &number, sizeof number);
        return TD_OK;
    }
    case TD_ATTR_BOOL:
        if (value->kind != TD_VALUE_BOOL)
            return td_attr_refuse(err, spec->name, "true or false", value);
        memcpy(field, &value->boolean, sizeof value->boolean);
        return TD_OK;
    case TD_ATTR_CHOICE:
        return store_choice(spec, value, args, err);
    case TD_ATTR_DTYPE:
        return store_dtype(spec, value, args, err);
    case TD_ATTR_TEXT: {
        const char *copy = NULL;
        td_status status = td_attr_copy_text(spec->name, value, arena, &copy, err);
        if (status == TD_OK)
            memcpy(field, &copy, sizeof copy);
        return status;
    }
    case TD_ATTR_KIND_COUNT:
        break;
    }
    return TD_OK;
}
