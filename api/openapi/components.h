/* components.h - components that several routes of the OpenAPI document share. Functions that build
 * JSON return NULL or false if memory is exhausted. */
#ifndef TD_API_OPENAPI_COMPONENTS_H
#define TD_API_OPENAPI_COMPONENTS_H

#include "api/message/document.h"
#include "api/text/text.h"

/* JSON schema for a time to live in seconds. */
#define TD_OPENAPI_TTL                                                                             \
    "{'type':'integer','minimum':1,'maximum':" TD_TEXT_NUMBER(TD_STORE_TTL_MAX) "}"

/* Returns `text` as raw JSON, with each ' replaced by ". */
cJSON *td_openapi_json(const char *text);

/* Returns {"$ref": "#/components/KIND/NAME"}. */
cJSON *td_openapi_ref(const char *kind, const char *name);

/* Adds "enum" to a schema. `choices` ends with NULL. */
bool td_openapi_choices(cJSON *schema, const char *const *choices);

/* Returns the object "components". */
cJSON *td_openapi_components(void);

/* Adds a reference to the error reply for each HTTP status that a problem can have. Under /v2, the
 * replies are errors of the Open Inference Protocol. */
bool td_openapi_add_problems(cJSON *responses, bool oip);

#endif
