#include "api/codec.h"
#include "api/media_type.h"
#include "api/tensor_io.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_error err;

enum { J = TD_FORMAT_JSON, S = TD_FORMAT_SAFETENSORS, N = TD_FORMAT_NPY, REFUSED = -1 };

/* ---- media types ---- */

static const struct {
    const char *type;
    int format;
} types[] = {
    { NULL, J },
    { "", J },
    { "application/json", J },
    { "application/json; charset=utf-8", J },
    { "application/json; charset=latin1", REFUSED },
    { "application/x-www-form-urlencoded", J },
    { "application/vnd.safetensors", S },
    { "application/octet-stream", S },
    { "application/x-npy", N },
    { "application/npy", N },
    { "Application/X-NPY; version=1", N },
    { "application/x-npz", REFUSED },
    { "text/plain", REFUSED },
};

TD_TEST_EACH(the_content_type_selects_the_format, types)
{
    td_format format;
    td_status status = td_tensor_io_body_format(types[_i].type, &format, &err);
    const char *type = types[_i].type ? types[_i].type : "none";
    ck_assert_msg(status == (types[_i].format < 0 ? TD_UNSUPPORTED_MEDIA_TYPE : TD_OK), "%s", type);
    if (status == TD_OK)
        ck_assert_msg((int)format == types[_i].format, "%s", type);
    else
        ck_assert_str_eq(err.attribute, "Content-Type");
}

static const struct {
    const char *type;
    bool stated;
} statements[] = {
    { NULL, false },
    { "", false },
    { "application/x-www-form-urlencoded", false },
    { "Application/X-WWW-Form-Urlencoded; charset=utf-8", false },
    { "application/json", true },
    { "application/octet-stream", true },
};

TD_TEST_EACH(what_curl_sends_by_default_states_no_format, statements)
{
    ck_assert_msg(td_media_is_stated(statements[_i].type) == statements[_i].stated, "%s",
                  statements[_i].type ? statements[_i].type : "none");
}

#define BODY(text) text, sizeof text - 1

static const struct {
    const char *description, *body;
    size_t bytes;
    int format;
} beginnings[] = {
    { "nothing", BODY(""), J },
    { "a list", BODY("[[1,2],[3,4]]"), J },
    { "an object", BODY("{\"dtype\":\"int8\",\"shape\":[1],\"data\":[1]}"), J },
    { "an object after spaces", BODY("        {\"ref\":\"t\"}"), J },
    { "npy 1.0", BODY("\x93NUMPY\x01\x00\x76\x00{"), N },
    { "npy without its version", BODY("\x93NUMPY"), N },
    { "npy cut within its magic", BODY("\x93NUMP"), J },
    { "safetensors", BODY("\x40\0\0\0\0\0\0\0{\"t\":"), S },
    { "safetensors of which the size begins as a list", BODY("[\0\0\0\0\0\0\0{\"t\":"), S },
    { "safetensors cut before its header", BODY("\x40\0\0\0\0\0\0\0"), J },
    { "zeros", BODY("\0\0\0\0\0\0\0\0\0\0\0\0"), J },
};

TD_TEST_EACH(a_body_of_unstated_format_is_recognised_by_its_beginning, beginnings)
{
    const td_format format = td_tensor_io_recognise(beginnings[_i].body, beginnings[_i].bytes);
    ck_assert_msg((int)format == beginnings[_i].format, "%s: %d", beginnings[_i].description,
                  (int)format);
}

static const struct {
    const char *accept;
    int format;
} accepts[] = {
    { NULL, J },
    { "", J },
    { "*/*", J },
    { "application/*", J },
    { "application/json", J },
    { "application/x-npy", N },
    { "application/npy", N },
    { "application/vnd.safetensors", S },
    { "application/octet-stream", S },
    { "application/x-npy, application/vnd.safetensors;q=0.9", N },
    { "application/x-npy;q=0.8, application/vnd.safetensors;q=0.9, */*;q=0.1", S },
    { "application/json;q=0, */*", S },
    { "application/json;q=0, application/vnd.safetensors;q=0, */*", N },
    { "application/x-npy;q=0.5;v=0, application/json;q=0", N },
    { "application/x-npy;v=\"\\\",\";q=0, application/vnd.safetensors", S },
    { "application/x-npy;q=0", REFUSED },
    { "text/html", REFUSED },
};

