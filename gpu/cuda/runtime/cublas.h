/* cublas.h - the functions of cuBLAS that the plugin uses, loaded when the first device is opened.
 *
 * The plugin does not link cuBLAS, because cuBLAS occupies several hundred megabytes and only
 * einsum and search use it. If cuBLAS is missing, they use the plugin's own kernels
 * (kernels/gemm.cu, kernels/search_scores.cu), which are correct but slower. Nothing else changes.
 *
 * Threads  td_cublas is first called when a device is opened. Only one thread may call it at a
 *          time. */
#ifndef TD_GPU_CUDA_RUNTIME_CUBLAS_H
#define TD_GPU_CUDA_RUNTIME_CUBLAS_H

#include <cublas_v2.h>

struct td_cublas {
    cublasStatus_t (*create)(cublasHandle_t *handle);
    cublasStatus_t (*destroy)(cublasHandle_t handle);
    cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
    cublasStatus_t (*set_workspace)(cublasHandle_t handle, void *memory, size_t bytes);
    cublasStatus_t (*set_math_mode)(cublasHandle_t handle, cublasMath_t mode);
    cublasStatus_t (*gemm_ex)(cublasHandle_t handle, cublasOperation_t transa,
                              cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                              const void *alpha, const void *a, cudaDataType a_type, int64_t lda,
                              const void *b, cudaDataType b_type, int64_t ldb, const void *beta,
                              void *c, cudaDataType c_type, int64_t ldc,
                              cublasComputeType_t compute, cublasGemmAlgo_t algo);
    cublasStatus_t (*gemm_strided_batched_ex)(
        cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m,
        int64_t n, int64_t k, const void *alpha, const void *a, cudaDataType a_type, int64_t lda,
        long long int a_stride, const void *b, cudaDataType b_type, int64_t ldb,
        long long int b_stride, const void *beta, void *c, cudaDataType c_type, int64_t ldc,
        long long int c_stride, int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t algo);
};

/* Returns the functions of cuBLAS, or NULL if it cannot be loaded. */
const struct td_cublas *td_cublas(void);

#endif
