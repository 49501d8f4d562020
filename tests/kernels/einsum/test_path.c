#include "kernels/einsum/path.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

#define MAX_OPERANDS TD_EINSUM_MAX_INPUTS

/* Operands as sets of up to 64 labels, and the extents of the labels. */
struct network {
    int n;
    uint64_t operand[2 * MAX_OPERANDS];
    uint64_t output;
    int64_t extent[64];
};

struct cost {
    double flops, largest;
};

static double product(const struct network *net, uint64_t set)
{
    double result = 1;
    for (int i = 0; i < 64; i++)
        if (set >> i & 1)
            result *= (double)net->extent[i];
    return result;
}

/* Returns the labels of the result of a pair, given those of the other operands; adds its cost. */
static uint64_t contract(const struct network *net, uint64_t a, uint64_t b, uint64_t others,
                         struct cost *cost)
{
    uint64_t result = (a | b) & (others | net->output);
    cost->flops += product(net, a | b) * (result == (a | b) ? 1 : 2);
    double numel = product(net, result);
    cost->largest = numel > cost->largest ? numel : cost->largest;
    return result;
}

/* The lowest cost of all orders, by exhaustive search. */
static struct cost cheapest(const struct network *net, const uint64_t *operand, int n,
                            struct cost total)
{
    if (n == 1)
        return total;
    struct cost best = { 1e300, 1e300 };
    for (int b = 1; b < n; b++) {
        for (int a = 0; a < b; a++) {
            uint64_t left[MAX_OPERANDS], others = 0;
            int n_left = 0;
            for (int i = 0; i < n; i++)
                if (i != a && i != b)
                    others |= left[n_left++] = operand[i];
            struct cost cost = total;
            left[n_left++] = contract(net, operand[a], operand[b], others, &cost);
            cost = cheapest(net, left, n_left, cost);
            if (cost.flops < best.flops ||
                (cost.flops <= best.flops && cost.largest < best.largest))
                best = cost;
        }
    }
    return best;
}

static void find_path(const struct network *net, struct td_pair *pairs)
{
    struct td_labels operands[MAX_OPERANDS] = { 0 }, output = { { net->output } };
    for (int i = 0; i < net->n; i++)
        operands[i].word[0] = net->operand[i];
    struct td_error err;
    ck_assert_int_eq(td_path_find(operands, net->n, &output, net->extent, &test_arena, pairs, &err),
                     TD_OK);
}

/* The cost of the order cost_found by td_path_find; every operand and result must be used once. */
static struct cost cost_found(const struct network *net, const char *case_name)
{
    struct td_pair pairs[MAX_OPERANDS];
    find_path(net, pairs);
    uint64_t operand[2 * MAX_OPERANDS];
    bool used[2 * MAX_OPERANDS] = { false };
    memcpy(operand, net->operand, sizeof(operand));
    struct cost cost = { 0, 0 };
    for (int i = 0; i < net->n - 1; i++) {
        int a = pairs[i].a, b = pairs[i].b, result = net->n + i;
        EXPECT(0 <= a && a < b && b < result && !used[a] && !used[b], "%s: pair %d is (%d, %d)",
               case_name, i, a, b);
        used[a] = used[b] = true;
        uint64_t others = 0;
        for (int k = 0; k < result; k++)
            others |= used[k] ? 0 : operand[k];
        operand[result] = contract(net, operand[a], operand[b], others, &cost);
    }
    return cost;
}

/* "ab bc->ac", labels a to z, all of the given extent except those in `extents`: "a2 b30". */
static struct network network_of(const char *text, int64_t extent, const char *extents)
{
    struct network net = { .n = 1 };
    for (int i = 0; i < 64; i++)
        net.extent[i] = extent;
    for (; *extents; extents += strcspn(extents, " "), extents += strspn(extents, " "))
        net.extent[extents[0] - 'a'] = strtoll(extents + 1, NULL, 10);
    uint64_t *to = &net.operand[0];
    for (; *text; text++) {
        if (*text == ' ')
            to = &net.operand[net.n++];
        else if (*text == '-')
            to = &net.output;
        else if (*text != '>')
            *to |= UINT64_C(1) << (*text - 'a');
    }
    return net;
}

