#include "api/codec.h"
#include "api/message/message.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

enum { J = TD_FORMAT_JSON, S = TD_FORMAT_SAFETENSORS, N = TD_FORMAT_NPY, REFUSED = -1 };

static const struct {
    const char *type;
    int format;
} types[] = {
    { NULL, J },
    { "", J },
    { "application/json", J },
    { "Application/JSON", J },
    { "application/json; charset=utf-8", J },
    { "application/json;charset=\"UTF-8\"", J },
    { "application/json ; x=y", J },
    { "application/json; charset=latin1", REFUSED },
    { "application/x-www-form-urlencoded", J },
    { "application/vnd.safetensors", S },
    { "application/octet-stream", S },
    { "application/x-npy", REFUSED },
    { "application/octet-stream; charset=latin1", S },
    { "text/plain", REFUSED },
    { "application/jsonp", REFUSED },
    { "application/problem+json", REFUSED },
    { "multipart/form-data; boundary=x", REFUSED },
    { "json", REFUSED },
};

TD_TEST_EACH(the_content_type_selects_the_decoder, types)
{
    struct td_error err;
    td_format format;
    td_status status = td_codec_request_format(types[_i].type, &format, &err);
    const char *type = types[_i].type ? types[_i].type : "none";
    ck_assert_msg(status == (types[_i].format < 0 ? TD_UNSUPPORTED_MEDIA_TYPE : TD_OK), "%s", type);
    if (status == TD_OK)
        ck_assert_msg((int)format == types[_i].format, "%s", type);
    else
        ck_assert_str_eq(err.attribute, "Content-Type");
}

static const struct {
    const char *accept;
    int from_json, from_safetensors;
} accepts[] = {
    { NULL, J, S },
    { "", J, S },
    { "  ", J, S },
    { "*/*", J, S },
    { "application/*", J, S },
    { "application/json", J, J },
    { "APPLICATION/JSON", J, J },
    { "application/vnd.safetensors", S, S },
    { "application/octet-stream", S, S },
    { "application/json, application/vnd.safetensors", J, S },
    { "application/json;q=0.5, application/vnd.safetensors", S, S },
    { "application/json, application/vnd.safetensors;q=0.5", J, J },
    { "application/json;q=0.9, */*;q=0.1", J, J },
    { "*/*;q=0.1, application/vnd.safetensors;q=0.2", S, S },
    { "*/*, application/json;q=0", S, S },
    { "application/json;q=0", REFUSED, REFUSED },
    { "application/x-npy", N, N },
    { "application/npy, application/json;q=0.5", N, N },
    { "application/x-npy, application/vnd.safetensors", S, S },
    { "application/json;q=0.000, */*", S, S },
    { "*/*;q=0", REFUSED, REFUSED },
    { "text/html", REFUSED, REFUSED },
    { "text/html, application/xhtml+xml, */*;q=0.8", J, S },
    { "application/problem+json", REFUSED, REFUSED },
    { "application/problem+json, application/json", J, J },
    { "application/json ; q = 0.3 , application/vnd.safetensors ; q = 0.4", S, S },
    { "application/json; version=\"1,2;q=0\"", J, J },
    { "application/json;q=nonsense", J, J },
    { "application/json;q=1.000", J, J },
    { ",,application/json,", J, J },
};

TD_TEST_EACH(accept_selects_the_encoder, accepts)
{
    const int want[] = { accepts[_i].from_json, accepts[_i].from_safetensors };
    for (int from = 0; from < 2; from++) {
        struct td_error err;
        td_format format;
        td_status status =
            td_codec_reply_format(accepts[_i].accept, (td_format)from, &format, &err);
        const char *accept = accepts[_i].accept ? accepts[_i].accept : "none";
        ck_assert_msg(status == (want[from] < 0 ? TD_NOT_ACCEPTABLE : TD_OK), "%s", accept);
        if (status == TD_OK)
            ck_assert_msg((int)format == want[from], "%s, request %d", accept, from);
        else
            ck_assert_str_eq(err.attribute, "Accept");
    }
}

