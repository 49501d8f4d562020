/* data_dir.h - the data folder: lists, maps, writes and removes tensor files.
 *
 * Formats    NAME.tensord       NAME; a safetensors file whose data is aligned to 64 bytes and
 *                               whose __metadata__ has "tensord" (the format, "1"), "dtype",
 *                               "shape" and "version". complex128 is stored as pairs of F64,
 *                               strings as "offsets" (U64, one more than there are strings) and
 *                               "bytes" (U8), so that all of them can be mapped. The offsets are
 *                               still copied into memory, since a mapped file may change after they
 *                               were checked. Of a table with keys there are also "keys.index" (U8,
 *                               the image of kernels/key_index/key_index.h) and "keys" (I64 or
 *                               U64), or "keys.offsets" and "keys.bytes"; "padding" (U8) before
 *                               them aligns them to 64 bytes.
 *                               "checksums" follows the data (checksums.h), and the metadata
 *                               "checksum" says how they are made; files of older servers have
 *                               neither.
 *            STEM.npy           STEM
 *            X.keys.npy         the keys of the rows in X.npy, of X@V.npy X.keys@V.npy: both
 *                               files are one source. load and stat of X.npy are of both.
 *            STEM.safetensors   STEM:w for each tensor w; of BASE@VERSION.safetensors
 *                               BASE:w@VERSION
 *            Hidden files are ignored; others are not read (scan_report.h).
 * Ownership  load returns tensors in the caller's arena, which holds the mappings. A tensor's owner
 *            keeps its mapping alive beyond the arena; it is NULL if the data had to be converted
 *            into the arena.
 * Lock       A change needs the lock of the folder (".tensord.lock"), which one process holds while
 *            it runs. Without it, files are listed and mapped, but not changed.
 * Crashes    A file is written under a hidden name, fsynced, renamed, and the folder fsynced; a
 *            file to be removed is renamed to a hidden name first. The process that takes the lock
 *            removes the hidden files that a crash left.
 * Access     Files get mode 0640, whatever the umask is. A written file is closed and opened again
 *            to be read before it gets its name: no descriptor or mapping can write to it.
 * Quota      The sizes of the NAME.tensord files, and of those being written. A write that would
 *            make their sum exceed the quota is refused before it writes; one that does not
 *            increase it never is.
 * Failures   A change of the folder that fails is undone. If the folder can neither be fsynced nor
 *            restored, the change stays, *done is true, and the error says so. Until the next
 *            successful fsync of the folder, a power failure may leave either state, each file of
 *            it complete.
 * Errors     RESOURCE_LIMIT (disk_bytes) for a full disk or an exceeded quota, FORBIDDEN for
 *            missing permissions, DEVICE_UNAVAILABLE for any other I/O error, DATA_DIR_LOCKED
 *            while another process holds the lock; all name the file and the reason.
 * Threads    Any. Callers serialize writes of the same name; list, stat, load and refresh are for
 *            one thread at a time. */
#ifndef TD_SERVER_STORE_DATA_DIR_H
#define TD_SERVER_STORE_DATA_DIR_H

#include "kernels/tensor.h"
#include "server/observe/log.h"
#include "server/store/files/checksums.h"
#include "server/store/table_name.h"

#include <stdint.h>

struct td_data_dir;

#define TD_FILE_NAME 256

/* Identifies the content of a file: a replaced file has another inode, a written one another
 * time of modification; the folder may be replaced by one on another device. */
struct td_file_id {
    uint64_t device, inode, size;
    int64_t modified_ns;
    uint64_t keys_device, keys_inode, keys_size; /* of the file of its keys; all zero for none */
    int64_t keys_modified_ns;
    int64_t changed_ns, keys_changed_ns; /* the last change of the inodes; td_file_id_touched */
    uint64_t ends, keys_ends; /* td_digest_ends of what was mapped; not compared, 0 before */
};
bool td_file_id_equal(const struct td_file_id *a, const struct td_file_id *b);

/* Whether equal files may differ all the same: a writer can restore the time of modification,
 * but no one can set that of the last change. A change of permissions, names or links sets that
 * as well. */
bool td_file_id_touched(const struct td_file_id *before, const struct td_file_id *now);

extern const struct td_file_id td_file_id_unknown; /* all zero */

/* Sets what it has of the file of the keys; that is td_file_id_unknown if there is none. */
void td_file_id_set_keys(struct td_file_id *id, const struct td_file_id *keys);

/* Whether a file was written in place between the two: what was mapped from it has changed. */
bool td_file_id_overwritten(const struct td_file_id *before, const struct td_file_id *now);

