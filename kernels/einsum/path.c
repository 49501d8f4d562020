#include "kernels/einsum/path.h"

#include <assert.h>
#include <string.h>

/* Label sets are processed only up to their last used word, which is nearly always the first
 * word. */
#define MAX_WORDS (TD_EINSUM_MAX_LABELS / 64)

struct search {
    int words;
    const int64_t *extent;
    struct td_labels output;
    /* The operands that remain to be contracted, and their numbers in the pairs. */
    int n;
    int number[TD_EINSUM_MAX_INPUTS];
    struct td_labels operand[TD_EINSUM_MAX_INPUTS];
    int next_number;
    struct td_pair *next_pair;
};

/* Returns the number of elements of a tensor with the labels in `set`, saturating at UINT64_MAX. */
static uint64_t numel_of(const uint64_t *set, const struct search *s)
{
    uint64_t numel = 1;
    for (int w = 0; w < s->words; w++)
        for (uint64_t bits = set[w]; bits; bits &= bits - 1)
            numel = td_saturating_mul(numel, (uint64_t)s->extent[w * 64 + __builtin_ctzll(bits)]);
    return numel;
}

/* Appends a pair. Returns the operand number of its result. */
static int emit(struct search *s, int a, int b)
{
    *s->next_pair++ = (struct td_pair){ a < b ? a : b, a < b ? b : a };
    return s->next_number++;
}

/* ---- Greedy ------------------------------------------------------------------------------ */

/* A candidate for the next pair. */
struct candidate {
    bool outer; /* the operands share no label */
    /* Number of elements removed per product. If the pair adds elements, the negated number of
     * added elements. */
    double gain;
    int a, b;
};

/* Returns the labels of the output and of all operands other than a and b. */
static struct td_labels labels_of_others(const struct search *s, int a, int b)
{
    struct td_labels needed = s->output;
    for (int i = 0; i < s->n; i++)
        for (int w = 0; w < s->words; w++)
            needed.word[w] |= i == a || i == b ? 0 : s->operand[i].word[w];
    return needed;
}

static struct td_labels result_labels(const struct search *s, int a, int b)
{
    struct td_labels result = labels_of_others(s, a, b);
    for (int w = 0; w < s->words; w++)
        result.word[w] &= s->operand[a].word[w] | s->operand[b].word[w];
    return result;
}

static struct candidate evaluate(const struct search *s, const uint64_t *numel, int a, int b)
{
    struct candidate candidate = { .outer = true, .a = a, .b = b };
    struct td_labels all = s->operand[a];
    for (int w = 0; w < s->words; w++) {
        if (all.word[w] & s->operand[b].word[w])
            candidate.outer = false;
        all.word[w] |= s->operand[b].word[w];
    }
    struct td_labels result = result_labels(s, a, b);
    double removed = (double)numel[a] + (double)numel[b] - (double)numel_of(result.word, s);
    candidate.gain = removed > 0 ? removed / (double)numel_of(all.word, s) : removed;
    return candidate;
}

static bool is_better(const struct candidate *x, const struct candidate *y)
{
    return x->outer != y->outer ? y->outer : x->gain > y->gain;
}

static void contract_greedily(struct search *s)
{
    uint64_t numel[TD_EINSUM_MAX_INPUTS] = { 0 };
    for (int i = 0; i < s->n; i++)
        numel[i] = numel_of(s->operand[i].word, s);
    struct candidate best = evaluate(s, numel, 0, 1);
    for (int b = 2; b < s->n; b++) {
        for (int a = 0; a < b; a++) {
            struct candidate candidate = evaluate(s, numel, a, b);
            if (is_better(&candidate, &best))
                best = candidate;
        }
    }
    s->operand[best.a] = result_labels(s, best.a, best.b);
    s->number[best.a] = emit(s, s->number[best.a], s->number[best.b]);
    s->n--;
    s->operand[best.b] = s->operand[s->n];
    s->number[best.b] = s->number[s->n];
}

/* ---- Exact ------------------------------------------------------------------------------- */

/* The best way to contract a subset of the operands to one tensor. Bit i of a subset's number
 * stands for operand i. */
struct subset {
    uint64_t flops;
    /* Number of elements of the largest intermediate, including the result. */
    uint64_t largest;
    uint64_t numel; /* number of elements of the result */
    uint32_t part;  /* the last pair is `part` and the rest of the subset */
};

struct table {
    struct subset *subsets;
    uint64_t *labels; /* labels of the results, [subset][word] */
};

/* Finds the labels of the result of each subset. A result keeps the labels that the subset shares
 * with the other operands or with the output. A single operand keeps all its labels. */
