/* lookup_errors.h - the errors of a lookup by name.
 *
 *     404   no tensor has the name, and the error suggests a similar name; or the tensor has no
 *           keys
 *     503   the tensor's file was truncated or is damaged; a damaged, refused or unreadable file or
 *           folder might define the name; the name is an alias whose target is missing; or the name
 *           might be an alias, but aliases.json cannot be read
 *
 * The file defines td_store_not_found, td_store_knows, td_store_has_table and td_store_no_keys of
 * store.h. A file or folder is refused if the store does not serve it. scan/known_files.h records
 * the reason for a file, scan/problems.h for a folder.
 *
 * Threads    Any. The functions take the lock of the store. */
#ifndef TD_SERVER_STORE_LOOKUP_ERRORS_H
#define TD_SERVER_STORE_LOOKUP_ERRORS_H

#include "server/store/version.h"

/* Returns DEVICE_UNAVAILABLE if a damaged, refused or unreadable file or folder might define the
 * name, which has no version. */
TD_MUST_CHECK td_status td_store_check_refused(struct td_store *store, const char *name,
                                               struct td_error *err);

/* Sets and returns the error for a name without a version. The error is DEVICE_UNAVAILABLE if the
 * name is an alias, or if a damaged, refused or unreadable file or folder might define the name.
 * Otherwise it is TENSOR_NOT_FOUND. */
td_status td_store_missing(struct td_store *store, const char *name, size_t length,
                           struct td_error *err);

/* Writes the reason that a name has no version to `text`, as a relative clause: "which does not
 * exist", or "whose file m@1.npy is damaged: it is empty". Shortens a long reason. Returns what the
 * operator can do, such as "put its file back". */
enum { TD_ABSENCE = 512 };
const char *td_store_explain_absence(struct td_store *store, const char *name, char *text,
                                     size_t size);

/* Returns the error for the result of a lookup: td_store_missing if `version` is NULL, or
 * DEVICE_UNAVAILABLE if the version's file was truncated or is damaged. If only a stored index was
 * truncated, td_store_needs_scan becomes true. */
TD_MUST_CHECK td_status td_store_check_found(struct td_store *store, const char *name,
                                             size_t length, const struct td_version *version,
                                             struct td_error *err);

/* Looks up one name like td_store_resolve_names, and returns the errors of td_store_check_found. */
TD_MUST_CHECK td_status td_store_need(struct td_store *store, const char *name, size_t length,
                                      struct td_version **out, struct td_error *err);

#endif
