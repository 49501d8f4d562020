/* operations.h - what each route does, for the OpenAPI document: what the table of routes does not
 * know; the tags of the paths. */
#ifndef TD_API_OPENAPI_OPERATIONS_H
#define TD_API_OPENAPI_OPERATIONS_H

struct td_openapi_operation {
    const char *method, *pattern; /* of the route */
    const char *id;               /* operationId, after which generated clients name a function */
    const char *summary;
    const char *request;    /* name of the schema of its body; NULL: none */
    const char *reply;      /* ... of the reply; NULL: a reply without a body */
    const char *parameters; /* names of components, separated by spaces; with IfNoneMatch the reply
                               has an ETag, with Range it may be 206 */
    const char *example;    /* of the body, JSON in which ' stands for the quote; NULL: none */
    int status;             /* of success */
    int other_status;       /* of success, too; 0: none */
    enum {
        TD_OPENAPI_JSON,
        TD_OPENAPI_TENSOR, /* bodies of JSON and of the binary formats */
        TD_OPENAPI_TEXT
    } media;
};

/* NULL: the route has no line. */
const struct td_openapi_operation *td_openapi_operation(const char *method, const char *pattern);

/* The tags that group operations: in a generated client each is a class or a module. Each has a
 * name and a sentence. */
#define TD_OPENAPI_TAGS 4
extern const char *const td_openapi_tags[TD_OPENAPI_TAGS][2];

/* Returns the name of the tag of a path. */
const char *td_openapi_tag(const char *path);

#endif
