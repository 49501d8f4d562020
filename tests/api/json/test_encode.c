#include "api/json/encode.h"
#include "api/message/attrs.h"
#include "api/message/common_members.h"
#include "api/message/message.h"
#include "tests/api/request.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_request request;
static struct td_error err;

static void begin(const char *op, td_layout layout)
{
    td_request_init(&request, op ? td_op_named(op, strlen(op)) : &list_op);
    request.common.layout = layout;
}

/* Encodes, checks the bound and returns the text. */
static const char *encode(struct td_tensor *outputs, int n)
{
    struct td_reply reply;
    size_t bound;
    request.args.outputs = outputs;
    request.args.n_outputs = n;
    ck_assert(td_json_encoded_bound(&request, &bound));
    EXPECT_OK(td_json_encode(&request, &test_arena, &reply, &err), &err);
    ck_assert_int_eq(reply.n_chunks, 1);
    ck_assert_int_eq(reply.http_status, 200);
    ck_assert_str_eq(reply.content_type, "application/json");
    ck_assert_msg(td_reply_bytes(&reply) <= bound, "%zu bytes, %zu announced",
                  td_reply_bytes(&reply), bound);
    return td_arena_text(&test_arena, reply.chunks[0].data, reply.chunks[0].size, &err);
}

static const struct {
    const char *case_name, *tensor, *nested, *flat, *base64; /* only the value of "data" */
} layouts[] = {
    { "a scalar", "int32[] 7", "7", "[7]", "BwAAAA==" },
    { "a vector", "int32[3] 1 -2 3", "[1,-2,3]", "[1,-2,3]", "AQAAAP7///8DAAAA" },
    { "a matrix", "int8[2,3] 1 2 3 4 5 6", "[[1,2,3],[4,5,6]]", "[1,2,3,4,5,6]", "AQIDBAUG" },
    { "three dimensions", "uint8[2,1,2] 1 2 3 4", "[[[1,2]],[[3,4]]]", "[1,2,3,4]", "AQIDBA==" },
    { "ones", "uint8[1,1,1] 9", "[[[9]]]", "[9]", "CQ==" },
    { "nothing", "float32[0]", "[]", "[]", "" },
    { "empty lists", "float32[2,0]", "[[],[]]", "[]", "" },
    { "no lists after a dimension of zero", "float32[2,0,3]", "[[],[]]", "[]", "" },
    { "no lists at all", "float32[0,3]", "[]", "[]", "" },
    { "bool", "bool[2] 1 0", "[true,false]", "[true,false]", "AQA=" },
    { "the range of int8", "int8[2] -128 127", "[-128,127]", "[-128,127]", "gH8=" },
    { "the range of int16", "int16[2] -32768 32767", "[-32768,32767]", "[-32768,32767]",
      "AID/fw==" },
    { "the range of int32", "int32[2] -2147483648 2147483647", "[-2147483648,2147483647]",
      "[-2147483648,2147483647]", "AAAAgP///38=" },
    { "the range of int64", "int64[2] -9223372036854775808 9223372036854775807",
      "[-9223372036854775808,9223372036854775807]", "[-9223372036854775808,9223372036854775807]",
      "AAAAAAAAAID/////////fw==" },
    { "the range of unsigned dtypes", "uint64[2] 0 18446744073709551615",
      "[0,18446744073709551615]", "[0,18446744073709551615]", "AAAAAAAAAAD//////////w==" },
    { "uint16", "uint16[2] 65535 10", "[65535,10]", "[65535,10]", "//8KAA==" },
    { "uint32", "uint32[2] 4294967295 100", "[4294967295,100]", "[4294967295,100]",
      "/////2QAAAA=" },
    { "float16", "float16[3] 0x3c00 0x7bff 0xfc00", "[1.0,65500.0,\"-Infinity\"]",
      "[1.0,65500.0,\"-Infinity\"]", "ADz/ewD8" },
    { "bfloat16", "bfloat16[2] 0x3f80 0x7fc0", "[1.0,\"NaN\"]", "[1.0,\"NaN\"]", "gD/Afw==" },
    { "float32", "float32[2] 0.1 -2.5", "[0.1,-2.5]", "[0.1,-2.5]", "zczMPQAAIMA=" },
    { "float64", "float64[1] 0.1", "[0.1]", "[0.1]", "mpmZmZmZuT8=" },
    { "complex64", "complex64[2] 1 -0.5 0 2", "[[1.0,-0.5],[0.0,2.0]]", "[[1.0,-0.5],[0.0,2.0]]",
      "AACAPwAAAL8AAAAAAAAAQA==" },
    { "a complex scalar", "complex128[] 1 2", "[1.0,2.0]", "[[1.0,2.0]]",
      "AAAAAAAA8D8AAAAAAAAAQA==" },
    { "strings", "string[2] 'a' ''", "[\"a\",\"\"]", "[\"a\",\"\"]", "AQAAAGEAAAAA" },
    { "no string", "string[0]", "[]", "[]", "" },
};

