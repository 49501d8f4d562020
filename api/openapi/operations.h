/* operations.h - describes each route for the OpenAPI document, beyond the contents of the table of
 * routes, and gives each path a tag. */
#ifndef TD_API_OPENAPI_OPERATIONS_H
#define TD_API_OPENAPI_OPERATIONS_H

struct td_openapi_operation {
    const char *method, *pattern; /* route, as in the table of routes */
    /* Member operationId. Generated clients name their functions after it. */
    const char *id;
    const char *summary;
    /* Name of the schema of the request body, or NULL if the request has no body. */
    const char *request;
    /* Name of the schema of the reply body, or NULL if the reply has no body. */
    const char *reply;
    /* Names of parameter components, separated by spaces. With IfNoneMatch the reply has an ETag;
     * with Range the status can also be 206. */
    const char *parameters;
    /* Example of the request body in JSON, in which ' stands for ", or NULL. */
    const char *example;
    int status;       /* status of success */
    int other_status; /* second status of success; 0 if there is none */
    enum {
        TD_OPENAPI_JSON,
        TD_OPENAPI_TENSOR, /* bodies are JSON or a binary format */
        TD_OPENAPI_TEXT
    } media;
};

/* Returns the description of a route, or NULL if the table of operations does not have the
 * route. */
const struct td_openapi_operation *td_openapi_operation(const char *method, const char *pattern);

/* The tags that group operations, each with its name and a sentence. In a generated client, each
 * tag is a class or a module. */
#define TD_OPENAPI_TAGS 4
extern const char *const td_openapi_tags[TD_OPENAPI_TAGS][2];

/* Returns the name of a path's tag. */
const char *td_openapi_tag(const char *path);

#endif
