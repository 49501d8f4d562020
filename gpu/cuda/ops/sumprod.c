#include "gpu/cuda/ops/sumprod.h"

#include "gpu/cuda/ops/compute.h"
#include "kernels/integers.h"

#include <assert.h>
#include <string.h>

_Static_assert(TD_CUDA_MAX_LOOPS == TD_MAX_LOOPS, "any loop nest fits");
_Static_assert((int)TD_CUDA_A == (int)TD_A && (int)TD_CUDA_B == (int)TD_B &&
                   (int)TD_CUDA_C == (int)TD_C &&
                   sizeof(struct td_cuda_loop) == sizeof(struct td_loop),
               "loops are copied by memcpy");

#define THREADS          256
/* Target number of blocks, which occupies every multiprocessor of any device. It is a constant
 * because sums must be split in the same way on all devices. */
#define WANTED_BLOCKS    1024
/* Minimum number of terms per thread that justifies another partial sum. */
#define MIN_THREAD_TERMS 64

/* Chooses how many threads share one sum, and whether neighbouring threads read along the sum or
 * along the output. */
static void choose_threads(struct td_cuda_sumprod_args *args)
{
    const struct td_cuda_loop *out = args->loops + args->n_out_loops - 1;
    const struct td_cuda_loop *sum = args->loops + args->n_out_loops + args->n_sum_loops - 1;
    args->sum_threads = 1;
    if (args->n_sum < 32)
        return;
    bool out_is_contiguous =
        args->n_out_loops > 0 && (out->stride[TD_A] == 1 || out->stride[TD_B] == 1);
    args->lanes_along_sum = sum->stride[TD_A] == 1 || !out_is_contiguous;
    if (args->lanes_along_sum)
        args->sum_threads = args->n_out >= 16384 || args->n_sum < 1024 ? 32 : THREADS;
    else
        args->sum_threads = args->n_out >= 65536 ? 1 : 8;
}

static void choose_splits(struct td_cuda_sumprod_args *args)
{
    const int64_t blocks = td_ceil_div(args->n_out, THREADS / args->sum_threads);
    int64_t splits = blocks < WANTED_BLOCKS ? WANTED_BLOCKS / blocks : 1;
    splits = td_smaller(splits, args->n_sum / (args->sum_threads * (int64_t)MIN_THREAD_TERMS));
    args->splits = td_larger(splits, 1);
    args->split_terms = td_ceil_div(args->n_sum, args->splits);
    args->splits = td_ceil_div(args->n_sum, args->split_terms); /* no split is empty */
}

static void set_term_strides(struct td_cuda_sumprod_args *args,
                             const struct td_contraction *contraction)
{
    if (args->n_sum_loops == 0)
        return;
    const struct td_cuda_loop *last = args->loops + args->n_out_loops + args->n_sum_loops - 1;
    args->last_extent = last->extent;
    for (int i = TD_A; i <= TD_B; i++)
        args->term_stride[i] = last->stride[i] * args->sum_threads *
                               (int64_t)td_dtype_info(contraction->dtype[i])->size;
}

/* Returns the kernel arguments. In a simplified nest, the loops with a stride in C come first. */
static struct td_cuda_sumprod_args sumprod_args(const struct td_contraction *contraction)
{
    struct td_cuda_sumprod_args args;
    memset(&args, 0, sizeof(args));
    args.compute = td_cuda_compute_of(contraction->dtype[TD_A]);
    for (int i = TD_A; i <= TD_C; i++)
        args.storage[i] = td_cuda_storage_of(contraction->dtype[i]);
    args.n_out = args.n_sum = 1;
    for (int i = 0; i < contraction->rank; i++) {
        const struct td_loop *loop = &contraction->loops[i];
        bool is_summed = loop->stride[TD_C] == 0 && loop->extent > 1;
        assert(!is_summed || args.n_sum_loops == 0 || i > 0);
        memcpy(&args.loops[i], loop, sizeof(*loop));
        if (is_summed) {
            args.n_sum *= loop->extent;
            args.n_sum_loops++;
        } else {
            args.n_out *= loop->extent;
            args.n_out_loops++;
        }
    }
    choose_threads(&args);
    args.sum_threads_log2 = __builtin_ctz((unsigned)args.sum_threads);
    choose_splits(&args);
    set_term_strides(&args, contraction);
    return args;
}

size_t td_cuda_contract_sumprod_workspace(const struct td_contraction *contraction)
{
    const struct td_cuda_sumprod_args args = sumprod_args(contraction);
    size_t bytes;
    if (args.splits == 1)
        return 0;
    if (!td_size_mul((size_t)args.splits * td_cuda_accumulator_bytes(args.compute),
                     (size_t)args.n_out, &bytes))
        return SIZE_MAX;
    return td_cuda_align_up(bytes);
}

td_status td_cuda_contract_sumprod(struct td_device_stream *stream,
                                   const struct td_contraction *contraction, const void *a,
                                   const void *b, void *c, void *workspace, struct td_error *err)
{
    struct td_cuda_sumprod_args args = sumprod_args(contraction);
    args.a = a;
    args.b = contraction->has_b ? b : NULL;
    args.c = c;
    args.partial_sums = workspace;
    return td_cuda_check(stream->device, td_cuda_sumprod(&args, stream->stream), "sum products",
                         err);
}