TD_TEST_EACH(data_is_nested_flat_or_base64, layouts)
{
    for (int layout = 0; layout < 3; layout++) {
        struct td_tensor output = tensor(layouts[_i].tensor);
        char want[512], shape_text[TD_SHAPE_TEXT];
        begin("gather", (td_layout)layout);
        const char *got = encode(&output, 1);
        const char *data = layout == TD_LAYOUT_NESTED ? layouts[_i].nested
                           : layout == TD_LAYOUT_FLAT ? layouts[_i].flat
                                                      : layouts[_i].base64;
        snprintf(want, sizeof want, "{\"output\":{\"dtype\":\"%s\",\"shape\":%s,\"%s\":%s%s%s}}",
                 td_dtype_info(output.dtype)->name,
                 td_shape_text(&output.shape, shape_text, sizeof shape_text),
                 layout == TD_LAYOUT_BASE64 ? "base64" : "data",
                 layout == TD_LAYOUT_BASE64 ? "\"" : "", data,
                 layout == TD_LAYOUT_BASE64 ? "\"" : "");
        ck_assert_msg(strcmp(got, want) == 0, "%s: %s\n should be %s", layouts[_i].case_name, got,
                      want);
    }
}

TD_TEST(a_list_has_all_elements_after_a_step)
{
    enum { N = TD_STOP_ELEMENTS + 1 };
    static const char before[] = "\"data\":[";
    const struct td_shape shape = { .rank = 1, .dim = { N } };
    struct td_tensor out;
    ck_assert_int_eq(td_tensor_describe(&out, "output", TD_DTYPE_UINT8, &shape, &err), TD_OK);
    ck_assert_int_eq(td_tensor_alloc(&out, &test_arena, &err), TD_OK);
    memset(out.data, 7, out.bytes);
    begin(NULL, TD_LAYOUT_FLAT);
    const char *data = strstr(encode(&out, 1), before);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq(strcspn(data + strlen(before), "]"), 2 * N - 1);
}

TD_TEST(strings_are_escaped)
{
    struct td_tensor output =
        tensor("string[3] '\\x22\\x5c/\\x08\\x0c\\x0a\\x0d\\x09' '\\x00\\x1f\\x7f' '\\xc3\\xa9'");
    begin("gather", TD_LAYOUT_NESTED);
    ck_assert_str_eq(encode(&output, 1),
                     "{\"output\":{\"dtype\":\"string\",\"shape\":[3],\"data\":"
                     "[\"\\\"\\\\/\\b\\f\\n\\r\\t\",\"\\u0000\\u001f\x7f\",\"\xc3\xa9\"]}}");
}

TD_TEST(strings_that_are_not_utf8_make_their_tensor_base64)
{
    struct td_tensor outputs[] = { tensor("string[2] 'a' '\\xff'"), tensor("string[1] 'b'"),
                                   tensor("string[2] '\\xc3' '\\xa9'") };
    begin(NULL, TD_LAYOUT_FLAT);
    ck_assert_str_eq(encode(outputs, 3),
                     "{\"outputs\":["
                     "{\"dtype\":\"string\",\"shape\":[2],\"base64\":\"AQAAAGEBAAAA/w==\"},"
                     "{\"dtype\":\"string\",\"shape\":[1],\"data\":[\"b\"]},"
                     "{\"dtype\":\"string\",\"shape\":[2],\"base64\":\"AQAAAMMBAAAAqQ==\"}]}");
}

TD_TEST(a_string_view_starts_at_its_first_offset)
{
    struct td_tensor output = tensor("string[3] 'abc' 'd' '\\x0a'");
    output.offsets++;
    output.numel = 2;
    output.shape.dim[0] = 2;
    for (int layout = 0; layout < 3; layout++) {
        begin("gather", (td_layout)layout);
        ck_assert_ptr_nonnull(strstr(encode(&output, 1), layout == TD_LAYOUT_BASE64
                                                             ? "\"AQAAAGQBAAAACg==\""
                                                             : "[\"d\",\"\\n\"]"));
    }
}

