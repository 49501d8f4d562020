#include "tests/fuzz/fuzz.h"

#include "api/json/tensor.h"
#include "api/message/problem.h"
#include "api/tensor_io.h"
#include "kernels/key_index/key_index.h"
#include "kernels/op_check.h"
#include "tests/api/peers.h"
#include "tests/api/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s:%d: %s does not hold: ", file, line, condition);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

/* ---- the input ------------------------------------------------------------------------------ */

uint8_t fuzz_byte(const uint8_t **data, size_t *size)
{
    if (*size == 0)
        return 0;
    (*size)--;
    return *(*data)++;
}

const struct td_op *fuzz_op(uint8_t number)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    const int i = number % (count + 2);
    return i < count ? ops[i] : i == count ? &list_op : &pair_op;
}

char *fuzz_copy(const uint8_t *data, size_t size, size_t padding)
{
    char *copy = malloc(size + padding + (size + padding == 0));
    REQUIRE(copy, "no memory");
    if (size)
        memcpy(copy, data, size);
    memset(copy + size, '1', padding);
    return copy;
}

/* ---- memory --------------------------------------------------------------------------------- */

enum { MOST_MEMORY = 64 << 20, FIRST_BLOCK = 16 << 10 };

struct counted {
    struct td_buffer base; /* first: release casts back */
    struct td_buffer *inner;
};

static size_t memory_in_use;
static int opened; /* arenas */

static void release(struct td_buffer *base)
{
    struct counted *counted = (struct counted *)(void *)base;
    memory_in_use -= base->size;
    td_buffer_unref(counted->inner);
    free(counted);
}

static struct td_buffer *take(struct td_memory *self, size_t bytes, struct td_error *err)
{
    (void)self;
    if (bytes > MOST_MEMORY) {
        td_error_resource(err, "memory_bytes", bytes, MOST_MEMORY, "an allocation");
        return NULL;
    }
    if (bytes > MOST_MEMORY - memory_in_use) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for %zu bytes", bytes);
        return NULL;
    }
    struct counted *counted = malloc(sizeof *counted);
    REQUIRE(counted, "no memory");
    counted->inner = td_memory_heap()->take(td_memory_heap(), bytes, err);
    REQUIRE(counted->inner, "no memory");
    td_buffer_init(&counted->base, counted->inner->data, bytes, release);
    memory_in_use += bytes;
    return &counted->base;
}

struct td_memory *fuzz_memory(void)
{
    static struct td_memory memory = { take };
    return &memory;
}

size_t fuzz_memory_in_use(void)
{
    return memory_in_use;
}

struct td_arena *fuzz_arena_open(void)
{
    struct td_arena *arena = malloc(sizeof *arena);
    char *block = aligned_alloc(64, FIRST_BLOCK);
    REQUIRE(arena && block, "no memory");
    td_arena_init(arena, block, FIRST_BLOCK, fuzz_memory());
    opened++;
    return arena;
}

void fuzz_arena_close(struct td_arena *arena)
{
    td_arena_reset(arena);
    free(arena->first);
    free(arena);
    REQUIRE(--opened > 0 || memory_in_use == 0, "%zu bytes are not released", memory_in_use);
}

/* Sets the index of the keys, whose image has room for the few that there are. */
static void set_index(struct td_tensor *keys, struct td_key_index *index, void *image)
{
    const size_t bytes = td_key_index_bytes(keys->numel);
    struct td_exec serial;
    struct td_error err;
    td_exec_serial(&serial, NULL);
    REQUIRE(td_key_index_build(keys, "keys", 1, image, &serial, &err) == TD_OK, "%s", err.message);
    REQUIRE(td_key_index_open(image, bytes, keys, index), "the index does not open");
    keys->key_index = index;
}

enum { SMALL_IMAGE = 128 };

static const struct td_tensor *numbers_keys(void)
{
    static int64_t numbers[] = { 10, -1, INT64_MIN, 7 };
    static struct td_tensor keys = { .dtype = TD_DTYPE_INT64,
                                     .shape = { 1, { 4 } },
                                     .numel = 4,
                                     .data = numbers,
                                     .bytes = sizeof numbers };
    static _Alignas(TD_KEY_INDEX_ALIGN) char image[SMALL_IMAGE];
    static struct td_key_index index;
    if (!keys.key_index)
        set_index(&keys, &index, image);
    return &keys;
}