struct td_data_tensor {
    const char *name; /* td_name_valid may reject it */
    struct td_tensor tensor;
    struct td_tensor keys;    /* of its rows; data is NULL for none */
    const char *keys_refused; /* why its keys cannot be read; NULL if they can, or if it has none */
    const void *index; /* image of the index of the keys, mapped as they are; NULL for none */
    size_t index_bytes;
    int range;                     /* of the fault guard; -1 if nothing is mapped */
    int keys_range;                /* that of the keys, which may be in another file */
    uint64_t version;              /* as stored in NAME.tensord; otherwise 0 */
    struct td_checksums checksums; /* without digests if the file has none */
};

/* A tensor of a readable file that cannot be served. */
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

/* Opens the folder and tries to take its lock; if that fails, only a line is logged. `quota` is the
 * most bytes of NAME.tensord files, 0 for any number. With read_only nothing in the folder is
 * changed, and no lock is taken. NULL (logged) when the folder cannot be opened. */
struct td_data_dir *td_data_dir_open(const char *path, uint64_t quota, bool read_only,
                                     const struct td_log *log);
void td_data_dir_free(struct td_data_dir *dir); /* NULL is fine */

/* Opens the folder that the path leads to now, if that is another one, and tries to take the lock
 * if it is not held. *changed: the folder was replaced, or the lock was taken; then the files may
 * have changed. False (logged) if the folder cannot be opened. If the path leads nowhere, or to
 * another folder that is empty while the open one has files, that stays open, and changes are
 * refused from then on. */
TD_MUST_CHECK bool td_data_dir_refresh(struct td_data_dir *dir, bool *changed);

/* Ends the message about a lock file that alone keeps the server from changing the folder. */
#define TD_LOCK_WAY_OUT                                                                            \
    "while no server changes the folder, remove .tensord.lock from it, or, if that is a file, "    \
    "let "                                                                                         \
    "the server's user write to it"

/* Whether a process that starts now could change a folder. */
struct td_data_access {
    int denied;     /* an errno if it lacks the permission, otherwise 0 */
    bool only_lock; /* it lacks that for the lock file alone */
    bool locked;    /* another process holds the lock */
    long holder;    /* then its process id; 0 if unknown */
};

/* Changes nothing; the lock is tried for a moment without waiting. 0, or errno if the folder cannot
 * be opened. */
int td_data_dir_probe(const char *path, struct td_data_access *out);

/* Whether a file of this name is loaded, by its suffix. */
bool td_data_file_wanted(const char *name);

/* The name of the file of the keys of a file's table: "m.keys@v.npy" of "m@v.npy". False for other
 * files. And the other way round. */
bool td_data_keys_file(const char *file, char keys[TD_FILE_NAME]);
bool td_data_table_of_keys_file(const char *file, char table[TD_FILE_NAME]);

/* Gives the table of one .npy file the keys in the other one. MALFORMED_REQUEST if they do not
 * fit. */
TD_MUST_CHECK td_status td_data_join_keys(struct td_data_content *table,
                                          const struct td_data_content *keys, const char *keys_file,
                                          struct td_error *err);

/* Whether changes are possible as far as the lock is concerned. */
bool td_data_dir_is_locked(struct td_data_dir *dir);

/* The error of changing the file of a name without the lock. */
TD_MUST_CHECK td_status td_data_dir_check_change(struct td_data_dir *dir, const char *name,
                                                 struct td_error *err);

/* Compares like strcmp: if two files hold the same name, the earlier one is served. NAME.tensord
 * comes before the others, each group sorted by name. */
int td_data_file_order(const char *file, const char *other);

/* The names of the tensor files, in that order; free() the list. False (logged) if the folder
 * cannot be read. */
bool td_data_dir_list(struct td_data_dir *dir, char (**files)[TD_FILE_NAME], int *count);

/* Calls `visit` for each other entry that is not hidden, in any order; a link is what it leads to.
 * Nothing if they cannot be read. */
void td_data_dir_others(struct td_data_dir *dir,
                        void (*visit)(void *context, const char *name, bool is_folder),
                        void *context);

/* Reads the first bytes of a regular file, at most `size`, and returns how many; 0 if it cannot be
 * read. */
size_t td_data_dir_peek(struct td_data_dir *dir, const char *name, void *bytes, size_t size);

/* Whether the file exists; sets *id if it does. */
typedef enum {
    TD_FILE_PRESENT,
    TD_FILE_GONE,   /* the folder does not have the name */
    TD_FILE_UNKNOWN /* stat failed: so it does for a link that leads nowhere */
} td_file_state;
td_file_state td_data_dir_stat(struct td_data_dir *dir, const char *file, struct td_file_id *id);

/* True if the folder no longer has the name, not even as a link that leads nowhere. */
bool td_data_dir_has_gone(const struct td_data_dir *dir, const char *file);

/* DEVICE_UNAVAILABLE or MEMORY_EXHAUSTED if the file, or that of its keys, cannot be opened now, as
 * after a change of its permissions. */
TD_MUST_CHECK td_status td_data_dir_check_read(struct td_data_dir *dir, const char *file,
                                               struct td_error *err);