static const struct {
    const char *case_name;
    const char *network;
    int64_t extent;
    const char *extents;
    double flops, largest;
} known[] = {
    { "one operand needs no pair", "ab->a", 10, "", 0, 0 },
    { "a matrix product", "ab bc->ac", 10, "", 2000, 100 },
    { "an outer product has no sum", "a b->ab", 10, "", 100, 100 },
    { "an elementwise product has no sum", "ab ab->ab", 10, "", 100, 100 },
    { "the matrices of Cormen et al., 15.2: 15125 products", "ab bc cd de ef fg->ag", 1,
      "a30 b35 c15 d5 e10 f20 g25", 30250, 750 },
    { "numpy.einsum_path's example: 8.000e+05", "ea fb abcd gc hd->efgh", 10, "", 8e5, 1e4 },
    { "from the right, with a vector at the right end", "ab bc cd de e->a", 10, "", 4 * 200, 10 },
    { "from the left, with a vector at the left end", "a ab bc cd de->e", 10, "", 4 * 200, 10 },
    { "sums of operands without common labels", "a b c->", 10, "", 200 + 20, 1 },
    { "two unconnected networks", "ab ba cd dc->", 10, "", 200 + 200 + 1, 1 },
    { "an outer product first, if cheaper: 4 + 2 * 400 is less than 2 * 2 * 200", "a b abc->c", 2,
      "c100", 4 + 800, 100 },
    { "scalars", "->", 2, "", 0, 0 },
    { "a batch label in three operands", "zab zbc zcd->zad", 4, "z100", 2 * 2 * 6400, 1600 },
    { "a vector after fifteen matrices", "ab bc cd de ef fg gh hi ij jk kl lm mn no op p->a", 10,
      "", 15 * 200, 10 },
    { "a vector before fifteen matrices", "a ab bc cd de ef fg gh hi ij jk kl lm mn no op->p", 10,
      "", 15 * 200, 10 },
};

TD_TEST_EACH(the_best_order_has_these_costs, known)
{
    struct network net = network_of(known[_i].network, known[_i].extent, known[_i].extents);
    struct cost cost = cost_found(&net, known[_i].case_name);
    ck_assert_msg(cost.flops == known[_i].flops, "%s: %g FLOPs", known[_i].case_name, cost.flops);
    ck_assert_msg(cost.largest == known[_i].largest, "%s: %g elements", known[_i].case_name,
                  cost.largest);
}

TD_TEST(the_textbook_chain_has_the_textbook_order)
{
    /* ((A1 (A2 A3)) ((A4 A5) A6)) */
    struct network net = network_of("ab bc cd de ef fg->ag", 1, "a30 b35 c15 d5 e10 f20 g25");
    struct td_pair pairs[5];
    find_path(&net, pairs);
    static const struct td_pair want[] = { { 1, 2 }, { 0, 6 }, { 3, 4 }, { 5, 8 }, { 7, 9 } };
    ck_assert_mem_eq(pairs, want, sizeof(want));
}

/* ---- Random networks --------------------------------------------------------------------- */

static struct network random_network(int n)
{
    struct network net = { .n = n };
    int n_labels = 1 + random_below(2 * n + 2);
    for (int i = 0; i < n_labels; i++) {
        net.extent[i] = 1 + random_below(random_below(3) ? 4 : 30);
        for (int uses = random_below(4); uses >= 0; uses--)
            net.operand[random_below(n)] |= UINT64_C(1) << i;
        if (random_below(3) == 0)
            net.output |= UINT64_C(1) << i;
    }
    return net;
}

TD_TEST(exhaustive_search_finds_no_better_order)
{
    for (int round = 0; round < 3000; round++) {
        random_seed((uint64_t)round);
        struct network net = random_network(2 + random_below(round % 50 ? 4 : 5));
        struct cost got = cost_found(&net, "random"),
                    want = cheapest(&net, net.operand, net.n, (struct cost){ 0, 0 });
        EXPECT(got.flops <= want.flops && got.largest <= want.largest,
               "round %d: %g FLOPs and %g elements, the best has %g and %g", round, got.flops,
               got.largest, want.flops, want.largest);
        td_arena_reset(&test_arena);
    }
}

