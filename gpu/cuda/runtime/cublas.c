#include "gpu/cuda/runtime/cublas.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define STRING(x)  STRING_(x)
#define STRING_(x) #x

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    { "cublasCreate_v2", offsetof(struct td_cublas, create) },
    { "cublasDestroy_v2", offsetof(struct td_cublas, destroy) },
    { "cublasSetStream_v2", offsetof(struct td_cublas, set_stream) },
    { "cublasSetWorkspace_v2", offsetof(struct td_cublas, set_workspace) },
    { "cublasSetMathMode", offsetof(struct td_cublas, set_math_mode) },
    { "cublasGemmEx_64", offsetof(struct td_cublas, gemm_ex) },
    { "cublasGemmStridedBatchedEx_64", offsetof(struct td_cublas, gemm_strided_batched_ex) },
};

/* Loads the major version with which the plugin was built, because the plugin uses its enums and
 * structs. */
static bool load(struct td_cublas *blas)
{
    void *library = dlopen("libcublas.so." STRING(CUBLAS_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
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

const struct td_cublas *td_cublas(void)
{
    /* Loaded once for all devices and never unloaded, because the handles of a lost device are
     * never destroyed. */
    static struct td_cublas blas;
    static enum { NOT_TRIED, LOADED, MISSING } state;
    if (state == NOT_TRIED)
        state = load(&blas) ? LOADED : MISSING;
    return state == LOADED ? &blas : NULL;
}