TD_TEST(outputs_fit_in_the_bound_of_every_format)
{
    static const char body[] = "{\"params\":[1.5,2.5],\"indices\":[1]}";
    static const char *const content_types[] = { "application/json", "application/vnd.safetensors",
                                                 "application/x-npy" };
    struct td_request request;
    struct td_reply reply;
    struct td_error err;
    for (int format = 0; format < 3; format++) {
        struct decoded decoded;
        struct td_tensor output = tensor("float32[2] 1.5 -2");
        size_t bound;
        td_request_init(&request, td_op_named("gather", 6));
        request.args.outputs = &output;
        request.args.n_outputs = 1;
        ck_assert(td_codec_encoded_bound((td_format)format, &request, &bound));
        ck_assert_int_eq(td_codec_encode((td_format)format, &request, &test_arena, &reply, &err),
                         TD_OK);
        ck_assert_uint_le(td_reply_bytes(&reply), bound);
        ck_assert_int_eq(reply.http_status, 200);
        ck_assert_str_eq(reply.content_type, content_types[format]);
        if (format != J)
            continue;
        decode_json(&decoded, td_op_named("gather", 6), body, sizeof body - 1, NULL);
        ck_assert_int_eq(decoded.status, TD_OK);
    }
}

TD_TEST(dtypes_that_a_format_lacks_are_reported_before_there_is_data)
{
    static const struct {
        const char *case_name, *output;
        td_status safetensors;
    } outputs[] = {
        { "numbers", "float32[0]", TD_OK },
        { "strings", "string[0]", TD_NOT_ACCEPTABLE },
        { "complex128", "complex128[0]", TD_NOT_ACCEPTABLE },
    };
    for (size_t i = 0; i < COUNT_OF(outputs); i++) {
        struct td_request request;
        struct td_error err;
        struct td_tensor output = tensor_without_data(outputs[i].output);
        td_request_init(&request, td_op_named("gather", 6));
        request.args.outputs = &output;
        request.args.n_outputs = 1;
        ck_assert_int_eq(td_codec_can_encode(TD_FORMAT_JSON, &request, &err), TD_OK);
        ck_assert_msg(td_codec_can_encode(TD_FORMAT_SAFETENSORS, &request, &err) ==
                          outputs[i].safetensors,
                      "%s", outputs[i].case_name);
        if (outputs[i].safetensors == TD_OK)
            continue;
        ck_assert_int_eq(err.status, TD_NOT_ACCEPTABLE);
        EXPECT_MESSAGE(&err, "safetensors has no dtype for");
    }
}

/* ---- the format of a reply ------------------------------------------------------------------- */

static const struct {
    const char *accept, *outputs;
    int first, chosen;
    const char *message;
} choices[] = {
    { NULL, "float32[0]", N, N, NULL },
    { "application/x-npy", "float32[0]", N, N, NULL },
    { NULL, "float32[0]; int32[0]", N, J, NULL },
    { "*/*", "bfloat16[0]", N, J, NULL },
    { "application/x-npy, application/vnd.safetensors;q=0.1", "bfloat16[0]", N, S, NULL },
    { "application/vnd.safetensors, application/x-npy;q=0.1", "complex128[0]", S, N, NULL },
    { "application/vnd.safetensors, */*;q=0.1", "complex128[0]", S, J, NULL },
    { "application/x-npy", "bfloat16[0]", N, REFUSED,
      ".npy has no type for bfloat16; Accept must allow application/json or "
      "application/vnd.safetensors" },
    { "application/x-npy", "string[0]", N, REFUSED,
      ".npy has no type for string; Accept must allow application/json" },
    { "application/x-npy", "float32[0]; int32[0]", N, REFUSED,
      "a .npy file holds one tensor, but top_k returns 2 here; Accept must allow application/json "
      "or application/vnd.safetensors; the member outputs selects one of values, indices" },
    { "application/vnd.safetensors", "complex128[0]", S, REFUSED,
      "safetensors has no dtype for complex128; Accept must allow application/json or "
      "application/x-npy" },
};

