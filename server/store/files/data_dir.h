/* data_dir.h - the data folder: lists, maps, writes and removes tensor files.
 *
 * Formats    NAME.tensord       Holds the tensor NAME. It is a safetensors file whose data is
 *                               aligned to 64 bytes and whose __metadata__ has "tensord" (the
 *                               format, "1"), "dtype", "shape" and "version". complex128 is stored
 *                               as pairs of F64. Strings are stored as "offsets" (U64, one more
 *                               than there are strings) and "bytes" (U8). All dtypes can therefore
 *                               be mapped. The offsets are still copied into memory, because a
 *                               mapped file can change after they were checked. A table with keys
 *                               also has "keys.index" (U8, the image of
 *                               kernels/key_index/key_index.h) and "keys" (I64 or U64), or
 *                               "keys.offsets" and "keys.bytes". "padding" (U8) before them aligns
 *                               them to 64 bytes. "checksums" follows the data (checksums.h), and
 *                               the metadata "checksum" names the kind of checksum. Files of older
 *                               servers have neither checksums nor this metadata.
 *            NAME.program.json  Holds the tensor NAME.program: a vector of uint8, the text of a
 *                               program. The text is copied into the arena, not mapped.
 *            X.keys.npy         This file of keys and X.npy are one source: load and stat of X.npy
 *                               include X.keys.npy. data_dir_index.c stores the index of the keys.
 *            file_name.h has the rules for the names of these and other files.
 * Ownership  load returns tensors in the caller's arena, which holds the mappings. A tensor's owner
 *            keeps the tensor's mapping alive beyond the arena. The owner is NULL if the data had
 *            to be converted into the arena.
 * Lock       A change needs the lock of the folder (".tensord.lock"), which one process holds while
 *            it runs. Without the lock, files can be listed and mapped, but not changed.
 * Crashes    A file is written under a hidden name, fsynced and renamed; then the folder is
 *            fsynced. To remove a file, the server first renames it to a hidden name. The process
 *            that takes the lock removes the hidden files that a crash left.
 * Access     Files get mode 0640, regardless of the umask. A written file is closed, and opened
 *            again for reading, before it gets its name. No descriptor or mapping can therefore
 *            write to it.
 * Quota      The sizes of the NAME.tensord and NAME.program.json files count, including files that
 *            are being written. A write that would make the sum exceed the quota is refused before
 *            it starts. A write that does not increase the sum is never refused.
 * Failures   A failed change of the folder is undone. If the folder can be neither fsynced nor
 *            restored, the change remains, *done is true, and the error says so. Until the next
 *            successful fsync of the folder, a power failure can leave either state. Each file is
 *            complete in both states.
 * Errors     RESOURCE_LIMIT (disk_bytes) for a full disk or an exceeded quota, FORBIDDEN for
 *            missing permissions, DATA_DIR_LOCKED while another process holds the lock, and
 *            DEVICE_UNAVAILABLE for any other I/O error. All errors name the file and the reason.
 * Threads    Any. The caller serializes writes of the same name, and calls list, stat, load and
 *            refresh on one thread at a time. */
#ifndef TD_SERVER_STORE_DATA_DIR_H
#define TD_SERVER_STORE_DATA_DIR_H

#include "kernels/tensor.h"
#include "server/observe/log.h"
#include "server/store/files/checksums.h"
#include "server/store/files/file_name.h"
#include "server/store/table_name.h"

#include <stdint.h>

struct td_data_dir;

/* Identifies the content of a file. Replacing a file changes its inode, and writing to it changes
 * its modification time. The device is included because the folder can be replaced by a folder on
 * another device. */
struct td_file_id {
    uint64_t device, inode, size;
    int64_t modified_ns;
    /* The same members for the file of the keys. All are zero if the keys have no file. */
    uint64_t keys_device, keys_inode, keys_size;
    int64_t keys_modified_ns;
    /* Times when the inodes last changed; see td_file_id_touched. */
    int64_t changed_ns, keys_changed_ns;
    /* td_digest_ends of the mapped files, or 0 before they are mapped. Not compared. */
    uint64_t ends, keys_ends;
};
bool td_file_id_equal(const struct td_file_id *a, const struct td_file_id *b);

