/* bench_npy.c - measures the speed of converting .npy arrays in Fortran order or with big-endian
 * elements.
 *
 *     bench_npy [MiB of an array]
 *
 * Prints GB/s of the array, medians of 7 runs. Baselines: memcpy, and a plain loop in C order,
 * which has a cache miss for every element. */
#include "api/files/npy.h"
#include "tests/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 7 };

/* The plain loop, for float32 and float64. */
static void plain_loop(const struct td_npy *file, void *to)
{
    const struct td_tensor *tensor = &file->tensor;
    const size_t width = td_dtype_info(tensor->dtype)->size;
    const int rank = tensor->shape.rank;
    int64_t step[TD_MAX_RANK], at[TD_MAX_RANK] = { 0 }, from = 0, all = 1;
    for (int d = 0; d < rank; d++) {
        step[d] = all;
        all *= tensor->shape.dim[d];
    }
    for (int64_t i = 0; i < all; i++) {
        memcpy((char *)to + (size_t)i * width, (const char *)tensor->data + (size_t)from * width,
               width);
        for (int d = rank - 1; d >= 0; d--) {
            from += step[d];
            if (++at[d] < tensor->shape.dim[d])
                break;
            from -= at[d] * step[d];
            at[d] = 0;
        }
    }
}

static void copy(const struct td_npy *file, void *to)
{
    memcpy(to, file->tensor.data, file->tensor.bytes);
}

static void convert(const struct td_npy *file, void *to)
{
    if (td_npy_convert(file, to, NULL, TD_IGNORED) != TD_OK)
        abort();
}

static double gb_per_s(void (*work)(const struct td_npy *, void *), const struct td_npy *file,
                       void *to)
{
    double ns[RUNS];
    for (int i = 0; i < RUNS; i++) {
        const double begun = now_ns();
        work(file, to);
        ns[i] = now_ns() - begun;
    }
    return (double)file->tensor.bytes / median(ns, RUNS);
}

int main(int argc, char **argv)
{
    const int64_t bytes = (argc > 1 ? strtoll(argv[1], NULL, 10) : 64) << 20;
    static const struct {
        const char *says;
        td_dtype dtype;
        struct td_shape shape; /* a dimension of 0 is computed from the array's size */
        bool big_endian, fortran;
    } cases[] = {
        { "float32 [4096, n], Fortran", TD_DTYPE_FLOAT32, { 2, { 4096, 0 } }, false, true },
        { "float32 [4095, n], Fortran", TD_DTYPE_FLOAT32, { 2, { 4095, 0 } }, false, true },
        { "float32 [n, 16], Fortran", TD_DTYPE_FLOAT32, { 2, { 0, 16 } }, false, true },
        { "float32 [n, 100, 2], Fortran", TD_DTYPE_FLOAT32, { 3, { 0, 100, 2 } }, false, true },
        { "uint8 [4096, n], Fortran", TD_DTYPE_UINT8, { 2, { 4096, 0 } }, false, true },
        { "float64 [1000, n], Fortran", TD_DTYPE_FLOAT64, { 2, { 1000, 0 } }, false, true },
        { "complex128 [1000, n], Fortran", TD_DTYPE_COMPLEX128, { 2, { 1000, 0 } }, false, true },
        { "float32, big-endian", TD_DTYPE_FLOAT32, { 2, { 4096, 0 } }, true, false },
        { "float64, big-endian", TD_DTYPE_FLOAT64, { 2, { 4096, 0 } }, true, false },
        { "float32 [4096, n], both", TD_DTYPE_FLOAT32, { 2, { 4096, 0 } }, true, true },
    };
    char *from = malloc((size_t)bytes), *to = malloc((size_t)bytes);
    if (!from || !to)
        return 1;
    memset(from, 1, (size_t)bytes);
    memset(to, 2, (size_t)bytes);
    printf("%-32s %10s %10s %10s  GB/s\n", "", "tensord", "memcpy", "plain loop");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_npy file = { .big_endian = cases[i].big_endian, .fortran = cases[i].fortran };
        struct td_shape shape = cases[i].shape;
        struct td_error err;
        int64_t left = bytes / (int64_t)td_dtype_info(cases[i].dtype)->size;
        for (int d = 0; d < shape.rank; d++)
            left /= shape.dim[d] ? shape.dim[d] : 1;
        for (int d = 0; d < shape.rank; d++)
            shape.dim[d] = shape.dim[d] ? shape.dim[d] : left;
        if (td_tensor_describe(&file.tensor, "array", cases[i].dtype, &shape, &err) != TD_OK)
            return 1;
        file.tensor.data = from;
        printf("%-32s %10.2f %10.2f", cases[i].says, gb_per_s(convert, &file, to),
               gb_per_s(copy, &file, to));
        if (cases[i].fortran)
            printf(" %10.2f", gb_per_s(plain_loop, &file, to));
        printf("\n");
    }
    free(from);
    free(to);
    return 0;
}