TD_TEST_EACH(accept_selects_the_format, accepts)
{
    td_format format;
    td_status status = td_tensor_io_reply_format(accepts[_i].accept, &format, &err);
    const char *accept = accepts[_i].accept ? accepts[_i].accept : "none";
    ck_assert_msg(status == (accepts[_i].format < 0 ? TD_NOT_ACCEPTABLE : TD_OK), "%s", accept);
    if (status == TD_OK)
        ck_assert_msg((int)format == accepts[_i].format, "%s", accept);
    else
        EXPECT_MESSAGE(&err, "application/json, application/vnd.safetensors "
                             "or application/x-npy");
}

TD_TEST(other_bodies_are_not_npy)
{
    td_format format;
    ck_assert_int_eq(td_codec_request_format("application/x-npy", &format, &err),
                     TD_UNSUPPORTED_MEDIA_TYPE);
    ck_assert_ptr_null(strstr(err.message, "or application/x-npy"));
}

/* ---- reading ---- */

/* The result, and the body in a buffer of exactly the promised size. */
struct read {
    td_status status;
    struct td_tensor tensor;
    bool in_body;
    char *body;
};

static struct read read_bytes(td_format format, const void *bytes, size_t size,
                              struct td_resolver *resolver)
{
    struct read read = { .body = padded_copy(bytes, size, '1') };
    memset(&err, 0, sizeof err);
    read.status = td_tensor_read(format, TD_ROLE_DATA, read.body, size, resolver, &test_arena,
                                 &read.tensor, &read.in_body, &err);
    return read;
}

static const struct {
    const char *body, *want;
} documents[] = {
    { "[[1,2],[3,4]]", "int32[2,2] 1 2 3 4" },
    { " 2.5 ", "float32[] 2.5" },
    { "true", "bool[] 1" },
    { "12", "int32[] 12" },
    { "-2.5e1", "float32[] -25" },
    { "12345678", "int32[] 12345678" },
    { "\n0\t", "int32[] 0" },
    { "0.1", "float32[] 0.1" },
    { "18446744073709551615", "uint64[] 18446744073709551615" },
    { "\"text\"", "string[] 'text'" },
    { "[]", "float32[0]" },
    { "[[],[]]", "float32[2,0]" },
    { "[\"a\",\"\"]", "string[2] 'a' ''" },
    { "[3000000000]", "int64[1] 3000000000" },
    { "{\"dtype\":\"int8\",\"data\":[1,-1]}", "int8[2] 1 -1" },
    { "{\"data\":[1,2],\"shape\":[2,1],\"dtype\":\"float16\"}", "float16[2,1] 0x3c00 0x4000" },
    { "{\"dtype\":\"complex64\",\"data\":[[1,2]]}", "complex64[1] 1 2" },
    { "{\"dtype\":\"complex128\",\"shape\":[],\"data\":[1,-2]}", "complex128[] 1 -2" },
    { "{\"dtype\":\"float32\",\"data\":[\"NaN\",\"Infinity\",\"-Infinity\"]}",
      "float32[3] nan inf -inf" },
    { "[\"NaN\"]", "string[1] 'NaN'" },
    { "{\"dtype\":\"string\",\"data\":[\"NaN\"]}", "string[1] 'NaN'" },
    { "{\"dtype\":\"int16\",\"shape\":[2],\"base64\":\"AQD//w==\"}", "int16[2] 1 -1" },
    { "{\"dtype\":\"string\",\"shape\":[2],\"base64\":\"AQAAAGEAAAAA\"}", "string[2] 'a' ''" },
    { "{\"dtype\":\"bool\",\"shape\":[2],\"base64\":\"AAE=\"}", "bool[2] 0 1" },
    { "{\"dtype\":\"uint64\",\"shape\":[0,3],\"base64\":\"\"}", "uint64[0,3]" },
    { "{\"ref\":\"table\"}", "float32[2] 7 8" },
};

TD_TEST_EACH(a_json_tensor_is_read_in_every_form, documents)
{
    struct test_resolver resolver;
    test_resolver_init(&resolver, tensor("float32[2] 7 8"));
    struct read read =
        read_bytes(TD_FORMAT_JSON, documents[_i].body, strlen(documents[_i].body), &resolver.base);
    ck_assert_msg(read.status == TD_OK, "%s: %s", documents[_i].body, err.message);
    ck_assert(!read.in_body);
    free(read.body);
    expect_tensor(&read.tensor, documents[_i].want, documents[_i].body);
}

