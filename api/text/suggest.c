#include "api/text/suggest.h"

#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Maximum length of a name. Each character of the pattern is one bit of a 64-bit word, and
 * did_you_mean has 64 bytes including the NUL. */
enum { LONGEST = 63 };

/* The given name, represented as bit masks. */
struct pattern {
    uint64_t at[256]; /* bit i of at[c] is set if character i is c */
    uint64_t last;    /* bit of the pattern's last character */
    size_t length;
};

static void pattern_init(struct pattern *pattern, const char *name, size_t length)
{
    memset(pattern->at, 0, sizeof pattern->at);
    for (size_t i = 0; i < length; i++)
        pattern->at[(unsigned char)name[i]] |= UINT64_C(1) << i;
    pattern->last = UINT64_C(1) << (length - 1);
    pattern->length = length;
}

/* Returns the edit distance between the pattern and a name, or `least` if the distance is at least
 * `least`. Two words represent a column of the dynamic programming table. Their bits mark the rows
 * where the distance is one more (above) or one less (below) than in the previous row. Source: H.
 * Hyyro, A bit-vector algorithm for computing Levenshtein and Damerau edit distances, 2003. */
static size_t edit_distance(const struct pattern *pattern, const char *name, size_t length,
                            size_t least, uint32_t *work)
{
    uint64_t above = ~UINT64_C(0), below = 0, diagonal = 0, match_before = 0;
    /* Distance between the whole pattern and the characters of the name read so far. */
    size_t distance = pattern->length;
    for (size_t i = 0; i < length; i++) {
        const uint64_t match = pattern->at[(unsigned char)name[i]];
        const uint64_t exchanged = ((~diagonal & match) << 1) & match_before;
        diagonal = (((match & above) + above) ^ above) | match | below | exchanged;
        uint64_t more = below | ~(diagonal | above), fewer = diagonal & above;
        distance += (more & pattern->last) != 0;
        distance -= (fewer & pattern->last) != 0;
        ++*work;
        /* Each remaining character reduces the distance by at most 1. */
        if (distance >= least + (length - 1 - i))
            return least;
        more = more << 1 | 1;
        fewer <<= 1;
        above = fewer | ~(diagonal | more);
        below = more & diagonal;
        match_before = match;
    }
    return distance;
}

/* True if the text is the part of the longer name before a ':', '@' or '.', or the part after the
 * first ':'. */
static bool is_part(const char *text, size_t length, const char *name)
{
    const char *colon = strchr(name, ':');
    return (colon && td_name_is(colon + 1, text, length)) ||
           (strlen(name) > length && strchr(":@.", name[length]) &&
            memcmp(name, text, length) == 0);
}

const char *td_nearest_name(const char *name, size_t length, const char *const *names, int n_names,
                            uint32_t *work)
{
    struct pattern pattern;
    const char *nearest = NULL;
    size_t least = (length < 6 ? 1 : length / 3) + 1;
    *work = 0;
    if (length < 2 || length > LONGEST)
        return NULL;
    pattern_init(&pattern, name, length);
    for (int i = 0; i < n_names && *work < TD_SUGGEST_WORK; i++) {
        const size_t other = strlen(names[i]);
        const size_t difference = other > length ? other - length : length - other;
        ++*work;
        if (other > LONGEST || td_name_is(names[i], name, length))
            continue; /* never suggest the given name itself */
        const bool part = is_part(name, length, names[i]);
        if (difference >= least && !part)
            continue;
        const size_t distance = part ? 0 : edit_distance(&pattern, names[i], other, least, work);
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

static void set_did_you_mean(struct td_error *err, const char *nearest)
{
    if (nearest)
        snprintf(err->did_you_mean, sizeof err->did_you_mean, "%s", nearest);
}

void td_suggest(struct td_error *err, const char *name, size_t length, const char *const *names,
                int n_names)
{
    uint32_t work;
    set_did_you_mean(err, td_nearest_name(name, length, names, n_names, &work));
}

/* Alternative names of dtypes. The names of the Open Inference Protocol are in the table of dtypes.
 * "i8" and "u8" are omitted, because they name different dtypes in NumPy and safetensors. */
static const struct {
    const char *name;
    td_dtype dtype;
} other_dtypes[] = {
    { "float", TD_DTYPE_FLOAT32 },  { "single", TD_DTYPE_FLOAT32 },
    { "f4", TD_DTYPE_FLOAT32 },     { "f32", TD_DTYPE_FLOAT32 },
    { "double", TD_DTYPE_FLOAT64 }, { "f8", TD_DTYPE_FLOAT64 },
    { "f64", TD_DTYPE_FLOAT64 },    { "half", TD_DTYPE_FLOAT16 },
    { "f2", TD_DTYPE_FLOAT16 },     { "f16", TD_DTYPE_FLOAT16 },
    { "int", TD_DTYPE_INT32 },      { "integer", TD_DTYPE_INT32 },
    { "i4", TD_DTYPE_INT32 },       { "i32", TD_DTYPE_INT32 },
    { "long", TD_DTYPE_INT64 },     { "i64", TD_DTYPE_INT64 },
    { "u32", TD_DTYPE_UINT32 },     { "u64", TD_DTYPE_UINT64 },
    { "byte", TD_DTYPE_UINT8 },     { "boolean", TD_DTYPE_BOOL },
    { "str", TD_DTYPE_STRING },     { "text", TD_DTYPE_STRING },
    { "object", TD_DTYPE_STRING },  { "complex", TD_DTYPE_COMPLEX64 },
};

void td_suggest_dtype(struct td_error *err, const char *name, size_t length, td_dtype_set accepted)
{
    const char *names[TD_DTYPE_COUNT], *found = NULL;
    int n = 0;
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        const struct td_dtype_info *info = td_dtype_info((td_dtype)i);
        if (!(accepted >> i & 1))
            continue;
        names[n++] = info->name;
        if (info->oip && td_name_is_caseless(info->oip, name, length))
            found = info->name;
    }
    for (size_t i = 0; !found && i < sizeof other_dtypes / sizeof *other_dtypes; i++)
        if ((accepted >> other_dtypes[i].dtype & 1) &&
            td_name_is_caseless(other_dtypes[i].name, name, length))
            found = td_dtype_info(other_dtypes[i].dtype)->name;
    if (!found)
        td_suggest(err, name, length, names, n);
    else
        snprintf(err->did_you_mean, sizeof err->did_you_mean, "%s", found);
}

td_status td_unknown_name(struct td_error *err, td_status status, const char *what,
                          const char *name, size_t length, const char *const *names, int n_names,
                          const char *listed_at)
{
    uint32_t work;
    const char *nearest = td_nearest_name(name, length, names, n_names, &work);
    td_error_set(err, status, "there is no %s '%s'%s%s%s; %s lists them", what,
                 TD_SHOWN(name, length), nearest ? " (did you mean '" : "", nearest ? nearest : "",
                 nearest ? "'?)" : "", listed_at);
    set_did_you_mean(err, nearest);
    return status;
}
