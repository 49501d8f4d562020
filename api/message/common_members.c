#include "api/message/common_members.h"

#include "api/text/suggest.h"
#include "api/text/text.h"
#include "kernels/name.h"

#include <string.h>

const char *const td_common_member_names[TD_COMMON_MEMBER_COUNT] = {
    "device", "response", "timing", "store", "store.ttl_s", "output_dtype", "outputs"
};

/* Indexed by enum value. */
const char *const td_device_names[] = { "auto", "cpu", "gpu", NULL };
const char *const td_layout_names[] = { "nested", "flat", "base64", NULL };
const char *const td_bool_names[] = { "0", "1", "false", "true", NULL };
const char *const td_output_dtype_names[] = { "float16", "bfloat16", "float32", "float64", NULL };

bool td_common_member_allowed(enum td_common_member member, int n_outputs)
{
    if (member == TD_COMMON_OUTPUTS)
        return n_outputs > 1;
    return n_outputs > 0 || member == TD_COMMON_DEVICE || member == TD_COMMON_TIMING;
}

enum td_common_member td_common_member_find(const char *name, size_t length, int n_outputs)
{
    int i = 0;
    while (i < TD_COMMON_MEMBER_COUNT &&
           !(td_common_member_allowed((enum td_common_member)i, n_outputs) &&
             td_name_is(td_common_member_names[i], name, length)))
        i++;
    return (enum td_common_member)i;
}

static int choose(const char *name, const char *const *choices, const struct td_attr_value *value,
                  struct td_error *err)
{
    const int chosen = td_attr_choose(name, choices, value, err);
    if (chosen < 0 && choices == td_layout_names)
        td_error_hint(err, TD_BINARY_HINT);
    if (chosen < 0 && choices == td_output_dtype_names && value->kind == TD_VALUE_TEXT)
        td_suggest_dtype(err, value->text, value->text_length, TD_OUTPUT_DTYPES);
    return chosen;
}

int td_common_member_choose(const char *name, const char *const *choices, const char *text,
                            size_t length, struct td_error *err)
{
    const struct td_attr_value value = { .kind = TD_VALUE_TEXT,
                                         .text = text,
                                         .text_length = length };
    return choose(name, choices, &value, err);
}

static td_status set_ttl(const char *name, const struct td_attr_value *value,
                         struct td_arena *arena, int64_t *out, struct td_error *err)
{
    const struct td_attr_spec spec = { .name = name, .kind = TD_ATTR_INT };
    struct td_attr_value seconds = *value;
    const td_status status =
        value->kind == TD_VALUE_TEXT
            ? td_attr_of_text(&spec, value->text, value->text_length, arena, &seconds, err)
            : TD_OK;
    if (status != TD_OK)
        return status;
    if (seconds.kind != TD_VALUE_INT || seconds.integer < 1 || seconds.integer > TD_STORE_TTL_MAX)
        return td_attr_refuse(
            err, name, "an integer from 1 to " TD_TEXT_NUMBER(TD_STORE_TTL_MAX) ", in seconds",
            value);
    *out = seconds.integer;
    return TD_OK;
}

td_status td_common_member_set(struct td_common_members *members, enum td_common_member member,
                               const struct td_attr_value *value, struct td_arena *arena,
                               struct td_error *err)
{
    const char *name = td_common_member_names[member];
    int chosen = -1;
    switch (member) {
    case TD_COMMON_DEVICE:
        chosen = choose(name, td_device_names, value, err);
        if (chosen >= 0)
            members->device = (td_device_choice)chosen;
        break;
    case TD_COMMON_RESPONSE:
        chosen = choose(name, td_layout_names, value, err);
        if (chosen >= 0)
            members->layout = (td_layout)chosen;
        break;
    case TD_COMMON_TIMING: {
        /* In JSON, timing can also be 0, 1, true or false. */
        struct td_attr_value text = *value;
        const bool is_number =
            value->kind == TD_VALUE_INT && (value->integer == 0 || value->integer == 1);
        if (is_number || value->kind == TD_VALUE_BOOL)
            text = (struct td_attr_value){
                .kind = TD_VALUE_TEXT,
                .text = td_bool_names[is_number ? value->integer == 1 : value->boolean],
                .text_length = 1
            };
        chosen = choose(name, td_bool_names, &text, err);
        if (chosen >= 0)
            members->timing = chosen % 2 == 1;
        break;
    }
    case TD_COMMON_STORE:
        return td_attr_copy_text(name, value, arena, &members->store, err);
    case TD_COMMON_STORE_TTL:
        return set_ttl(name, value, arena, &members->store_ttl_s, err);
    case TD_COMMON_OUTPUT_DTYPE:
        chosen = choose(name, td_output_dtype_names, value, err);
        if (chosen >= 0)
            (void)td_dtype_from_name(value->text, value->text_length, &members->output_dtype);
        break;
    case TD_COMMON_OUTPUTS:
    case TD_COMMON_MEMBER_COUNT:
        break;
    }
    return chosen < 0 ? TD_MALFORMED_REQUEST : TD_OK;
}

bool td_common_members_equal(const struct td_common_members *a, const struct td_common_members *b)
{
    return a->device == b->device && a->layout == b->layout && a->timing == b->timing &&
           a->store_ttl_s == b->store_ttl_s && a->output_dtype == b->output_dtype &&
           a->outputs == b->outputs &&
           (a->store == b->store || (a->store && b->store && strcmp(a->store, b->store) == 0));
}
