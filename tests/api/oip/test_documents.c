#include "api/oip/oip.h"
#include "api/oip/types.h"
#include "tests/api/oip.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <cjson/cJSON.h>

#include <stdio.h>
#include <string.h>

static struct td_reply reply;
static struct td_error err;

/* The reply as text, and parsed by cJSON. */
static const char *text(void)
{
    ck_assert_int_eq(reply.http_status, 200);
    ck_assert_str_eq(reply.content_type, "application/json");
    ck_assert_int_eq(reply.n_chunks, 1);
    return td_arena_text(&test_arena, reply.chunks[0].data, reply.chunks[0].size, &err);
}

static cJSON *parsed(void)
{
    cJSON *document = cJSON_Parse(text());
    ck_assert_ptr_nonnull(document);
    return document;
}

static const char *string_at(const cJSON *object, const char *name)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    ck_assert_msg(value, "%s is no string", name);
    return value;
}

TD_TEST(the_server_lists_enabled_extensions)
{
    struct td_oip_server server = { .version = "1.2.3", .workers = 4 };
    ck_assert_int_eq(td_oip_describe_server(&server, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(text(), "{\"name\":\"tensord\",\"version\":\"1.2.3\",\"extensions\":["
                             "\"binary_tensor_data\",\"parameters\",\"model_repository\","
                             "\"model_configuration\",\"statistics\",\"schedule_policy\"]}");
    server.shared_memory = true;
    ck_assert_int_eq(td_oip_describe_server(&server, &test_arena, &reply, &err), TD_OK);
    ck_assert_ptr_nonnull(strstr(text(), "\"schedule_policy\",\"system_shared_memory\"]}"));
}

static const struct {
    const char *op, *inputs[2], *output;
} models[] = {
    { "gather", { "params", "indices" }, "output" },
    { "batch_gather", { "params", "indices" }, "output" },
    { "gather_nd", { "params", "indices" }, "output" },
    { "dynamic_stitch", { "indices.0", "data.0" }, "output" },
    { "parallel_dynamic_stitch", { "indices.0", "data.0" }, "output" },
    { "dynamic_partition", { "data", "partitions" }, "outputs.0" },
    { "einsum", { "inputs.0", NULL }, "output" },
};

static const struct td_oip_model *model_of(const struct td_op *op)
{
    static struct td_oip_model model;
    model = td_oip_model_of(op);
    return &model;
}

static void expect_tensors(const cJSON *document, const char *key, const char *const *names, int n,
                           const char *type, const char *dims)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(document, key);
    ck_assert_int_eq(cJSON_GetArraySize(list), n);
    for (int i = 0; i < n; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, dims);
        const char *dtype = string_at(item, type);
        ck_assert_str_eq(string_at(item, "name"), names[i]);
        ck_assert_int_eq(cJSON_GetArraySize(shape), 1);
        ck_assert_double_eq(cJSON_GetNumberValue(cJSON_GetArrayItem(shape, 0)), -1);
        dtype += strncmp(dtype, "TYPE_", 5) == 0 ? 5 : 0;
        ck_assert_str_eq(dtype,
                         strncmp(names[i], "indices", 7) == 0 || strcmp(names[i], "partitions") == 0
                             ? "INT64"
                             : "FP32");
    }
}

TD_TEST_EACH(every_op_is_a_model, models)
{
    const struct td_op *op = td_op_named(models[_i].op, strlen(models[_i].op));
    const int n_inputs = 1 + (models[_i].inputs[1] != NULL);
    ck_assert_int_eq(td_oip_describe_model(model_of(op), &test_arena, &reply, &err), TD_OK);
    cJSON *document = parsed();
    ck_assert_str_eq(string_at(document, "name"), models[_i].op);
    ck_assert_str_eq(string_at(document, "platform"), "tensord_op");
    const cJSON *versions = cJSON_GetObjectItemCaseSensitive(document, "versions");
    ck_assert_int_eq(cJSON_GetArraySize(versions), 1);
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetArrayItem(versions, 0)), "1");
    expect_tensors(document, "inputs", models[_i].inputs, n_inputs, "datatype", "shape");
    expect_tensors(document, "outputs", &models[_i].output, 1, "datatype", "shape");
    cJSON_Delete(document);
}

