#include "tests/gpu/device_call.h"

#include "kernels/einsum/einsum.h"
#include "kernels/half.h"
#include "kernels/key_index/key_index.h"
#include "kernels/lookup/lookup.h"
#include "kernels/op_check.h"
#include "kernels/search/search.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN      256
#define GUARD      64 /* bytes at least after every tensor */
#define FILL       0x5a
#define MEMORY     ((size_t)64 << 20)
#define TIMEOUT_NS ((int64_t)900 * 1000000000) /* ends a hang */

/* ---- checks ---------------------------------------------------------------------------------- */

struct checks checks;

bool check(bool holds, const char *format, ...)
{
    enum { MAX_PRINTED = 60 };
    if (holds) {
        checks.passed++;
        return true;
    }
    checks.failed++;
    if (checks.failed <= MAX_PRINTED) {
        va_list args;
        va_start(args, format);
        printf("FAILED: ");
        vprintf(format, args);
        printf("\n");
        va_end(args);
    }
    return false;
}

/* ---- fixture --------------------------------------------------------------------------------- */

td_status fixture_open(struct fixture *fixture, const struct td_device_api *api,
                       const struct td_device_options *options, struct td_error *err)
{
    *fixture = (struct fixture){ .api = api, .size = MEMORY };
    void *memory = NULL, *staging = NULL, *results = NULL, *reports = NULL;
    td_status status = api->open(options, &fixture->device, err);
    for (int i = 0; status == TD_OK && i < FIXTURE_STREAMS; i++)
        status = api->stream_open(fixture->device, &fixture->streams[i], err);
    if (status == TD_OK)
        status = api->alloc(fixture->device, fixture->size, &memory, err);
    if (status == TD_OK)
        status = api->host_alloc(fixture->device, fixture->size, &staging, err);
    if (status == TD_OK)
        status = api->host_alloc(fixture->device, fixture->size, &results, err);
    if (status == TD_OK)
        status = api->host_alloc(fixture->device,
                                 MAX_IN_FLIGHT * MAX_ITEMS * sizeof(struct td_device_report),
                                 &reports, err);
    fixture->memory = memory;
    fixture->staging = staging;
    fixture->results = results;
    fixture->reports = reports;
    return status;
}

void fixture_close(struct fixture *fixture)
{
    const struct td_device_api *api = fixture->api;
    for (int i = 0; i < FIXTURE_STREAMS; i++)
        api->stream_close(fixture->streams[i]);
    if (fixture->poison)
        fixture->poison(fixture->memory, fixture->size, false);
    api->free(fixture->device, fixture->memory);
    api->host_free(fixture->device, fixture->staging);
    api->host_free(fixture->device, fixture->results);
    api->host_free(fixture->device, fixture->reports);
    struct td_device_info info;
    api->info(fixture->device, &info);
    check(info.memory_used == 0, "%" PRIu64 " bytes are in use after everything is freed",
          info.memory_used);
    api->close(fixture->device);
}

bool synchronize(struct fixture *fixture, struct td_device_stream *stream, const char *says)
{
    struct td_error err;
    bool done = false;
    td_status status = fixture->api->wait(stream, TIMEOUT_NS, &done, &err);
    return check(status == TD_OK && done, "%s: %s", says,
                 status == TD_OK ? "does not complete within 15 minutes" : err.message);
}

/* ---- expected results ------------------------------------------------------------------------ */

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
    /* A device writes zeros where the CPU kernel returns an error. */
    struct td_op_args zero_args = *args;
    if (status == TD_INDEX_OUT_OF_BOUNDS)
        td_op_set_choice(bounds_attr(op), &zero_args, TD_BOUNDS_ZERO);
    else if (status == TD_KEY_NOT_FOUND)
        td_op_set_choice(&op->attrs[0], &zero_args, TD_MISSING_ZERO);
    else
        return status;
    return op->run(&zero_args, &serial, err);
}

static td_status infer_and_run(const struct td_op *op, struct td_op_args *args,
                               struct td_arena *arena, struct td_error *err)
{
    td_status status = td_op_infer(op, args, arena, err);
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = td_tensor_alloc(&args->outputs[i], arena, err);
    return status == TD_OK ? run_on_host(op, args, arena, err) : status;
}

/* The first missing key of a lookup that must have them all, and their number. */
static struct td_device_report missing_keys(const struct launch *launch)
{
    struct td_device_report report = { .first_bad = INT64_MAX };
    const struct td_tensor *found = &launch->args.outputs[1];
    for (int64_t i = 0; i < found->numel; i++)
        if (!((const bool *)found->data)[i] && report.n_bad++ == 0)
            report.first_bad = i;
    return report;
}

