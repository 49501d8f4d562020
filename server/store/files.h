/* store_files.h - which files of the data folder were loaded, and which names each of them gave.
 *
 * It is what a later scan compares the folder with. Nothing here looks at the folder.
 *
 * Ownership  The store owns what it remembers; what it recalls is a copy of the caller's.
 * Threads    Any; files_mutex is taken within. Who tells of a file is the writer of its name, or
 *            the scan.
 * Errors     Without memory a file is not remembered, and the next scan loads it once more. */
#ifndef TD_SERVER_STORE_FILES_H
#define TD_SERVER_STORE_FILES_H

#include "server/store/data_dir.h"

struct td_store;

/* A file whose tensors were loaded. */
struct known_file {
    struct td_data_file file;
    char (*names)[TD_TENSOR_NAME]; /* that it gives, whether it is they that are served or not */
    int n_names;
};

/* A file that gives no name yet, with room for n; NULL without memory. */
struct known_file *td_known_file_new(const char *file, const struct td_file_id *id, int n);
void td_known_file_free(struct known_file *known); /* NULL is fine */

/* Takes it over, in the place of what was known of the file. NULL, and nothing changes. */
void td_store_remember_file(struct td_store *store, struct known_file *known);
void td_store_forget_file(struct td_store *store, const char *file);

/* A copy of what is known of the file; NULL for nothing, or without memory. */
struct known_file *td_store_recall_file(struct td_store *store, const char *file);

/* The names of all known files; free() them. */
char (*td_store_known_files(struct td_store *store, int *count))[TD_FILE_NAME];

/* The store itself has written, or removed, the files behind a name. */
void td_store_wrote_file(struct td_store *store, const char *name, const char *file,
                         const struct td_file_id *id);
void td_store_removed_files(struct td_store *store, const char *name);

/* All of them, at the end. */
void td_store_free_files(struct td_store *store);

#endif
