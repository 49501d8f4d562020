/* cublas.cc - the functions of cuBLAS that the plugin calls, as documented: documented errors are
 * returned, undefined behaviour ends the process.
 *
 * Sums are added in reverse order, and zeros are stored as -0, since cuBLAS specifies neither. For
 * matrices of equal elements, with which a device is measured, only one element is computed. */
#include "tests/gpu/emulation/memory.h"
#include "tests/gpu/emulation/runtime.h"

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <set>
#include <vector>

using emulation::fail;
using number = std::complex<double>;

struct cublasContext {
    cudaStream_t stream;
    char *workspace;
    size_t workspace_bytes;
};

/* ---- Handles ----------------------------------------------------------------------------- */

/* All handles. Those of a lost device are never destroyed, so the set is not either: the leak
 * checker still finds them. */
static std::set<cublasHandle_t> &handles = *new std::set<cublasHandle_t>;

static bool is_handle(cublasHandle_t handle)
{
    return handles.count(handle) == 1;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    if (emulation::is_lost())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (emulation::allocation_fails())
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = new cublasContext{};
    handles.insert(*handle);
    emulation::count_handle(1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (!is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handles.erase(handle);
    delete handle;
    emulation::count_handle(-1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    if (!is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!emulation::is_stream(stream))
        fail("cublasSetStream: stream %p does not exist", static_cast<void *>(stream));
    *handle = { stream, nullptr, 0 }; /* resets the workspace to cuBLAS's own */
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *memory, size_t bytes)
{
    if (!is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (reinterpret_cast<uintptr_t>(memory) % 256 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!emulation::is_device_memory(memory, bytes))
        fail("cublasSetWorkspace: %zu bytes at %p are not in one allocation", bytes, memory);
    handle->workspace = static_cast<char *>(memory);
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    const int flags = CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    if (!is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const int plain = static_cast<int>(mode) & ~flags;
    return plain == CUBLAS_DEFAULT_MATH || plain == CUBLAS_PEDANTIC_MATH ||
                   plain == CUBLAS_TF32_TENSOR_OP_MATH
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- Elements ---------------------------------------------------------------------------- */

namespace
{

size_t bytes_of(cudaDataType type)
{
    switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_32F:
        return 4;
    case CUDA_R_64F:
    case CUDA_C_32F:
        return 8;
    default:
        return 16;
    }
}

bool is_complex(cudaDataType type)
{
    return type == CUDA_C_32F || type == CUDA_C_64F;
}

number load(const char *from, cudaDataType type)
{
    switch (type) {
    case CUDA_R_16F:
        return __half2float(*reinterpret_cast<const __half *>(from));
    case CUDA_R_16BF:
        return __bfloat162float(*reinterpret_cast<const __nv_bfloat16 *>(from));
    case CUDA_R_32F:
        return *reinterpret_cast<const float *>(from);
    case CUDA_R_64F:
        return *reinterpret_cast<const double *>(from);
    case CUDA_C_32F:
        return *reinterpret_cast<const std::complex<float> *>(from);
    default:
        return *reinterpret_cast<const number *>(from);
    }
}

void store(char *to, cudaDataType type, number value)
{
    const float real = static_cast<float>(value.real());
    switch (type) {
    case CUDA_R_16F:
        *reinterpret_cast<__half *>(to) = __float2half_rn(real);
        return;
    case CUDA_R_16BF:
        *reinterpret_cast<__nv_bfloat16 *>(to) = __float2bfloat16_rn(real);
        return;
    case CUDA_R_32F:
        *reinterpret_cast<float *>(to) = real;
        return;
    case CUDA_R_64F:
        *reinterpret_cast<double *>(to) = value.real();
        return;
    case CUDA_C_32F:
        *reinterpret_cast<std::complex<float> *>(to) = { real, static_cast<float>(value.imag()) };
        return;
    default:
        *reinterpret_cast<number *>(to) = value;
        return;
    }
}

/* As tensor cores read float32: rounded to 10 mantissa bits. */
double rounded_to_tf32(double value)
{
    const float whole = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &whole, sizeof(bits));
    bits = (bits + 0x1000) & ~uint32_t{ 0x1fff };
    float result;
    std::memcpy(&result, &bits, sizeof(result));
    return static_cast<double>(result);
}

/* ---- Products ---------------------------------------------------------------------------- */

/* A column-major matrix; stride is that of the batch. */
struct matrix {
    char *data;
    cudaDataType type;
    int64_t rows, columns, lead, stride;
};

struct product {
    cublasHandle_t handle;
    int64_t m, n, k, batch;
    cublasOperation_t a_operation, b_operation;
    matrix a, b, c;
    const void *alpha, *beta;
    cublasComputeType_t compute;
};

bool is_operation(cublasOperation_t operation)
{
    return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

/* The tables of types of "cublasGemmEx". */
bool is_supported(const product &p)
{
    const cudaDataType ab = p.a.type, c = p.c.type;
    if (p.b.type != ab)
        return false;
    switch (p.compute) {
    case CUBLAS_COMPUTE_32F:
        return (ab == c &&
                (ab == CUDA_R_16F || ab == CUDA_R_16BF || ab == CUDA_R_32F || ab == CUDA_C_32F)) ||
               (c == CUDA_R_32F && (ab == CUDA_R_16F || ab == CUDA_R_16BF));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return ab == c && (ab == CUDA_R_32F || ab == CUDA_C_32F);
    case CUBLAS_COMPUTE_64F:
        return ab == c && (ab == CUDA_R_64F || ab == CUDA_C_64F);
    default:
        return false;
    }
}

cublasStatus_t check(const product &p)
{
    if (!is_handle(p.handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0 || !is_operation(p.a_operation) ||
        !is_operation(p.b_operation) || !p.alpha || !p.beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (const matrix *one : { &p.a, &p.b, &p.c })
        if (one->lead < std::max<int64_t>(1, one->rows))
            return CUBLAS_STATUS_INVALID_VALUE;
    return is_supported(p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

void require_memory(const matrix &one, int64_t batch, const char *name)
{
    const int64_t first = std::min<int64_t>(0, (batch - 1) * one.stride);
    const int64_t last = std::max<int64_t>(0, (batch - 1) * one.stride) +
                         (one.columns - 1) * one.lead + one.rows - 1;
    const int64_t size = static_cast<int64_t>(bytes_of(one.type));
    const size_t bytes = static_cast<size_t>((last - first + 1) * size);
    if (one.rows == 0 || one.columns == 0)
        return;
    if (reinterpret_cast<uintptr_t>(one.data) % bytes_of(one.type) != 0)
        fail("gemm: matrix %s at %p is not aligned to its elements", name,
             static_cast<void *>(one.data));
    if (!emulation::is_device_memory(one.data + first * size, bytes))
        fail("gemm: matrix %s, %zu bytes at %p, is not in one allocation", name, bytes,
             static_cast<void *>(one.data + first * size));
}

/* No two elements of the batch's results may have the same address. */
void require_disjoint(const matrix &c, int64_t batch)
{
    if (batch == 1)
        return;
    const int64_t first = std::min<int64_t>(0, (batch - 1) * c.stride);
    std::vector<bool> used;
    for (int64_t z = 0; z < batch; z++)
        for (int64_t j = 0; j < c.columns; j++)
            for (int64_t i = 0; i < c.rows; i++) {
                const size_t at = static_cast<size_t>(z * c.stride + j * c.lead + i - first);
                if (at >= used.size())
                    used.resize(2 * at + 1);
                if (used[at])
                    fail("gemm: the results of a batch overlap");
                used[at] = true;
            }
}

char *element(const matrix &of, int64_t z, int64_t row, int64_t column)
{
    return of.data +
           (z * of.stride + row + column * of.lead) * static_cast<int64_t>(bytes_of(of.type));
}

number number_at(const product &p, const matrix &from, int64_t z, int64_t row, int64_t column)
{
    const number value = load(element(from, z, row, column), from.type);
    if (p.compute != CUBLAS_COMPUTE_32F_FAST_TF32)
        return value;
    return { rounded_to_tf32(value.real()), rounded_to_tf32(value.imag()) };
}

/* Loads op(M) of one matrix of the batch, row-major if `row_major`, so that the inner loop is
 * contiguous. */
std::vector<number> fetch(const product &p, const matrix &from, int64_t z, bool row_major)
{
    std::vector<number> numbers(static_cast<size_t>(from.rows * from.columns));
    for (int64_t column = 0; column < from.columns; column++)
        for (int64_t row = 0; row < from.rows; row++) {
            const int64_t at = row_major ? column + row * from.columns : row + column * from.rows;
            numbers[static_cast<size_t>(at)] = number_at(p, from, z, row, column);
        }
    return numbers;
}

/* Are all its bytes equal? */
bool is_uniform(const matrix &of, int64_t z)
{
    const char first = *element(of, z, 0, 0);
    for (int64_t column = 0; column < of.columns; column++) {
        const char *begin = element(of, z, 0, column);
        const size_t bytes = static_cast<size_t>(of.rows) * bytes_of(of.type);
        if (begin[0] != first || std::memcmp(begin, begin + 1, bytes - 1) != 0)
            return false;
    }
    return true;
}

/* The sum of k products, of contiguous numbers. */
number dot(const product &p, const number *a, const number *b)
{
    const bool complex = is_complex(p.a.type);
    double re = 0, im = 0;
    for (int64_t l = p.k - 1; l >= 0; l--) {
        re += a[l].real() * b[l].real();
        if (complex) {
            re -= a[l].imag() * b[l].imag();
            im += a[l].real() * b[l].imag() + a[l].imag() * b[l].real();
        }
    }
    return { re == 0 ? -0.0 : re, im == 0 ? -0.0 : im };
}

/* All elements are the first one. */
void multiply_uniform(const product &p, int64_t z)
{
    const std::vector<number> a(static_cast<size_t>(p.k), number_at(p, p.a, z, 0, 0));
    const std::vector<number> b(static_cast<size_t>(p.k), number_at(p, p.b, z, 0, 0));
    const size_t size = bytes_of(p.c.type), column = static_cast<size_t>(p.m) * size;
    char *first = element(p.c, z, 0, 0);
    store(first, p.c.type, dot(p, a.data(), b.data()));
    for (size_t at = size; at < column; at += size)
        std::memcpy(first + at, first, size);
    for (int64_t j = 1; j < p.n; j++)
        std::memcpy(element(p.c, z, 0, j), first, column);
}

void multiply_one(const product &p, int64_t z)
{
    if (p.k > 0 && is_uniform(p.a, z) && is_uniform(p.b, z)) {
        multiply_uniform(p, z);
        return;
    }
    /* Both with k contiguous. */
    const std::vector<number> a = fetch(p, p.a, z, p.a_operation == CUBLAS_OP_N);
    const std::vector<number> b = fetch(p, p.b, z, p.b_operation != CUBLAS_OP_N);
    for (int64_t j = 0; j < p.n; j++)
        for (int64_t i = 0; i < p.m; i++)
            store(element(p.c, z, i, j), p.c.type, dot(p, a.data() + i * p.k, b.data() + j * p.k));
}

void multiply(const product &p)
{
    require_memory(p.a, p.batch, "A");
    require_memory(p.b, p.batch, "B");
    require_memory(p.c, p.batch, "C");
    require_disjoint(p.c, p.batch);
    if (p.handle->workspace)
        std::memset(p.handle->workspace, 0x5a, std::min<size_t>(p.handle->workspace_bytes, 4096));
    for (int64_t z = 0; z < p.batch; z++)
        multiply_one(p, z);
}

/* Are alpha and beta, in host memory, 1 and 0? */
bool has_unit_scale(const product &p)
{
    const bool is_double = p.compute == CUBLAS_COMPUTE_64F;
    const cudaDataType type = is_complex(p.a.type) ? (is_double ? CUDA_C_64F : CUDA_C_32F)
                                                   : (is_double ? CUDA_R_64F : CUDA_R_32F);
    return load(static_cast<const char *>(p.alpha), type) == 1.0 &&
           load(static_cast<const char *>(p.beta), type) == 0.0;
}

/* The benchmarks of opening a device are not refused. */
bool refuses(const product &p)
{
    static const char *const mode = std::getenv("TD_EMULATION_PRODUCTS");
    if (!mode || std::strcmp(mode, "refuse") != 0)
        return false;
    emulation::device_access opened;
    return p.k == 0 || !is_uniform(p.a, 0) || !is_uniform(p.b, 0);
}

cublasStatus_t run(const product &p)
{
    const cublasStatus_t status = emulation::is_lost() ? CUBLAS_STATUS_EXECUTION_FAILED : check(p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!has_unit_scale(p))
        fail("gemm: alpha other than 1 and beta other than 0 are not emulated");
    if (p.m == 0 || p.n == 0 || p.batch == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (refuses(p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    emulation::submit(p.handle->stream, [=] { multiply(p); });
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int64_t m, int64_t n,
    int64_t k, const void *alpha, const void *a, cudaDataType a_type, int64_t lda,
    long long int a_stride, const void *b, cudaDataType b_type, int64_t ldb, long long int b_stride,
    const void *beta, void *c, cudaDataType c_type, int64_t ldc, long long int c_stride,
    int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t)
{
    const bool a_plain = transa == CUBLAS_OP_N, b_plain = transb == CUBLAS_OP_N;
    char *a_data = const_cast<char *>(static_cast<const char *>(a));
    char *b_data = const_cast<char *>(static_cast<const char *>(b));
    return run({ handle,
                 m,
                 n,
                 k,
                 batch,
                 transa,
                 transb,
                 { a_data, a_type, a_plain ? m : k, a_plain ? k : m, lda, a_stride },
                 { b_data, b_type, b_plain ? k : n, b_plain ? n : k, ldb, b_stride },
                 { static_cast<char *>(c), c_type, m, n, ldc, c_stride },
                 alpha,
                 beta,
                 compute });
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transa,
                               cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                               const void *alpha, const void *a, cudaDataType a_type, int64_t lda,
                               const void *b, cudaDataType b_type, int64_t ldb, const void *beta,
                               void *c, cudaDataType c_type, int64_t ldc,
                               cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    return cublasGemmStridedBatchedEx_64(handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0,
                                         b, b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute,
                                         algo);
}
