#include "server/observe/exposition.h"
#include "tests/support/suite.h"

#include <string.h>

static char written[8192];

/* What write() appends, as a NUL-terminated text. */
static const char *text_of(void (*write)(struct td_exposition *), bool openmetrics)
{
    struct td_text text = { .at = written, .end = written + sizeof written - 1 };
    struct td_exposition exposition;
    td_exposition_begin(&exposition, &text, openmetrics);
    write(&exposition);
    td_exposition_end(&exposition);
    ck_assert(!text.full);
    *text.at = '\0';
    return written;
}

static void write_counter(struct td_exposition *e)
{
    td_family(e, "requests", TD_COUNTER, "all of them");
    td_label(e, "op", "gather");
    td_label(e, "code", "200");
    td_sample_uint(e, "", 3);
    td_sample_uint(e, "", UINT64_MAX);
}

TD_TEST(counters_end_in_total_in_both_formats)
{
    ck_assert_str_eq(text_of(write_counter, false), "# HELP requests_total all of them\n"
                                                    "# TYPE requests_total counter\n"
                                                    "requests_total{op=\"gather\",code=\"200\"} 3\n"
                                                    "requests_total 18446744073709551615\n");
    ck_assert_str_eq(text_of(write_counter, true), "# HELP requests all of them\n"
                                                   "# TYPE requests counter\n"
                                                   "requests_total{op=\"gather\",code=\"200\"} 3\n"
                                                   "requests_total 18446744073709551615\n"
                                                   "# EOF\n");
}

static void write_escapes(struct td_exposition *e)
{
    td_family(e, "g", TD_GAUGE, "escapes");
    td_label(e, "name", "a\"b\\c\nd");
    td_sample_uint(e, "", 0);
}

TD_TEST(values_of_labels_are_escaped)
{
    ck_assert_str_eq(text_of(write_escapes, false), "# HELP g escapes\n"
                                                    "# TYPE g gauge\n"
                                                    "g{name=\"a\\\"b\\\\c\\nd\"} 0\n");
}

static void write_seconds(struct td_exposition *e)
{
    td_family(e, "s", TD_HISTOGRAM, "durations");
    td_sample_seconds(e, "_sum", 0);
    td_sample_seconds(e, "_sum", 1);
    td_sample_seconds(e, "_sum", 1500000000);
    td_sample_seconds(e, "_sum", 12000000000);
    td_sample_seconds(e, "_sum", UINT64_MAX);
}

TD_TEST(durations_are_exact_to_the_nanosecond)
{
    ck_assert_str_eq(text_of(write_seconds, false), "# HELP s durations\n"
                                                    "# TYPE s histogram\n"
                                                    "s_sum 0\n"
                                                    "s_sum 0.000000001\n"
                                                    "s_sum 1.5\n"
                                                    "s_sum 12\n"
                                                    "s_sum 18446744073.709551615\n");
}

static void write_histogram(struct td_exposition *e)
{
    static const int64_t bounds[] = { 1000000, 1000000000 };
    static const uint64_t buckets[] = { 2, 3, 4 };
    td_family(e, "h", TD_HISTOGRAM, "durations");
    td_label(e, "op", "gather");
    td_sample_histogram(e, bounds, buckets, 2, 2500000000);
}

TD_TEST(buckets_are_cumulative_and_the_last_one_counts_all)
{
    ck_assert_str_eq(text_of(write_histogram, false), "# HELP h durations\n"
                                                      "# TYPE h histogram\n"
                                                      "h_bucket{op=\"gather\",le=\"0.001\"} 2\n"
                                                      "h_bucket{op=\"gather\",le=\"1\"} 5\n"
                                                      "h_bucket{op=\"gather\",le=\"+Inf\"} 9\n"
                                                      "h_count{op=\"gather\"} 9\n"
                                                      "h_sum{op=\"gather\"} 2.5\n");
    /* a canonical float there */
    ck_assert_ptr_nonnull(strstr(text_of(write_histogram, true), "le=\"1.0\"} 5\n"));
}

static void write_long_label(struct td_exposition *e)
{
    static char value[4096];
    memset(value, 'x', sizeof value - 1);
    td_family(e, "g", TD_GAUGE, "long");
    td_label(e, "name", value);
    td_label(e, "after", "it");
    td_sample_uint(e, "", 1);
    td_label(e, "name", "short");
    td_sample_uint(e, "", 2);
}

TD_TEST(a_sample_whose_labels_are_too_long_is_left_out)
{
    ck_assert_str_eq(text_of(write_long_label, false), "# HELP g long\n"
                                                       "# TYPE g gauge\n"
                                                       "g{name=\"short\"} 2\n");
}
