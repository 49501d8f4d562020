#include "api/message/attrs.h"
#include "api/message/message.h"
#include "api/plan.h"
#include "kernels/einsum/einsum.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <cjson/cJSON.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_error err;
static struct td_reply reply;

static const struct td_plan_limits generous = {
    .threads = 2, .max_flops = 0, .max_output = INT64_MAX, .memory = INT64_MAX
};

/* `equation` is set as from a query string; may be NULL. */
static td_status answer(const char *body, size_t size, const char *equation,
                        const struct td_plan_limits *limits)
{
    struct td_request request;
    bool known;
    td_request_init(&request, &td_op_einsum);
    if (equation)
        ck_assert_int_eq(td_attrs_set_text(&request, "equation", 8, equation, strlen(equation),
                                           &test_arena, &known, &err),
                         TD_OK);
    /* of exact size, so that reads after the end are detected */
    char *copy = padded_copy(body, size, 0);
    const td_status status = td_plan_reply(copy, size, limits, &test_arena, &request, &reply, &err);
    free(copy);
    return status;
}

static cJSON *plan_of(const char *body, const struct td_plan_limits *limits)
{
    ck_assert_msg(answer(body, strlen(body), NULL, limits) == TD_OK, "%s: %s", body, err.message);
    ck_assert_int_eq(reply.http_status, 200);
    ck_assert_str_eq(reply.content_type, "application/json");
    ck_assert_int_eq(reply.n_chunks, 1);
    const char *end;
    cJSON *plan =
        cJSON_ParseWithLengthOpts(reply.chunks[0].data, reply.chunks[0].size, &end, false);
    ck_assert_msg(cJSON_IsObject(plan), "%.*s", (int)reply.chunks[0].size,
                  (const char *)reply.chunks[0].data);
    ck_assert_ptr_eq(end, (const char *)reply.chunks[0].data + reply.chunks[0].size);
    return plan;
}

/* Does the reply to `body` contain this text? For integers that a double would round. */
static void expect_text(const char *body, const char *part)
{
    cJSON_Delete(plan_of(body, &generous));
    const char *text = td_arena_text(&test_arena, reply.chunks[0].data, reply.chunks[0].size, &err);
    ck_assert_msg(strstr(text, part), "no %s in %s", part, text);
}

static void expect_member(const cJSON *plan, const char *name, const char *wanted,
                          const char *case_name)
{
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(plan, name));
    ck_assert_msg(text && strcmp(text, wanted) == 0, "%s: %s is %s, not %s", case_name, name,
                  text ? text : "missing", wanted);
    cJSON_free(text);
}

/* The numbers are those of numpy.einsum_path(equation, ..., optimize="optimal"), computed by
 * hand. */
