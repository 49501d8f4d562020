/* The quota of the data folder, which limits the total size of its .tensord and
 * .program.json files.
 *
 * Each write computes the sum from the folder, so the sum is right even if files were deleted,
 * replaced or added by hand. Without a quota, this costs nothing. With a quota, it takes about 1 us
 * per file, which is little compared with the two fsyncs of a write. A file that is being written
 * counts with its old or its new size, whichever is larger, because its writer can fail. */
#include "kernels/integers.h"
#include "server/store/files/data_dir_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_own(const struct dirent *item)
{
    return td_data_file_is_own(item->d_name);
}

/* Sets *bytes to the size of a file, or to 0 if the file does not exist or is not a regular file.
 * Returns 0 or errno. */
static int size_of(const struct td_data_dir *dir, const char *file, uint64_t *bytes)
{
    struct stat info;
    *bytes = 0;
    if (fstatat(dir->folder.fd, file, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    if (S_ISREG(info.st_mode))
        *bytes = (uint64_t)info.st_size;
    return 0;
}

static bool is_reserved(const struct td_data_dir *dir, const char *file)
{
    const struct td_reserved_file *reserved = dir->reserved;
    while (reserved && strcmp(reserved->file, file) != 0)
        reserved = reserved->next;
    return reserved != NULL;
}

/* Sets *others to the total size of all other files, and *replaced to the size of `file`. Returns 0
 * or errno. */
static int sum_files(const struct td_data_dir *dir, const char *file, uint64_t *others,
                     uint64_t *replaced)
{
    struct dirent **items = NULL;
    int reason = 0;
    *others = *replaced = 0;
    const int n = scandirat(dir->folder.fd, ".", &items, is_own, NULL);
    if (n < 0)
        return errno;
    for (int i = 0; i < n; i++) {
        const char *name = items[i]->d_name;
        uint64_t bytes = 0;
        if (reason == 0 && strcmp(name, file) == 0)
            reason = size_of(dir, name, replaced);
        else if (reason == 0 && !is_reserved(dir, name))
            reason = size_of(dir, name, &bytes);
        *others = td_saturating_add(*others, bytes);
        free(items[i]);
    }
    free(items);
    for (const struct td_reserved_file *one = dir->reserved; one && reason == 0; one = one->next) {
        uint64_t bytes;
        if (strcmp(one->file, file) == 0)
            continue;
        reason = size_of(dir, one->file, &bytes);
        *others = td_saturating_add(*others, bytes > one->bytes ? bytes : one->bytes);
    }
    return reason;
}

uint64_t td_data_dir_counted_bytes(struct td_data_dir *dir)
{
    uint64_t bytes, replaced;
    if (dir->quota == 0)
        return 0;
    pthread_mutex_lock(&dir->quota_mutex);
    const int reason = sum_files(dir, "", &bytes, &replaced);
    pthread_mutex_unlock(&dir->quota_mutex);
    return reason == 0 ? bytes : 0;
}

/* Compares the sum with the quota. Call with quota_mutex held. */
static td_status check_quota(struct td_data_dir *dir, const char *file, uint64_t bytes,
                             struct td_error *err)
{
    uint64_t others, replaced;
    const int reason = sum_files(dir, file, &others, &replaced);
    if (reason != 0)
        return td_data_disk_error(dir, file, reason, bytes, err);
    const uint64_t needed = td_saturating_add(others, bytes);
    /* If the folder exceeds a lowered quota, files can still shrink. */
    if (needed <= dir->quota || bytes <= replaced)
        return TD_OK;
    char what[TD_FILE_NAME + 32];
    snprintf(what, sizeof what, "the data folder with %s", file);
    td_error_resource(err, "disk_bytes", needed, dir->quota, what);
    td_error_hint(err, "the server's option --disk-quota sets this limit");
    return TD_RESOURCE_LIMIT;
}

td_status td_data_check_quota(struct td_data_dir *dir, const char *file, uint64_t bytes,
                              struct td_error *err)
{
    if (dir->quota == 0)
        return TD_OK;
    pthread_mutex_lock(&dir->quota_mutex);
    const td_status status = check_quota(dir, file, bytes, err);
    pthread_mutex_unlock(&dir->quota_mutex);
    return status;
}

td_status td_data_reserve(struct td_data_dir *dir, struct td_reserved_file *reserved,
                          struct td_error *err)
{
    if (dir->quota == 0)
        return TD_OK;
    pthread_mutex_lock(&dir->quota_mutex);
    const td_status status = check_quota(dir, reserved->file, reserved->bytes, err);
    if (status == TD_OK) {
        reserved->next = dir->reserved;
        dir->reserved = reserved;
    }
    pthread_mutex_unlock(&dir->quota_mutex);
    return status;
}

void td_data_unreserve(struct td_data_dir *dir, struct td_reserved_file *reserved)
{
    if (dir->quota == 0)
        return;
    pthread_mutex_lock(&dir->quota_mutex);
    struct td_reserved_file **link = &dir->reserved;
    while (*link != reserved)
        link = &(*link)->next;
    *link = reserved->next;
    pthread_mutex_unlock(&dir->quota_mutex);
}