TD_TEST(a_list_of_outputs_may_be_empty)
{
    begin(NULL, TD_LAYOUT_NESTED);
    ck_assert_str_eq(encode(NULL, 0), "{\"outputs\":[]}");
}

TD_TEST(named_outputs_are_members)
{
    struct td_tensor outputs[] = { tensor("float32[1] 0.5"), tensor("int32[] 3") };
    begin("gather", TD_LAYOUT_FLAT);
    request.op = &pair_op;
    ck_assert_str_eq(
        encode(outputs, 2),
        "{\"outputs\":{\"values\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":[0.5]},"
        "\"places\":{\"dtype\":\"int32\",\"shape\":[],\"data\":[3]}}}");
}

TD_TEST(a_bounds_policy_that_replaced_something_is_reported)
{
    struct td_tensor output = tensor("int8[1] 0");
    bool known;
    begin("gather", TD_LAYOUT_NESTED);
    ck_assert_int_eq(td_attrs_set_text(&request, "bounds", 6, "zero", 4, &test_arena, &known, &err),
                     TD_OK);
    request.args.replaced = 1234567890123;
    ck_assert_str_eq(encode(&output, 1),
                     "{\"output\":{\"dtype\":\"int8\",\"shape\":[1],\"data\":[0]},"
                     "\"bounds\":{\"policy\":\"zero\",\"replaced\":1234567890123}}");
}

/* The longest text of each dtype, with the shape that has the most brackets. */
static const struct {
    const char *dtype, *longest;
} longest[] = {
    { "bool", "0" },
    { "int8", "-128" },
    { "int16", "-32768" },
    { "int32", "-2147483648" },
    { "int64", "-9223372036854775808" },
    { "uint8", "255" },
    { "uint16", "65535" },
    { "uint32", "4294967295" },
    { "uint64", "18446744073709551615" },
    { "float16", "0xfc00" },
    { "bfloat16", "0xff80" },
    { "float32", "-0.0000123456789" },
    { "float64", "-2.2250738585072014e-308" },
    { "complex64", "-1.2345678e-38 -1.2345678e-38" },
    { "complex128", "-2.2250738585072014e-308 -2.2250738585072014e-308" },
    { "string", "'abc'" }, /* escapes are beyond the bound */
};

TD_TEST_EACH(the_bound_holds_for_the_longest_text, longest)
{
    enum { ELEMENTS = 2000 }; /* much larger than the constant part of the bound */
    static const char *const shapes[] = { "[2000]",  "[2000,1]",  "[1,2000]",
                                          "[5,400]", "[20,2,50]", "[1000,2,1,1]" };
    char *text = malloc(ELEMENTS * (strlen(longest[_i].longest) + 1) + 64), *at = text;
    at += sprintf(at, "%s[%d]", longest[_i].dtype, ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++)
        at += sprintf(at, " %s", longest[_i].longest);
    struct td_tensor output = tensor(text);
    free(text);
    for (int s = 0; s < COUNT_OF(shapes); s++) {
        output.shape = shape(shapes[s]);
        for (int layout = 0; layout < 3; layout++) {
            begin("gather", (td_layout)layout);
            encode(&output, 1);
        }
    }
}

TD_TEST(room_for_escapes_is_added_to_the_bound)
{
    enum { STRINGS = 2000, ESCAPES = 3 };
    struct td_reply reply;
    size_t bound;
    char *text = malloc(STRINGS * sizeof " '\\x01\\x02\\x03'" + 64), *at = text;
    at += sprintf(at, "string[%d]", STRINGS);
    for (int i = 0; i < STRINGS; i++)
        at += sprintf(at, " '\\x01\\x02\\x03'");
    struct td_tensor output = tensor(text);
    begin("gather", TD_LAYOUT_NESTED);
    request.args.outputs = &output;
    request.args.n_outputs = 1;
    ck_assert(td_json_encoded_bound(&request, &bound));
    ck_assert_int_eq(td_json_encode(&request, &test_arena, &reply, &err), TD_OK);
    ck_assert_uint_gt(td_reply_bytes(&reply), (size_t)STRINGS * ESCAPES * strlen("\\u0001"));
    ck_assert_uint_le(td_reply_bytes(&reply), bound + (size_t)STRINGS * ESCAPES * strlen("\\u000"));
    free(text);
}

