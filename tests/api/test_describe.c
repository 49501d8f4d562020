#include "api/describe.h"
#include "api/message/message.h"
#include "kernels/op_check.h"
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
    cJSON *document = cJSON_ParseWithLength(reply->chunks[0].data, reply->chunks[0].size);
    ck_assert_msg(document, "%.*s", (int)reply->chunks[0].size,
                  (const char *)reply->chunks[0].data);
    return document;
}

static const char *text_at(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    ck_assert_msg(text, "no %s", name);
    return text;
}

static const char *family_of(const cJSON *list, const char *op)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(text_at(item, "name"), op) == 0)
            return text_at(item, "family");
    }
    return "";
}

TD_TEST(all_ops_are_listed_with_their_links)
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
        ck_assert_str_ne(text_at(item, "family"), "");
        ck_assert_str_eq(text_at(item, "summary"), ops[i]->summary);
        snprintf(link, sizeof link, "POST /v1/%s", ops[i]->name);
        ck_assert_str_eq(text_at(item, "endpoint"), link);
        snprintf(link, sizeof link, "/v1/ops/%s", ops[i]->name);
        ck_assert_str_eq(text_at(item, "href"), link);
    }
    ck_assert_str_eq(family_of(list, "batch_gather"), "gather");
    ck_assert_str_eq(family_of(list, "add"), "elementwise");
    const cJSON *table_ops = cJSON_GetObjectItemCaseSensitive(document, "table_ops");
    ck_assert_str_eq(text_at(table_ops, "rows"), "gather");
    ck_assert_str_eq(text_at(table_ops, "row_numbers"), "find");
    ck_assert_str_eq(text_at(table_ops, "nearest_rows"), "search");
    char *parts = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(document, "table_parts"));
    ck_assert_str_eq(parts, "[\"scale\",\"offset\",\"zero_point\"]");
    cJSON_free(parts);
    cJSON_Delete(document);
}

/* Decodes an example, and runs the op. */
static void expect_success(const struct td_op *op, const cJSON *example)
{
    char *body = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(example, "request"));
    struct decoded decoded;
    decode_json(&decoded, op, body, strlen(body), NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s: %s", op->name, decoded.err.message);
    struct td_op_args *args = &decoded.request.args;
    EXPECT_OK(td_op_infer(op, args, &test_arena, &err), &err);
    for (int i = 0; i < args->n_outputs; i++)
        EXPECT_OK(td_tensor_alloc(&args->outputs[i], &test_arena, &err), &err);
    struct td_exec exec;
    td_exec_serial(&exec, &test_arena);
    ck_assert_msg(op->run(args, &exec, &err) == TD_OK, "%s: %s: %s", op->name, body, err.message);
    cJSON_free(body);
}

TD_TEST(every_op_is_described_and_its_examples_run)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++) {
        const struct td_op *op = ops[i];
        struct td_reply reply;
        ck_assert_int_eq(td_describe_op(op, &test_arena, &reply, &err), TD_OK);
        cJSON *document = parse(&reply);
        ck_assert_str_eq(text_at(document, "name"), op->name);
        ck_assert_str_eq(text_at(document, "source"), op->source);
        const bool one = td_op_output_form(op) == TD_OUTPUT_ONE;
        ck_assert_str_eq(text_at(document, "output"), one ? "output" : "outputs");
        const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(document, "outputs");
        ck_assert_int_eq(cJSON_GetArraySize(outputs), op->n_outputs);
        for (int k = 0; k < op->n_outputs; k++) {
            const cJSON *output = cJSON_GetArrayItem(outputs, k);
            ck_assert_str_eq(text_at(output, "name"), op->outputs[k].name);
            ck_assert_str_eq(text_at(output, "shape_rule"), op->outputs[k].shape_rule);
        }
        if (op->n_outputs == 1)
            ck_assert_str_eq(text_at(document, "shape_rule"), op->outputs[0].shape_rule);
        ck_assert_int_eq(
            (int)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(document, "max_rank")),
            TD_MAX_RANK);
        ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(document, "inputs")),
                         op->n_inputs);
        ck_assert_int_eq(
            cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(document, "attributes")),
            op->n_attrs);
        const cJSON *examples = cJSON_GetObjectItemCaseSensitive(document, "examples"), *at;
        const struct td_op_example *wanted = op->examples;
        cJSON_ArrayForEach(at, examples)
        {
            ck_assert_str_eq(text_at(at, "title"), wanted++->title);
            expect_success(op, at);
        }
        ck_assert_ptr_null(wanted->title);
        ck_assert(cJSON_Compare(
            cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(document, "example"),
                                             "request"),
            cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(examples, 0), "request"), true));
        cJSON_Delete(document);
    }
}

