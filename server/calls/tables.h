/* tables.h - the resident tensors that a request may name: the only way from the names of a request
 * to the store.
 *
 * Other files of server/calls call none of td_store_get, td_store_knows, td_store_list and
 * td_store_resolver, and change a name only after td_tables_may_write; tests/http/test_tokens.py
 * checks it.
 *
 * A call sees the names of one moment. While it is decoded they are found one after the other; if
 * some of them have changed by the end, td_tables_agree looks all of them up at one moment, and the
 * request is decoded again with what it found then. That is rare and costs nothing otherwise, while
 * a copy of all names for each call would keep every replaced version as long as it is decoded.
 *
 * Ownership  Borrows the store, the prefixes of the access and the names of the request.
 * Threads    The call's owner.
 * Errors     FORBIDDEN before the store is asked, so that it does not depend on which names
 *            exist. */
#ifndef TD_SERVER_CALLS_TABLES_H
#define TD_SERVER_CALLS_TABLES_H

#include "server/auth/access.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

struct td_found_table;

struct td_tables {
    struct td_resolver resolver; /* for the decoders */
    struct td_store *store;
    struct td_access access;              /* at first none; set before the task begins */
    struct td_found_table *first, **last; /* what the resolver has found, in this order */
    int n_found;
    uint64_t changes;            /* of the store, before the first was looked up */
    bool again;                  /* decoding again: */
    struct td_found_table *next; /* what the resolver is asked for next */
};

void td_tables_init(struct td_tables *tables, struct td_store *store);

/* After decoding: whether all tensors that the resolver has found were current at one moment. If
 * not, the request is to be decoded again, and the resolver then gives those that were current
 * together. TENSOR_NOT_FOUND and errors of the store if one of them is not there any more. */
TD_MUST_CHECK td_status td_tables_agree(struct td_tables *tables, struct td_arena *arena,
                                        bool *again, struct td_error *err);

/* The name by which the request has found a tensor, which may be an alias; false if it has not. */
bool td_tables_name_of(const struct td_tables *tables, const struct td_tensor *tensor,
                       char name[TD_KEYS_NAME]);

/* May the request name this tensor; may it change it? */
TD_MUST_CHECK td_status td_tables_may_name(const struct td_tables *tables, const char *name,
                                           struct td_error *err);
TD_MUST_CHECK td_status td_tables_may_write(const struct td_tables *tables, const char *name,
                                            struct td_error *err);

/* As td_store_get and td_store_list_range, of those that the request may name. *more: there are
 * further ones after the limit. */
TD_MUST_CHECK td_status td_tables_get(const struct td_tables *tables, const char *name,
                                      struct td_arena *arena, struct td_tensor_listing *out,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_tables_list(const struct td_tables *tables,
                                       const struct td_name_range *range, struct td_arena *arena,
                                       struct td_tensor_listing **list, int *count, bool *more,
                                       struct td_error *err);

/* False for a name that is not there, also if a refused folder may have it: td_store_knows. */
bool td_tables_know(const struct td_tables *tables, const char *name);

/* Finds a part of a table (td_table_parts of table_name.h) and its name; *found is NULL if the part
 * is not there. Errors as of td_tables_get, except TENSOR_NOT_FOUND: a part that cannot be read, or
 * that the request may not name, is not taken for a part that is not there. No similar name is
 * searched for. */
TD_MUST_CHECK td_status td_tables_find_part(const struct td_tables *tables, const char *table,
                                            const char *part, struct td_arena *arena,
                                            char name[TD_TENSOR_NAME],
                                            const struct td_tensor **found, struct td_error *err);

/* The version NAME@VERSION of a table whose VERSION is the last in natural order, of those that the
 * request may name. TENSOR_NOT_FOUND if there is none. */
TD_MUST_CHECK td_status td_tables_newest(const struct td_tables *tables, const char *table,
                                         struct td_arena *arena, struct td_tensor_listing *out,
                                         struct td_error *err);

/* Takes the ETag of a tensor that the request may not name out of an error. For every reply. */
void td_tables_hide_etag(const struct td_tables *tables, struct td_error *err);

/* Takes a name that the request may not know out of the error of the store that suggests it.
 * Returns `status`. */
td_status td_tables_hide(const struct td_tables *tables, const char *name, td_status status,
                         struct td_error *err);

#endif
