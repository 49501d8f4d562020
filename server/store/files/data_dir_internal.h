/* data_dir_internal.h - private to data_dir*.c.
 *
 *     data_dir.c             listing, stat, hidden files
 *     data_dir_lock.c        opening and locking the folder
 *     data_dir_read.c        mapping a file and reading its header
 *     data_dir_write.c       writing a file and mapping it
 *     data_dir_index.c       indices of keys
 *     data_dir_quota.c       total size of the files
 *     data_dir_remove.c      removing the files of a name
 *     data_dir_text.c        small text files
 *     data_dir_sub_folder.c  version folders
 *
 * Threads    Changes of the folder run between td_data_hold and td_data_release.
 *            td_data_dir_refresh exchanges the descriptor of the folder, and waits for these
 *            changes. The scan calls td_data_dir_refresh, so it can use the descriptor without
 *            td_data_hold. */
#ifndef TD_SERVER_STORE_DATA_DIR_INTERNAL_H
#define TD_SERVER_STORE_DATA_DIR_INTERNAL_H

#include "server/observe/log_limit.h"
#include "server/store/files/data_dir.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <pthread.h>
#include <stdatomic.h>

/* Mode of all files that are written, regardless of the umask. */
enum { TD_FILE_MODE = 0640 };

/* An open folder and its lock. Every change needs the lock. */
struct td_data_folder {
    int fd;
    /* Descriptor of the lock file, or -1 if this process does not hold the lock. */
    int lock;
    /* Errno that says why this process does not hold the lock; EWOULDBLOCK if another process holds
     * it. */
    int reason;
    /* True if `reason` concerns only the lock file, not the folder. */
    bool only_lock;
    /* Process id of the process that holds the lock, or 0 if unknown. */
    long holder;
};

/* A file that is being written. The structure is on the stack of the file's writer. */
struct td_reserved_file {
    struct td_reserved_file *next;
    const char *file;
    uint64_t bytes;
};

struct td_data_dir {
    char *path;
    /* True to change nothing in the folder, and to take no lock. */
    bool read_only;
    const struct td_log *log;
    /* Guards the next two members. Changes of the folder hold it for reading. */
    pthread_rwlock_t exchanging;
    struct td_data_folder folder;
    /* errno that explains why the path no longer leads to the folder, or 0 if it does. */
    int gone;
    /* errno of the last refresh, or 0 if it succeeded. Used only by td_data_dir_refresh. */
    int unreadable;
    /* Seed of hidden names. Process ids are not unique across containers. */
    uint64_t seed;
    /* Number of hidden names so far. */
    atomic_uint_fast64_t temporaries;
    /* Maximum total size of the files that the server writes, or 0 for no limit. */
    uint64_t quota;
    /* Limits the log lines about changes that the disk refused. */
    struct td_log_limit failed;

    /* Held while the folder is listed, so summing the sizes and reserving a file are one step. */
    pthread_mutex_t quota_mutex;
    /* Files that are being written. Guarded by quota_mutex. */
    struct td_reserved_file *reserved;
};

struct td_file_id td_data_id_of(const struct stat *info);

/* Sets and returns the error for a file that could not be changed, or to which `bytes` bytes could
 * not be written. `reason` is the errno. Also logs the error, at most once a second, because the
 * operator must act on it. Call this function only once for each failed change. */
td_status td_data_disk_error(struct td_data_dir *dir, const char *file, int reason, uint64_t bytes,
                             struct td_error *err);

/* td_data_hold keeps the folder from being exchanged until td_data_release. */
void td_data_hold(struct td_data_dir *dir);
void td_data_release(struct td_data_dir *dir);

/* Returns an error if the held folder cannot be changed: DATA_DIR_LOCKED while another process
 * holds the lock, or an error of td_data_disk_error for this file and `bytes`. */
TD_MUST_CHECK td_status td_data_check_lock(struct td_data_dir *dir, const char *file,
                                           uint64_t bytes, struct td_error *err);

