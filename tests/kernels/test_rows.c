#include "kernels/prefetch.h"
#include "kernels/rows/rows.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <string.h>

static const struct {
    int64_t index, bound;
    td_bounds policy;
    int64_t row;
} resolved[] = {
    { 0, 3, TD_BOUNDS_ZERO, 0 },           { 2, 3, TD_BOUNDS_ZERO, 2 },
    { 3, 3, TD_BOUNDS_ZERO, TD_ROW_ZERO }, { -1, 3, TD_BOUNDS_ZERO, TD_ROW_ZERO },
    { 0, 0, TD_BOUNDS_ZERO, TD_ROW_ZERO }, { 2, 3, TD_BOUNDS_CLIP, 2 },
    { 3, 3, TD_BOUNDS_CLIP, 2 },           { INT64_MAX, 3, TD_BOUNDS_CLIP, 2 },
    { -1, 3, TD_BOUNDS_CLIP, 0 },          { INT64_MIN, 3, TD_BOUNDS_CLIP, 0 },
    { 2, 3, TD_BOUNDS_WRAP, 2 },           { 3, 3, TD_BOUNDS_WRAP, 0 },
    { 7, 3, TD_BOUNDS_WRAP, 1 },           { -1, 3, TD_BOUNDS_WRAP, 2 },
    { -3, 3, TD_BOUNDS_WRAP, 0 },          { -4, 3, TD_BOUNDS_WRAP, 2 },
    { INT64_MIN, 3, TD_BOUNDS_WRAP, 1 }, /* -2^63 = -3074457345618258603 * 3 + 1 */
    { INT64_MIN, 1, TD_BOUNDS_WRAP, 0 },
};

TD_TEST_EACH(one_index_is_resolved_by_policy, resolved)
{
    ck_assert_int_eq(
        td_row_resolve_index(resolved[_i].index, resolved[_i].bound, resolved[_i].policy),
        resolved[_i].row);
}

static const td_dtype index_dtypes[] = { TD_DTYPE_INT16, TD_DTYPE_INT32, TD_DTYPE_INT64 };

TD_TEST_EACH(indices_are_resolved_by_policy_in_every_type, index_dtypes)
{
    static const int64_t indices[] = { 99, 4, -1, 0, 5, 3 };
    static const int64_t zeroed[] = { 4, -1, 0, -1, 3 }, clipped[] = { 4, 0, 0, 4, 3 },
                         wrapped[] = { 4, 4, 0, 0, 3 };
    int64_t rows[5];
    struct td_tensor t = index_vector(index_dtypes[_i], indices, 6);
    td_rows_resolve_indices(&t, 1, 5, 5, TD_BOUNDS_ZERO, rows);
    ck_assert_mem_eq(rows, zeroed, sizeof(rows));
    td_rows_resolve_indices(&t, 1, 5, 5, TD_BOUNDS_CLIP, rows);
    ck_assert_mem_eq(rows, clipped, sizeof(rows));
    td_rows_resolve_indices(&t, 1, 5, 5, TD_BOUNDS_WRAP, rows);
    ck_assert_mem_eq(rows, wrapped, sizeof(rows));
    td_rows_resolve_indices(&t, 3, 1, 5, TD_BOUNDS_ERROR, rows);
    ck_assert_int_eq(rows[0], 0);
}

