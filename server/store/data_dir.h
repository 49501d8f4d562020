/* data_dir.h - the data folder: which files it has, what they hold, and writing into it.
 *
 * Kinds      NAME.tensord       NAME; a safetensors file of ours, its data aligned to 64 bytes, whose
 *                               __metadata__ has "tensord" (the form, "1"), "dtype", "shape" and
 *                               "version". complex128 is stored as pairs of F64, strings as
 *                               "offsets" (U64, one more than there are strings) and "bytes" (U8),
 *                               so that all of them can be mapped. The offsets are copied into
 *                               memory all the same, as what is computed with must not change.
 *            STEM.npy           STEM
 *            STEM.safetensors   STEM:w for each tensor w
 *            Hidden files and all others are passed over in silence.
 * Ownership  What load gives lies in the caller's arena, which holds the mappings; a tensor's owner
 *            keeps its mapping, for those who want to hold it longer, and NULL where the bytes are in
 *            the arena, since they had to be converted.
 * Crashes    A file is written under a hidden name, fsynced, renamed, and the folder fsynced; one
 *            that is removed gets a hidden name first. Hidden files that a crash left are removed by
 *            open, but for those that another process is about to write.
 * Failures   A change of the folder that fails is undone: the folder shows what it showed before.
 *            Where the folder cannot be fsynced and the change cannot be undone either, it stays,
 *            *done is true, and the error says so. Until the next fsync of the folder that succeeds,
 *            a power failure may bring either state about, each file of it whole.
 * Errors     RESOURCE_LIMIT (disk_bytes) for a full disk or an exceeded quota, FORBIDDEN where the
 *            system does not let us write, DEVICE_UNAVAILABLE for everything else a disk can do;
 *            all name the file and the system's reason.
 * Threads    Any. Those who write the same name agree among themselves. */
#ifndef TD_SERVER_STORE_DATA_DIR_H
#define TD_SERVER_STORE_DATA_DIR_H

#include "kernels/tensor.h"
#include "server/observe/log.h"

#include <stdint.h>

struct td_data_dir;

#define TD_FILE_NAME   256
#define TD_TENSOR_NAME 129 /* with its NUL */

/* Tells one content of a name from another: a file that is replaced gets another inode, one that is
 * written another time of change. */
struct td_file_id {
    uint64_t inode, size;
    int64_t changed_ns;
};

struct td_data_tensor {
    const char *name; /* may be one that td_name_valid refuses */
    struct td_tensor tensor;
    int range;        /* of the fault guard; -1 where nothing is mapped */
    uint64_t version; /* that it was stored as; 0 in files that are not ours */
};

struct td_data_content {
    struct td_file_id id;
    struct td_data_tensor *tensors;
    int count;
};

/* [A-Za-z0-9._:-]{1,128}, no dot first. */
bool td_name_valid(const char *name);

/* NULL (logged) when the folder cannot be read. */
struct td_data_dir *td_data_dir_open(const char *path, const struct td_log *log);
void td_data_dir_free(struct td_data_dir *dir); /* NULL is fine */

/* The order of files, as of strcmp: where two give the same name, the earlier one is served. Ours come
 * first, then the others, each in the order of their names. */
int td_data_file_order(const char *file, const char *other);

/* The names of the files that hold tensors, in that order; free() the list. False (logged) when the
 * folder cannot be read. */
bool td_data_dir_list(struct td_data_dir *dir, char (**files)[TD_FILE_NAME], int *count);

/* Is there such a file? *id is set where it is. */
typedef enum {
    TD_FILE_THERE,
    TD_FILE_GONE,
    TD_FILE_UNKNOWN /* the system does not tell */
} td_look;
td_look td_data_dir_look(struct td_data_dir *dir, const char *file, struct td_file_id *id);

/* Maps a file and reads its header. MALFORMED_REQUEST for what is not as its name says,
 * MEMORY_EXHAUSTED, or DEVICE_UNAVAILABLE where the system does not let us read it. */
TD_MUST_CHECK td_status td_data_dir_load(struct td_data_dir *dir, const char *file,
                                         struct td_arena *arena, struct td_data_content *out,
                                         struct td_error *err);

/* Is there room for a tensor of so many bytes? */
TD_MUST_CHECK td_status td_data_dir_admit(struct td_data_dir *dir, uint64_t bytes,
                                          struct td_error *err);

/* Writes NAME.tensord, which then is what load would give, and removes the NAME.npy that it takes
 * the place of. `range` is that of the fault guard in which the tensor lies, -1 for none: one that
 * was cut short is not written. *done: the folder has the new file, as it has where this succeeds. */
TD_MUST_CHECK td_status td_data_dir_write(struct td_data_dir *dir, const char *name,
                                          const struct td_tensor *tensor, int range,
                                          uint64_t version, struct td_arena *arena,
                                          struct td_data_content *out, bool *done,
                                          struct td_error *err);

/* Removes every file that would bring `name` back. FORBIDDEN, and nothing is removed, when one of
 * them holds other tensors as well. *done: they are gone, as they are where this succeeds. */
TD_MUST_CHECK td_status td_data_dir_forget(struct td_data_dir *dir, const char *name, bool *done,
                                           struct td_error *err);

#endif
