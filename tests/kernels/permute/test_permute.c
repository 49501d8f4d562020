#include "kernels/permute/permute.h"
#include "tests/support/nests.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"
#include "tests/support/threads.h"

#include <stdlib.h>
#include <string.h>

#define FOR_EACH_ISA(isa)                                                                          \
    for (td_isa isa = TD_ISA_GENERIC; isa < TD_ISA_COUNT; isa++)                                   \
        if (td_isa_supported(isa))

/* One dtype of each width; floats are compared bitwise. */
static const td_dtype widths[] = { TD_DTYPE_UINT8, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                   TD_DTYPE_COMPLEX64, TD_DTYPE_COMPLEX128 };

/* Random bits, so that the floats include every kind of NaN. */
static void fill_bits(struct nest *nest, uint64_t *state)
{
    const size_t size = td_dtype_info(nest->contraction.dtype[TD_A])->size;
    unsigned char *bytes = nest->data[TD_A];
    for (size_t i = 0; i < (size_t)nest->n_elements[TD_A] * size; i++)
        bytes[i] = (unsigned char)random_from(state);
}

/* The reference: element by element. `first` is the element of A at the first position. */
static void permute_reference(struct nest *nest, int64_t first)
{
    const size_t size = td_dtype_info(nest->contraction.dtype[TD_A])->size;
    int64_t position[NEST_LOOPS] = { 0 }, from = first, to = 0;
    for (int i = 0; i >= 0;) {
        memcpy((char *)nest->want + (size_t)to * size,
               (char *)nest->data[TD_A] + (size_t)from * size, size);
        for (i = nest->contraction.rank - 1; i >= 0; i--) {
            const struct td_loop *loop = &nest->loops[i];
            const bool wraps = ++position[i] == loop->extent;
            from += (wraps ? 1 - loop->extent : 1) * loop->stride[TD_A];
            to += (wraps ? 1 - loop->extent : 1) * loop->stride[TD_C];
            if (!wraps)
                break;
            position[i] = 0;
        }
    }
}

/* Sets *width to the size of an element. Returns the number of loops. */
static int loops_of(const struct nest *nest, struct td_permute_loop *loops, size_t *width)
{
    for (int i = 0; i < nest->contraction.rank; i++)
        loops[i] = (struct td_permute_loop){ .extent = nest->loops[i].extent,
                                             .a = nest->loops[i].stride[TD_A],
                                             .c = nest->loops[i].stride[TD_C] };
    *width = td_dtype_info(nest->contraction.dtype[TD_A])->size;
    return nest->contraction.rank;
}

static td_status run(struct nest *nest, int64_t first, td_isa isa, int threads, int64_t grain,
                     int64_t ranges_allowed)
{
    struct thread_exec exec;
    struct td_error err;
    thread_exec_init(&exec, threads, grain);
    exec.exec.isa = isa;
    exec.ranges_allowed = ranges_allowed;
    size_t width;
    struct td_permute_loop loops[NEST_LOOPS];
    const int n_loops = loops_of(nest, loops, &width);
    memset(nest->data[TD_C], 0xa5, (size_t)nest->n_elements[TD_C] * width);
    return td_permute_run(loops, n_loops, width, (char *)nest->data[TD_A] + first * (int64_t)width,
                          nest->data[TD_C], &exec.exec, &err);
}

static void expect_permuted(struct nest *nest, int64_t first, const char *case_name)
{
    uint64_t state = 1;
    fill_bits(nest, &state);
    permute_reference(nest, first);
    FOR_EACH_ISA(isa)
    {
        EXPECT(run(nest, first, isa, 1, 0, -1) == TD_OK, "%s", case_name);
        nest_expect(nest, case_name);
        EXPECT(run(nest, first, isa, 3, 2, -1) == TD_OK, "%s", case_name);
        nest_expect(nest, case_name);
    }
}

TD_TEST_EACH(random_nests_are_permuted_bit_for_bit, widths)
{
    uint64_t state = (uint64_t)_i;
    for (int round = 0; round < 40 * test_effort(); round++) {
        struct nest nest;
        nest_draw(&nest, &(struct nest_kind){ .in = widths[_i], .out = widths[_i], .steps = 20000 },
                  &state);
        expect_permuted(&nest, 0, "random");
        nest_free(&nest);
    }
}

