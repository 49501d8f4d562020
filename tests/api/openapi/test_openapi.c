#include "api/openapi/openapi.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <cjson/cJSON.h>

#include <stdio.h>
#include <string.h>

static struct td_error err;

static cJSON *document_of(const struct td_openapi_route *routes, int n)
{
    struct td_reply reply = { 0 };
    ck_assert_int_eq(td_openapi_reply(routes, n, "1.2.3", &test_arena, &reply, &err), TD_OK);
    ck_assert_int_eq(reply.http_status, 200);
    ck_assert_str_eq(reply.content_type, "application/json");
    cJSON *document = cJSON_ParseWithLength(reply.chunks[0].data, reply.chunks[0].size);
    ck_assert_ptr_nonnull(document);
    return document;
}

static const cJSON *at(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    ck_assert_msg(found, "no %s", name);
    return found;
}

/* The object, or the component to which it refers. */
static const cJSON *resolved(const cJSON *document, const cJSON *object)
{
    const char *ref = cJSON_GetStringValue(cJSON_GetObjectItem(object, "$ref"));
    char kind[32], name[96];
    if (!ref)
        return object;
    ck_assert_int_eq(sscanf(ref, "#/components/%31[^/]/%95s", kind, name), 2);
    return at(at(at(document, "components"), kind), name);
}

TD_TEST(the_route_of_ops_has_a_path_for_each_op)
{
    const struct td_openapi_route routes[] = { { "post", "/v1/{op}", false, NULL } };
    cJSON *document = document_of(routes, 1);
    const cJSON *paths = at(document, "paths");
    int count;
    const struct td_op *const *ops = td_ops(&count);
    ck_assert_int_eq(cJSON_GetArraySize(paths), count);
    for (int i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/v1/%s", ops[i]->name);
        const cJSON *operation = at(at(paths, path), "post");
        ck_assert_str_eq(cJSON_GetStringValue(at(operation, "summary")), ops[i]->summary);
    }
    cJSON_Delete(document);
}

TD_TEST(a_path_with_the_table_has_lookups_alone_and_no_first_input)
{
    const struct td_openapi_route routes[] = { { "post", "/v1/tensors/{table}/{row_op}", false,
                                                 NULL } };
    cJSON *document = document_of(routes, 1);
    const cJSON *paths = at(document, "paths");
    ck_assert_ptr_null(cJSON_GetObjectItem(paths, "/v1/tensors/{table}/concat"));
    const cJSON *operation = at(at(paths, "/v1/tensors/{table}/gather"), "post");
    const cJSON *body = at(at(operation, "requestBody"), "content");
    const cJSON *schema = at(at(body, "application/json"), "schema");
    const cJSON *members = at(resolved(document, schema), "properties");
    ck_assert_ptr_null(cJSON_GetObjectItem(members, "params"));
    ck_assert_ptr_nonnull(cJSON_GetObjectItem(members, "indices"));
    cJSON_Delete(document);
}

TD_TEST(a_route_without_a_line_is_described_by_its_path)
{
    const struct td_openapi_route routes[] = { { "get", "/new/{name}", true, NULL },
                                               { "post", "/new/{name}", false, NULL } };
    cJSON *document = document_of(routes, 2);
    const cJSON *item = at(at(document, "paths"), "/new/{name}");
    ck_assert_str_eq(cJSON_GetStringValue(at(at(item, "get"), "operationId")), "get_new_name");
    ck_assert_int_eq(cJSON_GetArraySize(at(at(item, "get"), "security")), 0);
    ck_assert_ptr_null(cJSON_GetObjectItem(at(item, "post"), "security"));
    cJSON_Delete(document);
}

/* The parameter of this name in a query string; NULL if there is none. */
static const cJSON *query_of(const cJSON *document, const cJSON *operation, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, at(operation, "parameters"))
    {
        const cJSON *parameter = resolved(document, item);
        const char *own = cJSON_GetStringValue(cJSON_GetObjectItem(parameter, "name"));
        const char *in = cJSON_GetStringValue(cJSON_GetObjectItem(parameter, "in"));
        if (own && strcmp(own, name) == 0 && strcmp(in, "query") == 0)
            return parameter;
    }
    return NULL;
}

TD_TEST(attributes_are_parameters_of_the_query)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    for (int i = 0; i < count; i++) {
        char path[64];
        const struct td_openapi_route routes[] = { { "post", "/v1/{op}", false, NULL },
                                                   { "post", "/one", false, ops[i] },
                                                   { "post", "/other", false, NULL } };
        cJSON *document = document_of(routes, 3);
        const cJSON *paths = at(document, "paths");
        snprintf(path, sizeof path, "/v1/%s", ops[i]->name);
        for (int k = 0; k < ops[i]->n_attrs; k++) {
            const struct td_attr_spec *spec = &ops[i]->attrs[k];
            const cJSON *parameter = query_of(document, at(at(paths, path), "post"), spec->name);
            ck_assert_msg(parameter != NULL, "%s: %s", path, spec->name);
            ck_assert_int_eq(cJSON_HasObjectItem(parameter, "explode"), spec->kind == TD_ATTR_INTS);
            ck_assert_ptr_nonnull(query_of(document, at(at(paths, "/one"), "post"), spec->name));
            ck_assert_ptr_null(query_of(document, at(at(paths, "/other"), "post"), spec->name));
        }
        cJSON_Delete(document);
    }
}
