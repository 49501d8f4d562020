#include "api/statistics.h"

#include "api/json/float_text.h"
#include "api/json/print_scalars.h"
#include "api/text/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- Numbers ----------------------------------------------------------------------------- */

/* Appends a number, or null for NaN. */
static void add_real(struct td_text *text, double value, bool narrow)
{
    char digits[TD_FLOAT64_TEXT + 1 + TD_FLOAT_SLACK];
    const float rounded = (float)value;
    const char *end =
        narrow ? td_float32_list(digits, &rounded, 1) : td_float64_list(digits, &value, 1);
    if (isnan(value))
        td_text_string(text, "null");
    else
        td_text_add(text, digits, (size_t)(end - digits) - 1); /* without the comma */
}

static void add_member(struct td_text *text, const char *name, double value)
{
    td_text_string(text, name);
    add_real(text, value, false);
}

static void add_count(struct td_text *text, const char *name, int64_t count)
{
    td_text_string(text, name);
    td_text_uint(text, (uint64_t)count);
}

/* True for dtypes whose statistics are printed as float32, as the elements of the tensor are. */
static bool is_narrow(td_dtype dtype)
{
    return dtype == TD_DTYPE_FLOAT16 || dtype == TD_DTYPE_BFLOAT16 || dtype == TD_DTYPE_FLOAT32;
}

static void add_extreme(struct td_text *text, const char *name, td_dtype dtype,
                        const struct td_statistics *statistics, union td_number number)
{
    char digits[TD_FLOAT64_TEXT + TD_FLOAT_SLACK];
    td_text_string(text, name);
    if (statistics->finite == 0) {
        td_text_string(text, "null");
        return;
    }
    switch (statistics->numbers) {
    case TD_NUMBERS_REAL:
        add_real(text, number.real, is_narrow(dtype));
        break;
    case TD_NUMBERS_INTEGER:
        td_text_add(text, digits, (size_t)(td_json_write_int64(digits, number.integer) - digits));
        break;
    case TD_NUMBERS_NATURAL:
        td_text_uint(text, number.natural);
        break;
    }
}

/* ---- Values ------------------------------------------------------------------------------ */

static void add_numbers(struct td_text *text, td_dtype dtype,
                        const struct td_statistics *statistics)
{
    const bool any = statistics->finite > 0;
    add_extreme(text, ",\"min\":", dtype, statistics, statistics->minimum);
    add_extreme(text, ",\"max\":", dtype, statistics, statistics->maximum);
    add_member(text, ",\"mean\":", any ? statistics->mean : (double)NAN);
    add_member(text, ",\"std\":", any ? statistics->deviation : (double)NAN);
    add_member(text, ",\"l2_norm\":", statistics->norm);
    add_count(text, ",\"zeros\":", statistics->zeros);
    add_count(text, ",\"nans\":", statistics->nans);
    add_count(text, ",\"positive_infinities\":", statistics->positive_infinities);
    add_count(text, ",\"negative_infinities\":", statistics->negative_infinities);
}

static void add_lengths(struct td_text *text, const struct td_statistics *statistics)
{
    add_count(text, ",\"bytes\":", (int64_t)statistics->bytes);
    add_extreme(text, ",\"shortest\":", TD_DTYPE_STRING, statistics, statistics->minimum);
    add_extreme(text, ",\"longest\":", TD_DTYPE_STRING, statistics, statistics->maximum);
}

static void add_values(struct td_text *text, td_dtype dtype, const struct td_statistics *statistics)
{
    td_text_string(text, ",\"values\":");
    td_text_string(text, dtype == TD_DTYPE_STRING     ? "\"lengths\""
                         : td_dtype_is_complex(dtype) ? "\"absolute\""
                                                      : "\"elements\"");
    add_count(text, ",\"numel\":", statistics->numel);
    if (dtype == TD_DTYPE_BOOL)
        add_count(text, ",\"true\":", statistics->numel - statistics->zeros);
    else if (dtype == TD_DTYPE_STRING)
        add_lengths(text, statistics);
    else
        add_numbers(text, dtype, statistics);
}

/* ---- Blocks ------------------------------------------------------------------------------ */

static void add_begins(struct td_text *text, const char *name, int64_t n, int blocks)
{
    td_text_string(text, name);
    for (int i = 0; i <= blocks; i++)
        add_count(text, i > 0 ? "," : "", td_statistics_begin(n, blocks, i));
}

static void add_blocks(struct td_text *text, const struct td_statistics *statistics)
{
    add_begins(text, ",\"blocks\":{\"rows\":[", statistics->rows, statistics->row_blocks);
    add_begins(text, "],\"columns\":[", statistics->columns, statistics->column_blocks);
    add_member(text, "],\"min\":", statistics->minimum_mean);
    add_member(text, ",\"max\":", statistics->maximum_mean);
    td_text_string(text, ",\"means\":[");
    for (int row = 0; row < statistics->row_blocks; row++) {
        td_text_string(text, row > 0 ? ",[" : "[");
        for (int i = 0; i < statistics->column_blocks; i++)
            add_member(text, i > 0 ? "," : "",
                       statistics->means[row * statistics->column_blocks + i]);
        td_text_string(text, "]");
    }
    td_text_string(text, "]}");
}

/* ---- The document ------------------------------------------------------------------------ */

size_t td_describe_statistics_bound(const struct td_tensor_listing *tensor)
{
    enum {
        /* Names of the members, 16 dimensions and 15 numbers. */
        FIXED = 2048,
        MEAN = TD_FLOAT64_TEXT + 1,
        BEGIN = 21,
        BEGINS = 2 * (TD_STATISTICS_BLOCKS + 1),
        BRACKETS = 3 * TD_STATISTICS_BLOCKS
    };
    const size_t means = td_statistics_bytes(tensor->tensor) / sizeof(double) * MEAN;
    return FIXED + 6 * (strlen(tensor->name) + strlen(tensor->etag)) + means +
           (size_t)BEGINS * BEGIN + (size_t)BRACKETS;
}

td_status td_describe_statistics(const struct td_tensor_listing *tensor,
                                 const struct td_statistics *statistics, struct td_arena *arena,
                                 struct td_reply *reply, struct td_error *err)
{
    const size_t size = td_describe_statistics_bound(tensor);
    char *begin = td_arena_alloc(arena, size, 1, err);
    if (!begin)
        return err->status;
    struct td_text text = { .at = begin, .end = begin + size };
    td_text_string(&text, "{\"name\":");
    td_text_quote(&text, tensor->name);
    td_text_string(&text, ",\"dtype\":\"");
    td_text_string(&text, td_dtype_info(tensor->tensor->dtype)->name);
    td_text_string(&text, "\",\"shape\":[");
    td_text_dims(&text, tensor->tensor->shape.dim, tensor->tensor->shape.rank);
    td_text_string(&text, "],\"version\":");
    td_text_uint(&text, tensor->version);
    td_text_string(&text, ",\"etag\":");
    td_text_quote(&text, tensor->etag);
    add_values(&text, tensor->tensor->dtype, statistics);
    add_blocks(&text, statistics);
    td_text_string(&text, "}");
    assert(!text.full);
    td_reply_set(reply, 200, "application/json", begin, (size_t)(text.at - begin));
    return TD_OK;
}
