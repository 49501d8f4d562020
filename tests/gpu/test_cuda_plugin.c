/* test_cuda_plugin.c - the CUDA plugin on any machine: it loads, reports which ops it supports, and
 * opens a device or returns the reason why there is none.
 *
 * Needs only libc, as test_device_contract does. */
#include "gpu/loader/loader.h"
#include "kernels/op.h"
#include "kernels/op_check.h"
#include "kernels/search/search.h"

#include <stdio.h>
#include <string.h>

static int passed, failed;

static void check(bool holds, const char *says)
{
    if (holds)
        passed++;
    else
        failed++;
    if (!holds)
        printf("FAILED: %s\n", says);
}

static void has_kernels_for_gather_but_not_for_strings(const struct td_device_api *api)
{
    struct td_shape shape = { .rank = 1, .dim = { 4 } };
    struct td_tensor params, indices;
    struct td_arena arena;
    struct td_error err;
    const struct td_op *op = td_op_named("gather", strlen("gather"));
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    struct td_op_args args = { .inputs = { { &params, 1 }, { &indices, 1 } } };
    td_op_set_defaults(op, &args);
    check(td_tensor_describe(&params, "params", TD_DTYPE_FLOAT16, &shape, &err) == TD_OK &&
              td_tensor_describe(&indices, "indices", TD_DTYPE_INT32, &shape, &err) == TD_OK &&
              td_op_infer(op, &args, &arena, &err) == TD_OK && api->supports(op, &args),
          "gather of float16 has a kernel");
    check(td_tensor_describe(&params, "params", TD_DTYPE_STRING, &shape, &err) == TD_OK &&
              td_op_infer(op, &args, &arena, &err) == TD_OK && !api->supports(op, &args),
          "gather of strings has none");
    struct td_op other = *op;
    other.name = "no_such_op";
    check(!api->supports(&other, &args), "an unknown op has none");
    td_arena_reset(&arena);
}

/* True if the plugin searches a table [n, 8] for n_queries rows. */
static bool searches(const struct td_device_api *api, int64_t n, int64_t n_queries, int64_t k,
                     td_dtype key)
{
    const struct td_shape table = { .rank = 2, .dim = { n, 8 } };
    const struct td_shape per_row = { .rank = 1, .dim = { n } };
    const struct td_shape per_query = { .rank = 1, .dim = { n_queries } };
    struct td_search_attrs attrs = { .k = k };
    const struct td_shape scalar = { .rank = 0 };
    struct td_tensor params, rows, keys, scale;
    struct td_arena arena;
    struct td_error err;
    struct td_op_args args = { .inputs = { [TD_SEARCH_PARAMS] = { &params, 1 },
                                           [TD_SEARCH_ROWS] = { &rows, 1 },
                                           [TD_SEARCH_KEYS] = { &keys, 1 },
                                           [TD_SEARCH_SCALE] = { &scale, 1 } } };
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_op_set_defaults(&td_op_search, &args);
    memcpy(args.attrs, &attrs, sizeof(attrs));
    args.attrs_set = 1;
    check(td_tensor_describe(&params, "params", TD_DTYPE_INT8, &table, &err) == TD_OK &&
              td_tensor_describe(&rows, "rows", TD_DTYPE_INT16, &per_query, &err) == TD_OK &&
              td_tensor_describe(&keys, "keys", key, &per_row, &err) == TD_OK &&
              td_tensor_describe(&scale, "scale", TD_DTYPE_FLOAT32, &scalar, &err) == TD_OK &&
              td_op_infer(&td_op_search, &args, &arena, &err) == TD_OK,
          "a search is valid");
    const bool result = api->supports(&td_op_search, &args);
    td_arena_reset(&arena);
    return result;
}

static void has_kernels_for_searches_that_return_no_strings(const struct td_device_api *api)
{
    check(searches(api, 1000, 3, 1000, TD_DTYPE_INT64), "a search has a kernel");
    check(!searches(api, 1000, 3, 1000, TD_DTYPE_STRING), "with keys that are strings, none");
    check(searches(api, 1 << 30, 2, 2000, TD_DTYPE_INT64), "a large k has one");
    check(!searches(api, 1 << 30, 3, 2000, TD_DTYPE_INT64), "unless it sorts for many seconds");
    check(searches(api, 1 << 30, 64, 1000, TD_DTYPE_INT64), "a small k has one");
    check(!searches(api, 1 << 30, 65, 1000, TD_DTYPE_INT64), "unless it has more than 2^36 scores");
}

static void opens_a_device_or_returns_the_reason(const struct td_device_api *api)
{
    struct td_device_options options = { .text = "" };
    struct td_device *device = NULL;
    struct td_error err = { .status = TD_OK };
    td_status status = api->open(&options, &device, &err);
    if (status == TD_OK) {
        struct td_device_info info;
        api->info(device, &info);
        printf("device: %s\n", info.name);
        check(info.name[0] != '\0' && info.memory > 0, "an open device has a name and memory");
        api->close(device);
        return;
    }
    printf("no device: %s\n", err.message);
    check(status == TD_DEVICE_UNAVAILABLE && err.status == TD_DEVICE_UNAVAILABLE,
          "without a device opening is DEVICE_UNAVAILABLE");
    check(strstr(err.message, "NVIDIA driver") || strstr(err.message, "finds no GPU"),
          "the message names the driver or the GPU that is missing");
}

static void refuses_unknown_options(const struct td_device_api *api)
{
    struct td_device_options options = { .text = "launch_us=3" };
    struct td_device *device = NULL;
    struct td_error err = { .status = TD_OK };
    check(api->open(&options, &device, &err) == TD_INVALID_ARGUMENT &&
              strstr(err.message, "launch_us"),
          "an option is refused by its name, with or without a device");
}

int main(void)
{
    struct td_device_library library;
    struct td_error err;
    if (td_device_load(TD_TEST_PLUGIN, &library, &err) != TD_OK) {
        printf("FAILED: the plugin loads without CUDA's driver: %s\n", err.message);
        return 1;
    }
    check(strcmp(library.api->kind, "cuda") == 0, "its kind is cuda");
    has_kernels_for_gather_but_not_for_strings(library.api);
    has_kernels_for_searches_that_return_no_strings(library.api);
    refuses_unknown_options(library.api);
    opens_a_device_or_returns_the_reason(library.api);
    library.api->close(NULL);
    td_device_unload(&library);
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
