/* op_schemas.h - builds JSON schemas for the requests and replies of ops from their descriptors.
 *
 * `components` is the object "components" of the document, to which the functions add what several
 * ops share. */
#ifndef TD_API_OPENAPI_OP_SCHEMAS_H
#define TD_API_OPENAPI_OP_SCHEMAS_H

#include "api/message/document.h"

/* Returns the schema of a request, or NULL if memory is exhausted. If the path names the table, the
 * schema omits the first input. `common` lists the names of the common members, separated by
 * spaces. */
cJSON *td_openapi_request(const struct td_op *op, bool has_table, const char *common,
                          cJSON *components);

/* Returns the schema of a request for the plan of an op, or NULL if no memory is left. */
cJSON *td_openapi_plan_request(const struct td_op *op, cJSON *components);

/* Appends the attributes to a list of query parameters, because an attribute can be in the query
 * string instead of the body. The list refers to components. */
bool td_openapi_add_query(cJSON *parameters, cJSON *components, const struct td_op *op);

/* Appends the query parameter `outputs` if the op has several outputs. */
bool td_openapi_add_outputs(cJSON *parameters, cJSON *components, const struct td_op *op);

/* Returns the schema of a reply, or NULL if memory is exhausted. */
cJSON *td_openapi_output(const struct td_op *op);

#endif
