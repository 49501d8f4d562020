#include "tests/gpu/device_call.h"

#include "kernels/einsum/einsum.h"
#include "kernels/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN    256
#define GUARD    64 /* bytes of rubbish behind every tensor, at the least */
#define RUBBISH  0x5a
#define MEMORY   ((size_t)64 << 20)
#define PATIENCE ((int64_t)60 * 1000000000)

/* ---- counting -------------------------------------------------------------------------------- */

struct tally tally;

bool check(bool holds, const char *format, ...)
{
    enum { PRINTED = 60 };
    if (holds) {
        tally.passed++;
        return true;
    }
    tally.failed++;
    if (tally.failed <= PRINTED) {
        va_list args;
        va_start(args, format);
        printf("FAILED: ");
        vprintf(format, args);
        printf("\n");
        va_end(args);
    }
    return false;
}

/* ---- a device -------------------------------------------------------------------------------- */

td_status rig_open(struct rig *rig, const struct td_device_api *api,
                   const struct td_device_options *options, struct td_error *err)
{
    *rig = (struct rig){ .api = api, .size = MEMORY };
    void *memory = NULL, *staging = NULL, *results = NULL, *reports = NULL;
    td_status status = api->open(options, &rig->device, err);
    for (int i = 0; status == TD_OK && i < RIG_STREAMS; i++)
        status = api->stream_open(rig->device, &rig->streams[i], err);
    if (status == TD_OK)
        status = api->alloc(rig->device, rig->size, &memory, err);
    if (status == TD_OK)
        status = api->host_alloc(rig->device, rig->size, &staging, err);
    if (status == TD_OK)
        status = api->host_alloc(rig->device, rig->size, &results, err);
    if (status == TD_OK)
        status = api->host_alloc(rig->device,
                                 RIG_FLIGHTS * RIG_REPORTS * sizeof(struct td_device_report),
                                 &reports, err);
    rig->memory = memory;
    rig->staging = staging;
    rig->results = results;
    rig->reports = reports;
    return status;
}

void rig_close(struct rig *rig)
{
    const struct td_device_api *api = rig->api;
    for (int i = 0; i < RIG_STREAMS; i++)
        api->stream_close(rig->streams[i]);
    if (rig->forbid)
        rig->forbid(rig->memory, rig->size, false);
    api->free(rig->device, rig->memory);
    api->host_free(rig->device, rig->staging);
    api->host_free(rig->device, rig->results);
    api->host_free(rig->device, rig->reports);
    struct td_device_info info;
    api->info(rig->device, &info);
    check(info.memory_used == 0, "%" PRIu64 " bytes are in use when all is freed",
          info.memory_used);
    api->close(rig->device);
}

bool wait_done(struct rig *rig, struct td_device_stream *stream, const char *says)
{
    struct td_error err;
    bool done = false;
    td_status status = rig->api->wait(stream, PATIENCE, &done, &err);
    return check(status == TD_OK && done, "%s: %s", says,
                 status == TD_OK ? "is not done after a minute" : err.message);
}

/* ---- what is expected ------------------------------------------------------------------------ */

static const struct td_attr_spec *bounds_attr(const struct td_op *op)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].choices == td_bounds_names)
            return &op->attrs[i];
    return NULL;
}

static td_status run_on_host(const struct td_op *op, struct td_op_args *args,
                             struct td_arena *arena, struct td_error *err)
{
    struct td_exec serial;
    td_exec_serial(&serial, arena);
    td_status status = op->run(args, &serial, err);
    if (status != TD_INDEX_OUT_OF_BOUNDS)
        return status;
    /* A device leaves zeros where the processor refuses. */
    struct td_op_args lenient = *args;
    td_op_choose(bounds_attr(op), &lenient, TD_BOUNDS_ZERO);
    return op->run(&lenient, &serial, err);
}

static td_status infer_and_run(const struct td_op *op, struct td_op_args *args,
                               struct td_arena *arena, struct td_error *err)
{
    td_status status = td_op_infer(op, args, arena, err);
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = td_tensor_alloc(&args->outputs[i], arena, err);
    return status == TD_OK ? run_on_host(op, args, arena, err) : status;
}