/* Reverses loop i in A if bit i is set. Returns the element of A at the first position. */
static int64_t reverse_loops(struct nest *nest, uint64_t bits)
{
    int64_t first = 0;
    for (int i = 0; i < nest->contraction.rank; i++) {
        struct td_loop *loop = &nest->loops[i];
        if (!(bits >> i & 1))
            continue;
        first += (loop->extent - 1) * loop->stride[TD_A];
        loop->stride[TD_A] = -loop->stride[TD_A];
    }
    return first;
}

TD_TEST_EACH(random_nests_are_reversed_bit_for_bit, widths)
{
    uint64_t state = (uint64_t)_i + 100;
    for (int round = 0; round < 40 * test_effort(); round++) {
        struct nest nest;
        nest_draw(&nest, &(struct nest_kind){ .in = widths[_i], .out = widths[_i], .steps = 20000 },
                  &state);
        expect_permuted(&nest, reverse_loops(&nest, random_from(&state)), "reversed");
        nest_free(&nest);
    }
}

/* Whole micro-tiles, micro-tiles shifted back at an edge, dimensions shorter than a micro-tile, few
 * rows or columns, partial tiles and blocks, rows that map to few cache sets, short runs of odd
 * widths, long runs, every second element. */
static const char *const equations[] = {
    "->",
    "i->i i=1",
    "i->i i=200003",
    "ij->ji i=64 j=64",
    "ij->ji i=65 j=67",
    "ij->ji i=3 j=500",
    "ij->ji i=500 j=3",
    "ij->ji i=2 j=777",
    "ij->ji i=777 j=2",
    "ij->ji i=4 j=333",
    "ij->ji i=333 j=4",
    "ijk->kij i=30 j=31 k=3",
    "ijk->jki i=3 j=30 k=31",
    "ij2->ij i=9 j=1001",
    "ij2->ij i=1001 j=9",
    "ij->ji i=17 j=1000",
    "ij->ji i=1000 j=31",
    "ij->ji i=300 j=1024",
    "ij->ji i=1024 j=300",
    "ij->ji i=601 j=599",
    "ijk->kji i=33 j=34 k=35",
    "ijk->jik i=50 j=60 k=2",
    "ijk->jik i=50 j=60 k=3",
    "ijk->jik i=50 j=60 k=5",
    "ijk->jik i=50 j=60 k=7",
    "ijk->jik i=50 j=60 k=13",
    "ijk->jik i=20 j=30 k=61",
    "ijk->jik i=20 j=30 k=300",
    "ijk->ikj i=7 j=40 k=50",
    "ijkl->ljki i=9 j=8 k=7 l=17",
    "ii->i i=300",
    "iij->ij i=40 j=50",
    "iij->ji i=40 j=50",
    "ijj->ij i=40 j=50",
};

TD_TEST_EACH(known_equations_are_permuted_bit_for_bit, equations)
{
    for (int w = 0; w < COUNT_OF(widths); w++) {
        struct nest nest;
        nest_make(&nest, equations[_i], widths[w], widths[w]);
        expect_permuted(&nest, 0, equations[_i]);
        nest_free(&nest);
    }
}

/* Outputs of more than 32 MiB: non-temporal stores, for tiles only if C is aligned. */
static const struct {
    const char *says;
    const char *equation;
    td_dtype dtype;
    uint64_t reversed; /* loops */
} large[] = {
    { "tiles", "ij->ji i=2048 j=1040", TD_DTYPE_COMPLEX128, 0 },
    { "rows of whole cache lines", "ijk->jik i=300 j=300 k=128", TD_DTYPE_FLOAT32, 0 },
    { "rows of other sizes", "ijk->jik i=100 j=70 k=1301", TD_DTYPE_FLOAT32, 0 },
    { "one row", "i->i i=9000001", TD_DTYPE_FLOAT32, 0 },
    { "reversed runs", "ij->ij i=3000 j=3001", TD_DTYPE_FLOAT32, 2 },
    { "every second element", "ij2->ij i=3000 j=3001", TD_DTYPE_FLOAT32, 0 },
};

