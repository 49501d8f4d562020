#include "api/json/tensor.h"
#include "api/programs/read.h"
#include "kernels/op_check.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

/* A body that is read: ' stands for ". */
struct body {
    char text[2048];
    struct td_request request;
    struct td_error err;
    td_status status;
};

/* The op of a request until its program is known. */
static const struct td_output_spec output = { .name = "output" };
static const struct td_op posted = { .name = "posted", .outputs = &output, .n_outputs = 1 };

static void read_body(struct body *body, const char *text)
{
    const size_t length = strlen(text);
    ck_assert_uint_lt(length + TD_JSON_PADDING, sizeof body->text);
    memset(body->text, ' ', sizeof body->text);
    for (size_t i = 0; i < length; i++)
        body->text[i] = (char)(text[i] == '\'' ? '"' : text[i]);
    td_request_init(&body->request, &posted);
    body->status = td_program_read_request(TD_PROGRAM_RUN, body->text, length, NULL, &test_arena,
                                           &body->request, &body->err);
}

/* ---- Programs ------------------------------------------------------------------------------ */

static const struct {
    const char *says;
    const char *body;
    const char *output; /* its dtype and shape, when the program is described */
} programs[] = {
    { "one step",
      "{'inputs':{'x':[1,2]},'steps':[{'op':'negative','x':'$x','as':'y'}],'outputs':['y']}",
      "int32[2]" },
    { "the members in any order",
      "{'outputs':['y'],'steps':[{'as':'y','x':'$x','op':'negative'}],'inputs':{'x':[1,2]}}",
      "int32[2]" },
    { "a plain value takes the dtype beside it",
      "{'inputs':{'x':{'dtype':'float16','data':[1,2]}},"
      "'steps':[{'op':'add','y':1.5,'x':'$x','as':'y'}],'outputs':['y']}",
      "float16[2]" },
    { "a plain value takes the dtype of a result",
      "{'inputs':{'x':[1,2]},'steps':[{'op':'cast','x':'$x','dtype':'float64','as':'d'},"
      "{'op':'multiply','x':2,'y':'$d','as':'y'}],'outputs':['y']}",
      "float64[2]" },
    { "two plain values have one dtype",
      "{'inputs':{'x':[true]},'steps':[{'op':'where','condition':'$x','x':1,'y':2.5,'as':'y'}],"
      "'outputs':['y']}",
      "float32[1]" },
    { "a list of references and values",
      "{'inputs':{'x':[[1,2]]},'steps':[{'op':'concat','inputs':['$x',[[3,4]],'$x'],'as':'y'}],"
      "'outputs':['y']}",
      "int32[3,2]" },
    { "a list of results",
      "{'inputs':{'x':[1,2,3],'p':[0,1,0]},'steps':[{'op':'dynamic_partition','data':'$x',"
      "'partitions':'$p','num_partitions':2,'as':['a',null]}],'outputs':['a']}",
      "int32[2]" },
    { "one of several outputs",
      "{'inputs':{'x':[1,2,3]},'steps':[{'op':'top_k','x':'$x','k':2,'as':{'indices':'i'}}],"
      "'outputs':['i']}",
      "int32[2]" },
    { "a dollar sign in typed data is data",
      "{'inputs':{'x':{'dtype':'string','data':['$x']}},"
      "'steps':[{'op':'equal','x':'$x','y':{'dtype':'string','data':'$x','shape':[]},'as':'y'}],"
      "'outputs':['y']}",
      "bool[1]" },
    { "an escaped name",
      "{'inputs':{'x':[1]},'steps':[{'op':'negative','x':'\\u0024x','as':'y'}],'outputs':['y']}",
      "int32[1]" },
};

TD_TEST_EACH(a_program_is_read, programs)
{
    struct body body;
    read_body(&body, programs[_i].body);
    ck_assert_msg(body.status == TD_OK, "%s: %s", programs[_i].says, body.err.message);
    body.status = td_op_infer(body.request.op, &body.request.args, &test_arena, &body.err);
    ck_assert_msg(body.status == TD_OK, "%s: %s", programs[_i].says, body.err.message);
    char shape[TD_SHAPE_TEXT], text[TD_SHAPE_TEXT + 16];
    snprintf(text, sizeof text, "%s%s", td_dtype_info(body.request.args.outputs[0].dtype)->name,
             td_shape_text(&body.request.args.outputs[0].shape, shape, sizeof shape));
    ck_assert_msg(strcmp(text, programs[_i].output) == 0, "%s: %s", programs[_i].says, text);
}

