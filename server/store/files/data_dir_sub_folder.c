/* Sub-folders of the data folder. Each sub-folder holds the files of one version. The content can
 * be hostile, so no link is followed, and properties are read only from files that are already
 * open. */
#include "server/config/read_error.h"
#include "server/store/files/data_dir_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

td_file_state td_data_dir_open_sub_folder(struct td_data_dir *dir, const char *name,
                                          const char *file, int *folder, int *reason)
{
    struct stat info;
    *folder = openat(dir->folder.fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *reason = *folder < 0 ? errno : 0;
    if (*folder < 0)
        return *reason == ENOENT || *reason == ENOTDIR || *reason == ELOOP ? TD_FILE_GONE
                                                                           : TD_FILE_UNKNOWN;
    if (fstatat(*folder, file, &info, AT_SYMLINK_NOFOLLOW) == 0)
        return TD_FILE_PRESENT;
    *reason = errno;
    close(*folder);
    *folder = -1;
    return *reason == ENOENT ? TD_FILE_GONE : TD_FILE_UNKNOWN;
}

static td_status unreadable(int reason, struct td_error *err)
{
    char text[TD_READ_ERROR];
    return reason == ELOOP ? td_error_set(err, TD_MALFORMED_REQUEST,
                                          "it is a symbolic link, which is not followed")
                           : td_error_set(err, TD_DEVICE_UNAVAILABLE, "it cannot be read: %s",
                                          td_read_error(NULL, reason, text));
}

/* Opens a file for reading. Returns -1, with errno set, on failure. Without O_NONBLOCK, opening a
 * FIFO would block until the FIFO has a writer. */
static int open_file(int folder, const char *file)
{
    return openat(folder, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

td_status td_sub_folder_check_read(int folder, const char *file, struct td_error *err)
{
    const int fd = open_file(folder, file);
    if (fd < 0)
        return unreadable(errno, err);
    close(fd);
    return TD_OK;
}

td_status td_sub_folder_load(int folder, const char *file, const char *versioned, uint64_t size,
                             struct td_arena *arena, struct td_data_content *out,
                             struct td_mapped_bytes *bytes, struct td_error *err)
{
    *out = (struct td_data_content){ 0 };
    const int fd = open_file(folder, file);
    if (fd < 0)
        return unreadable(errno, err);
    struct td_mapping *mapping = td_mapping_new(fd, &out->id, err);
    close(fd);
    if (!mapping)
        return err->status;
    *bytes = (struct td_mapped_bytes){ mapping->base.data, mapping->base.size, mapping->range };
    if (out->id.size == size)
        return td_mapping_read(mapping, versioned, arena, out, err);
    td_buffer_unref(&mapping->base);
    return td_error_set(err, TD_MALFORMED_REQUEST,
                        "its size is %" PRIu64 " bytes, but %" PRIu64 " in the manifest",
                        out->id.size, size);
}

td_file_state td_sub_folder_stat(int folder, const char *file, struct td_file_id *id)
{
    struct stat info;
    if (fstatat(folder, file, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? TD_FILE_GONE : TD_FILE_UNKNOWN;
    *id = td_data_id_of(&info);
    return TD_FILE_PRESENT;
}
