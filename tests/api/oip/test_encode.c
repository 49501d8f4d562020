#include "api/oip/oip.h"
#include "api/text/text.h"
#include "tests/api/oip.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct decoded decoded;
static struct td_reply reply;
static struct td_error err;

/* The whole reply as one NUL-terminated text. */
static const char *joined(void)
{
    const size_t size = td_reply_bytes(&reply);
    char *text = td_arena_alloc(&test_arena, size + 1, 1, &err), *at = text;
    for (int i = 0; i < reply.n_chunks; i++) {
        memcpy(at, reply.chunks[i].data, reply.chunks[i].size);
        at += reply.chunks[i].size;
    }
    *at = '\0';
    return text;
}

/* Decodes a request and encodes these outputs, as if its op had computed them. */
static td_status encode(const char *op, const char *body, struct td_tensor *outputs, int n,
                        struct td_regions *regions)
{
    decode_oip_at(&decoded, op, body, strlen(body), TD_OIP_NO_HEADER, NULL, regions);
    ck_assert_msg(decoded.status == TD_OK, "%s: %s", body, decoded.err.message);
    decoded.request.args.outputs = outputs;
    decoded.request.args.n_outputs = n;
    memset(&reply, 0, sizeof reply);
    td_status status = td_oip_can_encode(&decoded.request, &err);
    size_t bound;
    if (status == TD_OK) {
        ck_assert(td_oip_encoded_bound(&decoded.request, &bound));
        status = td_oip_encode(&decoded.request, &test_arena, &reply, &err);
    }
    if (status == TD_OK) {
        size_t large = 0;
        for (int i = 0; i < reply.n_chunks; i++)
            large += reply.chunks[i].size >= 65536 ? reply.chunks[i].size : 0;
        ck_assert_msg(td_reply_bytes(&reply) - large <= bound, "%zu bytes, %zu announced",
                      td_reply_bytes(&reply) - large, bound);
        ck_assert_int_eq(reply.http_status, 200);
    }
    return status;
}

static const char *encode_json(const char *op, const char *body, struct td_tensor *outputs, int n)
{
    td_status status = encode(op, body, outputs, n, NULL);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_str_eq(reply.content_type, "application/json");
    ck_assert_int_eq(reply.n_headers, 0);
    return joined();
}

#define GATHER(more) "{" more "\"inputs\":[" PARAMS "," INDICES "]}"
#define ANSWER(output)                                                                             \
    "{\"model_name\":\"gather\",\"model_version\":\"1\",\"outputs\":[{\"name\":\"output\"," output \
    "}]}"

/* ---- JSON ---- */

static const struct {
    const char *output, *want; /* the text after the name */
} elements[] = {
    { "float32[2,2] 1 -2.5 0.1 16777216",
      "\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[1.0,-2.5,0.1,16777216.0]" },
    { "float32[5] nan inf -inf -0.0 1e-45",
      "\"datatype\":\"FP32\",\"shape\":[5],\"data\":[NaN,Infinity,-Infinity,-0.0,1e-45]" },
    { "float64[2] 0.1 1.7976931348623157e308",
      "\"datatype\":\"FP64\",\"shape\":[2],\"data\":[0.1,1.7976931348623157e308]" },
    { "float16[4] 0x2e66 0x7bff 0x7e00 0x0001",
      "\"datatype\":\"FP16\",\"shape\":[4],\"data\":[0.1,65500.0,NaN,6e-8]" },
    { "bfloat16[2] 0x3f80 0xff80", "\"datatype\":\"BF16\",\"shape\":[2],\"data\":[1.0,-Infinity]" },
    { "int64[2] -9223372036854775808 9223372036854775807",
      "\"datatype\":\"INT64\",\"shape\":[2],\"data\":[-9223372036854775808,9223372036854775807]" },
    { "uint64[1] 18446744073709551615",
      "\"datatype\":\"UINT64\",\"shape\":[1],\"data\":[18446744073709551615]" },
    { "bool[2] 1 0", "\"datatype\":\"BOOL\",\"shape\":[2],\"data\":[true,false]" },
    { "int8[] -7", "\"datatype\":\"INT8\",\"shape\":[],\"data\":[-7]" },
    { "float32[3,0]", "\"datatype\":\"FP32\",\"shape\":[3,0],\"data\":[]" },
    { "string[0]", "\"datatype\":\"BYTES\",\"shape\":[0],\"data\":[]" },
    { "string[3] 'a\\x22' '' '\\xc3\\xa9\\x00'",
      "\"datatype\":\"BYTES\",\"shape\":[3],\"data\":[\"a\\\"\",\"\",\"\xc3\xa9\\u0000\"]" },
};

