/* bench_einsum - runs ops as the daemon's workers do, controlled by tests/bench/einsum.py.
 *
 *     bench_einsum [workers]      2 workers by default
 *
 * It prints "ready WORKERS ISA" and then executes lines of standard input:
 *
 *     op NAME                          starts a case and discards the previous one
 *     copy BYTES                       the same for memcpy, in chunks of 256 KiB
 *     attr NAME VALUE
 *     input NAME DTYPE SHAPE FILE      SHAPE as 2,3 ("-": a scalar); repeated names make a list
 *     run FILE                         computes once and writes the outputs to FILE, one after
 *                                      another
 *                                      -> "ran READ WRITTEN FLOPS PEAK ANNOUNCED"
 *     time SECONDS                     computes repeatedly for SECONDS
 *                                      -> "timed CALLS BEST_NS MEDIAN_NS"
 *
 * The reply to any other line is "ok", and to a line that fails "refused REASON". The exit status
 * is 1 if a line failed. A run is one job of the worker pool, and so is a series of timed calls. A
 * call does what the daemon does between decoding a request and encoding the reply: inference
 * (with an einsum's plan), allocating outputs from the warm buffers, the run, and releasing the
 * memory. PEAK is the memory that the run used in addition to its outputs. ANNOUNCED is td_cost's
 * estimate of that memory. */
#include "kernels/op.h"
#include "kernels/op_check.h"
#include "server/memory/buffer_pool.h"
#include "server/observe/clock.h"
#include "server/workers/worker_pool.h"
#include "tests/bench/measure.h"

#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LIST = 64,
    MAX_SAMPLES = 1 << 16,
    SAMPLE_NS = 20000,   /* calls that are shorter are timed in groups */
    LONG_NS = 1000000000 /* longer calls need no warm-up */
};
#define FIRST_BLOCK  ((size_t)32 << 10) /* of a call's arena, as in the daemon */
#define MEMORY_LIMIT ((uint64_t)16 << 30)
#define WARM_LIMIT   ((uint64_t)4 << 30)
#define COPY_GRAIN                                                                                 \
    ((int64_t)256 << 10) /* as fast as one half for each thread, and a late thread costs little */

struct bench {
    int n_workers;
    struct td_buffer_pool *buffers;
    struct td_worker_pool *workers;
    struct td_arena kept;   /* the inputs and attributes of the case */
    const struct td_op *op; /* NULL: a copy of copy_bytes */
    struct td_op_args args;
    struct td_tensor inputs[TD_MAX_INPUTS][MAX_LIST];
    char *from, *to;
    size_t copy_bytes;
    double samples[MAX_SAMPLES];
    _Alignas(64) char first_block[FIRST_BLOCK], scratch_block[FIRST_BLOCK];
};

/* One line of work on a worker. */
struct task {
    struct td_job job; /* first: run casts back */
    struct bench *bench;
    td_status (*work)(struct task *task, struct td_worker *worker);
    sem_t done;
    td_status status;
    struct td_error err;
    FILE *file; /* run: where outputs go */
    struct td_cost cost;
    uint64_t peak;
    double seconds; /* time: duration */
    int64_t calls;
    double best, median;
};

/* ---- one call ---------------------------------------------------------------------------- */

static td_status never_cancelled(void *context, struct td_error *err)
{
    (void)context;
    (void)err;
    return TD_OK;
}

static void copy_range(void *context, int64_t begin, int64_t end)
{
    const struct bench *bench = context;
    memcpy(bench->to + begin, bench->from + begin, (size_t)(end - begin));
}

static td_status copy(struct bench *bench, struct td_exec *exec, struct td_error *err)
{
    return td_exec_for(exec, (int64_t)bench->copy_bytes, COPY_GRAIN, copy_range, bench, err);
}

/* Runs the op once. Results stay in the arena until the caller resets it. The kernel allocates from
 * `scratch`, which is the arena itself in the daemon. */
static td_status call(struct bench *bench, struct td_worker *worker, struct td_arena *arena,
                      struct td_arena *scratch, struct td_error *err)
{
    struct td_pool_exec exec;
    struct td_op_args *args = &bench->args;
    td_pool_exec_init(&exec, worker, scratch, never_cancelled, NULL);
    exec.base.output_limit = MEMORY_LIMIT;
    if (!bench->op)
        return copy(bench, &exec.base, err);
    td_status status = td_op_infer(bench->op, args, arena, err);
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = td_tensor_alloc(&args->outputs[i], arena, err);
    return status == TD_OK ? bench->op->run(args, &exec.base, err) : status;
}