/* Lists the names of those entries of an open folder that the filter accepts. The caller frees the
 * list with free(). Returns false, with errno set, if the folder cannot be read or no memory is
 * available. */
struct dirent;
bool td_data_list(int folder, int (*filter)(const struct dirent *item),
                  int (*order)(const struct dirent **a, const struct dirent **b),
                  char (**names)[TD_FILE_NAME], int *count);

/* Logs that the folder could not be opened or listed. `reason` is the errno. */
void td_data_log_unreadable(const struct td_data_dir *dir, int reason);

/* td_data_check_quota returns RESOURCE_LIMIT (disk_bytes) if a file of `bytes` bytes does not fit
 * the quota, or an error of td_data_disk_error. The size of the existing file, which the new file
 * replaces, does not count. td_data_reserve makes the same check, and counts the file until
 * td_data_unreserve is called. */
TD_MUST_CHECK td_status td_data_check_quota(struct td_data_dir *dir, const char *file,
                                            uint64_t bytes, struct td_error *err);
TD_MUST_CHECK td_status td_data_reserve(struct td_data_dir *dir, struct td_reserved_file *reserved,
                                        struct td_error *err);
void td_data_unreserve(struct td_data_dir *dir, struct td_reserved_file *reserved);

/* Removes hidden files left by a crash from a folder whose lock is held, and indices whose file of
 * keys no longer exists. */
void td_data_remove_temporaries(struct td_data_dir *dir, int folder);

/* Writes a unique name for a hidden file to `name`. */
enum { TD_HIDDEN_NAME = 64 };
void td_data_hidden_name(struct td_data_dir *dir, char name[TD_HIDDEN_NAME]);

/* Removes a hidden file. A failure is logged, and the next start tries again. */
void td_data_remove_hidden(struct td_data_dir *dir, const char *name);

/* Logs that a file of the tensor `name` has been removed from the folder. */
void td_data_log_removed(const struct td_data_dir *dir, const char *file, const char *name);

/* Removes the file of the keys of NAME.npy and its index, if they exist. Called after NAME.npy is
 * removed, when the file of keys no longer belongs to any table. A failure is logged. */
void td_data_remove_keys(struct td_data_dir *dir, const char *name);

/* Sets *found to true if the folder has an entry of this name. Does not follow a link, which might
 * lead nowhere. Returns 0, EISDIR for a folder, or errno if stat fails for a reason other than
 * ENOENT. */
int td_data_file_exists(struct td_data_dir *dir, const char *file, bool *found);

/* Renames the finished file to its final name. Returns 0 or errno. A hidden hard link keeps the
 * replaced file, so it can be restored if the folder cannot be fsynced. If hard links are not
 * supported, or if restoring fails, the new file remains and *done is true. */
int td_data_publish(struct td_data_dir *dir, const char *temporary, const char *file, bool *done);

/* Writes the parts to a hidden file, fsyncs the file and publishes it. Sets *id to the file's
 * identity. Returns 0 or errno. *done, initially false, is set as by td_data_publish. */
int td_data_write_parts(struct td_data_dir *dir, const char *file, const struct iovec *parts, int n,
                        struct td_file_id *id, bool *done);

/* A mapped file. Each tensor of the file holds a reference. */
struct td_mapping {
    struct td_buffer base; /* first: release casts back */
    int range;
};

/* Maps an open file. Returns NULL on failure, with an error of td_data_dir_load. */
struct td_mapping *td_mapping_new(int fd, struct td_file_id *id, struct td_error *err);

/* Reads the header in the format that the name of the file indicates. Moves the caller's reference
 * to the arena. */
TD_MUST_CHECK td_status td_mapping_read(struct td_mapping *mapping, const char *file,
                                        struct td_arena *arena, struct td_data_content *out,
                                        struct td_error *err);

#endif
