#include "server/routes.h"

#include "api/describe.h"
#include "api/einsum_plan.h"
#include "api/problem.h"
#include "api/suggest.h"
#include "kernels/einsum/einsum.h"
#include "server/server.h"

#include <stdio.h>
#include <string.h>

static const char einsum_plan[] = "/v1/einsum/plan";

/* ---- what the handlers say ------------------------------------------------------------------ */

static td_status get_ops(struct td_call *call, const char *argument)
{
    (void)argument;
    return td_describe_ops(&call->arena, &call->reply, &call->error);
}

static td_status unknown_op(const char *name, struct td_error *err)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    const char *names[64];
    int n = 0;
    for (; n < count && n < (int)(sizeof names / sizeof *names); n++)
        names[n] = ops[n]->name;
    return td_unknown_name(err, TD_UNKNOWN_OP, "op", name, strlen(name), names, n, "/v1/ops");
}

/* Where an op can be planned without data; NULL where it cannot. */
static const char *plan_path(const struct td_op *op)
{
    return op == &td_op_einsum ? einsum_plan : NULL;
}

static td_status get_op(struct td_call *call, const char *argument)
{
    const struct td_op *op = td_op_find(argument, strlen(argument));
    return op ? td_describe_op(op, plan_path(op), &call->arena, &call->reply, &call->error)
              : unknown_op(argument, &call->error);
}

static td_status get_tensors(struct td_call *call, const char *argument)
{
    int count;
    const struct td_tensor_listing *list = td_store_list(call->server->store, &count);
    (void)argument;
    return td_describe_tensors(list, count, &call->arena, &call->reply, &call->error);
}

static td_status get_tensor(struct td_call *call, const char *argument)
{
    const struct td_tensor_listing *found =
        td_store_find(call->server->store, argument, strlen(argument), &call->error);
    return found ? td_describe_tensor(found, &call->arena, &call->reply, &call->error)
                 : TD_TENSOR_NOT_FOUND;
}

static td_status get_problem(struct td_call *call, const char *argument)
{
    const td_status status = td_problem_from_slug(argument, strlen(argument));
    if (status == TD_OK)
        return td_error_set(&call->error, TD_NOT_FOUND, "there is no problem page '%.64s'",
                            argument);
    return td_problem_describe(status, &call->arena, &call->reply, &call->error);
}

static td_status get_health(struct td_call *call, const char *argument)
{
    static const char body[] = "{\"status\":\"alive\"}\n";
    (void)argument;
    td_reply_set(&call->reply, 200, "application/json", body, sizeof body - 1);
    return TD_OK;
}

static td_status get_ready(struct td_call *call, const char *argument)
{
    enum { SIZE = 512 };
    (void)argument;
    if (atomic_load_explicit(&call->server->draining, memory_order_relaxed))
        return td_error_set(&call->error, TD_DRAINING, "the server is stopping");
    char *body = td_arena_alloc(&call->arena, SIZE, 1, &call->error);
    if (!body)
        return TD_MEMORY_EXHAUSTED;
    const struct td_server_memory memory = td_server_memory(call->server);
    const int length =
        snprintf(body, SIZE,
                 "{\"status\":\"ready\",\"memory\":{\"limit\":%llu,\"in_use\":%llu,\"warm\":%llu,"
                 "\"calls\":%llu,"
                 "\"tables\":%llu}}\n",
                 (unsigned long long)memory.buffers.limit,
                 (unsigned long long)memory.buffers.in_use, (unsigned long long)memory.buffers.warm,
                 (unsigned long long)memory.calls, (unsigned long long)memory.tables);
    td_reply_set(&call->reply, 200, "application/json", body, (size_t)length);
    return TD_OK;
}

static td_status plan_einsum(struct td_call *call, const char *argument)
{
    const struct td_config *config = &call->server->config;
    const struct td_plan_limits limits = { .threads = (int)config->workers,
                                           .max_flops = (uint64_t)config->max_flops,
                                           .max_output = (uint64_t)config->max_output,
                                           .memory = (uint64_t)config->memory_limit };
    (void)argument;
    if (call->body_format != TD_FORMAT_JSON)
        return td_error_set(&call->error, TD_UNSUPPORTED_MEDIA_TYPE,
                            "a plan is made from shapes, in a body of application/json");
    td_status status = td_call_check_device(call);
    if (status == TD_OK)
        status = td_call_expand(call);
    if (status != TD_OK)
        return status;
    return td_einsum_plan_answer(call->body, call->body_bytes, &limits, &call->arena,
                                 &call->request, &call->reply, &call->error);
}

/* ---- which handler -------------------------------------------------------------------------- */

/* Enough for any equation over sixteen shapes, and little to do for an I/O thread. */
enum { PLAN_BODY = 64 << 10 };

static const struct {
    const char *path; /* one that ends in '/' takes a name behind it */
    td_handler *handler;
    const struct td_op *op;
    size_t body_limit;
} routes[] = {
    { "/healthz", get_health, NULL, 0 },     { "/readyz", get_ready, NULL, 0 },
    { "/v1/ops", get_ops, NULL, 0 },         { "/v1/ops/", get_op, NULL, 0 },
    { "/v1/tensors", get_tensors, NULL, 0 }, { "/v1/tensors/", get_tensor, NULL, 0 },
    { "/problems/", get_problem, NULL, 0 },  { einsum_plan, plan_einsum, &td_op_einsum, PLAN_BODY },
};

static td_status not_allowed(const char *method, const char *path, const char *allow,
                             struct td_error *err)
{
    td_error_set(err, TD_METHOD_NOT_ALLOWED, "%.32s is not allowed on %.128s; %s is expected",
                 method, path, allow);
    snprintf(err->allow, sizeof err->allow, "%s", allow);
    return TD_METHOD_NOT_ALLOWED;
}

static td_status find_op_route(const char *method, const char *path, const char *name,
                               struct td_route *out, struct td_error *err)
{
    out->op = td_op_find(name, strlen(name));
    if (!out->op)
        return unknown_op(name, err);
    return strcmp(method, "POST") == 0 ? TD_OK : not_allowed(method, path, "POST", err);
}

td_status td_route_find(const char *method, const char *path, struct td_route *out,
                        struct td_error *err)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const size_t length = strlen(routes[i].path);
        const bool takes_name = routes[i].path[length - 1] == '/';
        if (takes_name ? strncmp(path, routes[i].path, length) != 0 || !path[length]
                       : strcmp(path, routes[i].path) != 0)
            continue;
        out->op = routes[i].op;
        out->handler = routes[i].handler;
        out->argument = path + length;
        out->body_limit = routes[i].body_limit;
        if (out->body_limit > 0)
            return strcmp(method, "POST") == 0 ? TD_OK : not_allowed(method, path, "POST", err);
        if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
            return not_allowed(method, path, "GET, HEAD", err);
        return TD_OK;
    }
    if (strncmp(path, "/v1/", 4) == 0 && path[4] && !strchr(path + 4, '/'))
        return find_op_route(method, path, path + 4, out, err);
    return td_error_set(err, TD_NOT_FOUND, "there is nothing at %.200s; GET /v1/ops lists the ops",
                        path);
}