TD_TEST_EACH(large_outputs_are_correct_aligned_or_not, large)
{
    struct nest nest;
    nest_make(&nest, large[_i].equation, large[_i].dtype, large[_i].dtype);
    void *heap = nest.data[TD_C];
    const size_t bytes =
        (size_t)nest.n_elements[TD_C] * td_dtype_info(nest.contraction.dtype[TD_C])->size;
    char *aligned = aligned_alloc(64, (bytes + 127) / 64 * 64);
    ck_assert_ptr_nonnull(aligned);
    uint64_t state = 1;
    const int64_t first = reverse_loops(&nest, large[_i].reversed);
    fill_bits(&nest, &state);
    permute_reference(&nest, first);
    FOR_EACH_ISA(isa)
    {
        for (int shift = 0; shift <= 16; shift += 16) {
            nest.data[TD_C] = aligned + shift;
            ck_assert_int_eq(run(&nest, first, isa, 2, 0, -1), TD_OK);
            ck_assert_msg(memcmp(nest.data[TD_C], nest.want, bytes) == 0, "%s, %s", large[_i].says,
                          td_isa_name(isa));
        }
    }
    free(aligned);
    nest.data[TD_C] = heap;
    nest_free(&nest);
}

TD_TEST(an_expired_deadline_stops_the_permutation)
{
    struct nest nest;
    nest_make(&nest, "ij->ji i=1000 j=1000", TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    memset(nest.data[TD_A], 0, 4000000);
    ck_assert_int_eq(run(&nest, 0, TD_ISA_AUTO, 2, 0, 1), TD_DEADLINE_EXCEEDED);
    nest_free(&nest);
}

TD_TEST(a_small_permutation_runs_as_one_range)
{
    struct nest nest;
    nest_make(&nest, "ij->ji i=250 j=250", TD_DTYPE_FLOAT32, TD_DTYPE_FLOAT32);
    memset(nest.data[TD_A], 0, 250000);
    ck_assert_int_eq(run(&nest, 0, TD_ISA_AUTO, 2, 0, 1), TD_OK);
    nest_free(&nest);
}

/* ---- Loops ------------------------------------------------------------------------------- */

static const struct {
    const char *says;
    struct td_permute_loop loops[3];
    int n;
    struct td_permute_loop want[3];
} fusions[] = {
    { "contiguous loops are one",
      { { 2, 12, 12 }, { 3, 4, 4 }, { 4, 1, 1 } },
      1,
      { { 24, 1, 1 } } },
    { "loops in another order stay",
      { { 4, 1, 3 }, { 3, 4, 1 } },
      2,
      { { 4, 1, 3 }, { 3, 4, 1 } } },
    { "loops that stay together are one",
      { { 5, 1, 12 }, { 3, 20, 4 }, { 4, 5, 1 } },
      2,
      { { 5, 1, 12 }, { 12, 5, 1 } } },
    { "a gap in A ends a loop",
      { { 2, 8, 6 }, { 3, 2, 2 }, { 2, 1, 1 } },
      2,
      { { 2, 8, 6 }, { 6, 1, 1 } } },
    { "a gap in C ends a loop", { { 2, 6, 8 }, { 6, 1, 1 } }, 2, { { 2, 6, 8 }, { 6, 1, 1 } } },
    { "a loop of extent 1 is left out",
      { { 2, 3, 3 }, { 1, 70, 90 }, { 3, 1, 1 } },
      1,
      { { 6, 1, 1 } } },
    { "reversed loops are one", { { 2, -3, 3 }, { 3, -1, 1 } }, 1, { { 6, -1, 1 } } },
    { "one reversed loop stays", { { 2, -3, 3 }, { 3, 1, 1 } }, 2, { { 2, -3, 3 }, { 3, 1, 1 } } },
};

TD_TEST_EACH(loops_are_fused_when_they_are_added, fusions)
{
    struct td_permute_loop loops[3];
    int n = 0;
    for (int i = 0; i < 3 && fusions[_i].loops[i].extent > 0; i++)
        n = td_permute_add_loop(loops, n, fusions[_i].loops[i]);
    ck_assert_msg(n == fusions[_i].n, "%s", fusions[_i].says);
    for (int i = 0; i < n; i++)
        ck_assert_msg(loops[i].extent == fusions[_i].want[i].extent &&
                          loops[i].a == fusions[_i].want[i].a &&
                          loops[i].c == fusions[_i].want[i].c,
                      "%s: loop %d", fusions[_i].says, i);
}