/* The reports of a case, counted index by index. */
static bool same_reports(const struct flight *flight)
{
    const struct device_case *one = &flight->one;
    const struct td_tensor *indices = flight->args.inputs[1].tensors;
    bool same = true;
    int64_t begin = 0;
    for (int k = 0; k < one->n_items; k++) {
        struct td_device_report want = { .first_bad = INT64_MAX }, got = flight->reports[k];
        int64_t end = one->item_end ? one->item_end[k] : one->depth < 0 ? 0 : indices->numel;
        for (int64_t i = begin; i < end; i++) {
            int64_t index = td_tensor_index_at(indices, i);
            if (index >= 0 && index < one->bound[i % one->depth])
                continue;
            if (want.n_bad++ == 0)
                want.first_bad = i - begin;
        }
        begin = end;
        if (got.first_bad != want.first_bad || got.n_bad != want.n_bad) {
            printf("  item %d: first_bad %" PRId64 ", n_bad %" PRId64 "; expected %" PRId64
                   ", %" PRId64 "\n",
                   k, got.first_bad, got.n_bad, want.first_bad, want.n_bad);
            same = false;
        }
    }
    return same;
}

/* ---- on the device --------------------------------------------------------------------------- */

/* The next `bytes` of the piece, offset behind a boundary, with rubbish behind them; false without
 * room. */
static bool place(struct rig *rig, size_t bytes, size_t offset, size_t *at)
{
    size_t begin = (rig->used + ALIGN - 1) / ALIGN * ALIGN + offset;
    if (begin > rig->size || bytes + GUARD > rig->size - begin)
        return false;
    memset(rig->staging + rig->used, RUBBISH, begin + bytes + GUARD - rig->used);
    if (rig->forbid) {
        rig->forbid(rig->memory + rig->used, begin + bytes + GUARD - rig->used, true);
        rig->forbid(rig->memory + begin, bytes, false);
    }
    *at = begin;
    rig->used = begin + bytes + GUARD;
    return true;
}

/* Gives the tensors of args, copied, their places on the device. */
static bool place_tensors(struct rig *rig, struct flight *flight, struct td_op_args *args,
                          struct td_arena *arena)
{
    size_t at, offset = flight->one.first_offset;
    for (int i = 0; i < flight->one.op->n_inputs; i++) {
        struct td_operand *operand = &args->inputs[i];
        struct td_tensor *copies =
            td_arena_alloc(arena, (size_t)operand->count, sizeof(*copies), NULL);
        for (int j = 0; j < operand->count; j++, offset = 0) {
            copies[j] = operand->tensors[j];
            if (!place(rig, copies[j].bytes, offset, &at))
                return false;
            if (copies[j].bytes > 0)
                memcpy(rig->staging + at, copies[j].data, copies[j].bytes);
            copies[j].data = rig->memory + at;
        }
        operand->tensors = copies;
    }
    flight->outputs = rig->used;
    struct td_tensor *copies =
        td_arena_alloc(arena, (size_t)args->n_outputs, sizeof(*copies), NULL);
    for (int i = 0; i < args->n_outputs; i++) {
        copies[i] = args->outputs[i];
        if (!place(rig, copies[i].bytes, 0, &at))
            return false;
        copies[i].data = rig->memory + at;
    }
    args->outputs = copies;
    return true;
}

/* Submits copies and the launch, and spoils what was described to the device: it has its copy. */
static td_status launch(struct rig *rig, struct td_device_stream *stream, struct flight *flight,
                        struct td_op_args *args, struct td_error *err)
{
    const struct td_device_api *api = rig->api;
    const struct device_case *one = &flight->one;
    int64_t *item_end = NULL;
    size_t item_bytes = (size_t)one->n_items * sizeof(*item_end);
    if (one->item_end) {
        item_end = malloc(item_bytes);
        memcpy(item_end, one->item_end, item_bytes);
    }
    struct td_device_work work = { .op = one->op,
                                   .args = args,
                                   .n_items = one->n_items,
                                   .item_end = item_end,
                                   .reports = flight->reports };
    size_t at = 0, workspace = api->workspace_bytes(rig->device, &work);
    td_status status = TD_OK;
    if (workspace > 0 && !place(rig, workspace, 0, &at))
        status = td_error_set(err, TD_INTERNAL, "%zu bytes of workspace do not fit", workspace);
    if (workspace > 0 && status == TD_OK)
        work.workspace = rig->memory + at;
    flight->end = rig->used;
    size_t bytes = flight->end - flight->begin;
    char *there = rig->memory + flight->begin;
    memset(flight->reports, RUBBISH, (size_t)one->n_items * sizeof(flight->reports[0]));
    if (status == TD_OK)
        status = api->copy_to_device(stream, there, rig->staging + flight->begin, bytes, err);
    if (status == TD_OK)
        status = api->run(stream, &work, err);
    if (item_end)
        memset(item_end, RUBBISH, item_bytes);
    free(item_end);
    for (int i = 0; i < one->op->n_inputs; i++)
        memset(args->inputs[i].tensors, RUBBISH,
               (size_t)args->inputs[i].count * sizeof(struct td_tensor));
    memset(args->outputs, RUBBISH, (size_t)args->n_outputs * sizeof(struct td_tensor));
    memset(args, RUBBISH, sizeof(*args));
    memset(&work, RUBBISH, sizeof(work));
    if (status == TD_OK)
        status = api->copy_to_host(stream, rig->results + flight->begin, there, bytes, err);
    return status;
}

