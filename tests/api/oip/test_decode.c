#include "api/json/decode.h"
#include "api/message/common_members.h"
#include "api/oip/oip.h"
#include "api/oip/types.h"
#include "kernels/gather/gather.h"
#include "tests/api/oip.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data in JSON ---- */

static const struct {
    const char *case_name, *datatype, *shape, *data, *want;
} data_forms[] = {
    { "nested", "INT8", "[2,2]", "[[1,2],[3,4]]", "int8[2,2] 1 2 3 4" },
    { "flat", "INT8", "[2,2]", "[1,2,3,4]", "int8[2,2] 1 2 3 4" },
    { "a scalar in a list", "INT64", "[]", "[5]", "int64[] 5" },
    { "a bare scalar", "INT64", "[]", "5", "int64[] 5" },
    { "no elements", "FP32", "[0]", "[]", "float32[0]" },
    { "no elements, nested", "FP32", "[2,0]", "[[],[]]", "float32[2,0]" },
    { "no elements after a dimension of zero", "BYTES", "[0,3]", "[]", "string[0,3]" },
    { "null for no elements", "FP32", "[0,7]", "null", "float32[0,7]" },
    { "booleans as words and numbers", "BOOL", "[5]", "[true,false,1,0,1.0]", "bool[5] 1 0 1 0 1" },
    { "integers with fraction or exponent", "INT32", "[5]", "[1.0,-20e-1,3e2,-0.0,1.50e1]",
      "int32[5] 1 -2 300 0 15" },
    { "the range of INT64", "INT64", "[2]", "[-9223372036854775808,9223372036854775807]",
      "int64[2] -9223372036854775808 9223372036854775807" },
    { "integers of INT64 with a point", "INT64", "[2]", "[-999999999999999.0,9.99999999999999e14]",
      "int64[2] -999999999999999 999999999999999" },
    { "the largest UINT64", "UINT64", "[1]", "[18446744073709551615]",
      "uint64[1] 18446744073709551615" },
    { "the range of small integers", "UINT8", "[2]", "[0,255]", "uint8[2] 0 255" },
    { "INT16", "INT16", "[2]", "[-32768,32767]", "int16[2] -32768 32767" },
    { "UINT16", "UINT16", "[1]", "[65535]", "uint16[1] 65535" },
    { "UINT32", "UINT32", "[1]", "[4294967295]", "uint32[1] 4294967295" },
    { "integers as floats", "FP32", "[2]", "[16777217,-0]", "float32[2] 16777216 -0.0" },
    { "NaN and infinities", "FP64", "[3]", "[NaN, Infinity ,-Infinity]",
      "float64[3] nan inf -inf" },
    { "NaN and infinities, FP32", "FP32", "[3]", "[NaN,Infinity,-Infinity]",
      "float32[3] nan inf -inf" },
    { "NaN and infinities, 16 bits", "FP16", "[3]", "[NaN,Infinity,-Infinity]",
      "float16[3] 0x7e00 0x7c00 0xfc00" },
    { "FP16 is rounded to nearest even", "FP16", "[5]", "[0.1,2049,2051,65504,6e-8]",
      "float16[5] 0x2e66 0x6800 0x6802 0x7bff 0x0001" },
    { "FP16 overflows to infinity", "FP16", "[4]", "[65519,65520,-1e10,1e999]",
      "float16[4] 0x7bff 0x7c00 0xfc00 0x7c00" },
    { "BF16 is rounded to nearest even", "BF16", "[4]", "[1,3.4e38,-3.4e38,1.00390625]",
      "bfloat16[4] 0x3f80 0x7f80 0xff80 0x3f80" },
    { "strings", "BYTES", "[3]", "[\"a\",\"\",\"h\\u00e9\\u0000\"]",
      "string[3] 'a' '' 'h\\xc3\\xa9\\x00'" },
};

TD_TEST_EACH(data_may_be_nested_or_flat_in_any_order_of_members, data_forms)
{
    static const char *const orders[] = {
        "{\"name\":\"params\",\"shape\":%1$s,\"datatype\":\"%2$s\",\"data\":%3$s}",
        "{\"data\":%3$s,\"datatype\":\"%2$s\",\"name\":\"params\",\"shape\":%1$s}",
        " { \"shape\" : %1$s , \"data\":%3$s,\"datatype\" : \"%2$s\" ,\"name\" : \"params\" } ",
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char input[512], body[1024];
        struct decoded decoded;
        snprintf(input, sizeof input, orders[i], data_forms[_i].shape, data_forms[_i].datatype,
                 data_forms[_i].data);
        snprintf(body, sizeof body, "{\"inputs\":[%s," INDICES "]}", input);
        decode_oip_text(&decoded, "gather", body);
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", data_forms[_i].case_name,
                      decoded.err.message);
        expect_tensor(&decoded.request.args.inputs[0].tensors[0], data_forms[_i].want,
                      data_forms[_i].case_name);
        expect_tensor(&decoded.request.args.inputs[1].tensors[0], "int64[1] 0", "indices");
    }
}

