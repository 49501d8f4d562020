#include "api/attrs.h"
#include "api/json_decode.h"
#include "kernels/utf8.h"
#include "server/routes.h"
#include "server/server.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <cjson/cJSON.h>

#include <string.h>

/* ---- which way a request goes ---------------------------------------------------------------- */

static const struct {
    const char *method, *path;
    const char *op;       /* it is about */
    const char *argument; /* of a handler; NULL where the op is run */
} routes[] = {
    { "POST", "/v1/gather", "gather", NULL },
    { "POST", "/v1/gather_nd", "gather_nd", NULL },
    { "POST", "/v1/batch_gather", "batch_gather", NULL },
    { "POST", "/v1/einsum", "einsum", NULL },
    { "POST", "/v1/einsum/plan", "einsum", "" },
    { "GET", "/healthz", NULL, "" },
    { "HEAD", "/healthz", NULL, "" },
    { "GET", "/readyz", NULL, "" },
    { "GET", "/v1/ops", NULL, "" },
    { "GET", "/v1/ops/gather", NULL, "gather" },
    { "HEAD", "/v1/ops/gather", NULL, "gather" },
    { "GET", "/v1/ops/nonsense", NULL, "nonsense" }, /* for its handler to judge */
    { "GET", "/v1/tensors", NULL, "" },
    { "GET", "/v1/tensors/model:w", NULL, "model:w" },
    { "GET", "/v1/tensors/a/b", NULL, "a/b" },
    { "GET", "/problems/queue-full", NULL, "queue-full" },
};

START_TEST(a_method_and_a_path_have_a_route)
{
    struct td_route route;
    struct td_error err;
    ck_assert_msg(td_route_find(routes[_i].method, routes[_i].path, &route, &err) == TD_OK,
                  "%s %s: %s", routes[_i].method, routes[_i].path, err.message);
    if (routes[_i].op) {
        ck_assert_ptr_nonnull(route.op);
        ck_assert_str_eq(route.op->name, routes[_i].op);
    } else {
        ck_assert_ptr_null(route.op);
    }
    ck_assert_int_eq(route.handler != NULL, routes[_i].argument != NULL);
    if (route.handler)
        ck_assert_str_eq(route.argument, routes[_i].argument);
    /* a body is waited for where something was posted to a handler */
    ck_assert_int_eq(route.body_limit > 0, route.handler && route.op);
}
END_TEST

START_TEST(every_op_has_a_route_of_its_name)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    ck_assert_int_gt(count, 0);
    for (int i = 0; i < count; i++) {
        char path[100];
        struct td_route route;
        struct td_error err;
        snprintf(path, sizeof path, "/v1/%s", ops[i]->name);
        ck_assert_int_eq(td_route_find("POST", path, &route, &err), TD_OK);
        ck_assert_ptr_eq(route.op, ops[i]);
    }
}
END_TEST