static const struct td_tensor *strings_keys(void)
{
    static char bytes[] = "kk\0";
    static uint64_t offsets[] = { 0, 0, 1, 3 };
    static struct td_tensor keys = { .dtype = TD_DTYPE_STRING,
                                     .shape = { 1, { 3 } },
                                     .numel = 3,
                                     .data = bytes,
                                     .bytes = 3,
                                     .offsets = offsets };
    static _Alignas(TD_KEY_INDEX_ALIGN) char image[SMALL_IMAGE];
    static struct td_key_index index;
    if (!keys.key_index)
        set_index(&keys, &index, image);
    return &keys;
}

static td_status resolve(struct td_resolver *self, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    static int32_t numbers[4][2] = { { 3, 1 }, { 0, 2 }, { 1, 0 }, { 2, 3 } };
    static char bytes[] = "a\0bcd";
    static uint64_t offsets[] = { 0, 2, 2, 5 };
    (void)self;
    (void)arena;
    const struct td_tensor t = { .dtype = TD_DTYPE_INT32,
                                 .shape = { 2, { 4, 2 } },
                                 .numel = 8,
                                 .data = numbers,
                                 .bytes = sizeof numbers,
                                 .keys = numbers_keys() };
    const struct td_tensor s = { .dtype = TD_DTYPE_STRING,
                                 .shape = { 1, { 3 } },
                                 .numel = 3,
                                 .data = bytes,
                                 .bytes = 5,
                                 .offsets = offsets,
                                 .keys = strings_keys() };
    if (length != 1 || (*name != 't' && *name != 's'))
        return td_error_set(err, TD_TENSOR_NOT_FOUND, "no tensor is called \"%.*s\"",
                            length < 100 ? (int)length : 100, name);
    *out = *name == 't' ? t : s;
    return TD_OK;
}

struct td_resolver *fuzz_resolver(void)
{
    static struct td_resolver resolver = { resolve };
    return &resolver;
}

static td_status find(struct td_regions *self, const char *name, size_t length, uint64_t offset,
                      uint64_t bytes, struct td_arena *arena, void **out, struct td_error *err)
{
    static _Alignas(16) char regions[2][64];
    (void)self;
    (void)arena;
    if (length != 1 || (*name != 'r' && *name != 'q'))
        return td_error_set(err, TD_NOT_FOUND, "no region is called \"%.*s\"",
                            length < 100 ? (int)length : 100, name);
    if (bytes > sizeof regions[0] || offset > sizeof regions[0] - bytes)
        return td_error_set(err, TD_INVALID_ARGUMENT, "the range goes beyond its region");
    *out = regions[*name == 'q'] + offset;
    return TD_OK;
}

struct td_regions *fuzz_regions(void)
{
    static struct td_regions regions = { find };
    return &regions;
}

/* ---- properties ----------------------------------------------------------------------------- */

void fuzz_expect_json(const void *text, size_t size)
{
    REQUIRE(peer_reads_json(text, size) != 0, "not JSON: %.*s", (int)size, (const char *)text);
    REQUIRE(!memchr(text, 0, size), "a NUL in %.*s", (int)size, (const char *)text);
}

void fuzz_expect_oip_json(const void *text, size_t size)
{
    static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
    char *copy = fuzz_copy(text, size, 1);
    bool within = false; /* a string */
    for (size_t i = 0; i < size; i++) {
        if (within && copy[i] == '\\')
            i++;
        else if (copy[i] == '"')
            within = !within;
        for (int j = 0; !within && j < 3; j++)
            if (size - i >= strlen(words[j]) && memcmp(copy + i, words[j], strlen(words[j])) == 0) {
                memset(copy + i, ' ', strlen(words[j]));
                copy[i] = '0';
            }
    }
    fuzz_expect_json(copy, size);
    free(copy);
}

