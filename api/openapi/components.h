/* components.h - what several routes of the OpenAPI document share. Functions that make JSON return
 * NULL, or false, without memory. */
#ifndef TD_API_OPENAPI_COMPONENTS_H
#define TD_API_OPENAPI_COMPONENTS_H

#include "api/message/document.h"

/* The schema of the seconds that a tensor lives. */
#define TD_OPENAPI_DIGITS(number) #number
#define TD_OPENAPI_NUMBER(macro)  TD_OPENAPI_DIGITS(macro)
#define TD_OPENAPI_TTL                                                                             \
    "{'type':'integer','minimum':1,'maximum':" TD_OPENAPI_NUMBER(TD_STORE_TTL_MAX) "}"

/* Raw JSON of `text`, in which ' stands for the quote. */
cJSON *td_openapi_json(const char *text);

/* {"$ref": "#/components/KIND/NAME"} */
cJSON *td_openapi_ref(const char *kind, const char *name);

/* Adds "enum" to a schema, of a list that ends with NULL. */
bool td_openapi_choices(cJSON *schema, const char *const *choices);

/* The object "components". */
cJSON *td_openapi_components(void);

/* Adds a reference to the reply of each status that a problem can have. Under /v2 errors are those
 * of the Open Inference Protocol. */
bool td_openapi_add_problems(cJSON *responses, bool oip);

#endif
