#include "api/json/decode.h"
#include "kernels/utf8.h"
#include "server/calls/oip_tasks.h"
#include "server/calls/op_task.h"
#include "server/calls/services_open.h"
#include "server/calls/tensor_list.h"
#include "server/calls/tensor_tasks.h"
#include "server/calls/update_tasks.h"
#include "server/config/load.h"
#include "server/http/routes.h"
#include "server/memory/fault_guard.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <cjson/cJSON.h>

#include <stdio.h>
#include <string.h>

/* ---- services without HTTP, calls without a connection --------------------------------------- */

static struct td_services services;

static void server_open(void)
{
    static char *nothing[] = { NULL };
    char *arguments[] = { (char *)(uintptr_t) "tensord", (char *)(uintptr_t) "--workers=1", NULL };
    char message[TD_CONFIG_MESSAGE];
    memset(&services, 0, sizeof services);
    services.log.fd = -1;
    ck_assert_int_eq(td_config_load(&services.config, 2, arguments, nothing, message),
                     TD_CONFIG_RUN);
    ck_assert(td_services_open(&services));
    services.connections = td_connections_new(100, services.buffers, 1000);
    services.connection_limits = (struct td_connection_limits){ .open = 100, .per_client = 50 };
    ck_assert_ptr_nonnull(services.connections);
}

static void server_close(void)
{
    td_connections_free(services.connections);
    td_services_close(&services);
    td_config_free(&services.config);
}

static struct td_call *call_to(const char *method, const char *path)
{
    struct td_call *call = td_call_new(&services);
    ck_assert_ptr_nonnull(call);
    call->method = method;
    call->path = path;
    return call;
}

/* ---- routes ---------------------------------------------------------------------------------- */

