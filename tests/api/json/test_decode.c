#include "api/json/decode.h"
#include "api/json/members.h"
#include "api/message/common_members.h"
#include "api/message/message.h"
#include "kernels/gather/gather.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TO_HAVE_FRACTIONS                                                                          \
    "; to use fractions, give more as {\"dtype\": \"float64\", \"data\": [...]}"

static const struct {
    const char *case_name, *params /* as JSON */, *want;
} tensors[] = {
    { "a nested list", "[[1,2],[3,4]]", "int32[2,2] 1 2 3 4" },
    { "an empty list is float32", "[]", "float32[0]" },
    { "dtype, shape, data", "{\"dtype\":\"int8\",\"shape\":[2,2],\"data\":[1,2,3,4]}",
      "int8[2,2] 1 2 3 4" },
    { "data first", "{\"data\":[1,2,3,4],\"shape\":[2,2],\"dtype\":\"int8\"}",
      "int8[2,2] 1 2 3 4" },
    { "data between", "{\"dtype\":\"int8\",\"data\":[1,2,3,4],\"shape\":[2,2]}",
      "int8[2,2] 1 2 3 4" },
    { "data between, the other way", "{\"shape\":[2,2],\"data\":[1,2,3,4],\"dtype\":\"int8\"}",
      "int8[2,2] 1 2 3 4" },
    { "no shape", "{\"dtype\":\"int8\",\"data\":[[1,2],[3,4]]}", "int8[2,2] 1 2 3 4" },
    { "data first, no shape", "{\"data\":[[1,2],[3,4]],\"dtype\":\"int8\"}", "int8[2,2] 1 2 3 4" },
    { "white space", " { \"dtype\" : \"int8\" , \"shape\" : [ 2 ] , \"data\" : [ 1 , 2 ] } ",
      "int8[2] 1 2" },
    { "data first with strings that look like structure",
      "{\"data\":[\"}\",\"]\\\"\",\"\\\\\"],\"dtype\":\"string\"}",
      "string[3] '}' ']\\x22' '\\x5c'" },
    { "a scalar", "{\"dtype\":\"float32\",\"shape\":[],\"data\":3}", "float32[] 3" },
    { "a scalar first", "{\"data\":3,\"dtype\":\"float32\",\"shape\":[]}", "float32[] 3" },
    { "escapes in member names and dtypes", "{\"d\\u0074ype\":\"\\u0069nt8\",\"data\":[1]}",
      "int8[1] 1" },
    { "base64", "{\"dtype\":\"int16\",\"shape\":[3],\"base64\":\"AQD//wAB\"}",
      "int16[3] 1 -1 256" },
    { "base64 first", "{\"base64\":\"AQD//wAB\",\"shape\":[3],\"dtype\":\"int16\"}",
      "int16[3] 1 -1 256" },
    { "base64 with escaped slashes",
      "{\"dtype\":\"int16\",\"shape\":[3],\"base64\":\"AQD\\/\\/wAB\"}", "int16[3] 1 -1 256" },
    { "base64 of no elements", "{\"dtype\":\"int16\",\"shape\":[0],\"base64\":\"\"}", "int16[0]" },
    { "base64 of bool", "{\"dtype\":\"bool\",\"shape\":[2],\"base64\":\"AQA=\"}", "bool[2] 1 0" },
    { "base64 of strings",
      "{\"dtype\":\"string\",\"shape\":[3],\"base64\":\"AgAAAGFiAAAAAAEAAAD/\"}",
      "string[3] 'ab' '' '\\xff'" },
    { "base64 of no string", "{\"dtype\":\"string\",\"shape\":[0],\"base64\":\"\"}", "string[0]" },
    { "a resident tensor", "{\"ref\":\"table\"}", "float32[2] 1 2" },
    { "rank 16",
      "{\"dtype\":\"int8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"base64\":\"BQ==\"}",
      "int8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 5" },
};

TD_TEST_EACH(a_tensor_has_many_forms, tensors)
{
    char body[512];
    struct decoded decoded;
    struct test_resolver resolver;
    const char *case_name = tensors[_i].case_name;
    test_resolver_init(&resolver, tensor("float32[2] 1 2"));
    /* Before and after another member. */
    for (int i = 0; i < 2; i++) {
        int size =
            snprintf(body, sizeof body,
                     i == 0 ? "{\"params\":%s,\"indices\":0}" : "{\"indices\":0,\"params\":%s}",
                     tensors[_i].params);
        decode_json(&decoded, td_op_named("gather", 6), body, (size_t)size, &resolver.base);
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", case_name, decoded.err.message);
        ck_assert_int_eq(decoded.request.args.inputs[0].count, 1);
        expect_tensor(&decoded.request.args.inputs[0].tensors[0], tensors[_i].want, case_name);
        expect_tensor(&decoded.request.args.inputs[1].tensors[0], "int32[] 0", case_name);
    }
}

TD_TEST(the_dtype_of_an_empty_list_depends_on_the_input)
{
    struct decoded decoded;
    decode_gather(&decoded, "{\"params\":[],\"indices\":[]}");
    ck_assert_int_eq(decoded.status, TD_OK);
    expect_tensor(&decoded.request.args.inputs[0].tensors[0], "float32[0]", "params");
    expect_tensor(&decoded.request.args.inputs[1].tensors[0], "int32[0]", "indices");
}

