/* known_files.h - the files of the data folder that a scan has seen, and the names in each file.
 *
 * A scan compares the folder with this list. The functions do not access the folder.
 *
 * Ownership  The store owns the list. td_store_recall_file returns a copy that the caller frees.
 * Threads    Any. The functions take files_mutex. Only a writer that has locked a name, or the
 *            scan, changes the record of the file that contains the name.
 * Errors     MEMORY_EXHAUSTED, before anything is written or loaded. A reserved record can be added
 *            to the list without an allocation. */
#ifndef TD_SERVER_STORE_KNOWN_FILES_H
#define TD_SERVER_STORE_KNOWN_FILES_H

#include "server/store/files/data_dir.h"

struct td_store;

enum { TD_KNOWN_REASON = 320 };

/* A tensor in a file. */
struct td_known_name {
    char name[TD_TENSOR_NAME];
    /* True if the tensor could not be served. The next scan tries again. */
    bool not_served;
    /* True if the tensor has no equivalent dtype, so other files with the name take precedence. */
    bool unreadable;
};

/* A file and the tensors that were loaded from it. The list is empty if the file could not be read
 * yet. A version with a number above `seen_version` was made after the file got the content that
 * the last scan saw. */
struct td_known_file {
    char file[TD_FILE_NAME];
    /* Identity of the content that has these names. */
    struct td_file_id id;
    /* Identity of the file in the last scan, or zero if unknown. */
    struct td_file_id seen;
    /* Last version number of the store when `seen` was first seen. */
    uint64_t seen_version;
    /* All names in the file, whether served or not. */
    struct td_known_name *names;
    int n_names;
    /* Number of other tensors in the file that cannot be served, regardless of other files. */
    int n_refused;
    /* False if all content of the file is known and served. */
    bool refused;
    /* True if the content is known, and `refused` concerns only the names that are not served. */
    bool partly;
    /* Reason that the file is refused, such as "is not served: ...". NULL if the file is not
     * refused, if no memory was available for the text, or in a copy. */
    char *reason;
    /* Range of bytes that do not match their checksum, as text. NULL if there are none, if no
     * memory was available for the text, or in a copy. */
    char *damage;
};

/* Returns a record without names, with room for `n` names, and reserves a place in the list. The
 * caller ends with td_store_remember_file, td_store_file_written or td_store_unreserve_file.
 * Returns NULL, and fills err, if no memory is available. */
struct td_known_file *td_store_reserve_file(struct td_store *store, const char *file, int n,
                                            struct td_error *err);
void td_known_file_add(struct td_known_file *known, const char *name, bool not_served);

/* Records that some names of the file are not served. `why` is the first reason. */
void td_known_file_refuse_partly(struct td_known_file *known, const char *why);

/* Call td_known_file_sort after the last td_known_file_add and before td_known_file_find, which
 * returns NULL for an unknown name. */
void td_known_file_sort(struct td_known_file *known);
const struct td_known_name *td_known_file_find(const struct td_known_file *known, const char *name);

/* td_store_remember_file takes a reserved record, which replaces the old record of the file.
 * td_store_unreserve_file frees a reserved record. td_store_forget_file removes the record of a
 * file. */
void td_store_remember_file(struct td_store *store, struct td_known_file *known);
void td_store_unreserve_file(struct td_store *store,
                             struct td_known_file *known); /* NULL is allowed */
void td_store_forget_file(struct td_store *store, const char *file);

/* True if the file has changed since the last scan. Unknown content counts as unchanged, so it does
 * not replace a version that a client has stored after the scan. */
bool td_known_file_changed(const struct td_known_file *known, const struct td_file_id *id);

/* Records which content a scan saw, whether or not it was loaded, and that the file is not refused.
 * `id` is zero if the content is unknown. Adds a record without names for a new file if memory is
 * available. `last` is the last version number of the store. */
void td_store_file_seen(struct td_store *store, const char *file, const struct td_file_id *id,
                        uint64_t last);

/* Like td_store_file_seen, for a file whose content is malformed or cannot be read. An example of
 * `why` is "it is empty". */
void td_store_file_refused(struct td_store *store, const char *file, const struct td_file_id *id,
                           uint64_t last, const char *why);

/* Records that the content of a known file is damaged. The record is kept until the file is
 * replaced, even if clients store tensors in memory in place of the tensors in the file. */
void td_store_file_damaged(struct td_store *store, const char *file, const char *reason);

/* Adds the damaged files to the list of problems. */
void td_store_note_damaged_files(struct td_store *store);

/* File of the data folder that might contain a tensor of a name. Either the file cannot be read, or
 * it contains the tensor but cannot be served. */
struct td_refused_file {
    char file[TD_FILE_NAME];
    char reason[TD_KNOWN_REASON]; /* "is not served: ..." */
    /* True for NAME.tensord, NAME.program.json and NAME.npy, which hold only this tensor. */
    bool own;
};
bool td_store_find_refused_file(struct td_store *store, const char *name,
                                struct td_refused_file *out);

/* Sets *out to a copy of the file's record, or to NULL if the file has no record. The caller frees
 * the copy with td_known_file_free. */
TD_MUST_CHECK td_status td_store_recall_file(struct td_store *store, const char *file,
                                             struct td_known_file **out, struct td_error *err);
void td_known_file_free(struct td_known_file *known); /* NULL is allowed */

/* True if the file's record contains the name, and the tensor has an equivalent dtype. Sets
 * *not_served to the flag in the record. */
bool td_store_file_gives(struct td_store *store, const char *file, const char *name,
                         bool *not_served);

/* Finds a file that certainly contains a tensor of this name, served or not. The file is
 * the server's own file of the name or NAME.npy, damaged or not, or a file whose content the last
 * scan or this process knows. Returns false if there is none. */
bool td_store_find_file(struct td_store *store, const char *name, char file[TD_FILE_NAME]);

/* Returns the names of all known files, or NULL if no memory is available. The caller frees the
 * array with free(). */
char (*td_store_known_files(struct td_store *store, int *count))[TD_FILE_NAME];

/* Record changes that the store itself made. Call td_store_file_written after writing the server's
 * own file of a name, whose record was reserved, and td_store_files_removed after removing the
 * files of a name. */
void td_store_file_written(struct td_store *store, struct td_known_file *known);
void td_store_files_removed(struct td_store *store, const char *name);

/* Frees all records. Called by td_store_free. */
void td_store_free_files(struct td_store *store);

#endif