TD_TEST_EACH(tuples_are_resolved_to_row_numbers, index_dtypes)
{
    static const int64_t indices[] = { 9, 9, 9, 1, 2, 3, 0, 3, 0, -1, 1, 1 };
    struct td_tuple_space space = { .depth = 3, .bound = { 2, 3, 4 }, .stride = { 12, 4, 1 } };
    int64_t rows[3];
    struct td_tensor t = index_vector(index_dtypes[_i], indices, 12);
    td_rows_resolve_tuples(&t, 1, 1, &space, TD_BOUNDS_ERROR, rows);
    ck_assert_int_eq(rows[0], 12 + 8 + 3);
    td_rows_resolve_tuples(&t, 1, 3, &space, TD_BOUNDS_ZERO, rows);
    ck_assert(rows[0] == 23 && rows[1] == TD_ROW_ZERO && rows[2] == TD_ROW_ZERO);
    td_rows_resolve_tuples(&t, 1, 3, &space, TD_BOUNDS_CLIP, rows);
    ck_assert(rows[0] == 23 && rows[1] == 8 && rows[2] == 5);
    td_rows_resolve_tuples(&t, 1, 3, &space, TD_BOUNDS_WRAP, rows);
    ck_assert(rows[0] == 23 && rows[1] == 0 && rows[2] == 12 + 4 + 1);
}

TD_TEST_EACH(tuples_of_any_depth_are_summed, index_dtypes)
{
    int64_t indices[TD_MAX_RANK], row, want = 0;
    struct td_tuple_space space = { .depth = 0 };
    for (int depth = 0; depth <= TD_MAX_RANK; depth++) {
        space.depth = depth;
        struct td_tensor t = index_vector(index_dtypes[_i], indices, depth);
        td_rows_resolve_tuples(&t, 0, 1, &space, TD_BOUNDS_ERROR, &row);
        ck_assert_int_eq(row, want);
        td_rows_resolve_tuples(&t, 0, 1, &space, TD_BOUNDS_ZERO, &row);
        ck_assert_int_eq(row, want);
        if (depth < TD_MAX_RANK) {
            indices[depth] = depth + 1;
            space.bound[depth] = depth + 2;
            space.stride[depth] = 100 + depth;
            want += space.stride[depth] * indices[depth];
        }
    }
}

static const struct {
    const char *case_name;
    int64_t index, bound;
    td_dtype dtype;
    bool good;
} bounds[] = {
    { "the last valid index", 2, 3, TD_DTYPE_INT32, true },
    { "the bound itself", 3, 3, TD_DTYPE_INT32, false },
    { "minus one", -1, 3, TD_DTYPE_INT32, false },
    { "an empty range", 0, 0, TD_DTYPE_INT32, false },
    { "minus one with an empty range", -1, 0, TD_DTYPE_INT64, false },
    { "a bound that int16 cannot reach", 32767, 32768, TD_DTYPE_INT16, true },
    { "a bound far beyond int16", 32767, (int64_t)1 << 40, TD_DTYPE_INT16, true },
    { "a bound that is 0 in 16 bits", 5, 65536, TD_DTYPE_INT16, true },
    { "a negative index with that bound", -32768, 65536, TD_DTYPE_INT16, false },
    { "a bound that int32 cannot reach", INT32_MAX, (int64_t)1 << 31, TD_DTYPE_INT32, true },
    { "a bound that is 0 in 32 bits", 7, (int64_t)1 << 32, TD_DTYPE_INT32, true },
    { "the smallest int32", INT32_MIN, 3, TD_DTYPE_INT32, false },
    { "the smallest int32 and a huge bound", INT32_MIN, INT64_MAX, TD_DTYPE_INT32, false },
    { "the smallest int64", INT64_MIN, 3, TD_DTYPE_INT64, false },
    { "the smallest int64 and a huge bound", INT64_MIN, INT64_MAX, TD_DTYPE_INT64, false },
    { "the largest int64", INT64_MAX, INT64_MAX, TD_DTYPE_INT64, false },
    { "INT64_MAX - 1", INT64_MAX - 1, INT64_MAX, TD_DTYPE_INT64, true },
    { "2^32 is not truncated to 0", (int64_t)1 << 32, 3, TD_DTYPE_INT64, false },
};

