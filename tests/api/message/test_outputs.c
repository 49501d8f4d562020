#include "api/message/attrs.h"
#include "api/message/outputs.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static struct td_request request;
static struct td_error err;

/* A request for pair_op, as after its op's infer, whose outputs are float32 values and int32
 * places. */
static void begin(struct td_tensor outputs[2])
{
    td_request_init(&request, &pair_op);
    outputs[0] = tensor_without_data("float32[3]");
    outputs[1] = tensor_without_data("int32[3]");
    request.args.outputs = outputs;
    request.args.n_outputs = 2;
}

static td_status set(const char *name, const char *text)
{
    bool known;
    return td_attrs_set_text(&request, name, strlen(name), text, strlen(text), &test_arena, &known,
                             &err);
}

/* ---- selection ------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    uint32_t set; /* 0: refused */
    const char *message;
} selections[] = {
    { "values", 1, NULL },
    { "places", 2, NULL },
    { "values,places", 3, NULL },
    { "places,values", 3, NULL },
    { "", 0, "outputs is empty; expected one or more of values, places" },
    { "place", 0, "pair_op has no output \"place\"; expected values, places" },
    { "values, places", 0, "pair_op has no output \" places\"; expected values, places" },
    { "values,", 0, "pair_op has no output \"\"; expected values, places" },
    { "values,values", 0, "outputs contains \"values\" twice" },
    { ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,", 0,
      "expected a list of strings" },
};

TD_TEST_EACH(outputs_is_a_list_of_distinct_names, selections)
{
    struct td_tensor outputs[2];
    begin(outputs);
    const td_status status = set("outputs", selections[_i].text);
    ck_assert_uint_eq(request.common.outputs, selections[_i].set);
    ck_assert_int_eq(status, selections[_i].set ? TD_OK : TD_MALFORMED_REQUEST);
    if (status == TD_OK)
        return;
    EXPECT_MESSAGE(&err, selections[_i].message);
    ck_assert_str_eq(err.attribute, "outputs");
}

TD_TEST(a_misspelt_output_gets_the_nearest_name)
{
    struct td_tensor outputs[2];
    begin(outputs);
    ck_assert_int_eq(set("outputs", "place"), TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.did_you_mean, "places");
}

TD_TEST(an_op_with_one_output_has_no_selection)
{
    bool known = true;
    td_request_init(&request, td_op_named("gather", 6));
    ck_assert_int_eq(
        td_attrs_set_text(&request, "outputs", 7, "output", 6, &test_arena, &known, &err), TD_OK);
    ck_assert(!known);
}

/* ---- description ----------------------------------------------------------------------------- */

TD_TEST(without_the_members_the_outputs_are_those_of_the_op)
{
    struct td_tensor outputs[2];
    begin(outputs);
    ck_assert_int_eq(td_outputs_describe(&request, &test_arena, &err), TD_OK);
    ck_assert_int_eq(td_request_n_outputs(&request), 2);
    ck_assert_ptr_eq(td_request_output(&request, 1), &outputs[1]);
    ck_assert_int_eq(td_request_output_index(&request, 1), 1);
}

TD_TEST(a_selected_output_keeps_its_index)
{
    struct td_tensor outputs[2];
    begin(outputs);
    ck_assert_int_eq(set("outputs", "places"), TD_OK);
    ck_assert_int_eq(td_outputs_describe(&request, &test_arena, &err), TD_OK);
    ck_assert_int_eq(td_request_n_outputs(&request), 1);
    ck_assert_int_eq(td_request_output_index(&request, 0), 1);
    ck_assert_int_eq(td_request_output(&request, 0)->dtype, TD_DTYPE_INT32);
    ck_assert(!td_output_is_converted(&request, 0));
}