TD_TEST_EACH(data_is_flat_json, elements)
{
    char want[512];
    struct td_tensor output = tensor(elements[_i].output);
    snprintf(want, sizeof want,
             "{\"model_name\":\"gather\",\"model_version\":\"1\",\"outputs\":[{\"name\":\"output\","
             "%s}]}",
             elements[_i].want);
    ck_assert_str_eq(encode_json("gather", GATHER(""), &output, 1), want);
}

TD_TEST(nan_and_infinity_have_no_quotes_in_any_block)
{
    enum { N = 5000 };
    static float values[N];
    struct td_tensor output = tensor_without_data("float32[5000]");
    for (int i = 0; i < N; i++)
        values[i] = i % 3 == 0 ? (float)i : i % 3 == 1 ? __builtin_inff() : -__builtin_inff();
    output.data = values;
    const char *at = strstr(encode_json("gather", GATHER(""), &output, 1), "\"data\":[") + 8;
    for (int i = 0; i < N; i++) {
        char want[32];
        int length = i % 3 == 0   ? snprintf(want, sizeof want, "%d.0", i)
                     : i % 3 == 1 ? snprintf(want, sizeof want, "Infinity")
                                  : snprintf(want, sizeof want, "-Infinity");
        EXPECT(strncmp(at, want, (size_t)length) == 0, "element %d: %.20s", i, at);
        at += length;
        EXPECT(*at == (i < N - 1 ? ',' : ']'), "behind element %d: %.20s", i, at);
        at++;
    }
}

/* Stops at the check that *context counts down to. */
static td_status stop_at(void *context, struct td_error *error)
{
    return --*(int *)context == 0 ? td_error_set(error, TD_DRAINING, "stopped") : TD_OK;
}

TD_TEST(writing_many_elements_stops_at_any_step)
{
    enum { STEPS = 2, N = STEPS * TD_STOP_ELEMENTS + 1 };
    struct td_tensor output = tensor_without_data("int8[2097153]");
    output.data = calloc(1, N);
    for (int check = 1; check <= STEPS + 1; check++) {
        int left = check;
        test_arena.stop = (struct td_stop){ stop_at, &left };
        const td_status status = encode("gather", GATHER(""), &output, 1, NULL);
        ck_assert_int_eq(status, check <= STEPS ? TD_DRAINING : TD_OK);
        ck_assert_int_eq(left, check <= STEPS ? 0 : 1);
    }
    free(output.data);
}

TD_TEST(the_id_is_returned_unchanged)
{
    struct td_tensor output = tensor("int8[1] 7");
    ck_assert_ptr_nonnull(strstr(
        encode_json("gather", GATHER("\"id\":\"a b/\\u00e9\xc3\xa9\\\"\\\\\\n\","), &output, 1),
        "\"model_version\":\"1\",\"id\":\"a b/\\u00e9\xc3\xa9\\\"\\\\\\n\",\"outputs\""));
    ck_assert_ptr_null(strstr(encode_json("gather", GATHER("\"id\":\"\","), &output, 1), "\"id\""));
}

TD_TEST(a_bounds_policy_that_replaced_something_is_reported)
{
    struct td_tensor output = tensor("int8[1] 7");
    static const char body[] = GATHER("\"parameters\":{\"bounds\":\"zero\"},");
    ck_assert_ptr_null(strstr(encode_json("gather", body, &output, 1), "parameters"));
    decoded.request.args.replaced = 3;
    ck_assert_int_eq(td_oip_encode(&decoded.request, &test_arena, &reply, &err), TD_OK);
    ck_assert_ptr_nonnull(strstr(joined(), ",\"parameters\":{\"bounds_policy\":\"zero\","
                                           "\"bounds_replaced\":3},\"outputs\":["));
}

