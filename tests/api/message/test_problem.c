#include "api/message/problem.h"
#include "tests/api/peers.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

static struct td_error err;

static const char *write(const char *op, const char *request_id)
{
    struct td_reply reply;
    td_problem_write(&err, op, request_id, &test_arena, &reply);
    ck_assert_int_eq(reply.n_chunks, 1);
    ck_assert_str_eq(reply.content_type, "application/problem+json");
    ck_assert_int_eq(reply.http_status, td_problem_of(err.status)->http_status);
    return td_arena_text(&test_arena, reply.chunks[0].data, reply.chunks[0].size, TD_IGNORED);
}

TD_TEST(an_index_out_of_bounds_has_all_its_members)
{
    td_error_set(&err, TD_INDEX_OUT_OF_BOUNDS, "indices[0,1] = 7 is not in [0, 3)");
    td_error_at_input(&err, err.status, "indices");
    err.has_index = err.has_bound = true;
    err.position_rank = 2;
    err.position[1] = 1;
    err.index = 7;
    err.bound = 3;
    err.axis = 1;
    err.bad_count = 2;
    ck_assert_str_eq(
        write("gather", "r1"),
        "{\"type\":\"/problems/index-out-of-bounds\",\"title\":\"Index out of bounds\","
        "\"status\":422,\"detail\":\"indices[0,1] = 7 is not in [0, 3)\","
        "\"code\":\"INDEX_OUT_OF_BOUNDS\",\"op\":\"gather\",\"input\":\"indices\","
        "\"position\":[0,1],\"index\":7,\"bound\":3,\"axis\":1,\"bad_count\":2,"
        "\"request_id\":\"r1\"}");
}

TD_TEST(absent_members_are_not_written)
{
    td_error_set(&err, TD_INTERNAL, "no");
    ck_assert_str_eq(write(NULL, NULL),
                     "{\"type\":\"/problems/internal\",\"title\":\"Internal error\",\"status\":500,"
                     "\"detail\":\"no\",\"code\":\"INTERNAL\"}");
    td_error_set(&err, TD_INDEX_OUT_OF_BOUNDS, "no");
    err.has_index = true;
    err.index = -1;
    err.bad_count = 1;
    ck_assert_ptr_nonnull(strstr(write(NULL, ""), "\"position\":[],\"index\":-1,\"bad_count\":1}"));
}

TD_TEST(a_key_that_was_not_found_has_all_its_members)
{
    td_error_set(&err, TD_KEY_NOT_FOUND, "no");
    td_error_at_input(&err, err.status, "queries");
    td_error_at_key(&err, err.status, "-7", 2, true);
    err.position_rank = 2;
    err.position[1] = 3;
    err.bad_count = 4;
    ck_assert_ptr_nonnull(strstr(write("find", NULL), "\"input\":\"queries\",\"position\":[0,3],"
                                                      "\"key\":-7,\"bad_count\":4}"));
    td_error_at_key(&err, err.status, "a\0\"", 3, false);
    ck_assert_ptr_nonnull(strstr(write("find", NULL), "\"key\":\"a\\u0000\\\"\""));
}

TD_TEST(a_bad_value_has_its_position)
{
    td_error_set(&err, TD_DIVISION_BY_ZERO, "no");
    td_error_at_input(&err, err.status, "y");
    err.has_position = true;
    err.position_rank = 1;
    err.position[0] = 3;
    err.bad_count = 2;
    ck_assert_ptr_nonnull(
        strstr(write("floor_mod", NULL), "\"input\":\"y\",\"position\":[3],\"bad_count\":2}"));
}

TD_TEST(a_long_key_is_cut_between_characters)
{
    char key[200];
    memset(key, 'x', sizeof key);
    memcpy(key + 127, "\xc3\xa9", 2);
    td_error_set(&err, TD_KEY_NOT_FOUND, "no");
    td_error_at_key(&err, err.status, key, sizeof key, false);
    ck_assert_uint_eq(err.key_length, 127);
    memset(key, 'x', sizeof key);
    td_error_at_key(&err, err.status, key, sizeof err.key, false);
    ck_assert_uint_eq(err.key_length, sizeof err.key - 1);
}