static const struct {
    const char *case_name, *body, *output, *path, *flops, *naive_flops, *largest;
} plans[] = {
    { "two matrices", "{\"equation\":\"ij,jk->ik\",\"shapes\":[[2,3],[3,4]]}",
      "{\"dtype\":\"float32\",\"shape\":[2,4],\"bytes\":32}", "[[0,1]]", "48", "48",
      "{\"elements\":8,\"bytes\":32}" },
    { "a chain from the left",
      "{\"equation\":\"ij,jk,kl->il\",\"shapes\":[[10,100],[100,5],[5,50]]}",
      "{\"dtype\":\"float32\",\"shape\":[10,50],\"bytes\":2000}", "[[0,1],[0,1]]", "15000",
      "750000", "{\"elements\":500,\"bytes\":2000}" },
    { "a chain from the right",
      "{\"equation\":\"ij,jk,kl->il\",\"shapes\":[[100,5],[5,50],[50,2]]}",
      "{\"dtype\":\"float32\",\"shape\":[100,2],\"bytes\":800}", "[[1,2],[0,1]]", "3000", "150000",
      "{\"elements\":200,\"bytes\":800}" },
    { "a chain from both ends",
      "{\"equation\":\"ij,jk,kl,lm->im\",\"shapes\":[[2,100],[100,2],[2,100],[100,2]]}",
      "{\"dtype\":\"float32\",\"shape\":[2,2],\"bytes\":16}", "[[0,1],[0,1],[0,1]]", "1616",
      "320000", "{\"elements\":4,\"bytes\":16}" },
    { "another dtype", "{\"dtype\":\"complex128\",\"equation\":\"i,j->ij\",\"shapes\":[[3],[4]]}",
      "{\"dtype\":\"complex128\",\"shape\":[3,4],\"bytes\":192}", "[[0,1]]", "12", "12",
      "{\"elements\":12,\"bytes\":192}" },
    { "an intermediate result above the output: float16 is float32 between steps",
      "{\"dtype\":\"float16\",\"equation\":\"ij,jk,k->i\",\"shapes\":[[2,3],[3,4],[4]]}",
      "{\"dtype\":\"float16\",\"shape\":[2],\"bytes\":4}", "[[1,2],[0,1]]", "36", "72",
      "{\"elements\":3,\"bytes\":12}" },
    { "one input", "{\"equation\":\"ij->ji\",\"shapes\":[[3,4]]}",
      "{\"dtype\":\"float32\",\"shape\":[4,3],\"bytes\":48}", "[[0]]", "0", "12",
      "{\"elements\":12,\"bytes\":48}" },
    { "an ellipsis", "{\"equation\":\"...i,...i->...\",\"shapes\":[[5,1,3],[7,3]]}",
      "{\"dtype\":\"float32\",\"shape\":[5,7],\"bytes\":140}", "[[0,1]]", "210", "210",
      "{\"elements\":35,\"bytes\":140}" },
    { "nothing to compute", "{\"equation\":\"ij,jk->ik\",\"shapes\":[[0,3],[3,4]]}",
      "{\"dtype\":\"float32\",\"shape\":[0,4],\"bytes\":0}", "[]", "0", "0",
      "{\"elements\":0,\"bytes\":0}" },
};

TD_TEST_EACH(plans_agree_with_numpy, plans)
{
    cJSON *plan = plan_of(plans[_i].body, &generous);
    expect_member(plan, "output", plans[_i].output, plans[_i].case_name);
    expect_member(plan, "path", plans[_i].path, plans[_i].case_name);
    expect_member(plan, "flops", plans[_i].flops, plans[_i].case_name);
    expect_member(plan, "naive_flops", plans[_i].naive_flops, plans[_i].case_name);
    expect_member(plan, "largest_intermediate", plans[_i].largest, plans[_i].case_name);
    expect_member(plan, "exceeds", "[]", plans[_i].case_name);
    expect_member(plan, "admitted", "true", plans[_i].case_name);
    cJSON_Delete(plan);
}

static const struct {
    const char *body, *equation;
} equations[] = {
    { "{\"equation\":\"ij, jk -> ik\",\"shapes\":[[2,3],[3,1]]}", "\"ij,jk->ik\"" },
    { "{\"equation\":\"jk,ij\",\"shapes\":[[3,4],[2,3]]}", "\"jk,ij->ik\"" },
    { "{\"equation\":\"ij->\",\"shapes\":[[2,0]]}", "\"ij->\"" },
    { "{\"equation\":\"...a,...a->...\",\"shapes\":[[5,1,3],[7,3]]}", "\"ABa,Ba->AB\"" },
};

TD_TEST_EACH(the_equation_of_a_plan_has_all_labels, equations)
{
    cJSON *plan = plan_of(equations[_i].body, &generous);
    expect_member(plan, "equation", equations[_i].equation, equations[_i].body);
    cJSON_Delete(plan);
}

TD_TEST(each_step_is_described)
{
    cJSON *plan = plan_of("{\"equation\":\"ij,jk->ik\",\"shapes\":[[64,32],[32,48]]}", &generous);
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(plan, "steps");
    ck_assert_int_eq(cJSON_GetArraySize(steps), 1);
    const cJSON *step = cJSON_GetArrayItem(steps, 0);
    expect_member(step, "operands", "[0,1]", "gemm");
    expect_member(step, "result", "2", "gemm");
    expect_member(step, "equation", "\"ij,jk->ik\"", "gemm");
    expect_member(step, "kind", "\"gemm\"", "gemm");
    expect_member(step, "batch", "1", "gemm");
    expect_member(step, "m", "64", "gemm");
    expect_member(step, "n", "48", "gemm");
    expect_member(step, "k", "32", "gemm");
    expect_member(step, "flops", "196608", "gemm");
    expect_member(step, "dtype", "\"float32\"", "gemm");
    expect_member(step, "shape", "[64,48]", "gemm");
    expect_member(step, "bytes", "12288", "gemm");
    cJSON_Delete(plan);
    plan = plan_of("{\"equation\":\"ij->ji\",\"shapes\":[[3,4]]}", &generous);
    step = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(plan, "steps"), 0);
    expect_member(step, "operands", "[0]", "permute");
    expect_member(step, "kind", "\"permute\"", "permute");
    ck_assert(!cJSON_HasObjectItem(step, "m"));
    cJSON_Delete(plan);
    plan = plan_of("{\"equation\":\"ij->\",\"shapes\":[[3,4]]}", &generous);
    step = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(plan, "steps"), 0);
    expect_member(step, "kind", "\"sumprod\"", "sumprod");
    expect_member(step, "shape", "[]", "sumprod");
    cJSON_Delete(plan);
}