/* Compares the reports with those counted index by index. */
static bool same_reports(const struct launch *launch)
{
    const struct device_case *one = &launch->one;
    const struct td_tensor *indices = launch->args.inputs[1].tensors;
    bool same = true;
    int64_t begin = 0;
    for (int k = 0; k < one->n_items; k++) {
        struct td_device_report want = { .first_bad = INT64_MAX }, got = launch->reports[k];
        int64_t end = one->item_end ? one->item_end[k] : one->depth < 0 ? 0 : indices->numel;
        for (int64_t i = begin; i < end; i++) {
            int64_t index = td_tensor_index_at(indices, i);
            if (index >= 0 && index < one->bound[i % one->depth])
                continue;
            if (want.n_bad++ == 0)
                want.first_bad = i - begin;
        }
        if (one->reports_missing)
            want = missing_keys(launch);
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

/* ---- launch ---------------------------------------------------------------------------------- */

/* Allocates bytes at `offset` from an aligned boundary, with guard bytes after them; false if the
 * memory is full. */
static bool place(struct fixture *fixture, size_t bytes, size_t offset, size_t *at)
{
    size_t begin = (fixture->used + ALIGN - 1) / ALIGN * ALIGN + offset;
    if (begin > fixture->size || bytes + GUARD > fixture->size - begin)
        return false;
    memset(fixture->staging + fixture->used, FILL, begin + bytes + GUARD - fixture->used);
    if (fixture->poison) {
        fixture->poison(fixture->memory + fixture->used, begin + bytes + GUARD - fixture->used,
                        true);
        fixture->poison(fixture->memory + begin, bytes, false);
    }
    *at = begin;
    fixture->used = begin + bytes + GUARD;
    return true;
}

/* Places the index of keys, whose copy on the device is *keys. */
static bool place_index(struct fixture *fixture, struct td_tensor *keys, struct td_arena *arena)
{
    const struct td_key_index *index = keys->key_index;
    const char *image = index ? td_key_index_image(index) : NULL;
    const size_t bytes = td_key_index_bytes(keys->numel);
    size_t at;
    if (!index)
        return true;
    if (!place(fixture, bytes, 0, &at))
        return false;
    memcpy(fixture->staging + at, image, bytes);
    struct td_key_index *copy = td_arena_alloc(arena, 1, sizeof(*copy), TD_IGNORED);
    *copy = *index;
    copy->keys = *keys;
    copy->blocks = (unsigned char *)fixture->memory + at + ((const char *)index->blocks - image);
    keys->key_index = copy;
    return true;
}

/* Copies the tensors of args, with addresses on the device, and the inputs to the staging
 * memory. */
static bool place_tensors(struct fixture *fixture, struct launch *launch, struct td_op_args *args,
                          struct td_arena *arena)
{
    size_t at, offset = launch->one.first_offset;
    for (int i = 0; i < launch->one.op->n_inputs; i++) {
        struct td_operand *operand = &args->inputs[i];
        struct td_tensor *copies =
            td_arena_alloc(arena, (size_t)operand->count, sizeof(*copies), TD_IGNORED);
        for (int j = 0; j < operand->count; j++, offset = 0) {
            copies[j] = operand->tensors[j];
            if (!place(fixture, copies[j].bytes, offset, &at))
                return false;
            if (copies[j].bytes > 0)
                memcpy(fixture->staging + at, copies[j].data, copies[j].bytes);
            copies[j].data = fixture->memory + at;
            if (!place_index(fixture, &copies[j], arena))
                return false;
        }
        operand->tensors = copies;
    }
    launch->outputs = fixture->used;
    struct td_tensor *copies =
        td_arena_alloc(arena, (size_t)args->n_outputs, sizeof(*copies), TD_IGNORED);
    for (int i = 0; i < args->n_outputs; i++) {
        copies[i] = args->outputs[i];
        if (!place(fixture, copies[i].bytes, 0, &at))
            return false;
        copies[i].data = fixture->memory + at;
    }
    args->outputs = copies;
    return true;
}

/* Submits copies and the launch, then overwrites the arguments, of which the device must have taken
 * a copy. */
static td_status submit(struct fixture *fixture, struct td_device_stream *stream,
                        struct launch *launch, struct td_op_args *args, struct td_error *err)
{
    const struct td_device_api *api = fixture->api;
    const struct device_case *one = &launch->one;
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
                                   .reports = launch->reports };
    size_t at = 0, workspace = api->workspace_bytes(fixture->device, &work);
    td_status status = TD_OK;
    if (workspace > 0 && !place(fixture, workspace, 0, &at))
        status = td_error_set(err, TD_INTERNAL,
                              "%zu bytes of workspace do not fit into the fixture", workspace);
    if (workspace > 0 && status == TD_OK)
        work.workspace = fixture->memory + at;
    launch->end = fixture->used;
    size_t bytes = launch->end - launch->begin;
    char *there = fixture->memory + launch->begin;
    memset(launch->reports, FILL, (size_t)one->n_items * sizeof(launch->reports[0]));
    if (status == TD_OK)
        status = api->copy_to_device(stream, there, fixture->staging + launch->begin, bytes, err);
    if (status == TD_OK)
        status = api->run(stream, &work, err);
    if (item_end)
        memset(item_end, FILL, item_bytes);
    free(item_end);
    for (int i = 0; i < one->op->n_inputs; i++)
        memset(args->inputs[i].tensors, FILL,
               (size_t)args->inputs[i].count * sizeof(struct td_tensor));
    memset(args->outputs, FILL, (size_t)args->n_outputs * sizeof(struct td_tensor));
    memset(args, FILL, sizeof(*args));
    memset(&work, FILL, sizeof(work));
    if (status == TD_OK)
        status = api->copy_to_host(stream, fixture->results + launch->begin, there, bytes, err);
    return status;
}

bool launch_submit(struct fixture *fixture, struct td_device_stream *stream, int number,
                   const struct device_case *one, struct td_arena *arena, struct launch *launch)
{
    struct td_error err;
    size_t before = fixture->used;
    *launch = (struct launch){ .one = *one,
                               .args = one->args,
                               .reports = fixture->reports + (size_t)number * MAX_ITEMS,
                               .begin = (fixture->used + ALIGN - 1) / ALIGN * ALIGN };
    td_status status = infer_and_run(one->op, &launch->args, arena, &err);
    if (!check(status == TD_OK, "%s on the CPU: %s", one->says, err.message))
        return true;
    if (!fixture->api->supports(one->op, &launch->args)) {
        fixture->unsupported[one->args.inputs[0].tensors[0].dtype]++;
        return true;
    }
    struct td_op_args args = launch->args;
    if (!place_tensors(fixture, launch, &args, arena)) {
        fixture->used = before;
        return false;
    }
    status = submit(fixture, stream, launch, &args, &err);
    launch->submitted = check(status == TD_OK, "%s: %s", one->says, err.message);
    return true;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static bool is_float(td_dtype dtype)
{
    return dtype >= TD_DTYPE_FLOAT16 && dtype <= TD_DTYPE_COMPLEX128;
}

/* 2 for complex numbers, else 1. */
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

/* Replaces every element by the sum of its parts' magnitudes: a sum of products of these bounds the
 * sum of the magnitudes of the terms. */
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

static td_status magnitudes(const struct launch *launch, struct td_arena *arena,
                            struct td_op_args *args, struct td_error *err)
{
    *args = launch->one.args;
    struct td_operand *inputs = &args->inputs[0];
    struct td_tensor *copies = td_arena_alloc(arena, (size_t)inputs->count, sizeof(*copies), err);
    td_status status = copies ? TD_OK : err->status;
    for (int i = 0; status == TD_OK && i < inputs->count; i++) {
        copies[i] = inputs->tensors[i];
        status = td_tensor_alloc(&copies[i], arena, err);
        if (status != TD_OK)
            break;
        memcpy(copies[i].data, inputs->tensors[i].data, copies[i].bytes);
        if (is_float(copies[i].dtype))
            make_magnitudes(&copies[i]);
    }
    inputs->tensors = copies;
    return status == TD_OK ? infer_and_run(launch->one.op, args, arena, err) : status;
}

static bool nearly_same(const struct launch *launch, const char *got, struct td_arena *arena)
{
    struct td_error err;
    struct td_op_args bounds;
    const struct td_tensor *want = &launch->args.outputs[0];
    if (magnitudes(launch, arena, &bounds, &err) != TD_OK) {
        printf("  %s\n", err.message);
        return false;
    }
    int parts = parts_of(want);
    /* Subnormal results of float16 are rounded to a multiple of this. */
    double least = want->dtype == TD_DTYPE_FLOAT16 ? 0x1p-24 : 0;
    for (int64_t i = 0; i < want->numel * parts; i++) {
        double a = float_at(want, want->data, i), b = float_at(want, got, i);
        double magnitude = float_at(want, bounds.outputs[0].data, i / parts * parts);
        if (fabs(a - b) <= launch->one.tolerance * magnitude + least)
            continue;
        printf("  element %" PRId64 " is %.17g; expected %.17g, magnitudes %.3g\n", i / parts, b, a,
               magnitude);
        return false;
    }
    return true;
}

/* Equal infinities, or numbers that differ by rounding. */
static bool is_near(double a, double b, double tolerance)
{
    return a == b || fabs(a - b) <= tolerance * (1 + fabs(a));
}

/* True if the row at place i of a query is expected there, or at a place whose score is nearly the
 * same, or is not expected but scores nearly as much as the last row. */
static bool is_found(const struct launch *launch, int64_t begin, int64_t i, int64_t row)
{
    const struct td_tensor *scores = &launch->args.outputs[TD_SEARCH_SCORES],
                           *indices = &launch->args.outputs[TD_SEARCH_INDICES];
    const int64_t *rows = (const int64_t *)indices->data + begin;
    const int64_t k = indices->shape.dim[indices->shape.rank - 1];
    int64_t at = 0;
    while (at < k - 1 && rows[at] != row)
        at++;
    return is_near(float_at(scores, scores->data, begin + i),
                   float_at(scores, scores->data, begin + at), launch->one.tolerance);
}

static bool same_scores(const struct launch *launch, const char *got)
{
    const struct td_tensor *want = &launch->args.outputs[TD_SEARCH_SCORES];
    for (int64_t i = 0; i < want->numel; i++) {
        const double a = float_at(want, want->data, i), b = float_at(want, got, i);
        if (is_near(a, b, launch->one.tolerance))
            continue;
        printf("  score %" PRId64 " is %.17g; expected %.17g\n", i, b, a);
        return false;
    }
    return true;
}

static bool same_rows(const struct launch *launch, const char *got)
{
    const struct td_tensor *want = &launch->args.outputs[TD_SEARCH_INDICES];
    const int64_t k = want->shape.dim[want->shape.rank - 1];
    const int64_t *rows = (const int64_t *)(const void *)got;
    for (int64_t i = 0; i < want->numel; i++) {
        if (is_found(launch, i / k * k, i % k, rows[i]))
            continue;
        printf("  place %" PRId64 " has row %" PRId64 "; expected row %" PRId64 "\n", i, rows[i],
               ((const int64_t *)want->data)[i]);
        return false;
    }
    return true;
}

/* Equal as numbers: -0 is 0. A sum of -0 is 0 or -0, depending on whether it begins with 0 or with
 * its first product; neither the contract nor cuBLAS specifies that. */
static bool same_numbers(const struct td_tensor *want, const char *got)
{
    for (int64_t i = 0; i < want->numel * parts_of(want); i++)
        if (float_at(want, want->data, i) != float_at(want, got, i))
            return false;
    return true;
}

/* The same bits, a NaN for a NaN, or numbers that differ by rounding. */
static bool same_elements(const struct launch *launch, const char *got)
{
    const struct td_tensor *want = &launch->args.outputs[0];
    const double tolerance = launch->one.tolerance;
    for (int64_t i = 0; i < want->numel * parts_of(want); i++) {
        const double a = float_at(want, want->data, i), b = float_at(want, got, i);
        if ((isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)) ||
            (tolerance > 0 && is_near(a, b, tolerance)))
            continue;
        printf("  element %" PRId64 " is %.17g; expected %.17g\n", i, b, a);
        return false;
    }
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

/* Moved elements and integers must be equal bit for bit, sums of floats as numbers. */
static bool same_output(const struct launch *launch, int output, const char *got,
                        struct td_arena *arena)
{
    const struct td_tensor *want = &launch->args.outputs[output];
    if (launch->one.tolerance > 0 && launch->one.op == &td_op_search)
        return output == TD_SEARCH_SCORES ? same_scores(launch, got) : same_rows(launch, got);
    if (launch->one.per_element && is_float(want->dtype))
        return same_elements(launch, got);
    if (launch->one.tolerance > 0)
        return nearly_same(launch, got, arena);
    if (launch->one.op == &td_op_einsum && is_float(want->dtype) && same_numbers(want, got))
        return true;
    return same_bytes(want, got, output);
}

/* Are the bytes from `begin` to `end` as they were copied to the device? */
static bool unchanged(const struct fixture *fixture, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (fixture->results[i] != fixture->staging[i]) {
            printf("  byte %zu of %zu, between tensors, was written\n", i - begin, end - begin);
            return false;
        }
    return true;
}

void launch_check(struct fixture *fixture, const struct launch *launch, struct td_arena *arena)
{
    if (!launch->submitted)
        return;
    const struct device_case *one = &launch->one;
    bool clean = unchanged(fixture, launch->begin, launch->outputs);
    size_t at = launch->outputs;
    for (int i = 0; i < launch->args.n_outputs; i++) {
        const struct td_tensor *want = &launch->args.outputs[i];
        size_t begin = (at + ALIGN - 1) / ALIGN * ALIGN;
        const char *got = fixture->results + begin;
        clean = unchanged(fixture, at, begin) && clean;
        check(same_output(launch, i, got, arena), "%s: result", one->says);
        at = begin + want->bytes + GUARD;
        clean = unchanged(fixture, at - GUARD, at) && clean;
    }
    /* The workspace may be written, the guard bytes after it not. */
    if (launch->end > at)
        clean = unchanged(fixture, launch->end - GUARD, launch->end) && clean;
    check(clean, "%s: only outputs are written", one->says);
    check(same_reports(launch), "%s: reports", one->says);
}
