/* test_device_contract.c - checks a device against the contract of gpu/device.h and the results of
 * kernels/.
 *
 *   test_device_contract [WORD]       only the cases whose description contains WORD, and nothing
 *                                     else: compute-sanitizer, which runs a family of kernels so,
 *                                     takes long for each
 *   test_device_contract --sizes      only a table above 2^32 bytes and more rows than one grid
 *   test_device_contract --fault      only what follows a kernel that faults; the others begin it
 *                                     as a process of its own, since a fault may end all that a
 *                                     process has on a GPU
 *
 * TD_TEST_DEVICE is the device's name for td_device_load ("reference" if it is not set),
 * TD_TEST_DEVICE_OPTIONS its options. On a machine without a GPU, a CUDA plugin that loads but
 * opens no device is skipped: the last line begins so, and the exit status is 77. Everything else
 * that does not open has failed: a plugin that does not load, any reason on a machine with a GPU,
 * and with TD_TEST_DEVICE_EXPECTED=1. Needs only libc, so that it runs on a GPU machine without
 * other packages. */
#include "gpu/loader/loader.h"
#include "kernels/cast/cast.h"
#include "kernels/einsum/einsum.h"
#include "kernels/op_check.h"
#include "kernels/search/search.h"
#include "tests/gpu/device_call.h"
#include "tests/gpu/no_device.h"

#include <sys/wait.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct td_device_api *api;
static struct td_device_options options = { .text = "" };
static struct td_error err;

#define FIRST_BLOCK ((size_t)1 << 20)

/* One in how many cases runs alone, and together with others. Fewer under sanitizers: the kernels
 * of the emulation are not instrumented, those of the reference device have tests of their own, and
 * what calls them does the same for every dtype. No common divisor with the numbers of dtypes,
 * dtypes of indices and bounds policies, so that all of them occur. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY_ALONE = 7, EVERY_TOGETHER = 11 };
#else
enum { EVERY_ALONE = 1, EVERY_TOGETHER = 3 };
#endif

/* ---- cases ----------------------------------------------------------------------------------- */

/* Runs every `every`th case, `window` launches at a time, on n_streams streams. */
struct schedule {
    struct fixture *fixture;
    struct td_arena arena;
    const char *word;
    int window, n_streams, every;
    int64_t n_seen;
    struct launch launches[MAX_IN_FLIGHT];
    int n;
    const char *op;       /* of the current cases */
    struct checks before; /* at its first case */
};

/* Waits for all launches in flight and checks their results. */
static void finish(struct schedule *schedule)
{
    struct fixture *fixture = schedule->fixture;
    bool fine = true;
    for (int i = 0; i < schedule->n_streams; i++)
        fine = synchronize(fixture, fixture->streams[i], "a stream with cases") && fine;
    for (int i = 0; fine && i < schedule->n; i++)
        launch_check(fixture, &schedule->launches[i], &schedule->arena);
    schedule->n = 0;
    fixture->used = 0;
}

/* Prints the counts of the previous op. */
static void begin_op(struct schedule *schedule, const char *next)
{
    if (schedule->op)
        printf("%-26s %d at a time: %ld checks passed, %ld failed\n", schedule->op,
               schedule->window, checks.passed - schedule->before.passed,
               checks.failed - schedule->before.failed);
    schedule->op = next;
    schedule->before = checks;
}

/* Tries again after the launches in flight if the memory was full. */
static void submit_case(struct schedule *schedule, const struct device_case *one)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        int n = schedule->n;
        struct td_device_stream *stream = schedule->fixture->streams[n % schedule->n_streams];
        if (launch_submit(schedule->fixture, stream, n, one, &schedule->arena,
                          &schedule->launches[n])) {
            schedule->n++;
            return;
        }
        finish(schedule);
    }
    check(false, "%s: fits into the memory", one->says);
}

static void run_case(void *context, const struct device_case *one)
{
    struct schedule *schedule = context;
    bool wanted = !schedule->word || strstr(one->says, schedule->word);
    if (wanted && schedule->n_seen++ % schedule->every == 0) {
        if (!schedule->op || strcmp(schedule->op, one->op->name) != 0) {
            finish(schedule);
            begin_op(schedule, one->op->name);
        }
        submit_case(schedule, one);
    }
    if (schedule->n == schedule->window)
        finish(schedule);
    if (schedule->n == 0)
        td_arena_reset(&schedule->arena);
}

typedef void cases_fn(struct td_arena *arena, device_case_fn *fn, void *context);

static void run_cases(struct fixture *fixture, cases_fn *cases, const char *word, int window,
                      int n_streams, int every)
{
    void *block = malloc(FIRST_BLOCK);
    struct schedule *schedule = calloc(1, sizeof(*schedule));
    if (!check(block && schedule, "no memory"))
        exit(1);
    *schedule = (struct schedule){
        .fixture = fixture, .word = word, .window = window, .n_streams = n_streams, .every = every
    };
    td_arena_init(&schedule->arena, block, FIRST_BLOCK, td_memory_heap());
    cases(&schedule->arena, run_case, schedule);
    finish(schedule);
    begin_op(schedule, NULL);
    td_arena_reset(&schedule->arena);
    free(schedule);
    free(block);
}

static void print_unsupported(const struct fixture *fixture)
{
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (fixture->unsupported[i] > 0)
            printf("not supported by the device: %ld cases of %s\n", fixture->unsupported[i],
                   td_dtype_info((td_dtype)i)->name);
    for (int i = 0; i < TD_DTYPE_COUNT && strcmp(api->kind, "reference") == 0; i++)
        check(fixture->unsupported[i] == 0, "the reference device supports everything but strings");
}

/* ---- the contract besides results ------------------------------------------------------------ */

