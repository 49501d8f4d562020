/* operations.h - supplements the table of routes with what the OpenAPI document needs: a
 * description of each route, and a tag for each path. */
#ifndef TD_API_OPENAPI_OPERATIONS_H
#define TD_API_OPENAPI_OPERATIONS_H

/* The parameters of a request that can have conditions. */
#define TD_OPENAPI_CONDITIONS "IfMatch IfNoneMatch "

struct td_openapi_operation {
    const char *method, *pattern; /* route, as in the table of routes */
    /* Value of operationId, from which generated clients name their functions. */
    const char *id;
    const char *summary;
    /* Name of the schema of the request body, or NULL if the request has no body. */
    const char *request;
    /* Name of the schema of the reply body, or NULL if the reply has no body. */
    const char *reply;
    /* Names of parameter components, separated by spaces. IfNoneMatch means that the reply has an
     * ETag, and Range that the status can also be 206. */
    const char *parameters;
    /* Example of the request body in JSON, with ' in place of ". NULL if there is no example. */
    const char *example;
    int status;       /* status of success */
    int other_status; /* second success status; 0 if there is none */
    enum {
        TD_OPENAPI_JSON,
        TD_OPENAPI_TENSOR, /* bodies are JSON or a binary format */
        TD_OPENAPI_TEXT
    } media;
};

/* Returns the description of a route, or NULL if the route is not in the table of operations. */
const struct td_openapi_operation *td_openapi_operation(const char *method, const char *pattern);

/* The tags that group operations, each with a name and a one-sentence description. Generated
 * clients turn each tag into a class or a module. */
#define TD_OPENAPI_TAGS 4
extern const char *const td_openapi_tags[TD_OPENAPI_TAGS][2];

/* Returns the name of the tag for a path. */
const char *td_openapi_tag(const char *path);

#endif
