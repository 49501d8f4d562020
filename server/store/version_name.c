#include "server/store/version_name.h"

#include "kernels/op.h"

#include <string.h>

const char *td_table_version(const char *name)
{
    const char *at = strchr(name, '@');
    return at ? at + 1 : NULL;
}

size_t td_table_base(const char *name)
{
    return strcspn(name, "@");
}

static bool ends_in(const char *text, const char *part)
{
    const char *dot = strrchr(text, '.');
    return dot && strcmp(dot + 1, part) == 0;
}

const char *td_version_name_part(const char *version)
{
    const char *part;
    for (int i = 0; (part = td_op_table_part(i)); i++)
        if (ends_in(version, part))
            return part;
    return ends_in(version, "keys") ? "keys" : ends_in(version, "program") ? "program" : NULL;
}

bool td_version_name_valid(const char *version)
{
    const size_t length = strlen(version);
    return length >= 1 && length < TD_TABLE_VERSION &&
           strspn(version, TD_NAME_CHARACTERS) == length && !td_version_name_part(version);
}

/* Compares the numbers at the start of both texts, and advances both texts past these numbers. */
static int compare_numbers(const char **a, const char **b)
{
    *a += strspn(*a, "0");
    *b += strspn(*b, "0");
    const size_t n = strspn(*a, TD_NAME_DIGITS), m = strspn(*b, TD_NAME_DIGITS);
    const int order = n != m ? (n > m) - (n < m) : strncmp(*a, *b, n);
    *a += n;
    *b += m;
    return order;
}

int td_version_name_order(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        if (strspn(x, TD_NAME_DIGITS) > 0 && strspn(y, TD_NAME_DIGITS) > 0) {
            const int order = compare_numbers(&x, &y);
            if (order != 0)
                return order;
        } else if (*x != *y) {
            break;
        } else {
            x++;
            y++;
        }
    }
    const int order = strcmp(x, y);
    /* If the order is 0 here, the texts differ at most in leading zeros. */
    return order != 0 ? order : strcmp(a, b);
}
