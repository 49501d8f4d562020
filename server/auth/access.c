#include "server/auth/access.h"

#include "kernels/shown_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *td_access_role_name(td_access_role role)
{
    static const char *const names[TD_ACCESS_ROLES] = { "none", "read", "write", "admin" };
    return names[role];
}

td_status td_access_need_role(const struct td_access *access, td_access_role needed,
                              struct td_error *err)
{
    if (access->read_only && needed > TD_ACCESS_READ)
        return td_error_set(err, TD_FORBIDDEN,
                            "this server is read-only (--read-only) and refuses changes");
    if (access->role >= needed)
        return TD_OK;
    return td_error_set(err, TD_FORBIDDEN, "this request needs a token with the role %s",
                        td_access_role_name(needed));
}

bool td_access_has_table(const struct td_access *access, const char *name, size_t length)
{
    for (int i = 0; i < access->n_prefixes; i++) {
        const struct td_prefix *prefix = &access->prefixes[i];
        if (prefix->length <= length && memcmp(prefix->text, name, prefix->length) == 0)
            return true;
    }
    return access->n_prefixes == 0;
}

const char *td_access_tables_text(const struct td_access *access, char *text, size_t size)
{
    enum { REST = 32 }; /* bytes reserved for the number of omitted prefixes */
    size_t used = (size_t)snprintf(
        text, size, access->n_prefixes ? "tensors whose names start with " : "every tensor");
    for (int i = 0; i < access->n_prefixes; i++) {
        const struct td_prefix *prefix = &access->prefixes[i];
        const char *before = i ? " or " : "";
        if (used + prefix->length + REST + 6 > size) {
            snprintf(text + used, size - used, "%sone of %d %sprefixes", before,
                     access->n_prefixes - i, i ? "other " : "");
            break;
        }
        used += (size_t)snprintf(text + used, size - used, "%s'%.*s'", before, (int)prefix->length,
                                 prefix->text);
    }
    return text;
}

td_status td_access_forbid(const struct td_access *access, struct td_error *err, const char *format,
                           ...)
{
    char text[sizeof err->message], tables[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    td_error_set(err, TD_FORBIDDEN, "%s", text);
    td_error_hint(err, "it is for %s", td_access_tables_text(access, tables, sizeof tables));
    return TD_FORBIDDEN;
}

td_status td_access_need_table(const struct td_access *access, const char *name, size_t length,
                               struct td_error *err)
{
    return td_access_has_table(access, name, length)
               ? TD_OK
               : td_access_forbid(access, err, "the token is not valid for the tensor '%s'",
                                  TD_SHOWN(name, length));
}
