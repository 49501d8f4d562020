/* catalog.h - the resident tensors and programs that a request is allowed to name. All names in
 * requests reach the store through this file.
 *
 * Tensors and programs have separate names. A program NAME is the tensor NAME.program of the store,
 * but a request cannot use NAME.program as the name of a tensor: the functions for tensors, and the
 * resolver, return INVALID_ARGUMENT, and lists omit it. Only aliases name programs in this way.
 *
 * Other files of server/calls do not call td_store_get, td_store_knows, td_store_list or
 * td_store_resolver, and change a name only after td_catalog_may_write; tests/http/test_tokens.py
 * checks this.
 *
 * A call sees the names as they were at one moment. While the call is decoded, the names are looked
 * up one after another. If any name has changed by the end, td_catalog_agree looks them all up at
 * one moment, and the request is decoded again with the result. A new version of a program can name
 * different tables, so this is repeated until all names agree. A repetition is rare, and nothing is
 * repeated if no name has changed. If each call had a copy of all names instead, every replaced
 * version would remain in memory during decoding.
 *
 * Ownership  Borrows the store, the prefixes of the access and the names of the request.
 * Threads    The thread that owns the call.
 * Errors     FORBIDDEN is returned before the store is searched, so the error does not depend on
 *            which names exist. */
#ifndef TD_SERVER_CALLS_CATALOG_H
#define TD_SERVER_CALLS_CATALOG_H

#include "server/auth/access.h"
#include "server/store/store.h"
#include "server/store/table_name.h"

struct td_found_table;

struct td_catalog {
    struct td_resolver resolver; /* for the decoders */
    struct td_store *store;
    struct td_access access;              /* no access until it is set, before the task starts */
    struct td_found_table *first, **last; /* tensors that the resolver found, in this order */
    /* Tensors that were current together, for decoding the request again. NULL while the request is
     * decoded for the first time. */
    struct td_found_table *agreed;
    bool looked_up; /* a tensor was found that is not in `agreed` */
    int n_found;
    /* The store's change counter before the first lookup, or when the tensors were agreed on. */
    uint64_t changes;
};

void td_catalog_init(struct td_catalog *catalog, struct td_store *store);

/* Checks, after decoding, whether all tensors that the resolver found were current at one moment.
 * If not, sets *again. The request must then be decoded again, and the resolver returns tensors
 * that were current together. Fails with TENSOR_NOT_FOUND or an error of the store if one of the
 * tensors no longer exists. */
TD_MUST_CHECK td_status td_catalog_agree(struct td_catalog *catalog, struct td_arena *arena,
                                         bool *again, struct td_error *err);

/* Writes the name by which the request found a tensor, which can be an alias. Returns false if the
 * request did not find the tensor. */
bool td_catalog_name_of(const struct td_catalog *catalog, const struct td_tensor *tensor,
                        char name[TD_KEYS_NAME]);

/* Check that the request is allowed to name this tensor, or to change it. Return INVALID_ARGUMENT
 * for the name of a program. */
TD_MUST_CHECK td_status td_catalog_may_name(const struct td_catalog *catalog, const char *name,
                                            struct td_error *err);
TD_MUST_CHECK td_status td_catalog_may_write(const struct td_catalog *catalog, const char *name,
                                             struct td_error *err);

/* Like the two functions above, for the names and targets of aliases: also allow the name of a
 * program, NAME.program or NAME.program@VERSION. */
TD_MUST_CHECK td_status td_catalog_may_name_alias(const struct td_catalog *catalog,
                                                  const char *name, struct td_error *err);
TD_MUST_CHECK td_status td_catalog_may_write_alias(const struct td_catalog *catalog,
                                                   const char *name, struct td_error *err);

/* Check that the request is allowed to name the program NAME or NAME@VERSION, or to change it. */
TD_MUST_CHECK td_status td_catalog_may_name_program(const struct td_catalog *catalog,
                                                    const char *program, struct td_error *err);
TD_MUST_CHECK td_status td_catalog_may_write_program(const struct td_catalog *catalog,
                                                     const char *program, struct td_error *err);

/* Gets the program NAME or NAME@VERSION; the name can be an alias. out->name is the name of the
 * version without ".program", and out->tensor is its text. Returns TENSOR_NOT_FOUND, with the most
 * similar program, or an error of td_store_get. */