static const struct {
    const char *datatype, *shape, *data, *word;
} bad_data[] = {
    { "INT8", "[1]", "[300]", "300 does not fit INT8" },
    { "INT8", "[1]", "[1e9]", "does not fit INT8" },
    { "INT32", "[1]", "[1.5]", "1.5 is not INT32: expected an integer" },
    { "UINT8", "[1]", "[-1]", "-1 does not fit UINT8" },
    { "UINT64", "[1]", "[18446744073709551616]", "does not fit" },
    { "INT64", "[1]", "[9223372036854775808]", "does not fit" },
    { "INT64", "[1]", "[1e-1]", "expected an integer" },
    { "INT64", "[1]", "[\"x\"]", "the string \"x\" is not INT64" },
    { "INT64", "[1]", "[\"9223372036854775808\"]", "9223372036854775808 does not fit INT64" },
    { "INT32", "[1]", "[\"1\"]", "the string \"1\" is not INT32" },
    { "BOOL", "[1]", "[2]", "BOOL" },
    { "BOOL", "[1]", "[\"true\"]", "true, false, 1 or 0" },
    { "FP32", "[1]", "[null]", "NaN" },
    { "FP32", "[1]", "[\"NaN\"]", "NaN, Infinity or -Infinity without quotes" },
    { "FP32", "[1]", "[nan]", "expected a value" },
    { "FP32", "[1]", "[+Infinity]", "expected a value" },
    { "FP32", "[1]", "[NaNs]", "expected" },
    { "FP32", "[1]", "[1e39]", "does not fit FP32" },
    { "FP64", "[1]", "[1e309]", "does not fit FP64" },
    { "FP32", "[1]", "[01]", "expected" },
    { "BYTES", "[1]", "[1]", "a string" },
    { "BYTES", "[1]", "[\"\\ud800\"]", "surrogate" },
    { "BYTES", "[1]", "[\"\xff\"]", "UTF-8" },
    { "FP32", "[2]", "[1]", "shape" },
    { "FP32", "[2]", "[1,2,3]", "more elements" },
    { "FP32", "[2,2]", "[[1,2,3,4]]", "shape" },
    { "FP32", "[0]", "[1]", "shape" },
    { "FP32", "[2]", "{}", "an object" },
    { "FP32", "[-1]", "[1]", "dimension" },
    { "FP32", "[1.0]", "[1]", "dimension" },
    { "FP32", "[\"1\"]", "[1]", "dimension" },
    { "FP32", "1", "[1]", "shape" },
    { "FP32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[1]", "the limit is 16" },
    { "FP32", "[9223372036854775807,3]", "[1]", "" },
    { "FP64", "[4611686018427387904]", "[1]", "" },
    { "fp32", "[1]", "[1]", "BOOL, INT8, INT16" },
    { "C64", "[1]", "[1]", "is not a datatype" },
    { "FP32\\u0000", "[1]", "[1]", "\"FP32\\u0000\" is not a datatype" },
    { "FP32\\u0000x", "[1]", "[1]", "\"FP32\\u0000x\" is not a datatype" },
    { "\\u0000FP32", "[1]", "[1]", "\"\\u0000FP32\" is not a datatype" },
};

TD_TEST_EACH(malformed_data_is_refused_with_its_input, bad_data)
{
    char body[1024];
    struct decoded decoded;
    for (int order = 0; order < 2; order++) {
        snprintf(body, sizeof body,
                 order ? "{\"inputs\":[{\"name\":\"params\",\"data\":%3$s,\"datatype\":\"%1$s\","
                         "\"shape\":%2$s}," INDICES "]}"
                       : "{\"inputs\":[{\"name\":\"params\",\"datatype\":\"%1$s\",\"shape\":%2$s,"
                         "\"data\":%3$s}," INDICES "]}",
                 bad_data[_i].datatype, bad_data[_i].shape, bad_data[_i].data);
        decode_oip_text(&decoded, "gather", body);
        ck_assert_msg(decoded.status != TD_OK, "accepted: %s", body);
        ck_assert_msg(strstr(decoded.err.message, bad_data[_i].word), "%s: %s", body,
                      decoded.err.message);
        ck_assert_str_eq(decoded.err.input, "params");
    }
}

/* The comparison stops at the length of the known name, however long the text after the NUL is. */
TD_TEST(a_nul_does_not_end_a_datatype)
{
    enum { MOST = 8192 };
    char *text = calloc(1, MOST);
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        const char *known = td_dtype_info((td_dtype)i)->oip;
        td_dtype dtype = TD_DTYPE_BOOL;
        memset(text, 0, MOST);
        strcpy(text, known);
        for (size_t length = strlen(known) + 1; *known && length <= MOST; length++)
            ck_assert_msg(!td_oip_dtype(text, length, &dtype), "%s and %zu bytes", known, length);
        ck_assert(!*known || (td_oip_dtype(known, strlen(known), &dtype) && dtype == (td_dtype)i));
    }
    free(text);
}

/* ---- binary data ---- */

#define PARAMS_BINARY(size)                                                                        \
    "{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\","                                    \
    "\"parameters\":{\"binary_data_size\":" size "}}"
#define INDICES_BINARY                                                                             \
    "{\"name\":\"indices\",\"shape\":[],\"datatype\":\"INT32\","                                   \
    "\"parameters\":{\"binary_data_size\":4}}"

TD_TEST(bytes_follow_in_the_order_of_the_inputs)
{
    static const float params[] = { 0.5F, -2 };
    static const int32_t index = 1;
    char blobs[12];
    struct decoded decoded;
    for (int order = 0; order < 2; order++) {
        memcpy(blobs + (order ? 4 : 0), params, sizeof params);
        memcpy(blobs + (order ? 0 : 8), &index, sizeof index);
        decode_oip(&decoded, "gather",
                   order ? "{\"inputs\":[" INDICES_BINARY "," PARAMS_BINARY("8") "]}"
                         : "{\"inputs\":[" PARAMS_BINARY("8") "," INDICES_BINARY "]}  ",
                   blobs, sizeof blobs, NULL);
        ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
        expect_tensor(&decoded.request.args.inputs[0].tensors[0], "float32[2] 0.5 -2", "params");
        expect_tensor(&decoded.request.args.inputs[1].tensors[0], "int32[] 1", "indices");
    }
}