TD_TEST(equal_values_have_their_positions)
{
    td_error_set(&err, TD_INVALID_ARGUMENT, "no");
    err.has_equal = true;
    err.equal[0] = 2;
    err.equal[1] = 5;
    ck_assert_ptr_nonnull(strstr(write(NULL, NULL), "\"positions\":[[2],[5]]"));
}

TD_TEST(a_pointer_may_hold_a_nul)
{
    static const char pointer[] = "/par\0ams";
    td_error_set(&err, TD_MALFORMED_REQUEST, "no");
    err.has_pointer = true;
    err.pointer_length = sizeof pointer - 1;
    memcpy(err.pointer, pointer, sizeof pointer);
    ck_assert_ptr_nonnull(strstr(write(NULL, NULL), "\"pointer\":\"/par\\u0000ams\""));
}

TD_TEST(the_root_pointer_is_written_although_it_is_empty)
{
    td_error_set(&err, TD_MALFORMED_REQUEST, "no");
    err.has_pointer = true;
    ck_assert_ptr_nonnull(strstr(write(NULL, NULL), "\"pointer\":\"\""));
}

TD_TEST(shapes_suggestions_and_limits_are_members)
{
    struct td_shape scalar = shape("[]"), matrix = shape("[2,3]");
    td_error_resource(&err, "output_bytes", UINT64_MAX, 12, "the output");
    td_error_add_shape(&err, "params", &matrix);
    td_error_add_shape(&err, "indices", &scalar);
    strcpy(err.did_you_mean, "gather");
    strcpy(err.etag, "\"a1\"");
    strcpy(err.attribute, "axis");
    err.offset = 0;
    const char *text = write("op", NULL);
    ck_assert_ptr_nonnull(strstr(text, "\"shapes\":{\"params\":[2,3],\"indices\":[]}"));
    ck_assert_ptr_nonnull(strstr(text, "\"did_you_mean\":\"gather\""));
    ck_assert_ptr_nonnull(strstr(text, "\"etag\":\"\\\"a1\\\"\""));
    ck_assert_ptr_nonnull(strstr(text, "\"attribute\":\"axis\""));
    ck_assert_ptr_nonnull(strstr(text, "\"offset\":0"));
    ck_assert_ptr_nonnull(
        strstr(text, "\"resource\":\"output_bytes\",\"needed\":18446744073709551615,\"limit\":12"));
}

TD_TEST(hostile_text_is_escaped)
{
    td_error_set(&err, TD_UNKNOWN_OP, "a\"b\\c\x01\xff\xc3\xa9");
    ck_assert_ptr_nonnull(
        strstr(write("\"}", "\n"), "\"detail\":\"a\\\"b\\\\c\\u0001\xef\xbf\xbd\xc3\xa9\""));
    ck_assert_ptr_nonnull(strstr(write("\"}", "\n"), "\"op\":\"\\\"}\""));
    ck_assert_ptr_nonnull(strstr(write("\"}", "\n"), "\"request_id\":\"\\n\""));
}

/* Every string filled with characters that need the longest escapes, every number with the most
 * digits. */
