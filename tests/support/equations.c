#include "tests/support/equations.h"

#include "tests/support/random.h"

#include <stdbool.h>
#include <string.h>

#define MAX_NAMED    8
#define MAX_ELLIPSIS (MAX_EQUATION_LABELS - MAX_NAMED)

/* In the order of their code points. */
static const char *const names[] = { "1", "A", "Z", "a",        "b",           "i",
                                     "j", "k", "z", "\xc3\xa9", "\xe2\x88\x91" };
#define N_NAMES ((int)(sizeof(names) / sizeof(names[0])))

struct generator {
    int64_t most; /* products, and elements */
    struct random_equation *e;
    int n_named, n_ellipsis; /* labels: the named ones, then the dimensions of the ellipsis */
    int name[MAX_NAMED];     /* in random order: labels are not numbered by code point */
    int times[MAX_EQUATION_LABELS];
    bool any_ellipsis;
    char *at;
};

static void put(struct generator *m, const char *text)
{
    if (random_below(12) == 0)
        *m->at++ = ' ';
    size_t length = strlen(text);
    memcpy(m->at, text, length);
    m->at += length;
}

static void choose_labels(struct generator *m)
{
    struct random_equation *e = m->e;
    m->n_named = random_below(MAX_NAMED + 1);
    m->n_ellipsis = random_below(2) ? random_below(MAX_ELLIPSIS + 1) : 0;
    e->n_labels = m->n_named + m->n_ellipsis;
    bool taken[N_NAMES] = { false };
    for (int i = 0; i < m->n_named; i++) {
        do {
            m->name[i] = random_below(N_NAMES);
        } while (taken[m->name[i]]);
        taken[m->name[i]] = true;
    }
    bool large = m->most > 100000; /* then some extents are large enough for the gemm kernels */
    int64_t products = 1;
    for (int i = 0; i < e->n_labels; i++) {
        int64_t extent = 1 + random_below(random_below(large ? 2 : 4) ? 5 : large ? 80 : 20);
        if (random_below(60) == 0)
            extent = 0;
        if (products * extent > m->most)
            extent = 1;
        e->extent[i] = extent;
        products *= extent > 0 ? extent : 1;
    }
}

/* Appends a dimension, unless the tensor would have more elements than `most`; 0 counts as 1. */
static bool put_dimension(struct td_shape *shape, int64_t extent, int64_t most)
{
    int64_t numel = extent;
    for (int d = 0; d < shape->rank; d++)
        numel *= shape->dim[d] > 0 ? shape->dim[d] : 1;
    if (numel > most)
        return false;
    shape->dim[shape->rank++] = extent;
    return true;
}

static void put_input(struct generator *m, int k)
{
    struct random_equation *e = m->e;
    struct td_shape *shape = &e->shapes[k];
    int n_labels = m->n_named > 0 ? random_below(5) : 0;
    int ellipsis = random_below(3) == 0 || (m->n_ellipsis > 0 && random_below(3))
                       ? random_below(n_labels + 1)
                       : -1;
    for (int i = 0; i <= n_labels; i++) {
        if (i == ellipsis) {
            put(m, "...");
            m->any_ellipsis = true;
            for (int d = m->n_ellipsis - random_below(m->n_ellipsis + 1); d < m->n_ellipsis; d++) {
                int label = m->n_named + d;
                e->input_label[k][shape->rank] = label;
                if (random_below(3) == 0 || !put_dimension(shape, e->extent[label], m->most))
                    put_dimension(shape, 1, INT64_MAX);
                m->times[label]++;
            }
        }
        if (i == n_labels)
            return;
        int label = random_below(m->n_named);
        for (int d = 0; d < shape->rank; d++)
            if (e->input_label[k][d] == label && random_below(3)) /* diagonals are rarer */
                label = random_below(m->n_named);
        e->input_label[k][shape->rank] = label;
        if (!put_dimension(shape, e->extent[label], m->most))
            continue;
        put(m, names[m->name[label]]);
        m->times[label]++;
    }
}

/* Sets the extent of an ellipsis dimension to 1 if no input has a larger one. */
static void set_ellipsis_extents(struct generator *m)
{
    struct random_equation *e = m->e;
    for (int label = 0; label < e->n_labels; label++) {
        bool broadcast = true;
        for (int k = 0; k < e->n_inputs; k++)
            for (int d = 0; d < e->shapes[k].rank; d++)
                if (e->input_label[k][d] == label && e->shapes[k].dim[d] != 1)
                    broadcast = false;
        if (broadcast)
            e->extent[label] = 1;
    }
}

static bool put_output_label(struct generator *m, int label, int64_t most)
{
    struct random_equation *e = m->e;
    e->output_label[e->output.rank] = label;
    return put_dimension(&e->output, e->extent[label], most);
}

static void put_output_ellipsis(struct generator *m)
{
    for (int label = m->n_named; label < m->e->n_labels; label++)
        if (m->times[label] > 0)
            put_output_label(m, label, INT64_MAX);
}

static void implicit_output(struct generator *m)
{
    put_output_ellipsis(m);
    for (int name = 0; name < N_NAMES; name++)
        for (int label = 0; label < m->n_named; label++)
            if (m->name[label] == name && m->times[label] == 1)
                put_output_label(m, label, INT64_MAX);
}

