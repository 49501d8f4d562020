/* entries.h - what the store's lock guards: the sorted names, the current version of each, and the
 * bytes counted against the quota.
 *
 *     entry ─► current version
 *           └► spare copy: the version before, kept because the next update may reuse its bytes
 *
 * Defines td_store_check_name, td_store_stats and td_store_trim of store.h.
 *
 * Ownership  An entry holds a reference to its current version and owns its spare copy. Returned
 *            versions carry a reference that the caller releases.
 * Threads    Any; the functions take the lock, and no version is released under it. Only the writer
 *            of the name (writers.h) publishes, drops, or takes and keeps its spare copy. */
#ifndef TD_SERVER_STORE_ENTRIES_H
#define TD_SERVER_STORE_ENTRIES_H

#include "server/store/scan/known_files.h"
#include "server/store/store.h"
#include "server/store/version.h"

/* A version that is no longer current, and the slices that it lacks to equal `successor`. */
struct td_spare {
    struct td_version *version; /* NULL for none */
    uint64_t held;      /* bytes in memory of its rows: the current version has its keys too */
    uint64_t successor; /* number of the version with these slices */
    uint64_t *offsets;
    int64_t count;
    size_t slice_bytes;
    int64_t since_ns;
};

/* The error of persisting without a data folder. */
td_status td_store_no_folder(struct td_error *err);

/* RESOURCE_LIMIT if so many more names do not fit. */
TD_MUST_CHECK td_status td_store_check_count(struct td_store *store, int more,
                                             struct td_error *err);

/* ---- current versions ---- */

/* The error for a name without a version: DEVICE_UNAVAILABLE if a file that has it, or may have it,
 * is damaged or cannot be read, or if it may be in a folder that is refused, else TENSOR_NOT_FOUND.
 */
td_status td_store_missing(struct td_store *store, const char *name, size_t length,
                           struct td_error *err);

/* Says of a name without a version why there is none: "which is not there", "whose file m@1.npy is
 * damaged: it is empty", with a long reason shortened. Returns the way out: "put its file back". */
enum { TD_ABSENCE = 512 };
const char *td_store_explain_absence(struct td_store *store, const char *name, char *text,
                                     size_t size);

/* The current version of a tensor, not of an alias; referenced, or NULL. */
struct td_version *td_store_current(struct td_store *store, const char *name, size_t length);

/* The current version of each of `count` names, or of what an alias names, referenced, or NULL; all
 * at one moment. */
void td_store_resolve_names(struct td_store *store, const struct td_store_name *names, int count,
                            struct td_version **versions);

/* The error of what was found of a name: td_store_missing if there is no version,
 * DEVICE_UNAVAILABLE if its file was truncated or is damaged. */
TD_MUST_CHECK td_status td_store_check_found(struct td_store *store, const char *name,
                                             size_t length, const struct td_version *version,
                                             struct td_error *err);

/* As td_store_resolve_names of one name, but with the errors of td_store_check_found. */
TD_MUST_CHECK td_status td_store_need(struct td_store *store, const char *name, size_t length,
                                      struct td_version **out, struct td_error *err);

/* The current versions of a range of names, sorted by name, referenced, in a malloc'ed array; NULL
 * without memory. */
struct td_version **td_store_all_current(struct td_store *store, const struct td_name_range *range,
                                         int *count);

/* The first pending version from the given entry on, and then from the first entry; referenced,
 * NULL for none. *place is the entry that follows it. */
struct td_version *td_store_next_pending(struct td_store *store, int *place);

/* The current versions that have expired, referenced, in a malloc'ed array; NULL if there are none,
 * and without memory, when the next call finds them. expire_again makes the next call look
 * again. */
struct td_version **td_store_expired(struct td_store *store, int64_t now_ns, int *count);
void td_store_expire_again(struct td_store *store, int64_t now_ns);

/* ---- numbers and quota ---- */

/* The number of a new version: `given` unless that is 0, as for a version stored before the
 * start. */
uint64_t td_store_next_number(struct td_store *store, uint64_t given);

/* The largest number so far. */
uint64_t td_store_last_number(struct td_store *store);

/* Counts bytes against the quota for a version that replaces one of `replaced` bytes (0 for none),
 * which do not count beside them. Until it is published or abandoned, the larger of both counts for
 * other writers. *outgoing is what does not count twice; it is passed on in the version or to
 * td_store_unreserve. RESOURCE_LIMIT. */
TD_MUST_CHECK td_status td_store_reserve(struct td_store *store, uint64_t replaced, uint64_t bytes,
                                         uint64_t *outgoing, struct td_error *err);
void td_store_unreserve(struct td_store *store, uint64_t bytes, uint64_t outgoing);

/* ---- spare copies ---- */

/* take removes the spare copy of a name from its entry; keep stores one, or frees it if the name
 * is gone or the quota is full; free releases one. */
struct td_spare td_spare_take(struct td_store *store, const char *name);
void td_spare_keep(struct td_store *store, const char *name, struct td_spare *spare);
void td_spare_free(struct td_spare *spare);

/* ---- changes ---- */

/* Reserves an entry for the version's name, so that publishing cannot fail: a change must not
 * fail once it is on disk. Used up by td_store_publish or released by td_store_unreserve_name.
 * CONFLICT if it is an alias, RESOURCE_LIMIT, MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_store_reserve_name(struct td_store *store, struct td_version *version,
                                              struct td_error *err);
void td_store_unreserve_name(struct td_store *store, struct td_version *version);

/* Makes it current, takes the reference, and returns the version that it replaces, whose
 * reference passes to the caller; NULL for none. Its name and bytes must be reserved. */
struct td_version *td_store_publish(struct td_store *store, struct td_version *version);

/* The same for several at once, sorted by name, all of which are new, with the write lock held. */
void td_store_publish_new_locked(struct td_store *store, struct td_version **versions, int count);

/* What there is of a name, with store->lock held for reading at least. *current is its version or
 * NULL. */
enum td_name_use {
    TD_NAME_FREE,
    TD_NAME_RESERVED, /* a writer will publish it, perhaps */
    TD_NAME_CURRENT,
    TD_NAME_LEAVING /* it is being deleted */
};
enum td_name_use td_store_use_locked(const struct td_store *store, const char *name,
                                     const struct td_version **current);

/* Before the files of a name are removed: no alias can name it from then on until it is dropped or
 * the deletion is cancelled. CONFLICT if one does. */
TD_MUST_CHECK td_status td_store_begin_delete(struct td_store *store, const char *name,
                                              struct td_error *err);
void td_store_cancel_delete(struct td_store *store, const char *name);

/* Removes a name. */
void td_store_drop(struct td_store *store, const char *name);

/* Frees all entries; for td_store_free. */
void td_store_free_entries(struct td_store *store);

#endif