/* Maps a file, with that of its keys if there is one, and reads its header; compares no checksum.
 * MALFORMED_REQUEST if its content does not match its format, MEMORY_EXHAUSTED, or
 * DEVICE_UNAVAILABLE if it cannot be read. */
TD_MUST_CHECK td_status td_data_dir_load(struct td_data_dir *dir, const char *file,
                                         struct td_arena *arena, struct td_data_content *out,
                                         struct td_error *err);

/* The bytes of the files that count against the quota; 0 if there is none. */
uint64_t td_data_dir_counted_bytes(struct td_data_dir *dir);

/* RESOURCE_LIMIT if the quota or the disk has no room for a file of `bytes` bytes in place of
 * NAME.tensord; the write, whose file is a little larger, checks again. */
TD_MUST_CHECK td_status td_data_dir_admit(struct td_data_dir *dir, const char *name, uint64_t bytes,
                                          struct td_error *err);

/* Writes NAME.tensord, with the keys of the rows and their index unless `keys` is NULL, returns
 * what load would, and removes the NAME.npy that it replaces, with the file of its keys. `ranges`
 * are the fault guard's ranges of the tensor and of its keys, -1 for none: a truncated source is
 * not written, nor is a file whose writing arena->stop ends. *done: the folder has the new file,
 * always so on success. */
TD_MUST_CHECK td_status td_data_dir_write(struct td_data_dir *dir, const char *name,
                                          const struct td_tensor *tensor,
                                          const struct td_tensor *keys, const int *ranges,
                                          uint64_t version, struct td_arena *arena,
                                          struct td_data_content *out, bool *done,
                                          struct td_error *err);

/* Removes every file that holds `name`, and NAME.keys.npy. FORBIDDEN, and nothing is removed, if
 * one of them holds other tensors as well, or, with `own_only`, is not NAME.tensord. Each file that
 * is removed has a log line, file_removed. *done: they are removed, always so on success. *had:
 * there were files, and they are removed. */
TD_MUST_CHECK td_status td_data_dir_remove(struct td_data_dir *dir, const char *name, bool own_only,
                                           bool *had, bool *done, struct td_error *err);

/* A text file of the folder, aliases.json. read: *text is malloc'ed and ends in NUL; NULL if there
 * is no such name, not even as a link that leads nowhere. RESOURCE_LIMIT if it has more than `most`
 * bytes. write is as td_data_dir_write; *id is that of the new file. */
#define TD_ALIASES_FILE "aliases.json"
TD_MUST_CHECK td_status td_data_dir_read_text(struct td_data_dir *dir, const char *file,
                                              size_t most, char **text, size_t *bytes,
                                              struct td_file_id *id, struct td_error *err);
TD_MUST_CHECK td_status td_data_dir_write_text(struct td_data_dir *dir, const char *file,
                                               const char *text, size_t bytes,
                                               struct td_file_id *id, bool *done,
                                               struct td_error *err);

/* ---- sub-folders, whose content may be hostile: no link is followed ---- */

/* The names of the sub-folders that are valid versions, not hidden; free() the list. False (logged)
 * if the folder cannot be read. */
TD_MUST_CHECK bool td_data_dir_folders(struct td_data_dir *dir, char (**names)[TD_FILE_NAME],
                                       int *count);

/* Opens a sub-folder that has this file; close() the descriptor, -1 unless TD_FILE_PRESENT.
 * *reason: the errno of TD_FILE_UNKNOWN. */
td_file_state td_data_dir_open_folder(struct td_data_dir *dir, const char *name, const char *file,
                                      int *folder, int *reason);

/* As td_data_dir_check_read of one file, td_data_dir_stat, td_data_dir_read_text and
 * td_data_dir_load. load reads the file as if it had the
 * name `versioned`, and is MALFORMED_REQUEST if it has not `size` bytes; the arena keeps the
 * mapping. */
struct td_mapped_bytes {
    const void *data;
    size_t size;
    int range; /* of the fault guard */
};
/* The names of its tensor files; free() the list. False if it cannot be read. */
TD_MUST_CHECK bool td_data_folder_list(int folder, char (**files)[TD_FILE_NAME], int *count);
TD_MUST_CHECK td_status td_data_folder_check_read(int folder, const char *file,
                                                  struct td_error *err);
td_file_state td_data_folder_stat(int folder, const char *file, struct td_file_id *id);
TD_MUST_CHECK td_status td_data_folder_read_text(int folder, const char *file, size_t most,
                                                 char **text, size_t *bytes, struct td_file_id *id,
                                                 struct td_error *err);
TD_MUST_CHECK td_status td_data_folder_load(int folder, const char *file, const char *versioned,
                                            uint64_t size, struct td_arena *arena,
                                            struct td_data_content *out,
                                            struct td_mapped_bytes *bytes, struct td_error *err);

#endif