/* True if the content might have changed although the ids are equal. A writer can restore the
 * modification time of a file, but not the time when the inode last changed. Changes of
 * permissions, names or links also set that time. */
bool td_file_id_touched(const struct td_file_id *before, const struct td_file_id *now);

extern const struct td_file_id td_file_id_unknown; /* all zero */

/* Sets the members of *id that describe the file of the keys. `keys` is td_file_id_unknown if that
 * file does not exist. */
void td_file_id_set_keys(struct td_file_id *id, const struct td_file_id *keys);

/* True if a file was written in place between the two ids, so the mapped bytes have changed. */
bool td_file_id_overwritten(const struct td_file_id *before, const struct td_file_id *now);

struct td_data_tensor {
    /* Name of the tensor, which is not necessarily valid (td_name_valid). */
    const char *name;
    struct td_tensor tensor;
    /* Keys of the rows. `data` is NULL if there are no keys. */
    struct td_tensor keys;
    /* Reason that the keys cannot be read, or NULL if they can be read or do not exist. */
    const char *keys_refused;
    /* Image of the keys' index, mapped like the keys, or NULL. */
    const void *index;
    size_t index_bytes;
    /* Range of the fault guard, or -1 if nothing is mapped. */
    int range;
    /* Range of the fault guard for the keys, which can be in another file. */
    int keys_range;
    /* Version number stored in NAME.tensord, or 0 for other kinds of file. */
    uint64_t version;
    /* Checksums of the file. Empty if the file has none. */
    struct td_checksums checksums;
};

/* A tensor that cannot be served although its file is readable. */
struct td_data_unreadable {
    const char *name;
    const char *why;
};

struct td_data_content {
    struct td_file_id id;
    struct td_data_tensor *tensors;
    int count;
    struct td_data_unreadable *unreadable;
    int n_unreadable;
};

/* Opens the folder and tries to take its lock. Failure to take the lock is only logged. `quota` is
 * the maximum total size of the files that count, or 0 for no limit. With `read_only`, changes
 * nothing in the folder and takes no lock. Returns NULL, and logs the reason, if the folder cannot
 * be opened. */
struct td_data_dir *td_data_dir_open(const char *path, uint64_t quota, bool read_only,
                                     const struct td_log *log);
void td_data_dir_free(struct td_data_dir *dir); /* NULL is allowed */

/* If the path now leads to another folder, opens that folder. Tries to take the lock if this
 * process does not hold it. Sets *changed to true if the folder was replaced or the lock was taken,
 * because the files might have changed. Returns false, and logs the reason, if the folder cannot be
 * opened. If the path leads nowhere, or to an empty folder although the open folder has files, the
 * open folder stays open and changes are refused from then on. */
TD_MUST_CHECK bool td_data_dir_refresh(struct td_data_dir *dir, bool *changed);

/* End of the error message if the lock file is the only obstacle to changing the folder. */
#define TD_LOCK_WAY_OUT                                                                            \
    "while no server changes the folder, remove .tensord.lock from it; if .tensord.lock is a "     \
    "file, you can let the server's user write to it instead"

/* Reasons why a process that starts now could not change a folder. */
struct td_data_access {
    /* errno if the process does not have the permission, otherwise 0. */
    int denied;
    /* True if permission is missing only for the lock file. */
    bool only_lock;
    /* Another process holds the lock. */
    bool locked;
    /* Process id of the process that holds the lock, or 0 if unknown. */
    long holder;
};

/* Finds out whether a folder could be changed, without changing it. Tries the lock for a moment,
 * without waiting. Returns 0, or errno if the folder cannot be opened. */
int td_data_dir_probe(const char *path, struct td_data_access *out);

/* Adds the keys in one .npy file to the table in another .npy file. Returns MALFORMED_REQUEST if
 * the keys do not fit the table. */
TD_MUST_CHECK td_status td_data_join_keys(struct td_data_content *table,
                                          const struct td_data_content *keys, const char *keys_file,
                                          struct td_error *err);

/* True if the lock allows changes, which means that this process holds the lock and the path still
 * leads to the folder. */
bool td_data_dir_is_locked(struct td_data_dir *dir);

/* Returns an error if the file of a name cannot be changed because this process does not hold the
 * lock. */
