/* components.h - components that several routes of the OpenAPI document share. Functions that build
 * JSON return NULL or false if memory is exhausted. */
#ifndef TD_API_OPENAPI_COMPONENTS_H
#define TD_API_OPENAPI_COMPONENTS_H

#include "api/message/document.h"
#include "api/text/text.h"

/* Returns `text` as raw JSON, with each ' replaced by ". */
cJSON *td_openapi_json(const char *text);

/* Returns {"$ref": "#/components/KIND/NAME"}. */
cJSON *td_openapi_ref(const char *kind, const char *name);

/* Adds "enum" to a schema. `choices` ends with NULL. */
bool td_openapi_choices(cJSON *schema, const char *const *choices);

/* Returns the object "components". */
cJSON *td_openapi_components(void);

/* Adds a component and returns a reference to it. If an equal component of this kind exists,
 * deletes `object` and returns a reference to the equal component, so ops with equal requests share
 * one schema. The name consists of `first`, `second` and `suffix`: ("gather_nd", "axis", "") gives
 * GatherNdAxis. */
cJSON *td_openapi_share(cJSON *components, const char *kind, const char *first, const char *second,
                        const char *suffix, cJSON *object);

/* The keys of error replies. A status that only some operations can have has its own reply. All
 * other statuses are in the ranges 4XX and 5XX. */
enum td_openapi_error {
    TD_OPENAPI_412,
    TD_OPENAPI_416,
    TD_OPENAPI_4XX,
    TD_OPENAPI_501,
    TD_OPENAPI_5XX,
    TD_OPENAPI_ERRORS
};

/* Adds a reference to an error reply. Under /v2 (`oip`), the reply is an error of the Open
 * Inference Protocol. */
bool td_openapi_add_error(cJSON *responses, enum td_openapi_error key, bool oip);

#endif