TD_TEST_EACH(an_index_is_checked_against_the_bound, bounds)
{
    struct td_exec exec;
    struct td_error err;
    int64_t n_bad, first;
    struct td_tensor t = index_vector(bounds[_i].dtype, &bounds[_i].index, 1);
    td_exec_serial(&exec, &test_arena);
    ck_assert_int_eq(td_rows_check(&t, bounds[_i].bound, &exec, &n_bad, &first, &err), TD_OK);
    ck_assert_msg(n_bad == !bounds[_i].good, "%s", bounds[_i].case_name);
    ck_assert_msg(first == (bounds[_i].good ? -1 : 0), "%s", bounds[_i].case_name);
}

TD_TEST_EACH(an_index_is_checked_against_the_upper_bound_alone, bounds)
{
    struct td_exec exec;
    struct td_error err;
    int64_t n_bad, first;
    bool negative;
    struct td_tensor t = index_vector(bounds[_i].dtype, &bounds[_i].index, 1);
    const bool good = bounds[_i].good || bounds[_i].index < 0;
    td_exec_serial(&exec, &test_arena);
    ck_assert_int_eq(td_rows_check_below(&t, bounds[_i].bound, &exec, &n_bad, &first, &err), TD_OK);
    ck_assert_msg(n_bad == !good && first == (good ? -1 : 0), "%s", bounds[_i].case_name);
    ck_assert_msg(td_rows_all_below(&t, 0, 1, bounds[_i].bound, &negative) == good, "%s",
                  bounds[_i].case_name);
    ck_assert(negative == (bounds[_i].index < 0));
}

static void put_index(struct td_tensor *t, int64_t i, int64_t value)
{
    size_t size = td_dtype_info(t->dtype)->size;
    memcpy((char *)t->data + (size_t)i * size, &value, size);
}

/* One bad index at each position of each length: in the head, body and tail of the vector loop. */
TD_TEST_EACH(a_bad_index_is_found_at_any_position, index_dtypes)
{
    enum { LONGEST = 150 };
    static const int depths[] = { 1, 2, 3, 5, 16 };
    static const int64_t zeros[LONGEST];
    struct td_exec exec;
    struct td_error err;
    struct td_tensor t = index_vector(index_dtypes[_i], zeros, LONGEST);
    td_exec_serial(&exec, &test_arena);
    for (int d = 0; d < COUNT_OF(depths); d++) {
        struct td_tuple_space space = { .depth = depths[d] };
        for (int c = 0; c < space.depth; c++)
            space.bound[c] = 10 + c;
        for (int i = 0; i < LONGEST; i++)
            put_index(&t, i, space.bound[i % space.depth] - 1); /* the last valid index */
        for (t.numel = 0; t.numel <= LONGEST; t.numel += space.depth) {
            for (int64_t bad = -1; bad < t.numel; bad++) {
                int64_t n_bad, first, bound = bad < 0 ? 0 : space.bound[bad % space.depth];
                if (bad >= 0)
                    put_index(&t, bad, bad % 2 ? bound : -1);
                EXPECT(td_rows_check_tuples(&t, &space, &exec, &n_bad, &first, &err) == TD_OK, "%s",
                       err.message);
                EXPECT(n_bad == (bad >= 0) && first == bad,
                       "depth %d, %d indices, bad at %d: %d bad, first %d", space.depth,
                       (int)t.numel, (int)bad, (int)n_bad, (int)first);
                if (bad >= 0)
                    put_index(&t, bad, bound - 1);
            }
        }
    }
}

TD_TEST_EACH(all_bad_indices_are_counted, index_dtypes)
{
    static const int64_t indices[] = { 0, 3, -1, 2, 7, 1 };
    struct td_exec exec;
    struct td_error err;
    int64_t n_bad, first;
    struct td_tensor t = index_vector(index_dtypes[_i], indices, 6);
    td_exec_serial(&exec, &test_arena);
    ck_assert_int_eq(td_rows_check(&t, 3, &exec, &n_bad, &first, &err), TD_OK);
    ck_assert_int_eq(n_bad, 3);
    ck_assert_int_eq(first, 1);
}

