/* known_files.h - the files of the data folder that a scan has seen, and the names that each of
 * them holds.
 *
 * A scan compares the folder with this list. Nothing here accesses the folder.
 *
 * Ownership  The store owns the list; recall returns a copy that the caller frees.
 * Threads    Any; the functions take files_mutex. Only the writer of the name, or the scan, changes
 *            the record of a file.
 * Errors     MEMORY_EXHAUSTED, before anything is written or loaded: a reserved file can be
 *            remembered without allocating. */
#ifndef TD_SERVER_STORE_KNOWN_FILES_H
#define TD_SERVER_STORE_KNOWN_FILES_H

#include "server/store/files/data_dir.h"

struct td_store;

enum { TD_KNOWN_REASON = 320 };

/* A tensor of a file. */
struct td_known_name {
    char name[TD_TENSOR_NAME];
    bool not_served; /* its tensor could not be served; the next scan tries again */
    bool unreadable; /* since it has no equivalent dtype: it gives way to other files */
};

/* A file and the tensors that were loaded from it; none if it could not be read yet. A version with
 * a number above `seen_version` was made after the file got the content that the last scan saw. */
struct td_known_file {
    char file[TD_FILE_NAME];
    struct td_file_id id;        /* of the content with these names */
    struct td_file_id seen;      /* of the file in the last scan; zero if unknown */
    uint64_t seen_version;       /* last number of the store when `seen` was first seen */
    struct td_known_name *names; /* all names that it holds, served or not */
    int n_names;
    int n_refused; /* further tensors of it that cannot be served, whatever other files have */
    char refused[TD_KNOWN_REASON]; /* "is not served: ..."; "" if all of it is known and served */
    bool partly; /* its content is known: `refused` is of the names that are not served */
    char damage[TD_KNOWN_REASON]; /* of bytes that do not match their checksum; "" for none */
};

/* A record without names, with room for n, and a reserved place in the list. Ends with remember,
 * file_written or unreserve. NULL (err filled) without memory. */
struct td_known_file *td_store_reserve_file(struct td_store *store, const char *file, int n,
                                            struct td_error *err);
void td_known_file_add(struct td_known_file *known, const char *name, bool not_served);

/* sort after the last add; find returns NULL for an unknown name. */
void td_known_file_sort(struct td_known_file *known);
const struct td_known_name *td_known_file_find(const struct td_known_file *known, const char *name);

/* remember takes a reserved record and replaces the file's old one; unreserve frees it. */
void td_store_remember_file(struct td_store *store, struct td_known_file *known);
void td_store_unreserve_file(struct td_store *store,
                             struct td_known_file *known); /* NULL is fine */
void td_store_forget_file(struct td_store *store, const char *file);

/* Whether the file has changed since the last scan. An unknown content counts as unchanged, so that
 * it replaces no version that a client made since. */
bool td_known_file_changed(const struct td_known_file *known, const struct td_file_id *id);

/* Records which content a scan saw, loaded or not, and not refused; zero if that is unknown. Adds
 * a record without names for a new file, unless there is no memory for it. `last` is the last
 * number of the store. */
void td_store_file_seen(struct td_store *store, const char *file, const struct td_file_id *id,
                        uint64_t last);

/* As file_seen, for a file whose content is malformed or cannot be read: "it is empty". */
void td_store_file_refused(struct td_store *store, const char *file, const struct td_file_id *id,
                           uint64_t last, const char *why);

/* Records that the content of the file, if it is a known one, is damaged. It stays so until the
 * file is replaced, whatever clients put in memory in place of its tensors. */
void td_store_file_damaged(struct td_store *store, const char *file, const char *reason);

/* Lists these files among the problems. */
void td_store_note_damaged_files(struct td_store *store);

/* A file of the data folder that cannot be read, and may have the tensor of a name; or one that has
 * the tensor, which cannot be served. */
struct td_refused_file {
    char file[TD_FILE_NAME];
    char reason[TD_KNOWN_REASON]; /* "is not served: ..." */
    bool own;                     /* NAME.tensord or NAME.npy, which has this tensor alone */
};
bool td_store_find_refused(struct td_store *store, const char *name, struct td_refused_file *out);

/* *out is a copy of the file's record, NULL for none; td_known_file_free it. */
TD_MUST_CHECK td_status td_store_recall_file(struct td_store *store, const char *file,
                                             struct td_known_file **out, struct td_error *err);
void td_known_file_free(struct td_known_file *known); /* NULL is fine */

/* Whether the file's record has the name, and does not give way; sets *not_served from it. */
bool td_store_file_gives(struct td_store *store, const char *file, const char *name,
                         bool *not_served);

/* The file that has the tensor of this name for certain, served or not: NAME.tensord or NAME.npy,
 * damaged or not, or one whose content the last scan or this process knows. False for none. */
bool td_store_find_file(struct td_store *store, const char *name, char file[TD_FILE_NAME]);

/* The names of all known files; free() them. NULL without memory. */
char (*td_store_known_files(struct td_store *store, int *count))[TD_FILE_NAME];

/* For the store's own changes: it has written NAME.tensord, whose record was reserved, or
 * removed the files of a name. */
void td_store_file_written(struct td_store *store, struct td_known_file *known);
void td_store_files_removed(struct td_store *store, const char *name);

/* Frees all records; for td_store_free. */
void td_store_free_files(struct td_store *store);

#endif
