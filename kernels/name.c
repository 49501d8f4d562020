#include "kernels/name.h"

#include <stdio.h>
#include <strings.h>

bool td_name_is_caseless(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && strncasecmp(name, text, length) == 0;
}

const char *td_names_text(const char *const *names, int n, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", names[i]);
    return text;
}