TD_TEST(attributes_and_options_are_members_of_the_request)
{
    struct decoded decoded;
    decode_gather(
        &decoded,
        "{\"axis\":-1,\"p\\u0061rams\":[1],\"bounds\":\"wrap\",\"device\":\"cpu\",\"indices\":0,"
        "\"response\":\"flat\",\"timing\":1,\"batch_dims\":-9223372036854775808}");
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    struct td_gather_attrs attrs;
    memcpy(&attrs, decoded.request.args.attrs, sizeof attrs);
    ck_assert_int_eq(attrs.axis, -1);
    ck_assert_int_eq(attrs.batch_dims, INT64_MIN);
    ck_assert_int_eq(attrs.bounds, TD_BOUNDS_WRAP);
    ck_assert_int_eq(decoded.request.common.device, TD_DEVICE_CPU);
    ck_assert_int_eq(decoded.request.common.layout, TD_LAYOUT_FLAT);
    ck_assert(decoded.request.common.timing);
}

TD_TEST(a_list_input_accepts_tensors_of_any_form)
{
    static const char body[] =
        "{\"ints\":[[0,1],3,[],{\"dtype\":\"int32\",\"data\":[[5]]},{\"ref\":\"table\"}],"
        "\"equation\":\"a\\u0062\",\"lists\":[[\"x\"]]}";
    struct decoded decoded;
    struct test_resolver resolver;
    struct td_tensor table = tensor("int32[2] 7 8");
    test_resolver_init(&resolver, table);
    decode_json(&decoded, &list_op, body, sizeof body - 1, &resolver.base);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    const struct td_operand *ints = &decoded.request.args.inputs[1];
    ck_assert_int_eq(ints->count, 5);
    expect_tensor(&ints->tensors[0], "int32[2] 0 1", "a list");
    expect_tensor(&ints->tensors[1], "int32[] 3", "a scalar");
    expect_tensor(&ints->tensors[2], "int32[0]", "nothing");
    expect_tensor(&ints->tensors[3], "int32[1,1] 5", "an object");
    expect_tensor(&ints->tensors[4], "int32[2] 7 8", "a resident tensor");
    ck_assert_int_eq(decoded.request.args.inputs[0].count, 1);
    const char *equation;
    memcpy(&equation, decoded.request.args.attrs + list_op.attrs[2].offset, sizeof equation);
    ck_assert_str_eq(equation, "ab");
}

/* ---- the dtypes of untyped values ---- */

static const struct {
    const char *case_name, *body;
    const char *x, *more[3]; /* NULL: not given */
} siblings[] = {
    { "a value gets the dtype of a typed tensor before it",
      "{\"x\":{\"dtype\":\"float64\",\"data\":[1]},\"more\":[2]}", "float64[1] 1",
      LIST("float64[] 2") },
    { "a value gets the dtype of a typed tensor after it",
      "{\"more\":[[2,3],7],\"x\":{\"dtype\":\"uint8\",\"data\":1}}", "uint8[] 1",
      LIST("uint8[2] 2 3", "uint8[] 7") },
    { "a typed tensor in a list",
      "{\"more\":[[2],{\"dtype\":\"int64\",\"data\":[1]},[3]],\"x\":[4]}", "int64[1] 4",
      LIST("int64[1] 2", "int64[1] 1", "int64[1] 3") },
    { "a value gets the dtype of a resident tensor", "{\"x\":[4],\"more\":[{\"ref\":\"table\"}]}",
      "int16[1] 4", LIST("int16[1] 9") },
    { "NaN and Infinity become numbers if a typed tensor has floats",
      "{\"x\":[\"NaN\"],\"more\":[{\"dtype\":\"float32\",\"data\":[1]}]}", "float32[1] nan",
      LIST("float32[1] 1") },
    { "pairs become complex if a typed tensor is complex",
      "{\"x\":[[1,2],[3,4]],\"more\":[{\"dtype\":\"complex64\",\"data\":[[0,1]]}]}",
      "complex64[2] 1 2 3 4", LIST("complex64[1] 0 1") },
    { "integers alone are int32", "{\"x\":[1],\"more\":[2]}", "int32[1] 1", LIST("int32[] 2") },
    { "a fraction makes all float32", "{\"x\":[1],\"more\":[2,[0.5]]}", "float32[1] 1",
      LIST("float32[] 2", "float32[1] 0.5") },
    { "a large integer makes all int64", "{\"x\":[1],\"more\":[5000000000]}", "int64[1] 1",
      LIST("int64[] 5000000000") },
    { "an empty list gets the dtype of the others", "{\"x\":[],\"more\":[[true],[]]}", "bool[0]",
      LIST("bool[1] 1", "bool[0]") },
    { "empty lists alone are float32", "{\"x\":[],\"more\":[[]]}", "float32[0]",
      LIST("float32[0]") },
    { "strings and numbers are not converted", "{\"x\":[1],\"more\":[\"a\"]}", "int32[1] 1",
      LIST("string[] 'a'") },
    { "keys are int64 and conditions bool, whatever the data is",
      "{\"keys\":[1],\"condition\":[],\"x\":{\"dtype\":\"int8\",\"data\":1}}", "int8[] 1",
      LIST(NULL) },
};

