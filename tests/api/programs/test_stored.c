#include "api/programs/describe.h"
#include "api/programs/read.h"
#include "api/programs/stored.h"
#include "kernels/op_check.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

/* ---- Programs of the tests --------------------------------------------------------------- */

/* A text whose ' stand for ". */
struct text {
    char at[4096];
    size_t length;
};

static struct text quoted(const char *from)
{
    struct text text = { .length = strlen(from) };
    ck_assert_uint_lt(text.length + TD_JSON_PADDING, sizeof text.at);
    memset(text.at, ' ', sizeof text.at);
    for (size_t i = 0; i < text.length; i++)
        text.at[i] = (char)(from[i] == '\'' ? '"' : from[i]);
    return text;
}

static struct td_stored_program *compiled(const char *from)
{
    const struct text text = quoted(from);
    struct td_stored_program *stored = NULL;
    struct td_error err = { 0 };
    const td_status status = td_stored_program_read(text.at, text.length, "the program 'p'",
                                                    td_memory_heap(), &stored, &err);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    return stored;
}

/* A resolver that knows one table, "rows", of ten float32 rows of four. */
static td_status resolve(struct td_resolver *self, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    static float rows[10][4];
    const struct td_shape shape = { .rank = 2, .dim = { 10, 4 } };
    (void)self;
    (void)arena;
    if (length != 4 || memcmp(name, "rows", 4) != 0)
        return td_error_set(err, TD_TENSOR_NOT_FOUND, "there is no tensor '%.*s'", (int)length,
                            name);
    for (int i = 0; i < 40; i++)
        rows[i / 4][i % 4] = (float)i;
    const td_status status = td_tensor_describe(out, "rows", TD_DTYPE_FLOAT32, &shape, err);
    out->data = rows;
    return status;
}
static struct td_resolver resolver = { resolve };

/* ---- Signatures -------------------------------------------------------------------------- */

#define N2 "{'dtype':'float32','shape':['n',2]}"

static const struct {
    const char *says, *text;
    const char *outputs; /* dtypes and shapes */
} signatures[] = {
    { "a size follows its letter",
      "{'inputs':{'a':" N2 "},'steps':[{'op':'negative','x':'$a','as':'y'}],'outputs':['y']}",
      "float32[n,2]" },
    { "a number stays a number",
      "{'inputs':{'a':" N2
      "},'steps':[{'op':'top_k','x':'$a','k':1,'as':{'values':'y'}}],'outputs':['y']}",
      "float32[n,1]" },
    { "an argument decides a size",
      "{'inputs':{'a':{'dtype':'float32','shape':['n']}},'steps':[{'op':'top_k','x':'$a',"
      "'k':{'attr':'k','default':3},'as':{'indices':'y'}}],'outputs':['y']}",
      "int32[?]" },
    { "an argument without a default leaves the sizes open",
      "{'inputs':{'a':{'dtype':'float32','shape':['n']}},'steps':[{'op':'top_k','x':'$a',"
      "'k':{'attr':'k'},'as':{'indices':'y'}}],'outputs':['y']}",
      "int32[?]" },
    { "the dtype of a result that follows from an argument without a default",
      "{'inputs':{'a':{'dtype':'float32','shape':['n']}},'steps':[{'op':'top_k','x':'$a',"
      "'k':{'attr':'k'},'as':{'indices':'i'}},{'op':'gather','params':{'dtype':'string','data':"
      "['a','b']},'indices':'$i','as':'y'}],'outputs':['y']}",
      "string[?]" },
    { "an axis that is the argument of a call",
      "{'inputs':{'a':" N2 "},'steps':[{'op':'cumsum','x':'$a','axis':{'attr':'axis'},'as':'y'}],"
      "'outputs':['y']}",
      "float32[?,?]" },
    { "a list of axes without a default leaves the rank open",
      "{'inputs':{'a':" N2 "},'steps':[{'op':'reduce_sum','x':'$a','axes':{'attr':'axes'},'as':"
      "'y'}],'outputs':['y']}",
      "float32?" },
    { "the sum of two sizes is open",
      "{'inputs':{'a':" N2 ",'b':{'dtype':'float32','shape':['m',2]}},'steps':["
      "{'op':'concat','inputs':['$a','$b'],'as':'y'}],'outputs':['y']}",
      "float32[?,2]" },
    { "data decide the shapes of a partition",
      "{'inputs':{'a':" N2 ",'p':{'dtype':'int32','shape':['n']}},'steps':["
      "{'op':'dynamic_partition','data':'$a','partitions':'$p','num_partitions':2,'as':['y',null]}"
      "],'outputs':['y']}",
      "float32?" },
    { "a table",
      "{'inputs':{'i':{'dtype':'int32','shape':['n','m']}},'steps':[{'op':'gather','params':"
      "{'ref':'rows'},'indices':'$i','as':'y'}],'outputs':['y']}",
      "float32[n,m,4]" },
    { "a reshape that works with few sizes",
      "{'inputs':{'a':" N2 "},'steps':[{'op':'reshape','x':'$a','shape':[4],'as':'y'}],"
      "'outputs':['y']}",
      "float32[?]" },
    { "no inputs",
      "{'inputs':{},'steps':[{'op':'negative','x':{'ref':'rows'},'as':'y'}],'outputs':['y']}",
      "float32[10,4]" },
};