TD_TEST(some_inputs_may_be_json_and_some_bytes)
{
    static const int32_t index = 1;
    struct decoded decoded;
    decode_oip(
        &decoded, "gather",
        "{\"inputs\":[{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]}"
        "," INDICES_BINARY "]}",
        &index, sizeof index, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    expect_tensor(&decoded.request.args.inputs[0].tensors[0], "float32[2] 1 2", "params");
    expect_tensor(&decoded.request.args.inputs[1].tensors[0], "int32[] 1", "indices");
}

TD_TEST(binary_strings_and_booleans_are_converted)
{
    static const char blobs[] = "\2\0\0\0\xff\0"
                                "\0\0\0\0"
                                "\3\0\0\0abc";
    struct decoded decoded;
    decode_oip(&decoded, "gather",
               "{\"inputs\":[{\"name\":\"params\",\"shape\":[3],\"datatype\":\"BYTES\","
               "\"parameters\":{\"binary_data_size\":17}}," INDICES "]}",
               blobs, 17, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    expect_tensor(&decoded.request.args.inputs[0].tensors[0], "string[3] '\\xff\\x00' '' 'abc'",
                  "params");
    decode_oip(&decoded, "gather",
               "{\"inputs\":[{\"name\":\"params\",\"shape\":[4],\"datatype\":\"BOOL\","
               "\"parameters\":{\"binary_data_size\":4}}," INDICES "]}",
               "\0\1\2\xff", 4, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    expect_tensor(&decoded.request.args.inputs[0].tensors[0], "bool[4] 0 1 1 1", "params");
}

static const struct {
    const char *case_name, *shape, *datatype, *parameters;
    const char *blob;
    size_t blob_size;
    const char *word;
} bad_blobs[] = {
    { "more than the body has", "[2]", "FP32", "\"binary_data_size\":8", "1234567", 7, "7 bytes" },
    { "less than the body has", "[1]", "FP32", "\"binary_data_size\":4", "12345", 5,
      "1 bytes follow" },
    { "not what the shape takes", "[1]", "FP32", "\"binary_data_size\":8", "12345678", 8,
      "takes 4 bytes" },
    { "negative", "[1]", "FP32", "\"binary_data_size\":-4", "1234", 4, "binary_data_size is -4" },
    { "text", "[1]", "FP32", "\"binary_data_size\":\"4\"", "1234", 4, "binary_data_size" },
    { "a fraction", "[1]", "FP32", "\"binary_data_size\":4.5", "1234", 4, "binary_data_size" },
    { "huge", "[1]", "FP32", "\"binary_data_size\":18446744073709551615", "1234", 4,
      "binary_data_size" },
    { "huge strings", "[1]", "BYTES", "\"binary_data_size\":9223372036854775807", "1234", 4,
      "binary_data_size" },
    { "a truncated string", "[1]", "BYTES", "\"binary_data_size\":6", "\3\0\0\0ab", 6,
      "end inside string 0" },
    { "bytes after the strings", "[1]", "BYTES", "\"binary_data_size\":7", "\2\0\0\0abc", 7,
      "follow the last" },
    { "fewer bytes than strings", "[3]", "BYTES", "\"binary_data_size\":4", "\0\0\0\0", 4,
      "cannot hold" },
    { "no data", "[1]", "FP32", "", "", 0, "params has no data" },
    { "a size and data", "[1]", "FP32", "\"binary_data_size\":4},\"data\":[1],\"x\":{", "1234", 4,
      "params has more than one" },
    { "a size and a region", "[1]", "FP32",
      "\"binary_data_size\":4,\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":4", "1234",
      4, "params has more than one" },
};

TD_TEST_EACH(sizes_that_do_not_add_up_are_refused, bad_blobs)
{
    char json[512];
    struct decoded decoded;
    snprintf(json, sizeof json,
             "{\"inputs\":[{\"name\":\"params\",\"shape\":%s,\"datatype\":\"%s\","
             "\"parameters\":{%s}}," INDICES "]}",
             bad_blobs[_i].shape, bad_blobs[_i].datatype, bad_blobs[_i].parameters);
    decode_oip(&decoded, "gather", json, bad_blobs[_i].blob, bad_blobs[_i].blob_size, NULL);
    ck_assert_msg(decoded.status == TD_MALFORMED_REQUEST, "%s", bad_blobs[_i].case_name);
    ck_assert_msg(strstr(decoded.err.message, bad_blobs[_i].word), "%s: %s",
                  bad_blobs[_i].case_name, decoded.err.message);
    if (strcmp(bad_blobs[_i].datatype, "BYTES") == 0)
        ck_assert_msg(decoded.err.has_pointer, "%s", bad_blobs[_i].case_name);
}

TD_TEST(the_header_is_the_length_of_the_json_text)
{
    static const char json[] = "{\"inputs\":[]}";
    static const size_t lengths[] = { 0, 1, sizeof json, SIZE_MAX - 1 };
    struct decoded decoded;
    for (int i = 0; i < COUNT_OF(lengths); i++) {
        decode_oip_at(&decoded, "gather", json, sizeof json - 1, lengths[i], NULL, NULL);
        ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    }
    /* Without the header there is no binary data, so a size above 0 is an error. */
    static const char sized[] = "{\"inputs\":[" PARAMS_BINARY("8") "," INDICES "]}";
    decode_oip_at(&decoded, "gather", sized, sizeof sized - 1, TD_OIP_NO_HEADER, NULL, NULL);
    ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&decoded.err, "Inference-Header-Content-Length");
}

TD_TEST(the_header_is_a_decimal_number)
{
    static const char *const bad[] = { "",   " 5",   "5 ",
                                       "-1", "+1",   "0x5",
                                       "5.", "five", "18446744073709551616" };
    size_t bytes;
    struct td_error err;
    ck_assert_int_eq(td_oip_header_length(NULL, &bytes, &err), TD_OK);
    ck_assert(bytes == TD_OIP_NO_HEADER);
    ck_assert_int_eq(td_oip_header_length("0", &bytes, &err), TD_OK);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_int_eq(td_oip_header_length("00123", &bytes, &err), TD_OK);
    ck_assert_uint_eq(bytes, 123);
    for (int i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_msg(td_oip_header_length(bad[i], &bytes, &err) == TD_MALFORMED_REQUEST, "%s",
                      bad[i]);
        ck_assert_str_eq(err.attribute, "Inference-Header-Content-Length");
    }
}

TD_TEST(an_empty_tensor_needs_no_bytes)
{
    static const char *const parameters[] = {
        "", ",\"parameters\":{\"binary_data_size\":0}", ",\"data\":null,\"parameters\":null",
        ",\"data\":null,\"parameters\":{\"binary_data_size\":0}"
    };
    static const char *const datatypes[] = { "FP64", "BYTES", "BOOL" };
    static const char *const wants[] = { "float64[3,0]", "string[3,0]", "bool[3,0]" };
    for (int i = 0; i < COUNT_OF(parameters); i++)
        for (int t = 0; t < COUNT_OF(datatypes); t++)
            for (int header = 0; header < 2; header++) {
                char json[512];
                struct decoded decoded;
                int size = snprintf(json, sizeof json,
                                    "{\"inputs\":[{\"name\":\"params\",\"shape\":[3,0],"
                                    "\"datatype\":\"%s\"%s}," INDICES "]}",
                                    datatypes[t], parameters[i]);
                decode_oip_at(&decoded, "gather", json, (size_t)size,
                              header ? (size_t)size : TD_OIP_NO_HEADER, NULL, NULL);
                ck_assert_msg(decoded.status == TD_OK, "%s: %s", json, decoded.err.message);
                expect_tensor(&decoded.request.args.inputs[0].tensors[0], wants[t], json);
            }
}

/* ---- names ---- */

#define INPUT(name) "{\"name\":\"" name "\",\"shape\":[],\"datatype\":\"INT32\",\"data\":[0]}"

static const struct {
    const char *op, *inputs, *word; /* NULL: accepted */
} names[] = {
    { "gather", INPUT("indices") "," INPUT("params"), NULL },
    { "dynamic_stitch", INPUT("indices.0") "," INPUT("data.0"), NULL },
    { "dynamic_stitch",
      INPUT("data.1") "," INPUT("indices.1") "," INPUT("indices.0") "," INPUT("data.0"), NULL },
    { "gather", INPUT("params"), "indices is missing; gather has the inputs params; indices" },
    { "gather", "", "params is missing" },
    { "dynamic_stitch", INPUT("data.0"), "indices.0 is missing" },
    { "gather", INPUT("params") "," INPUT("indices") "," INPUT("extra"),
      "no input \"extra\"; expected params; indices" },
    { "gather", INPUT("params") "," INPUT("params") "," INPUT("indices"), "params is given twice" },
    { "gather", INPUT("params.0") "," INPUT("indices"), "no input \"params.0\"" },
    { "dynamic_stitch", INPUT("indices") "," INPUT("data"),
      "no input \"indices\"; expected indices.0, indices.1, ...; data.0, data.1, ..." },
    { "dynamic_stitch", INPUT("indices.00") "," INPUT("data.0"), "no input \"indices.00\"" },
    { "dynamic_stitch", INPUT("indices.") "," INPUT("data.0"), "no input \"indices.\"" },
    { "dynamic_stitch", INPUT("indices.-1") "," INPUT("data.0"), "no input" },
    { "dynamic_stitch", INPUT("indices.99999999999999999999") "," INPUT("data.0"), "no input" },
    { "dynamic_stitch", INPUT("indices.0") "," INPUT("indices.2") "," INPUT("data.0"),
      "indices.2 is given, with 2 in all" },
    { "dynamic_stitch", INPUT("indices.0") "," INPUT("indices.0") "," INPUT("data.0"),
      "indices.0 is given twice" },
};

TD_TEST_EACH(tensors_are_assigned_to_inputs_by_name, names)
{
    char json[1024];
    struct decoded decoded;
    snprintf(json, sizeof json, "{\"inputs\":[%s]}", names[_i].inputs);
    decode_oip_text(&decoded, names[_i].op, json);
    if (names[_i].word) {
        ck_assert_msg(decoded.status != TD_OK, "accepted: %s", json);
        ck_assert_msg(strstr(decoded.err.message, names[_i].word), "%s: %s", json,
                      decoded.err.message);
    } else {
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", json, decoded.err.message);
    }
}

TD_TEST(requested_outputs_of_a_list_have_numbers_below_16384)
{
    for (int number = 16383; number <= 16385; number++) {
        char json[512];
        struct decoded decoded;
        snprintf(
            json, sizeof json,
            "{\"inputs\":[{\"name\":\"data\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]},"
            "{\"name\":\"partitions\",\"shape\":[1],\"datatype\":\"INT32\",\"data\":[0]}],"
            "\"parameters\":{\"num_partitions\":16384},\"outputs\":[{\"name\":\"outputs.%d\"}]}",
            number);
        decode_oip_text(&decoded, "dynamic_partition", json);
        ck_assert_msg((decoded.status == TD_OK) == (number == 16383), "%d: %s", number,
                      decoded.status != TD_OK ? decoded.err.message : "accepted");
        if (number > 16383)
            EXPECT_MESSAGE(&decoded.err, "has no output");
    }
}

TD_TEST(more_than_ten_of_a_list_sort_by_number)
{
    char json[4096] = "{\"inputs\":[";
    size_t used = strlen(json);
    struct decoded decoded;
    for (int k = 11; k >= 0; k--)
        used += (size_t)snprintf(json + used, sizeof json - used,
                                 "{\"name\":\"inputs.%d\",\"shape\":[],\"datatype\":\"INT32\","
                                 "\"data\":%d}%s",
                                 k, k, k ? "," : "],\"parameters\":{\"equation\":\"->\"}}");
    decode_oip_text(&decoded, "einsum", json);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    ck_assert_int_eq(decoded.request.args.inputs[0].count, 12);
    for (int k = 0; k < 12; k++)
        ck_assert_int_eq(td_tensor_index_at(&decoded.request.args.inputs[0].tensors[k], 0), k);
}

/* ---- parameters ---- */

static const struct {
    const char *parameters, *word; /* NULL: accepted */
} parameters[] = {
    { "\"axis\":0", NULL },
    { "\"axis\":0.0", NULL },
    { "\"batch_dims\":0e5", NULL },
    { "\"bounds\":\"clip\"", NULL },
    { "\"device\":\"cpu\"", NULL },
    { "\"priority\":1,\"timeout\":5000000,\"headers\":\"x\"", NULL },
    { "\"sequence_id\":0,\"sequence_start\":false,\"sequence_end\":false", NULL },
    { "\"sequence_id\":\"\"", NULL },
    { "\"binary_data_output\":true", NULL },
    { "\"complex\":false", NULL },
    { "\"content_type\":\"np\"", NULL },
    { "\"axis\":\"0\"", "axis is \"0\"; expected a 64-bit integer" },
    { "\"axis\":1.5", "axis is 1.5; expected a 64-bit integer" },
    { "\"axis\":true", "axis is true" },
    { "\"axis\":{\"a\":1}", "\"axis\" is an object" },
    { "\"axis\":[0]", "\"axis\" is a list" },
    { "\"axis\":null", "\"axis\" is null" },
    { "\"axis\":9223372036854775808", "axis is 9223372036854775808; expected a 64-bit integer" },
    { "\"axis\":0,\"axis\":0", "twice" },
    { "\"axsi\":1",
      "gather has no parameter \"axsi\"; expected axis, batch_dims, bounds, dtype, device" },
    { "\"store\":\"x\"", "no parameter \"store\"" },
    { "\"response\":\"flat\"", "no parameter \"response\"" },
    { "\"bounds\":\"no\"", "bounds is \"no\"; expected \"error\"" },
    { "\"bounds\":1", "bounds is 1" },
    { "\"device\":\"tpu\"", "device is \"tpu\"" },
    { "\"priority\":-1", "priority is -1" },
    { "\"timeout\":\"1\"", "timeout" },
    { "\"binary_data_output\":1", "binary_data_output is 1; expected true or false" },
    { "\"complex\":\"yes\"", "complex is \"yes\"" },
    { "\"sequence_id\":5", "stateless" },
    { "\"sequence_id\":\"five\"", "stateless" },
    { "\"sequence_start\":1", "sequence_start" },
    { "\"triton_enable_empty_final_response\":true", "triton_enable_empty_final_response" },
    { "\"params.ref\":\"table\"", "params is given twice" },
    { "\"params.ref\":1", ".ref" },
    { "\"others.ref\":\"table\"", "no parameter \"others.ref\"" },
};

TD_TEST_EACH(parameters_are_declared_or_reserved, parameters)
{
    char json[1024];
    struct decoded decoded;
    snprintf(json, sizeof json, "{\"parameters\":{%s},\"inputs\":[" PARAMS "," INDICES "]}",
             parameters[_i].parameters);
    decode_oip_text(&decoded, "gather", json);
    if (parameters[_i].word) {
        ck_assert_msg(decoded.status == TD_MALFORMED_REQUEST, "accepted: %s", json);
        ck_assert_msg(strstr(decoded.err.message, parameters[_i].word), "%s: %s", json,
                      decoded.err.message);
    } else {
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", json, decoded.err.message);
    }
}

TD_TEST(parameters_reach_the_op)
{
    struct decoded decoded;
    struct td_gather_attrs attrs;
    decode_oip_text(&decoded, "gather",
                    "{\"inputs\":[" PARAMS "," INDICES "],\"parameters\":{\"axis\":-1.0,"
                    "\"batch_dims\":0,\"bounds\":\"wrap\",\"device\":\"cpu\",\"timeout\":2500}}");
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    memcpy(&attrs, decoded.request.args.attrs, sizeof attrs);
    ck_assert_int_eq(attrs.axis, -1);
    ck_assert_int_eq(attrs.bounds, TD_BOUNDS_WRAP);
    ck_assert_int_eq(decoded.request.common.device, TD_DEVICE_CPU);
    ck_assert_uint_eq(decoded_timeout_us, 2500);
}

/* Attributes of list_op; parameters of the protocol cannot be lists, so a list is text. */
static const struct {
    const char *parameters, *word; /* NULL: accepted */
} kinds[] = {
    { "\"axes\":\"0,-2\",\"epsilon\":0.5,\"keep\":false,\"dtype\":\"int64\"", NULL },
    { "\"axes\":\"\",\"epsilon\":5", NULL },
    { "\"axes\":0", "axes is 0; expected a list" },
    { "\"axes\":\"0;2\"", "axes is \"0;2\"; expected a list" },
    { "\"axes\":[0]", "\"axes\" is a list" },
    { "\"epsilon\":\"0.5\"", "epsilon is \"0.5\"; expected a number" },
    { "\"keep\":\"true\"", "keep is \"true\"; expected true or false" },
    { "\"keep\":1", "keep is 1; expected true or false" },
    { "\"dtype\":\"INT64\"", "dtype is \"INT64\"; expected \"int16\"" },
};

TD_TEST_EACH(parameters_are_of_every_kind, kinds)
{
    char json[1024];
    struct decoded decoded;
    snprintf(json, sizeof json,
             "{\"parameters\":{%s},\"inputs\":["
             "{\"name\":\"lists.0\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]},"
             "{\"name\":\"ints.0\",\"shape\":[1],\"datatype\":\"INT32\",\"data\":[1]}]}",
             kinds[_i].parameters);
    decode_oip_text(&decoded, "list_op", json);
    if (kinds[_i].word) {
        ck_assert_msg(decoded.status == TD_MALFORMED_REQUEST, "accepted: %s", json);
        ck_assert_msg(strstr(decoded.err.message, kinds[_i].word), "%s: %s", json,
                      decoded.err.message);
    } else {
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", json, decoded.err.message);
    }
}

TD_TEST(resident_tensors_may_be_inputs)
{
    struct decoded decoded;
    struct test_resolver resolver;
    test_resolver_init(&resolver, tensor("float32[2] 1 2"));
    static const char one[] =
        "{\"parameters\":{\"params.ref\":\"table\"},\"inputs\":[" INDICES "]}";
    decode_oip_at(&decoded, "gather", one, sizeof one - 1, TD_OIP_NO_HEADER, &resolver.base, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    expect_tensor(&decoded.request.args.inputs[0].tensors[0], "float32[2] 1 2", "params");
    /* In a list, and without other inputs. */
    static const char all[] =
        "{\"parameters\":{\"inputs.1.ref\":\"table\",\"inputs.0.ref\":\"table\","
        "\"equation\":\"i,i->\"}}";
    decode_oip_at(&decoded, "einsum", all, sizeof all - 1, TD_OIP_NO_HEADER, &resolver.base, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    ck_assert_int_eq(decoded.request.args.inputs[0].count, 2);
    static const char none[] =
        "{\"parameters\":{\"params.ref\":\"none\"},\"inputs\":[" INDICES "]}";
    decode_oip_at(&decoded, "gather", none, sizeof none - 1, TD_OIP_NO_HEADER, &resolver.base,
                  NULL);
    ck_assert_int_eq(decoded.status, TD_TENSOR_NOT_FOUND);
    ck_assert_str_eq(decoded.err.input, "params");
}

static const struct {
    const char *case_name, *datatype, *shape, *data, *want, *word;
} pairs[] = {
    { "pairs", "FP32", "[2,2]", "[1,-1,0,2]", "complex64[2] 1 -1 0 2", NULL },
    { "one", "FP64", "[2]", "[3,4]", "complex128[] 3 4", NULL },
    { "none", "FP32", "[0,2]", "[]", "complex64[0]", NULL },
    { "integers are none", "INT32", "[2]", "[3,4]", "int32[2] 3 4", NULL },
    { "three", "FP32", "[3]", "[1,2,3]", NULL, "the last dimension must be 2" },
    { "a scalar", "FP32", "[]", "[1]", NULL, "the last dimension must be 2" },
    { "halves", "FP16", "[2]", "[1,2]", NULL, "pairs of FP32 or FP64" },
};

TD_TEST_EACH(complex_numbers_are_pairs, pairs)
{
    char json[512];
    struct decoded decoded;
    snprintf(json, sizeof json,
             "{\"inputs\":[{\"name\":\"inputs.0\",\"datatype\":\"%s\",\"shape\":%s,\"data\":%s}],"
             "\"parameters\":{\"equation\":\"...\",\"complex\":true}}",
             pairs[_i].datatype, pairs[_i].shape, pairs[_i].data);
    decode_oip_text(&decoded, "einsum", json);
    if (pairs[_i].want) {
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", pairs[_i].case_name, decoded.err.message);
        expect_tensor(&decoded.request.args.inputs[0].tensors[0], pairs[_i].want,
                      pairs[_i].case_name);
    } else {
        ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
        EXPECT_MESSAGE(&decoded.err, pairs[_i].word);
        ck_assert_str_eq(decoded.err.input, "inputs.0");
    }
}

/* ---- the request object ---- */

static const struct {
    const char *body, *word; /* NULL: accepted */
} envelopes[] = {
    { "{\"inputs\":[" PARAMS "," INDICES "]}", NULL },
    { " {\"id\":null,\"model_name\":\"x\",\"parameters\":null,\"outputs\":null,"
      "\"inputs\":[" PARAMS "," INDICES "]}\n",
      NULL },
    { "{\"outputs\":[],\"more\":{\"a\":[1,{\"b\":null}],\"c\":\"\\u00e9\"},\"inputs\":[" PARAMS
      "," INDICES "]}",
      NULL },
    { "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,"
      "\"inputs\":[" PARAMS "," INDICES "]}",
      NULL },
    { "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"b\":1,"
      "\"inputs\":[" PARAMS "," INDICES "]}",
      "\"b\" is given twice" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"more\":{\"a\":1,\"a\":1}}", "\"a\" is given twice" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"more\":{\"a\":1,\"b\":{\"a\":1,\"b\":[{\"a\":1}]}}}",
      NULL },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"more\":{\"x\":{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":"
      "1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"b\":1}}}",
      "\"b\" is given twice" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"inputs\":[]}", "\"inputs\" is given twice" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"more\":[1,]}", "expected a value" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"more\":nul}", "expected a value" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"more\":\"\\x\"}", "escape" },
    { "{\"inputs\":[" PARAMS "," INDICES "]} x", "expected the end of the JSON text" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"id\":7}", "id is a number; expected a string" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"axis\":0}",
      "\"axis\" is a parameter of the request; it belongs in its member \"parameters\"" },
    { "{\"parameter\":{\"axis\":0},\"inputs\":[" PARAMS "," INDICES "]}",
      "the request has no member \"parameter\"; expected id, inputs, outputs, parameters" },
    { "{\"axis\":0,\"axis\":0,\"inputs\":[" PARAMS "," INDICES "]}", "\"axis\" is given twice" },
    { "{\"inputs\":{}}", "inputs is an object; expected a list" },
    { "{\"inputs\":[1]}", "an input is a number; expected an object" },
    { "{\"inputs\":[{}]}", "has no name" },
    { "{\"inputs\":[{\"name\":\"params\",\"shape\":[1]}]}", "has no datatype" },
    { "{\"inputs\":[{\"name\":\"params\",\"datatype\":\"FP32\",\"data\":[1]}]}", "has no shape" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"outputs\":[{\"name\":\"nope\"}]}",
      "no output \"nope\"; expected output" },
    { "{\"inputs\":[" PARAMS "," INDICES
      "],\"outputs\":[{\"name\":\"output\"},{\"name\":\"output\"}]}",
      "requested twice" },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"outputs\":[{}]}", "an output has no name" },
    { "{\"inputs\":[" PARAMS "," INDICES
      "],\"outputs\":[{\"name\":\"output\",\"parameters\":{\"classification\":2}}]}",
      "classification is not supported" },
    { "{\"inputs\":[" PARAMS "," INDICES
      "],\"outputs\":[{\"name\":\"output\",\"parameters\":{\"classification\":0,"
      "\"content_type\":[]}}]}",
      NULL },
    { "{\"inputs\":[" PARAMS "," INDICES
      "],\"outputs\":[{\"name\":\"output\",\"parameters\":{\"x\":[]}}]}",
      "an output has no parameter \"x\"" },
    { "{\"inputs\":[" PARAMS "," INDICES
      "],\"outputs\":[{\"name\":\"output\",\"parameters\":{\"binary_data\":1}}]}",
      "binary_data is 1" },
    { "[]", "the body is a list; expected an object" },
    { "", "the body is empty" },
    { "  ", "the body is empty" },
    { "null", "the body is null; expected a JSON object" },
    { " null ", "the body is null; expected a JSON object" },
    { "nonsense", "expected a value at byte 0, not 'n'" },
    { "nul", "expected a value at byte 0, not 'n'" },
    { "n", "expected a value at byte 0, not 'n'" },
    { "true", "the body is true; expected an object" },
    { "trash", "expected a value at byte 0, not 't'" },
    { "{\"inputs\":trash}", "expected a value at byte 10, not 't'" },
    { "{\"inputs\":[nonsense]}", "expected a value at byte 11, not 'n'" },
    { "{\"inputs\":[{\"name\":nobody}]}", "expected a value at byte 19, not 'n'" },
    { "{\"inputs\":[{\"name\":null}]}", "name is null; expected a string" },
    { "{\"inputs\":[" PARAMS
      ",{\"name\":\"indices\",\"data\":0x,\"datatype\":\"INT32\",\"shape\":[]}]}",
      "expected the end of the value" },
    { "{\"parameters\":{\"axis\":nothing}}", "expected a value at byte 22, not 'n'" },
    { "{\"parameters\":{\"axis\":null}}", "\"axis\" is null" },
};

TD_TEST_EACH(the_request_object_is_read_strictly, envelopes)
{
    struct decoded decoded;
    decode_oip_text(&decoded, "gather", envelopes[_i].body);
    if (envelopes[_i].word) {
        ck_assert_msg(decoded.status != TD_OK, "accepted: %s", envelopes[_i].body);
        ck_assert_msg(strstr(decoded.err.message, envelopes[_i].word), "%s: %s", envelopes[_i].body,
                      decoded.err.message);
    } else {
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", envelopes[_i].body, decoded.err.message);
    }
}

TD_TEST(values_nest_a_hundred_deep)
{
    for (int depth = 98; depth < 103; depth++) {
        char body[1024];
        struct decoded decoded;
        int used = snprintf(body, sizeof body, "{\"inputs\":[" PARAMS "," INDICES "],\"more\":");
        for (int i = 1; i < depth; i++)
            body[used++] = '[';
        for (int i = 1; i < depth; i++)
            body[used++] = ']';
        strcpy(body + used, "}");
        decode_oip_text(&decoded, "gather", body);
        ck_assert_msg((decoded.status == TD_OK) == (depth <= 100), "depth %d: %s", depth,
                      decoded.err.message);
    }
}

/* ---- shared memory ---- */

#define AT(region, bytes, offset)                                                                  \
    "\"parameters\":{\"shared_memory_region\":\"" region "\",\"shared_memory_byte_size\":" bytes   \
    ",\"shared_memory_offset\":" offset "}"
#define PARAMS_AT(region, bytes, offset)                                                           \
    "{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\"," AT(region, bytes, offset) "}"
#define OUTPUT_AT(region, bytes, offset)                                                           \
    "\"outputs\":[{\"name\":\"output\"," AT(region, bytes, offset) "}]"

static const struct {
    const char *body, *word;
    td_status status;
} ranges[] = {
    { "{\"inputs\":[" PARAMS_AT("r", "8", "0") "," INDICES "]}", NULL, TD_OK },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "56") "," INDICES "]}", NULL, TD_OK },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "57") "," INDICES "]}", "beyond", TD_INVALID_ARGUMENT },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "9223372036854775807") "," INDICES "]}", "beyond",
      TD_INVALID_ARGUMENT },
    { "{\"inputs\":[" PARAMS_AT("none", "8", "0") "," INDICES "]}", "none", TD_NOT_FOUND },
    { "{\"inputs\":[" PARAMS_AT("r", "4", "0") "," INDICES "]}", "takes 8 bytes",
      TD_MALFORMED_REQUEST },
    { "{\"inputs\":[{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\","
      "\"parameters\":{\"shared_memory_region\":\"r\"}}," INDICES "]}",
      "shared_memory_byte_size is missing", TD_MALFORMED_REQUEST },
    { "{\"inputs\":[{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2],"
      "\"parameters\":{\"shared_memory_offset\":8}}," INDICES "]}",
      "shared_memory_region is missing", TD_MALFORMED_REQUEST },
    { "{\"inputs\":[{\"name\":\"params\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]," AT(
          "r", "8", "0") "}," INDICES "]}",
      "more than one", TD_MALFORMED_REQUEST },
    { "{\"inputs\":[" PARAMS "," INDICES "]," OUTPUT_AT("r", "4", "60") "}", NULL, TD_OK },
    { "{\"inputs\":[" PARAMS "," INDICES "]," OUTPUT_AT("r", "4", "61") "}", "beyond",
      TD_INVALID_ARGUMENT },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "0") "," INDICES "]," OUTPUT_AT("r", "4", "8") "}", NULL,
      TD_OK },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "4") "," INDICES "]," OUTPUT_AT("r", "4", "0") "}", NULL,
      TD_OK },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "0") "," INDICES "]," OUTPUT_AT("r", "4", "7") "}",
      "overlaps", TD_MALFORMED_REQUEST },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "3") "," INDICES "]," OUTPUT_AT("r", "4", "0") "}",
      "overlaps", TD_MALFORMED_REQUEST },
    { "{\"inputs\":[" PARAMS_AT("r", "8", "0") "," INDICES "]," OUTPUT_AT("s", "4", "0") "}", NULL,
      TD_OK },
    { "{\"inputs\":[" PARAMS "," INDICES "],\"outputs\":[{\"name\":\"output\",\"parameters\":{"
      "\"binary_data\":true,\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":8}}]}",
      "binary_data is true", TD_MALFORMED_REQUEST },
};

