#include "api/openapi/operations.h"

#include <stddef.h>
#include <string.h>

#define CONDITIONS "IfMatch IfNoneMatch "
#define JSON       TD_OPENAPI_JSON
#define TENSOR     TD_OPENAPI_TENSOR
#define TEXT       TD_OPENAPI_TEXT

static const struct td_openapi_operation operations[] = {
    { "get", "/", "The web console.", NULL, "Text", "IfNoneMatch", NULL, 200, 304, TEXT },
    { "get", "/docs", "The reference of the ops, in the web console.", NULL, "Text", "IfNoneMatch",
      NULL, 200, 304, TEXT },
    { "get", "/console/{file}", "A file of the web console.", NULL, "Text", "IfNoneMatch", NULL,
      200, 304, TEXT },
    { "get", "/openapi.json", "A description of the server in OpenAPI 3.1.", NULL, "Object",
      "IfNoneMatch", NULL, 200, 304, JSON },
    { "get", "/healthz", "Whether the process is alive.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/readyz", "Whether the server accepts work, and what it holds.", NULL, "Object", "",
      NULL, 200, 0, JSON },
    { "get", "/metrics", "Metrics for Prometheus.", NULL, "Text", "", NULL, 200, 0, TEXT },
    { "get", "/problems/{slug}", "Explains an error code.", NULL, "Object", "", NULL, 200, 0,
      JSON },
    { "get", "/v1/ops", "Lists the ops.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v1/ops/{op}", "Describes an op.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v1/devices", "Describes the CPU and the GPU.", NULL, "Object", "", NULL, 200, 0,
      JSON },
    { "get", "/v1/tensors", "Lists the resident tensors.", NULL, "TensorList", "prefix after limit",
      NULL, 200, 0, JSON },
    { "get", "/v1/tensors/{name}", "Describes a resident tensor, or returns it.", NULL,
      "DescriptionOrTensor", CONDITIONS "response", NULL, 200, 304, TENSOR },
    { "put", "/v1/tensors/{name}", "Stores a tensor.", "TensorOrTable", "Description",
      CONDITIONS "persist upload", "[[1,2],[3,4]]", 200, 201, JSON },
    { "delete", "/v1/tensors/{name}", "Deletes a resident tensor, or an alias.", NULL, NULL,
      CONDITIONS "persist", NULL, 204, 0, JSON },
    { "get", "/v1/tensors/{name}/statistics", "What the values of a resident tensor are like.",
      NULL, "Object", CONDITIONS, NULL, 200, 304, JSON },
    { "get", "/v1/tensors/{name}/keys", "Describes the keys of the rows, or returns them.", NULL,
      "DescriptionOrTensor", CONDITIONS "response", NULL, 200, 304, TENSOR },
    { "put", "/v1/tensors/{name}/keys", "Stores the keys of the rows.", "Tensor", "Description",
      CONDITIONS "persist", NULL, 200, 201, JSON },
    { "delete", "/v1/tensors/{name}/keys", "Deletes the keys of the rows.", NULL, NULL,
      CONDITIONS "persist", NULL, 204, 0, JSON },
    { "post", "/v1/tensors/{name}/scatter", "Writes rows or elements.", "Scatter", "Description",
      CONDITIONS "persist device timing", NULL, 200, 0, JSON },
    { "post", "/v1/tensors/{name}/upsert", "Replaces and appends rows by key.", "Upsert",
      "Description", CONDITIONS "persist device timing", NULL, 200, 0, JSON },
    { "post", "/v1/tensors/{name}/remove", "Removes rows by key.", "Remove", "Description",
      CONDITIONS "persist device timing", NULL, 200, 0, JSON },
    { "get", "/v1/aliases", "Lists the aliases.", NULL, "Aliases", "", NULL, 200, 0, JSON },
    { "post", "/v1/aliases", "Sets and removes aliases, all or none.", "Flip", "Aliases", "persist",
      NULL, 200, 0, JSON },
    { "post", "/v1/einsum/plan", "Plans an einsum from shapes alone.", "Plan", "Object", "",
      "{'equation':'ij,jk->ik','shapes':[[100,20],[20,50]]}", 200, 0, JSON },
    { "get", "/v2", "The server and its extensions.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/", "The server and its extensions.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "post", "/v2/models/{model}/infer", "Runs a model.", "Inference", "Object", "", NULL, 200, 0,
      JSON },
    { "post", "/v2/models/{model}/versions/{version}/infer", "Runs a version of a model.",
      "Inference", "Object", "", NULL, 200, 0, JSON },
    { "post", "/v2/repository/index", "Lists the models.", "Index", "List", "", NULL, 200, 0,
      JSON },
    { "post", "/v2/repository/{repo}/index", "Lists the models.", "Index", "List", "", NULL, 200, 0,
      JSON },
};

const struct td_openapi_operation *td_openapi_operation(const char *method, const char *pattern)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].method, method) == 0 &&
            strcmp(operations[i].pattern, pattern) == 0)
            return &operations[i];
    return NULL;
}
