#include "server/store/files/data_dir_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* File that is being removed, and its hidden name until it is unlinked. */
struct hidden_file {
    char file[TD_FILE_NAME], hidden[TD_HIDDEN_NAME];
};

/* Sets *others to the number of tensors other than `name` in a .safetensors file, or to -1 if the
 * file does not contain `name`. */
static td_status count_others(struct td_data_dir *dir, const char *file, const char *name,
                              int *others, struct td_error *err)
{
    struct td_arena arena;
    struct td_data_content content;
    struct td_error why;
    *others = -1;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_status status = td_data_dir_load(dir, file, false, &arena, &content, &why);
    for (int i = 0; i < content.count && status == TD_OK; i++)
        if (strcmp(content.tensors[i].name, name) == 0)
            *others = content.count - 1;
    td_arena_reset(&arena);
    if (status == TD_OK || status == TD_MALFORMED_REQUEST) /* it holds no tensors */
        return TD_OK;
    if (td_data_dir_has_gone(dir, file))
        return TD_OK;
    return td_error_set(
        err, status,
        "%s, which might also hold '%s', cannot be read: %s; repair or remove that file", file,
        name, why.message);
}

/* Adds the file to the list if it exists and contains the name. `added` is the next item of the
 * list, which holds the name of the file. */
static td_status add_file(struct td_data_dir *dir, const char *name,
                          const struct hidden_file *added, int *count, struct td_error *err)
{
    const char *file = added->file;
    bool found;
    const bool of_several = td_data_file_is(file, TD_SAFETENSORS_SUFFIX);
    const int reason = td_data_file_exists(dir, file, &found);
    if (reason == EISDIR && of_several)
        return TD_OK; /* it holds no tensors */
    if (reason != 0)
        return td_data_disk_error(dir, file, reason, 0, err);
    if (found && of_several) {
        int others;
        const td_status status = count_others(dir, file, name, &others, err);
        if (status != TD_OK)
            return status;
        if (others > 0)
            return td_error_set(err, TD_FORBIDDEN,
                                "'%s' is in %s, which holds %d other tensors; remove the tensor "
                                "from that file first",
                                name, file, others);
        found = others == 0;
    }
    *count += found;
    return TD_OK;
}

static int served_last_first(const void *a, const void *b)
{
    const struct hidden_file *one = a, *other = b;
    return td_data_file_order(other->file, one->file);
}

/* Lists all files that contain the name. The file that is served comes last. */
static td_status find_files(struct td_data_dir *dir, const char *name, struct hidden_file *list,
                            int *count, struct td_error *err)
{
    td_status status = TD_OK;
    *count = 0;
    for (int place = 0; status == TD_OK && td_data_next_file(name, &place, list[*count].file);)
        status = add_file(dir, name, &list[*count], count, err);
    if (status == TD_OK)
        qsort(list, (size_t)*count, sizeof *list, served_last_first);
    return status;
}

/* Renames a hidden file back to its old name. Returns 0 or errno. */
static int restore(struct td_data_dir *dir, const struct hidden_file *item)
{
    return renameat(dir->folder.fd, item->hidden, dir->folder.fd, item->file) == 0 ? 0 : errno;
}

/* Restores all files except the served file. */
static void restore_others(struct td_data_dir *dir, const struct hidden_file *list, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        const int reason = restore(dir, &list[i]);
        if (reason != 0)
            td_log(dir->log, TD_LOG_WARN, "file_not_restored", TD_TEXT("file", list[i].file),
                   TD_TEXT("hidden", list[i].hidden), TD_TEXT("reason", strerror(reason)));
    }
}

/* Renames the files to hidden names. The served file comes last, so a single rename changes what is
 * served. Restores the files if the folder cannot be fsynced. */
static td_status hide(struct td_data_dir *dir, const char *name, struct hidden_file *list,
                      int count, bool *done, struct td_error *err)
{
    for (int i = 0; i < count; i++) {
        td_data_hidden_name(dir, list[i].hidden);
        if (renameat(dir->folder.fd, list[i].file, dir->folder.fd, list[i].hidden) != 0) {
            const int reason = errno;
            restore_others(dir, list, i);
            return td_data_disk_error(dir, list[i].file, reason, 0, err);
        }
    }
    *done = count == 0 || fsync(dir->folder.fd) == 0;
    if (*done)
        return TD_OK;
    const int reason = errno;
    *done = restore(dir, &list[count - 1]) != 0;
    if (*done)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s is deleted, but the data folder can be neither fsynced (%s) "
                            "nor restored, so a power failure might undo the deletion",
                            TD_NAMED(name), strerror(reason));
    restore_others(dir, list, count - 1);
    return td_data_disk_error(dir, list[count - 1].file, reason, 0, err);
}

/* Returns the number of files that can hold the name. */
static size_t count_files(const char *name)
{
    char file[TD_FILE_NAME];
    size_t n = 0;
    for (int place = 0; td_data_next_file(name, &place, file);)
        n++;
    return n;
}

/* Returns FORBIDDEN if the server did not write one of the files. */
static td_status check_own(const char *name, const struct hidden_file *list, int count,
                           struct td_error *err)
{
    for (int i = 0; i < count; i++)
        if (!td_data_file_is_own(list[i].file))
            return td_error_set(err, TD_FORBIDDEN, "'%s' is in %s, which the server did not write",
                                name, list[i].file);
    return TD_OK;
}

td_status td_data_dir_remove(struct td_data_dir *dir, const char *name, bool own_only, bool *had,
                             bool *done, struct td_error *err)
{
    int count = 0;
    *had = *done = false;
    struct hidden_file *list = calloc(count_files(name) + 1, sizeof *list);
    if (!list)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory to delete %s", TD_NAMED(name));
    td_data_hold(dir);
    td_status status = find_files(dir, name, list, &count, err);
    if (status == TD_OK && own_only)
        status = check_own(name, list, count, err);
    /* If no file exists, the lock is not needed. */
    if (status == TD_OK && count > 0)
        status = td_data_check_lock(dir, list[count - 1].file, 0, err);
    if (status == TD_OK)
        status = hide(dir, name, list, count, done, err);
    for (int i = 0; i < count && *done; i++) {
        td_data_remove_hidden(dir, list[i].hidden);
        td_data_log_removed(dir, list[i].file, name);
        if (td_data_file_is(list[i].file, TD_NPY_SUFFIX))
            td_data_remove_keys(dir, name);
    }
    *had = *done && count > 0;
    td_data_release(dir);
    free(list);
    return status;
}