/* Large enough for several threads; bad indices in several ranges, none in the first. */
TD_TEST_EACH(the_first_bad_index_is_the_same_at_any_thread_count, index_dtypes)
{
    enum { N = 1000000 };
    static const int64_t bad[] = { 999999, 345678, 777777, 345679 };
    int64_t *indices = td_arena_alloc(&test_arena, N, sizeof(indices[0]), TD_IGNORED);
    for (int i = 0; i < N; i++)
        indices[i] = i % 1000;
    for (int i = 0; i < COUNT_OF(bad); i++)
        indices[bad[i]] = 1000 + i;
    struct td_tensor t = index_vector(index_dtypes[_i], indices, N);
    for (int threads = 1; threads <= 8; threads++) {
        struct thread_exec exec;
        struct td_error err;
        int64_t n_bad, first;
        thread_exec_init(&exec, threads, 0);
        ck_assert_int_eq(td_rows_check(&t, 1000, &exec.exec, &n_bad, &first, &err), TD_OK);
        ck_assert_int_eq(n_bad, 4);
        ck_assert_int_eq(first, 345678);
        ck_assert_int_gt(atomic_load(&exec.ranges_run), 1);
    }
}

TD_TEST(a_deadline_stops_a_check)
{
    enum { N = 1000000 };
    int64_t *indices = td_arena_alloc(&test_arena, N, sizeof(indices[0]), TD_IGNORED);
    memset(indices, 0, N * sizeof(indices[0]));
    struct td_tensor t = index_vector(TD_DTYPE_INT64, indices, N);
    struct thread_exec exec;
    struct td_error err;
    int64_t n_bad, first;
    thread_exec_init(&exec, 2, 0);
    exec.ranges_allowed = 2;
    ck_assert_int_eq(td_rows_check(&t, 1, &exec.exec, &n_bad, &first, &err), TD_DEADLINE_EXCEEDED);
    ck_assert_int_eq(err.status, TD_DEADLINE_EXCEEDED);
}

/* Widths on both sides of all limits at which another loop is used. */
static const size_t widths[] = { 1,    2,    3,    4,    5,    7,    8,    9,    12,   15,
                                 16,   17,   24,   31,   32,   33,   48,   63,   64,   65,
                                 96,   128,  200,  256,  511,  1000, 1023, 1024, 1025, 1032,
                                 1536, 2048, 3001, 4088, 4095, 4096, 4097, 5000, 8192 };

TD_TEST_EACH(rows_of_any_width_are_copied, widths)
{
    enum { TABLE_ROWS = 37, ROWS = 50, GUARD = 64, GUARDS = 2 * GUARD };
    size_t width = widths[_i];
    for (size_t shift = 0; shift < 2; shift++) { /* aligned, and unaligned as in a request body */
        unsigned char *table = td_arena_alloc(&test_arena, TABLE_ROWS * width + 1, 1, TD_IGNORED);
        unsigned char *out = td_arena_alloc(&test_arena, ROWS * width + GUARDS, 1, TD_IGNORED);
        table += shift;
        for (size_t i = 0; i < TABLE_ROWS * width; i++)
            table[i] = (unsigned char)(i * 7 + i / 251 + 1);
        for (int variant = 0; variant < 4; variant++) {
            const bool may_be_zero = variant & 1, large = variant & 2;
            const struct td_tensor params = { .data = table,
                                              .bytes = large ? TD_PREFETCH_TABLE + 1 : 1 };
            int64_t rows[ROWS];
            for (int k = 0; k < ROWS; k++)
                rows[k] = may_be_zero && k % 3 == 1 ? TD_ROW_ZERO : (k * 11 + 5) % TABLE_ROWS;
            memset(out, 0xA5, ROWS * width + GUARDS);
            td_rows_copy(out + GUARD - shift, &params, width, rows, ROWS, may_be_zero);
            for (int k = 0; k < ROWS; k++) {
                const unsigned char *got = out + GUARD - shift + (size_t)k * width;
                for (size_t b = 0; b < width; b++) {
                    unsigned want = rows[k] == TD_ROW_ZERO ? 0 : table[(size_t)rows[k] * width + b];
                    EXPECT(got[b] == want, "width %zu, row %d, byte %zu", width, k, b);
                }
            }
            for (size_t b = 0; b < GUARD - shift; b++)
                EXPECT(out[b] == 0xA5 && out[GUARD + ROWS * width + b] == 0xA5,
                       "width %zu: written outside the rows", width);
        }
    }
}