static void write_result(const struct td_program *program, const struct td_program_result *result,
                         char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s%s",
                                   result->has_dtype ? td_dtype_info(result->dtype)->name : "?",
                                   result->shape.rank < 0 ? "?" : "[");
    for (int i = 0; i < result->shape.rank; i++) {
        const struct td_program_size *of = &result->shape.sizes[i];
        const char *end = i + 1 < result->shape.rank ? "," : "]";
        used +=
            (size_t)(of->letter == TD_SIZE_UNKNOWN ? snprintf(text + used, size - used, "?%s", end)
                     : of->letter >= 0
                         ? snprintf(text + used, size - used, "%s%s", program->letters[of->letter],
                                    end)
                         : snprintf(text + used, size - used, "%lld%s", (long long)of->size, end));
    }
}

TD_TEST_EACH(a_stored_program_has_a_signature, signatures)
{
    struct td_stored_program *stored = compiled(signatures[_i].text);
    struct td_program_signature signature;
    struct td_error err = { 0 };
    char text[256];
    const td_status status =
        td_stored_program_check(stored, "p", &resolver, &test_arena, &signature, &err);
    ck_assert_msg(status == TD_OK, "%s: %s", signatures[_i].says, err.message);
    ck_assert(signature.is_ready);
    write_result(signature.program, &signature.results[signature.program->outputs[0]], text,
                 sizeof text);
    ck_assert_msg(strcmp(text, signatures[_i].outputs) == 0, "%s: %s", signatures[_i].says, text);
    td_buffer_unref(&stored->base);
}

TD_TEST(a_missing_table_leaves_the_program_not_ready)
{
    struct td_stored_program *stored =
        compiled("{'inputs':{'i':{'dtype':'int32','shape':['n']}},'steps':[{'op':'gather','params':"
                 "{'ref':'gone'},'indices':'$i','as':'y'},{'op':'negative','x':'$y','as':'z'}],"
                 "'outputs':['z']}");
    struct td_program_signature signature;
    struct td_program *program;
    struct td_error err = { 0 };
    ck_assert_int_eq(td_stored_program_check(stored, "p", &resolver, &test_arena, &signature, &err),
                     TD_OK);
    ck_assert(!signature.is_ready);
    ck_assert_int_eq(signature.problem.status, TD_TENSOR_NOT_FOUND);
    for (int v = 1; v < signature.program->n_values; v++)
        ck_assert(!signature.results[v].has_dtype && signature.results[v].shape.rank < 0);
    ck_assert_int_eq(td_stored_program_bind(stored, "p", &resolver, &test_arena, &program, &err),
                     TD_TENSOR_NOT_FOUND);
    ck_assert(err.has_step);
    ck_assert_str_eq(err.as, "y");
    ck_assert_str_eq(err.input, "params");
    td_buffer_unref(&stored->base);
}

static uint64_t tick(void)
{
    static uint64_t ns;
    return ns += 5;
}

/* ---- Calls ------------------------------------------------------------------------------- */

