/* entries.h - what the store's lock guards: the names in order, what is current of each, and
 * the bytes of it all against the quota.
 *
 *     entry ─► current version
 *           └► spare: the version before, while updates may want its bytes
 *
 * Of store.h, td_store_check_name, td_store_stats and td_store_trim are defined here.
 *
 * Ownership  An entry holds a reference to its current version and owns its spare. What is handed
 *            out is a reference of the caller's.
 * Threads    Any; the lock is taken within, and nobody lets go of a version under it. Who publishes
 *            or drops, takes or keeps a spare, is the writer of the name (writers.h). */
#ifndef TD_SERVER_STORE_ENTRIES_H
#define TD_SERVER_STORE_ENTRIES_H

#include "server/store/store.h"
#include "server/store/version.h"

/* A version that is not current any more, and what it lacks to be `behind`. */
struct spare {
    struct version *version; /* NULL: there is none */
    uint64_t behind;         /* version that the changes lead to */
    uint64_t *offsets;
    int64_t count;
    size_t slice_bytes;
    int64_t since_ns;
};

/* Is there room for a further name? RESOURCE_LIMIT. */
TD_MUST_CHECK td_status td_store_check_count(struct td_store *store, struct td_error *err);

/* ---- what is current ---- */

/* TENSOR_NOT_FOUND, with the nearest of some names beside it in order. */
td_status td_store_not_found(struct td_store *store, const char *name, size_t length,
                             struct td_error *err);

/* The current version, referenced, or NULL. */
struct version *td_store_current(struct td_store *store, const char *name, size_t length);

/* As td_store_current, for one who needs it: TENSOR_NOT_FOUND, or DEVICE_UNAVAILABLE when its file
 * was cut short. */
TD_MUST_CHECK td_status td_store_need(struct td_store *store, const char *name, size_t length,
                                      struct version **out, struct td_error *err);

/* All current versions, referenced, in an array of their own; NULL without memory. */
struct version **td_store_all_current(struct td_store *store, int *count);

/* ---- counting ---- */

/* The number of a new version; one that was `given` to it before the start, not 0, stays. */
uint64_t td_store_next_number(struct td_store *store, uint64_t given);

/* Counts bytes against the quota: those of a version that takes the place of `replaced` (NULL for
 * none), whose own do not count any more then. *leaving is how many these are, for the version or
 * to be given back. RESOURCE_LIMIT. */
TD_MUST_CHECK td_status td_store_reserve(struct td_store *store, const struct version *replaced,
                                         uint64_t bytes, uint64_t *leaving, struct td_error *err);
void td_store_unreserve(struct td_store *store, uint64_t bytes, uint64_t leaving);

/* ---- spares ---- */

/* Takes the spare of a name from its entry, or makes one its own if quota and entry are there for
 * it; and lets go of one. */
struct spare td_spare_take(struct td_store *store, const char *name);
void td_spare_keep(struct td_store *store, const char *name, struct spare *spare);
void td_spare_free(struct spare *spare);

/* ---- changes ---- */

/* Makes room for the version's name, so that making it current cannot fail: a change is not to fail
 * once it is on the disk. The room goes to td_store_publish, or back. RESOURCE_LIMIT,
 * MEMORY_EXHAUSTED. */
TD_MUST_CHECK td_status td_store_expect(struct td_store *store, struct version *version,
                                        struct td_error *err);
void td_store_unexpect(struct td_store *store, struct version *version);

/* Makes it current, takes over the reference, and returns what it replaces, whose reference is the
 * caller's then; NULL for nothing. It was expected, and its bytes were reserved. */
struct version *td_store_publish(struct td_store *store, struct version *version);

/* Forgets a name. */
void td_store_drop(struct td_store *store, const char *name);

/* All of them, at the end. */
void td_store_free_entries(struct td_store *store);

#endif
