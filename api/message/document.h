/* document.h - builds JSON documents with cJSON.
 *
 * cJSON functions return NULL if memory is exhausted, and accept NULL, so callers can check once,
 * at the end. If a function below fails to add an item, it deletes the item. */
#ifndef TD_API_MESSAGE_DOCUMENT_H
#define TD_API_MESSAGE_DOCUMENT_H

#include "api/message/message.h"

#include <cjson/cJSON.h>

/* Prints the document into the arena as a reply with status 200, and deletes the document. Returns
 * MEMORY_EXHAUSTED if `complete` is false or memory is exhausted. */
TD_MUST_CHECK td_status td_document_reply(cJSON *document, bool complete, struct td_arena *arena,
                                          struct td_reply *reply, struct td_error *err);

/* Add an item to an object or a list. Return false if an argument is NULL or memory is
 * exhausted. */
bool td_document_add(cJSON *object, const char *name, cJSON *item);
bool td_document_append(cJSON *list, cJSON *item);
bool td_document_text(cJSON *object, const char *name, const char *text);

/* Return 64-bit integers as raw JSON, because cJSON stores numbers as doubles, which would round
 * large integers. */
cJSON *td_document_integer(int64_t value);
cJSON *td_document_count(uint64_t value);

/* Returns the names of the dtypes in a set as a list, or NULL if memory is exhausted. */
cJSON *td_document_dtypes(td_dtype_set set);

/* Adds the members that describe an attribute: type, required, default, values, minimum and
 * maximum. */
bool td_document_attr(cJSON *object, const struct td_attr_spec *spec);

#endif
