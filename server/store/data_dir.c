#include "server/store/data_dir_parts.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool td_name_valid(const char *name)
{
    const size_t length = strlen(name);
    return length >= 1 && length < TD_TENSOR_NAME && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") ==
               length;
}

bool td_data_file_is(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

struct td_file_id td_data_id_of(const struct stat *info)
{
    return (struct td_file_id){ .inode = info->st_ino,
                                .size = (uint64_t)info->st_size,
                                .changed_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 +
                                              info->st_mtim.tv_nsec };
}

static void remove_temporaries(struct td_data_dir *dir)
{
    DIR *list = opendir(dir->path);
    for (const struct dirent *item; list && (item = readdir(list));) {
        if (strncmp(item->d_name, TD_TEMPORARY_PREFIX, sizeof TD_TEMPORARY_PREFIX - 1) != 0)
            continue;
        const int fd = openat(dir->fd, item->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        /* Its writer holds a lock as long as it lives. */
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir->fd, item->d_name, 0) == 0)
            td_log(dir->log, TD_LOG_INFO, "temporary_removed", TD_TEXT("file", item->d_name));
        if (fd >= 0)
            close(fd);
    }
    if (list)
        closedir(list);
}

static void log_unreadable(const struct td_log *log, const char *path)
{
    td_log(log, TD_LOG_ERROR, "data_dir_unreadable", TD_TEXT("dir", path),
           TD_TEXT("reason", strerror(errno)));
}

struct td_data_dir *td_data_dir_open(const char *path, const struct td_log *log)
{
    struct td_data_dir *dir = calloc(1, sizeof *dir);
    if (!dir)
        return NULL;
    dir->log = log;
    dir->path = strdup(path);
    dir->fd = dir->path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir->fd < 0) {
        log_unreadable(log, path);
        td_data_dir_free(dir);
        return NULL;
    }
    remove_temporaries(dir);
    return dir;
}

void td_data_dir_free(struct td_data_dir *dir)
{
    if (!dir)
        return;
    if (dir->fd >= 0)
        close(dir->fd);
    free(dir->path);
    free(dir);
}

static int wanted(const struct dirent *item)
{
    return item->d_name[0] != '.' && (td_data_file_is(item->d_name, TD_OWN_SUFFIX) ||
                                      td_data_file_is(item->d_name, TD_NPY_SUFFIX) ||
                                      td_data_file_is(item->d_name, TD_SAFETENSORS_SUFFIX));
}

static int in_order(const struct dirent **a, const struct dirent **b)
{
    const bool own_a = td_data_file_is((*a)->d_name, TD_OWN_SUFFIX),
               own_b = td_data_file_is((*b)->d_name, TD_OWN_SUFFIX);
    return own_a != own_b ? own_b - own_a : strcmp((*a)->d_name, (*b)->d_name);
}

bool td_data_dir_list(struct td_data_dir *dir, struct td_data_file **files, int *count)
{
    struct dirent **names = NULL;
    const int n = scandirat(dir->fd, ".", &names, wanted, in_order);
    *count = 0;
    *files = n < 0 ? NULL : calloc((size_t)n + 1, sizeof **files);
    if (!*files)
        log_unreadable(dir->log, dir->path);
    for (int i = 0; i < n; i++) {
        if (*files) {
            struct td_data_file *file = &(*files)[(*count)++];
            snprintf(file->name, sizeof file->name, "%s", names[i]->d_name);
            (void)td_data_dir_look(dir, file->name, &file->id); /* loading says why not */
        }
        free(names[i]);
    }
    free(names);
    return *files != NULL;
}

bool td_data_dir_look(struct td_data_dir *dir, const char *file, struct td_file_id *id)
{
    struct stat info;
    if (fstatat(dir->fd, file, &info, 0) != 0)
        return false;
    *id = td_data_id_of(&info);
    return true;
}
