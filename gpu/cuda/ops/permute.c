#include "gpu/cuda/ops/permute.h"

#include <string.h>

/* Combines pairs of elements that are adjacent in both A and C into elements of twice the width. */
static bool widen_once(struct td_cuda_permute_args *args)
{
    struct td_cuda_loop *last = &args->loops[args->n_loops - 1];
    if (args->element_bytes == 16 || last->extent % 2 != 0 || last->stride[TD_A] != 1 ||
        last->stride[TD_C] != 1 ||
        ((uintptr_t)args->a | (uintptr_t)args->c) % (2 * (uintptr_t)args->element_bytes))
        return false;
    for (int i = 0; i < args->n_loops - 1; i++)
        if ((args->loops[i].stride[TD_A] | args->loops[i].stride[TD_C]) % 2 != 0)
            return false;
    for (int i = 0; i < args->n_loops - 1; i++) {
        args->loops[i].stride[TD_A] /= 2;
        args->loops[i].stride[TD_C] /= 2;
    }
    last->extent /= 2;
    args->element_bytes *= 2;
    args->n /= 2;
    return true;
}

/* Splits elements into halves, because complex numbers might be aligned only to the size of their
 * parts. There is always room for one more loop, because a tensor with elements of two bytes or
 * more reaches the maximum size of 2^63 bytes before it uses all loops. */
static void narrow_once(struct td_cuda_permute_args *args)
{
    for (int i = 0; i < args->n_loops; i++) {
        args->loops[i].stride[TD_A] *= 2;
        args->loops[i].stride[TD_C] *= 2;
    }
    args->loops[args->n_loops++] = (struct td_cuda_loop){ .extent = 2, .stride = { 1, 0, 1 } };
    args->element_bytes /= 2;
    args->n *= 2;
}

/* Minimum extents of tiled matrices. Smaller matrices are copied with strides. */
#define MIN_TILED_EXTENT 8

/* If the nest is a transposition, moves the loop with stride 1 in A to the position before the last
 * loop, which has stride 1 in C. */
static void find_transposition(struct td_cuda_permute_args *args)
{
    const int last = args->n_loops - 1;
    if (args->loops[last].stride[TD_C] != 1 || args->loops[last].stride[TD_A] == 1 ||
        args->loops[last].extent < MIN_TILED_EXTENT)
        return;
    for (int i = 0; i < last; i++) {
        const struct td_cuda_loop loop = args->loops[i];
        if (loop.stride[TD_A] != 1 || loop.extent < MIN_TILED_EXTENT)
            continue;
        memmove(&args->loops[i], &args->loops[i + 1], (size_t)(last - 1 - i) * sizeof(loop));
        args->loops[last - 1] = loop;
        args->tiled = true;
        return;
    }
}

td_status td_cuda_contract_permute(struct td_device_stream *stream,
                                   const struct td_contraction *contraction, const void *a, void *c,
                                   struct td_error *err)
{
    struct td_cuda_permute_args args;
    memset(&args, 0, sizeof(args));
    args.a = a;
    args.c = c;
    args.element_bytes = (int)td_dtype_info(contraction->dtype[TD_A])->size;
    args.n = 1;
    args.n_loops = contraction->rank;
    for (int i = 0; i < contraction->rank; i++) {
        memcpy(&args.loops[i], &contraction->loops[i], sizeof(args.loops[i]));
        args.n *= args.loops[i].extent;
    }
    while (((uintptr_t)a | (uintptr_t)c) % (uintptr_t)args.element_bytes != 0)
        narrow_once(&args);
    while (widen_once(&args))
        ;
    find_transposition(&args);
    return td_cuda_check(stream->device, td_cuda_permute(&args, stream->stream), "permute elements",
                         err);
}