TD_TEST(an_input_has_the_strongest_role_of_its_uses)
{
    struct body body;
    read_body(&body, "{'inputs':{'i':[0,1],'x':[1,2]},'steps':["
                     "{'op':'gather','params':'$x','indices':'$i','as':'a'},"
                     "{'op':'add','x':'$a','y':'$i','as':'y'}],'outputs':['y']}");
    ck_assert_msg(body.status == TD_OK, "%s", body.err.message);
    ck_assert_int_eq(body.request.op->inputs[0].role, TD_ROLE_INDEX);
    ck_assert_int_eq(body.request.op->inputs[1].role, TD_ROLE_DATA);
    ck_assert(body.request.op->inputs[0].reads_values);
    ck_assert(!body.request.op->inputs[1].reads_values);
}

/* ---- Refusals ------------------------------------------------------------------------------ */

#define X        "{'inputs':{'x':[1,2]},'steps':["
#define Y        "],'outputs':['y']}"
#define NEGATIVE "{'op':'negative','x':'$x','as':'y'}"

static const struct {
    const char *body;
    td_status status;
    const char *message;
    const char *pointer;
    int step; /* or -1 */
    const char *did_you_mean;
} refusals[] = {
    { "{'inputs':{'x':[1,2],'p':[0,1]},'steps':[{'op':'negative','x':'$x','as':'y'},"
      "{'op':'dynamic_partition','data':'$x','partitions':'$p','num_partitions':2,'as':[null,null]}"
      "],'outputs':['y']}",
      TD_MALFORMED_REQUEST,
      "as names no result, so the step has no effect; name a result, or remove the step",
      "/steps/1/as", 1, "" },
    { "{'inputs':{'x':[1,2]},'steps':[{'op':'top_k','x':'$x','k':1,'as':{}}],'outputs':['y']}",
      TD_MALFORMED_REQUEST,
      "as names no result, so the step has no effect; name a result, or remove the step",
      "/steps/0/as", 0, "" },
    { "{'steps':[" NEGATIVE Y, TD_MALFORMED_REQUEST, "the program has no inputs", "", -1, "" },
    { "[]", TD_MALFORMED_REQUEST, "the body is a list; expected an object", "", -1, "" },
    { X Y, TD_MALFORMED_REQUEST, "steps is empty; expected at least one step", "/steps", -1, "" },
    { X NEGATIVE "],'outputs':[]}", TD_MALFORMED_REQUEST,
      "outputs is empty; expected the names of results", "/outputs", -1, "" },
    { X NEGATIVE "],'outputs':['x']}", TD_MALFORMED_REQUEST,
      "\"x\" is an input; expected the result of a step", "/outputs/0", -1, "" },
    { X NEGATIVE "],'outputs':['y','y']}", TD_MALFORMED_REQUEST, "\"y\" is given twice",
      "/outputs/1", -1, "" },
    { X NEGATIVE "],'outputs':['yy']}", TD_MALFORMED_REQUEST,
      "there is no input or result \"yy\" in the program", "/outputs/0", -1, "y" },
    { X "{'op':'negative','x':'$x','as':'2'}" Y, TD_MALFORMED_REQUEST,
      "\"2\" is not a name; expected a letter or _, followed by at most 63 letters, digits or _",
      "/steps/0/as", 0, "" },
    { X "{'op':'negative','x':'$x','as':'store'}" Y, TD_MALFORMED_REQUEST,
      "\"store\" is reserved for a member of requests; expected another name", "/steps/0/as", 0,
      "" },
    { X "{'op':'negative','x':'$x','as':'x'}" Y, TD_MALFORMED_REQUEST,
      "\"x\" is already the name of an input; expected a new name", "/steps/0/as", 0, "" },
    { X NEGATIVE "," NEGATIVE Y, TD_MALFORMED_REQUEST,
      "\"y\" is already the name of a result of step 0; expected a new name", "/steps/1/as", 1,
      "" },
    { X "{'op':'exp','x':'$y','as':'z'}," NEGATIVE Y, TD_MALFORMED_REQUEST,
      "\"y\" does not exist yet: it is a result of step 1; a step can use inputs and the results "
      "of earlier steps",
      "/steps/0/x", 0, "" },
    { X NEGATIVE ",{'op':'exp','x':'$x','as':'z'}" Y, TD_MALFORMED_REQUEST,
      "nothing uses \"z\"; remove it, or use it in a later step as \"$z\", or in outputs",
      "/steps/1/as", -1, "" },
    { X "{'op':'negativ','x':'$x','as':'y'}" Y, TD_UNKNOWN_OP,
      "there is no op 'negativ' (did you mean 'negative'?); GET /v1/ops lists them", "/steps/0/op",
      0, "negative" },
    { X "{'x':'$x','as':'y'}" Y, TD_MALFORMED_REQUEST, "the step has no op: the name of the op",
      "/steps/0", 0, "" },
    { X "{'op':'negative','x':'$x'}" Y, TD_MALFORMED_REQUEST,
      "the step has no as: the name of the result", "/steps/0", 0, "" },
    { X "{'op':'top_k','x':'$x','k':1,'as':'y'}" Y, TD_MALFORMED_REQUEST,
      "as is a string; for top_k, it is an object with the names of its outputs: {\"OUTPUT\": "
      "NAME}",
      "/steps/0/as", 0, "" },
    { X "{'op':'top_k','x':'$x','k':1,'as':{'value':'y'}}" Y, TD_MALFORMED_REQUEST,
      "top_k has no output \"value\"", "/steps/0/as/value", 0, "values" },
    { X "{'op':'negative','x':'$x','device':'cpu','as':'y'}" Y, TD_MALFORMED_REQUEST,
      "device belongs to the whole program, not to a step", "/steps/0/device", 0, "" },
    { X "{'op':'negative','x':'$x','timng':1,'as':'y'}" Y, TD_MALFORMED_REQUEST,
      "negative has no member \"timng\"; expected x, op, as", "/steps/0/timng", 0, "" },
    { X "{'op':'cumsum','x':'$x','axes':1,'as':'y'}" Y, TD_MALFORMED_REQUEST,
      "cumsum has no member \"axes\"; expected x, op, as, axis, exclusive, reverse",
      "/steps/0/axes", 0, "axis" },
    { "{'step':1,'inputs':{},'outputs':['y']}", TD_MALFORMED_REQUEST,
      "posted has no member \"step\"; expected inputs, steps, outputs, device, response, "
      "timing, store, store.ttl_s, output_dtype",
      "/step", -1, "steps" },
    { X "{'op':'exp','x':'x','as':'y'}" Y, TD_MALFORMED_REQUEST,
      "nothing uses \"x\"; remove it, or use it in a later step as \"$x\", or in outputs; step 0 "
      "has "
      "\"x\" without \"$\"",
      "/inputs/x", -1, "" },
    { X "{'op':'top_k','x':'$x','k':'$k','as':{'values':'y'}}" Y, TD_MALFORMED_REQUEST,
      "k is \"$k\"; expected a 64-bit integer; an attribute is a plain value here; only a stored "
      "program has arguments",
      "/steps/0/k", 0, "" },
    { X "{'op':'reduce_sum','x':'$x','axes':[{'attr':'axis'}],'as':'y'}" Y, TD_MALFORMED_REQUEST,
      "axes is a list; expected a list of at most 64 integers; an attribute is a plain value here; "
      "only a stored program has arguments",
      "/steps/0/axes", 0, "" },
    { X "{'op':'negative','x':'$x','timng':'$x','as':'y'}" Y, TD_MALFORMED_REQUEST,
      "negative has no member \"timng\"; expected x, op, as", "/steps/0/timng", 0, "" },
    { X "{'op':'concat','inputs':'$x','as':'y'}" Y, TD_MALFORMED_REQUEST,
      "inputs is a string; expected a list", "/steps/0/inputs", 0, "" },
};