TD_TEST(copying_no_rows_accesses_no_memory)
{
    char out[8] = "untouch";
    const struct td_tensor table = { .data = "table", .bytes = TD_PREFETCH_TABLE + 1 };
    td_rows_copy(out, &table, 4, NULL, 0, false);
    td_rows_copy(out, &table, 4, NULL, 0, true);
    ck_assert_str_eq(out, "untouch");
}

static const struct {
    const char *indices;
    int64_t first;
    const char *message;
    int rank;
    int64_t position[2];
} reports[] = {
    { "int32[] 3", 0, "indices = 3 is not in [0, 3)", 0, { 0, 0 } },
    { "int16[2] 0 -4", 1, "indices[1] = -4 is not in [0, 3)", 1, { 1, 0 } },
    { "int64[2,2] 0 0 4294967296 0", 2, "indices[1,0] = 4294967296 is not in [0, 3)", 2, { 1, 0 } },
};

TD_TEST_EACH(a_bad_index_is_reported_with_its_position, reports)
{
    struct td_error err;
    struct td_tensor t = tensor(reports[_i].indices);
    ck_assert_int_eq(td_rows_out_of_bounds(&err, "indices", &t, reports[_i].first, 5, 3, 2, ""),
                     TD_INDEX_OUT_OF_BOUNDS);
    ck_assert_str_eq(err.message, reports[_i].message);
    ck_assert_str_eq(err.input, "indices");
    ck_assert(err.has_index && err.has_bound);
    ck_assert_int_eq(err.position_rank, reports[_i].rank);
    for (int i = 0; i < err.position_rank; i++)
        ck_assert_int_eq(err.position[i], reports[_i].position[i]);
    ck_assert_int_eq(err.index, td_tensor_index_at(&t, reports[_i].first));
    ck_assert_int_eq(err.bound, 3);
    ck_assert_int_eq(err.axis, 2);
    ck_assert_int_eq(err.bad_count, 5);
}

TD_TEST_EACH(the_largest_index_is_found_at_any_position, index_dtypes)
{
    enum { N = 77 };
    int64_t values[N];
    bool negative;
    for (int n = 1; n <= N; n++) {
        for (int at = 0; at < n; at++) {
            for (int i = 0; i < n; i++)
                values[i] = i % 5 + 10;
            values[at] = 32767;
            struct td_tensor indices = index_vector(index_dtypes[_i], values, n);
            ck_assert_int_eq(td_rows_largest(&indices, &negative), 32767);
            ck_assert(!negative);
            values[(at + 40) % n] = -32768;
            indices = index_vector(index_dtypes[_i], values, n);
            (void)td_rows_largest(&indices, &negative);
            EXPECT(negative, "%d of %d", (at + 40) % n, n);
        }
    }
    struct td_tensor none = index_vector(index_dtypes[_i], values, 0);
    ck_assert_int_eq(td_rows_largest(&none, &negative), -1);
    ck_assert(!negative);
}

TD_TEST(the_largest_index_has_64_bits)
{
    struct td_tensor indices =
        tensor("int64[3] -9223372036854775807 4294967296 9223372036854775807");
    bool negative;
    ck_assert_int_eq(td_rows_largest(&indices, &negative), INT64_MAX);
    ck_assert(negative);
}