static const struct {
    const char *method, *path;
    const char *op;             /* of the path; NULL: none */
    const struct td_task *task; /* NULL: a handler replies at once */
    const char *argument;       /* the first of the path; NULL: none */
    size_t body_limit;
} routes[] = {
    { "GET", "/healthz", NULL, NULL, NULL, 0 },
    { "HEAD", "/healthz", NULL, NULL, NULL, 0 },
    { "GET", "/readyz", NULL, NULL, NULL, 0 },
    { "GET", "/problems/queue-full", NULL, NULL, "queue-full", 0 },
    { "GET", "/v1/ops", NULL, NULL, NULL, 0 },
    { "GET", "/v1/ops/gather", "gather", NULL, NULL, 0 },
    { "HEAD", "/v1/ops/gather", "gather", NULL, NULL, 0 },
    { "POST", "/v1/gather", "gather", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v1/gather_nd", "gather_nd", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v1/batch_gather", "batch_gather", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v1/einsum", "einsum", &td_op_task, NULL, TD_BODY_ANY },
    { "GET", "/v1/tensors", NULL, &td_tensor_list_task, NULL, 0 },
    { "GET", "/v1/tensors/model:w", NULL, &td_tensor_get_task, "model:w", 0 },
    { "HEAD", "/v1/tensors/t", NULL, &td_tensor_get_task, "t", 0 },
    { "GET", "/v1/tensors/scatter", NULL, &td_tensor_get_task, "scatter", 0 },
    { "GET", "/v1/tensors/..", NULL, &td_tensor_get_task, "..", 0 }, /* refused by the store */
    { "GET", "/v1/tensors/a%2Fb", NULL, &td_tensor_get_task, "a/b",
      0 }, /* one name, not two segments */
    { "GET", "/v1/tensors/%2e%2e", NULL, &td_tensor_get_task, "..", 0 },
    { "GET", "/v1/tensors/%2541", NULL, &td_tensor_get_task, "%41", 0 }, /* decoded once */
    { "GET", "/v1/tensors/a%3ab%FF", NULL, &td_tensor_get_task, "a:b\xff", 0 },
    { "POST", "/v1/g%61ther", "gather", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v2/models/%67ather/versions/%31/infer", "gather", &td_op_task, NULL, TD_BODY_ANY },
    { "PUT", "/v1/tensors/t", NULL, &td_tensor_put_task, "t", TD_BODY_TENSOR },
    { "DELETE", "/v1/tensors/t", NULL, &td_tensor_delete_task, "t", 0 },
    { "POST", "/v1/tensors/t/scatter", "scatter", &td_table_change_task, "t", TD_BODY_ANY },
    { "POST", "/v1/tensors/t/upsert", "upsert", &td_table_change_task, "t", TD_BODY_ANY },
    { "POST", "/v1/tensors/t/remove", "remove", &td_table_change_task, "t", TD_BODY_ANY },
    { "POST", "/v1/tensors/t/gather", "gather", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v1/tensors/a%2Fb/gather_nd", "gather_nd", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v1/tensors/scatter/gather", "gather", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v2/models/gather/infer", "gather", &td_op_task, NULL, TD_BODY_ANY },
    { "POST", "/v2/models/einsum/versions/1/infer", "einsum", &td_op_task, NULL, TD_BODY_ANY },
    { "GET", "/v2", NULL, NULL, NULL, 0 },
    { "HEAD", "/v2/", NULL, NULL, NULL, 0 },
    { "GET", "/v2/health/live", NULL, NULL, NULL, 0 },
    { "HEAD", "/v2/health/ready", NULL, NULL, NULL, 0 },
    { "GET", "/v2/models/gather", "gather", &td_oip_metadata_task, NULL, 0 },
    { "GET", "/v2/models/gather/versions/1", "gather", &td_oip_metadata_task, NULL, 0 },
    { "GET", "/v2/models/gather/ready", "gather", &td_oip_ready_task, NULL, 0 },
    { "GET", "/v2/models/gather/versions/1/ready", "gather", &td_oip_ready_task, NULL, 0 },
    { "GET", "/v2/models/gather/config", "gather", &td_oip_config_task, NULL, 0 },
    { "GET", "/v2/models/gather/versions/1/config", "gather", &td_oip_config_task, NULL, 0 },
    { "GET", "/v2/models/gather/stats", "gather", NULL, NULL, 0 },
    { "GET", "/v2/models/gather/versions/1/stats", "gather", NULL, NULL, 0 },
    { "GET", "/v2/models/stats", NULL, NULL, NULL, 0 }, /* no model of that name */
    { "GET", "/v2/models/gather/trace/setting", "gather", NULL, NULL, 0 },
    { "POST", "/v2/trace/setting", NULL, NULL, NULL, 0 },
    { "POST", "/v2/logging", NULL, NULL, NULL, 0 },
    { "POST", "/v2/repository/index", NULL, &td_oip_index_task, NULL, 65536 },
    { "POST", "/v2/repository/r/index", NULL, &td_oip_index_task, "r", 65536 },
    { "POST", "/v2/repository/models/gather/load", "gather", &td_oip_load_task, NULL, 65536 },
    { "POST", "/v2/repository/r/models/gather/load", "gather", &td_oip_load_task, "r", 65536 },
    { "POST", "/v2/repository/models/gather/unload", "gather", &td_oip_unload_task, NULL, 65536 },
    { "POST", "/v2/repository/r/models/gather/unload", "gather", &td_oip_unload_task, "r", 65536 },
    { "GET", "/v2/systemsharedmemory/status", NULL, NULL, NULL, 0 },
    { "GET", "/v2/systemsharedmemory/region/a b/status", NULL, NULL, "a b", 0 },
    { "POST", "/v2/systemsharedmemory/region/r/register", NULL, &td_oip_register_task, "r", 65536 },
    { "POST", "/v2/systemsharedmemory/region/r/unregister", NULL, NULL, "r", 0 },
    { "POST", "/v2/systemsharedmemory/unregister", NULL, NULL, NULL, 0 },
    { "GET", "/v2/cudasharedmemory/status", NULL, NULL, NULL, 0 },
    { "POST", "/v2/cudasharedmemory/region/r/register", NULL, NULL, "r", 0 },
    { "POST", "/v2/cudasharedmemory/unregister", NULL, NULL, NULL, 0 },
};

TD_TEST_EACH(a_method_and_a_path_have_a_route, routes)
{
    struct td_call *call = call_to(routes[_i].method, routes[_i].path);
    ck_assert_msg(td_route_call(call) == TD_OK, "%s %s: %s", routes[_i].method, routes[_i].path,
                  call->error.message);
    ck_assert_ptr_eq(call->task, routes[_i].task);
    ck_assert_int_eq(call->handler != NULL, call->task == NULL);
    ck_assert_str_eq(call->op ? call->op->name : "none", routes[_i].op ? routes[_i].op : "none");
    ck_assert_str_eq(call->arguments[0] ? call->arguments[0] : "none",
                     routes[_i].argument ? routes[_i].argument : "none");
    ck_assert_uint_eq(call->body_limit, routes[_i].body_limit);
    td_call_free(call);
}

TD_TEST_LOOP(a_model_that_is_no_op_may_be_a_table, 0, 8)
{
    static const struct {
        const char *method, *path, *model, *version; /* NULL: none */
    } models[] = {
        { "GET", "/v2/models/movies", "movies", NULL },
        { "POST", "/v2/models/model%3Aw/infer", "model:w", NULL },
        { "POST", "/v2/models/movies/versions/v2/infer", "movies", "v2" },
        { "GET", "/v2/models/a%2Fb/ready", "a/b", NULL },
        { "GET", "/v2/models/stats", NULL, NULL },        /* of all ops */
        { "GET", "/v2/models/gather/stats", NULL, NULL }, /* a table too, if it has this name */
        { "GET", "/v2/models/gather/versions/v2/stats", NULL, "v2" },
        { "POST", "/v2/repository/models/movies/load", "movies", NULL },
    };
    struct td_call *call = call_to(models[_i].method, models[_i].path);
    ck_assert_int_eq(td_route_call(call), TD_OK);
    ck_assert_pstr_eq(call->table.model, models[_i].model);
    ck_assert_pstr_eq(call->table.version, models[_i].version);
    if (models[_i].model)
        ck_assert_str_eq(call->op->name, "gather");
    td_call_free(call);
}

TD_TEST(a_lookup_has_the_table_of_its_path)
{
    struct td_call *call = call_to("POST", "/v1/tensors/model%3Aw/gather");
    ck_assert_int_eq(td_route_call(call), TD_OK);
    ck_assert_str_eq(call->table.name, "model:w");
    ck_assert_int_eq(call->http.role, TD_ACCESS_READ);
    td_call_free(call);
}

TD_TEST(every_op_has_a_route_of_its_name)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    ck_assert_int_gt(count, 0);
    for (int i = 0; i < count; i++) {
        char path[100];
        snprintf(path, sizeof path, "/v1/%s", ops[i]->name);
        struct td_call *call = call_to("POST", path);
        ck_assert_int_eq(td_route_call(call), TD_OK);
        ck_assert_ptr_eq(call->op, ops[i]);
        td_call_free(call);
    }
}

static const struct {
    const char *method, *path;
    td_status status;
    const char *allow;        /* METHOD_NOT_ALLOWED */
    const char *did_you_mean; /* UNKNOWN_OP */
} refusals[] = {
    { "GET", "/v2/models", TD_NOT_FOUND, "", "" },
    { "POST", "/v2/models/gather/generate", TD_NOT_FOUND, "", "" },
    { "GET", "/v2/models/%00", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v2/models/t/versions/%00", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v2/models/t/versions//ready", TD_NOT_FOUND, "", "" },
    { "GET", "/v2/models/gather/infer", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "POST", "/v2/models/gather", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "GET", "/v2/repository/index", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "DELETE", "/v2/trace/setting", TD_METHOD_NOT_ALLOWED, "GET, HEAD, POST", "" },
    { "GET", "/v2/systemsharedmemory/region/a/b/status", TD_NOT_FOUND, "", "" },
    { "GET", "", TD_NOT_FOUND, "", "" },
    { "GET", "/v1", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/", TD_NOT_FOUND, "", "" },
    { "GET", "/v1/ops/", TD_NOT_FOUND, "", "" },
    { "GET", "/v1/ops/gather/x", TD_NOT_FOUND, "", "" },
    { "GET", "/v1/tensors/", TD_NOT_FOUND, "", "" },
    { "GET", "/v1/tensors/a/b", TD_NOT_FOUND, "", "" },
    { "PUT", "/v1/tensors/../etc", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/tensors/t/gathr", TD_UNKNOWN_OP, "", "gather" },
    { "POST", "/v1/tensors/t/einsum", TD_UNKNOWN_OP, "", "" }, /* looks no rows up */
    { "POST", "/v1/tensors/t/%00/gather", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/tensors/%00/gather", TD_MALFORMED_REQUEST, "", "" },
    { "POST", "/v1/tensors/t/gather/", TD_NOT_FOUND, "", "" },
    { "GET", "/v1/tensors/t/gather", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "PUT", "/v1/tensors//t", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/tensors//scatter", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/tensors/t/scatter/", TD_NOT_FOUND, "", "" },
    { "GET", "/problems/", TD_NOT_FOUND, "", "" },
    { "GET", "/problems", TD_NOT_FOUND, "", "" },
    { "GET", "/healthz/", TD_NOT_FOUND, "", "" },
    { "GET", "/healthzz", TD_NOT_FOUND, "", "" },
    { "GET", "/HEALTHZ", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/gather/", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/gather/x", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/gather/plan", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/einsum/plan/", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/einsum/plans", TD_NOT_FOUND, "", "" },
    { "POST", "/v2/gather", TD_NOT_FOUND, "", "" },
    { "POST", "/v2/models/gather/versions//infer", TD_NOT_FOUND, "", "" },
    { "POST", "//v1/gather", TD_NOT_FOUND, "", "" },
    { "POST", "*", TD_NOT_FOUND, "", "" },
    { "POST", "/v1%2fgather", TD_NOT_FOUND, "", "" }, /* only names may be escaped */
    { "POST", "/v1%2Fgather", TD_NOT_FOUND, "", "" },
    { "POST", "%2fv1/gather", TD_NOT_FOUND, "", "" },
    { "POST", "/%76%31/gather", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/%2fgather", TD_UNKNOWN_OP, "", "gather" },
    { "GET", "/v1/%6fps", TD_UNKNOWN_OP, "", "" },
    { "POST", "/v1/tensors/t%2Fscatter", TD_METHOD_NOT_ALLOWED, "GET, HEAD, PUT, DELETE", "" },
    { "GET", "/v1/tensors/%", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v1/tensors/%4", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v1/tensors/%4g", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v1/tensors/%g4", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v1/tensors/%u0041", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v1/tensors/%%41", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v1/tensors/t%00", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/v1/tensors/%00", TD_MALFORMED_REQUEST, "", "" },
    { "POST", "/v1/gather%00", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/nowhere/%zz", TD_MALFORMED_REQUEST, "", "" },
    { "GET", "/healthz%", TD_MALFORMED_REQUEST, "", "" },
    { "OPTIONS", "/nowhere", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/gathr", TD_UNKNOWN_OP, "", "gather" },
    { "POST", "/v1/Gather", TD_UNKNOWN_OP, "", "gather" },
    { "POST", "/v1/gather_dn", TD_UNKNOWN_OP, "", "gather_nd" },
    { "GET", "/v1/gathr", TD_UNKNOWN_OP, "", "gather" }, /* whatever the method */
    { "GET", "/v1/ops/gathr", TD_UNKNOWN_OP, "", "gather" },
    { "POST", "/v1/convolution", TD_UNKNOWN_OP, "", "" },
    { "POST", "/v1/scatter", TD_UNKNOWN_OP, "", "" }, /* of a tensor only */
    { "GET", "/v1/einsum/plan", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "HEAD", "/v1/einsum/plan", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "PUT", "/v1/einsum/plan", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "GET", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "HEAD", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "PUT", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "post", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" }, /* methods are case-sensitive */
    { "GET", "/v2/models/gather/infer", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "POST", "/v1/ops", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "POST", "/v1/ops/gather", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "PUT", "/v1/tensors", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "POST", "/v1/tensors/model:w", TD_METHOD_NOT_ALLOWED, "GET, HEAD, PUT, DELETE", "" },
    { "PATCH", "/v1/tensors/t", TD_METHOD_NOT_ALLOWED, "GET, HEAD, PUT, DELETE", "" },
    { "GET", "/v1/tensors/t/scatter", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "POST", "/healthz", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "POST", "/readyz", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "TRACE", "/problems/queue-full", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
};

TD_TEST_EACH(other_methods_and_paths_are_refused, refusals)
{
    struct td_call *call = call_to(refusals[_i].method, refusals[_i].path);
    const td_status status = td_route_call(call);
    ck_assert_msg(status == refusals[_i].status, "%s %s: %s", refusals[_i].method,
                  refusals[_i].path, status ? call->error.message : "found");
    ck_assert_int_eq(call->error.status, status);
    ck_assert_str_eq(call->error.allow, refusals[_i].allow);
    ck_assert_str_eq(call->error.did_you_mean, refusals[_i].did_you_mean);
    ck_assert(!call->task && !call->handler);
    td_call_free(call);
}

static const struct {
    const char *path, *allow;
} options[] = {
    { "/healthz", "GET, HEAD" },
    { "/v1/gather", "POST" },
    { "/v1/tensors/t", "GET, HEAD, PUT, DELETE" },
    { "/v2/models/gather/infer", "POST" },
    { "*", "GET, HEAD, POST, PUT, DELETE" },
};

TD_TEST_EACH(options_lists_the_allowed_methods, options)
{
    struct td_call *call = call_to("OPTIONS", options[_i].path);
    ck_assert_int_eq(td_route_call(call), TD_OK);
    ck_assert_ptr_null(call->task);
    ck_assert_int_eq(call->handler(call), TD_OK);
    ck_assert_int_eq(call->reply.http_status, 204);
    ck_assert_int_eq(call->reply.n_chunks, 0);
    ck_assert_ptr_null(call->reply.content_type);
    ck_assert_int_eq(call->reply.n_headers, 1);
    ck_assert_str_eq(call->reply.headers[0].name, "Allow");
    ck_assert_str_eq(call->reply.headers[0].value, options[_i].allow);
    td_call_free(call);
}

static const struct {
    const char *path;
    td_style style;
} styles[] = {
    { "/v2", TD_STYLE_OIP },           { "/v2/", TD_STYLE_OIP },
    { "/v2/nowhere", TD_STYLE_OIP },   { "/v2/models/none/infer", TD_STYLE_OIP },
    { "/v1/gathr", TD_STYLE_PROBLEM }, { "/v20", TD_STYLE_PROBLEM },
    { "/", TD_STYLE_PROBLEM },
};

TD_TEST_EACH(errors_are_in_the_style_of_the_path, styles)
{
    struct td_call *call = call_to("POST", styles[_i].path);
    if (td_route_call(call) == TD_OK)
        td_error_set(&call->error, TD_INTERNAL, "an error");
    ck_assert_int_eq(call->style, styles[_i].style);
    td_call_refuse(call);
    cJSON *root = cJSON_ParseWithLength(call->reply.chunks[0].data, call->reply.chunks[0].size);
    ck_assert_str_eq(call->reply.content_type, styles[_i].style == TD_STYLE_OIP
                                                   ? "application/json"
                                                   : "application/problem+json");
    ck_assert_int_eq(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "error")),
                     styles[_i].style == TD_STYLE_OIP);
    ck_assert(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "code")));
    cJSON_Delete(root);
    td_call_free(call);
}

TD_TEST(a_long_path_is_truncated_in_the_message_only)
{
    char path[20000] = "/v1/";
    memset(path + 4, 'x', sizeof path - 5);
    path[sizeof path - 1] = '\0';
    struct td_call *call = call_to("POST", path);
    ck_assert_int_eq(td_route_call(call), TD_UNKNOWN_OP);
    path[1] = 'w';
    ck_assert_int_eq(td_route_call(call), TD_NOT_FOUND);
    memcpy(path, "/problems/", 10);
    call->method = path;
    ck_assert_int_eq(td_route_call(call), TD_METHOD_NOT_ALLOWED);
    td_call_free(call);
}

/* ---- replies of the handlers ----------------------------------------------------------------- */

static const struct {
    const char *path;
    int http_status;
    const char *member, *value; /* a string member of the reply; NULL: not checked */
} answers[] = {
    { "/healthz", 200, "status", "alive" },
    { "/readyz", 200, "status", "ready" },
    { "/v1/ops", 200, NULL, NULL },
    { "/v1/ops/gather", 200, "name", "gather" },
    { "/v1/ops/gathr", 404, "code", "UNKNOWN_OP" },
    { "/v1/ops/gathr", 404, "did_you_mean", "gather" },
    { "/problems/queue-full", 200, "code", "QUEUE_FULL" },
    { "/problems/nonsense", 404, "code", "NOT_FOUND" },
    { "/v2/models/gathr", 404, "code", "UNKNOWN_OP" },
    { "/v2/models/gathr/ready", 404, "did_you_mean", "gather" },
    { "/v2/models/gathr/trace/setting", 404, "did_you_mean", "gather" },
    { "/v2/models/stats/ready", 404, "code", "UNKNOWN_OP" },
    { "/v2/models/nothing/versions/2/config", 404, "code", "UNKNOWN_OP" },
    { "/v2/models/a%2F..%2Fb/stats", 404, "code", "UNKNOWN_OP" },
    { "/v2/models/gather/versions/2", 404, "error",
      "gather has no version '2'; the only version is 1" },
    { "/v2/models/gather/versions/abc/ready", 404, "code", "NOT_FOUND" },
    { "/v2/models/gather/versions/1/ready", 200, "name", "gather" },
    { "/v2/models/gather/ready", 200, "name", "gather" },
};

/* Replies by the handler, or by the last stage of a task that has no other stages. */
static td_status reply_to(struct td_call *call)
{
    return call->handler ? call->handler(call) : call->task->encode(call);
}

TD_TEST_EACH(handlers_reply_in_json, answers)
{
    struct td_call *call = call_to("GET", answers[_i].path);
    if (td_route_call(call) != TD_OK || reply_to(call) != TD_OK)
        td_call_refuse(call);
    ck_assert_int_eq(call->reply.http_status, answers[_i].http_status);
    ck_assert_int_eq(call->reply.n_chunks, 1);
    ck_assert_str_eq(call->reply.content_type,
                     answers[_i].http_status == 200 || strncmp(answers[_i].path, "/v2", 3) == 0
                         ? "application/json"
                         : "application/problem+json");
    cJSON *root = cJSON_ParseWithLength(call->reply.chunks[0].data, call->reply.chunks[0].size);
    ck_assert(cJSON_IsObject(root));
    if (answers[_i].member) {
        const cJSON *member = cJSON_GetObjectItemCaseSensitive(root, answers[_i].member);
        ck_assert_msg(cJSON_IsString(member), "%s has no text %s", answers[_i].path,
                      answers[_i].member);
        ck_assert_str_eq(member->valuestring, answers[_i].value);
    }
    cJSON_Delete(root);
    td_call_free(call);
}

TD_TEST(the_error_of_a_reserved_name_has_nothing_of_an_earlier_call)
{
    struct td_call *call = call_to("GET", "/v2/models/stats/ready");
    snprintf(call->error.did_you_mean, sizeof call->error.did_you_mean, "%s", "stat");
    ck_assert_int_eq(td_route_call(call), TD_OK);
    ck_assert_int_eq(reply_to(call), TD_UNKNOWN_OP);
    ck_assert_str_eq(call->error.did_you_mean, "");
    td_call_free(call);
}

TD_TEST(a_path_that_is_not_utf8_leaves_the_reply_valid)
{
    static const char *const paths[] = { "/v1/ops/gath\xffr", "/nowhere/\xc3", "/problems/\x80" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct td_call *call = call_to("GET", paths[i]);
        td_status status = td_route_call(call);
        if (status == TD_OK)
            status = call->handler(call);
        ck_assert_int_ne(status, TD_OK);
        td_call_refuse(call);
        ck_assert_int_eq(call->reply.n_chunks, 1);
        ck_assert(td_utf8_valid(call->reply.chunks[0].data, call->reply.chunks[0].size));
        td_call_free(call);
    }
}

TD_TEST(readyz_reports_what_the_server_holds)
{
    struct td_call *call = call_to("GET", "/readyz");
    const int range = td_guard_add(call, 1);
    atomic_store(&services.in_flight, 3);
    for (int socket = 0; socket < 5; socket++)
        ck_assert((socket < 2 || td_connections_charge(services.connections)) &&
                  td_connections_open(services.connections, socket, NULL,
                                      socket < 2 ? TD_CLIENT_REACHED : TD_UNRESTRICTED, 0));
    ck_assert(td_connection_enter(td_connections_find(services.connections, 1),
                                  TD_CONNECTION_SENDING, 1));
    ck_assert_int_eq(td_buffer_pool_charge(services.buffers, 12345, &call->error), TD_OK);
    ck_assert_int_eq(td_route_call(call), TD_OK);
    ck_assert_int_eq(call->handler(call), TD_OK);
    cJSON *root = cJSON_ParseWithLength(call->reply.chunks[0].data, call->reply.chunks[0].size);
    const cJSON *memory = cJSON_GetObjectItem(root, "memory");
    ck_assert_double_eq(cJSON_GetObjectItem(memory, "in_use")->valuedouble, 12345);
    ck_assert_double_eq(cJSON_GetObjectItem(memory, "limit")->valuedouble,
                        (double)services.config.memory_limit);
    ck_assert_double_eq(cJSON_GetObjectItem(memory, "calls")->valuedouble,
                        sizeof(struct td_call_shell));
    const cJSON *open = cJSON_GetObjectItem(root, "open");
    ck_assert_double_eq(cJSON_GetObjectItem(open, "requests")->valuedouble, 3);
    ck_assert_double_eq(cJSON_GetObjectItem(open, "connections")->valuedouble, 5);
    ck_assert_double_eq(cJSON_GetObjectItem(memory, "connections")->valuedouble, 3 * 1000);
    const cJSON *connections = cJSON_GetObjectItem(root, "connections");
    ck_assert_double_eq(cJSON_GetObjectItem(connections, "limit")->valuedouble, 100);
    ck_assert_double_eq(cJSON_GetObjectItem(connections, "client_limit")->valuedouble, 50);
    ck_assert_double_eq(cJSON_GetObjectItem(connections, "waiting")->valuedouble, 4);
    ck_assert_double_eq(cJSON_GetObjectItem(connections, "sending")->valuedouble, 1);
    ck_assert_double_eq(cJSON_GetObjectItem(connections, "restricted")->valuedouble, 2);
    ck_assert_double_eq(cJSON_GetObjectItem(open, "mappings")->valuedouble, 1);
    td_guard_remove(range);
    atomic_store(&services.in_flight, 0);
    for (int socket = 0; socket < 5; socket++)
        td_connections_close(services.connections, socket);
    cJSON_Delete(root);
    td_buffer_pool_discharge(services.buffers, 12345);
    td_call_free(call);
}

TD_TEST(a_stopping_server_is_alive_but_not_ready)
{
    static const struct {
        const char *path;
        td_status status;
    } asked[] = { { "/healthz", TD_OK }, { "/readyz", TD_DRAINING } };
    atomic_store(&services.draining, true);
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        struct td_call *call = call_to("GET", asked[i].path);
        ck_assert_int_eq(td_route_call(call), TD_OK);
        ck_assert_int_eq(call->handler(call), asked[i].status);
        td_call_free(call);
    }
}

/* ---- planning -------------------------------------------------------------------------------- */

/* A call for a plan, whose body has arrived. */
static struct td_call *plan_call(const char *body)
{
    struct td_call *call = call_to("POST", "/v1/einsum/plan");
    ck_assert_int_eq(td_route_call(call), TD_OK);
    call->body_bytes = strlen(body);
    char *copy = td_arena_alloc(&call->arena, call->body_bytes + TD_JSON_PADDING, 1, &call->error);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, body, call->body_bytes);
    call->body = copy;
    return call;
}

TD_TEST(a_plan_respects_the_limits_of_the_server)
{
    services.config.max_flops = 47; /* of 48 */
    services.config.max_output = 1000;
    services.config.workers = 3;
    struct td_call *call = plan_call("{\"equation\":\"ij,jk->ik\",\"shapes\":[[2,3],[3,4]]}");
    ck_assert_int_eq(call->task->begin(call), TD_OK);
    ck_assert_int_eq(td_call_decode(call), TD_OK);
    ck_assert_int_eq(td_call_encode(call), TD_OK);
    cJSON *plan = cJSON_ParseWithLength(call->reply.chunks[0].data, call->reply.chunks[0].size);
    const cJSON *limits = cJSON_GetObjectItem(plan, "limits");
    ck_assert_double_eq(cJSON_GetObjectItem(limits, "max_flops")->valuedouble, 47);
    ck_assert_double_eq(cJSON_GetObjectItem(limits, "max_output")->valuedouble, 1000);
    ck_assert_double_eq(cJSON_GetObjectItem(limits, "memory_limit")->valuedouble,
                        (double)services.config.memory_limit);
    ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(plan, "admitted")));
    cJSON_Delete(plan);
    td_call_free(call);
}

TD_TEST(a_plan_requires_a_json_body)
{
    struct td_call *call = plan_call("{}");
    call->headers.content_type = "application/vnd.safetensors";
    ck_assert_int_eq(call->task->begin(call), TD_UNSUPPORTED_MEDIA_TYPE);
    td_call_free(call);
}

static const struct {
    const char *description;
    size_t route;
    int64_t max_body, quota, memory;
    size_t limit;
} limits[] = {
    { "a plan's body has its own limit", 65536, 100000, 100000, 100000, 65536 },
    { "... if below the server's", 65536, 2000, 100000, 100000, 2000 },
    { "a request has the server's limit", TD_BODY_ANY, 2000, 100000, 100000, 2000 },
    { "... and at most the memory limit", TD_BODY_ANY, 200000, 300000, 100000, 100000 },
    { "a tensor is limited by the quota", TD_BODY_TENSOR, 2000, 70000, 100000, 70000 },
    { "... and at most the memory limit, too", TD_BODY_TENSOR, 2000, 200000, 100000, 100000 },
};

TD_TEST_EACH(a_body_has_a_limit, limits)
{
    struct td_call *call = td_call_new(&services);
    call->body_limit = limits[_i].route;
    services.config.max_body = limits[_i].max_body;
    services.config.tensor_quota = limits[_i].quota;
    services.config.memory_limit = limits[_i].memory;
    ck_assert_msg(td_call_body_limit(call) == limits[_i].limit, "%s: %zu", limits[_i].description,
                  td_call_body_limit(call));
    td_call_free(call);
}

TD_FIXTURE(server_open, server_close);
