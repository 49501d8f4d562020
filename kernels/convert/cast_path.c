#include "kernels/convert/cast_path.h"

#include "kernels/convert/cast_loops.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

/* ---- Finding ----------------------------------------------------------------------------- */

static void add_step(struct td_cast_path *path, struct td_cast_step step)
{
    assert(path->n_steps < TD_CAST_STEPS && (step.loop || step.widen || step.narrow));
    path->steps[path->n_steps++] = step;
}

static bool is_half(td_dtype dtype)
{
    return dtype == TD_DTYPE_FLOAT16 || dtype == TD_DTYPE_BFLOAT16;
}

static const struct td_cast_loops *loops_of(td_isa isa)
{
#ifdef __x86_64__
    if (isa >= TD_ISA_AVX512)
        return &td_cast_loops_avx512;
    if (isa == TD_ISA_AVX2)
        return &td_cast_loops_avx2;
#endif
    (void)isa;
    return &td_cast_loops_generic;
}

/* Returns the loop from one dtype to another, or NULL if there is none. */
static td_cast_fn *direct_loop(const struct td_cast_loops *loops, td_dtype from, td_dtype to)
{
    return loops->direct[from] ? loops->direct[from][to] : NULL;
}

static void add_direct(struct td_cast_path *path, const struct td_cast_loops *loops, td_dtype from,
                       td_dtype to)
{
    if (from != to)
        add_step(path, (struct td_cast_step){ .loop = direct_loop(loops, from, to) });
}

/* Adds the steps between two different dtypes, at most one of which is complex. */
static void add_steps(struct td_cast_path *path, td_dtype from, td_dtype to, td_isa isa)
{
    const struct td_cast_loops *loops = loops_of(isa);
    const td_dtype real = td_dtype_part(to);
    if (direct_loop(loops, from, to)) {
        add_direct(path, loops, from, to);
        return;
    }
    add_direct(path, loops, from, td_dtype_part(from));
    from = td_dtype_part(from);
    if (is_half(from)) {
        add_step(path, (struct td_cast_step){ .widen = td_widen(from, isa) });
        from = TD_DTYPE_FLOAT32;
    }
    if (is_half(real)) {
        if (loops->odd[from])
            add_step(path, (struct td_cast_step){ .loop = loops->odd[from] });
        else
            add_direct(path, loops, from, TD_DTYPE_FLOAT32);
        add_step(path, (struct td_cast_step){ .narrow = td_narrow(real, isa) });
    } else {
        add_direct(path, loops, from, real);
    }
    add_direct(path, loops, real, to);
}

void td_cast_path_find(struct td_cast_path *path, td_dtype from, td_dtype to, td_isa isa)
{
    const bool complex = td_dtype_is_complex(from) && td_dtype_is_complex(to);
    if (complex) {
        from = td_dtype_part(from);
        to = td_dtype_part(to);
    }
    *path = (struct td_cast_path){
        .parts = complex ? 2 : 1,
        .from_size = td_dtype_info(from)->size,
        .to_size = td_dtype_info(to)->size,
    };
    if (from != to)
        add_steps(path, from, to, isa);
}

/* ---- Running ----------------------------------------------------------------------------- */

static void run_step(const struct td_cast_step *step, void *to, const void *from, int64_t n)
{
    if (step->loop)
        step->loop(to, from, n);
    else if (step->widen)
        step->widen(to, from, 1, n);
    else
        step->narrow(to, 1, from, n);
}

static void run_block(const struct td_cast_path *path, void *to, const void *from, int64_t n)
{
    const int last = path->n_steps - 1;
    /* No intermediate dtype is wider than double. */
    _Alignas(64) char buffers[2][TD_CAST_BLOCK * sizeof(double)];
    for (int i = 0; i < last; i++) {
        run_step(&path->steps[i], buffers[i % 2], from, n);
        from = buffers[i % 2];
    }
    run_step(&path->steps[last], to, from, n);
}

void td_cast_path_run(const struct td_cast_path *path, void *to, const void *from, int64_t n)
{
    n *= path->parts;
    if (path->n_steps == 0)
        memcpy(to, from, (size_t)n * path->to_size);
    else if (path->n_steps == 1)
        run_step(&path->steps[0], to, from, n);
    else
        for (int64_t at = 0; at < n; at += TD_CAST_BLOCK)
            run_block(path, (char *)to + (size_t)at * path->to_size,
                      (const char *)from + (size_t)at * path->from_size,
                      td_smaller(n - at, TD_CAST_BLOCK));
}
