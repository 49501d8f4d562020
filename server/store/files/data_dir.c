#include "server/observe/clock.h"
#include "server/store/files/data_dir_internal.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t ns_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

struct td_file_id td_data_id_of(const struct stat *info)
{
    return (struct td_file_id){ .device = info->st_dev,
                                .inode = info->st_ino,
                                .size = (uint64_t)info->st_size,
                                .modified_ns = ns_of(&info->st_mtim),
                                .changed_ns = ns_of(&info->st_ctim) };
}

const struct td_file_id td_file_id_unknown = { 0 };

bool td_file_id_equal(const struct td_file_id *a, const struct td_file_id *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified_ns == b->modified_ns && a->keys_device == b->keys_device &&
           a->keys_inode == b->keys_inode && a->keys_size == b->keys_size &&
           a->keys_modified_ns == b->keys_modified_ns;
}

bool td_file_id_touched(const struct td_file_id *before, const struct td_file_id *now)
{
    return before->changed_ns != now->changed_ns || before->keys_changed_ns != now->keys_changed_ns;
}

bool td_file_id_overwritten(const struct td_file_id *before, const struct td_file_id *now)
{
    const bool same = before->device == now->device && before->inode == now->inode,
               same_keys = before->keys_inode != 0 && before->keys_device == now->keys_device &&
                           before->keys_inode == now->keys_inode;
    return (same && (before->size != now->size || before->modified_ns != now->modified_ns)) ||
           (same_keys && (before->keys_size != now->keys_size ||
                          before->keys_modified_ns != now->keys_modified_ns));
}

void td_file_id_set_keys(struct td_file_id *id, const struct td_file_id *keys)
{
    id->keys_device = keys->device;
    id->keys_inode = keys->inode;
    id->keys_size = keys->size;
    id->keys_modified_ns = keys->modified_ns;
    id->keys_changed_ns = keys->changed_ns;
    id->keys_ends = keys->ends;
}

td_status td_data_disk_error(struct td_data_dir *dir, const char *file, int reason, uint64_t bytes,
                             struct td_error *err)
{
    struct statvfs room;
    if (td_log_limit_take(&dir->failed, td_now_ns(), 1))
        td_log(dir->log, TD_LOG_WARN, "change_failed", TD_TEXT("file", file),
               TD_TEXT("reason", strerror(reason)),
               TD_COUNT("suppressed", td_log_limit_suppressed(&dir->failed)));
    if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG) {
        const bool known = fstatvfs(dir->folder.fd, &room) == 0;
        td_error_set(err, TD_RESOURCE_LIMIT, "%s needs %" PRIu64 " bytes in the data folder: %s",
                     file, bytes, strerror(reason));
        snprintf(err->resource, sizeof err->resource, "disk_bytes");
        err->needed = bytes;
        err->limit = known ? (uint64_t)room.f_bavail * room.f_frsize : 0;
        return TD_RESOURCE_LIMIT;
    }
    if (reason == EACCES || reason == EPERM || reason == EROFS)
        return td_error_set(err, TD_FORBIDDEN,
                            "the server is not allowed to change %s in its data folder: %s", file,
                            strerror(reason));
    return td_error_set(err, TD_DEVICE_UNAVAILABLE, "%s in the data folder cannot be changed: %s",
                        file, strerror(reason));
}

/* ---- hidden files --------------------------------------------------------------------------- */

void td_data_hidden_name(struct td_data_dir *dir, char name[TD_HIDDEN_NAME])
{
    snprintf(name, TD_HIDDEN_NAME, TD_TEMPORARY_PREFIX "%016" PRIx64 "-%" PRIuFAST64, dir->seed,
             atomic_fetch_add(&dir->temporaries, 1));
}

void td_data_remove_hidden(struct td_data_dir *dir, const char *name)
{
    /* Try twice, because a leftover hidden file can be large and would remain until the next
     * start. */
    enum { TRIES = 2 };
    int reason = 0;
    for (int i = 0; i < TRIES; i++) {
        if (unlinkat(dir->folder.fd, name, 0) == 0 || errno == ENOENT)
            return;
        reason = errno;
    }
    td_log(dir->log, TD_LOG_WARN, "temporary_not_removed", TD_TEXT("file", name),
           TD_TEXT("reason", strerror(reason)));
}

void td_data_log_removed(const struct td_data_dir *dir, const char *file, const char *name)
{
    td_log(dir->log, TD_LOG_INFO, "file_removed", TD_TEXT("file", file), TD_TEXT("tensor", name));
}

void td_data_remove_keys(struct td_data_dir *dir, const char *name)
{
    char table[TD_FILE_NAME], keys[TD_FILE_NAME], index[TD_FILE_NAME];
    bool found;
    snprintf(table, sizeof table, "%s%s", name, TD_NPY_SUFFIX);
    if (!td_data_keys_file(table, keys))
        return;
    int reason = td_data_file_exists(dir, keys, &found);
    if (reason == 0 && found && unlinkat(dir->folder.fd, keys, 0) != 0)
        reason = errno;
    if (reason != 0)
        td_log(dir->log, TD_LOG_WARN, "file_not_removed", TD_TEXT("file", keys),
               TD_TEXT("reason", strerror(reason)));
    else if (found)
        td_data_log_removed(dir, keys, name);
    td_data_index_file(keys, index);
    if (reason == 0 && td_data_file_exists(dir, index, &found) == 0 && found)
        td_data_remove_hidden(dir, index);
}