TD_TEST(inputs_attributes_and_errors_are_described)
{
    struct td_reply reply;
    ck_assert_int_eq(td_describe_op(&list_op, &test_arena, &reply, &err), TD_OK);
    cJSON *document = parse(&reply);
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
    ck_assert_ptr_nonnull(
        strstr(attrs, "\"default\":\"large\",\"values\":[\"small\",\"large\",\"huge\"]"));
    ck_assert_ptr_nonnull(strstr(attrs, "\"type\":\"int64[]\",\"required\":false,"
                                        "\"default\":\"all\",\"minimum\":-16,\"maximum\":15}"));
    ck_assert_ptr_nonnull(
        strstr(attrs, "\"type\":\"float64\",\"required\":false,\"default\":1e-05,\"minimum\":0}"));
    ck_assert_ptr_nonnull(strstr(attrs, "\"type\":\"bool\",\"required\":false,\"default\":true}"));
    ck_assert_ptr_nonnull(strstr(attrs,
                                 "\"type\":\"dtype\",\"required\":false,\"default\":\"int16\","
                                 "\"values\":[\"int16\",\"int32\",\"int64\"]}"));
    cJSON_free(attrs);
    char *errors = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(document, "errors"));
    ck_assert_str_eq(errors, "[{\"code\":\"INVALID_ARGUMENT\",\"status\":422,"
                             "\"type\":\"/problems/invalid-argument\"}]");
    cJSON_free(errors);
    cJSON_Delete(document);
}

static const struct {
    const char *op, *rows, *parts; /* the parts of the inputs, with the input they align with */
} structures[] = {
    { "gather", "{\"query_rank\":0,\"axis\":\"axis\",\"batch_dims\":\"batch_dims\"}",
      "table query" },
    { "batch_gather", "{\"query_rank\":0,\"batch_dims\":-1}", "table query" },
    { "gather_nd", "{\"query_rank\":1,\"batch_dims\":\"batch_dims\"}", "table query" },
    { "lookup", "{\"query_rank\":0,\"batch_dims\":0}", "table per_row query per_query" },
    { "embedding_bag", "{\"query_rank\":0,\"batch_dims\":0,\"skip\":\"padding_index\"}",
      "table query offsets segments per_query per_row per_row per_row" },
    { "dynamic_partition", NULL, "- :data" },
    { "dynamic_stitch", NULL, ":data -" },
};

TD_TEST_EACH(the_parts_of_rows_are_described, structures)
{
    struct td_reply reply;
    char parts[128] = "";
    const char *name = structures[_i].op;
    ck_assert_int_eq(td_describe_op(td_op_named(name, strlen(name)), &test_arena, &reply, &err),
                     TD_OK);
    cJSON *document = parse(&reply);
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(document, "rows"), *input;
    char *text = rows ? cJSON_PrintUnformatted(rows) : NULL;
    ck_assert_pstr_eq(text, structures[_i].rows);
    cJSON_free(text);
    cJSON_ArrayForEach(input, cJSON_GetObjectItemCaseSensitive(document, "inputs"))
    {
        const cJSON *part = cJSON_GetObjectItemCaseSensitive(input, "part"),
                    *aligned = cJSON_GetObjectItemCaseSensitive(input, "aligned_with");
        snprintf(parts + strlen(parts), sizeof parts - strlen(parts), "%s%s%s", *parts ? " " : "",
                 part      ? part->valuestring
                 : aligned ? ":"
                           : "-",
                 aligned ? aligned->valuestring : "");
    }
    ck_assert_str_eq(parts, structures[_i].parts);
    cJSON_Delete(document);
}

TD_TEST(the_endpoint_of_a_plan_is_named)
{
    struct td_reply reply;
    ck_assert_int_eq(td_describe_op(td_op_named("einsum", 6), &test_arena, &reply, &err), TD_OK);
    cJSON *document = parse(&reply);
    ck_assert_str_eq(text_at(document, "plan"), "POST /v1/einsum/plan");
    cJSON_Delete(document);
}

TD_TEST(roles_and_named_outputs_are_described)
{
    struct td_reply reply;
    ck_assert_int_eq(td_describe_op(&pair_op, &test_arena, &reply, &err), TD_OK);
    cJSON *document = parse(&reply);
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(document, "inputs");
    const cJSON *keys = cJSON_GetArrayItem(inputs, 2);
    ck_assert_str_eq(text_at(keys, "role"), "key");
    ck_assert(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(keys, "optional")));
    ck_assert_str_eq(text_at(document, "output"), "outputs");
    ck_assert_ptr_null(cJSON_GetObjectItemCaseSensitive(document, "shape_rule"));
    char *outputs = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(document, "outputs"));
    ck_assert_ptr_nonnull(strstr(outputs, "\"string\"],\"dtype_of\":\"x\",\"shape_rule\":"));
    ck_assert_ptr_nonnull(strstr(outputs,
                                 "{\"name\":\"places\",\"summary\":\"Places.\",\"list\":false,"
                                 "\"dtypes\":[\"int32\"],\"shape_rule\":\"x.shape\"}"));
    cJSON_free(outputs);
    cJSON_Delete(document);
}

