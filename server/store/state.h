/* state.h - the state of the store, for its own files, and the order in which these use each other.
 *
 *     open.c                              opening, closing, looking at the folder again
 *     read.c   write.c   update.c scan.c  GET and refs; PUT and DELETE; row updates; the data folder
 *     writers.c                           one writer a name, and what it publishes
 *     entries.c   known_files.c           names, their versions, the quota; which files were loaded
 *     version.c                           one version of one tensor
 *     data_dir*.c                         the folder: list, map, write, remove
 *
 * Each uses those below it and no other. store.h is the interface of all of them. A reader takes the
 * lock for reading, finds the entry, references its version and is done. A writer enters the name
 * first, so that no other writer changes it, prepares a version without any lock, and takes the lock
 * for writing only to publish it.
 *
 * Threads    The members before the first lock are set by td_store_open; each lock says what it
 *            guards. Only `scanning` is held while another of them is taken. */
#ifndef TD_SERVER_STORE_STATE_H
#define TD_SERVER_STORE_STATE_H

#include "server/store/store.h"

#include <pthread.h>

struct td_store {
    struct td_resolver resolver; /* first: resolve casts back */
    const struct td_log *log;
    struct td_memory *memory;
    struct td_data_dir *dir; /* NULL for none */
    uint64_t quota, seed;
    bool opened; /* the first scan is done */

    pthread_rwlock_t lock;  /* guards all below; held for nothing that takes long */
    struct entry **entries; /* sorted by name */
    int n_entries, capacity;
    int n_expected; /* entries that are about to be added; there is room for them */
    int n_spares;
    uint64_t last_version;
    uint64_t held, mapped, spared; /* bytes: of what is current or about to be, and of spares */
    uint64_t leaving;              /* of those held, by what is about to be replaced */

    pthread_mutex_t writing; /* guards the writers */
    pthread_cond_t written;
    struct writer *writers; /* those who are at work, each on a name of its own */

    pthread_mutex_t files_mutex; /* guards the files */
    struct known_file **files;   /* sorted by name */
    int n_files, file_room;
    int n_files_expected;     /* files that are about to be known; there is room for them */
    pthread_mutex_t scanning; /* held through a scan */
};

/* The resolver's function, in read.c. */
td_status td_store_resolve(struct td_resolver *resolver, const char *name, size_t length,
                           struct td_arena *arena, struct td_tensor *out, struct td_error *err);

#endif