static bool ok(td_status status, const char *says)
{
    return check(status == TD_OK, "%s: %s", says, err.message);
}

static uint64_t memory_used(struct td_device *device)
{
    struct td_device_info info;
    api->info(device, &info);
    return info.memory_used;
}

static void check_info(struct fixture *fixture)
{
    struct td_device_info info;
    api->info(fixture->device, &info);
    printf("device: %s (%s), %" PRIu64 " MiB, launch %" PRIu64 " ns, copies %" PRIu64
           " bytes/us, back %" PRIu64 ", into pinned memory %" PRIu64 ", memory %" PRIu64
           " bytes/us, float32 %" PRIu64 " flops/us\n",
           info.name, info.kind, info.memory >> 20, info.launch_ns, info.copy_bytes_per_us,
           info.back_bytes_per_us, info.fill_bytes_per_us, info.device_bytes_per_us,
           info.float32_flops_per_us);
    check(info.name[0] && memchr(info.name, 0, sizeof(info.name)), "a device has a name");
    check(strcmp(info.kind, api->kind) == 0, "its kind is the kind of the plugin");
    check(info.memory > 0 && info.memory_used <= info.memory, "its memory is limited");
    check(info.launch_ns > 0 && info.copy_bytes_per_us > 0 && info.back_bytes_per_us > 0 &&
              info.fill_bytes_per_us > 0 && info.device_bytes_per_us > 0 &&
              info.float32_flops_per_us > 0,
          "the measured speeds are above 0");
}

