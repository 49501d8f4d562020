/* state.h - the state of the store, private to its files, and the order in which these use each
 * other.
 *
 *     open.c                              opening, closing, rescanning the folder
 *     read.c   write.c   update.c         GET and refs; PUT and DELETE; row updates
 *     scan.c   folders.c                  the data folder; folders of versions in it
 *     alias_flip.c                        flips of aliases
 *     alias_check.c                       what a flip may do
 *     retention.c                         versions that are not kept
 *     writers.c                           how a writer prepares and publishes a version
 *     writer_queue.c                      one writer per name, and who waits
 *     entries.c   known_files.c           names, their versions, the quota; which files were loaded
 *     alias_table.c   alias_file.c        aliases; aliases.json
 *     verify.c                            versions whose files are compared with their checksums
 *     statistics.c                        statistics that versions keep
 *     version.c                           one version of one tensor
 *     keys.c   copy.c                     the keys of a table; copies in memory
 *     data_dir*.c                         the folder: list, map, write, remove
 *     table_name.c                        names and versions
 *
 * Each uses only those below it. store.h is the interface of all of them. A reader takes the read
 * lock, finds the entry, references its version and is done. A writer locks the name first, so that
 * no other writer changes it, prepares a version without the store's lock, and takes the write lock
 * only to publish it.
 *
 * Threads    The members before the first lock are set by td_store_open; each lock names what it
 *            guards. Only `scanning` is held while another is taken. */
#ifndef TD_SERVER_STORE_STATE_H
#define TD_SERVER_STORE_STATE_H

#include "server/store/aliases/alias_table.h"
#include "server/store/files/data_dir.h"
#include "server/store/store.h"

#include <pthread.h>
#include <stdatomic.h>

struct td_store {
    struct td_resolver resolver; /* first: resolve casts back */
    const struct td_log *log;
    struct td_memory *memory;
    struct td_data_dir *dir; /* NULL for none */
    uint64_t quota, seed;
    uint64_t hash_seed;           /* of indices of keys; not to be seen in any reply */
    bool opened;                  /* the first scan is done */
    bool (*stop_requested)(void); /* NULL, or asked during the first scan */
    enum td_verify verify;
    int64_t keep_versions;                      /* of each table; 0: all */
    const struct td_store_inspector *inspector; /* NULL for none */
    bool read_only;                             /* the folder is never locked */

    pthread_rwlock_t lock;     /* guards all below; never held for long */
    struct td_entry **entries; /* sorted by name */
    int n_entries, capacity;
    struct td_entry *reserved; /* entries reserved by writers; there is room for them */
    int n_reserved;
    struct td_alias_table aliases;
    struct td_problem_note **problems; /* sorted by source */
    int n_problems, problems_capacity;
    const struct td_alias_table *claims; /* of a flip that is being made; NULL for none */
    int n_spares;
    atomic_uint_fast64_t changes; /* of the names; read without the lock */
    int64_t next_expiry_ns;       /* no version expires before */
    uint64_t last_version;
    uint64_t held, mapped,
        spare_bytes;   /* bytes: of current and reserved versions, and of spare copies */
    uint64_t outgoing; /* of those held: bytes counted both for a version and its replacement */

    pthread_mutex_t aliases_file_mutex; /* guards the next three; held for a stat */
    struct td_file_id aliases_file;     /* aliases.json as it was read or written last */
    struct td_file_id aliases_refused;  /* as it was when it could not be read or in force */
    bool writes_aliases_file;           /* this process is replacing it */

    /* Of the writer of the aliases. */
    bool name_freed; /* by an alias since the last scan began; a file has a tensor of this name */
    struct td_taken_folder *taken; /* folders whose aliases have been set, as in aliases.json */
    int n_taken;
    bool to_write;        /* aliases.json lacks a folder, or aliases, that it is to have */
    bool folders_unknown; /* it has aliases, but no folders, as if by hand; until a scan ends */
    /* The last attempt to read aliases.json failed, as the problems tell. */
    atomic_bool aliases_unread;
    /* An attempt has succeeded, or this process has written the file. */
    atomic_bool aliases_known;

    pthread_mutex_t writing;           /* guards the writers (writer_queue.h) */
    pthread_cond_t written;            /* a writer that blocks its thread has entered */
    struct td_writer *writers;         /* that have entered */
    struct td_writer *waiting_writers; /* in the order of their arrival */

    pthread_mutex_t files_mutex;  /* guards the files */
    struct td_known_file **files; /* sorted by name */
    int n_files, files_capacity;
    int n_files_reserved;              /* files reserved by writers; there is room for them */
    atomic_bool folder_unread;         /* the last scan could not read the folder */
    pthread_mutex_t scanning;          /* held through a scan */
    struct td_version_folder *folders; /* with a manifest; guarded by it */
    atomic_uint_fast64_t file_scans;   /* scans so far */

    /* Of the one thread that runs td_store_verify, except the flags. */
    atomic_bool stopping;         /* no more comparing before a tensor is served */
    atomic_bool unverified;       /* some version may be pending: set when it becomes current */
    atomic_bool damage_found;     /* in some version, perhaps one that has been replaced */
    struct td_version *verifying; /* referenced; NULL for none */
    uint64_t verified_blocks;     /* of it */
    int verify_place;             /* entry that follows it */
};

/* The resolver's function; in read.c. */
td_status td_store_resolve(struct td_resolver *resolver, const char *name, size_t length,
                           struct td_arena *arena, struct td_tensor *out, struct td_error *err);

#endif
