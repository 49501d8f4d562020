#include "tests/conformance/call.h"

#include "api/codec.h"
#include "api/message/attrs.h"
#include "api/message/message.h"
#include "api/message/problem.h"
#include "api/oip/oip.h"
#include "api/plan.h"
#include "kernels/op_check.h"
#include "kernels/op_rows.h"
#include "kernels/split/split.h"
#include "tests/api/request.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static struct {
    bool counting;
    struct failing failing;
    int tried, taken;
} memory;

static bool fails(struct td_error *err)
{
    if (!memory.counting)
        return false;
    memory.tried++;
    const int from = memory.failing.from;
    if (from == 0 || memory.tried < from || (memory.tried > from && !memory.failing.all))
        return false;
    td_error_set(err, TD_MEMORY_EXHAUSTED, "this allocation fails");
    return true;
}

void *__real_td_arena_alloc(struct td_arena *arena, size_t count, size_t size,
                            struct td_error *err);
void *__wrap_td_arena_alloc(struct td_arena *arena, size_t count, size_t size,
                            struct td_error *err);
void *__wrap_td_arena_alloc(struct td_arena *arena, size_t count, size_t size, struct td_error *err)
{
    return fails(err) ? NULL : __real_td_arena_alloc(arena, count, size, err);
}

char *__real_td_arena_text(struct td_arena *arena, const char *text, size_t length,
                           struct td_error *err);
char *__wrap_td_arena_text(struct td_arena *arena, const char *text, size_t length,
                           struct td_error *err);
char *__wrap_td_arena_text(struct td_arena *arena, const char *text, size_t length,
                           struct td_error *err)
{
    return fails(err) ? NULL : __real_td_arena_text(arena, text, length, err);
}

/* A buffer that is counted until it is released. */
struct counted {
    struct td_buffer base; /* first: release casts back */
    struct td_buffer *inner;
};

static void release(struct td_buffer *base)
{
    struct counted *counted = (struct counted *)(void *)base;
    memory.taken--;
    td_buffer_unref(counted->inner);
    free(counted);
}

static struct td_buffer *take(struct td_memory *self, size_t bytes, struct td_error *err)
{
    (void)self;
    if (fails(err))
        return NULL;
    struct td_buffer *inner = td_memory_heap()->take(td_memory_heap(), bytes, err);
    struct counted *counted = inner ? malloc(sizeof *counted) : NULL;
    EXPECT(counted, "no memory");
    counted->inner = inner;
    td_buffer_init(&counted->base, inner->data, bytes, release);
    memory.taken++;
    return &counted->base;
}

static struct td_memory counted_memory = { take };

/* ---- the steps ------------------------------------------------------------------------------- */

struct run {
    const struct call *call;
    char *body; /* decoders may change it */
    struct td_arena arena;
    struct td_request request;
    struct td_reply reply;
    struct td_error err;
};

static td_status decode_oip(struct run *run)
{
    const struct body *body = run->call->body;
    const struct td_oip_source source = { .json_bytes = body->json_bytes == SIZE_MAX
                                                            ? TD_OIP_NO_HEADER
                                                            : body->json_bytes };
    uint64_t timeout_us;
    return td_oip_decode(run->body, body->bytes.length, &source, &run->arena, &run->request,
                         &timeout_us, &run->err);
}

static td_format format_of(enum form form)
{
    switch (form) {
    case FORM_SAFETENSORS:
        return TD_FORMAT_SAFETENSORS;
    case FORM_OIP:
    case FORM_OIP_BINARY:
        return TD_FORMAT_OIP;
    default:
        return TD_FORMAT_JSON;
    }
}

static td_status decode(struct run *run)
{
    const struct body *body = run->call->body;
    const td_format format = format_of(run->call->form);
    for (int i = 0; i < body->n_attrs; i++) {
        const struct text name = body->attrs[i].name, value = body->attrs[i].value;
        bool known = true;
        const td_status status = td_attrs_set_text(&run->request, name.at, name.length, value.at,
                                                   value.length, &run->arena, &known, &run->err);
        if (status != TD_OK)
            return status;
        EXPECT(known, "%.*s is no attribute", (int)name.length, name.at);
    }
    return format == TD_FORMAT_OIP ? decode_oip(run)
                                   : td_codec_decode(format, run->body, body->bytes.length, NULL,
                                                     &run->arena, &run->request, &run->err);
}

