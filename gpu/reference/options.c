#include "gpu/reference/options.h"

#include "kernels/name.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct option {
    const char *name;
    size_t offset;
} options[] = {
#define OPTION(name)                                                                               \
    {                                                                                              \
#name, offsetof(struct td_reference_options, name)                                         \
    }
    OPTION(launch_us),    OPTION(copy_mb_per_s), OPTION(back_mb_per_s), OPTION(fill_mb_per_s),
    OPTION(fail_alloc),   OPTION(lose_at),       OPTION(lose_copy),     OPTION(hang_at),
    OPTION(hang_free),    OPTION(hang_exit),     OPTION(fail_open),     OPTION(recover),
    OPTION(direct_bytes),
#undef OPTION
};
#define N_OPTIONS ((int)(sizeof(options) / sizeof(options[0])))

static int find_option(const char *name, size_t length)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (td_name_is(options[i].name, name, length))
            return i;
    return -1;
}

/* Parses decimal digits only. */
static bool parse_number(const char *text, size_t length, int64_t *out)
{
    int64_t value = 0;
    if (length == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = 10 * value + (text[i] - '0');
        if (value > TD_REFERENCE_LARGEST)
            return false;
    }
    *out = value;
    return true;
}

/* Parses one option "name=value". Sets bit i of *seen for options[i]. */
static td_status parse_option(const char *text, size_t length, struct td_reference_options *out,
                              unsigned *seen, struct td_error *err)
{
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals ? (size_t)(equals - text) : length;
    int i = find_option(text, name_length);
    if (i < 0)
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "the reference device has no option \"%.*s\"; expected launch_us, "
                            "copy_mb_per_s, back_mb_per_s, fill_mb_per_s, fail_alloc, lose_at, "
                            "lose_copy, hang_at, hang_free, hang_exit, "
                            "fail_open, recover or direct_bytes",
                            (int)name_length, text);
    const char *name = options[i].name;
    if (*seen & 1u << i) {
        td_error_set(err, TD_INVALID_ARGUMENT, "%s is given twice; give it once", name);
        return td_error_at_attribute(err, TD_INVALID_ARGUMENT, name);
    }
    *seen |= 1u << i;
    const char *value = equals ? equals + 1 : text + length;
    size_t value_length = (size_t)(text + length - value);
    int64_t number;
    if (!parse_number(value, value_length, &number)) {
        td_error_set(err, TD_INVALID_ARGUMENT,
                     "%s is \"%.*s\"; expected a number from 0 to %d, as in %s=1", name,
                     (int)value_length, value, TD_REFERENCE_LARGEST, name);
        return td_error_at_attribute(err, TD_INVALID_ARGUMENT, name);
    }
    memcpy((char *)out + options[i].offset, &number, sizeof(number));
    return TD_OK;
}

td_status td_reference_options_parse(const char *text, struct td_reference_options *out,
                                     struct td_error *err)
{
    *out = (struct td_reference_options){ .recover = 2 };
    unsigned seen = 0;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        td_status status = parse_option(text, length, out, &seen, err);
        if (status != TD_OK)
            return status;
        text += length;
        if (*text == '\0')
            break;
        text++;
        if (*text == '\0')
            return td_error_set(err, TD_INVALID_ARGUMENT,
                                "the options of the reference device end with a comma; expected an "
                                "option after it");
    }
    return TD_OK;
}
