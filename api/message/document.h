/* document.h - documents made with cJSON: what its users share.
 *
 * cJSON answers NULL where it has no memory, and passes NULL on, so one look at the end is enough.
 * Those that add free the item where they cannot. */
#ifndef TD_API_MESSAGE_DOCUMENT_H
#define TD_API_MESSAGE_DOCUMENT_H

#include "api/message/message.h"

#include <cjson/cJSON.h>

/* Prints the document into the arena, as a 200, and deletes it; MEMORY_EXHAUSTED where it is not
 * complete. */
TD_MUST_CHECK td_status td_document_reply(cJSON *document, bool complete, struct td_arena *arena,
                                          struct td_reply *reply, struct td_error *err);

/* False where the object, the list or the item is NULL, or memory is out. */
bool td_document_add(cJSON *object, const char *name, cJSON *item);
bool td_document_append(cJSON *list, cJSON *item);
bool td_document_text(cJSON *object, const char *name, const char *text);

/* 64-bit integers, which cJSON's numbers (doubles) would round. */
cJSON *td_document_integer(int64_t value);
cJSON *td_document_count(uint64_t value);

/* The names of dtypes; NULL without memory. */
cJSON *td_document_dtypes(td_dtype_set set);

/* Adds type, whether it is required or else its default, the values of a choice, and the range. */
bool td_document_attr(cJSON *object, const struct td_attr_spec *spec);

#endif
