#include "tests/support/nests.h"

#include "kernels/half.h"
#include "tests/support/random.h"
#include "tests/support/tensors.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t below(uint64_t *state, int64_t bound)
{
    return (int64_t)(random_from(state) % (uint64_t)bound);
}

static size_t size_of(const struct nest *nest, int operand)
{
    return td_dtype_info(nest->contraction.dtype[operand])->size;
}

static void allocate(struct nest *nest)
{
    for (int operand = TD_A; operand <= TD_C; operand++) {
        const size_t bytes = (size_t)nest->n_elements[operand] * size_of(nest, operand);
        nest->data[operand] = malloc(bytes > 0 ? bytes : 1);
        EXPECT(nest->data[operand], "out of memory");
    }
    const size_t bytes = (size_t)nest->n_elements[TD_C] * size_of(nest, TD_C);
    nest->want = malloc(bytes);
    EXPECT(nest->want, "out of memory");
    memset(nest->data[TD_C], 0xa5, bytes);
}

void nest_free(struct nest *nest)
{
    for (int operand = TD_A; operand <= TD_C; operand++)
        free(nest->data[operand]);
    free(nest->want);
}

/* ---- Random nests ------------------------------------------------------------------------ */

static void shuffle(int *items, int n, uint64_t *state)
{
    for (int i = n - 1; i > 0; i--) {
        const int k = (int)below(state, i + 1), item = items[i];
        items[i] = items[k];
        items[k] = item;
    }
}

/* Gives an operand's loops the strides of a dense tensor with its letters in some order; some occur
 * twice, some rows have a gap. */
static void lay_out(struct nest *nest, int operand, const int *letters, int n_letters,
                    uint64_t *state)
{
    int dims[2 * NEST_LOOPS], n_dims = 0;
    for (int i = 0; i < n_letters; i++) {
        dims[n_dims++] = letters[i];
        if (operand != TD_C && below(state, 12) == 0 && nest->loops[letters[i]].extent < 50)
            dims[n_dims++] = letters[i];
    }
    if (below(state, 3) != 0)
        shuffle(dims, n_dims, state);
    int64_t step = 1, last = 0;
    if (operand != TD_C && below(state, 10) == 0)
        step = 2;
    for (int i = n_dims - 1; i >= 0; i--) {
        struct td_loop *loop = &nest->loops[dims[i]];
        loop->stride[operand] += step;
        last += step * (loop->extent - 1);
        step *= loop->extent;
        if (operand != TD_C && below(state, 8) == 0)
            step += 3;
    }
    nest->n_elements[operand] = last + 1;
}

static int64_t draw_extent(uint64_t *state, int64_t most)
{
    int64_t extent;
    switch (below(state, 8)) {
    case 0:
        extent = 1;
        break;
    case 1:
    case 2:
        extent = 1 + below(state, 70);
        break;
    case 3:
        extent = 1 + below(state, 1500);
        break;
    default:
        extent = 2 + below(state, 8);
    }
    return extent < most ? extent : most;
}

/* By descending C stride, summed loops last by descending A stride, as in simplified nests. */
static int compare_loops(const void *a, const void *b)
{
    const struct td_loop *x = a, *y = b;
    if (x->stride[TD_C] != y->stride[TD_C])
        return x->stride[TD_C] < y->stride[TD_C] ? 1 : -1;
    return x->stride[TD_A] < y->stride[TD_A] ? 1 : x->stride[TD_A] > y->stride[TD_A] ? -1 : 0;
}