TD_TEST_EACH(untyped_data_gets_the_dtype_of_the_others, siblings)
{
    struct decoded decoded;
    struct test_resolver resolver;
    const char *case_name = siblings[_i].case_name;
    test_resolver_init(&resolver, tensor("int16[1] 9"));
    decode_json(&decoded, &pair_op, siblings[_i].body, strlen(siblings[_i].body), &resolver.base);
    ck_assert_msg(decoded.status == TD_OK, "%s: %s", case_name, decoded.err.message);
    const struct td_operand *inputs = decoded.request.args.inputs;
    expect_tensor(&inputs[0].tensors[0], siblings[_i].x, case_name);
    int n = 0;
    for (; n < 3 && siblings[_i].more[n]; n++)
        expect_tensor(&inputs[1].tensors[n], siblings[_i].more[n], case_name);
    ck_assert_int_eq(inputs[1].count, n);
    if (inputs[2].count > 0)
        expect_tensor(&inputs[2].tensors[0], "int64[1] 1", case_name);
    if (inputs[3].count > 0)
        expect_tensor(&inputs[3].tensors[0], "bool[0]", case_name);
}

static const struct {
    const char *case_name, *body;
    const char *keys, *queries;
} key_siblings[] = {
    { "integers alone are int64", "{\"x\":[0.5],\"keys\":[1],\"queries\":2}", "int64[1] 1",
      "int64[] 2" },
    { "a large integer makes all uint64",
      "{\"x\":[1],\"keys\":[1],\"queries\":[9223372036854775808]}", "uint64[1] 1",
      "uint64[1] 9223372036854775808" },
    { "keys get the dtype of typed queries, whatever the data is",
      "{\"keys\":[1],\"x\":{\"dtype\":\"int8\",\"data\":1},"
      "\"queries\":{\"dtype\":\"uint64\",\"data\":[2]}}",
      "uint64[1] 1", "uint64[1] 2" },
    { "queries get the dtype of typed keys",
      "{\"queries\":[],\"keys\":{\"dtype\":\"string\",\"data\":[\"a\"]},\"x\":[1]}",
      "string[1] 'a'", "string[0]" },
    { "empty keys get the dtype of queries", "{\"x\":[1],\"keys\":[],\"queries\":[\"a\"]}",
      "string[0]", "string[1] 'a'" },
    { "empty lists alone are int64", "{\"x\":[1],\"keys\":[],\"queries\":[]}", "int64[0]",
      "int64[0]" },
};