/* ---- on a worker ------------------------------------------------------------------------- */

/* Counts the bytes allocated from the pool. */
struct counted {
    struct td_memory base; /* first: take casts back */
    struct td_memory *pool;
    uint64_t bytes;
};

static struct td_buffer *take_counted(struct td_memory *self, size_t bytes, struct td_error *err)
{
    struct counted *counted = (struct counted *)(void *)self;
    counted->bytes += bytes;
    return counted->pool->take(counted->pool, bytes, err);
}

static td_status write_outputs(const struct td_op_args *args, FILE *file, struct td_error *err)
{
    for (int i = 0; i < args->n_outputs; i++)
        if (fwrite(args->outputs[i].data, 1, args->outputs[i].bytes, file) !=
            args->outputs[i].bytes)
            return td_error_set(err, TD_INTERNAL, "the outputs cannot be written: %s",
                                strerror(errno));
    return TD_OK;
}

/* A kernel releases nothing before the call ends, so the sum of its allocations is its peak. */
static td_status run_once(struct task *task, struct td_worker *worker)
{
    struct bench *bench = task->bench;
    struct td_memory *pool = td_buffer_pool_memory(bench->buffers);
    struct counted counted = { .base = { take_counted }, .pool = pool };
    struct td_arena arena, scratch;
    td_arena_init(&arena, bench->first_block, FIRST_BLOCK, pool);
    td_arena_init(&scratch, bench->scratch_block, FIRST_BLOCK, &counted.base);
    td_status status = call(bench, worker, &arena, &scratch, &task->err);
    if (status == TD_OK && bench->op) {
        task->cost = bench->op->cost(&bench->args);
        status = write_outputs(&bench->args, task->file, &task->err);
    }
    task->peak = counted.bytes;
    td_arena_reset(&scratch);
    td_arena_reset(&arena);
    return status;
}

/* Returns the time of `calls` calls in nanoseconds, or a negative number if a call failed. */
static double time_calls(struct task *task, struct td_worker *worker, int64_t calls)
{
    struct bench *bench = task->bench;
    const int64_t begun = td_now_ns();
    for (int64_t i = 0; i < calls; i++) {
        struct td_arena arena;
        td_arena_init(&arena, bench->first_block, FIRST_BLOCK,
                      td_buffer_pool_memory(bench->buffers));
        task->status = call(bench, worker, &arena, &arena, &task->err);
        td_arena_reset(&arena);
        if (task->status != TD_OK)
            return -1;
    }
    return (double)(td_now_ns() - begun);
}

static td_status run_repeatedly(struct task *task, struct td_worker *worker)
{
    double *samples = task->bench->samples;
    /* The first call wakes threads and fills caches, so it does not count. The second call
     * determines the number of calls in a sample. */
    const double first = time_calls(task, worker, 1);
    const double one = first < 0 || first > LONG_NS ? first : time_calls(task, worker, 1);
    if (one < 0)
        return task->status;
    if (first > LONG_NS) {
        task->calls = 1;
        task->best = task->median = first;
        return TD_OK;
    }
    const int64_t each = one < SAMPLE_NS ? (int64_t)(SAMPLE_NS / (one + 1)) + 1 : 1;
    const int64_t end = td_now_ns() + (int64_t)(task->seconds * 1e9);
    int n = 0;
    do {
        const double elapsed = time_calls(task, worker, each);
        if (elapsed < 0)
            return task->status;
        samples[n++] = elapsed / (double)each;
    } while (n < MAX_SAMPLES && td_now_ns() < end);
    task->calls = n * each;
    task->median = median(samples, n);
    task->best = samples[0]; /* median sorts them */
    return TD_OK;
}

static void on_worker(struct td_job *job, struct td_worker *worker)
{
    struct task *task = (struct task *)(void *)job;
    task->status = task->work(task, worker);
    sem_post(&task->done);
}

static void never_dropped(struct td_job *job, td_status why)
{
    (void)job;
    (void)why;
    abort(); /* nothing expires, and the pool ends only after its last job */
}