static int is_temporary_or_index(const struct dirent *item)
{
    char keys[TD_FILE_NAME];
    return td_data_keys_file_of_index(item->d_name, keys) ||
           strncmp(item->d_name, TD_TEMPORARY_PREFIX, sizeof TD_TEMPORARY_PREFIX - 1) == 0;
}

/* True if the file is a stored index whose file of keys exists, or might exist because stat
 * fails. */
static bool is_needed_index(int folder, const char *file)
{
    char keys[TD_FILE_NAME];
    struct stat info;
    return td_data_keys_file_of_index(file, keys) &&
           (fstatat(folder, keys, &info, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT);
}

void td_data_remove_temporaries(struct td_data_dir *dir, int folder)
{
    struct dirent **items = NULL;
    const int n = scandirat(folder, ".", &items, is_temporary_or_index, NULL);
    for (int i = 0; i < n; i++) {
        if (!is_needed_index(folder, items[i]->d_name) &&
            unlinkat(folder, items[i]->d_name, 0) == 0)
            td_log(dir->log, TD_LOG_INFO, "temporary_removed", TD_TEXT("file", items[i]->d_name));
        free(items[i]);
    }
    free(items);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static int wanted(const struct dirent *item)
{
    return td_data_file_wanted(item->d_name);
}

static int in_order(const struct dirent **a, const struct dirent **b)
{
    return td_data_file_order((*a)->d_name, (*b)->d_name);
}

bool td_data_list(int folder, int (*filter)(const struct dirent *item),
                  int (*order)(const struct dirent **a, const struct dirent **b),
                  char (**names)[TD_FILE_NAME], int *count)
{
    struct dirent **items = NULL;
    const int n = scandirat(folder, ".", &items, filter, order);
    *names = n < 0 ? NULL : calloc((size_t)n + 1, sizeof **names);
    *count = *names ? n : 0;
    for (int i = 0; i < n; i++) {
        if (*names)
            snprintf((*names)[i], sizeof **names, "%s", items[i]->d_name);
        free(items[i]);
    }
    free(items);
    return *names != NULL;
}

bool td_data_dir_list(struct td_data_dir *dir, char (**files)[TD_FILE_NAME], int *count)
{
    if (td_data_list(dir->folder.fd, wanted, in_order, files, count))
        return true;
    td_data_log_unreadable(dir, errno);
    return false;
}

bool td_sub_folder_list(int folder, char (**files)[TD_FILE_NAME], int *count)
{
    return td_data_list(folder, wanted, in_order, files, count);
}

/* True for the entries that td_data_dir_list_others lists. */
static int is_other(const struct dirent *item)
{
    char table[TD_FILE_NAME];
    return item->d_name[0] != '.' && strcmp(item->d_name, TD_ALIASES_FILE) != 0 &&
           (!wanted(item) || item->d_type == DT_DIR || item->d_type == DT_UNKNOWN ||
            td_data_table_of_keys_file(item->d_name, table));
}

bool td_data_dir_list_others(struct td_data_dir *dir, char (**names)[TD_FILE_NAME], int *count)
{
    if (td_data_list(dir->folder.fd, is_other, NULL, names, count))
        return true;
    td_data_log_unreadable(dir, errno);
    return false;
}

bool td_data_dir_is_folder(struct td_data_dir *dir, const char *name)
{
    struct stat info;
    return fstatat(dir->folder.fd, name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

size_t td_data_dir_peek(struct td_data_dir *dir, const char *name, void *bytes, size_t size)
{
    struct stat info;
    /* Without O_NONBLOCK, opening a FIFO would block until the FIFO has a writer. */
    const int fd = openat(dir->folder.fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n =
        fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? pread(fd, bytes, size, 0) : 0;
    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

bool td_data_dir_has_gone(const struct td_data_dir *dir, const char *file)
{
    struct stat info;
    return fstatat(dir->folder.fd, file, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

static td_file_state stat_file(const struct td_data_dir *dir, const char *file,
                               struct td_file_id *id)
{
    struct stat info;
    if (fstatat(dir->folder.fd, file, &info, 0) != 0)
        return errno == ENOENT && td_data_dir_has_gone(dir, file) ? TD_FILE_GONE : TD_FILE_UNKNOWN;
    *id = td_data_id_of(&info);
    return TD_FILE_PRESENT;
}

td_file_state td_data_dir_stat(struct td_data_dir *dir, const char *file, struct td_file_id *id)
{
    char keys[TD_FILE_NAME];
    struct td_file_id of_table, of_keys = { 0 };
    const td_file_state state = stat_file(dir, file, &of_table);
    if (state != TD_FILE_PRESENT)
        return state;
    if (td_data_keys_file(file, keys) && stat_file(dir, keys, &of_keys) == TD_FILE_UNKNOWN)
        return TD_FILE_UNKNOWN;
    *id = of_table;
    td_file_id_set_keys(id, &of_keys);
    return TD_FILE_PRESENT;
}

int td_data_file_exists(struct td_data_dir *dir, const char *file, bool *found)
{
    struct stat info;
    const int reason = fstatat(dir->folder.fd, file, &info, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    *found = reason == 0;
    if (*found && S_ISDIR(info.st_mode))
        return EISDIR;
    return reason == ENOENT ? 0 : reason;
}