static td_status alloc_outputs(struct run *run, struct td_op_args *args)
{
    for (int i = 0; i < args->n_outputs; i++) {
        struct td_tensor *output = &args->outputs[i];
        const td_status status = td_tensor_alloc(output, &run->arena, &run->err);
        if (status != TD_OK)
            return status;
        memset(output->data, 0xa5, output->bytes); /* as in a buffer that is used again */
    }
    return TD_OK;
}

/* ---- a table in parts ---- */

struct owners {
    const int64_t *begin, *rows; /* of the parts, and the row of each query, -1 for none */
    int n_parts;
};

/* As if the keys had been distributed by a hash, also one without a row belongs to a part. */
static int owner_of(const void *context, const struct td_tensor *queries, int64_t query)
{
    const struct owners *owners = context;
    int part = 0;
    (void)queries;
    if (owners->rows[query] < 0)
        return (int)(query % owners->n_parts);
    while (part + 1 < owners->n_parts && owners->begin[part + 1] <= owners->rows[query])
        part++;
    return part;
}

/* Finds the queries among the keys of all rows. */
static const int64_t *find_queries(struct run *run, struct td_exec *exec)
{
    const struct td_op *op = run->call->op, *find = td_op_named("find", strlen("find"));
    const struct td_op_args *call = &run->request.args;
    struct td_op_args args = {
        .inputs = { call->inputs[td_op_rows_input(op, TD_ROW_PART_PER_ROW)],
                    call->inputs[td_op_rows_input(op, TD_ROW_PART_QUERY)] },
    };
    if (td_op_infer(find, &args, &run->arena, &run->err) != TD_OK ||
        alloc_outputs(run, &args) != TD_OK || find->run(&args, exec, &run->err) != TD_OK)
        return NULL;
    return args.outputs[0].data;
}

static td_status compute_parts(struct run *run, struct td_exec *exec)
{
    const struct td_op *op = run->call->op;
    struct td_op_args *args = &run->request.args;
    const int n = run->call->parts;
    const bool by_key = op->inputs[td_op_rows_input(op, TD_ROW_PART_QUERY)].role == TD_ROLE_KEY;
    const int64_t n_rows = args->inputs[0].tensors->shape.dim[0];
    struct td_split split;
    int64_t begin[MOST_PARTS + 1];
    struct owners owners = { begin, NULL, n };
    for (int p = 0; p <= n; p++)
        begin[p] = n_rows * p / n;
    if (by_key && !(owners.rows = find_queries(run, exec)))
        return run->err.status;
    td_status status = td_split_call(op, args, begin, n, by_key ? owner_of : NULL, &owners, exec,
                                     &split, &run->err);
    for (int p = 0; p < n && status == TD_OK; p++) {
        status = alloc_outputs(run, &split.parts[p].args);
        if (status == TD_OK)
            status = op->run(&split.parts[p].args, exec, &run->err);
    }
    return status == TD_OK ? td_split_join(&split, args, exec, &run->err) : status;
}

static td_status compute(struct run *run)
{
    struct td_op_args *args = &run->request.args;
    struct td_exec serial;
    const td_status status = alloc_outputs(run, args);
    if (status != TD_OK)
        return status;
    td_exec_serial(&serial, &run->arena);
    struct td_exec *exec = run->call->exec ? run->call->exec : &serial;
    exec->arena = &run->arena;
    exec->hash_seed = 0x9e3779b97f4a7c15u;
    exec->isa = run->call->isa;
    return run->call->parts > 0 && td_split_possible(run->call->op, args)
               ? compute_parts(run, exec)
               : run->call->op->run(args, exec, &run->err);
}

/* Clients trust the dtypes in the description of the op. */
static void expect_described(const struct td_op *op, const struct td_op_args *args)
{
    for (int i = 0; i < args->n_outputs; i++) {
        const struct td_output_spec *spec = &op->outputs[op->outputs[0].list ? 0 : i];
        EXPECT(td_op_output_dtypes(op, spec) >> args->outputs[i].dtype & 1,
               "%s is not among the dtypes of %s", td_dtype_info(args->outputs[i].dtype)->name,
               spec->name);
    }
}