TD_TEST(complex_numbers_are_returned_as_pairs)
{
    struct td_tensor outputs[] = { tensor("complex64[2] 1 -1 nan 2"), tensor("complex128[] 0 1") };
    static const char einsum[] =
        "{\"inputs\":[{\"name\":\"inputs.0\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]}],"
        "\"parameters\":{\"equation\":\"->\"%s}}";
    char body[512];
    snprintf(body, sizeof body, einsum, ",\"complex\":true");
    ck_assert_ptr_nonnull(
        strstr(encode_json("einsum", body, &outputs[0], 1),
               "\"datatype\":\"FP32\",\"shape\":[2,2],\"parameters\":{\"complex\":"
               "true},\"data\":[1.0,-1.0,NaN,2.0]"));
    ck_assert_ptr_nonnull(strstr(encode_json("einsum", body, &outputs[1], 1),
                                 "\"datatype\":\"FP64\",\"shape\":[2],\"parameters\":{\"complex\":"
                                 "true},\"data\":[0.0,1.0]"));
    snprintf(body, sizeof body, einsum, "");
    ck_assert_int_eq(encode("einsum", body, &outputs[0], 1, NULL), TD_NOT_ACCEPTABLE);
    EXPECT_MESSAGE(&err, "\"complex\": true");
}

TD_TEST(strings_that_are_not_utf8_must_be_binary)
{
    struct td_tensor output = tensor("string[1] '\\xff'");
    ck_assert_int_eq(encode("gather", GATHER(""), &output, 1, NULL), TD_NOT_ACCEPTABLE);
    EXPECT_MESSAGE(&err, "not UTF-8");
    EXPECT_MESSAGE(&err, "binary");
    ck_assert_int_eq(
        encode("gather", GATHER("\"parameters\":{\"binary_data_output\":true},"), &output, 1, NULL),
        TD_OK);
}

/* ---- which outputs ---- */

#define PARTITION(outputs)                                                                         \
    "{\"inputs\":[{\"name\":\"data\",\"shape\":[1],\"datatype\":\"INT8\",\"data\":[1]},"           \
    "{\"name\":\"partitions\",\"shape\":[1],\"datatype\":\"INT32\",\"data\":[0]}],"                \
    "\"parameters\":{\"num_partitions\":3}" outputs "}"

TD_TEST(outputs_are_returned_as_requested)
{
    static const struct {
        const char *outputs, *want;
    } cases[] = {
        { "", "[{\"name\":\"outputs.0\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[1]},"
              "{\"name\":\"outputs.1\",\"datatype\":\"INT8\",\"shape\":[0],\"data\":[]},"
              "{\"name\":\"outputs.2\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[3]}]}" },
        { ",\"outputs\":[{\"name\":\"outputs.2\"},{\"name\":\"outputs.0\"}]",
          "[{\"name\":\"outputs.2\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[3]},"
          "{\"name\":\"outputs.0\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[1]}]}" },
        { ",\"outputs\":[{\"name\":\"outputs.1\"}]",
          "[{\"name\":\"outputs.1\",\"datatype\":\"INT8\",\"shape\":[0],\"data\":[]}]}" },
    };
    struct td_tensor outputs[] = { tensor("int8[1] 1"), tensor("int8[0]"), tensor("int8[1] 3") };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char body[512];
        snprintf(body, sizeof body, PARTITION("%s"), cases[i].outputs);
        const char *at = strstr(encode_json("dynamic_partition", body, outputs, 3), "\"outputs\":");
        ck_assert_str_eq(at + strlen("\"outputs\":"), cases[i].want);
    }
}