TD_TEST(a_ref_shares_the_data)
{
    static const char body[] = "{\"ref\":\"table\"}";
    struct test_resolver resolver;
    struct td_tensor table = tensor("float32[2] 7 8");
    struct td_buffer owner;
    table.owner = &owner;
    test_resolver_init(&resolver, table);
    struct read read = read_bytes(TD_FORMAT_JSON, body, strlen(body), &resolver.base);
    ck_assert_int_eq(read.status, TD_OK);
    ck_assert_ptr_eq(read.tensor.data, table.data);
    ck_assert_ptr_eq(read.tensor.owner, &owner);
    free(read.body);
}

static const struct {
    const char *body;
    td_status status;
    const char *message;
} bad_documents[] = {
    { "", TD_MALFORMED_REQUEST, "empty" },
    { " \n", TD_MALFORMED_REQUEST, "empty" },
    { "null", TD_MALFORMED_REQUEST, "" },
    { "tru", TD_MALFORMED_REQUEST, "" },
    { "-", TD_MALFORMED_REQUEST, "" },
    { "1.", TD_MALFORMED_REQUEST, "" },
    { "1e", TD_MALFORMED_REQUEST, "" },
    { "{}", TD_MALFORMED_REQUEST, "data, base64 or ref" },
    { "[1,2", TD_MALFORMED_REQUEST, "" },
    { "[1] x", TD_MALFORMED_REQUEST, "end of the body" },
    { "[1][2]", TD_MALFORMED_REQUEST, "end of the body" },
    { "1 2", TD_MALFORMED_REQUEST, "end of the body" },
    { "[[1],[2,3]]", TD_MALFORMED_REQUEST, "" },
    { "[1,\"a\"]", TD_MALFORMED_REQUEST, "" },
    { "{\"dtype\":\"int8\",\"data\":[128]}", TD_MALFORMED_REQUEST, "" },
    { "{\"dtype\":\"int9\",\"data\":[1]}", TD_MALFORMED_REQUEST, "int9" },
    { "{\"dtype\":\"int8\",\"data\":[1],\"datas\":1}", TD_MALFORMED_REQUEST, "datas" },
    { "{\"params\":[1]}", TD_MALFORMED_REQUEST, "params" },
    { "{\"dtype\":\"int8\",\"shape\":[3],\"base64\":\"AQD/\"", TD_MALFORMED_REQUEST, "" },
    { "{\"dtype\":\"int8\",\"shape\":[2],\"base64\":\"AQD/\"}", TD_MALFORMED_REQUEST, "3 bytes" },
    { "{\"dtype\":\"bool\",\"shape\":[1],\"base64\":\"Ag==\"}", TD_MALFORMED_REQUEST, "0 or 1" },
    { "{\"dtype\":\"string\",\"shape\":[1],\"base64\":\"/////w==\"}", TD_MALFORMED_REQUEST, "end" },
    { "{\"dtype\":\"int8\",\"shape\":[-1],\"data\":[1]}", TD_MALFORMED_REQUEST, "" },
    { "{\"dtype\":\"int64\",\"shape\":[4611686018427387904],\"base64\":\"\"}", TD_RESOURCE_LIMIT,
      "" },
    { "{\"ref\":\"other\"}", TD_TENSOR_NOT_FOUND, "other" },
    { "{\"ref\":1}", TD_MALFORMED_REQUEST, "ref" },
    { "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", TD_RESOURCE_LIMIT, "17 dimensions" },
};

TD_TEST_EACH(malformed_json_tensors_are_refused, bad_documents)
{
    struct test_resolver resolver;
    const char *body = bad_documents[_i].body;
    test_resolver_init(&resolver, tensor("float32[2] 7 8"));
    struct read read = read_bytes(TD_FORMAT_JSON, body, strlen(body), &resolver.base);
    ck_assert_msg(read.status == bad_documents[_i].status, "%s: %s", body, err.message);
    ck_assert_msg(strstr(err.message, bad_documents[_i].message), "%s: %s", body, err.message);
    if (read.status == TD_MALFORMED_REQUEST)
        expect_clean_error(&err, read.status, strlen(body), body);
    free(read.body);
}

/* Makes a safetensors file with this header and `data` zero bytes. */
static size_t make_safetensors(char *file, const char *header, size_t data)
{
    uint64_t length = strlen(header);
    memcpy(file, &length, sizeof length);
    memcpy(file + 8, header, length);
    memset(file + 8 + length, 0, data);
    return 8 + length + data;
}

