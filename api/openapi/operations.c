#include "api/openapi/operations.h"

#include <stddef.h>
#include <string.h>

#define CONDITIONS TD_OPENAPI_CONDITIONS
#define JSON       TD_OPENAPI_JSON
#define TENSOR     TD_OPENAPI_TENSOR
#define TEXT       TD_OPENAPI_TEXT

#define PROGRAM_EXAMPLE                                                                            \
    "{\"inputs\":{\"x\":[1.5,-2]},\"steps\":[{\"op\":\"abs\",\"x\":\"$x\",\"as\":\"size\"}],"      \
    "\"outputs\":[\"size\"]}"

#define PLAN_EXAMPLE                                                                               \
    "{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[1000,64]}},\"steps\":[{\"op\":\"abs\","  \
    "\"x\":\"$x\",\"as\":\"size\"}],\"outputs\":[\"size\"]}"

#define STORED_EXAMPLE                                                                             \
    "{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[\"n\"]}},\"steps\":[{\"op\":\"top_k\","  \
    "\"x\":\"$x\",\"k\":{\"attr\":\"k\",\"default\":2},\"as\":{\"values\":\"best\"}}],"            \
    "\"outputs\":[\"best\"]}"

static const struct td_openapi_operation operations[] = {
    { "get", "/", "get_console", "The web console.", NULL, "Text", "IfNoneMatch", NULL, 200, 304,
      TEXT },
    { "get", "/docs", "get_console_docs", "The op reference in the web console.", NULL, "Text",
      "IfNoneMatch", NULL, 200, 304, TEXT },
    { "get", "/console/{file}", "get_console_file", "A file of the web console.", NULL, "Text",
      "IfNoneMatch", NULL, 200, 304, TEXT },
    { "get", "/openapi.json", "get_openapi", "Describes the server in OpenAPI 3.1.", NULL, "Object",
      "IfNoneMatch", NULL, 200, 304, JSON },
    { "get", "/healthz", "get_health", "Reports whether the process is alive.", NULL, "Object", "",
      NULL, 200, 0, JSON },
    { "get", "/readyz", "get_readiness",
      "Reports whether the server accepts work, and what it holds.", NULL, "Object", "", NULL, 200,
      0, JSON },
    { "get", "/metrics", "get_metrics", "Metrics for Prometheus.", NULL, "Text", "", NULL, 200, 0,
      TEXT },
    { "get", "/problems/{slug}", "explain_problem", "Explains an error code.", NULL, "Object", "",
      NULL, 200, 0, JSON },
    { "get", "/v1/ops", "list_ops", "Lists the ops.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v1/ops/{op}", "describe_op", "Describes an op.", NULL, "Object", "", NULL, 200, 0,
      JSON },
    { "get", "/v1/devices", "list_devices", "Describes the CPU and the GPU.", NULL, "Object", "",
      NULL, 200, 0, JSON },
    { "get", "/v1/tensors", "list_tensors", "Lists the resident tensors.", NULL, "TensorList",
      "prefix after limit", NULL, 200, 0, JSON },
    { "get", "/v1/tensors/{name}", "get_tensor", "Describes a resident tensor, or returns it.",
      NULL, "DescriptionOrTensor", CONDITIONS "Range IfRange response", NULL, 200, 304, TENSOR },
    { "put", "/v1/tensors/{name}", "put_tensor", "Stores a tensor.", "TensorOrTable", "Description",
      CONDITIONS "persist upload", "[[1,2],[3,4]]", 200, 201, JSON },
    { "delete", "/v1/tensors/{name}", "delete_tensor", "Deletes a resident tensor, or an alias.",
      NULL, NULL, CONDITIONS, NULL, 204, 0, JSON },
    { "get", "/v1/tensors/{name}/statistics", "get_tensor_statistics",
      "Returns statistics of the values of a resident tensor.", NULL, "Object", CONDITIONS, NULL,
      200, 304, JSON },
    { "get", "/v1/tensors/{name}/keys", "get_keys",
      "Describes the keys of the rows, or returns them.", NULL, "DescriptionOrTensor",
      CONDITIONS "Range IfRange response", NULL, 200, 304, TENSOR },
    { "put", "/v1/tensors/{name}/keys", "put_keys", "Stores the keys of the rows.", "Tensor",
      "Description", CONDITIONS "persist", NULL, 200, 201, JSON },
    { "delete", "/v1/tensors/{name}/keys", "delete_keys", "Deletes the keys of the rows.", NULL,
      NULL, CONDITIONS "persist", NULL, 204, 0, JSON },
    { "get", "/v1/aliases", "list_aliases", "Lists the aliases.", NULL, "Aliases", "", NULL, 200, 0,
      JSON },
    { "post", "/v1/aliases", "set_aliases", "Sets and removes aliases atomically.", "Flip",
      "ChangedAliases", "persist", NULL, 200, 0, JSON },
    { "post", "/v1/programs/run", "run_program", "Runs a program: several ops in one call.",
      "Program", "Outputs", "timing", PROGRAM_EXAMPLE, 200, 0, JSON },
    { "post", "/v1/programs/plan", "plan_program",
      "Tells the shapes, operations and memory of a program from shapes alone.", "ProgramToPlan",
      "Object", "program timing", PLAN_EXAMPLE, 200, 0, JSON },
    { "get", "/v1/programs", "list_programs", "Lists the stored programs.", NULL, "ProgramList",
      "prefix after limit", NULL, 200, 0, JSON },
    { "get", "/v1/programs/{program}", "get_program",
      "Describes a stored program: its text, its inputs and its outputs.", NULL,
      "ProgramDescription", "IfMatch", NULL, 200, 0, JSON },
    { "put", "/v1/programs/{program}", "put_program", "Stores a program.", "StoredProgram",
      "ProgramDescription", CONDITIONS "persist check", STORED_EXAMPLE, 200, 201, JSON },
    { "delete", "/v1/programs/{program}", "delete_program", "Deletes a stored program.", NULL, NULL,
      CONDITIONS, NULL, 204, 0, JSON },
    { "post", "/v1/programs/{program}", "run_stored_program", "Runs a stored program.", "Object",
      "Outputs", "timing", NULL, 200, 0, JSON },
    { "get", "/v2", "get_server_metadata", "Describes the server and its extensions.", NULL,
      "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/", "get_server_metadata_with_slash", "Describes the server and its extensions.",
      NULL, "Object", "", NULL, 200, 0, JSON },
    { "post", "/v2/models/{model}/infer", "infer", "Runs a model.", "Inference", "Object", "", NULL,
      200, 0, JSON },
    { "post", "/v2/models/{model}/versions/{version}/infer", "infer_version",
      "Runs a version of a model.", "Inference", "Object", "", NULL, 200, 0, JSON },
    { "post", "/v2/repository/index", "list_models", "Lists the models.", "Index", "List", "", NULL,
      200, 0, JSON },
    { "post", "/v2/repository/{repo}/index", "list_models_of_repository", "Lists the models.",
      "Index", "List", "", NULL, 200, 0, JSON },
    { "post", "/v2/repository/models/{model}/load", "load_model",
      "Succeeds if the model exists; models are always loaded.", "Load", "Object", "", NULL, 200, 0,
      JSON },
    { "post", "/v2/repository/models/{model}/unload", "unload_model",
      "Always fails, because models cannot be unloaded.", "Load", "Object", "", NULL, 200, 0,
      JSON },
    { "post", "/v2/repository/{repo}/models/{model}/load", "load_model_of_repository",
      "Succeeds if the model exists; models are always loaded.", "Load", "Object", "", NULL, 200, 0,
      JSON },
    { "post", "/v2/repository/{repo}/models/{model}/unload", "unload_model_of_repository",
      "Always fails, because models cannot be unloaded.", "Load", "Object", "", NULL, 200, 0,
      JSON },
    { "get", "/v2/systemsharedmemory/status", "list_shared_memory",
      "Lists the regions of shared memory.", NULL, "List", "", NULL, 200, 0, JSON },
    { "get", "/v2/systemsharedmemory/region/{name}/status", "get_shared_memory",
      "Describes a region of shared memory.", NULL, "List", "", NULL, 200, 0, JSON },
    { "post", "/v2/systemsharedmemory/region/{name}/register", "register_shared_memory",
      "Registers a region of shared memory.", "Region", "Object", "", NULL, 200, 0, JSON },
    { "post", "/v2/systemsharedmemory/region/{name}/unregister", "unregister_shared_memory",
      "Unregisters a region of shared memory.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "post", "/v2/systemsharedmemory/unregister", "unregister_all_shared_memory",
      "Unregisters all regions of shared memory.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/health/live", "get_server_liveness", "Reports whether the server is alive.", NULL,
      "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/health/ready", "get_server_readiness", "Reports whether the server accepts work.",
      NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/models/{model}", "get_model", "Describes a model.", NULL, "Object", "", NULL, 200,
      0, JSON },
    { "get", "/v2/models/{model}/versions/{version}", "get_model_version",
      "Describes a version of a model.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/models/{model}/ready", "get_model_readiness",
      "Reports whether a model accepts work.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/models/{model}/versions/{version}/ready", "get_model_version_readiness",
      "Reports whether a version of a model accepts work.", NULL, "Object", "", NULL, 200, 0,
      JSON },
    { "get", "/v2/models/{model}/config", "get_model_config",
      "Returns the configuration of a model in Triton's format.", NULL, "Object", "", NULL, 200, 0,
      JSON },
    { "get", "/v2/models/{model}/versions/{version}/config", "get_model_version_config",
      "Returns the configuration of a version of a model.", NULL, "Object", "", NULL, 200, 0,
      JSON },
    { "get", "/v2/models/stats", "list_model_statistics", "Returns the statistics of all models.",
      NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/models/{model}/stats", "get_model_statistics",
      "Returns the statistics of a model.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/models/{model}/versions/{version}/stats", "get_model_version_statistics",
      "Returns the statistics of a version of a model.", NULL, "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/cudasharedmemory/status", "list_cuda_shared_memory",
      "Lists the regions of CUDA shared memory, of which there are none.", NULL, "List", "", NULL,
      200, 0, JSON },
    { "get", "/v2/cudasharedmemory/region/{name}/status", "get_cuda_shared_memory",
      "Returns an empty list, because there are no regions of CUDA shared memory.", NULL, "List",
      "", NULL, 200, 0, JSON },
    { "post", "/v2/cudasharedmemory/region/{name}/register", "register_cuda_shared_memory",
      "Always fails, because the server does not support CUDA shared memory.", NULL, "Object", "",
      NULL, 200, 0, JSON },
    { "post", "/v2/cudasharedmemory/region/{name}/unregister", "unregister_cuda_shared_memory",
      "Succeeds without effect, because there are no regions of CUDA shared memory.", NULL,
      "Object", "", NULL, 200, 0, JSON },
    { "post", "/v2/cudasharedmemory/unregister", "unregister_all_cuda_shared_memory",
      "Succeeds without effect, because there are no regions of CUDA shared memory.", NULL,
      "Object", "", NULL, 200, 0, JSON },
    { "get", "/v2/trace/setting", "get_trace_settings",
      "Always fails, because the server does not support trace settings.", NULL, "Object", "", NULL,
      200, 0, JSON },
    { "post", "/v2/trace/setting", "set_trace_settings",
      "Always fails, because the server does not support trace settings.", NULL, "Object", "", NULL,
      200, 0, JSON },
    { "get", "/v2/models/{model}/trace/setting", "get_model_trace_settings",
      "Always fails, because the server does not support trace settings.", NULL, "Object", "", NULL,
      200, 0, JSON },
    { "post", "/v2/models/{model}/trace/setting", "set_model_trace_settings",
      "Always fails, because the server does not support trace settings.", NULL, "Object", "", NULL,
      200, 0, JSON },
    { "get", "/v2/logging", "get_log_settings",
      "Always fails, because the server does not support log settings.", NULL, "Object", "", NULL,
      200, 0, JSON },
    { "post", "/v2/logging", "set_log_settings",
      "Always fails, because the server does not support log settings.", NULL, "Object", "", NULL,
      200, 0, JSON },
};

