#include "api/codec.h"
#include "api/message/message.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

enum { J = TD_FORMAT_JSON, S = TD_FORMAT_SAFETENSORS, REFUSED = -1 };

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

TD_TEST(both_formats_round_trip)
{
    static const char body[] = "{\"params\":[1.5,2.5],\"indices\":[1]}";
    struct td_request request;
    struct td_reply reply;
    struct td_error err;
    for (int format = 0; format < 2; format++) {
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
        ck_assert_str_eq(reply.content_type,
                         format == J ? "application/json" : "application/vnd.safetensors");
        if (format == S)
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
