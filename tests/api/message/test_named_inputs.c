#include "api/codec.h"
#include "api/message/message.h"
#include "api/message/named_inputs.h"
#include "api/message/path_inputs.h"
#include "kernels/scatter/scatter.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

#define ENTRY(name, begin, end)                                                                    \
    "\"" name "\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[" begin "," end "]}"

/* Bodies of a scatter whose params are named by the path; "" if they are accepted. */
static const struct {
    td_format format;
    const char *body; /* for safetensors the header */
    size_t data;
    const char *message, *input, *pointer;
} bodies[] = {
    { TD_FORMAT_JSON, "{\"indices\":[[1]],\"updates\":[7],\"mode\":\"add\"}", 0, "", "", "" },
    { TD_FORMAT_JSON, "{}", 0, "", "", "" },
    { TD_FORMAT_JSON, "{\"indices\":[[1]],\"params\":[1,2]}", 0,
      "params is given by the path; it cannot be in the body as well", "params", "/params" },
    { TD_FORMAT_JSON, "{\"updates\":[1],\"updates\":[1]}", 0, "updates is given twice", "updates",
      "/updates" },
    { TD_FORMAT_SAFETENSORS, "{" ENTRY("indices", "0", "4") "," ENTRY("updates", "4", "8") "}", 8,
      "", "", "" },
    { TD_FORMAT_SAFETENSORS, "{}", 0, "", "", "" },
    { TD_FORMAT_SAFETENSORS, "{" ENTRY("params", "0", "4") "}", 4,
      "params is given by the path; it cannot be in the body as well", "params", "" },
    { TD_FORMAT_SAFETENSORS, "{\"__metadata__\":{\"params.ref\":\"table\"}}", 0,
      "params is given by the path; it cannot be in the body as well", "params", "" },
    { TD_FORMAT_SAFETENSORS, "{" ENTRY("indixes", "0", "4") "}", 4,
      "scatter has no input \"indixes\"; expected indices; updates", "indixes", "" },
};

TD_TEST_EACH(an_input_that_the_path_names_may_not_be_in_the_body, bodies)
{
    struct td_request request;
    struct td_error err;
    struct td_tensor table = tensor("int32[2] 5 6"), given = table;
    td_request_init(&request, &td_op_scatter);
    request.args.inputs[0] = (struct td_operand){ &given, 1 };
    ck_assert_uint_eq(td_path_inputs(&request), 1);

    char file[512];
    uint64_t length = strlen(bodies[_i].body);
    size_t prefix = bodies[_i].format == TD_FORMAT_SAFETENSORS ? sizeof length : 0;
    memset(file, 0, sizeof file);
    memcpy(file, &length, prefix);
    memcpy(file + prefix, bodies[_i].body, length);
    char *body = padded_copy(file, prefix + length + bodies[_i].data, '1');
    td_status status = td_codec_decode(bodies[_i].format, body, prefix + length + bodies[_i].data,
                                       NULL, &test_arena, &request, &err);
    if (bodies[_i].message[0]) {
        ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
        ck_assert_str_eq(err.message, bodies[_i].message);
        ck_assert_str_eq(err.input, bodies[_i].input);
        ck_assert_str_eq(err.pointer, bodies[_i].pointer);
    } else {
        ck_assert_msg(status == TD_OK, "%s", err.message);
        ck_assert_ptr_eq(request.args.inputs[0].tensors, &given);
        ck_assert_int_eq(request.args.inputs[0].count, 1);
        expect_same_tensor(&given, &table, "as it was");
        ck_assert_int_eq(request.args.inputs[1].count, length > 2);
        ck_assert_int_eq(request.args.inputs[2].count, length > 2);
    }
    free(body);
}