TD_TEST(the_bound_is_known_before_the_data)
{
    struct td_tensor output = tensor_without_data("float32[1000,1000]");
    size_t bound;
    begin("gather", TD_LAYOUT_NESTED);
    request.args.outputs = &output;
    request.args.n_outputs = 1;
    ck_assert(td_json_encoded_bound(&request, &bound));
    ck_assert_uint_ge(bound, 17 * 1000 * 1000);
    ck_assert_uint_le(bound, 18 * 1000 * 1000);
    struct td_tensor strings = tensor_without_data("string[1000]");
    request.args.outputs = &strings;
    ck_assert(td_json_encoded_bound(&request, &bound));
}

TD_TEST(a_bound_that_overflows_is_reported)
{
    struct td_tensor huge = tensor_without_data("int8[1000000000000000000]"),
                     lists = tensor_without_data("int8[3000000000,3000000000,0]");
    size_t bound;
    begin("gather", TD_LAYOUT_NESTED);
    request.args.outputs = &huge;
    request.args.n_outputs = 1;
    ck_assert(td_json_encoded_bound(&request, &bound)); /* 5e18 still fits */
    huge = tensor_without_data("int64[1000000000000000000]");
    ck_assert(!td_json_encoded_bound(&request, &bound));
    request.args.outputs = &lists;
    ck_assert(!td_json_encoded_bound(&request, &bound)); /* 9e18 empty lists */
}

/* A tensor that is read from a reply is equal to the one that was written. */
TD_TEST_LOOP(written_tensors_are_read_back, 0, 15)
{
    static const char *const dtypes[] = { "bool",    "int8",      "int16",     "int32",
                                          "int64",   "uint8",     "uint16",    "uint32",
                                          "uint64",  "float16",   "bfloat16",  "float32",
                                          "float64", "complex64", "complex128" };
    uint64_t seed = (uint64_t)_i;
    for (int round = 0; round < 30; round++) {
        struct td_shape random_shape = { .rank = (int)(random_from(&seed) % 5) };
        for (int i = 0; i < random_shape.rank; i++)
            random_shape.dim[i] =
                (int64_t)(random_from(&seed) % 12) - (random_from(&seed) % 8 != 0) + 1;
        for (int i = 0; i < random_shape.rank; i++)
            random_shape.dim[i] = random_shape.dim[i] > 11 ? 11 : random_shape.dim[i];
        struct td_tensor output = { .data = NULL };
        td_dtype dtype;
        ck_assert(td_dtype_from_name(dtypes[_i], strlen(dtypes[_i]), &dtype));
        ck_assert_int_eq(td_tensor_describe(&output, "x", dtype, &random_shape, &err), TD_OK);
        ck_assert_int_eq(td_tensor_alloc(&output, &test_arena, &err), TD_OK);
        unsigned char *bytes = output.data;
        for (size_t i = 0; i < output.bytes; i++)
            bytes[i] = (unsigned char)(dtype == TD_DTYPE_BOOL ? random_from(&seed) & 1
                                                              : random_from(&seed));
        for (int layout = 0; layout < 3; layout++) {
            begin("gather", (td_layout)layout);
            const char *reply = encode(&output, 1);
            /* {"output":T} -> {"params":T} */
            size_t length = strlen(reply);
            char *body = malloc(length + 1);
            memcpy(body, reply, length + 1);
            memcpy(body, "{\"params\"", 9);
            struct decoded decoded;
            decode_json(&decoded, td_op_named("gather", 6), body, length, NULL);
            EXPECT(decoded.status == TD_OK, "%s: %s", decoded.err.message, body);
            struct td_tensor *again = &decoded.request.args.inputs[0].tensors[0];
            EXPECT(again->dtype == dtype && td_shape_equal(&again->shape, &random_shape), "%s",
                   body);
            /* All NaNs have the same text. */
            if (layout == TD_LAYOUT_BASE64)
                EXPECT(memcmp(again->data, output.data, output.bytes) == 0, "%s", body);
            struct td_reply second;
            request.args.outputs = again;
            EXPECT(td_json_encode(&request, &test_arena, &second, &err) == TD_OK, "%s",
                   err.message);
            EXPECT(td_reply_bytes(&second) == length &&
                       memcmp(second.chunks[0].data, reply, length) == 0,
                   "%s: read back otherwise", body);
            free(body);
        }
        td_arena_reset(&test_arena);
    }
}