TD_TEST(integers_keep_every_digit)
{
    expect_text("{\"equation\":\"i,i->\",\"shapes\":[[9007199254740993],[9007199254740993]]}",
                "\"flops\":18014398509481986,");
    /* 2 * 1900000^3 a step: their sum has more than 64 bits */
    expect_text("{\"equation\":\"ij,jk,kl->il\",\"dtype\":\"int8\","
                "\"shapes\":[[1900000,1900000],[1900000,1900000],[1900000,1900000]]}",
                "\"flops\":18446744073709551615,\"naive_flops\":18446744073709551615,");
    expect_text("{\"equation\":\"ij,jk->ik\",\"dtype\":\"int8\","
                "\"shapes\":[[1900000,1900000],[1900000,1900000]]}",
                "\"flops\":13718000000000000000,");
}

static const struct {
    const char *case_name;
    struct td_plan_limits limits;
    const char *exceeds;
} limits[] = {
    /* 2 * 8 * 8 * 8 = 1024 operations and 256 bytes */
    { "none", { 2, 0, 256, 1 << 20 }, "[]" },
    { "just enough", { 2, 1024, 256, 1 << 20 }, "[]" },
    { "one operation more than allowed", { 2, 1023, 256, 1 << 20 }, "[\"flops\"]" },
    { "one byte more than allowed", { 2, 1024, 255, 1 << 20 }, "[\"output_bytes\"]" },
    { "no memory", { 2, 1024, 256, 255 }, "[\"workspace_bytes\"]" },
    { "all limits exceeded", { 2, 1, 1, 1 }, "[\"flops\",\"output_bytes\",\"workspace_bytes\"]" },
};

TD_TEST_EACH(limits_that_are_exceeded_are_named, limits)
{
    cJSON *plan =
        plan_of("{\"equation\":\"ij,jk->ik\",\"shapes\":[[8,8],[8,8]]}", &limits[_i].limits);
    expect_member(plan, "exceeds", limits[_i].exceeds, limits[_i].case_name);
    expect_member(plan, "admitted", strlen(limits[_i].exceeds) == 2 ? "true" : "false",
                  limits[_i].case_name);
    cJSON_Delete(plan);
}

TD_TEST(the_equation_may_be_set_before)
{
    static const char shapes[] = "{\"shapes\":[[2,3]]}",
                      both[] = "{\"shapes\":[[2,3]],\"equation\":\"ij->ji\"}";
    ck_assert_int_eq(answer(shapes, strlen(shapes), "ij->ji", &generous), TD_OK);
    ck_assert_int_eq(answer(both, strlen(both), "ij->ji", &generous), TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.attribute, "equation");
    ck_assert_str_eq(err.pointer, "/equation");
}

#define MATMUL "\"equation\":\"ij,jk->ik\",\"shapes\":[[2,3],[3,4]]"

/* The place of the error: a pointer if the text is JSON, otherwise an offset; or the name of the
 * member. */
