/* known_files.h - which files of the data folder were loaded, and which names each of them gave.
 *
 * It is what a later scan compares the folder with. Nothing here looks at the folder.
 *
 * Ownership  The store owns what it remembers; what it recalls is a copy of the caller's.
 * Threads    Any; files_mutex is taken within. Who tells of a file is the writer of its name, or
 *            the scan.
 * Errors     MEMORY_EXHAUSTED, before anything is written or taken: what is expected can be
 *            remembered without memory. */
#ifndef TD_SERVER_STORE_KNOWN_FILES_H
#define TD_SERVER_STORE_KNOWN_FILES_H

#include "server/store/data_dir.h"

struct td_store;

/* A tensor of a file. */
struct known_name {
    char name[TD_TENSOR_NAME];
    bool missed; /* the file gives what could not be served, so the next scan tries again */
};

/* A file whose tensors were loaded. */
struct known_file {
    char file[TD_FILE_NAME];
    struct td_file_id id;
    struct known_name *names; /* that it gives, whether it is they that are served or not */
    int n_names;
};

/* A file that gives no name yet, with room for n and for itself among the known ones: it is remembered,
 * or no longer expected, later. NULL (err filled) without memory. */
struct known_file *td_store_expect_file(struct td_store *store, const char *file, int n,
                                        struct td_error *err);
void td_known_file_add(struct known_file *known, const char *name, bool missed);

/* Sorts the names, once all are added; finds one of them, NULL for none. */
void td_known_file_sort(struct known_file *known);
const struct known_name *td_known_file_find(const struct known_file *known, const char *name);

/* Takes over what was expected: in the place of what was known of the file, or frees it. */
void td_store_remember_file(struct td_store *store, struct known_file *known);
void td_store_unexpect_file(struct td_store *store, struct known_file *known); /* NULL is fine */
void td_store_forget_file(struct td_store *store, const char *file);

/* *out is a copy of what is known of the file, NULL for nothing; td_known_file_free it. */
TD_MUST_CHECK td_status td_store_recall_file(struct td_store *store, const char *file,
                                             struct known_file **out, struct td_error *err);
void td_known_file_free(struct known_file *known); /* NULL is fine */

/* Is the file known to give the name? *missed as its known_name. */
bool td_store_file_gives(struct td_store *store, const char *file, const char *name, bool *missed);

/* The names of all known files; free() them. NULL without memory. */
char (*td_store_known_files(struct td_store *store, int *count))[TD_FILE_NAME];

/* The store itself has written NAME.tensord, as expected, or removed the files of a name. */
void td_store_wrote_file(struct td_store *store, struct known_file *known);
void td_store_removed_files(struct td_store *store, const char *name);

/* All of them, at the end. */
void td_store_free_files(struct td_store *store);

#endif
