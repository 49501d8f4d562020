#include "server/guard/access.h"

#include "kernels/name.h"

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
                            "this server is read-only (--read-only): it changes nothing");
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

td_status td_access_need_table(const struct td_access *access, const char *name, size_t length,
                               struct td_error *err)
{
    return td_access_has_table(access, name, length)
               ? TD_OK
               : td_error_set(err, TD_FORBIDDEN, "the token is not for the tensor '%s'",
                              TD_SHOWN(name, length));
}