void fuzz_expect_error(const struct td_error *err, td_status status, size_t size)
{
    struct td_reply reply = { 0 };
    size_t bytes;
    REQUIRE(status > TD_OK && status < TD_STATUS_COUNT, "status %d", (int)status);
    REQUIRE(err->status == status, "%s in the error, %s returned", td_status_name(err->status),
            td_status_name(status));
    REQUIRE(strnlen(err->message, sizeof err->message) < sizeof err->message, "no end");
    REQUIRE(strlen(err->message) > 8, "%s has no message", td_status_name(status));
    REQUIRE(err->offset >= -1 && err->offset <= (int64_t)size, "offset %lld of %zu bytes",
            (long long)err->offset, size);
    struct td_arena *arena = fuzz_arena_open();
    td_problem_write(err, "gather", "request", arena, &reply);
    REQUIRE(reply.http_status >= 400 && reply.http_status < 600, "%d", reply.http_status);
    char *text = fuzz_reply(&reply, SIZE_MAX, &bytes);
    fuzz_expect_json(text, bytes);
    free(text);
    fuzz_arena_close(arena);
}

static volatile unsigned char sink;

static void touch(const void *data, size_t size)
{
    unsigned char sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = (unsigned char)(sum ^ ((const unsigned char *)data)[i]);
    sink = sum;
}

void fuzz_expect_tensor(const struct td_tensor *tensor)
{
    int64_t numel;
    REQUIRE((unsigned)tensor->dtype < TD_DTYPE_COUNT, "dtype %d", (int)tensor->dtype);
    REQUIRE(tensor->shape.rank >= 0 && tensor->shape.rank <= TD_MAX_RANK, "rank %d",
            tensor->shape.rank);
    for (int i = 0; i < tensor->shape.rank; i++)
        REQUIRE(tensor->shape.dim[i] >= 0, "dimension %d is negative", i);
    REQUIRE(td_shape_numel(&tensor->shape, &numel) && numel == tensor->numel, "%lld elements",
            (long long)tensor->numel);
    if (tensor->dtype != TD_DTYPE_STRING)
        REQUIRE(tensor->bytes == (size_t)numel * td_dtype_info(tensor->dtype)->size, "%zu bytes",
                tensor->bytes);
    else
        for (int64_t i = 0; i < numel; i++)
            REQUIRE(tensor->offsets[i] <= tensor->offsets[i + 1] &&
                        tensor->offsets[i + 1] - tensor->offsets[0] <= tensor->bytes,
                    "the offsets of string %lld", (long long)i);
    REQUIRE(tensor->data, "no data");
    touch(tensor->data, tensor->bytes);
}

static bool same_key(const struct td_tensor *keys, int64_t i, int64_t j)
{
    const char *data = keys->data;
    if (keys->dtype != TD_DTYPE_STRING)
        return memcmp(data + 8 * i, data + 8 * j, 8) == 0;
    const uint64_t *offsets = keys->offsets, length = offsets[i + 1] - offsets[i];
    return length == offsets[j + 1] - offsets[j] &&
           memcmp(data + offsets[i], data + offsets[j], length) == 0;
}

void fuzz_expect_keys(const struct td_tensor *keys, bool intact)
{
    fuzz_expect_tensor(keys);
    int64_t *rows = malloc((size_t)keys->numel * sizeof *rows + 1);
    REQUIRE(rows && keys->key_index, "no memory, or no index");
    td_key_index_find(keys->key_index, keys, 0, keys->numel, rows);
    for (int64_t i = 0; i < keys->numel; i++) {
        const int64_t row = rows[i];
        const bool right = row >= 0 && row < keys->numel && same_key(keys, row, i);
        REQUIRE(row == i || (!intact && (row == TD_ROW_NONE || right)), "key %lld has row %lld",
                (long long)i, (long long)row);
    }
    free(rows);
}

void fuzz_expect_within(const struct td_tensor *tensor, const void *bytes, size_t size)
{
    const uintptr_t data = (uintptr_t)tensor->data, begin = (uintptr_t)bytes;
    REQUIRE(data >= begin && data - begin <= size && tensor->bytes <= size - (data - begin),
            "the data is not in the %zu bytes", size);
}

