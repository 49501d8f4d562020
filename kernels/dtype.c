#include "kernels/dtype.h"

#include "kernels/name.h"

#include <stdio.h>
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
        return false; /* "" in the table means that the format lacks the dtype */
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
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < TD_DTYPE_COUNT && used < size; i++)
        if (set & ((td_dtype_set)1 << i))
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", infos[i].name);
    return text;
}