bool flight_submit(struct rig *rig, struct td_device_stream *stream, int number,
                   const struct device_case *one, struct td_arena *arena, struct flight *flight)
{
    struct td_error err;
    size_t before = rig->used;
    *flight = (struct flight){ .one = *one,
                               .args = one->args,
                               .reports = rig->reports + (size_t)number * RIG_REPORTS,
                               .begin = (rig->used + ALIGN - 1) / ALIGN * ALIGN };
    td_status status = infer_and_run(one->op, &flight->args, arena, &err);
    if (!check(status == TD_OK, "%s on the processor: %s", one->says, err.message))
        return true;
    if (!rig->api->supports(one->op, &flight->args)) {
        rig->unsupported[one->args.inputs[0].tensors[0].dtype]++;
        return true;
    }
    struct td_op_args args = flight->args;
    if (!place_tensors(rig, flight, &args, arena)) {
        rig->used = before;
        return false;
    }
    status = launch(rig, stream, flight, &args, &err);
    flight->submitted = check(status == TD_OK, "%s: %s", one->says, err.message);
    return true;
}

/* ---- is it the same? ------------------------------------------------------------------------- */

/* Real and imaginary part, or what there is. */
static int parts_of(const struct td_tensor *tensor)
{
    return tensor->dtype == TD_DTYPE_COMPLEX64 || tensor->dtype == TD_DTYPE_COMPLEX128 ? 2 : 1;
}

static double float_at(const struct td_tensor *tensor, const void *data, int64_t i)
{
    switch (tensor->dtype) {
    case TD_DTYPE_FLOAT16:
        return td_float16_value(((const uint16_t *)data)[i]);
    case TD_DTYPE_BFLOAT16:
        return td_bfloat16_value(((const uint16_t *)data)[i]);
    case TD_DTYPE_FLOAT32:
    case TD_DTYPE_COMPLEX64:
        return ((const float *)data)[i];
    default:
        return ((const double *)data)[i];
    }
}

/* Makes every element what its parts' magnitudes sum up to, at most: then a sum of products of such
 * bounds the sum of the magnitudes. */
static void make_magnitudes(struct td_tensor *tensor)
{
    int parts = parts_of(tensor);
    for (int64_t i = 0; i < tensor->numel; i++) {
        switch (tensor->dtype) {
        case TD_DTYPE_FLOAT16:
        case TD_DTYPE_BFLOAT16:
            ((uint16_t *)tensor->data)[i] &= 0x7fff;
            break;
        case TD_DTYPE_FLOAT32:
        case TD_DTYPE_COMPLEX64: {
            float *at = (float *)tensor->data + i * parts;
            at[0] = fabsf(at[0]) + (parts == 2 ? fabsf(at[1]) : 0);
            if (parts == 2)
                at[1] = 0;
            break;
        }
        default: {
            double *at = (double *)tensor->data + i * parts;
            at[0] = fabs(at[0]) + (parts == 2 ? fabs(at[1]) : 0);
            if (parts == 2)
                at[1] = 0;
        }
        }
    }
}

static td_status magnitudes(const struct flight *flight, struct td_arena *arena,
                            struct td_op_args *args, struct td_error *err)
{
    *args = flight->one.args;
    struct td_operand *inputs = &args->inputs[0];
    struct td_tensor *copies = td_arena_alloc(arena, (size_t)inputs->count, sizeof(*copies), err);
    td_status status = copies ? TD_OK : err->status;
    for (int i = 0; status == TD_OK && i < inputs->count; i++) {
        copies[i] = inputs->tensors[i];
        status = td_tensor_alloc(&copies[i], arena, err);
        if (status != TD_OK)
            break;
        memcpy(copies[i].data, inputs->tensors[i].data, copies[i].bytes);
        make_magnitudes(&copies[i]);
    }
    inputs->tensors = copies;
    return status == TD_OK ? infer_and_run(flight->one.op, args, arena, err) : status;
}