TD_TEST(an_output_that_the_op_did_not_compute_is_refused_anywhere_in_the_list)
{
    static const char *const bodies[] = {
        PARTITION(",\"outputs\":[{\"name\":\"outputs.3\"}]"),
        PARTITION(",\"outputs\":[{\"name\":\"outputs.3\"},{\"name\":\"outputs.0\"}]"),
        PARTITION(",\"outputs\":[{\"name\":\"outputs.0\"},{\"name\":\"outputs.3\"}]"),
    };
    struct td_tensor outputs[] = { tensor("int8[1] 1"), tensor("int8[0]"), tensor("int8[1] 3") };
    for (int i = 0; i < COUNT_OF(bodies); i++) {
        const td_status status = encode("dynamic_partition", bodies[i], outputs, 3, NULL);
        ck_assert_msg(status == TD_INVALID_ARGUMENT, "%s", bodies[i]);
        EXPECT_MESSAGE(&err, "outputs.3");
    }
}

TD_TEST(named_outputs_are_returned_as_requested)
{
#define X "{\"inputs\":[{\"name\":\"x\",\"shape\":[1],\"datatype\":\"INT8\",\"data\":[1]}]"
    struct td_tensor outputs[] = { tensor("int8[1] 7"), tensor("int32[1] 0") };
    const char *all = encode_json("pair_op", X "}", outputs, 2);
    ck_assert_ptr_nonnull(strstr(
        all, "\"outputs\":[{\"name\":\"values\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[7]},"
             "{\"name\":\"places\",\"datatype\":\"INT32\",\"shape\":[1],\"data\":[0]}]}"));
    const char *one = encode_json("pair_op", X ",\"outputs\":[{\"name\":\"places\"}]}", outputs, 2);
    ck_assert_ptr_nonnull(strstr(
        one,
        "\"outputs\":[{\"name\":\"places\",\"datatype\":\"INT32\",\"shape\":[1],\"data\":[0]}]}"));
    decode_oip_text(&decoded, "pair_op", X ",\"outputs\":[{\"name\":\"output\"}]}");
    ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    ck_assert_str_eq(decoded.err.message,
                     "pair_op has no output \"output\"; expected values, places");
#undef X
}

/* ---- binary ---- */

TD_TEST(bytes_follow_in_the_order_of_the_outputs)
{
    struct td_tensor outputs[] = { tensor("int8[2] 1 2"), tensor("int8[0]"),
                                   tensor("string[2] '\\xff' 'bc'") };
    td_status status = encode(
        "dynamic_partition",
        PARTITION(",\"outputs\":[{\"name\":\"outputs.2\",\"parameters\":{\"binary_data\":true}},"
                  "{\"name\":\"outputs.1\",\"parameters\":{\"binary_data\":true}},"
                  "{\"name\":\"outputs.0\",\"parameters\":{\"binary_data\":true}}]"),
        outputs, 3, NULL);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_str_eq(reply.content_type, "application/octet-stream");
    ck_assert_int_eq(reply.n_headers, 1);
    ck_assert_str_eq(reply.headers[0].name, "Inference-Header-Content-Length");
    const size_t length = strtoul(reply.headers[0].value, NULL, 10);
    const char *body = joined();
    static const char json[] =
        "{\"model_name\":\"dynamic_partition\",\"model_version\":\"1\",\"outputs\":["
        "{\"name\":\"outputs.2\",\"datatype\":\"BYTES\",\"shape\":[2],\"parameters\":"
        "{\"binary_data_size\":11}},{\"name\":\"outputs.1\",\"datatype\":\"INT8\",\"shape\":[0],"
        "\"parameters\":{\"binary_data_size\":0}},{\"name\":\"outputs.0\",\"datatype\":\"INT8\","
        "\"shape\":[2],\"parameters\":{\"binary_data_size\":2}}]}";
    ck_assert_uint_eq(length, sizeof json - 1);
    ck_assert_uint_eq(td_reply_bytes(&reply), length + 13);
    ck_assert_mem_eq(body, json, length);
    ck_assert_mem_eq(body + length, "\1\0\0\0\xff\2\0\0\0bc\1\2", 13);
}

