/* dtype.h - the element types, as a single X-macro list from which all dtype tables are built. */
#ifndef TD_KERNELS_DTYPE_H
#define TD_KERNELS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enum suffix, name in the API, bytes per element, alignment, safetensors name, Open Inference
 * Protocol name). A name is "" if the format does not have the dtype. Strings have no fixed size
 * (tensor.h). */
#define TD_DTYPES(X)                                                                               \
    X(BOOL, "bool", 1, 1, "BOOL", "BOOL")                                                          \
    X(INT8, "int8", 1, 1, "I8", "INT8")                                                            \
    X(INT16, "int16", 2, 2, "I16", "INT16")                                                        \
    X(INT32, "int32", 4, 4, "I32", "INT32")                                                        \
    X(INT64, "int64", 8, 8, "I64", "INT64")                                                        \
    X(UINT8, "uint8", 1, 1, "U8", "UINT8")                                                         \
    X(UINT16, "uint16", 2, 2, "U16", "UINT16")                                                     \
    X(UINT32, "uint32", 4, 4, "U32", "UINT32")                                                     \
    X(UINT64, "uint64", 8, 8, "U64", "UINT64")                                                     \
    X(FLOAT16, "float16", 2, 2, "F16", "FP16")                                                     \
    X(BFLOAT16, "bfloat16", 2, 2, "BF16", "BF16")                                                  \
    X(FLOAT32, "float32", 4, 4, "F32", "FP32")                                                     \
    X(FLOAT64, "float64", 8, 8, "F64", "FP64")                                                     \
    X(COMPLEX64, "complex64", 8, 4, "C64", "")                                                     \
    X(COMPLEX128, "complex128", 16, 8, "", "")                                                     \
    X(STRING, "string", 0, 1, "", "BYTES")

typedef enum td_dtype {
#define TD_DTYPE_ENUM(name, ...) TD_DTYPE_##name,
    TD_DTYPES(TD_DTYPE_ENUM)
#undef TD_DTYPE_ENUM
        TD_DTYPE_COUNT
} td_dtype;

/* A set of dtypes: bit (1u << dtype). */
typedef uint32_t td_dtype_set;
#define TD_DTYPE_BIT(name) ((td_dtype_set)1 << TD_DTYPE_##name)
#define TD_DTYPES_ALL      (((td_dtype_set)1 << TD_DTYPE_COUNT) - 1)
#define TD_DTYPES_INDEX    (TD_DTYPE_BIT(INT16) | TD_DTYPE_BIT(INT32) | TD_DTYPE_BIT(INT64))

struct td_dtype_info {
    const char *name;
    size_t size; /* bytes per element; 0 for string */
    size_t align;
    const char *safetensors; /* "" if the format does not have the dtype */
    /* Name in the Open Inference Protocol, or "" if the protocol does not have the dtype. */
    const char *oip;
};

const struct td_dtype_info *td_dtype_info(td_dtype dtype);

/* Look up a dtype by its exact name. Return false if no dtype has the name. `name` need not be
 * NUL-terminated. */
bool td_dtype_from_name(const char *name, size_t length, td_dtype *out);
bool td_dtype_from_safetensors(const char *name, size_t length, td_dtype *out);

/* Writes the names of a set, such as "int16, int32, int64". Returns text. */
#define TD_DTYPE_SET_TEXT 160
const char *td_dtype_set_text(td_dtype_set set, char *text, size_t size);

/* True if `wide` can represent every value of `narrow`. */
bool td_dtype_holds(td_dtype wide, td_dtype narrow);

/* True if a conversion to `to` rounds values that `to` cannot represent, because `to` is a float
 * with at least the range of float32. Other conversions drop fractions, wrap around or overflow to
 * infinity. */
bool td_dtype_rounds(td_dtype to, td_dtype from);

/* Returns a dtype that can represent every value of a and b: a or b if possible, otherwise int64
 * for integers and the smallest suitable dtype for other dtypes. Returns TD_DTYPE_COUNT if no dtype
 * is suitable. */
td_dtype td_dtype_common(td_dtype a, td_dtype b);

static inline bool td_dtype_is_float(td_dtype dtype)
{
    static const td_dtype_set floats = TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) |
                                       TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64);
    return floats >> dtype & 1;
}

static inline bool td_dtype_is_complex(td_dtype dtype)
{
    return dtype == TD_DTYPE_COMPLEX64 || dtype == TD_DTYPE_COMPLEX128;
}

/* Returns the dtype of the two parts of a complex number. Returns any other dtype unchanged. */
static inline td_dtype td_dtype_part(td_dtype dtype)
{
    return dtype == TD_DTYPE_COMPLEX64    ? TD_DTYPE_FLOAT32
           : dtype == TD_DTYPE_COMPLEX128 ? TD_DTYPE_FLOAT64
                                          : dtype;
}

#endif