TD_TEST_EACH(outputs_that_a_format_cannot_hold_have_another, choices)
{
    struct td_request request;
    struct td_error err;
    struct td_tensor outputs[2];
    td_format format = (td_format)choices[_i].first;
    td_request_init(&request, td_op_named("top_k", 5));
    request.args.outputs = outputs;
    request.args.n_outputs = tensor_list(choices[_i].outputs, outputs, 2);
    const td_status status = td_codec_choose_reply(choices[_i].accept, &request, &format, &err);
    ck_assert_int_eq(status, choices[_i].chosen < 0 ? TD_NOT_ACCEPTABLE : TD_OK);
    if (status == TD_OK) {
        ck_assert_int_eq((int)format, choices[_i].chosen);
    } else {
        ck_assert_str_eq(err.message, choices[_i].message);
        ck_assert_str_eq(err.attribute, "Accept");
    }
}

/* ---- .npy bodies ----------------------------------------------------------------------------- */

static char npy_body[] = "\x93NUMPY\1\0\66\0"
                         "{'descr':'<i8','fortran_order':False,'shape':(1,)}"
                         "   \n"
                         "\7\0\0\0\0\0\0\0";

static td_status decode_npy(struct td_request *request, struct td_error *err)
{
    return td_codec_decode(TD_FORMAT_NPY, npy_body, sizeof npy_body - 1, NULL, &test_arena, request,
                           err);
}

static void expect_input(const struct td_request *request, int input)
{
    ck_assert_int_eq(request->args.inputs[input].count, 1);
    expect_tensor(request->args.inputs[input].tensors, "int64[1] 7", "the body");
}

TD_TEST(a_npy_body_is_the_first_input_that_the_path_does_not_name)
{
    struct td_request request;
    struct td_error err;
    struct td_tensor table = tensor("float32[8] 0..7");
    td_request_init(&request, td_op_named("gather", 6));
    ck_assert_int_eq(decode_npy(&request, &err), TD_OK);
    expect_input(&request, 0);
    td_request_init(&request, td_op_named("gather", 6));
    request.args.inputs[0] = (struct td_operand){ &table, 1 };
    ck_assert_int_eq(decode_npy(&request, &err), TD_OK);
    expect_input(&request, 1);
    ck_assert(request.decoded);
}

TD_TEST(keys_of_the_table_are_not_in_a_npy_body)
{
    struct td_request request;
    struct td_error err;
    struct td_tensor table = tensor("float32[8] 0..7");
    td_request_init(&request, td_op_named("lookup", 6));
    request.args.inputs[0] = (struct td_operand){ &table, 1 };
    request.table = "t";
    request.table_has_keys = true;
    ck_assert_int_eq(decode_npy(&request, &err), TD_OK);
    expect_input(&request, 2);
    td_request_init(&request, td_op_named("lookup", 6));
    request.args.inputs[0] = (struct td_operand){ &table, 1 };
    request.table = "t";
    ck_assert_int_eq(decode_npy(&request, &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "'t' has no keys to find rows by");
}

TD_TEST(a_truncated_npy_body_is_refused)
{
    struct td_request request;
    struct td_error err;
    for (size_t size = 0; size < sizeof npy_body - 1; size++) {
        char *body = padded_copy(npy_body, size, 'x');
        td_request_init(&request, td_op_named("gather", 6));
        const td_status status =
            td_codec_decode(TD_FORMAT_NPY, body, size, NULL, &test_arena, &request, &err);
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        expect_clean_error(&err, status, size, "a truncated file");
        free(body);
    }
}
