#include "gpu/cuda/ops/sumprod.h"

#include "kernels/convert/convert.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

_Static_assert(TD_CUDA_MAX_LOOPS == TD_MAX_LOOPS, "any nest fits");
_Static_assert((int)TD_CUDA_A == (int)TD_A && (int)TD_CUDA_B == (int)TD_B &&
                   (int)TD_CUDA_C == (int)TD_C &&
                   sizeof(struct td_cuda_loop) == sizeof(struct td_loop),
               "loops are copied as they are");

enum td_cuda_compute td_cuda_compute_of(td_dtype dtype)
{
    static const enum td_cuda_compute computes[TD_COMPUTE_COUNT] = {
        [TD_COMPUTE_F32] = TD_CUDA_F32, [TD_COMPUTE_F64] = TD_CUDA_F64,
        [TD_COMPUTE_U32] = TD_CUDA_U32, [TD_COMPUTE_U64] = TD_CUDA_U64,
        [TD_COMPUTE_C64] = TD_CUDA_C64, [TD_COMPUTE_C128] = TD_CUDA_C128,
    };
    return computes[td_compute_of(dtype)];
}

enum td_cuda_stored td_cuda_stored_of(td_dtype dtype)
{
    switch (dtype) {
    case TD_DTYPE_FLOAT16:
        return TD_CUDA_F16;
    case TD_DTYPE_BFLOAT16:
        return TD_CUDA_BF16;
    case TD_DTYPE_INT8:
        return TD_CUDA_I8;
    case TD_DTYPE_UINT8:
        return TD_CUDA_U8;
    case TD_DTYPE_INT16:
        return TD_CUDA_I16;
    case TD_DTYPE_UINT16:
        return TD_CUDA_U16;
    default:
        return TD_CUDA_AS_COMPUTED;
    }
}

/* ---- Sums -------------------------------------------------------------------------------- */

#define THREADS     256
/* Enough for every multiprocessor to have some, whatever the device: the cut of a sum is to be the
 * same on all. */
#define WANT_BLOCKS 1024
/* Terms for a thread that are worth a part of the sum of their own. */
#define LEAST_TERMS 64

/* How many threads share one sum, and do neighbours read neighbours in the sum or in the output? */
static void share_sum(struct td_cuda_nest *job)
{
    const struct td_cuda_loop *out = job->loops + job->n_out_loops - 1;
    const struct td_cuda_loop *sum = job->loops + job->n_out_loops + job->n_sum_loops - 1;
    job->y_threads = 1;
    if (job->n_sum < 32)
        return;
    bool out_moves_by_1 =
        job->n_out_loops > 0 && (out->stride[TD_A] == 1 || out->stride[TD_B] == 1);
    job->lanes_sum = sum->stride[TD_A] == 1 || !out_moves_by_1;
    if (job->lanes_sum)
        job->y_threads = job->n_out >= 16384 || job->n_sum < 1024 ? 32 : THREADS;
    else
        job->y_threads = job->n_out >= 65536 ? 1 : 8;
}

static void cut_sum(struct td_cuda_nest *job)
{
    const int64_t blocks = td_ceil_div(job->n_out, THREADS / job->y_threads);
    int64_t parts = blocks < WANT_BLOCKS ? WANT_BLOCKS / blocks : 1;
    parts = td_smaller(parts, job->n_sum / (job->y_threads * (int64_t)LEAST_TERMS));
    job->parts = td_larger(parts, 1);
    job->part_terms = td_ceil_div(job->n_sum, job->parts);
    job->parts = td_ceil_div(job->n_sum, job->part_terms); /* none is empty */
}

/* Loops that move C come first in a simplified nest. */
static void nest_job(const struct td_contraction *contraction, struct td_cuda_nest *job)
{
    memset(job, 0, sizeof(*job));
    job->compute = td_cuda_compute_of(contraction->dtype[TD_A]);
    for (int i = TD_A; i <= TD_C; i++)
        job->stored[i] = td_cuda_stored_of(contraction->dtype[i]);
    job->n_out = job->n_sum = 1;
    for (int i = 0; i < contraction->rank; i++) {
        const struct td_loop *loop = &contraction->loops[i];
        bool sums = loop->stride[TD_C] == 0 && loop->extent > 1;
        assert(!sums || job->n_sum_loops == 0 || i > 0);
        memcpy(&job->loops[i], loop, sizeof(*loop));
        if (sums) {
            job->n_sum *= loop->extent;
            job->n_sum_loops++;
        } else {
            job->n_out *= loop->extent;
            job->n_out_loops++;
        }
    }
    share_sum(job);
    cut_sum(job);
}