TD_TEST(an_output_may_differ_from_the_others)
{
    struct td_tensor outputs[] = { tensor("int8[1] 1"), tensor("int8[1] 2"), tensor("int8[1] 3") };
    static const struct {
        const char *body;
        size_t bytes; /* size of the data after the JSON text */
    } cases[] = {
        { PARTITION(""), 0 },
        { PARTITION(",\"outputs\":[{\"name\":\"outputs.0\",\"parameters\":{\"binary_data\":true}},"
                    "{\"name\":\"outputs.1\"}]"),
          1 },
        { "{\"inputs\":[{\"name\":\"data\",\"shape\":[1],\"datatype\":\"INT8\",\"data\":[1]},"
          "{\"name\":\"partitions\",\"shape\":[1],\"datatype\":\"INT32\",\"data\":[0]}],"
          "\"outputs\":[{\"name\":\"outputs.0\",\"parameters\":{\"binary_data\":false}},"
          "{\"name\":\"outputs.1\"},{\"name\":\"outputs.2\"}],"
          "\"parameters\":{\"num_partitions\":3,\"binary_data_output\":true}}",
          2 },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        td_status status = encode("dynamic_partition", cases[i].body, outputs, 3, NULL);
        ck_assert_msg(status == TD_OK, "%s", err.message);
        ck_assert_int_eq(reply.n_headers, cases[i].bytes > 0);
        if (cases[i].bytes > 0)
            ck_assert_uint_eq(td_reply_bytes(&reply) - strtoul(reply.headers[0].value, NULL, 10),
                              cases[i].bytes);
    }
}

TD_TEST(large_data_is_not_copied)
{
    struct td_tensor outputs[] = { tensor("int8[1] 1"), tensor("uint8[70000] 0..69999"),
                                   tensor("int8[1] 3") };
    td_status status =
        encode("dynamic_partition",
               "{\"inputs\":[{\"name\":\"data\",\"shape\":[1],\"datatype\":\"INT8\",\"data\":[1]},"
               "{\"name\":\"partitions\",\"shape\":[1],\"datatype\":\"INT32\",\"data\":[0]}],"
               "\"parameters\":{\"num_partitions\":3,\"binary_data_output\":true}}",
               outputs, 3, NULL);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_int_eq(reply.n_chunks, 3);
    ck_assert_ptr_eq(reply.chunks[1].data, outputs[1].data);
    ck_assert_uint_eq(reply.chunks[1].size, 70000);
    ck_assert_uint_eq(reply.chunks[2].size, 1);
    const size_t json = strtoul(reply.headers[0].value, NULL, 10);
    ck_assert_uint_eq(reply.chunks[0].size, json + 1);
}

/* ---- shared memory ---- */

#define TO_REGION(size, offset)                                                                    \
    GATHER("\"outputs\":[{\"name\":\"output\",\"parameters\":{\"binary_data\":false,"              \
           "\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":" size offset "}}],")

TD_TEST(outputs_may_go_to_shared_memory)
{
    struct test_regions regions;
    struct td_tensor output = tensor("int16[2] 513 -1");
    test_regions_init(&regions);
    memset(regions.bytes, '.', sizeof regions.bytes);
    td_status status =
        encode("gather", TO_REGION("6", ",\"shared_memory_offset\":8"), &output, 1, &regions.base);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_mem_eq(regions.bytes[0], "........\1\2\xff\xff....", 16);
    ck_assert_str_eq(joined(), ANSWER("\"datatype\":\"INT16\",\"shape\":[2]"));
    ck_assert_int_eq(reply.n_headers, 0);
    output = tensor("string[2] 'a' '\\xff\\xfe'");
    status = encode("gather", TO_REGION("11", ""), &output, 1, &regions.base);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_mem_eq(regions.bytes[0], "\1\0\0\0a\2\0\0\0\xff\xfe", 11);
    ck_assert_str_eq(joined(), ANSWER("\"datatype\":\"BYTES\",\"shape\":[2]"));
    output = tensor("complex64[1] 1 2");
    status = encode("gather",
                    "{\"inputs\":[" PARAMS "," INDICES "],\"parameters\":{\"complex\":true},"
                    "\"outputs\":[{\"name\":\"output\",\"parameters\":{"
                    "\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":8}}]}",
                    &output, 1, &regions.base);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_str_eq(joined(), ANSWER("\"datatype\":\"FP32\",\"shape\":[1,2]"));
}

