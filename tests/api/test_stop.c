/* Long documents are read and written in steps, between which the work may be stopped. */
#include "api/files/npy.h"
#include "api/json/tensor.h"
#include "api/tensor_io.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_error err;

/* Stops at the check with this number, counted from 1. */
static struct stopper {
    int checks, stop_at;
} stopper;

static td_status count_checks(void *context, struct td_error *error)
{
    struct stopper *self = context;
    return ++self->checks == self->stop_at ? td_error_set(error, TD_DRAINING, "stopped") : TD_OK;
}

static void stop_at(int check)
{
    stopper = (struct stopper){ .stop_at = check };
    test_arena.stop = (struct td_stop){ count_checks, &stopper };
}

#define NUMEL (2 * TD_STOP_ELEMENTS + 6)

static const struct {
    td_dtype dtype;
    const char *shape; /* of NUMEL elements */
    td_layout layout;
    td_format format;
} documents[] = {
    { TD_DTYPE_INT32, "[2097158]", TD_LAYOUT_NESTED, TD_FORMAT_JSON },
    { TD_DTYPE_INT32, "[2097158]", TD_LAYOUT_FLAT, TD_FORMAT_JSON },
    { TD_DTYPE_INT32, "[2097158,1]", TD_LAYOUT_NESTED, TD_FORMAT_JSON },
    { TD_DTYPE_INT32, "[2,1048579]", TD_LAYOUT_NESTED, TD_FORMAT_JSON },
    { TD_DTYPE_FLOAT32, "[1048579,2]", TD_LAYOUT_NESTED, TD_FORMAT_JSON },
    { TD_DTYPE_STRING, "[2097158]", TD_LAYOUT_NESTED, TD_FORMAT_JSON },
    { TD_DTYPE_STRING, "[2097158]", TD_LAYOUT_BASE64, TD_FORMAT_JSON },
    { TD_DTYPE_FLOAT64, "[2097158]", TD_LAYOUT_BASE64, TD_FORMAT_JSON },
};

static struct td_tensor many_elements(td_dtype dtype, const char *dims)
{
    enum { PERIOD = 7 * 17 * 4096 };
    struct td_tensor t;
    const struct td_shape of = shape(dims);
    ck_assert_int_eq(td_tensor_describe(&t, "t", dtype, &of, &err), TD_OK);
    ck_assert_int_eq(t.numel, NUMEL);
    const bool strings = t.dtype == TD_DTYPE_STRING;
    t.bytes = strings ? (size_t)t.numel : t.bytes;
    t.data = td_arena_alloc(&test_arena, t.bytes, 1, &err);
    for (size_t i = 0; i < PERIOD; i++)
        ((char *)t.data)[i] = (char)('a' + i % 7 + i / 4096 % 17);
    for (size_t i = PERIOD; i < t.bytes; i += PERIOD)
        memcpy((char *)t.data + i, t.data, t.bytes - i < PERIOD ? t.bytes - i : PERIOD);
    if (strings)
        t.offsets = td_arena_alloc(&test_arena, (size_t)t.numel + 1, sizeof *t.offsets, &err);
    for (int64_t i = 0; strings && i <= t.numel; i++) /* of 0 to 2 characters */
        t.offsets[i] = (uint64_t)(i == t.numel ? t.numel : i / 2 * 2 + (i % 4 == 1));
    return t;
}

/* A copy of the document, with padding. */
static char *body_of(const struct td_reply *reply, size_t *bytes)
{
    *bytes = td_reply_bytes(reply);
    char *body = calloc(1, *bytes + TD_JSON_PADDING), *at = body;
    for (int i = 0; i < reply->n_chunks; i++)
        at = (char *)memcpy(at, reply->chunks[i].data, reply->chunks[i].size) +
             reply->chunks[i].size;
    return body;
}

static td_status read_document(const char *body, size_t bytes, struct td_tensor *out)
{
    bool in_body;
    return td_tensor_read(documents[0].format, TD_ROLE_DATA, body, bytes, NULL, &test_arena, out,
                          &in_body, &err);
}

static td_status write_document(int i, const struct td_tensor *t, struct td_reply *reply)
{
    return td_tensor_write(documents[i].format, documents[i].layout, t, &test_arena, reply, &err);
}

TD_TEST_EACH(a_document_of_many_steps_reads_back_the_same_and_stops_at_any, documents)
{
    const struct td_tensor t = many_elements(documents[_i].dtype, documents[_i].shape);
    struct td_tensor again;
    struct td_reply reply = { 0 };
    size_t bytes;
    stop_at(0);
    ck_assert_int_eq(write_document(_i, &t, &reply), TD_OK);
    char *body = body_of(&reply, &bytes);
    const int written = stopper.checks;
    stop_at(0);
    EXPECT_OK(read_document(body, bytes, &again), &err);
    expect_same_tensor(&again, &t, documents[_i].shape);
    const int read = stopper.checks;
    ck_assert(written > 0 && read > 0);
    for (int check = 1; check <= written; check++) {
        stop_at(check);
        ck_assert_int_eq(write_document(_i, &t, &reply), TD_DRAINING);
        ck_assert_int_eq(stopper.checks, check);
    }
    for (int check = 1; check <= read; check++) {
        stop_at(check);
        ck_assert_int_eq(read_document(body, bytes, &again), TD_DRAINING);
        ck_assert_int_eq(stopper.checks, check);
    }
    free(body);
}