TD_TEST_EACH(a_program_is_refused, refusals)
{
    struct body body;
    read_body(&body, refusals[_i].body);
    const char *of = refusals[_i].body;
    ck_assert_msg(body.status == refusals[_i].status, "%s: %s", of, td_status_name(body.status));
    if (refusals[_i].message[0])
        ck_assert_msg(strcmp(body.err.message, refusals[_i].message) == 0, "%s: %s", of,
                      body.err.message);
    ck_assert_msg(body.err.has_pointer && strlen(refusals[_i].pointer) == body.err.pointer_length &&
                      memcmp(body.err.pointer, refusals[_i].pointer, body.err.pointer_length) == 0,
                  "%s: %s", of, body.err.pointer);
    ck_assert_msg(body.err.has_step == (refusals[_i].step >= 0), "%s: the step", of);
    if (body.err.has_step)
        ck_assert_int_eq(body.err.step, refusals[_i].step);
    ck_assert_str_eq(body.err.did_you_mean, refusals[_i].did_you_mean);
}

/* A step that refuses a plain string in place of a tensor. */
static const struct {
    const char *steps, *message;
} strings[] = {
    { "{'op':'exp','x':'movies','as':'y'}",
      "x has dtype string; expected float16, bfloat16, float32 or float64; refer to a resident "
      "tensor as {\"ref\": \"movies\"}" },
    { "{'op':'exp','x':'x','as':'y'}",
      "x has dtype string; expected float16, bfloat16, float32 or float64; refer to a resident "
      "tensor as {\"ref\": \"x\"}; to use the input \"x\" of the program, write \"$x\"" },
    { "{'op':'add','x':'$a','y':'a','as':'y'}",
      "the string \"a\" is not a float32; refer to a resident tensor as {\"ref\": \"a\"}; expected "
      "dtype float32, as in x; to use the result \"a\" of the program, write \"$a\"" },
    { "{'op':'concat','inputs':['$a','y'],'as':'y'}",
      "the string \"y\" is not a float32; refer to a resident tensor as {\"ref\": \"y\"}; expected "
      "dtype float32, as in inputs" },
};