TD_TEST_EACH(every_model_has_a_configuration, models)
{
    static const char *const absent[] = { "sequence_batching", "ensemble_scheduling",
                                          "model_transaction_policy", "response_cache" };
    const struct td_oip_server server = { .version = "1", .workers = 3 };
    const struct td_op *op = td_op_named(models[_i].op, strlen(models[_i].op));
    const int n_inputs = 1 + (models[_i].inputs[1] != NULL);
    ck_assert_int_eq(td_oip_describe_config(model_of(op), &server, &test_arena, &reply, &err),
                     TD_OK);
    cJSON *document = parsed();
    ck_assert_str_eq(string_at(document, "name"), models[_i].op);
    expect_tensors(document, "input", models[_i].inputs, n_inputs, "data_type", "dims");
    expect_tensors(document, "output", &models[_i].output, 1, "data_type", "dims");
    const cJSON *batch = cJSON_GetObjectItemCaseSensitive(document, "max_batch_size");
    ck_assert_double_eq(cJSON_GetNumberValue(batch), 0);
    for (int i = 0; i < COUNT_OF(absent); i++)
        ck_assert(!cJSON_HasObjectItem(document, absent[i]));
    cJSON_Delete(document);
}

TD_TEST(outputs_have_names_and_inputs_may_be_optional)
{
    const struct td_oip_server server = { .version = "1", .workers = 3 };
    ck_assert_int_eq(td_oip_describe_model(model_of(&pair_op), &test_arena, &reply, &err), TD_OK);
    ck_assert_ptr_nonnull(strstr(text(),
                                 "{\"name\":\"places\",\"datatype\":\"INT32\",\"shape\":[-1],"
                                 "\"parameters\":{\"any_rank\":true,\"datatypes\":[\"INT32\"]}}"));
    ck_assert_ptr_nonnull(strstr(text(),
                                 "{\"name\":\"condition\",\"datatype\":\"BOOL\",\"shape\":[-1],"
                                 "\"parameters\":{\"any_rank\":true,\"datatypes\":[\"BOOL\"],"
                                 "\"optional\":true}}"));
    ck_assert_int_eq(td_oip_describe_config(model_of(&pair_op), &server, &test_arena, &reply, &err),
                     TD_OK);
    ck_assert_ptr_nonnull(strstr(text(), "\"output\":[{\"name\":\"values\",\"data_type\":"));
    ck_assert_ptr_nonnull(strstr(text(), "{\"name\":\"places\",\"data_type\":\"TYPE_INT32\","
                                         "\"dims\":[-1],\"label_filename\":\"\","));
    ck_assert_ptr_nonnull(strstr(text(), "\"optional\":true}"));
}

TD_TEST(metadata_and_configuration_in_full)
{
    const struct td_oip_server server = { .version = "1", .workers = 3 };
    const struct td_op *op = td_op_named("dynamic_partition", 17);
    ck_assert_int_eq(td_oip_describe_model(model_of(op), &test_arena, &reply, &err), TD_OK);
#define ALL_DATATYPES                                                                              \
    "\"datatypes\":[\"BOOL\",\"INT8\",\"INT16\",\"INT32\",\"INT64\",\"UINT8\",\"UINT16\","         \
    "\"UINT32\",\"UINT64\",\"FP16\",\"BF16\",\"FP32\",\"FP64\",\"BYTES\"],\"complex\":true"
    ck_assert_str_eq(
        text(),
        "{\"name\":\"dynamic_partition\",\"versions\":[\"1\"],\"platform\":\"tensord_op\","
        "\"inputs\":["
        "{\"name\":\"data\",\"datatype\":\"FP32\",\"shape\":[-1],\"parameters\":{\"any_rank\":"
        "true," ALL_DATATYPES "}},"
        "{\"name\":\"partitions\",\"datatype\":\"INT64\",\"shape\":[-1],\"parameters\":{"
        "\"any_rank\":true,\"datatypes\":[\"INT16\",\"INT32\",\"INT64\"]}}],"
        "\"outputs\":[{\"name\":\"outputs.0\",\"datatype\":\"FP32\",\"shape\":[-1],\"parameters\":{"
        "\"any_rank\":true," ALL_DATATYPES ",\"variadic\":true,\"min\":1,\"max\":16384}}],"
        "\"parameters\":{\"num_partitions\":{\"type\":\"int64\",\"required\":true,\"minimum\":1},"
        "\"device\":{\"type\":\"string\",\"default\":\"auto\"},"
        "\"complex\":{\"type\":\"bool\",\"default\":false}}}");
    ck_assert_int_eq(td_oip_describe_config(model_of(op), &server, &test_arena, &reply, &err),
                     TD_OK);
    ck_assert_str_eq(
        text(),
        "{\"name\":\"dynamic_partition\",\"platform\":\"tensord_op\",\"backend\":\"tensord\","
        "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":0,"
        "\"input\":[{\"name\":\"data\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1],"
        "\"format\":\"FORMAT_NONE\",\"is_shape_tensor\":false,\"allow_ragged_batch\":false,"
        "\"optional\":false},"
        "{\"name\":\"partitions\",\"data_type\":\"TYPE_INT64\",\"dims\":[-1],"
        "\"format\":\"FORMAT_NONE\",\"is_shape_tensor\":false,\"allow_ragged_batch\":false,"
        "\"optional\":false}],"
        "\"output\":[{\"name\":\"outputs.0\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1],"
        "\"label_filename\":\"\",\"is_shape_tensor\":false}],"
        "\"instance_group\":[{\"name\":\"dynamic_partition\",\"kind\":\"KIND_CPU\",\"count\":3,"
        "\"gpus\":[]}],\"parameters\":{}}");
}