static void check_memory(struct fixture *fixture)
{
    static const size_t sizes[] = { 0, 1, 255, 256, 257, 4097, 1000003, (size_t)8 << 20 };
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    void *memory[N], *host[N];
    uint64_t used = memory_used(fixture->device), total = 0;
    for (int i = 0; i < N; i++) {
        if (!ok(api->alloc(fixture->device, sizes[i], &memory[i], &err), "alloc") ||
            !ok(api->host_alloc(fixture->device, sizes[i], &host[i], &err), "host_alloc"))
            return;
        total += sizes[i];
        check((uintptr_t)memory[i] % 256 == 0, "memory of %zu bytes is 256-byte aligned", sizes[i]);
        check((uintptr_t)host[i] % 64 == 0, "host memory of %zu bytes is 64-byte aligned",
              sizes[i]);
        if (sizes[i] > 0)
            memset(host[i], i, sizes[i]); /* all bytes can be written */
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            check(memory[i] != memory[k] && host[i] != host[k],
                  "allocations have different addresses");
    check(memory_used(fixture->device) >= used + total, "allocated memory is counted");
    for (int i = 0; i < N; i++) {
        api->free(fixture->device, memory[i]);
        api->host_free(fixture->device, host[i]);
    }
    api->free(fixture->device, NULL);
    check(memory_used(fixture->device) == used, "freed memory is not counted");
    check(api->alloc(fixture->device, SIZE_MAX / 2, &memory[0], &err) == TD_MEMORY_EXHAUSTED,
          "an impossible allocation is MEMORY_EXHAUSTED");
    check(err.message[0] != '\0', "with a message");
}

/* More than one piece of a copy that a device makes in pieces, and a partial one. */
static void check_large_copies(struct fixture *fixture)
{
    enum { BYTES = 9000001, AT = 13 };
    unsigned char *plain = malloc(BYTES), *back = malloc(BYTES);
    void *memory = NULL, *pinned = NULL, *pinned_back = NULL;
    bool fine = plain && back &&
                ok(api->alloc(fixture->device, BYTES + AT, &memory, &err), "alloc") &&
                ok(api->host_alloc(fixture->device, BYTES, &pinned, &err), "host_alloc") &&
                ok(api->host_alloc(fixture->device, BYTES, &pinned_back, &err), "host_alloc");
    for (size_t i = 0; fine && i < BYTES; i++)
        plain[i] = (unsigned char)(i * 131 + i / 251);
    for (int way = 0; fine && way < 4; way++) {
        const void *from = way & 1 ? pinned : plain;
        void *to = way & 2 ? pinned_back : back;
        memcpy(pinned, plain, BYTES);
        memset(to, 0xee, BYTES);
        fine = ok(api->copy_to_device(fixture->streams[0], (char *)memory + AT, from, BYTES, &err),
                  "copy_to_device") &&
               ok(api->copy_to_host(fixture->streams[0], to, (char *)memory + AT, BYTES, &err),
                  "copy_to_host") &&
               synchronize(fixture, fixture->streams[0], "large copies");
        check(fine && memcmp(to, plain, BYTES) == 0, "%d bytes from %s to %s memory are the same",
              BYTES, way & 1 ? "pinned" : "pageable", way & 2 ? "pinned" : "pageable");
    }
    api->free(fixture->device, memory);
    api->host_free(fixture->device, pinned);
    api->host_free(fixture->device, pinned_back);
    free(plain);
    free(back);
}

/* Submits a launch with device addresses, whose outputs start at multiples of `step` from `out`,
 * and waits for it. */
static bool run_alone(struct fixture *fixture, struct td_op_args *args, char *out, size_t step)
{
    for (int i = 0; i < args->n_outputs; i++)
        args->outputs[i].data = out + (size_t)i * step;
    struct td_device_work work = { .op = args->op, .args = args, .n_items = 1 };
    work.workspace = fixture->memory;
    return api->workspace_bytes(fixture->device, &work) <= fixture->size &&
           ok(api->run(fixture->streams[0], &work, &err), "run") &&
           synchronize(fixture, fixture->streams[0], args->op->name);
}

/* ---- chains ---------------------------------------------------------------------------------- */

enum { CHAIN_ROWS = 300, CHAIN_COLUMNS = 7, CHAIN_STEP = 16384, CHAIN = 6 };

/* The calls of a chain, with all tensors at multiples of CHAIN_STEP in the fixture's memory. */
struct chain {
    struct td_op_args args[CHAIN];
    struct td_tensor inputs[CHAIN][3];
    struct td_chain_call calls[CHAIN];
    struct td_arena arena;
};

/* Adds a call whose input i is the result of call operands[i] or, if that is negative, input
 * -1 - operands[i] of the chain. */
static bool add_call(struct fixture *fixture, struct chain *chain, int c, const char *name,
                     const int *operands, const struct td_tensor *given)
{
    const struct td_op *op = td_op_named(name, strlen(name));
    struct td_op_args *args = &chain->args[c];
    td_op_set_defaults(op, args);
    for (int i = 0; i < op->n_inputs; i++) {
        chain->inputs[c][i] =
            operands[i] < 0 ? given[-1 - operands[i]] : chain->args[operands[i]].outputs[0];
        args->inputs[i] = (struct td_operand){ &chain->inputs[c][i], 1 };
        chain->calls[c].operands[i] = operands[i] < 0 ? -1 : operands[i];
    }
    if (op == &td_op_cast) {
        const struct td_cast_attrs attrs = { .dtype = TD_DTYPE_BFLOAT16 };
        memcpy(args->attrs, &attrs, sizeof(attrs));
        args->attrs_set = 1;
    }
    if (!ok(td_op_infer(op, args, &chain->arena, &err), name) || !api->supports(op, args))
        return false;
    args->outputs[0].data = fixture->memory + (size_t)(2 + c) * CHAIN_STEP;
    chain->calls[c].args = args;
    return true;
}

/* sigmoid(x * w + x), rounded to bfloat16, compared with its negative. Returns false if the device
 * has no kernel for one of the ops. */
static bool make_chain(struct fixture *fixture, struct chain *chain)
{
    const struct td_shape shape = { .rank = 2, .dim = { CHAIN_ROWS, CHAIN_COLUMNS } },
                          row = { .rank = 1, .dim = { CHAIN_COLUMNS } };
    struct td_tensor given[2];
    td_arena_init(&chain->arena, NULL, 0, td_memory_heap());
    if (!ok(td_tensor_describe(&given[0], "x", TD_DTYPE_FLOAT32, &shape, &err), "x") ||
        !ok(td_tensor_describe(&given[1], "w", TD_DTYPE_FLOAT32, &row, &err), "w"))
        return false;
    for (int i = 0; i < 2; i++)
        given[i].data = fixture->memory + (size_t)i * CHAIN_STEP;
    return add_call(fixture, chain, 0, "multiply", (int[]){ -1, -2 }, given) &&
           add_call(fixture, chain, 1, "add", (int[]){ 0, -1 }, given) &&
           add_call(fixture, chain, 2, "sigmoid", (int[]){ 1 }, given) &&
           add_call(fixture, chain, 3, "cast", (int[]){ 2 }, given) &&
           add_call(fixture, chain, 4, "negative", (int[]){ 3 }, given) &&
           add_call(fixture, chain, 5, "greater", (int[]){ 3, 4 }, given);
}

static bool run_work(struct fixture *fixture, const struct td_device_work *work)
{
    return api->workspace_bytes(fixture->device, work) <= CHAIN_STEP &&
           ok(api->run(fixture->streams[0], work, &err), "run a chain");
}

/* Runs the calls one after another, or as a chain. Calls 1, 3 and 5 keep their results. */
static bool run_calls(struct fixture *fixture, struct chain *chain, bool as_chain)
{
    void *workspace = fixture->memory + (size_t)(2 + CHAIN) * CHAIN_STEP;
    bool fine = true;
    for (int c = 0; c < CHAIN && as_chain; c++) {
        chain->calls[c].is_inner = c % 2 == 0;
        if (c % 2 == 0)
            chain->args[c].outputs[0].data = NULL;
        for (int i = 0; i < chain->args[c].op->n_inputs; i++)
            if (chain->calls[c].operands[i] >= 0)
                chain->inputs[c][i].data = NULL;
    }
    for (int c = 0; c < CHAIN && !as_chain && fine; c++) {
        for (int i = 0; i < chain->args[c].op->n_inputs; i++)
            if (chain->calls[c].operands[i] >= 0)
                chain->inputs[c][i].data = chain->args[chain->calls[c].operands[i]].outputs[0].data;
        fine = run_work(fixture, &(struct td_device_work){ .op = chain->args[c].op,
                                                           .args = &chain->args[c],
                                                           .n_items = 1,
                                                           .workspace = workspace });
    }
    if (as_chain)
        fine = run_work(fixture, &(struct td_device_work){ .op = chain->args[0].op,
                                                           .args = &chain->args[0],
                                                           .chain = chain->calls,
                                                           .n_chain = CHAIN,
                                                           .n_items = 1,
                                                           .workspace = workspace });
    return fine;
}

static void check_chain(struct fixture *fixture)
{
    enum { BYTES = (2 + CHAIN) * CHAIN_STEP };
    static struct chain chain;
    struct td_device_stream *stream = fixture->streams[0];
    char *expected = fixture->results, *got = fixture->results + BYTES;
    if (!make_chain(fixture, &chain)) {
        printf("not run: a chain, for which the device has no kernels\n");
        td_arena_reset(&chain.arena);
        return;
    }
    memset(fixture->staging, 0, 2 * BYTES);
    for (int i = 0; i < CHAIN_ROWS * CHAIN_COLUMNS; i++)
        ((float *)(void *)fixture->staging)[i] = (float)(i % 101 - 50) / 16;
    for (int i = 0; i < CHAIN_COLUMNS; i++)
        ((float *)(void *)(fixture->staging + CHAIN_STEP))[i] = (float)(i - 3) / 8;
    const bool fine =
        ok(api->copy_to_device(stream, fixture->memory, fixture->staging, BYTES, &err), "copy") &&
        run_calls(fixture, &chain, false) &&
        ok(api->copy_to_host(stream, expected, fixture->memory, BYTES, &err), "copy") &&
        ok(api->copy_to_device(stream, fixture->memory, fixture->staging, BYTES, &err), "copy") &&
        run_calls(fixture, &chain, true) &&
        ok(api->copy_to_host(stream, got, fixture->memory, BYTES, &err), "copy") &&
        synchronize(fixture, stream, "a chain");
    for (int c = 0; c < CHAIN && fine; c++) {
        const size_t at = (size_t)(2 + c) * CHAIN_STEP;
        if (c % 2 == 1)
            check(memcmp(expected + at, got + at, chain.args[c].outputs[0].bytes) == 0,
                  "step %d of a chain has the bits of a single op", c);
        else
            check(memcmp(fixture->staging + at, got + at, CHAIN_STEP) == 0,
                  "step %d of a chain has no memory", c);
    }
    td_arena_reset(&chain.arena);
}

/* ---- single launches ------------------------------------------------------------------------- */

/* Submits a gather of int8 rows and waits for it. */
static bool gather_rows(struct fixture *fixture, void *table, int64_t rows, int64_t columns,
                        void *indices, int64_t n, void *out)
{
    const struct td_op *gather = td_op_named("gather", 6);
    struct td_shape shape = { .rank = 2, .dim = { rows, columns } };
    struct td_shape list = { .rank = 1, .dim = { n } };
    struct td_tensor params, picked;
    struct td_op_args args = { .inputs = { { &params, 1 }, { &picked, 1 } } };
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_op_set_defaults(gather, &args);
    bool fine =
        ok(td_tensor_describe(&params, "params", TD_DTYPE_INT8, &shape, &err), "params") &&
        ok(td_tensor_describe(&picked, "indices", TD_DTYPE_INT32, &list, &err), "indices") &&
        ok(td_op_infer(gather, &args, &arena, &err), "gather");
    if (fine) {
        params.data = table;
        picked.data = indices;
        fine = run_alone(fixture, &args, out, 0);
    }
    td_arena_reset(&arena);
    return fine;
}

/* Submits a search of int8 rows, which are the queries and the candidates, and waits for it. Each
 * finds itself. */
static bool find_rows(struct fixture *fixture, void *table, int64_t rows, int64_t columns,
                      void *indices, int64_t n, void *scale, void *out, size_t step)
{
    const struct td_search_attrs attrs = { .k = 1, .metric = TD_SEARCH_L2 };
    const struct td_shape shape = { .rank = 2, .dim = { rows, columns } };
    const struct td_shape list = { .rank = 1, .dim = { n } }, scalar = { .rank = 0 };
    struct td_tensor params, picked, factor;
    struct td_op_args args = { .inputs = { [TD_SEARCH_PARAMS] = { &params, 1 },
                                           [TD_SEARCH_ROWS] = { &picked, 1 },
                                           [TD_SEARCH_CANDIDATES] = { &picked, 1 },
                                           [TD_SEARCH_SCALE] = { &factor, 1 } } };
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_op_set_defaults(&td_op_search, &args);
    memcpy(args.attrs, &attrs, sizeof(attrs));
    args.attrs_set = (1U << td_op_search.n_attrs) - 1;
    bool fine =
        ok(td_tensor_describe(&params, "params", TD_DTYPE_INT8, &shape, &err), "params") &&
        ok(td_tensor_describe(&picked, "rows", TD_DTYPE_INT32, &list, &err), "rows") &&
        ok(td_tensor_describe(&factor, "scale", TD_DTYPE_FLOAT32, &scalar, &err), "scale") &&
        ok(td_op_infer(&td_op_search, &args, &arena, &err), "search");
    if (fine) {
        params.data = table;
        picked.data = indices;
        factor.data = scale;
        fine = run_alone(fixture, &args, out, step);
    }
    td_arena_reset(&arena);
    return fine;
}

/* Rows on both sides of 2^31 and 2^32 bytes of a table. Only these are written, so that a device
 * whose memory is the host's uses no more of it. */
static void check_large_table(struct fixture *fixture)
{
    enum { COLUMNS = 48, N = 6, STEP = 256, ROWS = STEP, FOUND = 3 * STEP, END = 5 * STEP };
    const int64_t rows = (INT64_C(1) << 32) / COLUMNS + 1000;
    const int64_t edges[] = { (INT64_C(1) << 31) / COLUMNS, (INT64_C(1) << 32) / COLUMNS };
    const int32_t picked[N] = { (int32_t)rows - 1, 0,
                                (int32_t)edges[0], (int32_t)edges[0] + 1,
                                (int32_t)edges[1], (int32_t)edges[1] + 1 };
    void *table = NULL, *data = NULL;
    td_status status = api->alloc(fixture->device, (size_t)rows * COLUMNS, &table, &err);
    if (status == TD_MEMORY_EXHAUSTED) {
        printf("not run: a table above 2^32 bytes, for which the device has no memory\n");
        return;
    }
    bool fine = ok(status, "alloc above 2^32 bytes") &&
                ok(api->alloc(fixture->device, END, &data, &err), "alloc");
    char there[N][COLUMNS], back[N][COLUMNS];
    const float scale = 1;
    int64_t found[N];
    for (int i = 0; fine && i < N; i++) {
        memset(there[i], 'a' + i, COLUMNS);
        fine = ok(api->copy_to_device(fixture->streams[0],
                                      (char *)table + (int64_t)picked[i] * COLUMNS, there[i],
                                      COLUMNS, &err),
                  "copy_to_device above 2^31 bytes");
    }
    fine = fine &&
           ok(api->copy_to_device(fixture->streams[0], data, picked, sizeof(picked), &err),
              "copy_to_device") &&
           ok(api->copy_to_device(fixture->streams[0], (char *)data + STEP / 2, &scale,
                                  sizeof(scale), &err),
              "copy_to_device") &&
           gather_rows(fixture, table, rows, COLUMNS, data, N, (char *)data + ROWS) &&
           find_rows(fixture, table, rows, COLUMNS, data, N, (char *)data + STEP / 2,
                     (char *)data + FOUND, STEP) &&
           ok(api->copy_to_host(fixture->streams[0], back, (char *)data + ROWS, sizeof(back), &err),
              "copy_to_host") &&
           ok(api->copy_to_host(fixture->streams[0], found, (char *)data + FOUND + STEP,
                                sizeof(found), &err),
              "copy_to_host") &&
           synchronize(fixture, fixture->streams[0], "rows of a large table");
    check(fine && memcmp(there, back, sizeof(there)) == 0,
          "rows beyond 2^31 and 2^32 bytes of a table are found");
    for (int i = 0; fine && i < N; i++)
        check(found[i] == picked[i], "a search finds row %" PRId32 ", not %" PRId64, picked[i],
              found[i]);
    api->free(fixture->device, data);
    api->free(fixture->device, table);
}

static bool is_emulated(struct fixture *fixture)
{
    struct td_device_info info;
    api->info(fixture->device, &info);
    return strcmp(info.name, "Emulated GPU") == 0;
}

/* More rows than the blocks of the largest grid, 65536, copy at a time: each at most 16 of 33
 * bytes. */
static void check_large_grid(struct fixture *fixture)
{
    enum { ROWS = 65536 * 16 + 1000, TABLE = 7, COLUMNS = 33 };
    if (is_emulated(fixture))
        return; /* its grids have at most five blocks, in all cases */
    int32_t *indices = malloc(ROWS * sizeof(*indices));
    char *back = malloc(ROWS * COLUMNS), table[TABLE * COLUMNS];
    void *memory = NULL;
    const size_t bytes = (256 + ROWS * sizeof(*indices) + 255) / 256 * 256; /* table, indices */
    bool fine = indices && back &&
                ok(api->alloc(fixture->device, bytes + ROWS * COLUMNS, &memory, &err), "alloc");
    for (int i = 0; fine && i < ROWS; i++)
        indices[i] = (int32_t)(i * INT64_C(7919) % TABLE);
    for (int i = 0; i < TABLE * COLUMNS; i++)
        table[i] = (char)i;
    char *at = memory;
    fine = fine &&
           ok(api->copy_to_device(fixture->streams[0], at, table, sizeof(table), &err), "copy") &&
           ok(api->copy_to_device(fixture->streams[0], at + 256, indices, ROWS * sizeof(*indices),
                                  &err),
              "copy") &&
           synchronize(fixture, fixture->streams[0], "indices") &&
           gather_rows(fixture, at, TABLE, COLUMNS, at + 256, ROWS, at + bytes) &&
           ok(api->copy_to_host(fixture->streams[0], back, at + bytes, ROWS * COLUMNS, &err),
              "copy") &&
           synchronize(fixture, fixture->streams[0], "rows");
    for (int i = 0; fine && i < ROWS; i++)
        fine = memcmp(back + i * COLUMNS, table + indices[i] * COLUMNS, COLUMNS) == 0;
    check(fine, "rows beyond one grid are copied");
    api->free(fixture->device, memory);
    free(indices);
    free(back);
}

/* On a device with this limit, which may be more than it has. */
static void check_sizes(void)
{
    struct td_device_options large = options;
    static struct fixture fixture;
    large.memory = UINT64_C(5) << 30;
    if (!ok(fixture_open(&fixture, api, &large, &err), "open with a limit of 5 GiB"))
        return;
    check_large_table(&fixture);
    check_large_grid(&fixture);
    fixture_close(&fixture);
}

/* Odd sizes and offsets, from pinned and from pageable host memory. */
static void check_copies(struct fixture *fixture)
{
    static const size_t sizes[] = { 0, 1, 2, 3, 7, 15, 16, 17, 63, 255, 256, 257, 65537, 1000003 };
    static const size_t offsets[] = { 0, 1, 13 };
    enum { LARGEST = 1000003 + 64 };
    unsigned char *plain = malloc(LARGEST), *back = malloc(LARGEST);
    for (size_t i = 0; i < LARGEST; i++)
        plain[i] = (unsigned char)(i * 131 + i / 251);
    memcpy(fixture->staging, plain, LARGEST);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (size_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++)
            for (int pinned = 0; pinned < 2; pinned++) {
                size_t n = sizes[s], at = offsets[o];
                unsigned char *to = pinned ? (unsigned char *)fixture->results : back;
                const void *from = pinned ? (void *)fixture->staging : plain;
                memset(to, 0xee, LARGEST);
                bool fine = ok(api->copy_to_device(fixture->streams[0], fixture->memory + at, from,
                                                   n, &err),
                               "copy_to_device") &&
                            ok(api->copy_to_host(fixture->streams[0], to + at, fixture->memory + at,
                                                 n, &err),
                               "copy_to_host") &&
                            synchronize(fixture, fixture->streams[0], "copies");
                if (!fine)
                    continue;
                check(memcmp(to + at, plain, n) == 0, "%zu bytes at %zu are copied back", n, at);
                check(to[at + n] == 0xee && (at == 0 || to[at - 1] == 0xee),
                      "a copy of %zu bytes at %zu writes nothing else", n, at);
            }
    free(plain);
    free(back);
}

static void check_waiting(struct fixture *fixture)
{
    struct td_device_stream *fresh;
    bool done = false;
    if (!ok(api->stream_open(fixture->device, &fresh, &err), "stream_open"))
        return;
    check(api->poll(fresh, &done, &err) == TD_OK && done, "a stream without work is idle");
    done = false;
    check(api->wait(fresh, 0, &done, &err) == TD_OK && done, "wait reports that too");
    size_t n = fixture->size;
    memset(fixture->staging, 1, n);
    memset(fixture->results, 2, n);
    bool fine =
        ok(api->copy_to_device(fresh, fixture->memory, fixture->staging, n, &err),
           "copy_to_device") &&
        ok(api->copy_to_host(fresh, fixture->results, fixture->memory, n, &err), "copy_to_host");
    for (done = false; fine && !done;) /* until the work completes */
        fine = ok(api->poll(fresh, &done, &err), "poll");
    check(fine && memcmp(fixture->staging, fixture->results, n) == 0,
          "the work is complete when poll reports it");
    memset(fixture->results, 2, n);
    fine = ok(api->copy_to_host(fresh, fixture->results, fixture->memory, n, &err), "copy_to_host");
    api->stream_close(fresh);
    check(fine && memcmp(fixture->staging, fixture->results, n) == 0,
          "closing a stream waits for its work");
    api->stream_close(NULL);
}

/* Each launch reads what the one before it wrote, on one stream, without waiting; the intermediate
 * memory is freed while the device may still be busy. */
static void check_order(struct fixture *fixture)
{
    enum { ROWS = 4096, STEPS = 16 };
    const struct td_op *gather = td_op_named("gather", 6);
    struct td_arena arena;
    struct td_tensor params = { .dtype = TD_DTYPE_INT32 }, indices = params;
    struct td_shape shape = { .rank = 1, .dim = { ROWS } };
    struct td_op_args args = { .inputs = { { &params, 1 }, { &indices, 1 } } };
    void *steps[STEPS + 1] = { NULL }, *indices_data = NULL;
    int32_t *there = (int32_t *)fixture->staging, *back = (int32_t *)fixture->results;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_op_set_defaults(gather, &args);
    bool fine =
        ok(td_tensor_describe(&params, "params", TD_DTYPE_INT32, &shape, &err), "params") &&
        ok(td_tensor_describe(&indices, "indices", TD_DTYPE_INT32, &shape, &err), "indices");
    params.data = indices.data = there;
    fine = fine && ok(td_op_infer(gather, &args, &arena, &err), "gather");
    for (int i = 0; fine && i <= STEPS; i++)
        fine = ok(api->alloc(fixture->device, sizeof(int32_t) * ROWS, &steps[i], &err), "alloc");
    fine = fine &&
           ok(api->alloc(fixture->device, sizeof(int32_t) * ROWS, &indices_data, &err), "alloc");
    for (int i = 0; i < ROWS; i++) {
        there[i] = (i + 1) % ROWS; /* each step rotates the rows by one */
        there[ROWS + i] = 7 * i;
    }
    struct td_device_stream *stream = fixture->streams[1];
    fine =
        fine &&
        ok(api->copy_to_device(stream, indices_data, there, 4 * ROWS, &err), "copy_to_device") &&
        ok(api->copy_to_device(stream, steps[0], there + ROWS, 4 * ROWS, &err), "copy_to_device");
    indices.data = indices_data;
    for (int i = 0; fine && i < STEPS; i++) {
        params.data = steps[i];
        args.outputs[0].data = steps[i + 1];
        struct td_device_work work = { .op = gather, .args = &args, .n_items = 1 };
        fine = api->workspace_bytes(fixture->device, &work) <= fixture->size;
        work.workspace = fixture->memory;
        fine = fine && ok(api->run(stream, &work, &err), "run without reports");
    }
    fine =
        fine && ok(api->copy_to_host(stream, back, steps[STEPS], 4 * ROWS, &err), "copy_to_host");
    for (int i = 0; i <= STEPS; i++)
        api->free(fixture->device, steps[i]);
    api->free(fixture->device, indices_data);
    fine = fine && synchronize(fixture, stream, "a chain of launches");
    for (int i = 0; fine && i < ROWS; i++)
        fine = back[i] == 7 * ((i + STEPS) % ROWS);
    check(fine, "work on one stream executes in order");
    td_arena_reset(&arena);
}

/* Both parts of (x + xi)(u + ui) are sums of the same two products: one rounded, one not, do not
 * cancel. The second equation is a batch of matrix products, with a term of zeros in each sum;
 * complex numbers that are aligned to their parts only, as here, are for the plugin's own
 * kernel. */
static void check_complex_products(struct fixture *fixture)
{
    enum { N = 200, AT = 16384, ODD = sizeof(double) };
    static const struct {
        const char *equation;
        struct td_shape a, b;
    } cases[] = {
        { "i,i->i", { .rank = 1, .dim = { N } }, { .rank = 1, .dim = { N } } },
        { "bij,bjk->bik", { .rank = 3, .dim = { 4, 25, 2 } }, { .rank = 3, .dim = { 4, 2, 2 } } },
    };
    const struct td_op *einsum = td_op_named("einsum", 6);
    double *there = (double *)fixture->staging, *back = (double *)fixture->results;
    double *b_there = there + AT / sizeof(double);
    char *at = (char *)fixture->memory + ODD;
    for (int k = 0; k < 2; k++) {
        const struct td_einsum_attrs attrs = { .equation = cases[k].equation };
        struct td_tensor inputs[2];
        struct td_op_args args = { .inputs = { { inputs, 2 } } };
        struct td_arena arena;
        td_arena_init(&arena, NULL, 0, td_memory_heap());
        td_op_set_defaults(einsum, &args);
        memcpy(args.attrs, &attrs, sizeof(attrs));
        args.attrs_set = 1;
        for (int i = 0; i < N; i++) {
            there[2 * i] = there[2 * i + 1] = k == 1 && i % 2 == 1 ? 0 : 1 + (i + 1) * 0x1p-40;
            b_there[2 * i] = b_there[2 * i + 1] = k == 1 && i % 4 > 1 ? 0 : 1 + (i + 7) * 0x1p-41;
        }
        bool fine =
            ok(td_tensor_describe(&inputs[0], "a", TD_DTYPE_COMPLEX128, &cases[k].a, &err), "a") &&
            ok(td_tensor_describe(&inputs[1], "b", TD_DTYPE_COMPLEX128, &cases[k].b, &err), "b") &&
            ok(td_op_infer(einsum, &args, &arena, &err), "einsum") &&
            ok(api->copy_to_device(fixture->streams[0], at, there, 2 * AT - ODD, &err), "a copy");
        if (fine) {
            inputs[0].data = at;
            inputs[1].data = at + AT;
            args.outputs[0].data = at - ODD + 2 * AT;
            struct td_device_work work = { .op = einsum, .args = &args, .n_items = 1 };
            work.workspace = at - ODD + 3 * AT;
            fine = api->workspace_bytes(fixture->device, &work) <= fixture->size - 3 * AT &&
                   ok(api->run(fixture->streams[0], &work, &err), "run") &&
                   ok(api->copy_to_host(fixture->streams[0], back, args.outputs[0].data,
                                        N * 2 * sizeof(double), &err),
                      "copy_to_host") &&
                   synchronize(fixture, fixture->streams[0], "complex products");
        }
        for (int i = 0; fine && i < N; i++) { /* of the second: [batch][row][column] */
            const int x = k == 0 ? i : i / 2 * 2, u = k == 0 ? i : i / 50 * 4 + i % 2;
            const volatile double rounded = there[2 * x] * b_there[2 * u];
            fine = back[2 * i] == 0 && back[2 * i + 1] == rounded + rounded;
        }
        check(fine, "each of the four products of a complex product is rounded, in %s",
              cases[k].equation);
        td_arena_reset(&arena);
    }
}

static void check_strings(void)
{
    struct td_tensor params = { .dtype = TD_DTYPE_STRING, .shape = { .rank = 1, .dim = { 1 } } };
    struct td_tensor indices = { .dtype = TD_DTYPE_INT32, .shape = { .rank = 1, .dim = { 1 } } };
    struct td_op_args args = { .inputs = { { &params, 1 }, { &indices, 1 } } };
    const struct td_op *gather = td_op_named("gather", 6);
    td_op_set_defaults(gather, &args);
    check(!api->supports(gather, &args), "strings are not supported");
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Fills a device with a small limit of memory; it must remain usable. */
static void check_exhaustion(void)
{
    enum { MAX_BLOCKS = 64, BLOCK = 1 << 20, LIMIT = 16 << 20 };
    struct td_device_options small = options;
    struct td_device *device;
    struct td_device_stream *stream;
    void *blocks[MAX_BLOCKS];
    int n = 0;
    small.memory = LIMIT;
    if (!ok(api->open(&small, &device, &err), "open with little memory"))
        return;
    struct td_device_info info;
    api->info(device, &info);
    check(info.memory == LIMIT, "the device has the requested limit of memory");
    td_status status = api->stream_open(device, &stream, &err);
    while (status == TD_OK && n < MAX_BLOCKS) {
        status = api->alloc(device, BLOCK, &blocks[n], &err);
        n += status == TD_OK;
    }
    check(status == TD_MEMORY_EXHAUSTED, "an allocation beyond the limit is MEMORY_EXHAUSTED");
    check(n >= LIMIT / BLOCK / 2 && n <= LIMIT / BLOCK, "%d MiB of the 16 can be allocated", n);
    check(memory_used(device) <= LIMIT, "the limit is not exceeded");
    char there[100] = "still here", back[100] = "";
    bool done = false;
    check(n > 0 && api->copy_to_device(stream, blocks[0], there, sizeof(there), &err) == TD_OK &&
              api->copy_to_host(stream, back, blocks[0], sizeof(back), &err) == TD_OK &&
              api->wait(stream, INT64_C(60000000000), &done, &err) == TD_OK && done &&
              strcmp(there, back) == 0,
          "allocated memory remains usable");
    if (n > 0) {
        api->free(device, blocks[n - 1]);
        ok(api->alloc(device, BLOCK, &blocks[n - 1], &err), "freed memory can be allocated again");
    }
    for (int i = 0; i < n; i++)
        api->free(device, blocks[i]);
    api->stream_close(stream);
    check(memory_used(device) == 0, "no memory is left in use");
    api->close(device);
}

static void check_opening(void)
{
    struct td_device *device = NULL;
    struct td_device_options wrong = options;
    wrong.ordinal = 99;
    check(api->open(&wrong, &device, &err) == TD_DEVICE_UNAVAILABLE && err.message[0],
          "device 99 does not exist, and the message says so");
    wrong = options;
    wrong.text = "no_such_option=1";
    check(api->open(&wrong, &device, &err) == TD_INVALID_ARGUMENT &&
              strstr(err.message, "no_such_option"),
          "an unknown option is refused by its name");
    for (int i = 0; i < 3; i++) {
        void *leaked;
        if (!ok(api->open(&options, &device, &err), "open again"))
            return;
        ok(api->alloc(device, 1000, &leaked, &err), "alloc");
        api->close(device); /* frees it */
    }
    api->close(NULL);
}

struct count {
    const char *word;
    int n;
};

static void count_case(void *context, const struct device_case *one)
{
    struct count *count = context;
    count->n += !count->word || strstr(one->says, count->word);
}

/* Opening a device measures it, so it is opened only if a case is wanted. */
static void check_tf32(const char *word)
{
    struct fixture fixture;
    struct td_device_options rounded = options;
    struct td_arena arena;
    struct count count = { .word = word };
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    for_each_tf32_case(&arena, count_case, &count);
    td_arena_reset(&arena);
    if (count.n == 0)
        return;
    rounded.tf32 = true;
    if (!ok(fixture_open(&fixture, api, &rounded, &err), "open with tf32"))
        return;
    run_cases(&fixture, for_each_tf32_case, word, 1, 1, 1);
    fixture_close(&fixture);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static td_status load(struct td_device_library *library)
{
    const char *name = getenv("TD_TEST_DEVICE");
    return td_device_load(name && name[0] ? name : "reference", library, &err);
}

/* A kernel reads an address that is none. Whether the device can be opened again by the same
 * process is the driver's affair; a message must say if not. */
static int run_fault(void)
{
    static const int32_t indices[1] = { 0 };
    struct td_device_library library;
    static struct fixture fixture;
    struct td_device *device = NULL;
    if (!ok(load(&library), "load"))
        return 1;
    api = library.api;
    if (!ok(fixture_open(&fixture, api, &options, &err), "open"))
        return 1;
    ok(api->copy_to_device(fixture.streams[0], fixture.memory, indices, sizeof(indices), &err),
       "copy_to_device");
    const long failed = checks.failed;
    gather_rows(&fixture, (void *)(uintptr_t)4096, 1, 48, fixture.memory, 1, fixture.memory + 256);
    const bool has_failed = checks.failed > failed;
    checks.failed = failed; /* gather_rows counts the failure that is expected */
    check(has_failed && err.status == TD_DEVICE_UNAVAILABLE && err.message[0],
          "a kernel that faults loses the device: %s", err.message);
    fixture_close(&fixture);
    const td_status status = api->open(&options, &device, &err);
    check(status == TD_OK || (status == TD_DEVICE_UNAVAILABLE && err.message[0]),
          "then the device opens, or says why it does not");
    printf("after a kernel that faults, the same process %s%s\n",
           status == TD_OK ? "opens the device again" : "needs a restart: ",
           status == TD_OK ? "" : err.message);
    if (status == TD_OK)
        api->close(device);
    return checks.failed == 0 ? 0 : 1;
}

/* Is a library of compute-sanitizer in this process? It follows the processes that this one starts,
 * and would report the fault. */
static bool is_sanitized(void)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && fgets(line, sizeof(line), maps))
        found = strstr(line, "/libsanitizer-") || strstr(line, "TargetInjection");
    if (maps)
        fclose(maps);
    return found;
}

/* Another process has the fault. */
static void check_fault(void)
{
    char path[] = "/proc/self/exe", argument[] = "--fault", *arguments[] = { path, argument, NULL };
    struct td_device *device = NULL;
    int status = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        (void)execv(path, arguments);
        _exit(127);
    }
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0,
          "a kernel that faults ends as the contract says: status %#x", (unsigned)status);
    if (ok(api->open(&options, &device, &err), "open after the fault of another process"))
        api->close(device);
}

