/* access.h - what a request may do: its role and the tables that it may name.
 *
 * Zeros allow nothing that needs a role.
 *
 * Ownership  Borrows the prefixes.
 * Threads    Reentrant.
 * Errors     FORBIDDEN, which names the role or the table and does not depend on which tables
 *            exist. */
#ifndef TD_SERVER_AUTH_ACCESS_H
#define TD_SERVER_AUTH_ACCESS_H

#include "kernels/status.h"

#include <stddef.h>

/* Each may do what those before it may. */
typedef enum td_access_role {
    TD_ACCESS_NONE,
    TD_ACCESS_READ,  /* ops, lists, tensors, metrics */
    TD_ACCESS_WRITE, /* changes of tensors */
    TD_ACCESS_ADMIN, /* changes of the daemon */
    TD_ACCESS_ROLES
} td_access_role;

/* "read"; "none" for TD_ACCESS_NONE. */
const char *td_access_role_name(td_access_role role);

struct td_prefix {
    const char *text;
    size_t length;
};

struct td_access {
    td_access_role role;
    bool read_only; /* the server changes nothing, whatever the role is */
    int n_prefixes; /* of names of tables; 0: all tables */
    const struct td_prefix *prefixes;
};

/* May it do what needs `needed`? With read_only only what needs at most TD_ACCESS_READ. */
TD_MUST_CHECK td_status td_access_need_role(const struct td_access *access, td_access_role needed,
                                            struct td_error *err);

/* "tensors whose names begin with 'app' or 'shop:'", or "every tensor". Prefixes that do not fit
 * are counted. Returns text. */
const char *td_access_tables_text(const struct td_access *access, char *text, size_t size);

/* FORBIDDEN with a message, and what the token is for, since its prefixes refuse the request. */
td_status td_access_forbid(const struct td_access *access, struct td_error *err, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));

/* May it name the table? */
bool td_access_has_table(const struct td_access *access, const char *name, size_t length);
TD_MUST_CHECK td_status td_access_need_table(const struct td_access *access, const char *name,
                                             size_t length, struct td_error *err);

#endif
