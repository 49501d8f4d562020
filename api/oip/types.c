#include "api/oip/types.h"

#include "kernels/name.h"

#include <stdio.h>
#include <string.h>

bool td_oip_dtype(const char *name, size_t length, td_dtype *out)
{
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        const char *known = td_dtype_info((td_dtype)i)->oip;
        if (*known && td_name_is(known, name, length)) {
            *out = (td_dtype)i;
            return true;
        }
    }
    return false;
}

const char *td_oip_names(td_dtype_set set, char *text, size_t size)
{
    const char *names[TD_DTYPE_COUNT];
    int n = 0;
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (*td_dtype_info((td_dtype)i)->oip && (set >> i & 1))
            names[n++] = td_dtype_info((td_dtype)i)->oip;
    return td_names_text(names, n, text, size);
}

const char *td_oip_config_name(td_dtype dtype, char *text, size_t size)
{
    const char *name = dtype == TD_DTYPE_STRING ? "STRING" : td_dtype_info(dtype)->oip;
    snprintf(text, size, "TYPE_%s", name);
    return text;
}