TD_TEST_EACH(each_index_is_counted, index_dtypes)
{
    enum { N = 203 };
    /* Small bounds have a loop of their own. */
    static const int64_t limits[] = { 1, 2, 63, 64, 65, 150 };
    int64_t values[N];
    for (size_t b = 0; b < sizeof(limits) / sizeof(limits[0]); b++) {
        for (int i = 0; i < N; i++)
            values[i] = i * i % limits[b];
        struct td_tensor indices = index_vector(index_dtypes[_i], values, N);
        for (int begin = 0; begin < 5; begin++) {
            int64_t counts[151] = { 0 }, want[151] = { 0 };
            counts[0] = want[0] = 7; /* counts are added to */
            for (int i = begin; i < N - 1; i++)
                want[values[i]]++;
            td_rows_count(&indices, begin, N - 1 - begin, limits[b], counts);
            EXPECT(memcmp(counts, want, sizeof(want)) == 0, "below %d, from %d", (int)limits[b],
                   begin);
        }
    }
}

TD_TEST_EACH(rows_of_any_width_are_scattered_distributed_and_zeroed, index_dtypes)
{
    static const int64_t rows[] = { 4, 0, 4, 2 };
    static const uint16_t picked[] = { 1, 2 };
    static unsigned char from[4 * 300], out[5 * 300 + 128], want[5 * 300];
    static const uint8_t marked[] = { 1, 0, 1, 0, 1 };
    struct td_tensor to_rows =
        index_vector(index_dtypes[_i], (const int64_t[]){ 1, 4, 0, 4, 2 }, 5);
    struct td_tensor bucket_numbers =
        index_vector(index_dtypes[_i], (const int64_t[]){ 0, 1, 0, 1, 1 }, 5);
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(1 + i * 7919 % 251);
    for (size_t width = 1; width <= 300; width++) {
        /* Streaming requires rows of a cache line or more, at any alignment. */
        for (int kind = 0; kind < (width >= 64 ? 4 : 1); kind++) {
            bool stream = kind > 0;
            unsigned char *to = out + kind * 13;
            const unsigned char *source = from;
            memset(out, 0, sizeof(out));
            uint8_t marks[5] = { 0 };
            td_rows_scatter(to, &to_rows, 1, 4, from, width, stream, stream ? NULL : marks);
            EXPECT(stream || memcmp(marks, marked, 5) == 0, "marks, %zu bytes", width);
            memset(want, 0, sizeof(want));
            for (int k = 0; k < 4; k++)
                memcpy(want + (size_t)rows[k] * width, source + (size_t)k * width, width);
            EXPECT(memcmp(to, want, 5 * width) == 0, "scatter, %zu bytes", width);
            td_rows_zero(to, rows + 2, width, 2, stream);
            memset(want + 4 * width, 0, width);
            memset(want + 2 * width, 0, width);
            EXPECT(memcmp(to, want, 5 * width) == 0, "zero, %zu bytes", width);

            memset(out, 0, sizeof(out));
            td_rows_scatter_picked(to, rows, from, width, picked, 2, stream);
            EXPECT(memcmp(to, source + width, width) == 0 &&
                       memcmp(to + 4 * width, source + 2 * width, width) == 0 && to[2 * width] == 0,
                   "scatter picked, %zu bytes", width);

            char *next[] = { (char *)to, (char *)to + width };
            td_rows_distribute(next, &bucket_numbers, 1, 4, from, width, stream);
            EXPECT(memcmp(to, source + width, width) == 0, "distribute, %zu bytes", width);
            EXPECT(memcmp(to + width, source, width) == 0, "distribute, %zu bytes", width);
            EXPECT(memcmp(to + 2 * width, source + 2 * width, 2 * width) == 0,
                   "distribute, %zu bytes", width);
            EXPECT(next[0] == (char *)to + width && next[1] == (char *)to + 4 * width, "next");
        }
    }
}