TD_TEST_EACH(untyped_keys_get_the_dtype_of_other_keys, key_siblings)
{
    struct decoded decoded;
    const char *case_name = key_siblings[_i].case_name;
    decode_json(&decoded, &pair_op, key_siblings[_i].body, strlen(key_siblings[_i].body), NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s: %s", case_name, decoded.err.message);
    const struct td_operand *inputs = decoded.request.args.inputs;
    expect_tensor(&inputs[2].tensors[0], key_siblings[_i].keys, case_name);
    expect_tensor(&inputs[4].tensors[0], key_siblings[_i].queries, case_name);
}

static const struct {
    const char *body, *message, *pointer, *input;
} mismatches[] = {
    { "{\"x\":{\"dtype\":\"uint8\",\"data\":[1]},\"more\":[7,[2,300]]}",
      "300 does not fit uint8; expected dtype uint8, as in x", "/more/1/1", "more[1]" },
    { "{\"x\":[1,-1],\"more\":[{\"dtype\":\"uint8\",\"data\":[1]}]}",
      "-1 does not fit uint8; expected dtype uint8, as in more", "/x/1", "x" },
    { "{\"x\":0.5,\"more\":[{\"dtype\":\"int32\",\"data\":[1]}]}",
      "0.5 is not an int32; expected dtype int32, as in more" TO_HAVE_FRACTIONS, "/x", "x" },
    { "{\"x\":true,\"more\":[{\"dtype\":\"int32\",\"data\":[1]}]}",
      "true is not an int32; expected dtype int32, as in more", "/x", "x" },
    { "{\"x\":-1,\"more\":[18446744073709551615]}",
      "-1 does not fit uint64; expected dtype uint64, as in the other values", "/x", "x" },
    { "{\"x\":1,\"keys\":[-1],\"queries\":[18446744073709551615]}",
      "-1 does not fit uint64; expected dtype uint64, as in the other values", "/keys/0", "keys" },
    { "{\"x\":[1,\"a\"],\"more\":[1]}", "found the string \"a\" in a tensor of numbers", "/x/1",
      "x" },
};

TD_TEST_EACH(a_value_that_does_not_fit_the_dtype_of_the_others_is_refused, mismatches)
{
    struct decoded decoded;
    decode_json(&decoded, &pair_op, mismatches[_i].body, strlen(mismatches[_i].body), NULL);
    ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    ck_assert_str_eq(decoded.err.message, mismatches[_i].message);
    ck_assert_str_eq(decoded.err.pointer, mismatches[_i].pointer);
    ck_assert_str_eq(decoded.err.input, mismatches[_i].input);
}

TD_TEST(a_fraction_among_keys_is_refused_at_its_place)
{
    static const char body[] = "{\"x\":[0.5],\"keys\":[[1],[5000000000],[2.5]],\"queries\":[1]}";
    struct decoded decoded;
    decode_json(&decoded, &pair_op, body, strlen(body), NULL);
    ck_assert_int_eq(decoded.status, TD_UNSUPPORTED_DTYPE);
    ck_assert_int_eq(decoded.err.status, TD_UNSUPPORTED_DTYPE);
    ck_assert_str_eq(decoded.err.message,
                     "2.5 is not an integer; indices and keys must be integers, "
                     "written without a fraction or an exponent");
    ck_assert_str_eq(decoded.err.pointer, "/keys/2/0");
    ck_assert_str_eq(decoded.err.input, "keys");
}

TD_TEST(a_skipped_value_must_be_json)
{
    static const char *const bodies[] = { "{\"x\":}", "{\"x\":[1,}", "{\"x\":[1],\"more\":[,]}",
                                          "{\"x\":01}", "{\"x\":nul}" };
    for (int i = 0; i < COUNT_OF(bodies); i++) {
        struct decoded decoded;
        decode_json(&decoded, &pair_op, bodies[i], strlen(bodies[i]), NULL);
        ck_assert_msg(decoded.status == TD_MALFORMED_REQUEST, "%s", bodies[i]);
        ck_assert_msg(decoded.err.offset >= 0 || decoded.err.has_pointer, "%s: %s", bodies[i],
                      decoded.err.message);
    }
}

TD_TEST(an_empty_list_of_tensors_counts_as_given)
{
    struct decoded decoded;
    static const char body[] = "{\"ints\":[]}";
    decode_json(&decoded, &list_op, body, sizeof body - 1, NULL);
    ck_assert_int_eq(decoded.status, TD_OK);
    ck_assert_int_eq(decoded.request.args.inputs[1].count, 0);
    ck_assert_ptr_nonnull(decoded.request.args.inputs[1].tensors);
    ck_assert_ptr_null(decoded.request.args.inputs[0].tensors);
}

/* {"more":{"0":0,"1":0,...}} with n names, of which the last may be that of another. */
static char *print_object(int n, int twice)
{
    char *body = malloc((size_t)n * 16 + 64), *at = body + sprintf(body, "{\"more\":{");
    ck_assert_ptr_nonnull(body);
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s\"%d\":0", i ? "," : "", twice && i == n - 1 ? twice - 1 : i);
    strcpy(at, "}}");
    return body;
}

static td_status skip(const char *body, struct td_error *err)
{
    struct td_json_scan scan = { body, body, body + strlen(body) };
    return td_json_skip(&scan, 0, &test_arena, err);
}

TD_TEST(a_repeated_name_is_found_among_any_number)
{
    struct td_error err;
    for (int n = 2; n <= 18; n++)
        for (int twice = 0; twice < n; twice++) {
            char *body = print_object(n, twice);
            EXPECT(skip(body, &err) == (twice ? TD_MALFORMED_REQUEST : TD_OK), "%d: %s", twice,
                   body);
            free(body);
        }
}

/* The names of the open objects count: here "more" and those in it. */
TD_TEST(the_names_of_open_objects_are_limited)
{
    struct td_error err = { 0 };
    char *body = print_object((int)TD_JSON_MAX_NAMES - 1, 0);
    EXPECT_OK(skip(body, &err), &err);
    free(body);
    td_arena_reset(&test_arena);
    body = print_object((int)TD_JSON_MAX_NAMES, 0);
    ck_assert_int_eq(skip(body, &err), TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "names");
    ck_assert_uint_eq(err.limit, TD_JSON_MAX_NAMES);
    free(body);
}

TD_TEST(a_list_of_tensors_grows_to_its_limit)
{
    for (int count = TD_MAX_LIST; count <= TD_MAX_LIST + 1; count++) {
        char *body = malloc((size_t)count * 2 + 32), *at = body;
        at += sprintf(at, "{\"ints\":[0");
        for (int i = 1; i < count; i++)
            at += sprintf(at, ",%d", i % 10);
        at += sprintf(at, "]}");
        struct decoded decoded;
        decode_json(&decoded, &list_op, body, (size_t)(at - body), NULL);
        free(body);
        if (count <= TD_MAX_LIST) {
            ck_assert_int_eq(decoded.status, TD_OK);
            ck_assert_int_eq(decoded.request.args.inputs[1].count, count);
            for (int i = 0; i < count; i++)
                EXPECT(*(int32_t *)decoded.request.args.inputs[1].tensors[i].data == i % 10, "%d",
                       i);
        } else {
            ck_assert_int_eq(decoded.status, TD_RESOURCE_LIMIT);
            ck_assert_str_eq(decoded.err.resource, "tensors");
            ck_assert_str_eq(decoded.err.pointer, "/ints");
        }
    }
}