/* Of so many steps and some characters of three bytes, which no step ends at. */
static struct td_tensor long_string(size_t steps)
{
    static uint64_t offsets[2];
    const size_t bytes = (steps * TD_STOP_STEP / 3 + 5) * 3;
    const struct td_shape of = shape("[1]");
    struct td_tensor t;
    ck_assert_int_eq(td_tensor_describe(&t, "t", TD_DTYPE_STRING, &of, &err), TD_OK);
    char *text = td_arena_alloc(&test_arena, bytes, 1, &err);
    for (size_t i = 0; i < bytes; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    t.data = text;
    t.bytes = offsets[1] = bytes;
    t.offsets = offsets;
    return t;
}

TD_TEST(a_long_string_is_measured_and_written_in_steps)
{
    const struct td_tensor t = long_string(3);
    struct td_reply reply = { 0 };
    stop_at(0);
    ck_assert_int_eq(write_document(0, &t, &reply), TD_OK);
    const int checks = stopper.checks;
    ck_assert_int_ge(checks, 2 * 2);
    for (int check = 1; check <= checks; check++) {
        stop_at(check);
        ck_assert_int_eq(write_document(0, &t, &reply), TD_DRAINING);
        ck_assert_int_eq(stopper.checks, check);
    }
}

static const struct {
    const char *description;
    size_t at, cut; /* the byte that becomes invalid; bytes cut from the end */
    bool valid;
} damages[] = {
    { "none", 0, 0, true },
    { "in the last character of a step", TD_STOP_STEP - 1, 0, false },
    { "in the first bytes of a step", TD_STOP_STEP, 0, false },
    { "in the last step", TD_STOP_STEP + 4, 0, false },
    { "a character is missing", 0, 3, true },
    { "a byte is missing", 0, 1, false },
};

TD_TEST_EACH(a_long_string_that_is_not_utf_8_is_found_in_any_step, damages)
{
    struct td_tensor t = long_string(1), again;
    struct td_reply reply = { 0 };
    size_t bytes;
    if (damages[_i].at)
        ((char *)t.data)[damages[_i].at] = 'x';
    t.bytes = t.offsets[1] = t.bytes - damages[_i].cut;
    ck_assert_int_eq(write_document(0, &t, &reply), TD_OK);
    char *body = body_of(&reply, &bytes);
    ck_assert_msg((strstr(body, "\"base64\"") == NULL) == damages[_i].valid, "%s",
                  damages[_i].description);
    EXPECT_OK(read_document(body, bytes, &again), &err);
    expect_same_tensor(&again, &t, damages[_i].description);
    free(body);
}

static const struct {
    bool fortran, big_endian;
} orders[] = { { true, false }, { false, true }, { true, true }, { false, false } };

TD_TEST_EACH(a_conversion_of_many_steps_stops_at_any, orders)
{
    struct td_npy file = { .fortran = orders[_i].fortran, .big_endian = orders[_i].big_endian };
    file.tensor = many_elements(TD_DTYPE_FLOAT64, "[1048579,2]");
    char *to = td_arena_alloc(&test_arena, file.tensor.bytes, 1, &err);
    stop_at(0);
    ck_assert_int_eq(td_npy_convert(&file, to, &test_arena.stop, &err), TD_OK);
    const int checks = stopper.checks;
    ck_assert_int_gt(checks, 0);
    for (int check = 1; check <= checks; check++) {
        stop_at(check);
        ck_assert_int_eq(td_npy_convert(&file, to, &test_arena.stop, &err), TD_DRAINING);
        ck_assert_int_eq(stopper.checks, check);
    }
}

static const struct {
    const char *description;
    size_t at, length; /* of the text that is changed to '=' */
} paddings[] = {
    { "before a step's end", TD_STOP_STEP - 4, 1 }, { "at a step's end", TD_STOP_STEP - 1, 1 },
    { "two at a step's end", TD_STOP_STEP - 2, 2 }, { "at a step's begin", TD_STOP_STEP, 1 },
    { "two steps", TD_STOP_STEP - 2, 4 },
};

TD_TEST_EACH(base64_is_padded_at_its_end_only, paddings)
{
    const struct td_tensor t = many_elements(TD_DTYPE_FLOAT32, "[2097158]");
    struct td_tensor again;
    struct td_reply reply = { 0 };
    size_t bytes;
    char expected[64];
    ck_assert_int_eq(
        td_tensor_write(TD_FORMAT_JSON, TD_LAYOUT_BASE64, &t, &test_arena, &reply, &err), TD_OK);
    char *body = body_of(&reply, &bytes);
    char *text = strstr(body, "\"base64\":\"") + strlen("\"base64\":\"");
    memset(text + paddings[_i].at, '=', paddings[_i].length);
    ck_assert_int_eq(read_document(body, bytes, &again), TD_MALFORMED_REQUEST);
    snprintf(expected, sizeof expected, "character %zu is not base64", paddings[_i].at);
    ck_assert_msg(strncmp(err.message, expected, strlen(expected)) == 0, "%s: %s",
                  paddings[_i].description, err.message);
    free(body);
}