/* The lowest cost of a chain of matrices of d[0] x d[1], d[1] x d[2], ...: the textbook's dynamic
 * program. */
static double cheapest_chain(const int64_t *d, int n)
{
    double best[MAX_OPERANDS + 1][MAX_OPERANDS + 1] = { { 0 } };
    for (int length = 2; length <= n; length++) {
        for (int i = 0; i + length <= n; i++) {
            best[i][i + length] = 1e300;
            for (int k = i + 1; k < i + length; k++) {
                double flops = best[i][k] + best[k][i + length] +
                               2 * (double)d[i] * (double)d[k] * (double)d[i + length];
                if (flops < best[i][i + length])
                    best[i][i + length] = flops;
            }
        }
    }
    return best[0][n];
}

TD_TEST(greedy_orders_of_long_chains_are_near_the_best)
{
    double worst = 1, sum = 0;
    for (int round = 0; round < 300; round++) {
        random_seed((uint64_t)round);
        struct network net = { .n = 2 + random_below(MAX_OPERANDS - 1) };
        for (int i = 0; i <= net.n; i++)
            net.extent[i] = 2 + random_below(60);
        for (int i = 0; i < net.n; i++)
            net.operand[i] = UINT64_C(3) << i;
        net.output = UINT64_C(1) | UINT64_C(1) << net.n;
        double ratio = cost_found(&net, "chain").flops / cheapest_chain(net.extent, net.n);
        EXPECT(net.n > TD_PATH_EXACT || ratio <= 1, "round %d: %g times the lowest", round, ratio);
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
        td_arena_reset(&test_arena);
    }
    ck_assert_msg(worst < 2 && sum < 300 * 1.1, "%g times the lowest, %g on average", worst,
                  sum / 300);
}

TD_TEST(every_random_network_has_an_order)
{
    for (int round = 0; round < 300; round++) {
        random_seed((uint64_t)round);
        struct network net = random_network(1 + random_below(MAX_OPERANDS));
        cost_found(&net, "random");
        td_arena_reset(&test_arena);
    }
}

TD_TEST(labels_may_be_in_any_word_of_a_set)
{
    /* (200 x 3) (3 x 200) (200 x 1), labels far apart: from the right 2 * 600 + 2 * 600. */
    struct td_labels operands[3] = { 0 }, output = { 0 };
    int64_t extent[TD_EINSUM_MAX_LABELS] = { [0] = 200, [70] = 3, [140] = 200, [255] = 2 };
    td_labels_add(&operands[0], 0);
    td_labels_add(&operands[0], 70);
    td_labels_add(&operands[1], 70);
    td_labels_add(&operands[1], 140);
    td_labels_add(&operands[2], 140);
    td_labels_add(&operands[2], 255);
    td_labels_add(&output, 0);
    td_labels_add(&output, 255);
    ck_assert(td_labels_has(&operands[2], 255) && !td_labels_has(&operands[2], 191));
    struct td_pair pairs[2];
    struct td_error err;
    ck_assert_int_eq(td_path_find(operands, 3, &output, extent, &test_arena, pairs, &err), TD_OK);
    ck_assert_int_eq(pairs[0].a, 1);
    ck_assert_int_eq(pairs[0].b, 2);
}

TD_TEST(costs_beyond_64_bits_saturate)
{
    struct network net = network_of("abc bcd cde def efg fgh ghi hij ijk->ak", INT64_MAX, "");
    cost_found(&net, "huge");
    net.n = 5;
    cost_found(&net, "huge, exact");
    ck_assert_uint_eq(td_saturating_mul(UINT64_C(1) << 32, UINT64_C(1) << 32), UINT64_MAX);
    ck_assert_uint_eq(td_saturating_mul(0, UINT64_MAX), 0);
    ck_assert_uint_eq(td_saturating_add(UINT64_MAX, 1), UINT64_MAX);
    ck_assert_uint_eq(td_saturating_add(2, 1), 3);
}