static bool nearly_same(const struct flight *flight, const char *got, struct td_arena *arena)
{
    struct td_error err;
    struct td_op_args bounds;
    const struct td_tensor *want = &flight->args.outputs[0];
    if (magnitudes(flight, arena, &bounds, &err) != TD_OK) {
        printf("  %s\n", err.message);
        return false;
    }
    int parts = parts_of(want);
    /* Results below what float16 has as normal numbers are rounded to a multiple of this. */
    double least = want->dtype == TD_DTYPE_FLOAT16 ? 0x1p-24 : 0;
    for (int64_t i = 0; i < want->numel * parts; i++) {
        double a = float_at(want, want->data, i), b = float_at(want, got, i);
        double most = float_at(want, bounds.outputs[0].data, i / parts * parts);
        if (fabs(a - b) <= flight->one.tolerance * most + least)
            continue;
        printf("  element %" PRId64 " is %.17g; %.17g is expected, magnitudes %.3g\n", i / parts, b,
               a, most);
        return false;
    }
    return true;
}

static bool is_float(td_dtype dtype)
{
    return dtype >= TD_DTYPE_FLOAT16 && dtype <= TD_DTYPE_COMPLEX128;
}

/* Equal as numbers: -0 is 0. Whether a sum begins with 0 or with its first product is not said, and
 * decides what becomes of a sum of -0 alone; cuBLAS promises neither. */
static bool same_numbers(const struct td_tensor *want, const char *got)
{
    for (int64_t i = 0; i < want->numel * parts_of(want); i++)
        if (float_at(want, want->data, i) != float_at(want, got, i))
            return false;
    return true;
}

static bool same_bytes(const struct td_tensor *want, const char *got, int output)
{
    const unsigned char *expected = want->data;
    if (want->bytes == 0 || memcmp(got, expected, want->bytes) == 0)
        return true;
    size_t size = td_dtype_info(want->dtype)->size, i = 0;
    while ((unsigned char)got[i] == expected[i])
        i++;
    i = i / size * size;
    printf("  output %d, element %zu of %" PRId64 " is", output, i / size, want->numel);
    for (size_t k = 0; k < size; k++)
        printf(" %02x", (unsigned char)got[i + k]);
    printf("; expected");
    for (size_t k = 0; k < size; k++)
        printf(" %02x", expected[i + k]);
    printf("\n");
    return false;
}

/* What is moved is the same to the bit, and so are integers; sums of floats are the same numbers. */
static bool same_output(const struct flight *flight, int output, const char *got,
                        struct td_arena *arena)
{
    const struct td_tensor *want = &flight->args.outputs[output];
    if (flight->one.tolerance > 0)
        return nearly_same(flight, got, arena);
    if (flight->one.op == &td_op_einsum && is_float(want->dtype) && same_numbers(want, got))
        return true;
    return same_bytes(want, got, output);
}

/* From `begin` to `end` all as it was sent. */
static bool untouched(const struct rig *rig, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (rig->results[i] != rig->staging[i]) {
            printf("  byte %zu of %zu, between tensors, was written\n", i - begin, end - begin);
            return false;
        }
    return true;
}

void flight_check(struct rig *rig, const struct flight *flight, struct td_arena *arena)
{
    if (!flight->submitted)
        return;
    const struct device_case *one = &flight->one;
    bool clean = untouched(rig, flight->begin, flight->outputs);
    size_t at = flight->outputs;
    for (int i = 0; i < flight->args.n_outputs; i++) {
        const struct td_tensor *want = &flight->args.outputs[i];
        size_t begin = (at + ALIGN - 1) / ALIGN * ALIGN;
        const char *got = rig->results + begin;
        clean = untouched(rig, at, begin) && clean;
        check(same_output(flight, i, got, arena), "%s: result", one->says);
        at = begin + want->bytes + GUARD;
        clean = untouched(rig, at - GUARD, at) && clean;
    }
    /* The workspace is the device's, what follows it is not. */
    if (flight->end > at)
        clean = untouched(rig, flight->end - GUARD, flight->end) && clean;
    check(clean, "%s: only outputs are written", one->says);
    check(same_reports(flight), "%s: reports", one->says);
}
