#include "server/observe/trace_context.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN  "00f067aa0ba902b7"

static const struct {
    const char *description, *header;
} valid[] = {
    { "sampled", "00-" TRACE "-" SPAN "-01" },
    { "not sampled", "00-" TRACE "-" SPAN "-00" },
    { "flags of later versions", "00-" TRACE "-" SPAN "-ff" },
    { "a later version of the same length", "cc-" TRACE "-" SPAN "-01" },
    { "a later version with more fields", "01-" TRACE "-" SPAN "-01-what-the-future-brings" },
    { "a later version with an empty field", "fe-" TRACE "-" SPAN "-01-" },
};

TD_TEST_EACH(a_valid_header_has_both_ids, valid)
{
    struct td_trace_context trace;
    ck_assert_msg(td_trace_context_read(valid[_i].header, &trace), "%s", valid[_i].description);
    ck_assert_str_eq(trace.trace_id, TRACE);
    ck_assert_str_eq(trace.span_id, SPAN);
}

static const struct {
    const char *description, *header;
} invalid[] = {
    { "none", NULL },
    { "empty", "" },
    { "version ff", "ff-" TRACE "-" SPAN "-01" },
    { "a version in upper case", "0A-" TRACE "-" SPAN "-01" },
    { "a version of one digit", "0-" TRACE "-" SPAN "-01" },
    { "a version of three digits", "000-" TRACE "-" SPAN "-01" },
    { "no version", TRACE "-" SPAN "-01" },
    { "a trace id of zeros", "00-00000000000000000000000000000000-" SPAN "-01" },
    { "a span id of zeros", "00-" TRACE "-0000000000000000-01" },
    { "a trace id in upper case", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01" },
    { "a span id in upper case", "00-" TRACE "-00F067AA0BA902B7-01" },
    { "flags in upper case", "00-" TRACE "-" SPAN "-0A" },
    { "a short trace id", "00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01" },
    { "a long trace id", "00-" TRACE "0-" SPAN "-01" },
    { "a short span id", "00-" TRACE "-00f067aa0ba902b-01" },
    { "a long span id", "00-" TRACE "-" SPAN "0-01" },
    { "no flags", "00-" TRACE "-" SPAN "-" },
    { "one flag digit", "00-" TRACE "-" SPAN "-0" },
    { "three flag digits", "00-" TRACE "-" SPAN "-010" },
    { "version 00 with more fields", "00-" TRACE "-" SPAN "-01-x" },
    { "version 00 with a dash at the end", "00-" TRACE "-" SPAN "-01-" },
    { "a later version with more than flags", "01-" TRACE "-" SPAN "-01x" },
    { "other separators", "00_" TRACE "_" SPAN "_01" },
    { "a space before", " 00-" TRACE "-" SPAN "-01" },
    { "a space after", "00-" TRACE "-" SPAN "-01 " },
    { "a list", "00-" TRACE "-" SPAN "-01,00-" TRACE "-" SPAN "-01" },
    { "not hexadecimal", "00-4bf92f3577b34da6a3ce929d0e0e473g-" SPAN "-01" },
    { "bytes beyond ASCII", "00-4bf92f3577b34da6a3ce929d0e0e47\xc3\xa9-" SPAN "-01" },
    { "a line feed", "00-" TRACE "-" SPAN "-01\n" },
};

TD_TEST_EACH(an_invalid_header_means_nothing, invalid)
{
    struct td_trace_context trace;
    ck_assert_msg(!td_trace_context_read(invalid[_i].header, &trace), "%s",
                  invalid[_i].description);
    ck_assert_str_eq(trace.trace_id, "");
    ck_assert_str_eq(trace.span_id, "");
}

/* In memory of its own, so that a sanitizer sees a read beyond the end. */
TD_TEST(a_header_that_ends_anywhere_is_read_no_further)
{
    static const char header[] = "01-" TRACE "-" SPAN "-01-x";
    for (size_t length = 0; length < sizeof header; length++) {
        struct td_trace_context trace;
        char *text = malloc(length + 1);
        ck_assert_ptr_nonnull(text);
        memcpy(text, header, length);
        text[length] = '\0';
        ck_assert_int_eq(td_trace_context_read(text, &trace), length == 55 || length >= 56);
        free(text);
    }
}

TD_TEST(the_lowest_flag_says_whether_it_is_sampled)
{
    static const char digits[] = "0123456789abcdef";
    for (int flags = 0; flags < 256; flags++) {
        struct td_trace_context trace;
        char header[] = "00-" TRACE "-" SPAN "-00";
        header[sizeof header - 3] = digits[flags >> 4];
        header[sizeof header - 2] = digits[flags & 15];
        ck_assert(td_trace_context_read(header, &trace));
        ck_assert_int_eq(trace.sampled, flags & 1);
    }
}

#define X10  "xxxxxxxxxx"
#define X100 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10
#define X240 X100 X100 X10 X10 X10 X10
#define M8   "a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8"

static const struct {
    const char *description, *state;
    bool is_valid;
} states[] = {
    { "one member", "vendor=value", true },
    { "several", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true },
    { "blanks around members", "a=1 ,\tb=2", true },
    { "empty members", "a=1,,b=2,", true },
    { "every character of a key", "a09_-*/=1", true },
    { "a tenant", "0fw529a3039@dt=FfbDelc", true },
    { "every character of a value", "a= !\"#$%&'()*+-./:;<>?@[\\]^_`{|}~", true },
    { "a longest key", "a" X240 X10 "xxxxx=1", true },
    { "32 members", M8 "," M8 "," M8 "," M8, true },
    { "empty", "", false },
    { "commas", ",,", false },
    { "no value", "a=", false },
    { "no equals sign", "a", false },
    { "no key", "=1", false },
    { "a key in upper case", "A=1", false },
    { "a key that begins with a digit", "0a=1", false },
    { "a blank in a key", "a b=1", false },
    { "a system without a tenant", "@a=1", false },
    { "a tenant without a system", "a@=1", false },
    { "a system that begins with a digit", "a@0=1", false },
    { "two systems", "a@b@c=1", false },
    { "a system that is too long", "a@b" X10 "xxxx=1", false },
    { "a tenant that is too long", "aa" X240 "@b=1", false },
    { "a key that is too long", "a" X240 X10 "xxxxxx=1", false },
    { "an equals sign in a value", "a=1=2", false },
    { "a control character", "a=1\x01", false },
    { "bytes beyond ASCII", "a=\xc3\xa9", false },
    { "33 members", M8 "," M8 "," M8 "," M8 ",a=1", false },
    { "more than 512 bytes", "a=" X240 ",b=" X240 ",c=" X100, false },
};

TD_TEST_EACH(tracestate_is_a_list_of_keys_with_values, states)
{
    const size_t size = strlen(states[_i].state) + 1;
    char *text = malloc(size); /* of its own, so that a sanitizer sees a read beyond the end */
    ck_assert_ptr_nonnull(text);
    memcpy(text, states[_i].state, size);
    ck_assert_msg(td_trace_state_is_valid(text) == states[_i].is_valid, "%s",
                  states[_i].description);
    free(text);
}