TD_TEST(only_floats_get_the_dtype)
{
    struct td_tensor outputs[2];
    begin(outputs);
    ck_assert_int_eq(set("output_dtype", "float64"), TD_OK);
    ck_assert_int_eq(td_outputs_describe(&request, &test_arena, &err), TD_OK);
    ck_assert_int_eq(td_request_output(&request, 0)->dtype, TD_DTYPE_FLOAT64);
    ck_assert_uint_eq(td_request_output(&request, 0)->bytes, 24);
    ck_assert(td_output_is_converted(&request, 0));
    ck_assert_int_eq(td_request_output(&request, 1)->dtype, TD_DTYPE_INT32);
    ck_assert(!td_output_is_converted(&request, 1));
}

/* Some calls of an op have fewer outputs than it declares. */
TD_TEST(an_output_that_the_call_does_not_have_cannot_be_selected)
{
    struct td_tensor outputs[2];
    begin(outputs);
    request.args.n_outputs = 1;
    ck_assert_int_eq(set("outputs", "values,places"), TD_OK);
    ck_assert_int_eq(td_outputs_describe(&request, &test_arena, &err), TD_INVALID_ARGUMENT);
    EXPECT_MESSAGE(&err, "outputs contains \"places\", which this call of pair_op does not have");
    ck_assert_str_eq(err.attribute, "outputs");
    begin(outputs);
    request.args.n_outputs = 1;
    ck_assert_int_eq(set("outputs", "values"), TD_OK);
    ck_assert_int_eq(td_outputs_describe(&request, &test_arena, &err), TD_OK);
    ck_assert_int_eq(td_request_n_outputs(&request), 1);
}

TD_TEST(an_output_that_is_too_large_in_its_dtype_is_a_resource_limit)
{
    struct td_tensor outputs[2];
    begin(outputs);
    outputs[0] = tensor_without_data("float16[2000000000,2000000000]");
    ck_assert_int_eq(set("output_dtype", "float64"), TD_OK);
    ck_assert_int_eq(td_outputs_describe(&request, &test_arena, &err), TD_RESOURCE_LIMIT);
}

/* ---- conversion ------------------------------------------------------------------------------ */

static const struct {
    const char *case_name, *from, *dtype, *to;
} conversions[] = {
    { "ties to even", "float32[2] 1.00048828125 1.00146484375", "float16",
      "float16[2] 0x3c00 0x3c02" },
    { "a tie only after a first rounding", "float64[1] 1.00048828125000023", "float16",
      "float16[1] 0x3c01" },
    { "too large", "float32[3] 65519 65520 -1e30", "float16", "float16[3] 0x7bff 0x7c00 0xfc00" },
    { "bfloat16", "float32[2] 1.00390625 3.4e38", "bfloat16", "bfloat16[2] 0x3f80 0x7f80" },
    { "wider", "float16[1] 0x3e00", "float64", "float64[1] 1.5" },
    { "the same dtype", "float32[1] 0.1", "float32", "float32[1] 0.1" },
    { "integers", "int32[1] 7", "float16", "int32[1] 7" },
    { "complex numbers", "complex64[1] 1 2", "float16", "complex64[1] 1 2" },
    { "no elements", "float32[0]", "float16", "float16[0]" },
};

TD_TEST_EACH(elements_are_rounded_once, conversions)
{
    struct td_exec exec;
    struct td_tensor outputs[2];
    begin(outputs);
    outputs[0] = tensor(conversions[_i].from);
    outputs[1] = tensor("int32[1] 5");
    ck_assert_int_eq(set("output_dtype", conversions[_i].dtype), TD_OK);
    ck_assert_int_eq(td_outputs_describe(&request, &test_arena, &err), TD_OK);
    for (int i = 0; i < request.n_outputs; i++)
        if (td_output_is_converted(&request, i))
            ck_assert_int_eq(td_tensor_alloc(&request.outputs[i].tensor, &test_arena, &err), TD_OK);
    td_exec_serial(&exec, &test_arena);
    ck_assert_int_eq(td_outputs_convert(&request, &exec, &err), TD_OK);
    expect_tensor(td_request_output(&request, 0), conversions[_i].to, conversions[_i].case_name);
    ck_assert_ptr_eq(td_request_output(&request, 1)->data, outputs[1].data);
}
