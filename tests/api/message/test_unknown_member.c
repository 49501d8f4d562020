#include "api/message/message.h"
#include "api/message/unknown_member.h"
#include "tests/api/request.h"
#include "tests/support/suite.h"

#include <string.h>

static struct td_request request;
static struct td_error err;

static void begin(void)
{
    td_request_init(&request, &list_op);
}

static const struct {
    const char *name, *near;
} unknown[] = {
    { "cuont", "count" },
    { "coun", "count" },
    { "equations", "equation" },
    { "devcie", "device" },
    { "xyz", "" },
    { "c", "" },
    { "", "" },
    { "repsonse", "response" },
    { "bonds", "bounds" },
    { "a very long name that is near to nothing at all, of course", "" },
};

TD_TEST_EACH(unknown_names_get_the_nearest_known, unknown)
{
    begin();
    td_status status =
        td_unknown_member(&request, unknown[_i].name, strlen(unknown[_i].name), TD_QUERY, &err);
    ck_assert_int_eq(status, TD_MALFORMED_REQUEST);
    ck_assert_msg(strcmp(err.did_you_mean, unknown[_i].near) == 0, "%s: %s", unknown[_i].name,
                  err.did_you_mean);
    EXPECT_MESSAGE(&err, TD_QUERY);
}

TD_TEST(the_error_of_an_unknown_member_lists_the_members)
{
    char other[] = "zzz";
    begin();
    td_unknown_member(&request, other, 3, TD_MEMBER, &err);
    EXPECT_MESSAGE(&err, "expected lists, ints, ");
    EXPECT_MESSAGE(&err, "device, response, timing, store, store.ttl_s, output_dtype");
    request.args.inputs[0].count = 1; /* by the path */
    td_unknown_member(&request, other, 3, TD_MEMBER, &err);
    EXPECT_MESSAGE(&err, "expected ints, count, ");
    request.args.inputs[0].count = 0;
    td_unknown_member(&request, other, 3, TD_QUERY, &err);
    EXPECT_MESSAGE(&err, "expected count, ");
}

TD_TEST(an_input_in_the_query_has_its_own_message)
{
    begin();
    td_unknown_member(&request, "ints", 4, TD_QUERY, &err);
    EXPECT_MESSAGE(&err, "input");
    ck_assert_str_eq(err.did_you_mean, "");
}