/* As the daemon does before it computes. */
static td_status admit(struct run *run, size_t *bound)
{
    const td_format format = format_of(run->call->form);
    td_status status = td_op_infer(run->call->op, &run->request.args, &run->arena, &run->err);
    if (status == TD_OK)
        expect_described(run->call->op, &run->request.args);
    if (status == TD_OK)
        status = td_codec_can_encode(format, &run->request, &run->err);
    if (status == TD_OK)
        EXPECT(td_codec_encoded_bound(format, &run->request, bound), "there is no bound");
    return status;
}

static td_status answer_op(struct run *run)
{
    size_t bound = 0;
    const td_format format = format_of(run->call->form);
    td_status status = decode(run);
    if (status == TD_OK)
        status = admit(run, &bound);
    if (status == TD_OK)
        status = compute(run);
    if (status == TD_OK) /* again, since strings are known only now */
        EXPECT(td_codec_encoded_bound(format, &run->request, &bound), "there is no bound");
    if (status == TD_OK)
        status = td_codec_encode(format, &run->request, &run->arena, &run->reply, &run->err);
    if (status == TD_OK)
        EXPECT(td_reply_bytes(&run->reply) <= bound, "%zu bytes, the bound is %zu",
               td_reply_bytes(&run->reply), bound);
    return status;
}

static td_status answer_plan(struct run *run)
{
    const struct td_plan_limits limits = { .threads = 2,
                                           .max_output = INT64_MAX,
                                           .memory = INT64_MAX };
    return td_plan_reply(run->body, run->call->body->bytes.length, &limits, &run->arena,
                         &run->request, &run->reply, &run->err);
}

static td_status answer(struct run *run)
{
    const struct call *call = run->call;
    td_request_init(&run->request, call->op);
    const td_status status = call->form == FORM_PLAN ? answer_plan(run) : answer_op(run);
    if (status == TD_OK)
        return status;
    EXPECT(status == run->err.status, "the status is %s, that of the error %s",
           td_status_name(status), td_status_name(run->err.status));
    memset(&run->reply, 0, sizeof run->reply);
    if (format_of(call->form) == TD_FORMAT_OIP)
        td_oip_problem(&run->err, call->op->name, call->op->name, NULL, &run->arena, &run->reply);
    else
        td_problem_write(&run->err, call->op->name, NULL, &run->arena, &run->reply);
    return status;
}

static struct text copy_reply(const struct td_reply *reply, struct td_arena *arena)
{
    struct td_error err;
    const size_t bytes = td_reply_bytes(reply);
    char *copy = td_arena_alloc(arena, bytes, 1, &err), *to = copy;
    EXPECT(copy, "%s", err.message);
    for (int i = 0; i < reply->n_chunks; i++) {
        if (reply->chunks[i].size > 0)
            memcpy(to, reply->chunks[i].data, reply->chunks[i].size);
        to += reply->chunks[i].size;
    }
    return (struct text){ copy, bytes };
}

void call_answer(const struct call *call, struct failing failing, struct td_arena *arena,
                 struct answer *out)
{
    const struct text bytes = call->body->bytes;
    /* Bytes after the body would change its numbers if they were read. */
    struct run run = { .call = call, .body = padded_copy(bytes.at, bytes.length, '1') };
    td_arena_init(&run.arena, NULL, 0, &counted_memory);
    memory.failing = failing;
    memory.tried = memory.taken = 0;
    memory.counting = true;
    out->status = answer(&run);
    memory.counting = false;
    out->allocations = memory.tried;
    out->http_status = run.reply.http_status;
    out->content_type = run.reply.content_type;
    out->body = copy_reply(&run.reply, arena);
    out->json_bytes = SIZE_MAX;
    for (int i = 0; i < run.reply.n_headers; i++)
        if (strcmp(run.reply.headers[i].name, "Inference-Header-Content-Length") == 0)
            out->json_bytes = strtoull(run.reply.headers[i].value, NULL, 10);
    td_arena_reset(&run.arena);
    free(run.body);
    EXPECT(memory.taken == 0, "%d buffers are still held", memory.taken);
}