TD_TEST(outputs_that_do_not_fit_their_range_are_refused)
{
    static const char *const outputs[] = { "int16[3] 1 2 3", "string[1] 'ab'" };
    struct test_regions regions;
    test_regions_init(&regions);
    for (int i = 0; i < COUNT_OF(outputs); i++) {
        struct td_tensor output = tensor(outputs[i]);
        td_status status = encode("gather", TO_REGION("5", ""), &output, 1, &regions.base);
        ck_assert_int_eq(status, TD_INVALID_ARGUMENT);
        EXPECT_MESSAGE(&err, "takes 6 bytes");
        EXPECT_MESSAGE(&err, "has 5");
        ck_assert_int_eq(regions.bytes[0][0], 0);
    }
}

/* ---- before the op has run ---- */

TD_TEST(the_bound_is_known_from_shapes)
{
    static const char *const outputs[] = { "float32[1000]", "string[1000]", "int64[10,0]" };
    for (int i = 0; i < COUNT_OF(outputs); i++)
        for (int binary = 0; binary < 2; binary++) {
            struct td_tensor output = tensor_without_data(outputs[i]);
            size_t bound = 0;
            const char *body =
                binary ? GATHER("\"parameters\":{\"binary_data_output\":true},") : GATHER("");
            decode_oip_text(&decoded, "gather", body);
            ck_assert_int_eq(decoded.status, TD_OK);
            decoded.request.args.outputs = &output;
            decoded.request.args.n_outputs = 1;
            ck_assert_int_eq(td_oip_can_encode(&decoded.request, &err), TD_OK);
            ck_assert(td_oip_encoded_bound(&decoded.request, &bound));
            ck_assert_uint_ge(bound, (size_t)output.numel * 3);
            ck_assert_uint_le(bound, (size_t)output.numel * 20 + 4096);
        }
}

/* ---- problems ---- */

static const char *problem_of_model(const char *model, const char *op)
{
    memset(&reply, 0, sizeof reply);
    td_oip_problem(&err, model, op, "id-7", &test_arena, &reply);
    ck_assert_str_eq(reply.content_type, "application/json");
    return joined();
}

static const char *problem(const char *op)
{
    return problem_of_model(op, op);
}

TD_TEST(errors_are_a_message_and_further_members)
{
    td_error_set(&err, TD_INDEX_OUT_OF_BOUNDS, "indices[3] = 9 is not in [0, 5)");
    td_error_at_input(&err, TD_INDEX_OUT_OF_BOUNDS, "indices");
    err.has_index = err.has_bound = true;
    err.position_rank = 1;
    err.position[0] = 3;
    err.index = 9;
    err.bound = 5;
    err.bad_count = 1;
    ck_assert_str_eq(problem("gather"),
                     "{\"error\":\"gather: indices[3] = 9 is not in [0, 5)\","
                     "\"code\":\"INDEX_OUT_OF_BOUNDS\",\"op\":\"gather\",\"input\":\"indices\","
                     "\"position\":[3],\"index\":9,\"bound\":5,\"axis\":0,\"bad_count\":1,"
                     "\"request_id\":\"id-7\"}");
    ck_assert_int_eq(reply.http_status, 400);
}

TD_TEST(the_message_names_the_model_and_the_input_once)
{
    static const struct {
        const char *op, *input, *message, *want;
    } cases[] = {
        { "gather", "", "gather has no input \"x\"", "\"gather has no input \\\"x\\\"\"" },
        { NULL, "", "there is no model \"x\"", "\"there is no model \\\"x\\\"\"" },
        { "gather", "params", "1.5 is not INT32", "\"gather: params: 1.5 is not INT32\"" },
        { "dynamic_stitch", "indices[1]", "1.5 is not INT32",
          "\"dynamic_stitch: indices.1: 1.5 is not INT32\"" },
        { "dynamic_stitch", "indices[1]", "indices[1] is odd",
          "\"dynamic_stitch: indices[1] is odd\"" },
        { "find", "", "finding nothing", "\"find: finding nothing\"" },
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char want[256];
        td_error_set(&err, TD_MALFORMED_REQUEST, "%s", cases[i].message);
        td_error_at_input(&err, TD_MALFORMED_REQUEST, "%s", cases[i].input);
        const char *got = problem(cases[i].op);
        snprintf(want, sizeof want, "{\"error\":%s,", cases[i].want);
        ck_assert_msg(strncmp(got, want, strlen(want)) == 0, "%s\nshould begin with %s", got, want);
        ck_assert_ptr_null(strstr(got, "\"input\":\"indices["));
    }
}