static const struct {
    const char *method, *path;
    td_status status;
    const char *allow;        /* METHOD_NOT_ALLOWED */
    const char *did_you_mean; /* UNKNOWN_OP */
} refusals[] = {
    { "GET", "/", TD_NOT_FOUND, "", "" },
    { "GET", "", TD_NOT_FOUND, "", "" },
    { "GET", "/v1", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/", TD_NOT_FOUND, "", "" },
    { "GET", "/v1/ops/", TD_NOT_FOUND, "", "" },
    { "GET", "/v1/tensors/", TD_NOT_FOUND, "", "" },
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
    { "GET", "/v1/einsum/plan", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "HEAD", "/v1/einsum/plan", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "PUT", "/v1/einsum/plan", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "POST", "/v2/gather", TD_NOT_FOUND, "", "" },
    { "POST", "//v1/gather", TD_NOT_FOUND, "", "" },
    { "POST", "*", TD_NOT_FOUND, "", "" },
    { "POST", "/v1/gathr", TD_UNKNOWN_OP, "", "gather" },
    { "POST", "/v1/Gather", TD_UNKNOWN_OP, "", "gather" },
    { "POST", "/v1/gather_dn", TD_UNKNOWN_OP, "", "gather_nd" },
    { "GET", "/v1/gathr", TD_UNKNOWN_OP, "", "gather" }, /* whatever the method */
    { "POST", "/v1/convolution", TD_UNKNOWN_OP, "", "" },
    { "GET", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "HEAD", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "PUT", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" },
    { "post", "/v1/gather", TD_METHOD_NOT_ALLOWED, "POST", "" }, /* methods have a case */
    { "POST", "/v1/ops", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "POST", "/v1/ops/gather", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "DELETE", "/v1/tensors/model:w", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "POST", "/healthz", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "POST", "/readyz", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
    { "OPTIONS", "/problems/queue-full", TD_METHOD_NOT_ALLOWED, "GET, HEAD", "" },
};

START_TEST(anything_else_is_refused)
{
    struct td_route route;
    struct td_error err;
    const td_status status = td_route_find(refusals[_i].method, refusals[_i].path, &route, &err);
    ck_assert_msg(status == refusals[_i].status, "%s %s: %s", refusals[_i].method,
                  refusals[_i].path, status ? err.message : "found");
    ck_assert_int_eq(err.status, status);
    ck_assert_str_eq(err.allow, refusals[_i].allow);
    ck_assert_str_eq(err.did_you_mean, refusals[_i].did_you_mean);
}
END_TEST

START_TEST(a_long_path_is_cut_in_the_message_only)
{
    char path[20000] = "/v1/";
    struct td_route route;
    struct td_error err;
    memset(path + 4, 'x', sizeof path - 5);
    path[sizeof path - 1] = '\0';
    ck_assert_int_eq(td_route_find("POST", path, &route, &err), TD_UNKNOWN_OP);
    path[1] = 'w';
    ck_assert_int_eq(td_route_find("POST", path, &route, &err), TD_NOT_FOUND);
    memcpy(path, "/problems/", 10);
    ck_assert_int_eq(td_route_find(path, path, &route, &err), TD_METHOD_NOT_ALLOWED);
}
END_TEST

/* ---- what the handlers say ------------------------------------------------------------------- */

static struct td_server server;

static void server_open(void)
{
    static char *nothing[] = { NULL };
    char *arguments[] = { (char *)(uintptr_t) "tensord", (char *)(uintptr_t) "--workers=1", NULL };
    char message[TD_CONFIG_MESSAGE];
    memset(&server, 0, sizeof server);
    server.log.fd = -1;
    ck_assert_int_eq(td_config_load(&server.config, 2, arguments, nothing, message), TD_CONFIG_RUN);
    ck_assert(td_server_open(&server));
}

static void server_close(void)
{
    td_server_close(&server);
    td_config_free(&server.config);
}

static const struct {
    const char *path;
    int http_status;
    const char *member, *value; /* a member of the answer, of text; NULL: none is looked at */
} answers[] = {
    { "/healthz", 200, "status", "alive" },
    { "/readyz", 200, "status", "ready" },
    { "/v1/ops", 200, NULL, NULL },
    { "/v1/ops/gather", 200, "name", "gather" },
    { "/v1/ops/gathr", 404, "code", "UNKNOWN_OP" },
    { "/v1/ops/gathr", 404, "did_you_mean", "gather" },
    { "/v1/ops/gather/x", 404, "code", "UNKNOWN_OP" },
    { "/v1/tensors", 200, NULL, NULL },
    { "/v1/tensors/planets", 404, "code", "TENSOR_NOT_FOUND" },
    { "/problems/queue-full", 200, "code", "QUEUE_FULL" },
    { "/problems/nonsense", 404, "code", "NOT_FOUND" },
};

START_TEST(handlers_answer_in_json)
{
    struct td_call *call = td_call_new(&server);
    struct td_route route;
    ck_assert_int_eq(td_route_find("GET", answers[_i].path, &route, &call->error), TD_OK);
    if (route.handler(call, route.argument) != TD_OK)
        td_call_refuse(call);
    ck_assert_int_eq(call->reply.http_status, answers[_i].http_status);
    ck_assert_int_eq(call->reply.n_pieces, 1);
    ck_assert_str_eq(call->reply.content_type, answers[_i].http_status == 200
                                                   ? "application/json"
                                                   : "application/problem+json");
    cJSON *root = cJSON_ParseWithLength(call->reply.pieces[0].data, call->reply.pieces[0].size);
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
END_TEST

START_TEST(a_path_that_is_no_utf8_does_not_spoil_the_answer)
{
    static const char *const paths[] = { "/v1/ops/gath\xffr", "/v1/tensors/\xc3",
                                         "/problems/\x80" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct td_call *call = td_call_new(&server);
        struct td_route route;
        ck_assert_int_eq(td_route_find("GET", paths[i], &route, &call->error), TD_OK);
        ck_assert_int_ne(route.handler(call, route.argument), TD_OK);
        td_call_refuse(call);
        ck_assert_int_eq(call->reply.n_pieces, 1);
        ck_assert(td_utf8_valid(call->reply.pieces[0].data, call->reply.pieces[0].size));
        td_call_free(call);
    }
}
END_TEST

START_TEST(readyz_says_how_much_memory_is_used)
{
    struct td_call *call = td_call_new(&server);
    struct td_route route;
    struct td_error err;
    ck_assert_int_eq(td_buffer_pool_charge(server.buffers, 12345, &err), TD_OK);
    ck_assert_int_eq(td_route_find("GET", "/readyz", &route, &err), TD_OK);
    ck_assert_int_eq(route.handler(call, route.argument), TD_OK);
    cJSON *root = cJSON_ParseWithLength(call->reply.pieces[0].data, call->reply.pieces[0].size);
    const cJSON *memory = cJSON_GetObjectItem(root, "memory");
    ck_assert_double_eq(cJSON_GetObjectItem(memory, "in_use")->valuedouble, 12345);
    ck_assert_double_eq(cJSON_GetObjectItem(memory, "limit")->valuedouble,
                        (double)server.config.memory_limit);
    ck_assert_double_eq(cJSON_GetObjectItem(memory, "calls")->valuedouble, sizeof(struct td_call));
    cJSON_Delete(root);
    td_buffer_pool_discharge(server.buffers, 12345);
    td_call_free(call);
}
END_TEST

START_TEST(a_server_that_stops_is_alive_but_not_ready)
{
    static const struct {
        const char *path;
        td_status status;
    } asked[] = { { "/healthz", TD_OK }, { "/readyz", TD_DRAINING } };
    atomic_store(&server.draining, true);
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        struct td_call *call = td_call_new(&server);
        struct td_route route;
        ck_assert_int_eq(td_route_find("GET", asked[i].path, &route, &call->error), TD_OK);
        ck_assert_int_eq(route.handler(call, route.argument), asked[i].status);
        td_call_free(call);
    }
}
END_TEST

/* A call for the plan handler, whose body has arrived. */
static struct td_call *plan_call(const char *body, td_handler **handler)
{
    struct td_call *call = td_call_new(&server);
    struct td_route route;
    ck_assert_int_eq(td_route_find("POST", "/v1/einsum/plan", &route, &call->error), TD_OK);
    call->op = route.op;
    call->handler = *handler = route.handler;
    call->body_limit = route.body_limit;
    td_request_init(&call->request, route.op);
    call->body_format = TD_FORMAT_JSON;
    call->body_bytes = strlen(body);
    char *copy = td_arena_alloc(&call->arena, call->body_bytes + TD_JSON_PADDING, 1, &call->error);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, body, call->body_bytes);
    call->body = copy;
    return call;
}

START_TEST(a_plan_knows_the_limits_of_the_server)
{
    td_handler *handler;
    server.config.max_flops = 47; /* of 48 */
    server.config.max_output = 1000;
    server.config.workers = 3;
    struct td_call *call =
        plan_call("{\"equation\":\"ij,jk->ik\",\"shapes\":[[2,3],[3,4]]}", &handler);
    ck_assert_int_eq(handler(call, ""), TD_OK);
    cJSON *plan = cJSON_ParseWithLength(call->reply.pieces[0].data, call->reply.pieces[0].size);
    const cJSON *limits = cJSON_GetObjectItem(plan, "limits");
    ck_assert_double_eq(cJSON_GetObjectItem(limits, "max_flops")->valuedouble, 47);
    ck_assert_double_eq(cJSON_GetObjectItem(limits, "max_output")->valuedouble, 1000);
    ck_assert_double_eq(cJSON_GetObjectItem(limits, "memory_limit")->valuedouble,
                        (double)server.config.memory_limit);
    ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(plan, "admitted")));
    cJSON_Delete(plan);
    td_call_free(call);
}
END_TEST