static void find_labels(const struct search *s, uint64_t *labels)
{
    uint32_t all = (1u << s->n) - 1;
    size_t words = (size_t)s->words;
    memset(labels, 0, words * sizeof(*labels));
    for (uint32_t set = 1; set <= all; set++) {
        const uint64_t *operand = s->operand[__builtin_ctz(set)].word;
        const uint64_t *rest = labels + (set & (set - 1)) * words;
        for (size_t w = 0; w < words; w++)
            labels[set * words + w] = rest[w] | operand[w];
    }
    /* Updates a subset and its complement together, because each needs the other's original
     * labels. */
    for (uint32_t set = 0; set <= all / 2; set++) {
        uint32_t other = all ^ set;
        for (size_t w = 0; w < words; w++) {
            uint64_t has = labels[set * words + w], others = labels[other * words + w];
            if (set & (set - 1))
                labels[set * words + w] &= others | s->output.word[w];
            if (other & (other - 1))
                labels[other * words + w] &= has | s->output.word[w];
        }
    }
}

/* Returns the FLOPs of a pair per element of its result: twice the product of the extents of the
 * summed labels, or 1 if no label is summed. */
static uint64_t flops_per_element(const struct search *s, const uint64_t *a, const uint64_t *b,
                                  const uint64_t *result)
{
    uint64_t flops = 1, any = 0;
    for (int w = 0; w < s->words; w++) {
        uint64_t summed = (a[w] | b[w]) & ~result[w];
        any |= summed;
        for (; summed; summed &= summed - 1)
            flops = td_saturating_mul(flops, (uint64_t)s->extent[w * 64 + __builtin_ctzll(summed)]);
    }
    return any ? td_saturating_mul(flops, 2) : flops;
}

/* Finds the best way to split `set` into two subsets. All smaller subsets have already been
 * computed. */
static void find_best_split(const struct search *s, const struct table *table, uint32_t set)
{
    size_t words = (size_t)s->words;
    const uint64_t *result = table->labels + set * words;
    uint64_t numel = numel_of(result, s);
    struct subset best = { .flops = UINT64_MAX, .largest = UINT64_MAX, .numel = numel };
    /* The lowest operand is always in `part`, so each split occurs once. */
    uint32_t rest = set & (set - 1);
    for (uint32_t other = rest; other; other = (other - 1) & rest) {
        uint32_t part = set ^ other;
        const struct subset *a = &table->subsets[part], *b = &table->subsets[other];
        uint64_t flops = td_saturating_add(a->flops, b->flops);
        if (best.part && flops > best.flops)
            continue;
        uint64_t step = flops_per_element(s, table->labels + part * words,
                                          table->labels + other * words, result);
        flops = td_saturating_add(flops, td_saturating_mul(step, numel));
        uint64_t largest = a->largest > b->largest ? a->largest : b->largest;
        largest = numel > largest ? numel : largest;
        if (!best.part || flops < best.flops || (flops == best.flops && largest < best.largest)) {
            best.flops = flops;
            best.largest = largest;
            best.part = part;
        }
    }
    table->subsets[set] = best;
}

/* Appends the pairs of a subset in the order of execution. Returns the operand number of the
 * result. */
static int emit_subset(struct search *s, const struct table *table, uint32_t set)
{
    if ((set & (set - 1)) == 0)
        return s->number[__builtin_ctz(set)];
    int a = emit_subset(s, table, table->subsets[set].part);
    int b = emit_subset(s, table, set ^ table->subsets[set].part);
    return emit(s, a, b);
}

static td_status contract_optimally(struct search *s, struct td_arena *arena, struct td_error *err)
{
    size_t n_subsets = (size_t)1 << s->n;
    struct table table = {
        .subsets = td_arena_alloc(arena, n_subsets, sizeof(*table.subsets), err),
        .labels = td_arena_alloc(arena, n_subsets, (size_t)s->words * sizeof(*table.labels), err),
    };
    if (!table.subsets || !table.labels)
        return err->status;
    find_labels(s, table.labels);
    for (uint32_t set = 1; set < n_subsets; set++) {
        if (set & (set - 1))
            find_best_split(s, &table, set);
        else /* a single operand has no cost and no intermediate */
            table.subsets[set] = (struct subset){ 0 };
    }
    emit_subset(s, &table, (uint32_t)n_subsets - 1);
    return TD_OK;
}

/* ---- Path -------------------------------------------------------------------------------- */

static int words_in_use(const struct td_labels *operands, int n)
{
    int words = 1;
    for (int i = 0; i < n; i++)
        for (int w = words; w < MAX_WORDS; w++)
            if (operands[i].word[w])
                words = w + 1;
    return words;
}

td_status td_path_find(const struct td_labels *operands, int n, const struct td_labels *output,
                       const int64_t *extent, struct td_arena *arena, struct td_pair *pairs,
                       struct td_error *err)
{
    assert(n >= 1 && n <= TD_EINSUM_MAX_INPUTS);
    if (n == 1)
        return TD_OK;
    if (n == 2) {
        pairs[0] = (struct td_pair){ 0, 1 };
        return TD_OK;
    }
    struct search s; /* not cleared, because the operands alone are half a kilobyte */
    s.words = words_in_use(operands, n);
    s.extent = extent;
    s.output = *output;
    s.n = n;
    s.next_number = n;
    s.next_pair = pairs;
    memcpy(s.operand, operands, (size_t)n * sizeof(s.operand[0]));
    for (int i = 0; i < n; i++)
        s.number[i] = i;
    while (s.n > TD_PATH_EXACT)
        contract_greedily(&s);
    return contract_optimally(&s, arena, err);
}
