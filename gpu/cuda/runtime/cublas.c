#include "gpu/cuda/runtime/cublas.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    { "cublasCreate_v2", offsetof(struct td_cuda_blas, create) },
    { "cublasDestroy_v2", offsetof(struct td_cuda_blas, destroy) },
    { "cublasSetStream_v2", offsetof(struct td_cuda_blas, set_stream) },
    { "cublasSetWorkspace_v2", offsetof(struct td_cuda_blas, set_workspace) },
    { "cublasSetMathMode", offsetof(struct td_cuda_blas, set_math_mode) },
    { "cublasGemmEx_64", offsetof(struct td_cuda_blas, gemm_one) },
    { "cublasGemmStridedBatchedEx_64", offsetof(struct td_cuda_blas, gemm) },
};

/* Of the version that this was built for: enums and structs are its own. */
static bool load(struct td_cuda_blas *blas)
{
    void *library = dlopen("libcublas.so." TEXT(CUBLAS_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function) {
            (void)dlclose(library);
            return false;
        }
        memcpy((char *)blas + functions[i].offset, &function, sizeof(function));
    }
    return true;
}

const struct td_cuda_blas *td_cuda_blas(void)
{
    /* Once for all devices; never unloaded, as handles of a lost device are never destroyed. */
    static struct td_cuda_blas blas;
    static enum { UNKNOWN, FOUND, MISSING } state;
    if (state == UNKNOWN)
        state = load(&blas) ? FOUND : MISSING;
    return state == FOUND ? &blas : NULL;
}