TD_TEST_EACH(tensors_may_be_in_shared_memory, ranges)
{
    struct decoded decoded;
    struct test_regions regions;
    test_regions_init(&regions);
    memcpy(regions.bytes[0], (float[]){ 1.5F, 2.5F }, 8);
    memcpy(regions.bytes[0] + 56, (float[]){ 1.5F, 2.5F }, 8);
    memcpy(regions.bytes[0] + 4, (float[]){ 1.5F, 2.5F }, ranges[_i].word ? 8 : 0);
    decode_oip_at(&decoded, "gather", ranges[_i].body, strlen(ranges[_i].body), TD_OIP_NO_HEADER,
                  NULL, &regions.base);
    ck_assert_msg(decoded.status == ranges[_i].status, "%s: %d %s", ranges[_i].body, decoded.status,
                  decoded.err.message);
    if (ranges[_i].word)
        EXPECT_MESSAGE(&decoded.err, ranges[_i].word);
}

TD_TEST(numbers_stay_in_shared_memory_and_indices_are_copied)
{
    struct decoded decoded;
    struct test_regions regions;
    test_regions_init(&regions);
    static const char body[] = "{\"inputs\":[" PARAMS_AT(
        "r", "8", "0") ",{\"name\":\"indices\",\"shape\":[2],\"datatype\":\"INT32\"," AT("r", "8",
                                                                                         "8") "}]}";
    memcpy(regions.bytes[0], (float[]){ 1.5F, 2.5F }, 8);
    memcpy(regions.bytes[0] + 8, (int32_t[]){ 1, 0 }, 8);
    decode_oip_at(&decoded, "gather", body, sizeof body - 1, TD_OIP_NO_HEADER, NULL, &regions.base);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    const struct td_op_args *args = &decoded.request.args;
    ck_assert_ptr_eq(args->inputs[0].tensors[0].data, regions.bytes[0]);
    ck_assert_ptr_ne(args->inputs[1].tensors[0].data, regions.bytes[0] + 8);
    memset(regions.bytes[0] + 8, 0x7f, 8); /* the client writes after decoding */
    expect_tensor(&args->inputs[1].tensors[0], "int32[2] 1 0", "indices");
}

