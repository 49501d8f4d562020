#include "server/traces/sampler.h"
#include "tests/support/suite.h"

#include <string.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

enum { MANY = 20000 };

static const struct td_trace_context none, sampled = { TRACE, SPAN, true },
                                           unsampled = { TRACE, SPAN, false };
static char addresses[MANY]; /* of requests */

static struct td_sampler sampler_of(double fraction)
{
    return (struct td_sampler){ .fraction = fraction, .seed = { 0x1234, 0x5678 } };
}

static void check_id(const char *text, size_t digits)
{
    ck_assert_uint_eq(strlen(text), digits);
    ck_assert_uint_eq(strspn(text, "0123456789abcdef"), digits);
    ck_assert_uint_lt(strspn(text, "0"), digits);
}

TD_TEST(a_sampled_parent_is_followed_whatever_the_fraction_is)
{
    const struct td_sampler never = sampler_of(0);
    struct td_span_ids ids;
    ck_assert(td_sampler_choose(&never, &sampled, 1, addresses, &ids));
    ck_assert_str_eq(ids.trace_id, TRACE);
    ck_assert_str_eq(ids.parent_id, SPAN);
    ck_assert(ids.remote);
    check_id(ids.span_id, TD_SPAN_ID_DIGITS);
    ck_assert_str_ne(ids.span_id, SPAN);
}

TD_TEST(an_unsampled_parent_is_followed_whatever_the_fraction_is)
{
    const struct td_sampler always = sampler_of(1);
    struct td_span_ids ids;
    ck_assert(!td_sampler_choose(&always, &unsampled, 1, addresses, &ids));
}

TD_TEST(a_request_without_a_parent_begins_a_trace)
{
    const struct td_sampler always = sampler_of(1);
    struct td_span_ids ids;
    ck_assert(td_sampler_choose(&always, &none, 1, addresses, &ids));
    check_id(ids.trace_id, TD_TRACE_ID_DIGITS);
    check_id(ids.span_id, TD_SPAN_ID_DIGITS);
    ck_assert_str_eq(ids.parent_id, "");
    ck_assert(!ids.remote);
}

/* Neither the time nor the memory of a call tells requests apart alone. */
TD_TEST(requests_have_different_ids)
{
    const struct td_sampler always = sampler_of(1);
    struct td_span_ids one, other_time, other_call, other_process;
    struct td_sampler reseeded = always;
    reseeded.seed[0]++;
    ck_assert(td_sampler_choose(&always, &none, 1, addresses, &one));
    ck_assert(td_sampler_choose(&always, &none, 2, addresses, &other_time));
    ck_assert(td_sampler_choose(&always, &none, 1, addresses + 1, &other_call));
    ck_assert(td_sampler_choose(&reseeded, &none, 1, addresses, &other_process));
    ck_assert_str_ne(one.trace_id, other_time.trace_id);
    ck_assert_str_ne(one.trace_id, other_call.trace_id);
    ck_assert_str_ne(one.trace_id, other_process.trace_id);
    ck_assert_str_ne(one.span_id, other_time.span_id);
    ck_assert_str_ne(one.span_id, other_call.span_id);
}

static const double fractions[] = { 0, 0.01, 0.5, 1 };

/* Six standard deviations, so that a right sampler fails one time in a billion. */
TD_TEST_LOOP(the_fraction_is_that_of_the_chosen_requests, 0,
             (int)(sizeof fractions / sizeof *fractions))
{
    const double fraction = fractions[_i];
    const struct td_sampler sampler = sampler_of(fraction);
    struct td_span_ids ids;
    int chosen = 0;
    for (int i = 0; i < MANY; i++)
        chosen += td_sampler_choose(&sampler, &none, i * 1000, addresses + i, &ids);
    const double error = chosen - fraction * MANY, deviation2 = MANY * fraction * (1 - fraction);
    ck_assert_msg(error * error <= 36 * deviation2, "%d of %d for %f", chosen, MANY, fraction);
}

TD_TEST(children_have_their_own_ids_in_the_trace_of_the_span)
{
    const struct td_span_ids span = { .trace_id = TRACE, .span_id = SPAN, .remote = true };
    struct td_span_ids first, second;
    td_span_child_ids(&span, 1, &first);
    td_span_child_ids(&span, 2, &second);
    ck_assert_str_eq(first.trace_id, TRACE);
    ck_assert_str_eq(first.parent_id, SPAN);
    ck_assert(!first.remote);
    check_id(first.span_id, TD_SPAN_ID_DIGITS);
    ck_assert_str_ne(first.span_id, SPAN);
    ck_assert_str_ne(first.span_id, second.span_id);
}