TD_TEST(a_safetensors_file_of_one_tensor_is_read_in_place)
{
    char file[512];
    size_t size =
        make_safetensors(file,
                         "{\"__metadata__\":{\"format\":\"pt\",\"axis\":\"1\"},"
                         "\"any name\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                         8);
    struct read read = read_bytes(TD_FORMAT_SAFETENSORS, file, size, NULL);
    ck_assert_msg(read.status == TD_OK, "%s", err.message);
    ck_assert(read.in_body);
    ck_assert_ptr_eq(read.tensor.data, read.body + size - 8);
    expect_tensor(&read.tensor, "float32[2] 0 0", "safetensors");
    free(read.body);
}

static const struct {
    const char *header;
    size_t data;
    const char *message;
} bad_files[] = {
    { "{}", 0, "0 tensors" },
    { "{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"b\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
      2, "2 tensors" },
    { "{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, "1 bytes" },
    { "{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 0, "not a range" },
    { "{\"a\":{\"dtype\":\"STRING\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "STRING" },
};

TD_TEST_EACH(other_safetensors_files_are_refused, bad_files)
{
    char file[512];
    size_t size = make_safetensors(file, bad_files[_i].header, bad_files[_i].data);
    struct read read = read_bytes(TD_FORMAT_SAFETENSORS, file, size, NULL);
    ck_assert_int_eq(read.status, TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, bad_files[_i].message);
    free(read.body);
}

/* ---- round trips ---- */

/* The bytes of a reply, with its chunks joined. */
static char *joined(const struct td_reply *reply, size_t *size)
{
    *size = td_reply_bytes(reply);
    char *bytes = td_arena_alloc(&test_arena, *size, 1, &err), *at = bytes;
    for (int i = 0; i < reply->n_chunks; i++)
        at = (char *)memcpy(at, reply->chunks[i].data, reply->chunks[i].size) +
             reply->chunks[i].size;
    return bytes;
}

static const char *const tensors[] = {
    "bool[2,2] 0 1 1 0",
    "int8[3] -128 0 127",
    "int16[2] -32768 32767",
    "int32[2] -2147483648 2147483647",
    "int64[2] -9223372036854775808 9223372036854775807",
    "uint8[2] 0 255",
    "uint16[1] 65535",
    "uint32[1] 4294967295",
    "uint64[1] 18446744073709551615",
    "float16[3] 0x3c00 0x0001 0x7c00",
    "bfloat16[3] 0x3f80 0x0001 0xff80",
    "float32[4] 0.1 -0.0 inf nan",
    "float64[3] 0.1 1e-320 -inf",
    "complex64[2] 1 2 -3 inf",
    "complex128[1] 0.1 0.2",
    "string[3] 'a' '' 'text with \\x22 and \\x0a'",
    "string[2] '\\xff\\x00' 'b'",
    "float32[] 2.5",
    "string[] ''",
    "int32[0]",
    "string[0,2]",
    "float64[2,0,3]",
    "int8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2] 1 2",
    "float32[20000] 0..19999",
};

static bool has(td_format format, td_dtype dtype)
{
    if (format == TD_FORMAT_SAFETENSORS)
        return dtype != TD_DTYPE_STRING && dtype != TD_DTYPE_COMPLEX128;
    return format == TD_FORMAT_JSON || (dtype != TD_DTYPE_STRING && dtype != TD_DTYPE_BFLOAT16);
}

static void expect_round_trip(td_format format, td_layout layout, const struct td_tensor *given,
                              const char *case_name)
{
    static const char *const media[] = { "application/json", "application/vnd.safetensors",
                                         "application/x-npy" };
    struct td_reply reply = { 0 };
    size_t bound, size, taken;
    ck_assert(td_tensor_write_bound(format, layout, given, &bound));
    td_status status = td_tensor_write(format, layout, given, &test_arena, &reply, &err);
    if (!has(format, given->dtype)) {
        ck_assert_msg(status == TD_NOT_ACCEPTABLE, "%s", case_name);
        return;
    }
    ck_assert_msg(status == TD_OK, "%s: %s", case_name, err.message);
    ck_assert_int_eq(reply.http_status, 200);
    ck_assert_str_eq(reply.content_type, media[format]);
    taken = td_reply_bytes(&reply) - (reply.n_chunks > 1 ? given->bytes : 0);
    ck_assert_msg(taken <= bound, "%s: %zu bytes, bound %zu", case_name, taken, bound);
    char *bytes = joined(&reply, &size);
    struct read read = read_bytes(format, bytes, size, NULL);
    ck_assert_msg(read.status == TD_OK, "%s: %s", case_name, err.message);
    expect_same_tensor(&read.tensor, given, case_name);
    free(read.body);
}

TD_TEST_EACH(written_tensors_read_back_the_same, tensors)
{
    struct td_tensor given = tensor(tensors[_i]);
    for (int layout = TD_LAYOUT_NESTED; layout <= TD_LAYOUT_BASE64; layout++)
        expect_round_trip(TD_FORMAT_JSON, (td_layout)layout, &given, tensors[_i]);
    expect_round_trip(TD_FORMAT_SAFETENSORS, TD_LAYOUT_NESTED, &given, tensors[_i]);
    expect_round_trip(TD_FORMAT_NPY, TD_LAYOUT_NESTED, &given, tensors[_i]);
}

TD_TEST(large_data_is_not_copied)
{
    static const td_format formats[] = { TD_FORMAT_SAFETENSORS, TD_FORMAT_NPY };
    struct td_tensor given = tensor("float32[20000] 0..19999");
    for (int i = 0; i < 2; i++) {
        struct td_reply reply = { 0 };
        size_t bound;
        ck_assert_int_eq(
            td_tensor_write(formats[i], TD_LAYOUT_NESTED, &given, &test_arena, &reply, &err),
            TD_OK);
        ck_assert_int_eq(reply.n_chunks, 2);
        ck_assert_ptr_eq(reply.chunks[1].data, given.data);
        ck_assert(td_tensor_write_bound(formats[i], TD_LAYOUT_NESTED, &given, &bound));
        ck_assert_uint_lt(bound, 1024);
    }
}

TD_TEST(put_accepts_the_json_of_get)
{
    struct td_reply reply = { 0 };
    size_t size;
    struct td_tensor given = tensor("int32[2,2] 1 2 3 4");
    ck_assert_int_eq(
        td_tensor_write(TD_FORMAT_JSON, TD_LAYOUT_NESTED, &given, &test_arena, &reply, &err),
        TD_OK);
    const char *text = joined(&reply, &size);
    ck_assert_str_eq(td_arena_text(&test_arena, text, size, &err),
                     "{\"dtype\":\"int32\",\"shape\":[2,2],\"data\":[[1,2],[3,4]]}");
}

/* ---- hostile bodies ---- */

static const struct {
    td_format format;
    td_layout layout;
    const char *tensor;
} hostile[] = {
    { TD_FORMAT_JSON, TD_LAYOUT_BASE64, "string[3] 'a' '\\xff' 'c'" },
    { TD_FORMAT_JSON, TD_LAYOUT_NESTED, "string[2,1] 'a' '\\x22'" },
    { TD_FORMAT_JSON, TD_LAYOUT_NESTED, "complex64[2] 1 2 3 nan" },
    { TD_FORMAT_JSON, TD_LAYOUT_BASE64, "bool[4] 0 1 1 0" },
    { TD_FORMAT_SAFETENSORS, TD_LAYOUT_NESTED, "float64[2,2] 1 2 3 4" },
    { TD_FORMAT_NPY, TD_LAYOUT_NESTED, "float64[2,2] 1 2 3 4" },
};

TD_TEST_EACH(truncated_and_mutated_bodies_fail_cleanly, hostile)
{
    struct td_tensor given = tensor(hostile[_i].tensor);
    td_format format = hostile[_i].format;
    struct td_reply reply = { 0 };
    char bytes[512], changed[512];
    uint64_t seed = (uint64_t)_i + 1;
    size_t size;
    ck_assert_int_eq(td_tensor_write(format, hostile[_i].layout, &given, &test_arena, &reply, &err),
                     TD_OK);
    const char *whole = joined(&reply, &size);
    memcpy(bytes, whole, size);
    for (size_t cut = 0; cut < size; cut++) {
        struct read read = read_bytes(format, bytes, cut, NULL);
        EXPECT(read.status != TD_OK, "cut off after %zu bytes", cut);
        free(read.body);
    }
    for (int i = 0; i < 20000; i++) {
        memcpy(changed, bytes, size);
        size_t changed_size = mutate(changed, size, sizeof changed, &seed);
        struct read read = read_bytes(format, changed, changed_size, NULL);
        EXPECT(read.status == TD_OK || strlen(err.message) > 8, "mutation %d: no message", i);
        EXPECT(read.status != TD_INTERNAL, "mutation %d: %s", i, err.message);
        free(read.body);
        td_arena_reset(&test_arena);
    }
}
