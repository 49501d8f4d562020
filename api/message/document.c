#include "api/message/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

td_status td_document_reply(cJSON *document, bool complete, struct td_arena *arena,
                            struct td_reply *reply, struct td_error *err)
{
    td_status status = TD_OK;
    char *text = complete ? cJSON_PrintUnformatted(document) : NULL;
    cJSON_Delete(document);
    if (!text)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for this description");
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

/* The default as JSON: a number, a name, or the words that say what it depends on. */
static cJSON *default_value(const struct td_attr_spec *spec)
{
    if (spec->default_text)
        return cJSON_CreateString(spec->default_text);
    switch (spec->kind) {
    case TD_ATTR_INT:
        return td_document_integer(spec->default_int);
    case TD_ATTR_CHOICE:
        return cJSON_CreateString(spec->choices[spec->default_int]);
    case TD_ATTR_TEXT:
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

bool td_document_attr(cJSON *object, const struct td_attr_spec *spec)
{
    static const char *const kinds[] = {
        [TD_ATTR_INT] = "int64", [TD_ATTR_CHOICE] = "string", [TD_ATTR_TEXT] = "string"
    };
    return td_document_text(object, "type", kinds[spec->kind]) &&
           td_document_add(object, "required", cJSON_CreateBool(spec->required)) &&
           (spec->required || td_document_add(object, "default", default_value(spec))) &&
           (spec->kind != TD_ATTR_CHOICE ||
            td_document_add(object, "values", choice_list(spec->choices)));
}
