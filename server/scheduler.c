#include "server/scheduler.h"

#include "server/clock.h"
#include "server/server.h"

/* What things cost, in nanoseconds; from tests/bench, rounded up. An estimate only has to tell tiny
 * from not tiny, so one set of figures serves all machines. */
enum {
    JSON_FIXED = 1500,    /* one JSON request or answer, however small */
    JSON_IN_PER_BYTE = 3, /* decoding */
    JSON_OUT_PER_BYTE = 2,
    BINARY_FIXED = 500,
    BYTES_PER_NS = 8, /* moving data in cache */
    RANDOM_READ = 20, /* a row from somewhere in a table */
    FLOPS_PER_NS = 4, /* of a few, packing and tails included */
    FEW_FLOPS = 1000000,
    MANY_FLOPS_PER_NS = 16, /* between 3 (complex, plain C) and 100 (float32, AVX-512) */
    INFLATE_FIXED = 20000,  /* and the memory for zlib's window */
    INFLATE_PER_BYTE = 20   /* of the compressed body: expanding it and reading what comes out */
};

enum { LONG_WAIT_NS = 1000000 };

static uint64_t decode_cost(const struct td_call *call)
{
    if (call->encoded) /* never for an I/O thread, since it may be anything once it is expanded */
        return INFLATE_FIXED + INFLATE_PER_BYTE * (uint64_t)call->body_bytes;
    if (call->body_format == TD_FORMAT_JSON)
        return JSON_FIXED + JSON_IN_PER_BYTE * (uint64_t)call->body_bytes;
    return BINARY_FIXED + (uint64_t)call->body_bytes / BYTES_PER_NS;
}

/* Of admitting a decoded call: some ops look at values to tell the shape of their outputs, and
 * values that an op reads are copied where they are not aligned, as a resident table may not be. */
static uint64_t admit_cost(const struct td_call *call)
{
    uint64_t bytes = 0;
    for (int i = 0; i < call->op->n_inputs; i++) {
        const struct td_input_spec *spec = &call->op->inputs[i];
        const struct td_operand *operand = &call->request.args.inputs[i];
        for (int j = 0; j < operand->count; j++) {
            const struct td_tensor *tensor = &operand->tensors[j];
            if (spec->sets_shape || (spec->reads_values && !td_tensor_is_aligned(tensor)))
                bytes += tensor->bytes;
        }
    }
    return bytes / BYTES_PER_NS;
}

static uint64_t flops_cost(uint64_t flops)
{
    const uint64_t few = flops < FEW_FLOPS ? flops : FEW_FLOPS;
    return few / FLOPS_PER_NS + (flops - few) / MANY_FLOPS_PER_NS;
}

/* Of an admitted call. No sum overflows: bytes and rows are those of tensors that are there or have
 * been found to fit, and a sixteenth of any number of FLOPs leaves room for them. */
static uint64_t compute_cost(const struct td_call *call)
{
    const struct td_cost cost = call->op->cost(&call->request.args);
    return (cost.bytes_read + cost.bytes_written) / BYTES_PER_NS + cost.random_reads * RANDOM_READ +
           flops_cost(cost.flops);
}

/* The same. */
static uint64_t encode_cost(const struct td_call *call)
{
    if (call->reply_format == TD_FORMAT_JSON)
        return JSON_FIXED + JSON_OUT_PER_BYTE * (uint64_t)call->encoded_bound;
    return BINARY_FIXED + (uint64_t)call->encoded_bound / BYTES_PER_NS;
}

static td_verdict answer(struct td_call *call, td_status status)
{
    if (status != TD_OK)
        td_call_refuse(call);
    return TD_ANSWERED;
}

static td_status late(struct td_call *call, const char *where)
{
    if (call->times.lap <= call->deadline_ns)
        return TD_OK;
    return td_error_set(&call->error, TD_DEADLINE_EXCEEDED, "the deadline passed %s", where);
}

/* At the end of admission, before the call waits or is computed: what the time went to until now is
 * neither, and one that is late already need not begin. */
static td_status read_in_time(struct td_call *call)
{
    const int64_t now = td_now_ns();
    call->times.compute += now - call->times.lap;
    call->times.lap = now;
    return late(call, "while the request was being read and checked");
}

