/* Opens the data folder and takes its lock. Both the lock file and the folder itself are locked
 * (flock), so at most one process changes the folder:
 *
 *     the file    also excludes processes on other machines, if the network file system passes
 *                 locks on. It holds the process id, for the message to other processes.
 *     the folder  excludes processes on this machine even if the lock file is deleted or replaced
 *                 while it is locked. Some file systems cannot lock folders.
 *
 * The kernel releases both locks when the process ends for any reason. The lock file is never
 * deleted, because one process could then lock the deleted file while another process locks the new
 * file. */
#include "server/config/read_error.h"
#include "server/observe/clock.h"
#include "server/store/files/data_dir_internal.h"

#include <sys/file.h>
#include <sys/random.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Used instead of an errno if the path leads to an empty folder although the folder had files
 * before. This happens when a volume is not mounted. */
enum { EMPTY_IN_PLACE = ENODATA };

static const struct td_data_folder closed = { .fd = -1, .lock = -1 };

static void close_folder(struct td_data_folder *folder)
{
    if (folder->lock >= 0)
        close(folder->lock);
    if (folder->fd >= 0)
        close(folder->fd);
    *folder = closed;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* ---- the lock ------------------------------------------------------------------------------- */

/* Writes the process id to the lock file, for the message to other processes. If the disk is full,
 * the process id remains unknown. */
static void write_holder(int lock)
{
    char text[32];
    const int length = snprintf(text, sizeof text, "%20ld\n", (long)getpid());
    const bool known = pwrite(lock, text, (size_t)length, 0) == length || ftruncate(lock, 0) == 0;
    (void)known;
}

static long read_holder(int lock)
{
    char text[32] = "";
    const ssize_t length = pread(lock, text, sizeof text - 1, 0);
    return length > 0 ? strtol(text, NULL, 10) : 0;
}

/* Sets *current to true if the path of the lock file still leads to the locked file. Returns 0 or
 * errno. */
static int check_current(const struct td_data_folder *folder, int lock, bool *current)
{
    struct stat locked, named;
    *current = false;
    if (fstat(lock, &locked) != 0)
        return errno;
    if (fstatat(folder->fd, TD_LOCK_FILE, &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    *current = is_same(&locked, &named);
    return 0;
}

/* Locks the lock file. Returns 0 or errno. */
static int lock_file(struct td_data_folder *folder)
{
    enum { TRIES = 4 };
    for (int i = 0; i < TRIES; i++) {
        bool current = false;
        const int lock =
            openat(folder->fd, TD_LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                   TD_FILE_MODE);
        if (lock < 0)
            return errno;
        int reason = flock(lock, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (reason == EWOULDBLOCK)
            folder->holder = read_holder(lock);
        else if (reason == 0)
            reason = check_current(folder, lock, &current);
        if (current) {
            folder->lock = lock;
            return 0;
        }
        close(lock);
        if (reason != 0)
            return reason;
        /* The file was deleted or replaced before it was locked, so lock the new file. */
    }
    return EWOULDBLOCK;
}

/* True if the folder itself can be changed, and only its lock file cannot be opened. */
static bool is_only_lock(int folder)
{
    struct stat unused;
    return faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) == 0 &&
           fstatat(folder, TD_LOCK_FILE, &unused, AT_SYMLINK_NOFOLLOW) == 0;
}

static void lock_folder(struct td_data_folder *folder)
{
    folder->reason = lock_file(folder);
    folder->only_lock =
        folder->reason != 0 && folder->reason != EWOULDBLOCK && is_only_lock(folder->fd);
    if (folder->reason != 0)
        return;
    /* Any other error means that the file system cannot lock folders. */
    if (flock(folder->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        folder->reason = EWOULDBLOCK;
        close(folder->lock);
        folder->lock = -1;
        return;
    }
    /* The umask might have removed permissions. */
    (void)fchmod(folder->lock, TD_FILE_MODE);
    write_holder(folder->lock);
}

/* True if the lock is held and the lock file is not known to have been replaced. */
static bool holds_lock(const struct td_data_folder *folder)
{
    bool current;
    return folder->lock >= 0 && (check_current(folder, folder->lock, &current) != 0 || current);
}

static bool is_locked_by_another(int fd)
{
    return flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* Returns the errno with which opening the lock file for writing would fail, or 0. `lock` is the
 * descriptor of the lock file, opened for reading, or -1 with errno set. */
static int why_not_lockable(int folder, int lock)
{
    struct stat info;
    if (lock < 0)
        return errno == ENOENT ? 0 : errno;
    if (fstat(lock, &info) == 0 && S_ISDIR(info.st_mode))
        return EISDIR;
    return faccessat(folder, TD_LOCK_FILE, W_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* Probes the lock. Opens the lock file for reading, because only a process that takes the lock
 * opens it for writing. */
static void probe_lock(int folder, struct td_data_access *out)
{
    const int lock = openat(folder, TD_LOCK_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const int reason = why_not_lockable(folder, lock);
    if (out->denied == 0 && reason != 0) {
        out->denied = reason;
        out->only_lock = is_only_lock(folder);
    }
    out->locked = (lock >= 0 && is_locked_by_another(lock)) || is_locked_by_another(folder);
    if (lock < 0)
        return;
    if (out->locked)
        out->holder = read_holder(lock);
    close(lock);
}

int td_data_dir_probe(const char *path, struct td_data_access *out)
{
    *out = (struct td_data_access){ 0 };
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return errno;
    if (faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) != 0)
        out->denied = errno;
    probe_lock(folder, out);
    close(folder);
    return 0;
}

/* ---- changes -------------------------------------------------------------------------------- */

void td_data_hold(struct td_data_dir *dir)
{
    pthread_rwlock_rdlock(&dir->exchanging);
}

void td_data_release(struct td_data_dir *dir)
{
    pthread_rwlock_unlock(&dir->exchanging);
}

td_status td_data_check_lock(struct td_data_dir *dir, const char *file, uint64_t bytes,
                             struct td_error *err)
{
    const struct td_data_folder *folder = &dir->folder;
    char holder[48] = "another process";
    if (dir->gone == EMPTY_IN_PLACE)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s in the data folder cannot be changed: the path leads to an empty "
                            "folder; perhaps a volume is not mounted. Mount the volume, or "
                            "restart the server to use the empty folder",
                            file);
    if (dir->gone != 0)
        return td_data_disk_error(dir, file, dir->gone, bytes, err);
    if (folder->lock >= 0)
        return TD_OK;
    if (folder->only_lock) {
        const td_status status = td_data_disk_error(dir, TD_LOCK_FILE, folder->reason, 0, err);
        td_error_hint(err, "%s", TD_LOCK_WAY_OUT);
        return status;
    }
    if (folder->reason != EWOULDBLOCK)
        return td_data_disk_error(dir, file, folder->reason, bytes, err);
    if (folder->holder > 0)
        snprintf(holder, sizeof holder, "process %ld", folder->holder);
    return td_error_set(err, TD_DATA_DIR_LOCKED,
                        "%s cannot be changed: the data folder is locked by %s", file, holder);
}

bool td_data_dir_is_locked(struct td_data_dir *dir)
{
    td_data_hold(dir);
    const bool locked = dir->folder.lock >= 0 && dir->gone == 0;
    td_data_release(dir);
    return locked;
}

td_status td_data_dir_check_change(struct td_data_dir *dir, const char *name, struct td_error *err)
{
    char file[TD_FILE_NAME];
    td_data_own_file(name, file);
    td_data_hold(dir);
    const td_status status = td_data_check_lock(dir, file, 0, err);
    td_data_release(dir);
    return status;
}

/* ---- the folder ----------------------------------------------------------------------------- */

void td_data_log_unreadable(const struct td_data_dir *dir, int reason)
{
    char text[TD_READ_ERROR];
    td_log(dir->log, TD_LOG_ERROR, "data_dir_unreadable", TD_TEXT("dir", dir->path),
           TD_TEXT("reason",
                   reason == EMPTY_IN_PLACE
                       ? "the path leads to an empty folder; perhaps a volume is not mounted. "
                         "The server will use this folder once it contains a file, or after a "
                         "restart"
                       : td_read_error(dir->path, reason, text)));
}

/* True if all entries of the open folder are hidden. */
static bool is_empty(int fd)
{
    const int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again >= 0 ? fdopendir(again) : NULL;
    if (!folder) {
        if (again >= 0)
            close(again);
        return false;
    }
    const struct dirent *item;
    do {
        errno = 0;
        item = readdir(folder);
    } while (item && item->d_name[0] == '.');
    const bool at_end = !item && errno == 0;
    closedir(folder);
    return at_end;
}

/* Logs how the lock has changed since `before`. */
static void log_lock(const struct td_data_dir *dir, const struct td_data_folder *before)
{
    const struct td_data_folder *now = &dir->folder;
    const int reason = now->reason;
    if (now->lock >= 0 && before->lock < 0 && before->fd >= 0)
        td_log(dir->log, TD_LOG_INFO, "data_dir_locked", TD_TEXT("dir", dir->path));
    if (now->lock >= 0 || (reason == before->reason && now->holder == before->holder))
        return;
    /* A folder without write permission is probably intended to be read-only. */
    const bool read_only =
        !now->only_lock && (reason == EROFS || reason == EACCES || reason == EPERM);
    td_log(dir->log, read_only ? TD_LOG_INFO : TD_LOG_WARN, "data_dir_not_locked",
           TD_TEXT("dir", dir->path), TD_TEXT("file", now->only_lock ? TD_LOCK_FILE : NULL),
           TD_TEXT("reason",
                   reason == EWOULDBLOCK ? "another process holds the lock" : strerror(reason)),
           TD_INT("holder", now->holder));
}

/* Takes the lock of an open folder and makes the folder the data folder. Waits for the changes in
 * progress. */
static void exchange(struct td_data_dir *dir, struct td_data_folder *now, bool replaced)
{
    pthread_rwlock_wrlock(&dir->exchanging);
    struct td_data_folder before = dir->folder;
    /* Release the old lock first, because it would prevent taking the new lock. */
    if (!replaced) {
        dir->folder = closed;
        close_folder(&before);
    }
    if (dir->read_only)
        now->reason = EROFS;
    else
        lock_folder(now);
    /* All temporary files were left by a crash, because no other process is allowed to write, and
     * this process does not write yet. */
    if (now->lock >= 0)
        td_data_remove_temporaries(dir, now->fd);
    dir->folder = *now;
    dir->gone = 0;
    pthread_rwlock_unlock(&dir->exchanging);
    close_folder(&before);
}

/* Records why the path no longer leads to the folder. Changes are refused from then on, because a
 * restart would not find them. The folder remains open and locked in case the path leads to it
 * again. */
static void note_gone(struct td_data_dir *dir, int reason)
{
    /* The refresh is repeated each second, so log only a new reason. */
    if (reason != dir->unreadable)
        td_data_log_unreadable(dir, reason);
    dir->unreadable = reason;
    pthread_rwlock_wrlock(&dir->exchanging);
    if (reason == ENOENT || reason == ENOTDIR || reason == EMPTY_IN_PLACE)
        dir->gone = reason;
    pthread_rwlock_unlock(&dir->exchanging);
}

/* Opens the folder at the path. Returns 0 or errno. *replaced is true if the folder differs from
 * the open folder. */
static int open_path(const struct td_data_dir *dir, struct td_data_folder *now, bool *replaced)
{
    struct stat before, after;
    *now = closed;
    *replaced = dir->folder.fd < 0;
    now->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (now->fd < 0)
        return errno;
    if (*replaced)
        return 0;
    if (fstat(now->fd, &after) != 0 || fstat(dir->folder.fd, &before) != 0)
        return errno;
    *replaced = !is_same(&before, &after);
    return *replaced && is_empty(now->fd) && !is_empty(dir->folder.fd) ? EMPTY_IN_PLACE : 0;
}

bool td_data_dir_refresh(struct td_data_dir *dir, bool *changed)
{
    struct td_data_folder now;
    bool replaced;
    const bool was_locked = td_data_dir_is_locked(dir);
    const int reason = open_path(dir, &now, &replaced);
    *changed = false;
    if (reason != 0) {
        close_folder(&now);
        note_gone(dir, reason);
        return false;
    }
    dir->unreadable = 0;
    const struct td_data_folder before = dir->folder;
    if (!replaced && dir->gone == 0 && holds_lock(&before)) {
        close_folder(&now);
        return true;
    }
    exchange(dir, &now, replaced);
    if (replaced && before.fd >= 0)
        td_log(dir->log, TD_LOG_INFO, "data_dir_replaced", TD_TEXT("dir", dir->path));
    if (!dir->read_only)
        log_lock(dir, &before);
    *changed = replaced || (now.lock >= 0 && !was_locked);
    return true;
}

/* Initialises the lock with priority for writers. Otherwise, an endless series of overlapping
 * changes could keep a scan waiting. A thread must not take this kind of lock twice, and no change
 * does so. */
static void init_exchanging(struct td_data_dir *dir)
{
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&dir->exchanging, &kind);
    pthread_rwlockattr_destroy(&kind);
}

struct td_data_dir *td_data_dir_open(const char *path, uint64_t quota, bool read_only,
                                     const struct td_log *log)
{
    bool changed;
    struct td_data_dir *dir = calloc(1, sizeof *dir);
    if (!dir)
        return NULL;
    dir->log = log;
    dir->quota = quota;
    dir->read_only = read_only;
    dir->folder = closed;
    init_exchanging(dir);
    pthread_mutex_init(&dir->quota_mutex, NULL);
    if (getrandom(&dir->seed, sizeof dir->seed, 0) < 0)
        dir->seed = (uint64_t)td_now_ns() ^ (uint64_t)getpid() << 32;
    dir->path = strdup(path);
    if (dir->path && td_data_dir_refresh(dir, &changed))
        return dir;
    td_data_dir_free(dir);
    return NULL;
}

void td_data_dir_free(struct td_data_dir *dir)
{
    if (!dir)
        return;
    close_folder(&dir->folder);
    pthread_mutex_destroy(&dir->quota_mutex);
    pthread_rwlock_destroy(&dir->exchanging);
    free(dir->path);
    free(dir);
}