TD_TEST(a_call_gives_inputs_and_arguments)
{
    static const char text[] =
        "{'inputs':{'i':{'dtype':'int32','shape':['n']},'j':{'dtype':'int32','shape':['n']}},"
        "'steps':[{'op':'gather','params':{'ref':'rows'},'indices':'$i','as':'a'},"
        "{'op':'gather','params':'$a','indices':'$j','as':'b'},"
        "{'op':'top_k','x':'$b','k':{'attr':'k','default':2},'as':{'values':'y'}}],"
        "'outputs':['y']}";
    struct td_stored_program *stored = compiled(text);
    struct td_program *program;
    struct td_error err = { 0 };
    struct td_exec exec;
    struct td_tensor inputs[2] = { tensor("int32[2] 3 1"), tensor("int32[2] 1 0") };
    const int64_t k = 1;
    td_exec_serial(&exec, &test_arena);
    exec.now = tick;
    ck_assert_int_eq(td_stored_program_bind(stored, "p", &resolver, &test_arena, &program, &err),
                     TD_OK);
    ck_assert_int_eq(program->op.n_attrs, 1);
    ck_assert_str_eq(program->op.attrs[0].name, "k");
    ck_assert_int_eq(program->op.attrs[0].default_int, 2);
    struct td_op_args args = { 0 };
    td_op_set_defaults(&program->op, &args);
    for (int i = 0; i < 2; i++)
        args.inputs[i] = (struct td_operand){ &inputs[i], 1 };
    memcpy(args.attrs + program->op.attrs[0].offset, &k, sizeof k);
    args.attrs_set = 1;
    td_status status = td_op_infer(&program->op, &args, &test_arena, &err);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_int_eq(args.outputs[0].shape.dim[1], 1);
    status = td_tensor_alloc(&args.outputs[0], &test_arena, &err);
    ck_assert_int_eq(status, TD_OK);
    status = program->op.run(&args, &exec, &err);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_float_eq(((const float *)args.outputs[0].data)[0], 7);
    ck_assert_float_eq(((const float *)args.outputs[0].data)[1], 15);
    ck_assert_int_eq(args.n_times, 3);
    ck_assert_uint_eq(args.times[1].ns, 5);

    inputs[1] = tensor("int32[3] 1 0 1");
    ck_assert_int_eq(td_op_infer(&program->op, &args, &test_arena, &err), TD_SHAPE_MISMATCH);
    ck_assert_str_eq(err.message, "n is 2 in i, but 3 in j; a letter is one size");
    ck_assert_int_eq(err.n_shapes, 2);
    td_buffer_unref(&stored->base);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

#define STEP    "'steps':[{'op':'negative','x':'$a','as':'y'}],'outputs':['y']}"
#define TOP_K   "{'op':'top_k','x':'$a','k':{'attr':'k','default':3},'as':{'values':'v'}}"
#define OUTPUTS "],'outputs':['v','w']}"

static const struct {
    const char *text;
    td_status status;
    const char *message, *pointer;
} refusals[] = {
    { "{'inputs':{'a':[1,2]}," STEP, TD_MALFORMED_REQUEST, "the input is a list", "/inputs/a" },
    { "{'inputs':{'a':{'dtype':'float32'}}," STEP, TD_MALFORMED_REQUEST, "the input has no shape",
      "/inputs/a" },
    { "{'inputs':{'a':{'dtype':'float32','shape':null}}," STEP, TD_MALFORMED_REQUEST,
      "shape is null", "/inputs/a/shape" },
    { "{'inputs':{'a':{'shape':[]}}," STEP, TD_MALFORMED_REQUEST, "the input has no dtype",
      "/inputs/a" },
    { "{'inputs':{'a':{'dtype':'float32','shape':[],'data':1}}," STEP, TD_MALFORMED_REQUEST,
      "has no member \"data\"", "/inputs/a/data" },
    { "{'inputs':{'a':{'dtype':'float32','shape':['1n']}}," STEP, TD_MALFORMED_REQUEST,
      "\"1n\" is not a letter", "/inputs/a/shape/0" },
    { "{'inputs':{'a':{'dtype':'float32','shape':[2,-1]}}," STEP, TD_MALFORMED_REQUEST,
      "a size must be an integer", "/inputs/a/shape/1" },
    { "{'inputs':{'a':{'dtype':'float32','shape':[1.5]}}," STEP, TD_MALFORMED_REQUEST,
      "a size must be an integer", "/inputs/a/shape/0" },
    { "{'inputs':{'a':{'dtype':'float23','shape':[]}}," STEP, TD_MALFORMED_REQUEST, "float23",
      "/inputs/a/dtype" },
    { "{'device':'cpu','inputs':{'a':" N2 "}," STEP, TD_MALFORMED_REQUEST,
      "expected it in the call that runs the program", "/device" },
    { "{'name':'x','inputs':{'a':" N2 "}," STEP, TD_MALFORMED_REQUEST,
      "expected inputs, steps, outputs", "/name" },
    { "{'inputs':{'k':" N2 "},'steps':[{'op':'top_k','x':'$k','k':{'attr':'k'},'as':{'values':"
      "'v'}}],'outputs':['v']}",
      TD_MALFORMED_REQUEST, "\"k\" is already the name of an input", "/steps/0/k" },
    { "{'inputs':{'a':" N2 "},'steps':[{'op':'top_k','x':'$a','k':{'default':1},'as':{'values':"
      "'v'}}],'outputs':['v']}",
      TD_MALFORMED_REQUEST, "the argument has no attr", "/steps/0/k" },
    { "{'inputs':{'a':" N2 "},'steps':[{'op':'top_k','x':'$a','k':{'attr':'k','default':'x'},'as':"
      "{'values':'v'}}],'outputs':['v']}",
      TD_MALFORMED_REQUEST, "k is \"x\"", "/steps/0/k/default" },
    { "{'inputs':{'a':" N2 "},'steps':[" TOP_K ",{'op':'top_k','x':'$a','k':{'attr':'k','default':"
      "4},'as':{'values':'w'}}" OUTPUTS,
      TD_MALFORMED_REQUEST, "another default in step 0", "/steps/1/k" },
    { "{'inputs':{'a':" N2 "},'steps':[" TOP_K ",{'op':'cast','x':'$a','dtype':{'attr':'k'},'as':"
      "'w'}" OUTPUTS,
      TD_MALFORMED_REQUEST, "not the same kind of attribute", "/steps/1/dtype" },
    { "{'inputs':{'a':" N2 "},'steps':[" TOP_K ",{'op':'negative','x':'$k','as':'w'}" OUTPUTS,
      TD_MALFORMED_REQUEST, "\"k\" is an argument", "/steps/1/x" },
    { "{'inputs':{'a':" N2 "},'steps':[{'op':'top_k','x':'$a','k':'$k','as':{'values':'v'}}],"
      "'outputs':['v']}",
      TD_MALFORMED_REQUEST, "; to make k an argument of a call, write \"k\": {\"attr\": \"k\"}",
      "/steps/0/k" },
    { "{'inputs':{'a':" N2 "},'steps':[{'op':'reduce_sum','x':'$a','axes':[{'attr':'axis'}],'as':"
      "'v'}],'outputs':['v']}",
      TD_MALFORMED_REQUEST,
      "; to make axes an argument of a call, write \"axes\": {\"attr\": \"axes\"}; an argument "
      "replaces the whole list",
      "/steps/0/axes" },
    { "{'inputs':{'a':" N2
      "},'steps':[{'op':'negative','x':{'ref':'a'},'as':'y'}],'outputs':['y']}",
      TD_MALFORMED_REQUEST, "in outputs; step 0 has the resident tensor {\"ref\": \"a\"} instead",
      "/inputs/a" },
    { "{'inputs':{'a':" N2 "},'steps':[{'op':'negative','x':{'ref':'rows','data':1},'as':'y'}],"
      "'outputs':['y']}",
      TD_MALFORMED_REQUEST, "cannot have other members", "/steps/0/x/data" },
};

TD_TEST_EACH(a_stored_program_is_refused, refusals)
{
    const struct text text = quoted(refusals[_i].text);
    struct td_stored_program *stored = NULL;
    struct td_error err = { 0 };
    const td_status status = td_stored_program_read(text.at, text.length, "the program 'p'",
                                                    td_memory_heap(), &stored, &err);
    ck_assert_msg(status == refusals[_i].status && strstr(err.message, refusals[_i].message),
                  "%s: %s", refusals[_i].text, status == TD_OK ? "accepted" : err.message);
    ck_assert_msg(err.has_pointer && strcmp(err.pointer, refusals[_i].pointer) == 0, "%s: %s",
                  refusals[_i].text, err.pointer);
}

/* The sizes that were tried are named if the error depends on them. */
static const struct {
    const char *equation, *sizes;
} failing[] = {
    { "nd,nd->n", NULL },
    { "nd,dn->n", "n = " },
};

TD_TEST_EACH(a_step_that_always_fails_is_found_before_any_call, failing)
{
    char text[400];
    snprintf(text, sizeof(text),
             "{'inputs':{'a':" N2 ",'b':{'dtype':'float32','shape':['n',3]}},'steps':[{'op':"
             "'einsum','equation':'%s','inputs':['$a','$b'],'as':'y'}],'outputs':['y']}",
             failing[_i].equation);
    struct td_stored_program *stored = compiled(text);
    struct td_program_signature signature;
    struct td_error err = { 0 };
    ck_assert_int_eq(td_stored_program_check(stored, "p", &resolver, &test_arena, &signature, &err),
                     TD_SHAPE_MISMATCH);
    ck_assert(err.has_step);
    if (failing[_i].sizes)
        ck_assert_msg(strstr(err.message, failing[_i].sizes) != NULL, "%s", err.message);
    else
        ck_assert_msg(strstr(err.message, "sizes 1, 2") == NULL, "%s", err.message);
    td_buffer_unref(&stored->base);
}

/* ---- Documents --------------------------------------------------------------------------- */

static const char *body_of(const struct td_reply *reply)
{
    return reply->n_chunks == 1 ? reply->chunks[0].data : "";
}

TD_TEST(a_program_is_described)
{
    struct td_stored_program *stored = compiled(
        "{'inputs':{'a':" N2 "},'steps':[{'op':'top_k','x':'$a','k':{'attr':'k','default':2},'as':"
        "{'values':'v'}}],'outputs':['v']}");
    const struct td_program_listing listing = {
        .name = "p", .version = 3, .etag = "\"e\"", .bytes = stored->bytes
    };
    struct td_program_signature signature;
    struct td_reply reply = { 0 };
    struct td_error err = { 0 };
    ck_assert_int_eq(td_stored_program_check(stored, "p", &resolver, &test_arena, &signature, &err),
                     TD_OK);
    ck_assert_int_eq(td_describe_program(&listing, stored, &signature, &test_arena, &reply, &err),
                     TD_OK);
    const char *body = body_of(&reply);
    ck_assert_ptr_nonnull(strstr(body, "\"ready\":true"));
    ck_assert_ptr_nonnull(
        strstr(body, "\"inputs\":[{\"name\":\"a\",\"dtype\":\"float32\",\"shape\":[\"n\",2]}]"));
    ck_assert_ptr_nonnull(strstr(
        body, "\"outputs\":[{\"name\":\"v\",\"dtype\":\"float32\",\"shape\":[\"n\",null]}]"));
    ck_assert_ptr_nonnull(strstr(body, "\"required\":false,\"default\":2"));
    td_buffer_unref(&stored->base);
}

TD_TEST(a_plan_needs_shapes_only)
{
    const struct text text = quoted(
        "{'inputs':{'x':{'dtype':'float32','shape':[1000,4]},'i':{'dtype':'int32','shape':[7]},"
        "'p':{'dtype':'int32','shape':[7]}},'steps':["
        "{'op':'gather','params':'$x','indices':'$i','as':'a'},"
        "{'op':'negative','x':'$a','as':'b'},{'op':'square','x':'$b','as':'c'},"
        "{'op':'dynamic_partition','data':'$c','partitions':'$p','num_partitions':2,'as':['y',null]"
        "}"
        "],'outputs':['c','y']}");
    const struct td_plan_limits limits = { .threads = 2, .max_output = 50, .memory = 1 << 20 };
    struct td_request request;
    struct td_reply reply = { 0 };
    struct td_error err = { 0 };
    static const struct td_op posted = { .name = "posted" };
    td_request_init(&request, &posted);
    td_status status = td_program_read_request(TD_PROGRAM_PLAN, text.at, text.length, NULL,
                                               &test_arena, &request, &err);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    status = td_op_infer(request.op, &request.args, &test_arena, &err);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    ck_assert_int_eq(td_describe_program_plan(&request.args, &limits, &test_arena, &reply, &err),
                     TD_OK);
    const char *body = body_of(&reply);
    ck_assert_ptr_nonnull(strstr(
        body,
        "\"outputs\":{\"c\":{\"dtype\":\"float32\",\"shape\":[7,4],\"bytes\":112},\"y\":null"));
    ck_assert_ptr_nonnull(strstr(body, "\"exceeds\":[\"output_bytes\"],\"admitted\":false"));
    ck_assert_ptr_nonnull(strstr(body, "\"runs\":\"fused\",\"from\":1,\"to\":2"));
}