/* Whether bits, without the sign, are those of a NaN: an exponent of ones and a fraction. */
static bool is_nan(uint64_t bits, int width, int fraction)
{
    const uint64_t sign = UINT64_C(1) << (width - 1), exponent = sign - (UINT64_C(1) << fraction);
    return (bits & (sign - 1)) > exponent;
}

/* Are these two numbers NaNs of the dtype, or equal? */
static bool same_number(td_dtype dtype, const char *a, const char *b, size_t size)
{
    static const struct {
        td_dtype dtype;
        int fraction;
    } floats[] = { { TD_DTYPE_FLOAT16, 10 },
                   { TD_DTYPE_BFLOAT16, 7 },
                   { TD_DTYPE_FLOAT32, 23 },
                   { TD_DTYPE_FLOAT64, 52 } };
    uint64_t x = 0, y = 0;
    if (memcmp(a, b, size) == 0)
        return true;
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++)
        if (floats[i].dtype == dtype) {
            memcpy(&x, a, size);
            memcpy(&y, b, size);
            return is_nan(x, 8 * (int)size, floats[i].fraction) &&
                   is_nan(y, 8 * (int)size, floats[i].fraction);
        }
    return false;
}

static void expect_same_strings(const struct td_tensor *a, const struct td_tensor *b)
{
    const char *first = a->data, *second = b->data;
    for (int64_t i = 0; i < a->numel; i++) {
        const uint64_t length = a->offsets[i + 1] - a->offsets[i];
        REQUIRE(length == b->offsets[i + 1] - b->offsets[i] &&
                    memcmp(first + a->offsets[i], second + b->offsets[i], length) == 0,
                "string %lld differs", (long long)i);
    }
}

void fuzz_expect_same(const struct td_tensor *a, const struct td_tensor *b, bool bits)
{
    REQUIRE(a->dtype == b->dtype, "%s, %s", td_dtype_info(a->dtype)->name,
            td_dtype_info(b->dtype)->name);
    REQUIRE(td_shape_equal(&a->shape, &b->shape), "shapes differ");
    if (a->dtype == TD_DTYPE_STRING) {
        expect_same_strings(a, b);
        return;
    }
    REQUIRE(a->bytes == b->bytes, "%zu bytes, %zu", a->bytes, b->bytes);
    if (bits) {
        REQUIRE(memcmp(a->data, b->data, a->bytes) == 0, "the data differs");
        return;
    }
    const td_dtype part = td_dtype_part(a->dtype);
    const size_t size = td_dtype_info(part)->size;
    for (size_t i = 0; i < a->bytes; i += size)
        REQUIRE(same_number(part, (const char *)a->data + i, (const char *)b->data + i, size),
                "the number at byte %zu differs", i);
}

void fuzz_expect_request(const struct td_request *request)
{
    for (int i = 0; i < request->op->n_inputs; i++)
        for (int j = 0; j < request->args.inputs[i].count; j++)
            fuzz_expect_tensor(&request->args.inputs[i].tensors[j]);
    for (int i = 0; i < request->n_row_keys; i++)
        fuzz_expect_tensor(request->row_keys[i].keys);
}

char *fuzz_reply(const struct td_reply *reply, size_t bound, size_t *size)
{
    *size = td_reply_bytes(reply);
    REQUIRE(*size <= bound, "a reply of %zu bytes, bounded by %zu", *size, bound);
    REQUIRE(reply->http_status >= 100 && reply->http_status < 600, "status %d", reply->http_status);
    REQUIRE(reply->content_type || *size == 0, "a body without a type");
    REQUIRE(reply->n_headers <= TD_REPLY_HEADERS, "%d headers", reply->n_headers);
    char *copy = malloc(*size + 1), *at = copy;
    REQUIRE(copy, "no memory");
    for (int i = 0; i < reply->n_chunks; i++) {
        if (reply->chunks[i].size)
            memcpy(at, reply->chunks[i].data, reply->chunks[i].size);
        at += reply->chunks[i].size;
    }
    return copy;
}