/* The body of a reply, NUL-terminated. */
static const char *said(const struct td_reply *reply)
{
    cJSON_Delete(parse(reply));
    return td_arena_text(&test_arena, reply->chunks[0].data, reply->chunks[0].size, &err);
}

TD_TEST(tensors_are_listed)
{
    struct td_reply reply;
    struct td_tensor table = tensor_without_data("float32[9007199254740993,0]"),
                     names = tensor("string[2] 'ab' 'c'");
    const struct td_tensor_listing list[] = {
        { .name = "table",
          .tensor = &table,
          .source = "ta\"ble.npy",
          .version = UINT64_MAX,
          .etag = "\"a1\"",
          .integrity = TD_INTEGRITY_PENDING,
          .persisted = true },
        { .name = "names", .tensor = &names, .version = 2, .etag = "\"b2\"" },
    };
    static const char first[] =
        "{\"name\":\"table\",\"dtype\":\"float32\",\"shape\":[9007199254740993,0],\"bytes\":0,"
        "\"version\":18446744073709551615,\"etag\":\"\\\"a1\\\"\",\"source\":\"ta\\\"ble.npy\","
        "\"checksum\":\"pending\",\"persisted\":true}",
                      second[] = "{\"name\":\"names\",\"dtype\":\"string\",\"shape\":[2],"
                                 "\"bytes\":27,\"version\":2,\"etag\":\"\\\"b2\\\"\","
                                 "\"persisted\":false}";
    char want[1024];
    snprintf(want, sizeof want, "{\"tensors\":[%s,%s]}", first, second);
    ck_assert_int_eq(td_describe_tensors(list, 2, false, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(said(&reply), want);
    ck_assert_int_eq(td_describe_tensor(&list[1], &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(said(&reply), second);
    ck_assert_int_eq(td_describe_tensors(NULL, 0, false, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(said(&reply), "{\"tensors\":[]}");
    snprintf(want, sizeof want, "{\"tensors\":[%s,%s],\"next\":\"names\"}", first, second);
    ck_assert_int_eq(td_describe_tensors(list, 2, true, &test_arena, &reply, &err), TD_OK);
    ck_assert_str_eq(said(&reply), want);
}

TD_TEST(the_longest_listings_fit)
{
    enum { COUNT = 100 };
    struct td_reply reply;
    struct td_shape widest = { .rank = TD_MAX_RANK };
    struct td_tensor table;
    char name[129], source[256], etag[64];
    memset(name, '\x01', sizeof name - 1); /* each byte is escaped as six */
    memset(source, '\x01', sizeof source - 1);
    memset(etag, '\x01', sizeof etag - 1);
    name[sizeof name - 1] = source[sizeof source - 1] = etag[sizeof etag - 1] = '\0';
    for (int d = 1; d < TD_MAX_RANK; d++)
        widest.dim[d] = INT64_MAX;
    ck_assert_int_eq(td_tensor_describe(&table, "table", TD_DTYPE_COMPLEX128, &widest, &err),
                     TD_OK);
    struct td_tensor_listing list[COUNT];
    for (int i = 0; i < COUNT; i++)
        list[i] = (struct td_tensor_listing){
            .name = name, .tensor = &table, .source = source, .version = UINT64_MAX, .etag = etag
        };
    ck_assert_int_eq(td_describe_tensors(list, COUNT, true, &test_arena, &reply, &err), TD_OK);
    cJSON *document = parse(&reply);
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(document, "tensors");
    ck_assert_int_eq(cJSON_GetArraySize(items), COUNT);
    ck_assert_str_eq(text_at(cJSON_GetArrayItem(items, COUNT - 1), "source"), source);
    cJSON_Delete(document);
    ck_assert_int_eq(td_describe_tensor(list, &test_arena, &reply, &err), TD_OK);
    cJSON_Delete(parse(&reply));
}

/* Into as much text as td_describe_stored_bound asks for. */
static void describe_stored(const struct td_request *request,
                            const struct td_tensor_listing *stored, struct td_reply *reply)
{
    const size_t size = td_describe_stored_bound(request->args.n_outputs);
    char *text = td_arena_alloc(&test_arena, size, 1, TD_IGNORED);
    ck_assert_ptr_nonnull(text);
    td_describe_stored(request, stored, text, size, reply);
}

TD_TEST(stored_outputs_with_the_longest_descriptions_fit)
{
    struct td_reply reply;
    struct td_request request;
    struct td_tensor outputs[100];
    struct td_tensor_listing stored[COUNT_OF(outputs)];
    char name[129], etag[41];
    memset(name, 'x', sizeof name - 1);
    memset(etag, 'e', sizeof etag - 1);
    name[sizeof name - 1] = etag[sizeof etag - 1] = '\0';
    etag[0] = etag[sizeof etag - 2] = '"';
    for (size_t i = 0; i < COUNT_OF(outputs); i++) {
        outputs[i] = tensor("complex128[1] 1 0");
        outputs[i].shape.rank = TD_MAX_RANK;
        for (int j = 0; j < TD_MAX_RANK; j++)
            outputs[i].shape.dim[j] = INT64_MAX;
        stored[i] = (struct td_tensor_listing){
            .name = name, .tensor = &outputs[i], .version = UINT64_MAX, .etag = etag
        };
    }
    td_request_init(&request, &list_op);
    request.args.outputs = outputs;
    request.args.n_outputs = COUNT_OF(outputs);
    describe_stored(&request, stored, &reply);
    cJSON_Delete(parse(&reply));
}

TD_TEST(a_stored_output_is_described_in_the_reply)
{
    struct td_reply reply;
    struct td_request request;
    struct td_tensor outputs[] = { tensor("int32[2] 1 2"), tensor("int32[1] 3") };
    const struct td_tensor_listing stored[] = {
        { .name = "x.0", .tensor = &outputs[0], .version = 1, .etag = "\"1\"" },
        { .name = "x.1", .tensor = &outputs[1], .version = 5, .etag = "\"5\"" },
    };
    static const char one[] = "{\"name\":\"x.0\",\"dtype\":\"int32\",\"shape\":[2],\"bytes\":8,"
                              "\"version\":1,\"etag\":\"\\\"1\\\"\",\"persisted\":false}",
                      two[] = "{\"name\":\"x.1\",\"dtype\":\"int32\",\"shape\":[1],\"bytes\":4,"
                              "\"version\":5,\"etag\":\"\\\"5\\\"\",\"persisted\":false}";
    char want[512];
    td_request_init(&request, td_op_named("gather", 6));
    request.args.outputs = outputs;
    request.args.n_outputs = 1;
    describe_stored(&request, stored, &reply);
    snprintf(want, sizeof want, "{\"output\":%s}", one);
    ck_assert_str_eq(said(&reply), want);
    request.args.replaced = 3;
    describe_stored(&request, stored, &reply);
    snprintf(want, sizeof want, "{\"output\":%s,\"bounds\":{\"policy\":\"error\",\"replaced\":3}}",
             one);
    ck_assert_str_eq(said(&reply), want);
    td_request_init(&request, &list_op);
    request.args.outputs = outputs;
    request.args.n_outputs = 2;
    describe_stored(&request, stored, &reply);
    snprintf(want, sizeof want, "{\"outputs\":[%s,%s]}", one, two);
    ck_assert_str_eq(said(&reply), want);
    request.args.n_outputs = 0;
    describe_stored(&request, stored, &reply);
    ck_assert_str_eq(said(&reply), "{\"outputs\":[]}");
    td_request_init(&request, &pair_op);
    request.args.outputs = outputs;
    request.args.n_outputs = 2;
    describe_stored(&request, stored, &reply);
    snprintf(want, sizeof want, "{\"outputs\":{\"values\":%s,\"places\":%s}}", one, two);
    ck_assert_str_eq(said(&reply), want);
}

/* cJSON allocates memory at hundreds of places; each allocation fails once. */
static int allocations_left;

static void *failing_malloc(size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

TD_TEST(a_description_without_memory_is_an_error_and_no_leak)
{
    cJSON_Hooks hooks = { failing_malloc, free };
    cJSON_InitHooks(&hooks);
    td_status status = TD_MEMORY_EXHAUSTED;
    for (int allowed = 0; status != TD_OK; allowed++) {
        struct td_reply reply;
        allocations_left = allowed;
        status = td_describe_op(td_op_named("einsum", 6), &test_arena, &reply, &err);
        EXPECT(status == TD_OK || status == TD_MEMORY_EXHAUSTED, "%s", err.message);
        EXPECT(allowed < 10000, "it never ends");
    }
    cJSON_InitHooks(NULL);
}

TD_FIXTURE(NULL, bodies_free);