/* ---- main ------------------------------------------------------------------------------------ */

static void run_all_cases(struct fixture *fixture, const char *word)
{
    run_cases(fixture, for_each_device_case, word, 1, 1, EVERY_ALONE);
    run_cases(fixture, for_each_device_case, word, MAX_IN_FLIGHT, FIXTURE_STREAMS, EVERY_TOGETHER);
}

/* On the open device, which it closes. */
static void check_all(struct fixture *fixture)
{
    check_info(fixture);
    check_memory(fixture);
    check_copies(fixture);
    check_chain(fixture);
    check_large_copies(fixture);
    check_waiting(fixture);
    check_order(fixture);
    check_strings();
    if (strcmp(api->kind, "cuda") == 0) /* the CPU's loops may fuse */
        check_complex_products(fixture);
    run_all_cases(fixture, NULL);
    print_unsupported(fixture);
    const bool is_gpu = strcmp(api->kind, "cuda") == 0 && !is_emulated(fixture);
    fixture_close(fixture);
    check_sizes();
    check_exhaustion();
    check_opening();
    check_tf32(NULL);
    if (is_gpu && !is_sanitized())
        check_fault();
}

static int run(const char *word)
{
    static struct fixture fixture;
    if (word && strcmp(word, "--sizes") == 0) {
        check_sizes();
        return 0;
    }
    const td_status status = fixture_open(&fixture, api, &options, &err);
    if (status != TD_OK)
        return not_opened(api, status, err.message);
    if (!word) {
        check_all(&fixture);
        return 0;
    }
    run_all_cases(&fixture, word);
    fixture_close(&fixture);
    check_tf32(word);
    return 0;
}

int main(int argc, char **argv)
{
    const char *text = getenv("TD_TEST_DEVICE_OPTIONS");
    const char *word = argc > 1 ? argv[1] : NULL;
    struct td_device_library library;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (text)
        options.text = text;
    if (word && strcmp(word, "--fault") == 0)
        return run_fault();
    if (load(&library) != TD_OK) {
        printf("FAILED: %s\n", err.message);
        return 1;
    }
    api = library.api;
    const int status = run(word);
    if (status != 0)
        return status;
    td_device_unload(&library);
    printf("%ld passed, %ld failed\n", checks.passed, checks.failed);
    return checks.failed == 0 && checks.passed > 0 ? 0 : 1;
}
