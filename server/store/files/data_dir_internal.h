/* data_dir_internal.h - private to data_dir*.c.
 *
 *     data_dir.c         listing, stat, hidden files
 *     data_dir_lock.c    opening the folder, its lock
 *     data_dir_read.c    mapping a file and reading its header
 *     data_dir_write.c   writing a file and mapping it
 *     data_dir_quota.c   the sum of the files' sizes
 *     data_dir_remove.c  removing the files of a name
 *     data_dir_text.c    small text files
 *     data_dir_folder.c  sub-folders of versions
 *
 * Threads    Changes of the folder run between td_data_hold and td_data_release.
 *            td_data_dir_refresh, which exchanges the descriptor, waits for them; the scan, which
 *            calls it, uses the descriptor without holding it. */
#ifndef TD_SERVER_STORE_DATA_DIR_INTERNAL_H
#define TD_SERVER_STORE_DATA_DIR_INTERNAL_H

#include "server/observe/log_limit.h"
#include "server/store/files/data_dir.h"

#include <sys/stat.h>

#include <pthread.h>
#include <stdatomic.h>

#define TD_OWN_SUFFIX         ".tensord"
#define TD_NPY_SUFFIX         ".npy"
#define TD_SAFETENSORS_SUFFIX ".safetensors"
#define TD_TEMPORARY_PREFIX   ".tensord-tmp-"
#define TD_LOCK_FILE          ".tensord.lock"

enum { TD_FILE_MODE = 0640 }; /* of all files that are written, whatever the umask is */

/* An open folder, and its lock, which every change needs. */
struct td_folder {
    int fd;
    int lock;       /* descriptor of the lock file; -1 if this process does not hold the lock */
    int reason;     /* then why: an errno, EWOULDBLOCK if another process holds it */
    bool only_lock; /* the reason is one of the lock file alone, not of the folder */
    long holder;    /* the process id of that process; 0 if unknown */
};

/* A file that is being written; on the stack of its writer. */
struct td_reserved_file {
    struct td_reserved_file *next;
    const char *file;
    uint64_t bytes;
};

struct td_data_dir {
    char *path;
    bool read_only; /* nothing is changed, no lock is taken */
    const struct td_log *log;
    pthread_rwlock_t exchanging; /* guards the two below; held for reading by changes */
    struct td_folder folder;
    int gone;       /* why, if the path no longer leads to the folder; otherwise 0 */
    int unreadable; /* why the last refresh failed, 0 if it succeeded; only refresh uses it */
    uint64_t seed;  /* of hidden names: process ids repeat across containers */
    atomic_uint_fast64_t temporaries; /* numbers their names */
    uint64_t quota;                   /* of the .tensord files; 0 for none */
    struct td_log_limit failed;       /* lines about changes that the disk refused */

    /* Held while the folder is listed, since the sum and the reservation are one step. */
    pthread_mutex_t quota_mutex;
    struct td_reserved_file *reserved; /* guarded by it */
};

/* Whether the file name ends with the suffix, after at least one other character. */
bool td_data_file_is(const char *name, const char *suffix);

struct td_file_id td_data_id_of(const struct stat *info);

/* The error for errno `reason` of changing a file, or of writing one of `bytes`. Also logs it, once
 * a second at most, because the operator has to do something about it: to be called once for a
 * change. */
td_status td_data_disk_error(struct td_data_dir *dir, const char *file, int reason, uint64_t bytes,
                             struct td_error *err);

/* Between hold and release the folder is not exchanged. */
void td_data_hold(struct td_data_dir *dir);
void td_data_release(struct td_data_dir *dir);

/* Whether a held folder may be changed: an error for a file, or one of `bytes`. DATA_DIR_LOCKED
 * while another process holds the lock; other errors as td_data_disk_error. */
TD_MUST_CHECK td_status td_data_check_lock(struct td_data_dir *dir, const char *file,
                                           uint64_t bytes, struct td_error *err);

/* The names of the entries of an open folder that the filter takes; free() the list. False, with
 * errno, if the folder cannot be read, or without memory. */
struct dirent;
bool td_data_list(int folder, int (*filter)(const struct dirent *item),
                  int (*order)(const struct dirent **a, const struct dirent **b),
                  char (**names)[TD_FILE_NAME], int *count);

/* errno `reason` of opening or listing the folder. */
void td_data_log_unreadable(const struct td_data_dir *dir, int reason);

/* Whether a file of `bytes` fits the quota instead of the one of that name: RESOURCE_LIMIT
 * (disk_bytes), or an error of td_data_disk_error. reserve also counts it until unreserve. */
TD_MUST_CHECK td_status td_data_check_quota(struct td_data_dir *dir, const char *file,
                                            uint64_t bytes, struct td_error *err);
TD_MUST_CHECK td_status td_data_reserve(struct td_data_dir *dir, struct td_reserved_file *reserved,
                                        struct td_error *err);
void td_data_unreserve(struct td_data_dir *dir, struct td_reserved_file *reserved);

/* Removes the hidden files that a crash left in a folder whose lock is held. */
void td_data_remove_temporaries(struct td_data_dir *dir, int folder);

/* A unique name for a hidden file. */
enum { TD_HIDDEN_NAME = 64 };
void td_data_hidden_name(struct td_data_dir *dir, char name[TD_HIDDEN_NAME]);

/* A failure is logged; the next start tries again. */
void td_data_remove_hidden(struct td_data_dir *dir, const char *name);

/* Logs that a file of the tensor `name` has been removed from the folder. */
void td_data_log_removed(const struct td_data_dir *dir, const char *file, const char *name);

/* Removes the file of the keys of NAME.npy if there is one, once that is removed: alone it gives
 * nothing keys. A failure is logged. */
void td_data_remove_keys(struct td_data_dir *dir, const char *name);

/* Whether the folder has the name: a link is not followed, since it may lead nowhere. Returns 0,
 * EISDIR for a folder, or errno if stat fails for another reason than ENOENT. */
int td_data_file_exists(struct td_data_dir *dir, const char *file, bool *found);

/* Gives the finished file its name; 0 or errno. A hidden hard link keeps the file that is replaced,
 * to restore it if the folder cannot be fsynced. Without hard links, or if restoring fails, the new
 * file stays: *done. */
int td_data_publish(struct td_data_dir *dir, const char *temporary, const char *file, bool *done);

/* A mapped file; each tensor of it holds a reference. */
struct td_mapping {
    struct td_buffer base; /* first: release casts back */
    int range;
};

/* Maps an open file; NULL (err filled as by td_data_dir_load) on failure. */
struct td_mapping *td_mapping_new(int fd, struct td_file_id *id, struct td_error *err);

/* Reads the header of the format that the file's name indicates. Moves the caller's reference to
 * the arena. */
TD_MUST_CHECK td_status td_mapping_read(struct td_mapping *mapping, const char *file,
                                        struct td_arena *arena, struct td_data_content *out,
                                        struct td_error *err);

#endif