static const struct {
    const char *body;
    td_status status;
    const char *pointer; /* NULL: none */
    const char *member;  /* input or attribute; "" for none */
} refusals[] = {
    { "", TD_MALFORMED_REQUEST, NULL, "" },
    { " ", TD_MALFORMED_REQUEST, NULL, "" },
    { "[]", TD_MALFORMED_REQUEST, "", "" },
    { "7", TD_MALFORMED_REQUEST, "", "" },
    { "@", TD_MALFORMED_REQUEST, NULL, "" },
    { "{" MATMUL, TD_MALFORMED_REQUEST, NULL, "" },
    { "{" MATMUL ",}", TD_MALFORMED_REQUEST, NULL, "" },
    { "{" MATMUL "} {}", TD_MALFORMED_REQUEST, NULL, "" },
    { "{" MATMUL ",\"shape\":[[1]]}", TD_MALFORMED_REQUEST, "/shape", "" },
    { "{" MATMUL ",\"inputs\":[[1]]}", TD_MALFORMED_REQUEST, "/inputs", "" },
    { "{" MATMUL ",\"a/b~\":1}", TD_MALFORMED_REQUEST, "/a~1b~0", "" },
    { "{" MATMUL ",\"equation\":\"i\"}", TD_MALFORMED_REQUEST, "/equation", "equation" },
    { "{" MATMUL ",\"shapes\":[]}", TD_MALFORMED_REQUEST, "/shapes", "" },
    { "{" MATMUL ",\"dtype\":\"int8\",\"dtype\":\"int8\"}", TD_MALFORMED_REQUEST, "/dtype", "" },
    { "{" MATMUL ",\"dtype\":\"float\"}", TD_MALFORMED_REQUEST, "/dtype", "" },
    { "null", TD_MALFORMED_REQUEST, "", "" },
    { "nonsense", TD_MALFORMED_REQUEST, NULL, "" },
    { "{\"shapes\":nothing}", TD_MALFORMED_REQUEST, NULL, "" },
    { "{" MATMUL ",\"dtype\":nil}", TD_MALFORMED_REQUEST, NULL, "" },
    { "{" MATMUL ",\"dtype\":null}", TD_MALFORMED_REQUEST, "/dtype", "" },
    { "{\"equation\":[],\"shapes\":[[1]]}", TD_MALFORMED_REQUEST, "/equation", "equation" },
    { "{\"equation\":\"i\\u0000\",\"shapes\":[[1]]}", TD_MALFORMED_REQUEST, "/equation",
      "equation" },
    { "{\"equation\":\"i\",\"shapes\":\"[[1]]\"}", TD_MALFORMED_REQUEST, "/shapes", "" },
    { "{\"equation\":\"i\",\"shapes\":[1]}", TD_MALFORMED_REQUEST, "/shapes/0", "" },
    { "{\"equation\":\"i,i\",\"shapes\":[[1],{}]}", TD_MALFORMED_REQUEST, "/shapes/1", "" },
    { "{\"equation\":\"i\",\"shapes\":[[-1]]}", TD_MALFORMED_REQUEST, "/shapes/0/0", "" },
    { "{\"equation\":\"ij\",\"shapes\":[[1,1.0]]}", TD_MALFORMED_REQUEST, "/shapes/0/1", "" },
    { "{\"equation\":\"i\",\"shapes\":[[1e3]]}", TD_MALFORMED_REQUEST, "/shapes/0/0", "" },
    { "{\"equation\":\"i\",\"shapes\":[[9223372036854775808]]}", TD_MALFORMED_REQUEST,
      "/shapes/0/0", "" },
    { "{\"equation\":\"i\",\"shapes\":[[[1]]]}", TD_MALFORMED_REQUEST, "/shapes/0/0", "" },
    { "{\"equation\":\"i\"}", TD_INVALID_ARGUMENT, NULL, "shapes" },
    { "{\"equation\":\"i\",\"shapes\":[]}", TD_INVALID_ARGUMENT, NULL, "shapes" },
    { "{\"shapes\":[[1]]}", TD_INVALID_ARGUMENT, NULL, "equation" },
    { "{}", TD_INVALID_ARGUMENT, NULL, "shapes" },
    { "{\"equation\":\"i\",\"shapes\":[[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],[1],"
      "[1],[1]]}",
      TD_INVALID_ARGUMENT, "/shapes/16", "shapes" },
    { "{\"equation\":\"i\",\"shapes\":[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]}", TD_RESOURCE_LIMIT,
      "/shapes/0", "" },
    { "{\"equation\":\"i,i\",\"shapes\":[[1],[9223372036854775807]]}", TD_RESOURCE_LIMIT, NULL,
      "inputs[1]" },
    { "{\"equation\":\"i\",\"shapes\":[[1]],\"dtype\":\"string\"}", TD_UNSUPPORTED_DTYPE, NULL,
      "inputs[0]" },
    { "{\"equation\":\"i\",\"shapes\":[[1]],\"dtype\":\"bool\"}", TD_UNSUPPORTED_DTYPE, NULL,
      "inputs[0]" },
};

