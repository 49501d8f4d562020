/* state.h - the state of the store, private to its files. README.md lists the files; store.h is
 * their interface.
 *
 * A reader takes the read lock, finds the entry and references its version. A writer first locks
 * the name (writer_queue.h), so no other writer changes it. It prepares a version without the
 * store's lock, and takes the write lock only to publish the version.
 *
 * Threads    td_store_open sets the members before the first lock. The comment of each lock says
 *            what the lock guards. `scanning` is the only lock that a thread holds while it takes
 *            another lock. */
#ifndef TD_SERVER_STORE_STATE_H
#define TD_SERVER_STORE_STATE_H

#include "server/store/aliases/alias_list.h"
#include "server/store/compiled.h"
#include "server/store/files/data_dir.h"
#include "server/store/store.h"

#include <pthread.h>
#include <stdatomic.h>

struct td_store {
    /* Must be the first member, because td_store_resolve casts back. */
    struct td_resolver resolver;
    const struct td_log *log;
    struct td_memory *memory;
    struct td_data_dir *dir; /* NULL for none */
    uint64_t quota, seed;
    /* Seed of the key indices. Replies must not reveal it. */
    uint64_t hash_seed;
    /* True after td_store_open has loaded the folder. */
    bool opened;
    /* Same as in td_store_options. Called only while td_store_open runs. */
    bool (*stop_requested)(void);
    enum td_verify verify;
    /* Number of versions to keep of each table; 0 keeps all. */
    int64_t keep_versions;
    const struct td_store_inspector *inspector; /* NULL for none */
    /* True to never lock the folder. */
    bool read_only;
    /* Has its own lock. */
    struct td_compiled_cache compiled;

    /* Guards the members down to the next lock. Never held for long. */
    pthread_rwlock_t lock;
    struct td_entry **entries; /* sorted by name */
    int n_entries, capacity;
    /* Reserved entries whose names are not versions. `entries` is large enough for all n_reserved
     * entries. */
    struct td_entry *reserved;
    int n_reserved;
    struct td_alias_list aliases;
    struct td_problem_note **problems; /* sorted by source */
    int n_problems, problems_capacity;
    /* Names and targets that the flip in progress has claimed, or NULL. */
    const struct td_alias_list *claims;
    int n_spares;
    /* Counter of the changes of all names. Read without the lock. */
    atomic_uint_fast64_t changes;
    /* Time before which no version expires. */
    int64_t next_expiry_ns;
    uint64_t last_version;
    /* Size in bytes of current and reserved versions in memory, of the mapped data of current
     * versions, and of spare copies. */
    uint64_t held, mapped, spare_bytes;
    /* Bytes in `held` that are counted both for a version and for its replacement. */
    uint64_t outgoing;

    /* Guards the next three members. Held for the duration of a stat. */
    pthread_mutex_t aliases_file_mutex;
    /* Identity of aliases.json when it was last read or written. */
    struct td_file_id aliases_file;
    /* Identity of aliases.json when it could not be read or applied. */
    struct td_file_id aliases_refused;
    /* True while this process is replacing aliases.json. */
    bool writes_aliases_file;

    /* Used only while the lock on the aliases (writer_queue.h) is held, except for the atomic
     * members. */

    /* True if an alias has been removed since the last scan started, and a file contains a tensor
     * of the same name. */
    bool name_freed;
    /* Folders whose aliases have been set, as aliases.json lists them. */
    struct td_taken_folder *taken;
    int n_taken;
    /* True if folders or aliases are missing from aliases.json and must be written to it. */
    bool to_write;
    /* True if aliases.json contains aliases but no folders, as if written by hand. Cleared when a
     * scan ends. */
    bool folders_unknown;
    /* True if the last attempt to read aliases.json failed. The list of problems contains the
     * reason. */
    atomic_bool aliases_unread;
    /* True if aliases.json has been read successfully, or this process has written the file. */
    atomic_bool aliases_known;

    /* Guards the writers (writer_queue.h). */
    pthread_mutex_t writing;
    /* Signals that a writer whose thread waits has received its names. */
    pthread_cond_t written;
    /* Writers that hold their names. */
    struct td_writer *writers;
    /* Waiting writers in the order of their arrival. */
    struct td_writer *waiting_writers;

    /* Guards the next four members. */
    pthread_mutex_t files_mutex;
    struct td_known_file **files; /* sorted by name */
    int n_files, files_capacity;
    /* Number of reserved records. `files` is large enough for them. */
    int n_files_reserved;
    /* True if the last scan could not read the folder. */
    atomic_bool folder_unread;
    /* Held during a scan. */
    pthread_mutex_t scanning;
    /* Folders with a manifest. Guarded by `scanning`. */
    struct td_version_folder *folders;
    /* Number of scans so far. */
    atomic_uint_fast64_t file_scans;
    /* True if a scan must build an index again that was truncated while it was served. */
    atomic_bool needs_scan;

    /* Used only by the thread that runs td_store_verify, except for the atomic members. */

    /* True if scans must end early, because td_store_stop was called. */
    atomic_bool stopping;
    /* True if a version might be pending. Set when a pending version becomes current. */
    atomic_bool unverified;
    /* True if damage was found in a version, even if that version was later replaced. */
    atomic_bool damage_found;
    /* Version that is being compared, to which the store holds a reference, or NULL. */
    struct td_version *verifying;
    /* Number of blocks of `verifying` that have been compared. */
    uint64_t verified_blocks;
    /* Index of the entry after `verifying`. */
    int verify_place;
};

/* Implements td_resolver; in read.c. */
td_status td_store_resolve(struct td_resolver *resolver, const char *name, size_t length,
                           struct td_arena *arena, struct td_tensor *out, struct td_error *err);

#endif