void nest_draw(struct nest *nest, const struct nest_kind *kind, uint64_t *state)
{
    *nest = (struct nest){ 0 };
    int letters[3][NEST_LOOPS], n_letters[3] = { 0 };
    const int rank = 1 + (int)below(state, 6);
    int64_t left = kind->steps;
    for (int i = 0; i < rank; i++) {
        nest->loops[i].extent = draw_extent(state, left < 1 ? 1 : left);
        left /= nest->loops[i].extent;
        /* Bits: in A, in B, in C. */
        unsigned in = 1 + (unsigned)below(state, 7);
        if (!kind->has_b)
            in = (in & 4) | 1;
        if (in == 4)
            in = 7; /* A or B must have it */
        if (kind->has_b && !(in & 4))
            in = 3; /* both have a summed letter */
        if (!kind->sums)
            in |= 4;
        for (int operand = TD_A; operand <= TD_C; operand++)
            if (in >> operand & 1)
                letters[operand][n_letters[operand]++] = i;
    }
    nest->contraction = (struct td_contraction){
        .dtype = { kind->in, kind->in, kind->out },
        .has_b = kind->has_b,
        .kind = kind->sums || kind->has_b ? TD_CONTRACT_SUMPROD : TD_CONTRACT_PERMUTE,
        .rank = rank,
        .loops = nest->loops,
    };
    for (int operand = TD_A; operand <= TD_C; operand++)
        lay_out(nest, operand, letters[operand], n_letters[operand], state);
    if (!kind->has_b)
        nest->n_elements[TD_B] = 0;
    if (below(state, 2))
        qsort(nest->loops, (size_t)rank, sizeof(nest->loops[0]), compare_loops);
    allocate(nest);
}

/* ---- Nests from text --------------------------------------------------------------------- */

static int64_t extent_of(const char *text, char letter)
{
    const char pattern[] = { ' ', letter, '=', '\0' };
    const char *at = strstr(text, pattern);
    EXPECT(at, "no extent of %c in %s", letter, text);
    return strtoll(at + 3, NULL, 10);
}

/* Adds a loop for each letter in [text, end), in the order of their first occurrence. */
static void parse_loops(struct nest *nest, const char *text, const char *end, char *letters)
{
    int rank = 0;
    for (const char *at = text; at < end; at++) {
        if (!isalpha((unsigned char)*at) || strchr(letters, *at))
            continue;
        nest->loops[rank].extent = extent_of(text, *at);
        letters[rank++] = *at;
    }
    nest->contraction.rank = rank;
}

/* Sets the strides of an operand with the letters and gaps in [begin, end). */
static void parse_operand(struct nest *nest, int operand, const char *begin, const char *end,
                          const char *letters)
{
    int64_t step = 1;
    int gap = 1;
    for (const char *at = end; at-- > begin;) {
        if (isdigit((unsigned char)*at)) {
            gap = *at - '0';
            continue;
        }
        struct td_loop *loop = &nest->loops[strchr(letters, *at) - letters];
        step *= gap;
        loop->stride[operand] += step;
        step *= loop->extent;
        gap = 1;
    }
    nest->n_elements[operand] = step;
}

void nest_parse(struct nest *nest, const char *text, td_dtype a, td_dtype b, td_dtype c)
{
    const char *arrow = strstr(text, "->"), *end = text + strcspn(text, " ");
    const char *comma = strchr(text, ','), *end_of_a = comma ? comma : arrow;
    char letters[NEST_LOOPS + 1] = "";
    *nest = (struct nest){ .contraction = { .dtype = { a, b, c },
                                            .has_b = comma != NULL,
                                            .kind = TD_CONTRACT_SUMPROD,
                                            .loops = nest->loops } };
    parse_loops(nest, text, end, letters);
    parse_operand(nest, TD_A, text, end_of_a, letters);
    parse_operand(nest, TD_B, comma ? comma + 1 : arrow, arrow, letters);
    parse_operand(nest, TD_C, arrow + 2, end, letters);
    qsort(nest->loops, (size_t)nest->contraction.rank, sizeof(nest->loops[0]), compare_loops);
}

void nest_make(struct nest *nest, const char *text, td_dtype in, td_dtype out)
{
    nest_parse(nest, text, in, in, out);
    allocate(nest);
}

/* ---- Elements ---------------------------------------------------------------------------- */

/* A number of any dtype: a complex double, or an integer modulo 2^64. */
struct number {
    double re, im;
    uint64_t whole;
};

#define INTEGERS(X)                                                                                \
    X(INT8, int8_t)                                                                                \
    X(INT16, int16_t)                                                                              \
    X(INT32, int32_t)                                                                              \
    X(INT64, int64_t)                                                                              \
    X(UINT8, uint8_t)                                                                              \
    X(UINT16, uint16_t)                                                                            \
    X(UINT32, uint32_t)                                                                            \
    X(UINT64, uint64_t)