TD_TEST(strings_in_shared_memory_may_end_early)
{
    struct decoded decoded;
    struct test_regions regions;
    test_regions_init(&regions);
    static const char strings[] = "\1\0\0\0a\0\0\0\0\2\0\0\0bcREST";
    static const char body[] =
        "{\"inputs\":[{\"name\":\"params\",\"shape\":[3],\"datatype\":\"BYTES\"," AT(
            "r", "19", "0") "}," INDICES "]}";
    memcpy(regions.bytes[0], strings, sizeof strings);
    decode_oip_at(&decoded, "gather", body, sizeof body - 1, TD_OIP_NO_HEADER, NULL, &regions.base);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    expect_tensor(&decoded.request.args.inputs[0].tensors[0], "string[3] 'a' '' 'bc'", "params");
    ck_assert_mem_eq(regions.bytes[0], strings, sizeof strings);
    regions.bytes[0][9] = 7; /* longer than the range */
    decode_oip_at(&decoded, "gather", body, sizeof body - 1, TD_OIP_NO_HEADER, NULL, &regions.base);
    ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&decoded.err, "end inside string 2");
}

static const struct {
    const char *text;
    bool names;
} regions_named[] = {
    { "{\"parameters\":{\"shared_memory_region\":\"r\"}}", true },
    { "{\"parameters\":{\"shared_memory_re\\u0067ion\":\"r\"}}", true },
    { "{\"parameters\":{\"\\u0073hared_memory_region\":\"r\"}}", true },
    { "{\"parameters\":{\"shared_memory_regio\\u006E\":\"r\"}}", true },
    { "{\"\\u0073\\u0068\\u0061\\u0072\\u0065\\u0064\\u005f\\u006d\\u0065\\u006d\\u006f\\u0072\\u00"
      "79"
      "\\u005f\\u0072\\u0065\\u0067\\u0069\\u006f\\u006e\":1}",
      true },
    { "{\"id\":\"\\\"\",\"more\":\"\\n\",\"shared_memory_re\\u0067ion\":1}", true },
    { "{\"id\":\"\\\\\",\"shared_memory_re\\u0067ion\":1}", true },
    { "{\"id\":\"\\uD83D\\uDE00\",\"shared\\u005Fmemory_region\":1,", true },
    { "{\"shared_memory_re\\u0068ion\":1}", false },
    { "{\"shared_memory_re\\u0067io\":1}", false },
    { "{\"shared_memory_re\\u0067ions\":1}", false },
    { "{\"id\":\"\\\"shared_memory_re\\u0067ion\"}", false },
    { "{\"id\":\"\\x\"}", false },
    { "{\"id\":\"\\", false },
    { "{\"shared_memory_re\\u0067ion", false },
    { "{}", false },
    { "", false },
};