const struct td_openapi_operation *td_openapi_operation(const char *method, const char *pattern)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].method, method) == 0 &&
            strcmp(operations[i].pattern, pattern) == 0)
            return &operations[i];
    return NULL;
}

/* ---- tags ------------------------------------------------------------------------------------ */

enum { OPS, TENSORS, OIP, SERVER };

const char *const td_openapi_tags[TD_OPENAPI_TAGS][2] = {
    [OPS] = { "Ops",
              "Tensor ops. Attributes, and members such as device, can be in the query string or "
              "in the body. If a name is in both, the values must be equal." },
    [TENSORS] = { "Resident tensors",
                  "Tensors that stay in the server, lookups in these tensors, and aliases." },
    [OIP] = { "Open Inference Protocol", "Ops and resident tensors as models." },
    [SERVER] = { "Server", "State and descriptions of the server, and its web console." },
};

/* Tags of paths by prefix. The first matching line applies. */
static const struct {
    const char *prefix;
    int tag;
} places[] = {
    { "/v1/tensors", TENSORS },
    { "/v1/aliases", TENSORS },
    { "/v1/programs", OPS },
    { "/v1/ops", SERVER },
    { "/v1/devices", SERVER },
    { "/v1/", OPS },
    { "/v2", OIP },
};

const char *td_openapi_tag(const char *path)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strncmp(path, places[i].prefix, strlen(places[i].prefix)) == 0)
            return td_openapi_tags[places[i].tag][0];
    return td_openapi_tags[SERVER][0];
}
