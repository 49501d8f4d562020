#include "api/describe.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <cjson/cJSON.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_error err;

static cJSON *parse(const struct td_reply *reply)
{
    ck_assert_int_eq(reply->http_status, 200);
    ck_assert_str_eq(reply->content_type, "application/json");
    cJSON *document = cJSON_ParseWithLength(reply->pieces[0].data, reply->pieces[0].size);
    ck_assert_msg(document, "%.*s", (int)reply->pieces[0].size,
                  (const char *)reply->pieces[0].data);
    return document;
}

static const char *text_at(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    ck_assert_msg(text, "no %s", name);
    return text;
}

START_TEST(all_ops_are_listed_with_their_links)
{
    struct td_reply reply;
    int count;
    const struct td_op *const *ops = td_ops(&count);
    ck_assert_int_eq(td_describe_ops(&test_arena, &reply, &err), TD_OK);
    cJSON *document = parse(&reply), *list = cJSON_GetObjectItemCaseSensitive(document, "ops");
    ck_assert_int_eq(cJSON_GetArraySize(list), count);
    for (int i = 0; i < count; i++) {
        char link[64];
        const cJSON *item = cJSON_GetArrayItem(list, i);
        ck_assert_str_eq(text_at(item, "name"), ops[i]->name);
        ck_assert_str_eq(text_at(item, "summary"), ops[i]->summary);
        snprintf(link, sizeof link, "POST /v1/%s", ops[i]->name);
        ck_assert_str_eq(text_at(item, "endpoint"), link);
        snprintf(link, sizeof link, "/v1/ops/%s", ops[i]->name);
        ck_assert_str_eq(text_at(item, "href"), link);
    }
    cJSON_Delete(document);
}
END_TEST

START_TEST(every_op_is_described_and_its_example_decodes)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++) {
        const struct td_op *op = ops[i];
        struct td_reply reply;
        ck_assert_int_eq(td_describe_op(op, NULL, &test_arena, &reply, &err), TD_OK);
        cJSON *document = parse(&reply);
        ck_assert_str_eq(text_at(document, "name"), op->name);
        ck_assert_str_eq(text_at(document, "source"), op->source);
        ck_assert_str_eq(text_at(document, "shape_rule"), op->shape_rule);
        ck_assert_str_eq(text_at(document, "output"), op->output_list ? "outputs" : "output");
        ck_assert_int_eq(
            (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(document, "max_rank")),
            TD_MAX_RANK);
        ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(document, "inputs")),
                         op->n_inputs);
        ck_assert_int_eq(
            cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(document, "attributes")),
            op->n_attrs);
        const cJSON *example = cJSON_GetObjectItemCaseSensitive(document, "example");
        char *body = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(example, "request"));
        struct decoded decoded;
        decode_json(&decoded, op, body, strlen(body), NULL);
        ck_assert_msg(decoded.status == TD_OK, "%s: %s", op->name, decoded.err.message);
        ck_assert_msg(td_op_infer(op, &decoded.request.args, &test_arena, &err) == TD_OK, "%s: %s",
                      op->name, err.message);
        cJSON_free(body);
        cJSON_Delete(document);
    }
}
END_TEST

START_TEST(inputs_attributes_and_errors_say_what_a_client_needs)
{
    struct td_reply reply;
    ck_assert_int_eq(td_describe_op(&list_op, "/v1/plan", &test_arena, &reply, &err), TD_OK);
    cJSON *document = parse(&reply);
    ck_assert_str_eq(text_at(document, "plan"), "POST /v1/plan");
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(document, "inputs");
    const cJSON *lists = cJSON_GetArrayItem(inputs, 0);
    char *dtypes = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(lists, "dtypes"));
    ck_assert_str_eq(dtypes, "[\"float32\",\"string\"]");
    ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(lists, "list")));
    cJSON_free(dtypes);
    char *attrs = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(document, "attributes"));
    ck_assert_ptr_nonnull(strstr(attrs, "\"name\":\"count\""));
    ck_assert_ptr_nonnull(strstr(attrs, "\"type\":\"int64\",\"required\":false,\"default\":7}"));
    ck_assert_ptr_nonnull(
        strstr(attrs, "\"default\":\"clip\",\"values\":[\"error\",\"zero\",\"clip\",\"wrap\"]"));
    ck_assert_ptr_nonnull(strstr(attrs, "\"type\":\"string\",\"required\":true}"));
    cJSON_free(attrs);
    char *errors = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(document, "errors"));
    ck_assert_str_eq(errors, "[{\"code\":\"INVALID_ARGUMENT\",\"status\":422,"
                             "\"type\":\"/problems/invalid-argument\"}]");
    cJSON_free(errors);
    cJSON_Delete(document);
}
END_TEST

START_TEST(tensors_are_listed)
{
    struct td_reply reply;
    struct td_tensor table = tensor_without_data("float32[9007199254740993,0]"),
                     names = tensor("string[2] 'ab' 'c'");
    const struct td_tensor_listing list[] = { { "table", &table, "table.npy" },
                                              { "na\"mes", &names, NULL } };
    ck_assert_int_eq(td_describe_tensors(list, 2, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(td_arena_text(&test_arena, reply.pieces[0].data, reply.pieces[0].size, &err),
                     "{\"tensors\":[{\"name\":\"table\",\"dtype\":\"float32\","
                     "\"shape\":[9007199254740993,0],\"bytes\":0,\"source\":\"table.npy\"},"
                     "{\"name\":\"na\\\"mes\",\"dtype\":\"string\",\"shape\":[2],\"bytes\":27}]}");
    ck_assert_int_eq(td_describe_tensor(&list[1], &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(td_arena_text(&test_arena, reply.pieces[0].data, reply.pieces[0].size, &err),
                     "{\"name\":\"na\\\"mes\",\"dtype\":\"string\",\"shape\":[2],\"bytes\":27}");
    ck_assert_int_eq(td_describe_tensors(NULL, 0, &test_arena, &reply, &err), TD_OK);
    cJSON_Delete(parse(&reply));
}
END_TEST

/* cJSON asks for memory in hundreds of places; each may be the one that has none. */
static int allocations_left;

static void *failing_malloc(size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

START_TEST(a_description_without_memory_is_an_error_and_no_leak)
{
    cJSON_Hooks hooks = { failing_malloc, free };
    cJSON_InitHooks(&hooks);
    td_status status = TD_MEMORY_EXHAUSTED;
    for (int allowed = 0; status != TD_OK; allowed++) {
        struct td_reply reply;
        allocations_left = allowed;
        status = td_describe_op(td_op_find("gather", 6), "/v1/plan", &test_arena, &reply, &err);
        EXPECT(status == TD_OK || status == TD_MEMORY_EXHAUSTED, "%s", err.message);
        EXPECT(allowed < 10000, "it never ends");
    }
    cJSON_InitHooks(NULL);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, all_ops_are_listed_with_their_links);
    tcase_add_test(t, every_op_is_described_and_its_example_decodes);
    tcase_add_test(t, inputs_attributes_and_errors_say_what_a_client_needs);
    tcase_add_test(t, tensors_are_listed);
    tcase_add_test(t, a_description_without_memory_is_an_error_and_no_leak);
}

int main(void)
{
    return run_suite("describe", add);
}
