#include "server/http/routes.h"

#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/op_change.h"
#include "kernels/op_plan.h"
#include "kernels/shown_text.h"
#include "server/calls/alias_tasks.h"
#include "server/calls/documents.h"
#include "server/calls/health.h"
#include "server/calls/key_tasks.h"
#include "server/calls/metrics_document.h"
#include "server/calls/models.h"
#include "server/calls/oip_tasks.h"
#include "server/calls/op_task.h"
#include "server/calls/plan_task.h"
#include "server/calls/program_store_tasks.h"
#include "server/calls/program_task.h"
#include "server/calls/statistics_task.h"
#include "server/calls/tensor_list.h"
#include "server/calls/tensor_tasks.h"
#include "server/calls/update_tasks.h"
#include "server/console/console.h"
#include "server/http/openapi.h"
#include "server/http/target.h"

#include <stdio.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

enum { GET = 1, POST = 2, PUT = 4, DELETE = 8 };
enum { OP = -1 };

static const struct route {
    unsigned methods;
    const char *pattern;
    /* Role that the request needs; TD_ACCESS_NONE if it needs no token. */
    td_access_role role;
    td_handler *handler;
    const struct td_task *task;
    const struct td_op *op; /* op of a task whose path does not name the op */
    /* Operation for metrics, or OP to use the operation of the op. */
    int operation;
} routes[] = {
    /* Most requests take the first route (first_route). */
    { POST, "/v1/{op}", TD_ACCESS_READ, NULL, &td_op_task, NULL, OP },
    { GET, "/", TD_ACCESS_NONE, td_get_console_page, NULL, NULL, TD_OPERATION_CONSOLE },
    { GET, "/docs", TD_ACCESS_NONE, td_get_console_page, NULL, NULL, TD_OPERATION_CONSOLE },
    { GET, "/console/{file}", TD_ACCESS_NONE, td_get_console_file, NULL, NULL,
      TD_OPERATION_CONSOLE },
    { GET, "/openapi.json", TD_ACCESS_READ, td_get_openapi, NULL, NULL, TD_OPERATION_METADATA },
    { GET, "/healthz", TD_ACCESS_NONE, td_health_live, NULL, NULL, TD_OPERATION_HEALTH },
    { GET, "/readyz", TD_ACCESS_NONE, td_health_ready, NULL, NULL, TD_OPERATION_HEALTH },
    { GET, "/metrics", TD_ACCESS_READ, td_get_metrics, NULL, NULL, TD_OPERATION_METRICS },
    { GET, "/problems/{slug}", TD_ACCESS_NONE, td_get_problem, NULL, NULL, TD_OPERATION_METADATA },
    { GET, "/v1/ops", TD_ACCESS_READ, td_get_ops, NULL, NULL, TD_OPERATION_METADATA },
    { GET, "/v1/ops/{op}", TD_ACCESS_READ, td_get_op, NULL, NULL, TD_OPERATION_METADATA },
    { GET, "/v1/devices", TD_ACCESS_READ, td_get_devices, NULL, NULL, TD_OPERATION_METADATA },
    { GET, "/v1/tensors", TD_ACCESS_READ, NULL, &td_tensor_list_task, NULL,
      TD_OPERATION_LIST_TENSORS },
    { GET, "/v1/tensors/{name}", TD_ACCESS_READ, NULL, &td_tensor_get_task, NULL,
      TD_OPERATION_GET_TENSOR },
    { PUT, "/v1/tensors/{name}", TD_ACCESS_WRITE, NULL, &td_tensor_put_task, NULL,
      TD_OPERATION_PUT_TENSOR },
    { DELETE, "/v1/tensors/{name}", TD_ACCESS_WRITE, NULL, &td_tensor_delete_task, NULL,
      TD_OPERATION_DELETE_TENSOR },
    { GET, "/v1/tensors/{name}/statistics", TD_ACCESS_READ, NULL, &td_tensor_statistics_task, NULL,
      TD_OPERATION_TENSOR_STATISTICS },
    { GET, "/v1/tensors/{name}/keys", TD_ACCESS_READ, NULL, &td_keys_get_task, NULL,
      TD_OPERATION_GET_TENSOR },
    { PUT, "/v1/tensors/{name}/keys", TD_ACCESS_WRITE, NULL, &td_keys_put_task, NULL,
      TD_OPERATION_PUT_TENSOR },
    { DELETE, "/v1/tensors/{name}/keys", TD_ACCESS_WRITE, NULL, &td_keys_delete_task, NULL,
      TD_OPERATION_DELETE_TENSOR },
#define TD_OP(folder, change)                                                                      \
    { POST,                                                                                        \
      "/v1/tensors/{name}/" #change,                                                               \
      TD_ACCESS_WRITE,                                                                             \
      NULL,                                                                                        \
      &td_table_change_task,                                                                       \
      &td_op_##change,                                                                             \
      TD_OPERATION_##change },
#include "kernels/changes.def"
#undef TD_OP
    { POST, "/v1/tensors/{table}/{row_op}", TD_ACCESS_READ, NULL, &td_op_task, NULL, OP },
    { GET, "/v1/aliases", TD_ACCESS_READ, NULL, &td_aliases_list_task, NULL,
      TD_OPERATION_LIST_ALIASES },
    { POST, "/v1/aliases", TD_ACCESS_WRITE, NULL, &td_aliases_flip_task, NULL,
      TD_OPERATION_FLIP_ALIASES },
#define TD_OP(folder, op)                                                                          \
    {                                                                                              \
        POST,          "/v1/" #op "/plan", TD_ACCESS_READ,   NULL,                                 \
        &td_plan_task, &td_op_##op,        TD_OPERATION_PLAN                                       \
    },
#include "kernels/plans.def"
#undef TD_OP
    { POST, "/v1/programs/run", TD_ACCESS_READ, NULL, &td_program_run_task, &td_posted_program,
      TD_OPERATION_RUN_PROGRAM },
    { POST, "/v1/programs/plan", TD_ACCESS_READ, NULL, &td_program_plan_task, &td_posted_plan,
      TD_OPERATION_PLAN },
    { GET, "/v1/programs", TD_ACCESS_READ, NULL, &td_program_list_task, NULL,
      TD_OPERATION_LIST_PROGRAMS },
    { GET, "/v1/programs/{program}", TD_ACCESS_READ, NULL, &td_program_get_task, NULL,
      TD_OPERATION_GET_PROGRAM },
    { PUT, "/v1/programs/{program}", TD_ACCESS_WRITE, NULL, &td_program_put_task, NULL,
      TD_OPERATION_PUT_PROGRAM },
    { DELETE, "/v1/programs/{program}", TD_ACCESS_WRITE, NULL, &td_program_delete_task, NULL,
      TD_OPERATION_DELETE_PROGRAM },
    { POST, "/v1/programs/{program}", TD_ACCESS_READ, NULL, &td_stored_program_task,
      &td_posted_program, TD_OPERATION_RUN_PROGRAM },
    { POST, "/v2/models/{model}/infer", TD_ACCESS_READ, NULL, &td_op_task, NULL, OP },
    { POST, "/v2/models/{model}/versions/{version}/infer", TD_ACCESS_READ, NULL, &td_op_task, NULL,
      OP },
    { GET, "/v2/health/live", TD_ACCESS_NONE, td_health_oip_live, NULL, NULL, TD_OPERATION_HEALTH },
    { GET, "/v2/health/ready", TD_ACCESS_NONE, td_health_oip_ready, NULL, NULL,
      TD_OPERATION_HEALTH },
    { GET, "/v2", TD_ACCESS_READ, td_oip_server_metadata, NULL, NULL, TD_OPERATION_METADATA },
    { GET, "/v2/", TD_ACCESS_READ, td_oip_server_metadata, NULL, NULL, TD_OPERATION_METADATA },
    { GET, "/v2/models/stats", TD_ACCESS_READ, td_oip_model_stats, NULL, NULL,
      TD_OPERATION_METADATA },
    { GET, "/v2/models/{model}", TD_ACCESS_READ, NULL, &td_oip_metadata_task, NULL,
      TD_OPERATION_METADATA },
    { GET, "/v2/models/{model}/versions/{version}", TD_ACCESS_READ, NULL, &td_oip_metadata_task,
      NULL, TD_OPERATION_METADATA },
    { GET, "/v2/models/{model}/ready", TD_ACCESS_READ, NULL, &td_oip_ready_task, NULL,
      TD_OPERATION_HEALTH },
    { GET, "/v2/models/{model}/versions/{version}/ready", TD_ACCESS_READ, NULL, &td_oip_ready_task,
      NULL, TD_OPERATION_HEALTH },
    { GET, "/v2/models/{model}/config", TD_ACCESS_READ, NULL, &td_oip_config_task, NULL,
      TD_OPERATION_METADATA },
    { GET, "/v2/models/{model}/versions/{version}/config", TD_ACCESS_READ, NULL,
      &td_oip_config_task, NULL, TD_OPERATION_METADATA },
    { GET, "/v2/models/{model}/stats", TD_ACCESS_READ, td_oip_model_stats, NULL, NULL,
      TD_OPERATION_METADATA },
    { GET, "/v2/models/{model}/versions/{version}/stats", TD_ACCESS_READ, td_oip_model_stats, NULL,
      NULL, TD_OPERATION_METADATA },
    { GET | POST, "/v2/models/{model}/trace/setting", TD_ACCESS_READ, td_oip_no_trace, NULL, NULL,
      TD_OPERATION_METADATA },
    { GET | POST, "/v2/trace/setting", TD_ACCESS_READ, td_oip_no_trace, NULL, NULL,
      TD_OPERATION_METADATA },
    { GET | POST, "/v2/logging", TD_ACCESS_READ, td_oip_no_logging, NULL, NULL,
      TD_OPERATION_METADATA },
    { POST, "/v2/repository/index", TD_ACCESS_READ, NULL, &td_oip_index_task, NULL,
      TD_OPERATION_REPOSITORY },
    { POST, "/v2/repository/models/{model}/load", TD_ACCESS_ADMIN, NULL, &td_oip_load_task, NULL,
      TD_OPERATION_REPOSITORY },
    { POST, "/v2/repository/models/{model}/unload", TD_ACCESS_ADMIN, NULL, &td_oip_unload_task,
      NULL, TD_OPERATION_REPOSITORY },
    { POST, "/v2/repository/{repo}/index", TD_ACCESS_READ, NULL, &td_oip_index_task, NULL,
      TD_OPERATION_REPOSITORY },
    { POST, "/v2/repository/{repo}/models/{model}/load", TD_ACCESS_ADMIN, NULL, &td_oip_load_task,
      NULL, TD_OPERATION_REPOSITORY },
    { POST, "/v2/repository/{repo}/models/{model}/unload", TD_ACCESS_ADMIN, NULL,
      &td_oip_unload_task, NULL, TD_OPERATION_REPOSITORY },
    { GET, "/v2/systemsharedmemory/status", TD_ACCESS_READ, td_oip_region_status, NULL, NULL,
      TD_OPERATION_SHARED_MEMORY },
    { GET, "/v2/systemsharedmemory/region/{name}/status", TD_ACCESS_READ, td_oip_region_status,
      NULL, NULL, TD_OPERATION_SHARED_MEMORY },
    { POST, "/v2/systemsharedmemory/region/{name}/register", TD_ACCESS_ADMIN, NULL,
      &td_oip_register_task, NULL, TD_OPERATION_SHARED_MEMORY },
    { POST, "/v2/systemsharedmemory/unregister", TD_ACCESS_ADMIN, td_oip_unregister, NULL, NULL,
      TD_OPERATION_SHARED_MEMORY },
    { POST, "/v2/systemsharedmemory/region/{name}/unregister", TD_ACCESS_ADMIN, td_oip_unregister,
      NULL, NULL, TD_OPERATION_SHARED_MEMORY },
    { GET, "/v2/cudasharedmemory/status", TD_ACCESS_READ, td_oip_no_cuda_regions, NULL, NULL,
      TD_OPERATION_SHARED_MEMORY },
    { GET, "/v2/cudasharedmemory/region/{name}/status", TD_ACCESS_READ, td_oip_no_cuda_regions,
      NULL, NULL, TD_OPERATION_SHARED_MEMORY },
    { POST, "/v2/cudasharedmemory/region/{name}/register", TD_ACCESS_ADMIN, td_oip_no_cuda_register,
      NULL, NULL, TD_OPERATION_SHARED_MEMORY },
    { POST, "/v2/cudasharedmemory/unregister", TD_ACCESS_ADMIN, td_oip_no_cuda_unregister, NULL,
      NULL, TD_OPERATION_SHARED_MEMORY },
    { POST, "/v2/cudasharedmemory/region/{name}/unregister", TD_ACCESS_ADMIN,
      td_oip_no_cuda_unregister, NULL, NULL, TD_OPERATION_SHARED_MEMORY },
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

/* Enumerators must be unique, so this does not compile if an op has the same name as another path
 * below a tensor. */
enum {
#define TD_OP(folder, name) PATH_OF_##name,
#include "kernels/ops.def"
#undef TD_OP
#define TD_OP(folder, name) PATH_OF_##name,
#include "kernels/changes.def"
#undef TD_OP
    PATH_OF_keys,
    PATH_OF_statistics
};

/* The same for the paths below /v1, which first_route would hide. */
enum {
#define TD_OP(folder, name) PATH_BELOW_V1_##name,
#include "kernels/ops.def"
#undef TD_OP
    PATH_BELOW_V1_ops,
    PATH_BELOW_V1_devices,
    PATH_BELOW_V1_tensors,
    PATH_BELOW_V1_aliases,
    PATH_BELOW_V1_programs
};

/* ---- matching -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned bit;
} method_bits[] = {
    { "GET", GET }, { "HEAD", GET }, { "POST", POST }, { "PUT", PUT }, { "DELETE", DELETE }
};
enum { N_METHOD_BITS = sizeof method_bits / sizeof *method_bits };

static unsigned method_bit(const char *method)
{
    for (int i = 0; i < N_METHOD_BITS; i++)
        if (strcmp(method, method_bits[i].name) == 0)
            return method_bits[i].bit;
    return 0;
}

/* Returns the name of the first method of a set. */
static const char *method_name(unsigned methods)
{
    return methods & GET ? "GET" : methods & POST ? "POST" : methods & PUT ? "PUT" : "DELETE";
}

/* Segment of the path that matches a {name} in the pattern. */
struct segment {
    /* `name` is the text within the braces. */
    const char *name, *text;
    size_t name_length, length;
};

/* True if the path matches the pattern. Stores the segments that match names, undecoded, and sets
 * *n to their number. The other segments must equal the pattern's segments, without escapes. */
static bool match(const char *pattern, const char *path, struct segment *segments, int *n)
{
    *n = 0;
    while (*pattern) {
        if (*pattern != '{') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        struct segment *segment = &segments[(*n)++];
        segment->name = pattern + 1;
        segment->name_length = strcspn(segment->name, "}");
        segment->text = path;
        segment->length = strcspn(path, "/");
        if (segment->length == 0)
            return false;
        pattern += segment->name_length + 2;
        path += segment->length;
    }
    return *path == '\0';
}

static bool is_called(const struct segment *segment, const char *name)
{
    return td_name_is(name, segment->name, segment->name_length);
}

/* Returns the route under /v1 that ends with this segment below another name, such as "scatter" in
 * "/v1/tensors/{name}/scatter". Returns NULL if there is none. */
static const struct route *route_ending_with(const struct segment *segment)
{
    for (int i = 0; i < N_ROUTES; i++) {
        const char *last = strrchr(routes[i].pattern, '/') + 1;
        const bool below = strncmp(routes[i].pattern, "/v1/", 4) == 0 &&
                           last != routes[i].pattern + 4 && *last != '{';
        if (below && td_name_is(last, segment->text, segment->length))
            return &routes[i];
    }
    return NULL;
}

static td_status unknown_op(const struct segment *segment, struct td_error *err)
{
    int count;
    const struct route *meant = route_ending_with(segment);
    if (meant)
        return td_error_set(err, TD_UNKNOWN_OP, "there is no op '%s'; did you mean %s %s?",
                            TD_SHOWN(segment->text, segment->length), method_name(meant->methods),
                            meant->pattern);
    const struct td_op *const *ops = td_ops(&count);
    const char *names[TD_OP_COUNT];
    for (int i = 0; i < count; i++)
        names[i] = ops[i]->name;
    return td_unknown_name(err, TD_UNKNOWN_OP, "op", segment->text, segment->length, names, count,
                           "GET /v1/ops");
}

/* Reports a segment that is unknown or is an op of another route. An unknown segment might come
 * from a '/' in the name of the tensor. */
static td_status unknown_row_op(const struct segment *segment, const char *const *names, int n,
                                struct td_error *err)
{
    char listed[256];
    td_names_text(names, n, listed, sizeof listed);
    const struct td_op *op = td_op_named(segment->text, segment->length);
    if (op)
        td_error_set(
            err, TD_UNKNOWN_OP,
            "the path of a tensor has no op %s; expected %s. POST /v1/%s takes the tensor as "
            "\"%s\": %s{\"ref\": \"NAME\"}%s",
            op->name, listed, op->name, op->inputs[0].name, op->inputs[0].list ? "[" : "",
            op->inputs[0].list ? "]" : "");
    else
        td_error_set(
            err, TD_UNKNOWN_OP,
            "the path of a tensor has no op '%s'; expected %s. Tensor names cannot contain '/'",
            TD_SHOWN(segment->text, segment->length), listed);
    td_suggest(err, segment->text, segment->length, names, n);
    return TD_UNKNOWN_OP;
}

/* Stores the last segment of each path below a tensor for which one of these methods is allowed.
 * Returns the number of segments. */
static int tensor_paths(unsigned methods, const char *names[N_ROUTES])
{
    static const char tensor[] = "/v1/tensors/{name}/";
    int n = 0;
    for (int i = 0; i < N_ROUTES; i++)
        if ((routes[i].methods & methods) &&
            strncmp(routes[i].pattern, tensor, sizeof tensor - 1) == 0)
            names[n++] = routes[i].pattern + sizeof tensor - 1;
    return n;
}

/* Reports an unknown path below a tensor, for methods other than POST. With POST, the path would
 * name an op. */
static td_status unknown_path(struct td_call *call, const struct segment *segment)
{
    const char *names[N_ROUTES];
    char listed[128];
    const int n = tensor_paths(method_bit(call->method), names);
    td_error_set(&call->error, TD_NOT_FOUND,
                 "there is nothing at %.128s; below a tensor, %.32s supports %s. Tensor names "
                 "cannot contain '/'",
                 call->path, call->method,
                 n ? td_names_text(names, n, listed, sizeof listed) : "nothing");
    td_suggest(&call->error, segment->text, segment->length, names, n);
    return TD_NOT_FOUND;
}

/* Finds an op that the path binds to a table. */
static td_status find_row_op(struct td_call *call, const struct segment *segment)
{
    int count, n = 0;
    const struct td_op *const *ops = td_ops(&count);
    const char *names[TD_OP_COUNT + N_ROUTES];
    call->op = td_op_named(segment->text, segment->length);
    if (call->op && td_op_takes_table(call->op))
        return TD_OK;
    call->op = NULL;
    if (method_bit(call->method) != POST)
        return unknown_path(call, segment);
    for (int i = 0; i < count; i++)
        if (td_op_takes_table(ops[i]))
            names[n++] = ops[i]->name;
    n += tensor_paths(POST, names + n);
    return unknown_row_op(segment, names, n, &call->error);
}

static td_status find_op(struct td_call *call, const struct segment *segment)
{
    call->op = td_op_named(segment->text, segment->length);
    return call->op ? TD_OK : unknown_op(segment, &call->error);
}

/* Finds an op. Any other name becomes the name of a table. Tables are looked up after the role of
 * the call is known, even a table with the name of an op (models.h). */
static td_status find_model(struct td_call *call, const struct segment *segment)
{
    call->op = td_op_named(segment->text, segment->length);
    if (call->op)
        return TD_OK;
    call->op = td_table_op;
    call->table.model = td_arena_text(&call->arena, segment->text, segment->length, &call->error);
    call->table.name = call->table.model;
    return call->table.name ? TD_OK : call->error.status;
}

static td_status find_version(struct td_call *call, const struct segment *segment)
{
    call->table.version = td_arena_text(&call->arena, segment->text, segment->length, &call->error);
    return call->table.version ? TD_OK : call->error.status;
}

static td_status find_table(struct td_call *call, const struct segment *segment)
{
    call->table.name = td_arena_text(&call->arena, segment->text, segment->length, &call->error);
    return call->table.name ? TD_OK : call->error.status;
}

/* Functions for path segments with these names in the pattern. Segments with other names become
 * arguments. */
static const struct {
    const char *name;
    td_status (*read)(struct td_call *call, const struct segment *segment);
} readers[] = { { "op", find_op },
                { "row_op", find_row_op },
                { "table", find_table },
                { "model", find_model },
                { "version", find_version } };
enum { N_READERS = sizeof readers / sizeof *readers };

static td_status read_argument(struct td_call *call, const struct segment *segment, int *count)
{
    const char *text = td_arena_text(&call->arena, segment->text, segment->length, &call->error);
    call->arguments[(*count)++] = text;
    return text ? TD_OK : call->error.status;
}

/* Applies the segments in braces. */
static td_status read_segments(struct td_call *call, struct segment *segments, int n)
{
    int n_arguments = 0;
    td_status status = TD_OK;
    for (int i = 0; status == TD_OK && i < n; i++)
        status = td_target_decode_segment(&segments[i].text, &segments[i].length, &call->arena,
                                          &call->error);
    for (int i = 0; status == TD_OK && i < n; i++) {
        int reader = 0;
        while (reader < N_READERS && !is_called(&segments[i], readers[reader].name))
            reader++;
        status = reader < N_READERS ? readers[reader].read(call, &segments[i])
                                    : read_argument(call, &segments[i], &n_arguments);
    }
    return status;
}

/* Room for all methods: "GET, HEAD, PUT, ...". */
enum { ALLOW_SIZE = 40 };

static void allow_text(unsigned methods, char text[ALLOW_SIZE])
{
    const char *names[N_METHOD_BITS];
    int n = 0;
    for (int i = 0; i < N_METHOD_BITS; i++)
        if (methods & method_bits[i].bit)
            names[n++] = method_bits[i].name;
    td_names_text(names, n, text, ALLOW_SIZE);
}

static td_status reply_allowed_methods(struct td_call *call)
{
    call->reply.http_status = 204;
    td_reply_header(&call->reply, "Allow", call->arguments[0]);
    return TD_OK;
}

/* Refuses the method of a path that has routes for other methods, or answers OPTIONS. */
static td_status refuse_method(struct td_call *call, unsigned methods)
{
    char allow[ALLOW_SIZE];
    struct td_error *err = &call->error;
    allow_text(methods, allow);
    if (strcmp(call->method, "OPTIONS") == 0) {
        call->handler = reply_allowed_methods;
        call->http.role = TD_ACCESS_NONE;
        call->arguments[0] = td_arena_text(&call->arena, allow, strlen(allow), err);
        return call->arguments[0] ? TD_OK : err->status;
    }
    td_error_set(err, TD_METHOD_NOT_ALLOWED, "%.32s is not allowed on %.128s; expected %s",
                 call->method, call->path, allow);
    snprintf(err->allow, sizeof err->allow, "%s", allow);
    return TD_METHOD_NOT_ALLOWED;
}

bool td_route_is_open(const struct td_call *call)
{
    return call->handler == td_health_live || call->handler == td_health_ready ||
           call->handler == td_get_metrics || call->handler == td_health_oip_live ||
           call->handler == td_health_oip_ready;
}

int td_route_lines(struct td_openapi_route lines[TD_ROUTE_LINES])
{
    static const struct {
        unsigned bit;
        const char *name;
    } methods[] = { { GET, "get" }, { POST, "post" }, { PUT, "put" }, { DELETE, "delete" } };
    enum { N_METHODS = sizeof methods / sizeof *methods };
    int n = 0;
    for (int i = 0; i < N_ROUTES; i++)
        for (int k = 0; k < N_METHODS && n < TD_ROUTE_LINES; k++)
            if (routes[i].methods & methods[k].bit)
                lines[n++] =
                    (struct td_openapi_route){ methods[k].name, routes[i].pattern,
                                               routes[i].role == TD_ACCESS_NONE, routes[i].op };
    return n;
}

td_style td_route_style(const char *path)
{
    const bool v2 = strncmp(path, "/v2", 3) == 0 && (path[3] == '\0' || strchr("/?", path[3]));
    return v2 ? TD_STYLE_OIP : TD_STYLE_PROBLEM;
}

/* Refuses a path. Adds a hint for paths that clients often try. Entries that end with '/' apply to
 * all paths below them. */
static td_status refuse_path(struct td_call *call)
{
    static const struct {
        const char *path, *hint;
    } tried[] = {
        { "/v1/aliases/",
          "use DELETE /v1/tensors/{alias} to remove an alias, POST /v1/aliases to set an alias" },
        { "/v1/tensor/", "the paths of a tensor start with /v1/tensors/{name}" },
        { "/v1/tensors/", "GET /v1/tensors lists the tensors" },
        { "/v1/v1/", "the path contains /v1 twice: leave it out of the base URL" },
        { "/v1/v2/", "paths of /v2 start with /v2: leave /v1 out of the base URL" },
        { "/problems", "the page of an error is at its `type`, such as /problems/key-not-found" },
        { "/problems/", "the page of an error is at its `type`, such as /problems/key-not-found" },
        { "/v2/models", "POST /v2/repository/index lists the models" },
        { "/v2/models/", "POST /v2/repository/index lists the models" },
    };
    const bool slash = td_name_ends("/", call->path, strlen(call->path));
    const char *hint = slash ? "leave out the last '/'" : "GET /openapi.json lists all paths";
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        const size_t length = strlen(tried[i].path);
        const bool below = tried[i].path[length - 1] == '/' && !slash;
        if (strncmp(call->path, tried[i].path, length) == 0 && (below || !call->path[length]))
            hint = tried[i].hint;
    }
    if (strstr(call->path, "//"))
        hint = "the path has two '/' in a row: remove one, or put a name between them";
    return td_error_set(&call->error, TD_NOT_FOUND, "there is nothing at %.200s; %s", call->path,
                        hint);
}

/* Returns the index of the route at which the search starts. The path of an op is found at once.
 * All other paths are compared with the route of the ops last, because its pattern also matches
 * /v1/aliases. */
static int first_route(const char *path)
{
    const char *op = strncmp(path, "/v1/", 4) == 0 ? path + 4 : "";
    return td_op_named(op, strlen(op)) ? 0 : 1;
}

td_status td_route_call(struct td_call *call)
{
    struct segment segments[TD_PATH_ARGUMENTS + 2]; /* with room for an op and a version */
    const unsigned method = method_bit(call->method);
    const char *pattern = NULL; /* pattern that matches the path */
    unsigned methods = 0;
    int n;
    call->style = td_route_style(call->path);
    call->http.role = TD_ACCESS_READ; /* required role if the path is not found */
    const td_status escapes =
        td_target_check(call->path, strlen(call->path), "the path", &call->error);
    if (escapes != TD_OK)
        return escapes;
    if (strcmp(call->path, "*") == 0 && strcmp(call->method, "OPTIONS") == 0)
        return refuse_method(call, GET | POST | PUT | DELETE);
    const int first = first_route(call->path);
    for (int i = 0; i < N_ROUTES; i++) {
        const struct route *route = &routes[(first + i) % N_ROUTES];
        if (pattern ? strcmp(route->pattern, pattern) != 0
                    : !match(route->pattern, call->path, segments, &n))
            continue;
        if (!pattern) {
            const td_status status = read_segments(call, segments, n);
            if (status != TD_OK)
                return status;
        }
        pattern = route->pattern;
        methods |= route->methods;
        if (!(route->methods & method))
            continue;
        call->http.role = route->role;
        call->http.route = pattern;
        call->handler = route->handler;
        call->task = route->task;
        call->body_limit = route->task ? route->task->body_limit : TD_BODY_NONE;
        call->op = route->op ? route->op : call->op;
        call->operation = route->operation == OP ? td_operation_of(call->op) : route->operation;
        return TD_OK;
    }
    if (pattern)
        return refuse_method(call, methods);
    return refuse_path(call);
}