TD_TEST_LOOP(the_rows_of_a_table_are_the_output_of_its_model, 0, 3)
{
    static const struct {
        td_dtype dtype;
        struct td_shape shape;
        const char *metadata, *config; /* of the output */
    } tables[] = {
        { TD_DTYPE_FLOAT32,
          { .rank = 3, .dim = { 5, 3, 2 } },
          "\"datatype\":\"FP32\",\"shape\":[-1,3,2],\"parameters\":{\"any_rank\":true,"
          "\"datatypes\":[\"FP32\"]}}]",
          "\"data_type\":\"TYPE_FP32\",\"dims\":[-1,3,2]," },
        { TD_DTYPE_STRING,
          { .rank = 1, .dim = { 5 } },
          "\"datatype\":\"BYTES\",\"shape\":[-1],\"parameters\":{\"any_rank\":true,"
          "\"datatypes\":[\"BYTES\"]}}]",
          "\"data_type\":\"TYPE_STRING\",\"dims\":[-1]," },
        { TD_DTYPE_COMPLEX128, /* pairs */
          { .rank = 2, .dim = { 5, 3 } },
          "\"datatype\":\"FP64\",\"shape\":[-1,3,2],\"parameters\":{\"any_rank\":true,"
          "\"datatypes\":[\"FP64\"],\"complex\":true}}]",
          "\"data_type\":\"TYPE_FP64\",\"dims\":[-1,3,2]," },
    };
    const struct td_oip_server server = { .version = "1", .workers = 3 };
    struct td_tensor table;
    const struct td_oip_model model = {
        .name = "movies", .version = "7", .op = td_op_named("gather", 6), .table = &table
    };
    ck_assert_int_eq(td_tensor_describe(&table, "table", tables[_i].dtype, &tables[_i].shape, &err),
                     TD_OK);
    ck_assert_int_eq(td_oip_describe_model(&model, &test_arena, &reply, &err), TD_OK);
    ck_assert_ptr_nonnull(strstr(text(), "{\"name\":\"movies\",\"versions\":[\"7\"],"
                                         "\"platform\":\"tensord_table\",\"inputs\":[{\"name\":"
                                         "\"indices\",\"datatype\":\"INT64\",\"shape\":[-1],"));
    ck_assert_ptr_null(strstr(text(), "{\"name\":\"params\""));
    ck_assert_msg(strstr(text(), tables[_i].metadata) != NULL, "%s", text());
    ck_assert_int_eq(td_oip_describe_config(&model, &server, &test_arena, &reply, &err), TD_OK);
    ck_assert_msg(strstr(text(), tables[_i].config) != NULL, "%s", text());
    ck_assert_ptr_nonnull(strstr(text(), "\"input\":[{\"name\":\"indices\","));
    ck_assert_ptr_nonnull(strstr(text(), "\"instance_group\":[{\"name\":\"movies\","));
    ck_assert_ptr_null(strstr(text(), "{\"name\":\"params\""));
}

TD_TEST(datatypes_have_two_names)
{
    char name[TD_OIP_CONFIG_TEXT], all[TD_OIP_NAMES_TEXT];
    td_dtype dtype;
    ck_assert_str_eq(td_oip_config_name(TD_DTYPE_STRING, name, sizeof name), "TYPE_STRING");
    ck_assert_str_eq(td_oip_config_name(TD_DTYPE_BFLOAT16, name, sizeof name), "TYPE_BF16");
    ck_assert(td_oip_dtype("BYTES", 5, &dtype));
    ck_assert_int_eq(dtype, TD_DTYPE_STRING);
    ck_assert(!td_oip_dtype("", 0, &dtype));
    ck_assert(!td_oip_dtype("bytes", 5, &dtype));
    ck_assert(!td_oip_dtype("FP321", 5, &dtype) && !td_oip_dtype("FP", 2, &dtype));
    ck_assert_str_eq(td_oip_names(TD_DTYPES_ALL, all, sizeof all),
                     "BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, "
                     "FP32, FP64, BYTES");
}