TD_MUST_CHECK td_status td_data_dir_check_change(struct td_data_dir *dir, const char *name,
                                                 struct td_error *err);

/* Lists the names of the tensor files in the order of td_data_file_order. The caller frees the list
 * with free(). Returns false, and logs the reason, if the folder cannot be read. */
bool td_data_dir_list(struct td_data_dir *dir, char (**files)[TD_FILE_NAME], int *count);

/* Lists the names of the entries that a scan looks at after the tensor files, in any order: the
 * files of keys, everything that might be a folder, and other entries that are not tensor files.
 * Excludes hidden entries and aliases.json. The caller frees the list with free(). Returns false,
 * and logs the reason, if the folder cannot be read. */
bool td_data_dir_list_others(struct td_data_dir *dir, char (**names)[TD_FILE_NAME], int *count);

/* True if the entry is a folder or a link to a folder. */
bool td_data_dir_is_folder(struct td_data_dir *dir, const char *name);

/* Reads at most `size` bytes from the start of a regular file. Returns the number of bytes read, or
 * 0 if the file cannot be read. */
size_t td_data_dir_peek(struct td_data_dir *dir, const char *name, void *bytes, size_t size);

/* Returns the state of a file, and sets *id if the file exists. */
typedef enum {
    TD_FILE_PRESENT,
    /* The folder has no entry of this name. */
    TD_FILE_GONE,
    /* stat failed, for example for a dangling link. */
    TD_FILE_UNKNOWN
} td_file_state;
td_file_state td_data_dir_stat(struct td_data_dir *dir, const char *file, struct td_file_id *id);

/* True if the folder has no entry of this name, not even a dangling link. */
bool td_data_dir_has_gone(const struct td_data_dir *dir, const char *file);

/* Returns DEVICE_UNAVAILABLE or MEMORY_EXHAUSTED if the file, or the file of its keys, cannot be
 * opened now, for example after a change of permissions. */
TD_MUST_CHECK td_status td_data_dir_check_read(struct td_data_dir *dir, const char *file,
                                               struct td_error *err);

/* Maps a file and reads its header. If `with_keys` is true, does the same with the file of its
 * keys, if that exists. Sorts the tensors by their names in the file. Does not verify checksums.
 * Returns MALFORMED_REQUEST if the content does not match the format, MEMORY_EXHAUSTED, or
 * DEVICE_UNAVAILABLE if a file cannot be read. */
TD_MUST_CHECK td_status td_data_dir_load(struct td_data_dir *dir, const char *file, bool with_keys,
                                         struct td_arena *arena, struct td_data_content *out,
                                         struct td_error *err);

/* Returns the total size of the files that count against the quota, or 0 without a quota. */
uint64_t td_data_dir_counted_bytes(struct td_data_dir *dir);

/* Returns RESOURCE_LIMIT if the quota or the disk has no room for a file of `bytes` bytes in place
 * of the server's own file of the name. td_data_dir_write checks again, because a NAME.tensord is
 * slightly larger. */
TD_MUST_CHECK td_status td_data_dir_admit(struct td_data_dir *dir, const char *name, uint64_t bytes,
                                          struct td_error *err);

/* Writes NAME.tensord, with the keys of the rows and their index unless `keys` is NULL. For the
 * name of a program, writes the text to NAME.program.json, and returns MALFORMED_REQUEST if the
 * text is not a program. Sets *out like td_data_dir_load. Removes the NAME.npy that the new file
 * replaces, and the file of its keys. `ranges` are the fault guard's ranges of the tensor, of its
 * keys and of their index, or -1. Writes no file if a source was truncated, or if arena->stop ends
 * the writing. *done is true if the folder has the new file, as always on success. */
TD_MUST_CHECK td_status td_data_dir_write(struct td_data_dir *dir, const char *name,
                                          const struct td_tensor *tensor,
                                          const struct td_tensor *keys, const int *ranges,
                                          uint64_t version, struct td_arena *arena,
                                          struct td_data_content *out, bool *done,
                                          struct td_error *err);