TD_TEST(the_longest_problem_fits)
{
    char request_id[1000];
    struct td_shape large = { .rank = TD_MAX_RANK };
    td_error_set(&err, TD_RESOURCE_LIMIT, "x");
    memset(err.message, 1, sizeof err.message - 1);
    memset(err.input, 1, sizeof err.input - 1);
    memset(err.attribute, 1, sizeof err.attribute - 1);
    memset(err.pointer, 1, sizeof err.pointer - 1);
    memset(err.did_you_mean, 1, sizeof err.did_you_mean - 1);
    memset(err.etag, 1, sizeof err.etag - 1);
    memset(err.label, 1, sizeof err.label - 1);
    memset(err.resource, 1, sizeof err.resource - 1);
    memset(request_id, 1, sizeof request_id - 1);
    request_id[sizeof request_id - 1] = '\0';
    memset(err.key, 1, sizeof err.key - 1);
    err.key_length = sizeof err.key - 1;
    err.has_key = err.has_equal = true;
    err.equal[0] = err.equal[1] = INT64_MAX;
    err.pointer_length = sizeof err.pointer - 1;
    err.has_pointer = err.has_index = err.has_bound = true;
    err.has_extents = true;
    err.extents[0] = err.extents[1] = INT64_MIN;
    err.offset = INT64_MAX;
    err.index = err.bound = err.bad_count = INT64_MIN;
    err.axis = INT32_MIN;
    err.needed = err.limit = UINT64_MAX;
    err.position_rank = TD_MAX_RANK;
    for (int i = 0; i < TD_MAX_RANK; i++)
        large.dim[i] = err.position[i] = INT64_MAX;
    char name[64];
    memset(name, 1, sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 3; i++)
        td_error_add_shape(&err, name, &large);
    ck_assert_int_eq(err.n_shapes, 3);
    const char *text = write(name, request_id);
    ck_assert_ptr_nonnull(strstr(text, "\"limit\":18446744073709551615"));
    ck_assert_int_eq(peer_reads_json(text, strlen(text)), 1);
}

TD_TEST(without_memory_the_problem_has_code_and_status)
{
    struct td_arena arena;
    struct td_reply reply;
    char first[16];
    td_arena_init(&arena, first, sizeof first, &no_memory);
    td_error_set(&err, TD_QUEUE_FULL, "full");
    td_problem_write(&err, "gather", "r", &arena, &reply);
    ck_assert_int_eq(reply.http_status, 429);
    static const char body[] = "{\"type\":\"/problems/queue-full\",\"title\":\"Queue full\","
                               "\"status\":429,\"code\":\"QUEUE_FULL\"}";
    ck_assert_uint_eq(reply.chunks[0].size, sizeof body - 1);
    ck_assert_mem_eq(reply.chunks[0].data, body, sizeof body - 1);
    td_arena_reset(&arena);
}

TD_TEST(a_document_may_be_in_the_formats_of_both_v1_and_v2)
{
    static const char whole[] =
        "{\"error\":\"too \\\"late\\\"\",\"type\":\"/problems/request-timeout\","
        "\"title\":\"Request timeout\",\"status\":408,\"detail\":\"too \\\"late\\\"\","
        "\"code\":\"REQUEST_TIMEOUT\",\"request_id\":\"r1\"}\n";
    static const char titled[] =
        "{\"error\":\"too \\\"late\\\"\",\"type\":\"/problems/request-timeout\","
        "\"title\":\"Late\",\"detail\":\"too \\\"late\\\"\",\"code\":\"REQUEST_TIMEOUT\"}\n";
    char text[512];
    td_error_set(&err, TD_REQUEST_TIMEOUT, "too \"late\"");
    ck_assert_uint_eq(td_problem_print(&err, NULL, "r1", text, sizeof text), sizeof whole - 1);
    ck_assert_mem_eq(text, whole, sizeof whole - 1);
    ck_assert_uint_eq(td_problem_print(&err, "Late", "", text, sizeof text), sizeof titled - 1);
    ck_assert_mem_eq(text, titled, sizeof titled - 1);
    ck_assert_uint_eq(td_problem_print(&err, NULL, "r1", text, sizeof whole - 1), sizeof whole - 1);
    ck_assert_uint_eq(td_problem_print(&err, NULL, "r1", text, sizeof whole - 2), 0);
}