TD_TEST_EACH(shared_memory_is_found_however_its_parameter_is_escaped, regions_named)
{
    const size_t length = strlen(regions_named[_i].text);
    char *exact = malloc(length ? length : 1);
    memcpy(exact, regions_named[_i].text, length);
    ck_assert_msg(td_oip_names_shared_memory(exact, length) == regions_named[_i].names, "%s",
                  regions_named[_i].text);
    free(exact);
}

TD_TEST(shared_memory_may_be_off)
{
    struct decoded decoded;
    decode_oip_text(&decoded, "gather", "{\"inputs\":[" PARAMS_AT("r", "8", "0") "," INDICES "]}");
    ck_assert_int_eq(decoded.status, TD_NOT_SUPPORTED);
    EXPECT_MESSAGE(&decoded.err, "--system-shared-memory");
}

/* ---- damaged bodies ---- */

static struct test_regions fuzz_regions;

static void decode_damaged(struct decoded *out, const struct td_op *op, const void *body,
                           size_t size, struct td_resolver *resolver)
{
    enum { LONGEST = 4096 };
    const char *blobs = size && size < LONGEST ? memchr(body, '\n', size) : NULL;
    size_t json_bytes = blobs ? (size_t)(blobs - (const char *)body) + 1 : TD_OIP_NO_HEADER;
    decode_oip_at(out, op->name, body, size, json_bytes, resolver, &fuzz_regions.base);
}