static void explicit_output(struct generator *m)
{
    put(m, "-");
    put(m, ">");
    int candidates = m->n_named > 0 ? random_below(2 * m->n_named + 1) : 0;
    bool ellipsis = m->any_ellipsis || random_below(8) == 0;
    bool has[MAX_EQUATION_LABELS] = { false };
    int64_t most = m->most; /* elements left for the named labels */
    for (int label = m->n_named; label < m->e->n_labels; label++)
        most /= m->e->extent[label] > 0 ? m->e->extent[label] : 1;
    for (int i = 0; i < candidates; i++) {
        if (ellipsis && random_below(candidates) == 0) {
            put(m, "...");
            put_output_ellipsis(m);
            ellipsis = false;
        }
        int label = random_below(m->n_named);
        if (m->times[label] == 0 || m->e->output.rank > 8 || (has[label] && random_below(4)))
            continue;
        char *before = m->at;
        put(m, names[m->name[label]]);
        if (put_output_label(m, label, most))
            has[label] = true;
        else
            m->at = before;
    }
    if (ellipsis) {
        put(m, "...");
        put_output_ellipsis(m);
    }
}

void random_equation(uint64_t seed, int64_t most, struct random_equation *equation)
{
    random_seed(seed);
    *equation = (struct random_equation){ 0 };
    struct generator m = { .most = most, .e = equation, .at = equation->text };
    choose_labels(&m);
    equation->n_inputs = 1 + random_below(5);
    for (int k = 0; k < equation->n_inputs; k++) {
        if (k > 0)
            put(&m, ",");
        put_input(&m, k);
    }
    set_ellipsis_extents(&m);
    if (random_below(4) == 0)
        implicit_output(&m);
    else
        explicit_output(&m);
    *m.at = '\0';
}

/* Writes the labels of a tensor in random order. */
static void put_shuffled(struct generator *m, int *label, int n, struct td_shape *shape, int *to)
{
    for (int i = 0; i < n; i++) {
        int other = i + random_below(n - i), taken = label[other];
        label[other] = label[i];
        label[i] = taken;
        put(m, names[taken]);
        to[shape->rank] = taken;
        shape->dim[shape->rank++] = m->e->extent[taken];
    }
}

void random_product(uint64_t seed, struct random_equation *equation)
{
    enum { BATCH, M, N, K, DIMENSIONS };
    random_seed(seed);
    *equation = (struct random_equation){ .n_inputs = 2 };
    struct generator m = { .e = equation, .at = equation->text };
    int of[DIMENSIONS][2], n_of[DIMENSIONS]; /* labels of each dimension */
    for (int d = 0; d < DIMENSIONS; d++) {
        n_of[d] = d == BATCH ? random_below(3) : 1 + random_below(2);
        for (int i = 0; i < n_of[d]; i++) {
            of[d][i] = equation->n_labels;
            equation->extent[equation->n_labels++] =
                d == BATCH ? 1 + random_below(2) : 1 + random_below(n_of[d] == 1 ? 60 : 8);
        }
    }
    static const int parts[3][3] = { { BATCH, M, K }, { BATCH, K, N }, { BATCH, M, N } };
    for (int t = 0; t < 3; t++) {
        int label[3 * 2], n = 0;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < n_of[parts[t][i]]; k++)
                label[n++] = of[parts[t][i]][k];
        if (t > 0)
            put(&m, t == 1 ? "," : "->");
        put_shuffled(&m, label, n, t < 2 ? &equation->shapes[t] : &equation->output,
                     t < 2 ? equation->input_label[t] : equation->output_label);
    }
    *m.at = '\0';
}

void each_product(const struct random_equation *e, products_fn *fn, void *context)
{
    /* One row of strides per label: those of the inputs, then the output's. */
    int64_t stride[MAX_EQUATION_LABELS][MAX_EQUATION_INPUTS + 1] = { { 0 } };
    for (int k = 0; k <= e->n_inputs; k++) {
        const struct td_shape *shape = k < e->n_inputs ? &e->shapes[k] : &e->output;
        const int *label = k < e->n_inputs ? e->input_label[k] : e->output_label;
        int64_t step = 1;
        for (int d = shape->rank - 1; d >= 0; d--) {
            stride[label[d]][k] += shape->dim[d] == 1 ? 0 : step;
            step *= shape->dim[d];
        }
    }
    for (int i = 0; i < e->n_labels; i++)
        if (e->extent[i] == 0)
            return;
    int64_t value[MAX_EQUATION_LABELS] = { 0 }, place[MAX_EQUATION_INPUTS + 1] = { 0 };
    for (;;) {
        fn(context, place, place[e->n_inputs]);
        int i = e->n_labels - 1;
        for (; i >= 0; i--) {
            bool over = ++value[i] == e->extent[i];
            int64_t steps = over ? 1 - e->extent[i] : 1;
            for (int k = 0; k <= e->n_inputs; k++)
                place[k] += steps * stride[i][k];
            if (!over)
                break;
            value[i] = 0;
        }
        if (i < 0)
            return;
    }
}