static td_status submit(struct bench *bench, struct task *task)
{
    task->bench = bench;
    task->job = (struct td_job){
        .cost_ns = 1000000000, .deadline_ns = TD_NEVER, .run = on_worker, .drop = never_dropped
    };
    if (!td_worker_pool_reserve(bench->workers, NULL))
        return td_error_set(&task->err, TD_QUEUE_FULL, "the queue is full");
    td_worker_pool_submit(bench->workers, &task->job);
    while (sem_wait(&task->done) != 0)
        ; /* interrupted by a signal */
    return task->status;
}

/* ---- lines ------------------------------------------------------------------------------- */

static bool refused(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool refused(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("refused ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    return false;
}

static bool ok(void)
{
    puts("ok");
    return true;
}

static void discard(struct bench *bench)
{
    td_arena_reset(&bench->kept);
    td_buffer_pool_trim(bench->buffers, INT64_MAX);
    memset(&bench->args, 0, sizeof bench->args);
    bench->op = NULL;
    bench->copy_bytes = 0;
}

static bool begin_op(struct bench *bench, const char *name)
{
    discard(bench);
    bench->op = td_op_named(name, strlen(name));
    if (!bench->op)
        return refused("there is no op %s", name);
    td_op_set_defaults(bench->op, &bench->args);
    for (int i = 0; i < bench->op->n_inputs; i++)
        bench->args.inputs[i].tensors = bench->inputs[i];
    return ok();
}

static bool begin_copy(struct bench *bench, const char *text)
{
    struct td_error err;
    discard(bench);
    const size_t bytes = strtoull(text, NULL, 10);
    bench->from = td_arena_alloc(&bench->kept, bytes, 1, &err);
    bench->to = td_arena_alloc(&bench->kept, bytes, 1, &err);
    if (!bench->from || !bench->to)
        return refused("%s", err.message);
    memset(bench->from, 1, bytes);
    memset(bench->to, 2, bytes);
    bench->copy_bytes = bytes;
    return ok();
}

static bool set_attr(struct bench *bench, const char *name, const char *value)
{
    for (int i = 0; bench->op && i < bench->op->n_attrs; i++) {
        const struct td_attr_spec *attr = &bench->op->attrs[i];
        unsigned char *place = bench->args.attrs + attr->offset;
        struct td_error err;
        if (strcmp(attr->name, name) != 0)
            continue;
        if (attr->kind == TD_ATTR_TEXT) {
            const char *text = td_arena_text(&bench->kept, value, strlen(value), &err);
            if (!text)
                return refused("%s", err.message);
            memcpy(place, &text, sizeof text);
        } else {
            const int64_t number = strtoll(value, NULL, 10);
            memcpy(place, &number, sizeof number);
        }
        bench->args.attrs_set |= (uint32_t)1 << i;
        return ok();
    }
    return refused("there is no attribute %s", name);
}

static struct td_shape read_shape(const char *text)
{
    struct td_shape shape = { .rank = 0 };
    if (strcmp(text, "-") == 0)
        return shape;
    for (char *end; shape.rank < TD_MAX_RANK; text = end + 1) {
        shape.dim[shape.rank++] = strtoll(text, &end, 10);
        if (*end != ',')
            break;
    }
    return shape;
}

static td_status read_tensor(struct td_tensor *tensor, struct td_arena *arena, const char *path,
                             struct td_error *err)
{
    const td_status status = td_tensor_alloc(tensor, arena, err);
    if (status != TD_OK)
        return status;
    FILE *file = fopen(path, "rb");
    const bool whole = file && fread(tensor->data, 1, tensor->bytes, file) == tensor->bytes;
    if (file)
        fclose(file);
    return whole ? TD_OK : td_error_set(err, TD_INTERNAL, "%s cannot be read", path);
}

static bool add_input(struct bench *bench, const char *name, const char *dtype_name,
                      const char *shape_text, const char *path)
{
    const struct td_shape shape = read_shape(shape_text);
    td_dtype dtype;
    if (!td_dtype_from_name(dtype_name, strlen(dtype_name), &dtype))
        return refused("there is no dtype %s", dtype_name);
    for (int i = 0; bench->op && i < bench->op->n_inputs; i++) {
        struct td_operand *operand = &bench->args.inputs[i];
        struct td_error err;
        if (strcmp(bench->op->inputs[i].name, name) != 0)
            continue;
        if (operand->count == MAX_LIST)
            return refused("%s has more than %d tensors", name, MAX_LIST);
        struct td_tensor *tensor = &operand->tensors[operand->count++];
        memset(tensor, 0, sizeof *tensor);
        if (td_tensor_describe(tensor, name, dtype, &shape, &err) != TD_OK ||
            read_tensor(tensor, &bench->kept, path, &err) != TD_OK)
            return refused("%s", err.message);
        return ok();
    }
    return refused("there is no input %s", name);
}

static bool run_line(struct bench *bench, struct task *task, const char *path)
{
    task->work = run_once;
    task->cost =
        (struct td_cost){ .bytes_read = bench->copy_bytes, .bytes_written = bench->copy_bytes };
    task->file = fopen(path, "wb");
    if (!task->file)
        return refused("%s cannot be opened: %s", path, strerror(errno));
    td_status status = submit(bench, task);
    if (fclose(task->file) != 0 && status == TD_OK)
        status = td_error_set(&task->err, TD_INTERNAL, "%s: %s", path, strerror(errno));
    if (status != TD_OK)
        return refused("%s: %s", td_status_name(status), task->err.message);
    const struct td_cost *cost = &task->cost;
    /* The scratch of each thread is aligned to a cache line. */
    const uint64_t each = (cost->workspace_per_thread + 63) / 64 * 64;
    printf("ran %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", cost->bytes_read,
           cost->bytes_written, cost->flops, task->peak,
           cost->workspace + each * (uint64_t)(cost->single_threaded ? 1 : bench->n_workers));
    return true;
}

static bool time_line(struct bench *bench, struct task *task, const char *seconds)
{
    task->work = run_repeatedly;
    task->seconds = strtod(seconds, NULL);
    const td_status status = submit(bench, task);
    if (status != TD_OK)
        return refused("%s: %s", td_status_name(status), task->err.message);
    printf("timed %" PRId64 " %.1f %.1f\n", task->calls, task->best, task->median);
    return true;
}

static bool run_command(struct bench *bench, struct task *task, char *line)
{
    enum { MAX_WORDS = 5 };
    const char *words[MAX_WORDS];
    char *rest = line;
    int n = 0;
    while (n < MAX_WORDS && (words[n] = strsep(&rest, " \n")) && *words[n])
        n++;
    if (n == 2 && strcmp(words[0], "op") == 0)
        return begin_op(bench, words[1]);
    if (n == 2 && strcmp(words[0], "copy") == 0)
        return begin_copy(bench, words[1]);
    if (n == 3 && strcmp(words[0], "attr") == 0)
        return set_attr(bench, words[1], words[2]);
    if (n == 5 && strcmp(words[0], "input") == 0)
        return add_input(bench, words[1], words[2], words[3], words[4]);
    if (n == 2 && strcmp(words[0], "run") == 0)
        return run_line(bench, task, words[1]);
    if (n == 2 && strcmp(words[0], "time") == 0)
        return time_line(bench, task, words[1]);
    return refused("unknown command");
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static struct task task;
    char *line = NULL;
    size_t size = 0;
    bench.n_workers = argc > 1 ? atoi(argv[1]) : 2;
    bench.buffers = td_buffer_pool_new(MEMORY_LIMIT, WARM_LIMIT);
    bench.workers = bench.n_workers > 0 ? td_worker_pool_new(bench.n_workers, 1) : NULL;
    if (!bench.buffers || !bench.workers || sem_init(&task.done, 0, 0) != 0) {
        fprintf(stderr, "bench_einsum: no memory or threads for %d workers\n", bench.n_workers);
        return 1;
    }
    td_arena_init(&bench.kept, NULL, 0, td_buffer_pool_memory(bench.buffers));
    printf("ready %d %s\n", bench.n_workers, td_isa_name(td_isa_resolve(TD_ISA_AUTO)));
    fflush(stdout);
    bool all_succeeded = true;
    while (getline(&line, &size, stdin) > 0) {
        all_succeeded &= run_command(&bench, &task, line);
        fflush(stdout);
    }
    free(line);
    discard(&bench);
    td_worker_pool_free(bench.workers);
    td_buffer_pool_free(bench.buffers);
    sem_destroy(&task.done);
    return all_succeeded ? 0 : 1;
}