/* ---- the repository ---- */

static const struct {
    const char *body, *word; /* NULL: accepted */
} index_bodies[] = {
    { "", NULL },
    { "  ", NULL },
    { "{}", NULL },
    { "null", "the body is null; expected a JSON object" },
    { "{\"ready\":true}", NULL },
    { "{\"ready\":false,\"x\":[1]}", NULL },
    { "{\"ready\":null}", NULL },
    { "{\"ready\":1}", "ready is a number" },
    { "{\"ready\":\"true\"}", "ready is a string" },
    { "{\"ready\":true,\"ready\":true}", "twice" },
    { "[]", "the body is a list" },
    { "{", "expected" },
    { "{}{}", "expected the end" },
};

TD_TEST_EACH(the_index_has_a_small_body, index_bodies)
{
    const char *body = index_bodies[_i].body;
    const td_status status = td_oip_check_index(body, strlen(body), &test_arena, &err);
    if (index_bodies[_i].word) {
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        ck_assert_msg(strstr(err.message, index_bodies[_i].word), "%s: %s", body, err.message);
        return;
    }
    ck_assert_msg(status == TD_OK, "%s: %s", body, err.message);
}

TD_TEST(the_index_lists_all_models)
{
    static const struct td_oip_entry entries[] = { { "gather", 6, "1", NULL },
                                                   { "movies@20261122", 6, "20261122", NULL } };
    ck_assert_int_eq(td_oip_write_index(entries, 2, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(text(),
                     "[{\"name\":\"gather\",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"},"
                     "{\"name\":\"movies\",\"version\":\"20261122\",\"state\":\"READY\","
                     "\"reason\":\"\"}]");
    ck_assert_int_eq(td_oip_write_index(entries, 0, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(text(), "[]");
}

static const struct {
    const char *body, *word;
} load_bodies[] = {
    { "", NULL },
    { "{}", NULL },
    { "{\"parameters\":{}}", NULL },
    { "{\"parameters\":{\"other\":1}}", NULL },
    { "{\"parameters\":{\"config\":\"{}\"}}",
      "has a fixed configuration, which cannot be replaced" },
    { "{\"parameters\":{\"file:1/model.onnx\":\"AA==\"}}",
      "has a fixed configuration, which cannot be replaced" },
    { "{\"parameters\":[]}", "parameters is a list" },
    { "{", "expected" },
};

TD_TEST_EACH(models_are_loaded_already, load_bodies)
{
    const char *body = load_bodies[_i].body;
    const struct td_oip_model model = td_oip_model_of(td_op_named("gather", 6));
    const td_status status =
        td_oip_repository_load(body, strlen(body), &model, &test_arena, &reply, &err);
    if (load_bodies[_i].word) {
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        ck_assert_msg(strstr(err.message, load_bodies[_i].word), "%s: %s", body, err.message);
        return;
    }
    ck_assert_msg(status == TD_OK, "%s: %s", body, err.message);
    ck_assert_str_eq(text(), "{}");
}

TD_TEST(models_cannot_be_unloaded)
{
    static const char body[] = "{\"parameters\":{\"unload_dependents\":false}}";
    static const struct td_tensor table = { .dtype = TD_DTYPE_INT8 };
    const struct td_oip_model op = td_oip_model_of(td_op_named("gather", 6));
    const struct td_oip_model movies = { .name = "movies", .op = op.op, .table = &table };
    ck_assert_int_eq(td_oip_repository_unload(body, sizeof body - 1, &op, &test_arena, &err),
                     TD_INVALID_ARGUMENT);
    ck_assert_str_eq(err.message, "a built-in op cannot be unloaded");
    ck_assert_int_eq(td_oip_repository_unload("", 0, &op, &test_arena, &err), TD_INVALID_ARGUMENT);
    ck_assert_int_eq(td_oip_repository_unload("", 0, &movies, &test_arena, &err),
                     TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "DELETE /v1/tensors/movies");
    ck_assert_int_eq(td_oip_repository_unload("{", 1, &op, &test_arena, &err),
                     TD_MALFORMED_REQUEST);
}

/* ---- statistics ---- */

TD_TEST(statistics_have_every_member)
{
    const struct td_oip_stats stats[] = {
        { .name = "gather",
          .version = "1",
          .last_ms = 1700000000123,
          .inferences = 5,
          .executions = 5,
          .success = { 5, UINT64_MAX },
          .fail = { 1, 7 },
          .queue = { 5, 8 },
          .input = { 5, 9 },
          .infer = { 5, 10 },
          .output = { 5, 11 } },
        { .name = "einsum", .version = "1" },
    };
    ck_assert_int_eq(td_oip_describe_stats(stats, 2, &test_arena, &reply, &err), TD_OK);
#define NONE "{\"count\":0,\"ns\":0}"
    ck_assert_str_eq(
        text(),
        "{\"model_stats\":[{\"name\":\"gather\",\"version\":\"1\","
        "\"last_inference\":1700000000123,\"inference_count\":5,\"execution_count\":5,"
        "\"inference_stats\":{\"success\":{\"count\":5,\"ns\":18446744073709551615},"
        "\"fail\":{\"count\":1,\"ns\":7},\"queue\":{\"count\":5,\"ns\":8},"
        "\"compute_input\":{\"count\":5,\"ns\":9},\"compute_infer\":{\"count\":5,\"ns\":10},"
        "\"compute_output\":{\"count\":5,\"ns\":11},\"cache_hit\":" NONE ",\"cache_miss\":" NONE
        "},\"response_stats\":{},\"batch_stats\":[{\"batch_size\":1,"
        "\"compute_input\":{\"count\":5,\"ns\":9},\"compute_infer\":{\"count\":5,\"ns\":10},"
        "\"compute_output\":{\"count\":5,\"ns\":11}}],\"memory_usage\":[]},"
        "{\"name\":\"einsum\",\"version\":\"1\",\"last_inference\":0,\"inference_count\":0,"
        "\"execution_count\":0,\"inference_stats\":{\"success\":" NONE ",\"fail\":" NONE
        ",\"queue\":" NONE ",\"compute_input\":" NONE ",\"compute_infer\":" NONE
        ",\"compute_output\":" NONE ",\"cache_hit\":" NONE ",\"cache_miss\":" NONE
        "},\"response_stats\":{},\"batch_stats\":[],\"memory_usage\":[]}]}");
}

/* ---- regions ---- */

static const struct {
    const char *body, *word; /* NULL: accepted */
} region_bodies[] = {
    { "{\"key\":\"/k\",\"offset\":16,\"byte_size\":4096}", NULL },
    { "{\"byte_size\":4096.0,\"key\":\"/k\",\"offset\":16,\"more\":{}}", "byte_size" },
    { "{\"key\":\"/k\"}", "byte_size is missing or 0" },
    { "{\"key\":\"/k\",\"byte_size\":0}", "byte_size is missing or 0" },
    { "{\"byte_size\":1}", "key is missing" },
    { "", "key is missing" },
    { "{\"key\":7,\"byte_size\":1}", "key is a number" },
    { "{\"key\":\"a\\u0000b\",\"byte_size\":1}", "NUL" },
    { "{\"key\":\"k\",\"byte_size\":-1}", "byte_size is -1" },
    { "{\"key\":\"k\",\"byte_size\":\"1\"}", "byte_size is \"1\"" },
    { "{\"key\":\"k\",\"byte_size\":1,\"offset\":-5}", "offset is -5" },
    { "{\"key\":\"k\",\"byte_size\":18446744073709551616}", "byte_size" },
};

TD_TEST_EACH(a_region_has_a_key_and_a_size, region_bodies)
{
    struct td_oip_region region;
    const char *body = region_bodies[_i].body;
    td_status status = td_oip_read_region(body, strlen(body), &test_arena, &region, &err);
    if (region_bodies[_i].word) {
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        ck_assert_msg(strstr(err.message, region_bodies[_i].word), "%s: %s", body, err.message);
        return;
    }
    ck_assert_msg(status == TD_OK, "%s: %s", body, err.message);
    ck_assert_str_eq(region.key, "/k");
    ck_assert_uint_eq(region.offset, 16);
    ck_assert_uint_eq(region.bytes, 4096);
}

TD_TEST(regions_are_listed)
{
    const struct td_oip_region list[] = { { "a \"b\"", "/k", 0, 4096 },
                                          { "c", "/l", 1, UINT64_C(1) << 60 } };
    ck_assert_int_eq(td_oip_describe_regions(list, 0, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(text(), "[]");
    ck_assert_int_eq(td_oip_describe_regions(list, 2, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(text(), "[{\"name\":\"a \\\"b\\\"\",\"key\":\"/k\",\"offset\":0,"
                             "\"byte_size\":4096},{\"name\":\"c\",\"key\":\"/l\",\"offset\":1,"
                             "\"byte_size\":1152921504606846976}]");
}