static struct number get(const void *data, td_dtype dtype, int64_t i)
{
    struct number number = { 0 };
    switch (dtype) {
#define GET(name, type)                                                                            \
    case TD_DTYPE_##name:                                                                          \
        number.whole = (uint64_t)((const type *)data)[i];                                          \
        break;
        INTEGERS(GET)
#undef GET
    case TD_DTYPE_FLOAT16:
        number.re = (double)td_float16_value(((const uint16_t *)data)[i]);
        break;
    case TD_DTYPE_BFLOAT16:
        number.re = (double)td_bfloat16_value(((const uint16_t *)data)[i]);
        break;
    case TD_DTYPE_FLOAT32:
        number.re = (double)((const float *)data)[i];
        break;
    case TD_DTYPE_FLOAT64:
        number.re = ((const double *)data)[i];
        break;
    case TD_DTYPE_COMPLEX64:
        number.re = (double)((const float *)data)[2 * i];
        number.im = (double)((const float *)data)[2 * i + 1];
        break;
    case TD_DTYPE_COMPLEX128:
        number.re = ((const double *)data)[2 * i];
        number.im = ((const double *)data)[2 * i + 1];
        break;
    default:
        ck_abort_msg("no numbers of dtype %d", (int)dtype);
    }
    return number;
}

static void put(void *data, td_dtype dtype, int64_t i, struct number number)
{
    bool unsure;
    switch (dtype) {
#define PUT(name, type)                                                                            \
    case TD_DTYPE_##name:                                                                          \
        ((type *)data)[i] = (type)number.whole;                                                    \
        break;
        INTEGERS(PUT)
#undef PUT
    case TD_DTYPE_FLOAT16:
        ((uint16_t *)data)[i] = td_narrow_round(number.re, TD_NARROW_FLOAT16, 0, &unsure);
        break;
    case TD_DTYPE_BFLOAT16:
        ((uint16_t *)data)[i] = td_narrow_round(number.re, TD_NARROW_BFLOAT16, 0, &unsure);
        break;
    case TD_DTYPE_FLOAT32:
        ((float *)data)[i] = (float)number.re;
        break;
    case TD_DTYPE_FLOAT64:
        ((double *)data)[i] = number.re;
        break;
    case TD_DTYPE_COMPLEX64:
        ((float *)data)[2 * i] = (float)number.re;
        ((float *)data)[2 * i + 1] = (float)number.im;
        break;
    case TD_DTYPE_COMPLEX128:
        ((double *)data)[2 * i] = number.re;
        ((double *)data)[2 * i + 1] = number.im;
        break;
    default:
        ck_abort_msg("no numbers of dtype %d", (int)dtype);
    }
}

void nest_store(void *data, td_dtype dtype, int64_t i, int64_t re, int64_t im)
{
    put(data, dtype, i, (struct number){ (double)re, (double)im, (uint64_t)re });
}

void nest_fill(struct nest *nest, uint64_t *state)
{
    for (int operand = TD_A; operand <= TD_B; operand++)
        for (int64_t i = 0; i < nest->n_elements[operand]; i++)
            put(nest->data[operand], nest->contraction.dtype[operand], i,
                (struct number){ .re = (double)(below(state, 7) - 3),
                                 .im = (double)(below(state, 7) - 3),
                                 .whole = random_from(state) });
}

/* ---- Reference ---------------------------------------------------------------------------- */

