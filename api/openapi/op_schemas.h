/* op_schemas.h - JSON schemas of the requests and replies of ops, from their descriptors. */
#ifndef TD_API_OPENAPI_OP_SCHEMAS_H
#define TD_API_OPENAPI_OP_SCHEMAS_H

#include "api/message/document.h"

/* Of a request. Its first input is left out if the path names the table. `options` has the names of
 * the request-wide members, separated by spaces. NULL without memory. */
cJSON *td_openapi_request(const struct td_op *op, bool has_table, const char *options);

/* Adds the attributes and the request-wide members to the properties of a request. */
bool td_openapi_add_members(cJSON *properties, const struct td_op *op, const char *options);

/* Appends to a list of parameters the attributes, which may be in the query string instead. */
bool td_openapi_add_query(cJSON *parameters, const struct td_op *op);

/* Of a reply. NULL without memory. */
cJSON *td_openapi_output(const struct td_op *op);

#endif