START_TEST(a_plan_is_asked_for_in_json)
{
    td_handler *handler;
    struct td_call *call = plan_call("{}", &handler);
    call->body_format = TD_FORMAT_SAFETENSORS;
    ck_assert_int_eq(handler(call, ""), TD_UNSUPPORTED_MEDIA_TYPE);
    td_call_free(call);
}
END_TEST

START_TEST(a_plan_is_for_a_device_that_is_there)
{
    static const td_device devices[] = { TD_DEVICE_AUTO, TD_DEVICE_CPU, TD_DEVICE_GPU };
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        td_handler *handler;
        struct td_call *call = plan_call("{\"equation\":\"ij->ji\",\"shapes\":[[2,3]]}", &handler);
        call->request.options.device = devices[i];
        ck_assert_int_eq(handler(call, ""),
                         devices[i] == TD_DEVICE_GPU ? TD_DEVICE_UNAVAILABLE : TD_OK);
        td_call_free(call);
    }
}
END_TEST

START_TEST(a_plan_s_body_has_its_own_limit_below_the_server_s)
{
    td_handler *handler;
    struct td_call *call = plan_call("{}", &handler);
    ck_assert_uint_eq(td_call_body_limit(call), 65536);
    server.config.max_body = 2000;
    ck_assert_uint_eq(td_call_body_limit(call), 2000);
    server.config.max_body = 100000;
    call->body_limit = 0;
    ck_assert_uint_eq(td_call_body_limit(call), 100000);
    td_call_free(call);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, server_open, server_close);
    tcase_add_loop_test(tcase, a_method_and_a_path_have_a_route, 0, COUNT_OF(routes));
    tcase_add_test(tcase, every_op_has_a_route_of_its_name);
    tcase_add_loop_test(tcase, anything_else_is_refused, 0, COUNT_OF(refusals));
    tcase_add_test(tcase, a_long_path_is_cut_in_the_message_only);
    tcase_add_loop_test(tcase, handlers_answer_in_json, 0, COUNT_OF(answers));
    tcase_add_test(tcase, a_path_that_is_no_utf8_does_not_spoil_the_answer);
    tcase_add_test(tcase, readyz_says_how_much_memory_is_used);
    tcase_add_test(tcase, a_plan_knows_the_limits_of_the_server);
    tcase_add_test(tcase, a_plan_is_asked_for_in_json);
    tcase_add_test(tcase, a_plan_is_for_a_device_that_is_there);
    tcase_add_test(tcase, a_plan_s_body_has_its_own_limit_below_the_server_s);
    tcase_add_test(tcase, a_server_that_stops_is_alive_but_not_ready);
}

int main(void)
{
    return run_suite("routes", add);
}