TD_TEST(the_message_begins_with_the_name_of_a_table_whatever_that_is)
{
    static const char *const names[] = { "k", "keys", "indices", "indices[0]", "gathe", "movies" };
    static const char *const messages[] = { "keys[0] = 7 is not one of the keys",
                                            "indices[0] = 5 is not in [0, 2)",
                                            "gather has no input", "movies has no input" };
    for (int i = 0; i < COUNT_OF(names) * COUNT_OF(messages); i++) {
        const char *name = names[i % COUNT_OF(names)], *message = messages[i / COUNT_OF(names)];
        char want[256];
        td_error_set(&err, TD_MALFORMED_REQUEST, "%s", message);
        snprintf(want, sizeof want, "{\"error\":\"%s: %s\",", name, message);
        const char *got = problem_of_model(name, "gather");
        ck_assert_msg(strncmp(got, want, strlen(want)) == 0, "%s\nshould begin with %s", got, want);
    }
}

TD_TEST(codes_are_those_of_the_protocol)
{
    static const struct {
        td_status status;
        int http;
    } codes[] = {
        { TD_MALFORMED_REQUEST, 400 },  { TD_INDEX_OUT_OF_BOUNDS, 400 },
        { TD_SHAPE_MISMATCH, 400 },     { TD_INVALID_AXIS, 400 },
        { TD_INVALID_BATCH_DIMS, 400 }, { TD_INVALID_EQUATION, 400 },
        { TD_UNSUPPORTED_DTYPE, 400 },  { TD_INVALID_ARGUMENT, 400 },
        { TD_RESOURCE_LIMIT, 400 },     { TD_NOT_ACCEPTABLE, 400 },
        { TD_UNKNOWN_OP, 404 },         { TD_TENSOR_NOT_FOUND, 404 },
        { TD_NOT_FOUND, 404 },          { TD_METHOD_NOT_ALLOWED, 405 },
        { TD_PAYLOAD_TOO_LARGE, 413 },  { TD_UNSUPPORTED_MEDIA_TYPE, 415 },
        { TD_QUEUE_FULL, 429 },         { TD_MEMORY_EXHAUSTED, 429 },
        { TD_DRAINING, 503 },           { TD_DEADLINE_EXCEEDED, 504 },
        { TD_NOT_SUPPORTED, 501 },      { TD_INTERNAL, 500 },
        { TD_UNAUTHENTICATED, 401 },    { TD_FORBIDDEN, 403 },
    };
    for (int i = 0; i < COUNT_OF(codes); i++) {
        td_error_set(&err, codes[i].status, "a sentence");
        problem("gather");
        ck_assert_msg(reply.http_status == codes[i].http, "%s is %d",
                      td_status_name(codes[i].status), reply.http_status);
    }
}

TD_TEST(without_memory_the_error_is_a_title)
{
    struct td_arena arena;
    char first[16];
    td_arena_init(&arena, first, sizeof first, &no_memory);
    memset(&reply, 0, sizeof reply);
    td_error_set(&err, TD_QUEUE_FULL, "full");
    td_oip_problem(&err, "gather", "gather", "r", &arena, &reply);
    ck_assert_int_eq(reply.http_status, 429);
    ck_assert_str_eq(reply.content_type, "application/json");
    ck_assert_str_eq(joined(), "{\"error\":\"Queue full\"}");
    td_arena_reset(&arena);
}

TD_FIXTURE(NULL, bodies_free);