TD_TEST_LOOP(damaged_bodies_fail_cleanly, 0, 3)
{
    static const struct {
        const char *op, *json, *blobs;
        size_t blobs_size;
    } bodies[] = {
        { "gather",
          "{\"id\":\"a\\u0062\",\"parameters\":{\"axis\":0,\"binary_data_output\":true},"
          "\"inputs\":["
          "{\"name\":\"params\",\"shape\":[2,2],\"datatype\":\"BYTES\",\"parameters\":{"
          "\"binary_data_size\":21}},{\"name\":\"indices\",\"shape\":[1],\"datatype\":"
          "\"INT32\","
          "\"parameters\":{\"binary_data_size\":4}}],\"outputs\":[{\"name\":\"output\","
          "\"parameters\":{\"binary_data\":false}}]}\n",
          "\1\0\0\0a\0\0\0\0\2\0\0\0bc\2\0\0\0de\1\0\0\0", 25 },
        { "dynamic_partition",
          "{\"inputs\":[{\"name\":\"data\",\"data\":[[1,NaN],[-Infinity,2.5e3]],\"shape\":[2,2]"
          ","
          "\"datatype\":\"FP16\"},{\"name\":\"partitions\",\"shape\":[2],\"datatype\":"
          "\"INT64\","
          "\"data\":[0,1.0]}],\"parameters\":{\"num_partitions\":2},\"outputs\":["
          "{\"name\":\"outputs.1\"},{\"name\":\"outputs.0\"}],\"x\":{\"y\":[true,null]}}",
          "", 0 },
        { "gather",
          "{\"inputs\":[{\"name\":\"params\",\"shape\":[2],\"datatype\":\"BYTES\"," AT(
              "r", "13", "0") "},{\"name\":\"indices\",\"shape\":[4],\"datatype\":"
                              "\"INT16\"," AT("r", "8", "16") "}]," OUTPUT_AT("s", "40", "8") "}",
          "", 0 },
    };
    char body[2048];
    test_regions_init(&fuzz_regions);
    memcpy(fuzz_regions.bytes[0], "\1\0\0\0a\4\0\0\0bcde", 13);
    size_t json = strlen(bodies[_i].json);
    memcpy(body, bodies[_i].json, json);
    memcpy(body + json, bodies[_i].blobs, bodies[_i].blobs_size);
    expect_clean_failures(decode_damaged, td_op_named(bodies[_i].op, strlen(bodies[_i].op)), body,
                          json + bodies[_i].blobs_size, 30000, (uint64_t)_i + 1);
}

TD_FIXTURE(NULL, bodies_free);
