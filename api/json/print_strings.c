#include "api/json/print_strings.h"

#include "kernels/utf8.h"

/* Escape of each byte: 0 for none, 'u' for \u00xx, otherwise the letter after the backslash. */
static const char escapes[256] = {
    ['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
    ['\t'] = 't', [0] = 'u',     [1] = 'u',    [2] = 'u',    [3] = 'u',    [4] = 'u',
    [5] = 'u',    [6] = 'u',     [7] = 'u',    [11] = 'u',   [14] = 'u',   [15] = 'u',
    [16] = 'u',   [17] = 'u',    [18] = 'u',   [19] = 'u',   [20] = 'u',   [21] = 'u',
    [22] = 'u',   [23] = 'u',    [24] = 'u',   [25] = 'u',   [26] = 'u',   [27] = 'u',
    [28] = 'u',   [29] = 'u',    [30] = 'u',   [31] = 'u'
};

static const char *string_at(const struct td_tensor *tensor, int64_t i, size_t *length)
{
    *length = (size_t)(tensor->offsets[i + 1] - tensor->offsets[i]);
    return (const char *)tensor->data + tensor->offsets[i];
}

/* ---- measuring ---- */

static size_t escape_bytes(const char *text, size_t length)
{
    size_t more = 0;
    for (size_t i = 0; i < length; i++) {
        const char escape = escapes[(unsigned char)text[i]];
        more += escape == 0 ? 0 : escape == 'u' ? 5 : 1;
    }
    return more;
}

static td_status measure_string(const char *text, size_t length, struct td_stop_meter *meter,
                                struct td_json_strings *out, struct td_error *err)
{
    while (length > 0 && out->valid) {
        const size_t step = length < TD_STOP_STEP ? length : TD_STOP_STEP,
                     valid = td_utf8_valid_prefix(text, step);
        out->escape_bytes += escape_bytes(text, valid);
        /* If a step ends inside a character, the next step reads the character again. */
        out->valid = valid == step || (step < length && step - valid < TD_UTF8_MAX);
        if (td_stop_work(meter, valid, err) != TD_OK)
            return err->status;
        text += valid;
        length -= valid;
    }
    return TD_OK;
}

td_status td_json_measure_strings(const struct td_tensor *tensor, const struct td_stop *stop,
                                  struct td_json_strings *out, struct td_error *err)
{
    struct td_stop_meter meter = td_stop_meter(stop);
    *out = (struct td_json_strings){ .valid = true };
    for (int64_t i = 0; i < tensor->numel && out->valid; i++) {
        size_t length;
        const char *text = string_at(tensor, i, &length);
        if (measure_string(text, length, &meter, out, err) != TD_OK ||
            td_stop_work(&meter, TD_STOP_ELEMENT, err) != TD_OK)
            return err->status;
    }
    return TD_OK;
}

/* ---- writing ---- */

static char *write_escaped(char *at, const char *text, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        const char escape = escapes[c];
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
    return at;
}

static char *write_string(char *at, const char *text, size_t length, struct td_stop_meter *meter,
                          struct td_error *err)
{
    *at++ = '"';
    while (length > 0) {
        const size_t step = length < TD_STOP_STEP ? length : TD_STOP_STEP;
        at = write_escaped(at, text, step);
        if (td_stop_work(meter, step, err) != TD_OK)
            return NULL;
        text += step;
        length -= step;
    }
    *at++ = '"';
    *at++ = ',';
    return at;
}

char *td_json_write_strings(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n,
                            struct td_stop_meter *meter, struct td_error *err)
{
    for (int64_t i = begin; i < begin + n && at; i++) {
        size_t length;
        const char *text = string_at(tensor, i, &length);
        if (td_stop_work(meter, TD_STOP_ELEMENT, err) != TD_OK)
            return NULL;
        at = write_string(at, text, length, meter, err);
    }
    return at;
}