static const struct {
    const char *case_name, *body;
    td_status status;
    const char *pointer;                  /* NULL: none */
    int offset;                           /* -1: none */
    const char *input, *attribute, *near; /* "": none */
} refused[] = {
    { "nothing", "", TD_MALFORMED_REQUEST, NULL, 0, "", "", "" },
    { "white space", " \n", TD_MALFORMED_REQUEST, NULL, 0, "", "", "" },
    { "a list", "[1]", TD_MALFORMED_REQUEST, "", -1, "", "", "" },
    { "a string", "\"a\"", TD_MALFORMED_REQUEST, "", -1, "", "", "" },
    { "text", "params=1", TD_MALFORMED_REQUEST, NULL, 0, "", "", "" },
    { "null", "null", TD_MALFORMED_REQUEST, "", -1, "", "", "" },
    { "a word that begins like null", "nonsense", TD_MALFORMED_REQUEST, NULL, 0, "", "", "" },
    { "the beginning of null", "nul", TD_MALFORMED_REQUEST, NULL, 0, "", "", "" },
    { "a byte order mark", "\xef\xbb\xbf{}", TD_MALFORMED_REQUEST, NULL, 0, "", "", "" },
    { "no closing brace", "{\"params\":[1]", TD_MALFORMED_REQUEST, NULL, 13, "", "", "" },
    { "two objects", "{\"params\":[1]}{}", TD_MALFORMED_REQUEST, NULL, 14, "", "", "" },
    { "a comma at the end", "{\"params\":[1],}", TD_MALFORMED_REQUEST, NULL, 14, "", "", "" },
    { "a comma after the end", "{\"params\":[1]},", TD_MALFORMED_REQUEST, NULL, 14, "", "", "" },
    { "no quotes", "{params:[1]}", TD_MALFORMED_REQUEST, NULL, 1, "", "", "" },
    { "no colon", "{\"params\" [1]}", TD_MALFORMED_REQUEST, NULL, 10, "", "", "" },
    { "no value", "{\"params\":}", TD_MALFORMED_REQUEST, NULL, 10, "params", "", "" },
    { "a NUL", "{\"params\":\x01}", TD_MALFORMED_REQUEST, NULL, 10, "params", "", "" },
    { "an unknown member", "{\"parmas\":[1]}", TD_MALFORMED_REQUEST, "/parmas", -1, "", "parmas",
      "params" },
    { "a NUL after a name", "{\"params\\u0000\":[1]}", TD_MALFORMED_REQUEST, "/params", -1, "",
      "params\\u0000", "params" },
    { "a NUL within a name", "{\"par\\u0000ams\":[1]}", TD_MALFORMED_REQUEST, "/par", -1, "",
      "par\\u0000ams", "params" },
    { "no similar name", "{\"quux\":[1]}", TD_MALFORMED_REQUEST, "/quux", -1, "", "quux", "" },
    { "characters that pointers escape", "{\"a/b~c\":1}", TD_MALFORMED_REQUEST, "/a~1b~0c", -1, "",
      "a/b~c", "" },
    { "an input twice", "{\"params\":[1],\"params\":[2]}", TD_MALFORMED_REQUEST, "/params", -1,
      "params", "", "" },
    { "twice, once escaped", "{\"params\":[1],\"p\\u0061rams\":[2]}", TD_MALFORMED_REQUEST,
      "/params", -1, "params", "", "" },
    { "an attribute twice", "{\"axis\":1,\"axis\":1}", TD_MALFORMED_REQUEST, "/axis", -1, "",
      "axis", "" },
    { "an option twice", "{\"device\":\"cpu\",\"device\":\"cpu\"}", TD_MALFORMED_REQUEST, "/device",
      -1, "", "device", "" },
    { "an attribute of another kind", "{\"axis\":\"1\"}", TD_MALFORMED_REQUEST, "/axis", -1, "",
      "axis", "" },
    { "a fraction for an integer", "{\"axis\":1.0}", TD_MALFORMED_REQUEST, "/axis", -1, "", "axis",
      "" },
    { "an integer that is too large", "{\"axis\":9223372036854775808}", TD_MALFORMED_REQUEST,
      "/axis", -1, "", "axis", "" },
    { "a list for an attribute", "{\"axis\":[1]}", TD_MALFORMED_REQUEST, "/axis", -1, "", "axis",
      "" },
    { "a bad number for an attribute", "{\"axis\":01}", TD_MALFORMED_REQUEST, NULL, 9, "", "", "" },
    { "a bad literal for an attribute", "{\"axis\":nul}", TD_MALFORMED_REQUEST, NULL, 8, "", "",
      "" },
    { "an unknown policy", "{\"bounds\":\"warp\"}", TD_MALFORMED_REQUEST, "/bounds", -1, "",
      "bounds", "wrap" },
    { "a ragged list", "{\"params\":[[1,2],[3]]}", TD_MALFORMED_REQUEST, "/params/1", -1, "params",
      "", "" },
    { "typed data", "{\"params\":{\"dtype\":\"int8\",\"data\":[[1],[300]]}}", TD_MALFORMED_REQUEST,
      "/params/data/1/0", -1, "params", "", "" },
    { "typed data before dtype and shape", "{\"params\":{\"data\":[1,300],\"dtype\":\"int8\"}}",
      TD_MALFORMED_REQUEST, "/params/data/1", -1, "params", "", "" },
    { "hexadecimal data before dtype", "{\"params\":{\"data\":0x10,\"dtype\":\"int32\"}}",
      TD_MALFORMED_REQUEST, NULL, 19, "params", "", "" },
    { "a difference before dtype", "{\"params\":{\"data\":1-2,\"dtype\":\"int32\"}}",
      TD_MALFORMED_REQUEST, NULL, 19, "params", "", "" },
    { "a literal and more before dtype", "{\"params\":{\"data\":truefalse,\"dtype\":\"bool\"}}",
      TD_MALFORMED_REQUEST, NULL, 22, "params", "", "" },
    { "a number and a quote before dtype", "{\"params\":{\"data\":1\"a\",\"dtype\":\"int32\"}}",
      TD_MALFORMED_REQUEST, NULL, 19, "params", "", "" },
    { "an unknown dtype", "{\"params\":{\"dtype\":\"floot32\",\"data\":[1]}}", TD_MALFORMED_REQUEST,
      "/params/dtype", -1, "params", "", "float32" },
    { "a dtype that is not a string", "{\"params\":{\"dtype\":1,\"data\":[1]}}",
      TD_MALFORMED_REQUEST, "/params/dtype", -1, "params", "", "" },
    { "an unknown member of a tensor", "{\"params\":{\"dtpye\":\"int8\",\"data\":[1]}}",
      TD_MALFORMED_REQUEST, "/params/dtpye", -1, "params", "", "dtype" },
    { "a member of a tensor twice", "{\"params\":{\"data\":[1],\"data\":[1],\"dtype\":\"int8\"}}",
      TD_MALFORMED_REQUEST, "/params/data", -1, "params", "", "" },
    { "an empty object", "{\"params\":{}}", TD_MALFORMED_REQUEST, "/params", -1, "params", "", "" },
    { "no dtype", "{\"params\":{\"data\":[1],\"shape\":[1]}}", TD_MALFORMED_REQUEST, "/params", -1,
      "params", "", "" },
    { "no data", "{\"params\":{\"dtype\":\"int8\",\"shape\":[1]}}", TD_MALFORMED_REQUEST, "/params",
      -1, "params", "", "" },
    { "data and base64",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[1],\"data\":[1],\"base64\":\"AQ==\"}}",
      TD_MALFORMED_REQUEST, "/params", -1, "params", "", "" },
    { "base64 without shape", "{\"params\":{\"dtype\":\"int8\",\"base64\":\"AQ==\"}}",
      TD_MALFORMED_REQUEST, "/params", -1, "params", "", "" },
    { "ref and more", "{\"params\":{\"ref\":\"table\",\"dtype\":\"int8\"}}", TD_MALFORMED_REQUEST,
      "/params", -1, "params", "", "" },
    { "more and ref", "{\"params\":{\"dtype\":\"int8\",\"ref\":\"table\"}}", TD_MALFORMED_REQUEST,
      "/params", -1, "params", "", "" },
    { "a number as ref", "{\"params\":{\"ref\":1}}", TD_MALFORMED_REQUEST, "/params/ref", -1,
      "params", "", "" },
    { "null as ref", "{\"params\":{\"ref\":null}}", TD_MALFORMED_REQUEST, "/params/ref", -1,
      "params", "", "" },
    { "a list as ref", "{\"params\":{\"ref\":[\"table\"]}}", TD_MALFORMED_REQUEST, "/params/ref",
      -1, "params", "", "" },
    { "a ref in a ref", "{\"params\":{\"ref\":{\"ref\":\"table\"}}}", TD_MALFORMED_REQUEST,
      "/params/ref", -1, "params", "", "" },
    { "a tensor that is not resident", "{\"params\":{\"ref\":\"w\"}}", TD_TENSOR_NOT_FOUND,
      "/params/ref", -1, "params", "", "" },
    { "a shape that is not a list", "{\"params\":{\"dtype\":\"int8\",\"shape\":2,\"data\":[1]}}",
      TD_MALFORMED_REQUEST, "/params/shape", -1, "params", "", "" },
    { "a negative dimension", "{\"params\":{\"dtype\":\"int8\",\"shape\":[1,-1],\"data\":[1]}}",
      TD_MALFORMED_REQUEST, "/params/shape/1", -1, "params", "", "" },
    { "a dimension with a fraction",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[1.0],\"data\":[1]}}", TD_MALFORMED_REQUEST,
      "/params/shape/0", -1, "params", "", "" },
    { "a dimension beyond int64",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[9223372036854775808],\"data\":[1]}}",
      TD_MALFORMED_REQUEST, "/params/shape/0", -1, "params", "", "" },
    { "a dimension that is text",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[\"1\"],\"data\":[1]}}", TD_MALFORMED_REQUEST,
      "/params/shape/0", -1, "params", "", "" },
    { "rank 17",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data\":[1]}"
      "}",
      TD_RESOURCE_LIMIT, "/params/shape", -1, "params", "", "" },
    { "rank 17, nested", "{\"params\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}", TD_RESOURCE_LIMIT,
      "/params", -1, "params", "", "" },
    { "more elements than int64 counts",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[4294967296,4294967296],\"base64\":\"AQ==\"}}",
      TD_RESOURCE_LIMIT, NULL, -1, "params", "", "" },
    { "base64 of another length",
      "{\"params\":{\"dtype\":\"int32\",\"shape\":[2],\"base64\":\"AQIDBA==\"}}",
      TD_MALFORMED_REQUEST, "/params/base64", -1, "params", "", "" },
    { "base64 of a byte too many",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[2],\"base64\":\"AQID\"}}", TD_MALFORMED_REQUEST,
      "/params/base64", -1, "params", "", "" },
    { "base64 of a huge shape",
      "{\"params\":{\"dtype\":\"int32\",\"shape\":[1000000000000],\"base64\":\"AQIDBA==\"}}",
      TD_MALFORMED_REQUEST, "/params/base64", -1, "params", "", "" },
    { "base64 strings of a huge shape",
      "{\"params\":{\"dtype\":\"string\",\"shape\":[1000000000000],\"base64\":\"AQIDBA==\"}}",
      TD_MALFORMED_REQUEST, "/params/base64", -1, "params", "", "" },
    { "truncated base64", "{\"params\":{\"dtype\":\"int8\",\"shape\":[1],\"base64\":\"AQ=\"}}",
      TD_MALFORMED_REQUEST, "/params/base64", -1, "params", "", "" },
    { "base64 with an invalid character",
      "{\"params\":{\"dtype\":\"int8\",\"shape\":[3],\"base64\":\"AQ-B\"}}", TD_MALFORMED_REQUEST,
      "/params/base64", -1, "params", "", "" },
    { "a bool that is 2", "{\"params\":{\"dtype\":\"bool\",\"shape\":[2],\"base64\":\"AQI=\"}}",
      TD_MALFORMED_REQUEST, "/params/base64", -1, "params", "", "" },
};

TD_TEST_EACH(malformed_requests_are_refused_with_their_position, refused)
{
    struct decoded decoded;
    const char *case_name = refused[_i].case_name;
    decode_gather(&decoded, refused[_i].body);
    const struct td_error *err = &decoded.err;
    ck_assert_msg(decoded.status == refused[_i].status, "%s: %d", case_name, decoded.status);
    expect_clean_error(err, decoded.status, strlen(refused[_i].body), case_name);
    ck_assert_msg(err->has_pointer == (refused[_i].pointer != NULL), "%s: %s", case_name,
                  err->message);
    if (refused[_i].pointer)
        ck_assert_msg(strcmp(err->pointer, refused[_i].pointer) == 0, "%s: %s", case_name,
                      err->pointer);
    ck_assert_msg(err->offset == refused[_i].offset, "%s: at %lld", case_name,
                  (long long)err->offset);
    ck_assert_msg(strcmp(err->input, refused[_i].input) == 0, "%s: input %s", case_name,
                  err->input);
    ck_assert_msg(strcmp(err->attribute, refused[_i].attribute) == 0, "%s: attribute %s", case_name,
                  err->attribute);
    ck_assert_msg(strcmp(err->did_you_mean, refused[_i].near) == 0, "%s: near %s", case_name,
                  err->did_you_mean);
}

static const struct {
    const char *case_name, *body, *pointer, *input;
} lists_refused[] = {
    { "not a list", "{\"ints\":1}", "/ints", "ints" },
    { "an object", "{\"ints\":{\"dtype\":\"int32\",\"data\":[1]}}", "/ints", "ints" },
    { "the index of the tensor in error", "{\"ints\":[[1],[[1],2]]}", "/ints/1/1", "ints[1]" },
    { "the pointer to its data", "{\"ints\":[[1],{\"dtype\":\"int8\",\"data\":[999]}]}",
      "/ints/1/data/0", "ints[1]" },
    { "a list twice", "{\"ints\":[],\"ints\":[]}", "/ints", "ints" },
};

TD_TEST_EACH(errors_in_lists_name_the_tensor, lists_refused)
{
    struct decoded decoded;
    const char *body = lists_refused[_i].body;
    decode_json(&decoded, &list_op, body, strlen(body), NULL);
    ck_assert_msg(decoded.status == TD_MALFORMED_REQUEST, "%s", lists_refused[_i].case_name);
    ck_assert_str_eq(decoded.err.pointer, lists_refused[_i].pointer);
    ck_assert_str_eq(decoded.err.input, lists_refused[_i].input);
}

TD_TEST(a_long_pointer_is_cut_between_steps)
{
    char body[1200] = "{\"", *at = body + 2;
    memset(at, '/', 1000);
    strcpy(at + 1000, "\":1}");
    struct decoded decoded;
    decode_gather(&decoded, body);
    ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    size_t length = strlen(decoded.err.pointer);
    ck_assert_uint_lt(length, sizeof decoded.err.pointer);
    ck_assert_str_eq(decoded.err.pointer + length - 2, "~1");
}

/* The bytes of the padding must not matter, whatever token is at the end of the body. */
TD_TEST(the_padding_is_not_part_of_the_body)
{
    static const char *const bodies[] = {
        "{\"params\":[1",
        "{\"params\":[1.5",
        "{\"params\":[1e5",
        "{\"params\":[true",
        "{\"params\":[\"a",
        "{\"params\":[\"a\"",
        "{\"params\":[-",
        "{\"params\":[[1],[2",
        "{\"params\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[1.25,2.25",
        "{\"params\":{\"dtype\":\"complex64\",\"data\":[[1.25,2.25",
        "{\"params\":{\"dtype\":\"int64\",\"shape\":[2],\"data\":[1,12345678",
        "{\"params\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[\"NaN\",\"Na",
        "{\"params\":7",
        "{\"axis\":1",
        "{\"params\":[12345678.12345678",
        "{\"params\":[1]",
        "{",
    };
    static const char paddings[] = { '0', '1', '.', 'e', '-', ',', ']', '}', '"', ' ', '[', '\0' };
    for (int b = 0; b < COUNT_OF(bodies); b++)
        for (size_t f = 0; f < sizeof paddings; f++) {
            struct td_error err = { 0 };
            struct td_request request;
            char *body = padded_copy(bodies[b], strlen(bodies[b]), paddings[f]);
            td_request_init(&request, td_op_named("gather", 6));
            td_status status =
                td_json_decode(body, strlen(bodies[b]), NULL, &test_arena, &request, &err);
            EXPECT(status == TD_MALFORMED_REQUEST, "%s is accepted before '%c'", bodies[b],
                   paddings[f]);
            EXPECT(err.offset == (int64_t)strlen(bodies[b]), "%s before '%c': %s", bodies[b],
                   paddings[f], err.message);
            free(body);
        }
}

static const char *const valid[] = {
    "{\"params\":[[1.5,-2e3,3],[4,5.25,6E-2]],\"indices\":[1,0,1],\"axis\":1,\"bounds\":\"clip\"}",
    "{ \"params\" : [ [ 1 , 2 ] , [ 3 , 40000000000 ] ] , \"indices\" : 0 }",
    "{\"params\":{\"dtype\":\"float64\",\"shape\":[2,2],\"data\":[1,\"NaN\",-0.0,6e-8]},"
    "\"indices\":[[1]]}",
    "{\"params\":{\"data\":[[\"a\\u00e9\",\"\\ud83d\\ude00\"]],\"dtype\":\"string\"},\"indices\":["
    "0]}",
    "{\"params\":{\"dtype\":\"complex64\",\"shape\":[2],\"data\":[[1,2],[3,\"-Infinity\"]]},"
    "\"indices\":{\"dtype\":\"int64\",\"shape\":[2],\"base64\":\"AAAAAAAAAAABAAAAAAAAAA==\"}}",
    "{\"params\":{\"dtype\":\"string\",\"shape\":[2],\"base64\":\"AgAAAGFiAAAAAA==\"},\"indices\":["
    "true]}",
    "{\"params\":{\"dtype\":\"int16\",\"shape\":[2,3],\"data\":[[1,2,3],[-4,5,6]]},\"indices\":[0,"
    "1]}",
    "{\"params\":{\"dtype\":\"string\",\"shape\":[2,2],\"data\":[[\"a\",\"b\"],[\"c\",\"d\"]]},"
    "\"indices\":[0,1]}",
    "{\"params\":[[[true,false]]],\"indices\":{\"ref\":\"x\"},\"device\":\"auto\",\"timing\":true}",
};

TD_TEST_EACH(truncated_and_mutated_bodies_fail_cleanly, valid)
{
    expect_clean_failures(decode_json, td_op_named("gather", 6), valid[_i], strlen(valid[_i]),
                          20000, (uint64_t)_i);
}

TD_TEST(truncated_and_mutated_siblings_fail_cleanly)
{
    static const char body[] =
        "{\"x\":[[1,2],[-3,4e1]],\"more\":[[7],{\"dtype\":\"int16\",\"data\":[1]},\"\",-0.5,[[]]],"
        "\"keys\":[\"a\",\"\\u00e9\"],\"condition\":[true,false]}";
    static const char good[] = "{\"x\":[[1,2],[-3,4e1]],\"more\":[[7],-0.5,[[]]],"
                               "\"keys\":[18446744073709551615],\"condition\":[true,false]}";
    struct decoded decoded;
    decode_json(&decoded, &pair_op, body, sizeof body - 1, NULL);
    ck_assert_int_eq(decoded.status, TD_MALFORMED_REQUEST);
    expect_clean_failures(decode_json, &pair_op, good, sizeof good - 1, 20000, 12);
}

TD_TEST(truncated_and_mutated_lists_fail_cleanly)
{
    static const char body[] =
        "{\"ints\":[[0,1],3,{\"dtype\":\"int32\",\"shape\":[1],\"data\":[5]}],"
        "\"equation\":\"a,b->ab\",\"lists\":[[\"x\"],[1.5]],\"count\":-3}";
    expect_clean_failures(decode_json, &list_op, body, sizeof body - 1, 20000, 99);
}