size_t fuzz_beyond_bound(const struct td_tensor *tensors, int n)
{
    enum { LONGEST_ESCAPE = 6, BASE64_OF_A_LENGTH = 6 };
    size_t beyond = 0;
    for (int i = 0; i < n; i++)
        if (tensors[i].dtype == TD_DTYPE_STRING)
            beyond += (LONGEST_ESCAPE - 1) * tensors[i].bytes +
                      BASE64_OF_A_LENGTH * (size_t)tensors[i].numel;
    return beyond;
}

void fuzz_expect_round_trip(const struct td_tensor *tensor, td_format format, td_layout layout)
{
    struct td_arena *arena = fuzz_arena_open();
    struct td_reply reply = { 0 };
    struct td_tensor read = { 0 };
    struct td_error err = { 0 };
    size_t bound, size;
    bool in_body;
    if (!td_tensor_write_bound(format, layout, tensor, &bound)) {
        /* an empty tensor with too many empty lists for any memory, which is refused then */
        fuzz_arena_close(arena);
        return;
    }
    td_status status = td_tensor_write(format, layout, tensor, arena, &reply, &err);
    if (status != TD_OK) {
        REQUIRE(status == TD_NOT_ACCEPTABLE || status == TD_MEMORY_EXHAUSTED ||
                    status == TD_RESOURCE_LIMIT,
                "%s: %s", td_status_name(status), err.message);
        fuzz_expect_error(&err, status, 0);
        fuzz_arena_close(arena);
        return;
    }
    char *reply_text = fuzz_reply(
        &reply, bound + (format == TD_FORMAT_JSON ? fuzz_beyond_bound(tensor, 1) : tensor->bytes),
        &size);
    if (format == TD_FORMAT_JSON)
        fuzz_expect_json(reply_text, size);
    char *body = fuzz_copy((const uint8_t *)reply_text, size, TD_JSON_PADDING);
    status = td_tensor_read(format, TD_ROLE_DATA, body, size, NULL, arena, &read, &in_body, &err);
    REQUIRE(status == TD_OK || status == TD_MEMORY_EXHAUSTED, "%s: %s\n%.*s",
            td_status_name(status), err.message, format == TD_FORMAT_JSON ? (int)size : 0, body);
    if (status == TD_OK) {
        fuzz_expect_tensor(&read);
        fuzz_expect_same(tensor, &read, format != TD_FORMAT_JSON || layout == TD_LAYOUT_BASE64);
    }
    free(body);
    free(reply_text);
    fuzz_arena_close(arena);
}

/* ---- running an op -------------------------------------------------------------------------- */

static bool is_small(const struct td_request *request)
{
    enum { MOST_OUTPUT = 1 << 18, MOST_WORKSPACE = 16 << 20, MOST_FLOPS = 1 << 20 };
    const struct td_op_args *args = &request->args;
    size_t bytes = 0;
    for (int i = 0; i < args->n_outputs; i++)
        if (!td_size_add(bytes, td_tensor_footprint(&args->outputs[i]), &bytes))
            return false;
    const struct td_cost cost = request->op->cost(args);
    return bytes <= MOST_OUTPUT && cost.workspace <= MOST_WORKSPACE &&
           cost.workspace_per_thread <= MOST_WORKSPACE && cost.flops <= MOST_FLOPS;
}

bool fuzz_run(struct td_request *request, struct td_arena *arena)
{
    struct td_op_args *args = &request->args;
    struct td_error err = { 0 };
    struct td_exec exec;
    if (!request->op->run)
        return false;
    td_status status = td_op_infer(request->op, args, arena, &err);
    if (status == TD_OK && !is_small(request))
        return false;
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        status = td_tensor_alloc(&args->outputs[i], arena, &err);
    td_exec_serial(&exec, arena);
    exec.output_limit = MOST_MEMORY / 8;
    if (status == TD_OK)
        status = request->op->run(args, &exec, &err);
    if (status != TD_OK)
        fuzz_expect_error(&err, status, INT32_MAX);
    for (int i = 0; status == TD_OK && i < args->n_outputs; i++)
        fuzz_expect_tensor(&args->outputs[i]);
    return status == TD_OK;
}
