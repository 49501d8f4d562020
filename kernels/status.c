#include "kernels/status.h"

#include "kernels/shown_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *td_status_name(td_status status)
{
    static const char *const names[TD_STATUS_COUNT] = { [TD_OK] = "OK",
#define TD_STATUS_NAME(name) [TD_##name] = #name,
                                                        TD_STATUSES(TD_STATUS_NAME)
#undef TD_STATUS_NAME
    };
    return names[status];
}

/* If vsnprintf truncated a text, truncates it further to the end of a whole character. `wanted` is
 * the result of vsnprintf. The texts contain names chosen by clients and become part of JSON, which
 * must not contain an incomplete UTF-8 sequence. */
static void truncate_between_characters(char *text, size_t size, int wanted)
{
    if (wanted < 0)
        text[0] = '\0';
    if (wanted < 0 || (size_t)wanted < size)
        return;
    text[td_shown_cut(text, size - 1)] = '\0';
}

td_status td_error_set(struct td_error *err, td_status status, const char *format, ...)
{
    *err = (struct td_error){ .status = status, .offset = -1 };
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    truncate_between_characters(err->message, sizeof(err->message), wanted);
    return status;
}

void td_error_etag_of(struct td_error *err, const char *name)
{
    snprintf(err->etag_of, sizeof err->etag_of, "%s", name);
}

td_status td_error_at_input(struct td_error *err, td_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(err->input, sizeof(err->input), format, args);
    va_end(args);
    truncate_between_characters(err->input, sizeof(err->input), wanted);
    return status;
}

td_status td_error_at_attribute(struct td_error *err, td_status status, const char *name)
{
    int wanted = snprintf(err->attribute, sizeof(err->attribute), "%s", name);
    truncate_between_characters(err->attribute, sizeof(err->attribute), wanted);
    return status;
}

td_status td_error_at_key(struct td_error *err, td_status status, const char *key, size_t length,
                          bool is_number)
{
    const size_t size = sizeof(err->key);
    const size_t kept = length < size ? length : td_shown_cut(key, size - 1);
    if (kept)
        memcpy(err->key, key, kept);
    err->key[kept] = '\0';
    err->key_length = kept;
    err->key_is_number = is_number;
    err->has_key = true;
    return status;
}

td_status td_error_at_device(struct td_error *err, td_status status, const char *device)
{
    snprintf(err->device, sizeof(err->device), "%s", device);
    return status;
}

void td_error_add_shape(struct td_error *err, const char *name, const struct td_shape *shape)
{
    if (err->n_shapes == (int)(sizeof(err->shapes) / sizeof(err->shapes[0])))
        return;
    snprintf(err->shapes[err->n_shapes].name, sizeof(err->shapes[0].name), "%s", name);
    err->shapes[err->n_shapes].shape = *shape;
    err->n_shapes++;
}

void td_error_hint(struct td_error *err, const char *format, ...)
{
    char text[sizeof(err->message)];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const size_t used = strlen(err->message);
    if (length < 0 || used + 2 + (size_t)length >= sizeof(err->message))
        return;
    memcpy(err->message + used, "; ", 2);
    memcpy(err->message + used + 2, text, (size_t)length + 1);
}

/* Returns the unit of a resource, such as bytes for "output_bytes" and dimensions for "rank". */
static const char *resource_unit(const char *resource)
{
    static const char suffix[] = "_bytes";
    size_t length = strlen(resource), cut = sizeof(suffix) - 1;
    if (length >= cut && strcmp(resource + length - cut, suffix) == 0)
        return "bytes";
    if (strcmp(resource, "rank") == 0)
        return "dimensions";
    if (strcmp(resource, "flops") == 0)
        return "operations";
    return resource;
}

td_status td_error_resource(struct td_error *err, const char *resource, uint64_t needed,
                            uint64_t limit, const char *what)
{
    const char *unit = resource_unit(resource);
    td_error_set(err, TD_RESOURCE_LIMIT, "%s needs %" PRIu64 " %s; the limit is %" PRIu64, what,
                 needed, unit, limit);
    snprintf(err->resource, sizeof(err->resource), "%s", resource);
    err->needed = needed;
    err->limit = limit;
    return TD_RESOURCE_LIMIT;
}

td_status td_error_too_large(struct td_error *err, uint64_t limit, const char *what)
{
    td_error_set(err, TD_PAYLOAD_TOO_LARGE, "%s the limit of %" PRIu64 " bytes", what, limit);
    err->limit = limit;
    return TD_PAYLOAD_TOO_LARGE;
}