/* Removes every file that holds `name`, and NAME.keys.npy. Returns FORBIDDEN, and removes nothing,
 * if one of the files also holds other tensors or, with `own_only`, is not of a kind that the
 * server writes. Logs file_removed for each removed file. *done is true if the files are removed,
 * which is always the case on success. *had is true if files existed and are removed. */
TD_MUST_CHECK td_status td_data_dir_remove(struct td_data_dir *dir, const char *name, bool own_only,
                                           bool *had, bool *done, struct td_error *err);

/* Read and write a text file of the folder, aliases.json. td_data_dir_read_text sets *text to a
 * malloc'ed, NUL-terminated string. *text is NULL if the folder has no entry of this name, not even
 * a dangling link. Returns RESOURCE_LIMIT if the file has more than `most` bytes.
 * td_data_dir_write_text is like td_data_dir_write, and sets *id to the identity of the new
 * file. */
TD_MUST_CHECK td_status td_data_dir_read_text(struct td_data_dir *dir, const char *file,
                                              size_t most, char **text, size_t *bytes,
                                              struct td_file_id *id, struct td_error *err);
TD_MUST_CHECK td_status td_data_dir_write_text(struct td_data_dir *dir, const char *file,
                                               const char *text, size_t bytes,
                                               struct td_file_id *id, bool *done,
                                               struct td_error *err);

/* ---- stored indices: an index that the server builds for X.keys.npy is stored once ---- */

/* True if the server stores the index of these keys: at least 65,536 integers in a file X.keys.npy
 * of the data folder itself. */
bool td_data_stores_index(const char *keys_file, const struct td_tensor *keys);

/* Maps the stored index of a file of keys, whose mapped content is `keys`. Returns the mapping, to
 * which the caller gets a reference, and its range of the fault guard. Returns NULL if no index is
 * stored, or if the stored index cannot be used, which is logged. Reads the index and the keys, to
 * compare their digests. */
struct td_key_index;
struct td_buffer *td_data_dir_map_index(struct td_data_dir *dir, const char *keys_file,
                                        const struct td_tensor *keys, struct td_key_index *out,
                                        int *range);

/* Returns the digest of keys, for td_data_dir_store_index. */
uint64_t td_data_keys_digest(const struct td_tensor *keys);

/* Stores an index, if this process can change the folder. `digest` is that of the keys before the
 * index was built: if the file was changed in the meantime, the index is not stored. Logs the
 * result. Returns false if the index was not stored, which has no other effect. */
bool td_data_dir_store_index(struct td_data_dir *dir, const char *keys_file,
                             const struct td_key_index *index, uint64_t digest);

/* ---- sub-folders: their content can be hostile, so no link is followed ---- */

/* Opens a sub-folder that contains `file`. The caller closes the descriptor, which is -1 unless the
 * result is TD_FILE_PRESENT. *reason is the errno of TD_FILE_UNKNOWN. */
td_file_state td_data_dir_open_sub_folder(struct td_data_dir *dir, const char *name,
                                          const char *file, int *folder, int *reason);

/* These functions are like the functions of the same name for the data folder, but ignore the file
 * of keys. td_sub_folder_load reads the file as if it were named `versioned`. It returns
 * MALFORMED_REQUEST if the size of the file is not `size` bytes. The arena keeps the mapping. */
struct td_mapped_bytes {
    const void *data;
    size_t size;
    int range; /* range of the fault guard */
};
/* Lists the names of the tensor files in a sub-folder. The caller frees the list with free().
 * Returns false if the sub-folder cannot be read. */
TD_MUST_CHECK bool td_sub_folder_list(int folder, char (**files)[TD_FILE_NAME], int *count);
TD_MUST_CHECK td_status td_sub_folder_check_read(int folder, const char *file,
                                                 struct td_error *err);
td_file_state td_sub_folder_stat(int folder, const char *file, struct td_file_id *id);
TD_MUST_CHECK td_status td_sub_folder_read_text(int folder, const char *file, size_t most,
                                                char **text, size_t *bytes, struct td_file_id *id,
                                                struct td_error *err);
TD_MUST_CHECK td_status td_sub_folder_load(int folder, const char *file, const char *versioned,
                                           uint64_t size, struct td_arena *arena,
                                           struct td_data_content *out,
                                           struct td_mapped_bytes *bytes, struct td_error *err);

#endif