TD_TEST_EACH(malformed_requests_are_refused_with_their_position, refusals)
{
    const char *body = refusals[_i].body, *pointer = refusals[_i].pointer;
    const td_status status = answer(body, strlen(body), NULL, &generous);
    ck_assert_msg(status == refusals[_i].status && err.status == status, "%s: %s", body,
                  status ? err.message : "taken");
    ck_assert_msg(err.has_pointer == (pointer != NULL), "%s: %s", body, err.message);
    if (pointer)
        ck_assert_str_eq(err.pointer, pointer);
    else if (status == TD_MALFORMED_REQUEST)
        ck_assert_int_ge(err.offset, 0);
    ck_assert_str_eq(err.input[0] ? err.input : err.attribute, refusals[_i].member);
}

TD_TEST(misspelled_members_get_a_suggestion)
{
    static const char *const bodies[][2] = {
        { "{\"shape\":[[1]]}", "shapes" },
        { "{\"equaton\":\"i\"}", "equation" },
        { "{\"dtyp\":\"int8\"}", "dtype" },
        { "{\"dtype\":\"flaot32\"}", "float32" },
        { "{\"zebra\":1}", "" },
    };
    for (int i = 0; i < COUNT_OF(bodies); i++) {
        ck_assert_int_eq(answer(bodies[i][0], strlen(bodies[i][0]), NULL, &generous),
                         TD_MALFORMED_REQUEST);
        ck_assert_str_eq(err.did_you_mean, bodies[i][1]);
    }
}

TD_TEST(errors_of_the_op_are_passed_on)
{
    static const char bad_equation[] = "{\"equation\":\"ij,jk>ik\",\"shapes\":[[2,3],[3,4]]}",
                      bad_shape[] = "{\"equation\":\"ij,jk->ik\",\"shapes\":[[2,3],[4,4]]}";
    ck_assert_int_eq(answer(bad_equation, strlen(bad_equation), NULL, &generous),
                     TD_INVALID_EQUATION);
    ck_assert_int_eq(err.offset, 5);
    ck_assert_int_eq(answer(bad_shape, strlen(bad_shape), NULL, &generous), TD_SHAPE_MISMATCH);
}

TD_TEST(a_long_reply_is_complete)
{
    /* 16 operands of 16 three-byte labels each: about the longest plan */
    char body[8192], *at = body;
    at += sprintf(at, "{\"equation\":\"");
    for (int i = 0; i < 16; i++) {
        at += sprintf(at, i ? "," : "");
        for (int k = 0; k < 16; k++) {
            const int letter = 0x2800 + (5 * i + k) % 56;
            at += sprintf(at, "%c%c%c", 0xE0 | letter >> 12, 0x80 | (letter >> 6 & 63),
                          0x80 | (letter & 63));
        }
    }
    at += sprintf(at, "->\",\"shapes\":[");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]", i ? "," : "");
    sprintf(at, "]}");
    cJSON *plan = plan_of(body, &generous);
    ck_assert_uint_gt(reply.chunks[0].size, 4096);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(plan, "path")), 15);
    cJSON_Delete(plan);
}

TD_TEST(damaged_bodies_fail_cleanly)
{
    static const char whole[] =
        "{\"equation\":\"ij,jk,kl->il\",\"shapes\":[[10,100],[100,5],[5,50]],"
        "\"dtype\":\"float64\"}";
    uint64_t state = 12345;
    for (size_t size = 0; size < sizeof whole - 1; size++)
        EXPECT(answer(whole, size, NULL, &generous) != TD_OK, "the first %zu bytes", size);
    for (int i = 0; i < 20000; i++) {
        char body[300];
        memcpy(body, whole, sizeof whole);
        const size_t size = mutate(body, sizeof whole - 1, sizeof body, &state);
        const td_status status = answer(body, size, NULL, &generous);
        EXPECT(status == TD_OK || (err.status == status && err.message[0]), "%.*s", (int)size,
               body);
        test_arena_close();
        test_arena_open();
    }
}