TD_MUST_CHECK td_status td_catalog_get_program(const struct td_catalog *catalog,
                                               const char *program, struct td_arena *arena,
                                               struct td_tensor_listing *out, struct td_error *err);

/* Like td_catalog_get_program, for a call that runs the program: td_catalog_agree finds the program
 * and the tensors of the call at one moment. Call this function before the body is decoded, and
 * again before it is decoded again. */
TD_MUST_CHECK td_status td_catalog_resolve_program(struct td_catalog *catalog, const char *program,
                                                   struct td_arena *arena, struct td_tensor *out,
                                                   struct td_error *err);

/* Lists the programs that the request is allowed to name, sorted by name. The names have no
 * ".program", and the range refers to these names. Ignores range->kind. Sets *more if there are
 * programs beyond the limit. */
TD_MUST_CHECK td_status td_catalog_list_programs(const struct td_catalog *catalog,
                                                 const struct td_name_range *range,
                                                 struct td_arena *arena,
                                                 struct td_tensor_listing **list, int *count,
                                                 bool *more, struct td_error *err);

/* Sets *count to the number of all programs, including programs that the request is not allowed to
 * name. */
TD_MUST_CHECK td_status td_catalog_count_programs(const struct td_catalog *catalog,
                                                  struct td_arena *arena, int *count,
                                                  struct td_error *err);

/* Like td_store_get and td_store_list_range, but only for tensors that the request is allowed to
 * name. Sets *more if there are tensors beyond the limit. */
TD_MUST_CHECK td_status td_catalog_get(const struct td_catalog *catalog, const char *name,
                                       struct td_arena *arena, struct td_tensor_listing *out,
                                       struct td_error *err);
TD_MUST_CHECK td_status td_catalog_list(const struct td_catalog *catalog,
                                        const struct td_name_range *range, struct td_arena *arena,
                                        struct td_tensor_listing **list, int *count, bool *more,
                                        struct td_error *err);

/* Returns false if the name does not exist, even if a refused folder might have it
 * (td_store_knows). */
bool td_catalog_know(const struct td_catalog *catalog, const char *name);

/* True if the name, which has no version, is the name of a table: of a tensor that has rows, of
 * versions of such a tensor, or of an alias. Ignores the names that the request is not allowed to
 * use, so the result does not reveal them. */
bool td_catalog_has_table(const struct td_catalog *catalog, const char *name);

/* Finds a part of a table (td_op_table_part in kernels/op.h) and the part's name. Sets *found to
 * NULL if the part does not exist. Does not search for similar names. Returns the errors of
 * td_catalog_get except TENSOR_NOT_FOUND. A part that cannot be read, or that the request is not
 * allowed to name, does not count as nonexistent. */
TD_MUST_CHECK td_status td_catalog_find_part(const struct td_catalog *catalog, const char *table,
                                             const char *part, struct td_arena *arena,
                                             char name[TD_TENSOR_NAME],
                                             const struct td_tensor **found, struct td_error *err);

/* Lists the versions NAME@VERSION of a table, or of a program, that the request is allowed to
 * name. */
TD_MUST_CHECK td_status td_catalog_list_versions(const struct td_catalog *catalog, const char *name,
                                                 bool of_program, struct td_arena *arena,
                                                 struct td_tensor_listing **list, int *count,
                                                 struct td_error *err);

/* Finds the version NAME@VERSION that is last in natural order among the versions of the table that
 * the request is allowed to name. Returns TENSOR_NOT_FOUND if there is none. */
TD_MUST_CHECK td_status td_catalog_newest(const struct td_catalog *catalog, const char *table,
                                          struct td_arena *arena, struct td_tensor_listing *out,
                                          struct td_error *err);

/* Removes the ETag from an error if the request is not allowed to name its tensor. Called for every
 * reply. */
void td_catalog_hide_etag(const struct td_catalog *catalog, struct td_error *err);

/* Removes a suggested name from the store's error if the request is not allowed to know it. Returns
 * `status`. */
td_status td_catalog_hide(const struct td_catalog *catalog, const char *name, td_status status,
                          struct td_error *err);

#endif