static const struct {
    td_status status;
    int http;
} statuses[] = {
    { TD_MALFORMED_REQUEST, 400 },
    { TD_INDEX_OUT_OF_BOUNDS, 422 },
    { TD_SHAPE_MISMATCH, 422 },
    { TD_INVALID_AXIS, 422 },
    { TD_INVALID_BATCH_DIMS, 422 },
    { TD_INVALID_EQUATION, 422 },
    { TD_UNSUPPORTED_DTYPE, 422 },
    { TD_INVALID_ARGUMENT, 422 },
    { TD_KEY_NOT_FOUND, 422 },
    { TD_DIVISION_BY_ZERO, 422 },
    { TD_UNKNOWN_OP, 404 },
    { TD_TENSOR_NOT_FOUND, 404 },
    { TD_NOT_FOUND, 404 },
    { TD_METHOD_NOT_ALLOWED, 405 },
    { TD_NOT_ACCEPTABLE, 406 },
    { TD_UNSUPPORTED_MEDIA_TYPE, 415 },
    { TD_PRECONDITION_FAILED, 412 },
    { TD_CONFLICT, 409 },
    { TD_PAYLOAD_TOO_LARGE, 413 },
    { TD_RANGE_NOT_SATISFIABLE, 416 },
    { TD_RESOURCE_LIMIT, 422 },
    { TD_UNAUTHENTICATED, 401 },
    { TD_FORBIDDEN, 403 },
    { TD_REQUEST_TIMEOUT, 408 },
    { TD_CLIENT_LIMIT, 429 },
    { TD_CONNECTION_LIMIT, 503 },
    { TD_QUEUE_FULL, 429 },
    { TD_MEMORY_EXHAUSTED, 503 },
    { TD_DRAINING, 503 },
    { TD_DATA_DIR_LOCKED, 503 },
    { TD_DEVICE_UNAVAILABLE, 503 },
    { TD_DEADLINE_EXCEEDED, 504 },
    { TD_NOT_SUPPORTED, 501 },
    { TD_INTERNAL, 500 },
};

TD_TEST_EACH(every_code_has_a_status_and_a_page, statuses)
{
    td_status status = statuses[_i].status;
    const struct td_problem *problem = td_problem_of(status);
    struct td_reply reply;
    char slug[64];
    ck_assert_int_eq(COUNT_OF(statuses), TD_STATUS_COUNT - 1);
    ck_assert_msg(problem->http_status == statuses[_i].http, "%s", td_status_name(status));
    /* The slug is the code in lower case. */
    snprintf(slug, sizeof slug, "%s", td_status_name(status));
    for (char *at = slug; *at; at++)
        *at = *at == '_' ? '-' : (char)(*at | 0x20);
    ck_assert_str_eq(problem->slug, slug);
    ck_assert_int_eq(td_problem_from_slug(slug, strlen(slug)), status);
    ck_assert_int_eq(td_problem_describe(status, &test_arena, &reply, &err), TD_OK);
    const char *text = td_arena_text(&test_arena, reply.chunks[0].data, reply.chunks[0].size, &err);
    ck_assert_ptr_nonnull(strstr(text, "\"explanation\":\""));
    ck_assert_ptr_nonnull(strstr(text, td_status_name(status)));
    ck_assert_int_eq(peer_reads_json(text, strlen(text)), 1);
}

TD_TEST(other_slugs_have_no_page)
{
    ck_assert_int_eq(td_problem_from_slug("x", 1), TD_OK);
    ck_assert_int_eq(td_problem_from_slug("", 0), TD_OK);
    ck_assert_int_eq(td_problem_from_slug("internal-", 9), TD_OK);
    ck_assert_int_eq(td_problem_from_slug("no-problem", 10), TD_OK);
}

/* A client waits where the reason is over soon, and as long as the queue takes. */
TD_TEST(the_time_to_wait_is_that_of_the_error_or_of_its_code)
{
    static const td_status waits[] = { TD_CLIENT_LIMIT, TD_CONNECTION_LIMIT, TD_MEMORY_EXHAUSTED,
                                       TD_DATA_DIR_LOCKED };
    err = (struct td_error){ .status = TD_QUEUE_FULL, .retry_after_s = 7 };
    ck_assert_uint_eq(td_problem_retry_after_s(&err), 7);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        err = (struct td_error){ .status = waits[i] };
        ck_assert_uint_eq(td_problem_retry_after_s(&err), 1);
    }
    err = (struct td_error){ .status = TD_INDEX_OUT_OF_BOUNDS };
    ck_assert_uint_eq(td_problem_retry_after_s(&err), 0);
}