static td_status run_nest(struct td_device_stream *stream, const struct td_contraction *contraction,
                          const void *a, const void *b, void *c, void *workspace,
                          struct td_error *err)
{
    struct td_cuda_nest job;
    nest_job(contraction, &job);
    job.a = a;
    job.b = contraction->has_b ? b : NULL;
    job.c = c;
    job.totals = workspace;
    return td_cuda_check(stream->device, td_cuda_nest(&job, stream->stream), "sum products", err);
}

/* ---- Moves ------------------------------------------------------------------------------- */

/* Two elements that lie together in A and in C are one of twice the width. */
static bool widen_once(struct td_cuda_permute *job)
{
    struct td_cuda_loop *last = &job->loops[job->n_loops - 1];
    if (job->bytes == 16 || last->extent % 2 != 0 || last->stride[TD_A] != 1 ||
        last->stride[TD_C] != 1 ||
        ((uintptr_t)job->a | (uintptr_t)job->c) % (2 * (uintptr_t)job->bytes))
        return false;
    for (int i = 0; i < job->n_loops - 1; i++)
        if ((job->loops[i].stride[TD_A] | job->loops[i].stride[TD_C]) % 2 != 0)
            return false;
    for (int i = 0; i < job->n_loops - 1; i++) {
        job->loops[i].stride[TD_A] /= 2;
        job->loops[i].stride[TD_C] /= 2;
    }
    last->extent /= 2;
    job->bytes *= 2;
    job->n /= 2;
    return true;
}

/* Complex numbers are aligned to their halves only: then the halves are moved. There is room for the
 * loop, since elements of two bytes and more fill 63 bits before the loops do. */
static void narrow_once(struct td_cuda_permute *job)
{
    for (int i = 0; i < job->n_loops; i++) {
        job->loops[i].stride[TD_A] *= 2;
        job->loops[i].stride[TD_C] *= 2;
    }
    job->loops[job->n_loops++] = (struct td_cuda_loop){ .extent = 2, .stride = { 1, 0, 1 } };
    job->bytes /= 2;
    job->n *= 2;
}

/* Less is left to a copy with strides. */
#define LEAST_SIDE 8

/* Puts the loop that moves A by 1 before the last, which moves C by 1. */
static void find_tiles(struct td_cuda_permute *job)
{
    const int last = job->n_loops - 1;
    if (job->loops[last].stride[TD_C] != 1 || job->loops[last].stride[TD_A] == 1 ||
        job->loops[last].extent < LEAST_SIDE)
        return;
    for (int i = 0; i < last; i++) {
        const struct td_cuda_loop loop = job->loops[i];
        if (loop.stride[TD_A] != 1 || loop.extent < LEAST_SIDE)
            continue;
        memmove(&job->loops[i], &job->loops[i + 1], (size_t)(last - 1 - i) * sizeof(loop));
        job->loops[last - 1] = loop;
        job->tiled = true;
        return;
    }
}

static td_status run_permute(struct td_device_stream *stream,
                             const struct td_contraction *contraction, const void *a, void *c,
                             struct td_error *err)
{
    struct td_cuda_permute job;
    memset(&job, 0, sizeof(job));
    job.a = a;
    job.c = c;
    job.bytes = (int)td_dtype_info(contraction->dtype[TD_A])->size;
    job.n = 1;
    job.n_loops = contraction->rank;
    for (int i = 0; i < contraction->rank; i++) {
        memcpy(&job.loops[i], &contraction->loops[i], sizeof(job.loops[i]));
        job.n *= job.loops[i].extent;
    }
    while (((uintptr_t)a | (uintptr_t)c) % (uintptr_t)job.bytes != 0)
        narrow_once(&job);
    while (widen_once(&job))
        ;
    find_tiles(&job);
    return td_cuda_check(stream->device, td_cuda_permute(&job, stream->stream), "move elements",
                         err);
}

/* ---- Either ------------------------------------------------------------------------------ */

size_t td_cuda_loops_workspace(const struct td_contraction *contraction)
{
    if (contraction->kind == TD_CONTRACT_PERMUTE)
        return 0;
    struct td_cuda_nest job;
    nest_job(contraction, &job);
    size_t totals;
    if (job.parts == 1)
        return 0;
    if (!td_size_mul((size_t)job.parts * td_cuda_total_bytes(job.compute), (size_t)job.n_out,
                     &totals))
        return SIZE_MAX;
    return td_cuda_aligned(totals);
}

td_status td_cuda_loops(struct td_device_stream *stream, const struct td_contraction *contraction,
                        const void *a, const void *b, void *c, void *workspace,
                        struct td_error *err)
{
    if (contraction->kind == TD_CONTRACT_PERMUTE)
        return run_permute(stream, contraction, a, c, err);
    return run_nest(stream, contraction, a, b, c, workspace, err);
}
