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

/* Writes the HTTP statuses of all problems, each once, and returns their number. `oip` is true for
 * the statuses under /v2. */
int td_openapi_problem_statuses(bool oip, int statuses[TD_STATUS_COUNT]);

/* Adds a reference to the error reply with this HTTP status. Under /v2 (`oip`), the reply is an
 * error of the Open Inference Protocol. */
bool td_openapi_add_problem(cJSON *responses, int http_status, bool oip);

#endif
