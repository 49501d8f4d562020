/* entries.h - the state that the store's lock guards: the sorted names, their current versions, and
 * the bytes counted against the quota.
 *
 *     entry ─► current version
 *           └► spare copy: the previous version, kept so that the next update can reuse its bytes
 *
 * The file defines td_store_usage and td_store_trim of store.h.
 *
 * Ownership  An entry holds a reference to its current version and owns its spare copy. Returned
 *            versions carry a reference that the caller releases.
 * Threads    Any. The functions take the lock, and release no version while they hold it. Only the
 *            writer that has locked a name (writer_queue.h) publishes or drops the name, and takes
 *            or keeps its spare copy. */
#ifndef TD_SERVER_STORE_ENTRIES_H
#define TD_SERVER_STORE_ENTRIES_H

#include "server/store/store.h"
#include "server/store/version.h"

/* A version that is no longer current, and the slices in which it differs from the version
 * `successor`. */
struct td_spare {
    struct td_version *version; /* NULL for none */
    /* Size in bytes of the rows in memory. The keys do not count, because the current version also
     * has them. */
    uint64_t held;
    /* Number of the version that has these slices. */
    uint64_t successor;
    uint64_t *offsets;
    int64_t count;
    size_t slice_bytes;
    int64_t since_ns;
};

/* Sets and returns the error for persisting without a data folder. */
td_status td_store_no_folder(struct td_error *err);

/* Returns RESOURCE_LIMIT if `more` additional names do not fit. */
TD_MUST_CHECK td_status td_store_check_count(struct td_store *store, int more,
                                             struct td_error *err);

/* ---- current versions ---- */

/* Returns the current version of a tensor, with a reference for the caller, or NULL. Does not
 * resolve aliases. */
struct td_version *td_store_current(struct td_store *store, const char *name, size_t length);

/* Looks up `count` names in one state of the store, and resolves aliases. Sets versions[i] to the
 * current version of names[i], with a reference for the caller, or to NULL. */
void td_store_resolve_names(struct td_store *store, const struct td_store_name *names, int count,
                            struct td_version **versions);

/* True if `name` or a version of it, NAME@V, has rows, or if `name` is an alias without a current
 * version. Considers only the names that `access` allows. */
bool td_store_has_rows(struct td_store *store, const char *name, const struct td_access *access);

/* Copies at most `most` names that `access` allows, alternately from before and from after the
 * place of `name` in the order of names. If `name` is the name of a program, copies only names of
 * programs, otherwise no names of programs. NULL allows all names. Returns the number of names. */
int td_store_neighbours(struct td_store *store, const char *name, size_t length,
                        const struct td_access *access, int most, char (*names)[TD_TENSOR_NAME]);

/* Returns a malloc'ed array of the current versions of a range of names, sorted by name, with a
 * reference to each version for the caller. Returns NULL if no memory is available. */
struct td_version **td_store_all_current(struct td_store *store, const struct td_name_range *range,
                                         int *count);

/* Returns the next pending version, with a reference for the caller, or NULL if no version is
 * pending. Searches all entries, starting at the entry *place, and sets *place to the entry after
 * the version found. */
struct td_version *td_store_next_pending(struct td_store *store, int *place);

/* td_store_expired returns a malloc'ed array of the current versions that have expired, with a
 * reference to each version for the caller. It returns NULL if no version has expired, or if no
 * memory is available, after which the next call tries again. td_store_expire_again makes the next
 * call search again. */
struct td_version **td_store_expired(struct td_store *store, int64_t now_ns, int *count);
void td_store_expire_again(struct td_store *store, int64_t now_ns);

/* ---- numbers ---- */

/* Returns `given`, the number of a version that was stored before the server started, or a new
 * number if `given` is 0. */
uint64_t td_store_next_number(struct td_store *store, uint64_t given);

/* Returns the largest number assigned so far. */
uint64_t td_store_last_number(struct td_store *store);

/* ---- spare copies ---- */

/* td_spare_take removes the spare copy of a name from its entry and returns it. td_spare_keep
 * stores a spare copy, or frees it if the name no longer exists or the quota is full. td_spare_free
 * frees a spare copy. */
struct td_spare td_spare_take(struct td_store *store, const char *name);
void td_spare_keep(struct td_store *store, const char *name, struct td_spare *spare);
void td_spare_free(struct td_spare *spare);

/* ---- changes ---- */

/* Reserves an entry for the version's name, so publishing cannot fail after the change is on disk.
 * td_store_publish consumes the reservation, and td_store_unreserve_name releases it. Returns
 * CONFLICT if the name is an alias, RESOURCE_LIMIT, or MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_store_reserve_name(struct td_store *store, struct td_version *version,
                                              struct td_error *err);
void td_store_unreserve_name(struct td_store *store, struct td_version *version);

/* Makes the version current and takes over the reference to it. Returns the version that it
 * replaces, whose reference passes to the caller, or NULL. The name and the bytes of the version
 * must be reserved. */
struct td_version *td_store_publish(struct td_store *store, struct td_version *version);

/* Publishes several versions at once, like td_store_publish. All names must be new, and the
 * versions sorted by name. Call this function with the write lock held. */
void td_store_publish_new_locked(struct td_store *store, struct td_version **versions, int count);

/* Returns the state of a name. Sets *current to the name's current version, or to NULL. Call this
 * function with store->lock held, at least for reading. */
enum td_name_use {
    TD_NAME_FREE,
    /* A writer has reserved the name and might publish a version of it. */
    TD_NAME_RESERVED,
    TD_NAME_CURRENT,
    /* The name is being deleted. */
    TD_NAME_LEAVING
};
enum td_name_use td_store_use_locked(const struct td_store *store, const char *name,
                                     const struct td_version **current);

/* Marks a name as being deleted, or removes that mark. Call this function with the write lock
 * held. */
void td_store_set_leaving_locked(struct td_store *store, const char *name, bool leaving);

/* Removes a name and releases its version. */
void td_store_drop(struct td_store *store, const char *name);

/* Frees all entries. Called by td_store_free. */
void td_store_free_entries(struct td_store *store);

#endif