void nest_reference(struct nest *nest)
{
    const struct td_contraction *contraction = &nest->contraction;
    const int64_t n = nest->n_elements[TD_C];
    struct number *sums = calloc((size_t)n, sizeof(sums[0]));
    EXPECT(sums, "out of memory");
    bool summed = false;
    for (int i = 0; i < contraction->rank; i++)
        summed = summed || (nest->loops[i].stride[TD_C] == 0 && nest->loops[i].extent > 1);
    int64_t position[NEST_LOOPS] = { 0 }, place[3] = { 0 };
    for (int i = 0; i >= 0;) {
        const struct number a = get(nest->data[TD_A], contraction->dtype[TD_A], place[TD_A]);
        const struct number b = contraction->has_b
                                    ? get(nest->data[TD_B], contraction->dtype[TD_B], place[TD_B])
                                    : (struct number){ 1, 0, 1 };
        struct number *sum = &sums[place[TD_C]];
        if (!summed) /* 0 + -0 would be 0 */
            *sum = (struct number){ -0.0, -0.0, 0 };
        sum->re += a.re * b.re - a.im * b.im;
        sum->im += a.re * b.im + a.im * b.re;
        sum->whole += a.whole * b.whole;
        for (i = contraction->rank - 1; i >= 0; i--) {
            const struct td_loop *loop = &nest->loops[i];
            const bool wraps = ++position[i] == loop->extent;
            for (int operand = TD_A; operand <= TD_C; operand++)
                place[operand] += (wraps ? 1 - loop->extent : 1) * loop->stride[operand];
            if (!wraps)
                break;
            position[i] = 0;
        }
    }
    for (int64_t i = 0; i < n; i++)
        put(nest->want, contraction->dtype[TD_C], i, sums[i]);
    free(sums);
}

static const char *describe(const struct nest *nest)
{
    static char text[1024];
    int used = snprintf(text, sizeof(text), "%s -> %s%s;",
                        td_dtype_info(nest->contraction.dtype[TD_A])->name,
                        td_dtype_info(nest->contraction.dtype[TD_C])->name,
                        nest->contraction.has_b ? ", two operands" : "");
    for (int i = 0; i < nest->contraction.rank; i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, " %ld(%ld,%ld,%ld)",
                         (long)nest->loops[i].extent, (long)nest->loops[i].stride[TD_A],
                         (long)nest->loops[i].stride[TD_B], (long)nest->loops[i].stride[TD_C]);
    return text;
}

void nest_expect(const struct nest *nest, const char *case_name)
{
    const size_t size = size_of(nest, TD_C);
    for (int64_t i = 0; i < nest->n_elements[TD_C]; i++)
        EXPECT(memcmp((const char *)nest->data[TD_C] + (size_t)i * size,
                      (const char *)nest->want + (size_t)i * size, size) == 0,
               "%s: element %ld of %s", case_name, (long)i, describe(nest));
}

/* ---- Workspaces -------------------------------------------------------------------------- */

#define GUARD 64

static char *guarded_part(size_t bytes)
{
    char *part = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    EXPECT(part, "out of memory");
    memset(part, 0xee, bytes); /* the initial contents must not affect results */
    memset(part + bytes, 0x5a, GUARD);
    return part;
}

static void expect_guard(const char *guard, const char *case_name)
{
    for (int i = 0; i < GUARD; i++)
        EXPECT(guard[i] == 0x5a, "%s: written %d bytes past the end of the workspace", case_name,
               i);
}

void guarded_workspace_open(struct guarded_workspace *guarded, struct td_workspace_size size,
                            int n_threads)
{
    *guarded = (struct guarded_workspace){ .size = size };
    struct td_workspace *workspace = &guarded->workspace;
    workspace->n_threads = n_threads;
    workspace->scratch_bytes = (size_t)(size.per_thread + GUARD + 63) / 64 * 64;
    workspace->shared = guarded_part((size_t)size.shared);
    workspace->scratch = guarded_part(workspace->scratch_bytes * (size_t)n_threads);
    for (int i = 0; i < n_threads; i++)
        memset((char *)td_workspace_scratch(workspace, i) + size.per_thread, 0x5a, GUARD);
}

void guarded_workspace_close(struct guarded_workspace *guarded, const char *case_name)
{
    struct td_workspace *workspace = &guarded->workspace;
    expect_guard(workspace->shared + guarded->size.shared, case_name);
    for (int i = 0; i < workspace->n_threads; i++) {
        expect_guard((char *)td_workspace_scratch(workspace, i) + guarded->size.per_thread,
                     case_name);
        EXPECT(atomic_load(&workspace->in_use[i]) == 0,
               "%s: the scratch of a thread was not released", case_name);
    }
    free(workspace->shared);
    free(workspace->scratch);
}