/* Counted as asleep before it looks, so that whoever sets `refusing` and then sees nobody asleep
 * knows that nobody will be. */
static td_verdict enqueue(struct td_call *call, uint64_t cost_ns)
{
    struct td_server *server = call->server;
    atomic_fetch_add(&server->asleep, 1);
    if (atomic_load(&server->refusing)) {
        td_error_set(&call->error, TD_DRAINING, "the server is stopping");
    } else if (!td_worker_pool_reserve(server->workers)) {
        td_error_set(&call->error, TD_QUEUE_FULL,
                     "%lld requests wait already, the most this server allows",
                     (long long)server->config.queue_limit);
        call->error.retry_after_s = td_worker_pool_retry_after_s(server->workers);
    } else {
        call->job.cost_ns = cost_ns;
        call->job.deadline_ns = call->deadline_ns;
        return TD_QUEUE;
    }
    atomic_fetch_sub(&server->asleep, 1); /* from here on the workers may be gone */
    return answer(call, call->error.status);
}

td_verdict td_schedule(struct td_call *call)
{
    const uint64_t limit = (uint64_t)call->server->config.inline_limit_us * 1000;
    uint64_t cost = decode_cost(call);
    td_status status = late(call, "before the request had arrived");
    if (status != TD_OK)
        return answer(call, status);
    if (cost > limit || call->encoded)
        return enqueue(call, cost);
    status = td_call_decode(call);
    if (status != TD_OK)
        return answer(call, status);
    cost += admit_cost(call);
    if (cost > limit)
        return enqueue(call, cost);
    status = td_call_admit(call);
    if (status != TD_OK)
        return answer(call, status);
    cost += compute_cost(call) + encode_cost(call);
    if (cost > limit) {
        status = read_in_time(call);
        return status == TD_OK ? enqueue(call, cost) : answer(call, status);
    }
    status = td_call_compute(call, NULL);
    if (status == TD_OK)
        status = td_call_encode(call);
    return answer(call, status);
}

/* ---- on a worker ---------------------------------------------------------------------------- */

/* The last thing a worker does with a call. */
static void finish(struct td_call *call)
{
    struct td_server *server = call->server;
    call->finished(call);
    atomic_fetch_sub(&server->asleep, 1);
}

static void left_queue(struct td_call *call)
{
    const int64_t now = td_now_ns();
    call->times.queue += now - call->times.lap;
    call->times.lap = now;
}

/* Decodes and admits what the I/O thread left to the workers; only then is it known what the rest
 * will cost. */
static td_status prepare(struct td_call *call, struct td_worker *worker, bool *put_back)
{
    td_status status = late(call, "while the request waited for a worker");
    if (status != TD_OK || call->admitted)
        return status;
    if (!call->decoded)
        status = td_call_decode(call);
    if (status == TD_OK)
        status = td_call_admit(call);
    if (status == TD_OK)
        status = read_in_time(call);
    if (status == TD_OK)
        *put_back =
            td_worker_pool_put_back(worker, &call->job, compute_cost(call) + encode_cost(call));
    return status;
}

static void run(struct td_job *job, struct td_worker *worker)
{
    struct td_call *call = (struct td_call *)(void *)job;
    bool put_back = false;
    left_queue(call);
    /* Who waited less has hardly left, and asking the kernel costs a tenth of a small job. */
    call->gone = call->times.queue > LONG_WAIT_NS && td_call_client_left(call);
    if (!call->gone) {
        td_status status = prepare(call, worker, &put_back);
        if (put_back)
            return;
        if (status == TD_OK)
            status = td_call_compute(call, worker);
        if (status == TD_OK)
            status = td_call_encode(call);
        answer(call, status);
    }
    finish(call);
}

static void drop(struct td_job *job, td_status why)
{
    struct td_call *call = (struct td_call *)(void *)job;
    if (why == TD_DRAINING)
        td_error_set(&call->error, why, "the server stops and this request was still waiting");
    else
        td_error_set(&call->error, why,
                     "the deadline passed while the request waited for a worker");
    left_queue(call);
    td_call_refuse(call);
    finish(call);
}

void td_schedule_submit(struct td_call *call)
{
    call->job.run = run;
    call->job.drop = drop;
    td_worker_pool_submit(call->server->workers, &call->job);
}
