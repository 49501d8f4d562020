#include "api/message/document.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

td_status td_document_reply(cJSON *document, bool complete, struct td_arena *arena,
                            struct td_reply *reply, struct td_error *err)
{
    td_status status = TD_OK;
    char *text = complete ? cJSON_PrintUnformatted(document) : NULL;
    cJSON_Delete(document);
    if (!text)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "not enough memory for this description");
    size_t length = strlen(text);
    char *copy = td_arena_text(arena, text, length, err);
    if (copy)
        td_reply_set(reply, 200, "application/json", copy, length);
    else
        status = err->status;
    cJSON_free(text);
    return status;
}

bool td_document_add(cJSON *object, const char *name, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, name, item))
        return true;
    cJSON_Delete(item);
    return false;
}

bool td_document_append(cJSON *list, cJSON *item)
{
    if (item && cJSON_AddItemToArray(list, item))
        return true;
    cJSON_Delete(item);
    return false;
}

bool td_document_text(cJSON *object, const char *name, const char *text)
{
    return td_document_add(object, name, cJSON_CreateString(text));
}

cJSON *td_document_integer(int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    return cJSON_CreateRaw(text);
}

cJSON *td_document_count(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_CreateRaw(text);
}

/* Returns the default value as JSON: a number, a list, a name, or default_text. */
static cJSON *default_value(const struct td_attr_spec *spec)
{
    if (spec->default_text && spec->kind == TD_ATTR_INTS && spec->default_text[0] == '[')
        return cJSON_CreateRaw(spec->default_text);
    if (spec->default_text)
        return cJSON_CreateString(spec->default_text);
    switch (spec->kind) {
    case TD_ATTR_INT:
        return td_document_integer(spec->default_int);
    case TD_ATTR_FLOAT:
        return cJSON_CreateNumber(spec->default_float);
    case TD_ATTR_BOOL:
        return cJSON_CreateBool(spec->default_int != 0);
    case TD_ATTR_CHOICE:
        return cJSON_CreateString(spec->choices[spec->default_int]);
    case TD_ATTR_DTYPE:
        return cJSON_CreateString(td_dtype_info((td_dtype)spec->default_int)->name);
    case TD_ATTR_INTS:
    case TD_ATTR_TEXT:
    case TD_ATTR_KIND_COUNT:
        break;
    }
    return cJSON_CreateString("");
}

static cJSON *choice_list(const char *const *choices)
{
    cJSON *list = cJSON_CreateArray();
    for (; *choices; choices++)
        if (!td_document_append(list, cJSON_CreateString(*choices))) {
            cJSON_Delete(list);
            return NULL;
        }
    return list;
}

cJSON *td_document_dtypes(td_dtype_set set)
{
    const char *names[TD_DTYPE_COUNT + 1] = { NULL };
    int n = 0;
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (set >> i & 1)
            names[n++] = td_dtype_info((td_dtype)i)->name;
    return choice_list(names);
}

/* Adds "minimum" and "maximum" if the attribute has them. */
static bool add_range(cJSON *object, const struct td_attr_spec *spec)
{
    const struct td_int_range *range = spec->range;
    const struct td_float_range *numbers = spec->float_range;
    if (range)
        return (range->min == INT64_MIN ||
                td_document_add(object, "minimum", td_document_integer(range->min))) &&
               (range->max == INT64_MAX ||
                td_document_add(object, "maximum", td_document_integer(range->max)));
    if (numbers)
        return (isinf(numbers->min) ||
                td_document_add(object, "minimum", cJSON_CreateNumber(numbers->min))) &&
               (isinf(numbers->max) ||
                td_document_add(object, "maximum", cJSON_CreateNumber(numbers->max)));
    return true;
}

bool td_document_attr(cJSON *object, const struct td_attr_spec *spec)
{
    static const char *const kinds[TD_ATTR_KIND_COUNT] = {
        [TD_ATTR_INT] = "int64",   [TD_ATTR_INTS] = "int64[]",  [TD_ATTR_FLOAT] = "float64",
        [TD_ATTR_BOOL] = "bool",   [TD_ATTR_CHOICE] = "string", [TD_ATTR_DTYPE] = "dtype",
        [TD_ATTR_TEXT] = "string",
    };
    return td_document_text(object, "type", kinds[spec->kind]) &&
           td_document_add(object, "required", cJSON_CreateBool(spec->required)) &&
           (spec->required || td_document_add(object, "default", default_value(spec))) &&
           (spec->kind != TD_ATTR_CHOICE ||
            td_document_add(object, "values", choice_list(spec->choices))) &&
           (spec->kind != TD_ATTR_DTYPE ||
            td_document_add(object, "values", td_document_dtypes(spec->dtypes))) &&
           add_range(object, spec);
}
