#include "kernels/dtype.h"

#include "kernels/name.h"

#include <string.h>

static const struct td_dtype_info infos[TD_DTYPE_COUNT] = {
#define TD_DTYPE_INFO(suffix, name, size, align, safetensors, oip)                                 \
    [TD_DTYPE_##suffix] = { name, size, align, safetensors, oip },
    TD_DTYPES(TD_DTYPE_INFO)
#undef TD_DTYPE_INFO
};

const struct td_dtype_info *td_dtype_info(td_dtype dtype)
{
    return &infos[dtype];
}

bool td_dtype_from_name(const char *name, size_t length, td_dtype *out)
{
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        if (td_name_is(infos[i].name, name, length)) {
            *out = (td_dtype)i;
            return true;
        }
    }
    return false;
}

bool td_dtype_from_safetensors(const char *name, size_t length, td_dtype *out)
{
    if (length == 0)
        return false; /* "" in the table means that the format does not have the dtype */
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        if (td_name_is(infos[i].safetensors, name, length)) {
            *out = (td_dtype)i;
            return true;
        }
    }
    return false;
}

const char *td_dtype_set_text(td_dtype_set set, char *text, size_t size)
{
    const char *names[TD_DTYPE_COUNT];
    int n = 0;
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (set & ((td_dtype_set)1 << i))
            names[n++] = infos[i].name;
    return td_names_text(names, n, text, size);
}

/* The range and precision of a real dtype. */
struct numbers {
    /* Number of bits in the absolute value of an integer, or in the significand of a float. */
    int bits;
    int exponent; /* largest exponent of a float; 0 for integers */
    bool is_signed;
};

static struct numbers numbers_of(td_dtype dtype)
{
    static const struct numbers all[TD_DTYPE_COUNT] = {
        [TD_DTYPE_BOOL] = { 1, 0, false },       [TD_DTYPE_INT8] = { 7, 0, true },
        [TD_DTYPE_INT16] = { 15, 0, true },      [TD_DTYPE_INT32] = { 31, 0, true },
        [TD_DTYPE_INT64] = { 63, 0, true },      [TD_DTYPE_UINT8] = { 8, 0, false },
        [TD_DTYPE_UINT16] = { 16, 0, false },    [TD_DTYPE_UINT32] = { 32, 0, false },
        [TD_DTYPE_UINT64] = { 64, 0, false },    [TD_DTYPE_FLOAT16] = { 11, 15, true },
        [TD_DTYPE_BFLOAT16] = { 8, 127, true },  [TD_DTYPE_FLOAT32] = { 24, 127, true },
        [TD_DTYPE_FLOAT64] = { 53, 1023, true },
    };
    return all[td_dtype_part(dtype)];
}

bool td_dtype_holds(td_dtype wide, td_dtype narrow)
{
    const struct numbers to = numbers_of(wide), from = numbers_of(narrow);
    if (wide == narrow)
        return true;
    if (to.bits == 0 || from.bits == 0 ||
        (td_dtype_is_complex(narrow) && !td_dtype_is_complex(wide)))
        return false;
    /* Every float dtype has a large enough exponent range for all integers that fit its
     * significand. */
    return to.bits >= from.bits && to.exponent >= from.exponent &&
           (to.is_signed || !from.is_signed);
}

bool td_dtype_rounds(td_dtype to, td_dtype from)
{
    return numbers_of(to).exponent >= numbers_of(TD_DTYPE_FLOAT32).exponent &&
           numbers_of(from).bits > 0 && (td_dtype_is_complex(to) || !td_dtype_is_complex(from));
}

td_dtype td_dtype_common(td_dtype a, td_dtype b)
{
    const bool is_complex = td_dtype_is_complex(a) || td_dtype_is_complex(b);
    td_dtype best = TD_DTYPE_COUNT;
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        const td_dtype dtype = (td_dtype)i;
        if (td_dtype_is_complex(dtype) != is_complex || !td_dtype_holds(dtype, a) ||
            !td_dtype_holds(dtype, b))
            continue;
        /* If both an integer and a float dtype of this size qualify, a and b are integers. */
        if (best == TD_DTYPE_COUNT || infos[dtype].size < infos[best].size ||
            (infos[dtype].size == infos[best].size && numbers_of(dtype).exponent == 0))
            best = dtype;
    }
    const bool is_new = best != a && best != b && best != TD_DTYPE_COUNT;
    /* Products and sums of two integer dtypes need a larger range than their operands. */
    return is_new && numbers_of(best).exponent == 0 ? TD_DTYPE_INT64 : best;
}
