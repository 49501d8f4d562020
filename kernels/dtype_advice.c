#include "kernels/dtype_advice.h"

#include <stdio.h>

td_dtype td_dtype_to_cast(td_dtype_set accepted, td_dtype from)
{
    td_dtype best = TD_DTYPE_COUNT;
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        const td_dtype to = (td_dtype)i;
        /* Casts bools only to int64, because their sums need a larger range. */
        if (!(accepted >> i & 1) || to == TD_DTYPE_BFLOAT16 || from == TD_DTYPE_STRING ||
            (from == TD_DTYPE_BOOL && to != TD_DTYPE_INT64) ||
            (td_dtype_is_complex(to) && !td_dtype_is_complex(from)) ||
            !(td_dtype_holds(to, from) || td_dtype_rounds(to, from)))
            continue;
        const bool holds = td_dtype_holds(to, from);
        const bool first = best == TD_DTYPE_COUNT, held = !first && td_dtype_holds(best, from);
        const bool smaller = !first && td_dtype_info(to)->size < td_dtype_info(best)->size;
        if (first || (holds && !held) || (holds == held && smaller == holds))
            best = to;
    }
    return best;
}

static const char *name_of(td_dtype dtype)
{
    return td_dtype_info(dtype)->name;
}

static bool may_be(const struct td_dtype_pair *pair, td_dtype dtype)
{
    return dtype != TD_DTYPE_COUNT && pair->accepted >> dtype & 1;
}

/* Returns the dtype to use if no dtype can represent the values of both: the widest float dtype,
 * which rounds the values. Returns TD_DTYPE_COUNT if both are integers, which rounding would
 * change. */
static td_dtype widest_float(const struct td_dtype_pair *pair)
{
    if (td_dtype_is_complex(pair->first) || td_dtype_is_complex(pair->dtype))
        return TD_DTYPE_COMPLEX128;
    return td_dtype_is_float(pair->first) || td_dtype_is_float(pair->dtype) ? TD_DTYPE_FLOAT64
                                                                            : TD_DTYPE_COUNT;
}

/* True if bytes would be converted to floats. Bytes are probably quantised rows, and cast would not
 * scale them. */
static bool are_quantised(td_dtype from, td_dtype to)
{
    return (from == TD_DTYPE_INT8 || from == TD_DTYPE_UINT8) && to != TD_DTYPE_COUNT &&
           td_dtype_is_float(to);
}

/* Writes advice for keys. Recommends only conversions that do not change the keys. */
static void advise_keys(const struct td_dtype_pair *pair, char *text)
{
    if (td_dtype_holds(pair->first, pair->dtype))
        snprintf(text, TD_DTYPE_ADVICE, ": the op cast with dtype = %s converts %s",
                 name_of(pair->first), pair->name);
    else
        snprintf(text, TD_DTYPE_ADVICE,
                 ": pass it as %s; a value that does not fit cannot be one of the keys",
                 name_of(pair->first));
}

/* Returns the property of numbers of `from` that `to` cannot represent, such as "fractions".
 * Returns NULL if only the ranges differ. */
static const char *lacks(td_dtype to, td_dtype from)
{
    const bool imaginary = td_dtype_is_complex(from) && !td_dtype_is_complex(to);
    const bool fractions = (td_dtype_is_float(from) || td_dtype_is_complex(from)) &&
                           !td_dtype_is_float(to) && !td_dtype_is_complex(to);
    return imaginary && fractions ? "fractions and imaginary parts"
           : imaginary            ? "imaginary parts"
           : fractions            ? "fractions"
                                  : NULL;
}

/* Writes advice for values that change a table, which keeps its dtype. */
static void advise_change(const struct td_dtype_pair *pair, char *text)
{
    const char *lacking = lacks(pair->first, pair->dtype);
    td_dtype wide = td_dtype_common(pair->first, pair->dtype);
    const bool rounds = wide == TD_DTYPE_COUNT;
    wide = rounds ? widest_float(pair) : wide;
    if (td_dtype_holds(pair->first, pair->dtype))
        snprintf(text, TD_DTYPE_ADVICE, ": the op cast with dtype = %s converts %s",
                 name_of(pair->first), pair->name);
    else if (lacking)
        snprintf(text, TD_DTYPE_ADVICE,
                 ": %s has no %s. Store the table again as %s%s, with its keys, or pass %s without "
                 "%s as %s",
                 name_of(pair->first), lacking, name_of(wide),
                 rounds ? ", which rounds integers above 2^53" : "", pair->name, lacking,
                 name_of(pair->first));
    else if (td_dtype_rounds(pair->first, pair->dtype))
        snprintf(text, TD_DTYPE_ADVICE, ": the op cast with dtype = %s rounds %s",
                 name_of(pair->first), pair->name);
    else if (pair->first == TD_DTYPE_FLOAT16)
        snprintf(text, TD_DTYPE_ADVICE,
                 ": the op cast with dtype = float16 rounds %s, and numbers beyond 65504 become "
                 "infinite",
                 pair->name);
    else
        snprintf(text, TD_DTYPE_ADVICE, ": pass %s as %s if all values fit", pair->name,
                 name_of(pair->first));
}

/* Writes advice for the inputs of an op. The first choice is the dtype of the first input, which is
 * often a resident table, if that dtype can represent or round the values of the other input. The
 * second choice is the dtype of the other input, and the third is a dtype that can represent
 * both. */
static void advise_inputs(const struct td_dtype_pair *pair, char *text)
{
    const td_dtype common = td_dtype_common(pair->first, pair->dtype);
    const bool keeps = common == pair->first || may_be(pair, common);
    const td_dtype to = keeps ? common : widest_float(pair);
    const char *converted = common == pair->first   ? pair->name
                            : common == pair->dtype ? pair->first_name
                                                    : "both";
    char rounding[128] = "";
    if (common != pair->first && keeps && td_dtype_rounds(pair->first, pair->dtype))
        snprintf(rounding, sizeof rounding, " with dtype = %s rounds %s, and cast",
                 name_of(pair->first), pair->name);
    if (are_quantised(pair->dtype, common) || are_quantised(pair->first, common))
        snprintf(text, TD_DTYPE_ADVICE,
                 ": the op dequantize converts quantised rows, and the op cast with dtype = %s "
                 "converts other bytes",
                 name_of(common));
    else if (!keeps && !may_be(pair, to))
        snprintf(text, TD_DTYPE_ADVICE,
                 ": no dtype can hold the values of both, and the op cast with dtype = %s changes "
                 "values that do not fit",
                 name_of(pair->first));
    else
        snprintf(text, TD_DTYPE_ADVICE, ": the op cast%s with dtype = %s converts %s%s", rounding,
                 name_of(to), converted, keeps ? "" : ", but rounds integers above 2^53");
}

const char *td_dtype_advise(const struct td_dtype_pair *pair, char text[TD_DTYPE_ADVICE])
{
    text[0] = '\0';
    if (pair->first == TD_DTYPE_STRING || pair->dtype == TD_DTYPE_STRING) {
        if (pair->role == TD_ROLE_KEY)
            snprintf(text, TD_DTYPE_ADVICE, ": pass it as %s", name_of(pair->first));
    } else if (pair->role == TD_ROLE_KEY) {
        advise_keys(pair, text);
    } else if (pair->is_change) {
        advise_change(pair, text);
    } else {
        advise_inputs(pair, text);
    }
    return text;
}