TD_TEST_EACH(a_plain_string_leads_to_the_form_of_a_reference, strings)
{
    struct body body;
    char text[512];
    snprintf(text, sizeof text,
             "{'inputs':{'x':[1.5]},'steps':[{'op':'negative','x':'$x','as':'a'},%s],"
             "'outputs':['a','y']}",
             strings[_i].steps);
    read_body(&body, text);
    ck_assert_msg(body.status == TD_OK, "%s", body.err.message);
    body.status = td_op_infer(body.request.op, &body.request.args, &test_arena, &body.err);
    ck_assert_int_ne(body.status, TD_OK);
    ck_assert_str_eq(body.err.message, strings[_i].message);
    ck_assert_int_eq(body.err.step, 1);
}

TD_TEST(a_value_that_does_not_fit_is_refused_when_the_dtype_is_known)
{
    struct body body;
    read_body(&body, X NEGATIVE ",{'op':'add','x':'$y','y':[1,2.5],'as':'z'}],'outputs':['z']}");
    ck_assert_msg(body.status == TD_OK, "%s", body.err.message);
    body.status = td_op_infer(body.request.op, &body.request.args, &test_arena, &body.err);
    ck_assert_int_eq(body.status, TD_MALFORMED_REQUEST);
    ck_assert_str_eq(body.err.pointer, "/steps/1/y/1");
    ck_assert_int_eq(body.err.step, 1);
}

TD_TEST(an_input_is_given_once)
{
    struct body body;
    read_body(&body, "{'inputs':{'x':[1,2],'x':[3]},'steps':[" NEGATIVE Y);
    ck_assert_int_eq(body.status, TD_MALFORMED_REQUEST);
    ck_assert_str_eq(body.err.message, "the member \"x\" is given twice");
    ck_assert_int_eq(body.err.offset, 25);
    ck_assert_str_eq(body.err.pointer, "/inputs/x");
}

TD_TEST(an_input_that_is_too_large_has_a_pointer)
{
    struct body body;
    read_body(&body, "{'inputs':{'x':{'dtype':'int32','shape':[4611686018427387904,16],'data':[]}},"
                     "'steps':[" NEGATIVE Y);
    ck_assert_int_eq(body.status, TD_RESOURCE_LIMIT);
    ck_assert_str_eq(body.err.input, "x");
    ck_assert_str_eq(body.err.pointer, "/inputs/x");
}

TD_TEST(a_program_has_at_most_256_steps)
{
    static char text[64 * 1024];
    struct td_request request;
    struct td_error err;
    size_t length = (size_t)snprintf(text, sizeof text, "{\"inputs\":{\"x\":1},\"steps\":[");
    for (int i = 0; i <= TD_PROGRAM_STEPS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s{}", i ? "," : "");
    length += (size_t)snprintf(text + length, sizeof text - length, "],\"outputs\":[\"y\"]}");
    td_request_init(&request, &posted);
    ck_assert_int_eq(
        td_program_read_request(TD_PROGRAM_RUN, text, length, NULL, &test_arena, &request, &err),
        TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.resource, "steps");
    ck_assert_str_eq(err.pointer, "/steps");
}
