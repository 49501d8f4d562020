/* bench_plan - measures the time to parse an equation and to plan its steps.
 *
 *     bench_plan [rounds]
 *
 * "equation" is td_equation_parse, and "plan" is all of td_einsum_plan_make. Both use an arena
 * with a first block of 32 KB, as a call does. Figures are medians over the rounds, in
 * microseconds. "bytes" is the size of the plan in the arena. */
#include "kernels/einsum/plan.h"
#include "tests/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROUNDS 1001
#define CALLS      50 /* in each round */

static const struct {
    const char *equation;
    int64_t extent; /* of every label */
    bool chain;     /* if true, the labels have different extents instead */
} cases[] = {
    { "ij->ji", 64, false },
    { "ij,jk->ik", 64, false },
    { "bhqd,bhkd->bhqk", 16, false },
    { "...ij,...jk->...ik", 64, false },
    { "ij,jk,kl->il", 64, false },
    { "ea,fb,abcd,gc,hd->efgh", 10, false },
    { "ab,bc,cd,de,ef,fg,gh,hi->ai", 64, true },
    { "aij,bjk,ckl,dlm,emn,fno,gop,hpi->abcdefgh", 4, false },
    { "ab,bc,cd,de,ef,fg,gh,hi,ij,jk,kl,lm,mn,no,op,pq->aq", 64, true },
};

/* Makes one dimension for each letter and one for "...". Returns the number of inputs. */
static int shapes_of(int number, struct td_shape *shapes)
{
    int n = 0;
    memset(shapes, 0, TD_EINSUM_MAX_INPUTS * sizeof(*shapes));
    for (const char *at = cases[number].equation; *at != '-'; at++) {
        if (*at == ',') {
            n++;
            continue;
        }
        if (*at == '.')
            at += 2;
        int64_t extent = cases[number].extent;
        if (cases[number].chain)
            extent = 2 + (*at * 37) % 61;
        shapes[n].dim[shapes[n].rank++] = extent;
    }
    return n + 1;
}

static void check(td_status status, const struct td_error *err)
{
    if (status == TD_OK)
        return;
    fprintf(stderr, "bench_plan: %s\n", err->message);
    exit(1);
}

int main(int argc, char **argv)
{
    static _Alignas(64) char first[32 * 1024];
    static double parse_us[MAX_ROUNDS], plan_us[MAX_ROUNDS];
    int rounds = argc > 1 ? atoi(argv[1]) : 101;
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    printf("%10s %8s %8s  equation\n", "equation", "plan", "bytes");
    for (int c = 0; c < (int)(sizeof(cases) / sizeof(cases[0])); c++) {
        struct td_shape shapes[TD_EINSUM_MAX_INPUTS];
        const struct td_shape *pointers[TD_EINSUM_MAX_INPUTS];
        int n = shapes_of(c, shapes);
        for (int i = 0; i < n; i++)
            pointers[i] = &shapes[i];
        struct td_arena arena;
        td_arena_init(&arena, first, sizeof(first), td_memory_heap());
        size_t bytes = 0;
        for (int round = 0; round < rounds; round++) {
            struct td_error err;
            double begin = now_ns();
            for (int i = 0; i < CALLS; i++) {
                struct td_equation *equation;
                check(td_equation_parse(cases[c].equation, pointers, n, &arena, &equation, &err),
                      &err);
                td_arena_reset(&arena);
            }
            double middle = now_ns();
            for (int i = 0; i < CALLS; i++) {
                const struct td_einsum_plan *plan;
                check(td_einsum_plan_make(cases[c].equation, pointers, n, TD_DTYPE_FLOAT32, &arena,
                                          &plan, &err),
                      &err);
                /* If the plan needs a second block, the first block is full. */
                bytes = arena.nodes ? sizeof(first) : (size_t)(arena.next - arena.first);
                td_arena_reset(&arena);
            }
            parse_us[round] = (middle - begin) / 1e3 / CALLS;
            plan_us[round] = (now_ns() - middle) / 1e3 / CALLS;
        }
        printf("%10.2f %8.2f %8zu  %s\n", median(parse_us, rounds), median(plan_us, rounds), bytes,
               cases[c].equation);
    }
    return 0;
}