TD_TEST(rows_of_any_width_are_copied_between_two_layouts)
{
    enum { ROWS = 5, WIDEST = 300, GAP = 7, ROOM = ROWS * (WIDEST + GAP) + 128 };
    static unsigned char from[ROOM], out[ROOM], want[ROOM];
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(1 + i * 7919 % 251);
    for (int width = 1; width <= WIDEST; width++)
        for (int kind = 0; kind < 16; kind++) {
            const bool stream = kind & 1;
            const int64_t to_stride = kind & 2 ? width + GAP : width;
            const int64_t from_stride = kind & 4 ? -(width + GAP) : width;
            unsigned char *first = out + (kind & 8 ? 13 : 0);
            const unsigned char *source = from_stride < 0 ? from - (ROWS - 1) * from_stride : from;
            memset(out, 0, sizeof(out));
            memset(want, 0, sizeof(want));
            for (int k = 0; k < ROWS; k++)
                memcpy(want + (first - out) + k * to_stride, source + k * from_stride,
                       (size_t)width);
            td_rows_copy_strided(first, to_stride, source, from_stride, (size_t)width, ROWS,
                                 stream);
            EXPECT(memcmp(out, want, sizeof(out)) == 0, "%d bytes, kind %d", width, kind);
        }
}

/* Each part gets its rows in order, and each row in range belongs to one part. All rows of a block
 * of 64 bytes belong to the same part. */
TD_TEST_LOOP(rows_are_divided_into_parts, 1, 6)
{
    enum { ROWS = 1000 };
    int64_t rows[ROWS];
    uint16_t picked[ROWS];
    int part_of[ROWS], block_part[ROWS];
    struct td_row_parts parts;
    random_seed((uint64_t)_i);
    for (int k = 0; k < ROWS; k++) {
        rows[k] = random_below(400) - 50;
        part_of[k] = block_part[k] = -1;
    }
    td_row_parts_init(&parts, 10, 200, 8, 64, _i);
    for (int part = 0; part < _i; part++) {
        const int64_t n = td_rows_pick(rows, ROWS, &parts, part, picked);
        for (int64_t i = 0; i < n; i++) {
            ck_assert(i == 0 || picked[i] > picked[i - 1]);
            ck_assert_int_eq(part_of[picked[i]], -1);
            part_of[picked[i]] = part;
        }
    }
    for (int k = 0; k < ROWS; k++) {
        const bool is_in = rows[k] >= 10 && rows[k] < 210;
        ck_assert(is_in == (part_of[k] >= 0));
        if (!is_in)
            continue;
        if (block_part[rows[k] / 8] < 0)
            block_part[rows[k] / 8] = part_of[k];
        ck_assert_int_eq(block_part[rows[k] / 8], part_of[k]);
    }
}

TD_TEST(rows_without_bytes_have_parts)
{
    struct td_row_parts parts;
    td_row_parts_init(&parts, 0, INT64_MAX, 0, 64, 2);
    ck_assert_int_eq(parts.n_parts, 2);
}

TD_TEST(only_large_outputs_of_long_rows_are_streamed)
{
    const size_t large = (size_t)1 << 30;
    ck_assert(td_rows_should_stream(large, 64));
    ck_assert(td_rows_should_stream(large, 4096));
    ck_assert(td_rows_should_stream(large, 1001));
    ck_assert(!td_rows_should_stream(large, 4));
    ck_assert(!td_rows_should_stream(large, 63));
    ck_assert(!td_rows_should_stream(large, 65));
    ck_assert(!td_rows_should_stream(4096, 64));
}

TD_TEST(a_negative_index_is_reported_without_a_bound)
{
    struct td_error err;
    struct td_tensor t = tensor("int32[2,2] 0 1 -5 2");
    ck_assert_int_eq(td_rows_negative(&err, "indices[3]", &t, 2, 1), TD_INDEX_OUT_OF_BOUNDS);
    ck_assert_str_eq(err.message, "indices[3][1,0] = -5 is negative; must be at least 0");
    ck_assert_str_eq(err.input, "indices[3]");
    ck_assert(err.has_index && !err.has_bound);
    ck_assert_int_eq(err.position_rank, 2);
    ck_assert_int_eq(err.index, -5);
}
