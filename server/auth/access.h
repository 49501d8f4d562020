/* access.h - permissions of a request: its role, and the tables that it is allowed to name.
 *
 * A zeroed struct td_access allows only requests that need no role.
 *
 * Ownership  struct td_access borrows its prefixes.
 * Threads    Reentrant.
 * Errors     FORBIDDEN. The message names the role or the table. The result does not reveal which
 *            tables exist. */
#ifndef TD_SERVER_AUTH_ACCESS_H
#define TD_SERVER_AUTH_ACCESS_H

#include "kernels/status.h"

#include <stddef.h>

/* Each role includes the permissions of the roles before it. */
typedef enum td_access_role {
    TD_ACCESS_NONE,
    TD_ACCESS_READ,  /* runs ops; reads lists, tensors and metrics */
    TD_ACCESS_WRITE, /* changes tensors */
    TD_ACCESS_ADMIN, /* changes the daemon */
    TD_ACCESS_ROLES
} td_access_role;

/* Returns the name of the role, such as "read", or "none" for TD_ACCESS_NONE. */
const char *td_access_role_name(td_access_role role);

struct td_prefix {
    const char *text;
    size_t length;
};

struct td_access {
    td_access_role role;
    bool read_only; /* every change is refused, regardless of the role */
    /* Number of prefixes of table names, or 0 to allow all tables. */
    int n_prefixes;
    const struct td_prefix *prefixes;
};

/* Returns FORBIDDEN if the role is lower than `needed`. Also returns FORBIDDEN if read_only is set
 * and `needed` is higher than TD_ACCESS_READ. */
TD_MUST_CHECK td_status td_access_need_role(const struct td_access *access, td_access_role needed,
                                            struct td_error *err);

/* Writes "tensors whose names start with 'app' or 'shop:'", or "every tensor", and returns `text`.
 * If not all prefixes fit, writes the number of omitted prefixes. */
const char *td_access_tables_text(const struct td_access *access, char *text, size_t size);

/* Sets a FORBIDDEN error with the message, and a hint that lists the token's tables. Used for
 * requests that the token's prefixes do not allow. */
td_status td_access_forbid(const struct td_access *access, struct td_error *err, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));

/* True if the request is allowed to name the table. */
bool td_access_has_table(const struct td_access *access, const char *name, size_t length);
TD_MUST_CHECK td_status td_access_need_table(const struct td_access *access, const char *name,
                                             size_t length, struct td_error *err);

#endif
