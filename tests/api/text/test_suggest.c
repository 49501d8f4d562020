#include "api/text/suggest.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

static const char *const known[] = { "gather", "gather_nd", "einsum", "x" };

static const struct {
    const char *says, *name, *near; /* "" when none is */
} names[] = {
    { "a letter left out", "gathr", "gather" },
    { "one too many", "einssum", "einsum" },
    { "another letter", "einsun", "einsum" },
    { "two exchanged count as one", "gather_dn", "gather_nd" },
    { "the nearer of two", "gatherr_nd", "gather_nd" },
    { "a third of its letters differ", "eimsun", "einsum" },
    { "more than a third", "eimzun", "" },
    { "nothing", "", "" },
    { "one letter means nothing", "y", "" },
    { "too long to be near", "gathergathergathergathergathergathergather", "" },
};

START_TEST(the_nearest_known_name_is_suggested)
{
    struct td_error err;
    td_error_set(&err, TD_UNKNOWN_OP, "what");
    td_suggest(&err, names[_i].name, strlen(names[_i].name), known, COUNT_OF(known));
    ck_assert_msg(strcmp(err.did_you_mean, names[_i].near) == 0, "%s: %s", names[_i].says,
                  err.did_you_mean);
    ck_assert_str_eq(err.message, "what");
}
END_TEST

START_TEST(an_unknown_name_is_refused_with_the_nearest)
{
    struct td_error err;
    ck_assert_int_eq(td_unknown_name(&err, TD_UNKNOWN_OP, "op", "gathr and more", 5, known,
                                     COUNT_OF(known), "GET /v1/ops"),
                     TD_UNKNOWN_OP);
    ck_assert_int_eq(err.status, TD_UNKNOWN_OP);
    ck_assert_str_eq(err.message,
                     "there is no op 'gathr' (did you mean 'gather'?); GET /v1/ops lists them");
    ck_assert_str_eq(err.did_you_mean, "gather");
}
END_TEST

START_TEST(an_unknown_name_that_is_near_to_none_is_refused_without)
{
    struct td_error err;
    ck_assert_int_eq(td_unknown_name(&err, TD_TENSOR_NOT_FOUND, "resident tensor", "moons", 5,
                                     known, COUNT_OF(known), "GET /v1/tensors"),
                     TD_TENSOR_NOT_FOUND);
    ck_assert_str_eq(err.message,
                     "there is no resident tensor 'moons'; GET /v1/tensors lists them");
    ck_assert_str_eq(err.did_you_mean, "");
}
END_TEST

START_TEST(a_long_name_is_cut_in_the_message)
{
    char name[1000], expected[200];
    struct td_error err;
    memset(name, 'z', sizeof name);
    td_unknown_name(&err, TD_UNKNOWN_OP, "op", name, sizeof name, known, COUNT_OF(known),
                    "GET /v1/ops");
    snprintf(expected, sizeof expected, "there is no op '%.128s'; GET /v1/ops lists them", name);
    ck_assert_str_eq(err.message, expected);
}
END_TEST

START_TEST(nobody_has_to_ask_why)
{
    td_suggest(NULL, "gathr", 5, known, COUNT_OF(known));
    ck_assert_int_eq(td_unknown_name(NULL, TD_UNKNOWN_OP, "op", "gathr", 5, known, COUNT_OF(known),
                                     "GET /v1/ops"),
                     TD_UNKNOWN_OP);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_loop_test(t, the_nearest_known_name_is_suggested, 0, COUNT_OF(names));
    tcase_add_test(t, an_unknown_name_is_refused_with_the_nearest);
    tcase_add_test(t, an_unknown_name_that_is_near_to_none_is_refused_without);
    tcase_add_test(t, a_long_name_is_cut_in_the_message);
    tcase_add_test(t, nobody_has_to_ask_why);
}

int main(void)
{
    return run_suite("suggest", add);
}
