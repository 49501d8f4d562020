/* data_dir_internal.h - private to data_dir*.c.
 *
 *     data_dir.c         opening, listing, stat, hidden files
 *     data_dir_read.c    mapping a file and reading its header
 *     data_dir_write.c   writing a file and mapping it
 *     data_dir_remove.c  removing the files of a name
 *
 * Threads    Only the atomic changes after td_data_dir_open. */
#ifndef TD_SERVER_STORE_DATA_DIR_INTERNAL_H
#define TD_SERVER_STORE_DATA_DIR_INTERNAL_H

#include "server/store/data_dir.h"

#include <sys/stat.h>

#include <stdatomic.h>

#define TD_OWN_SUFFIX         ".tensord"
#define TD_NPY_SUFFIX         ".npy"
#define TD_SAFETENSORS_SUFFIX ".safetensors"
#define TD_TEMPORARY_PREFIX   ".tensord-tmp-"

struct td_data_dir {
    char *path;
    const struct td_log *log;
    int fd;
    uint64_t seed;                    /* of hidden names: process ids repeat across containers */
    atomic_uint_fast64_t temporaries; /* numbers their names */
};

/* Whether the file name ends with the suffix, after at least one other character. */
bool td_data_file_is(const char *name, const char *suffix);

struct td_file_id td_data_id_of(const struct stat *info);

/* The error for errno `reason` of changing a file, or of writing one of `bytes`. */
td_status td_data_disk_error(const struct td_data_dir *dir, const char *file, int reason,
                             uint64_t bytes, struct td_error *err);

/* A unique name for a hidden file. */
enum { TD_HIDDEN_NAME = 64 };
void td_data_hidden_name(struct td_data_dir *dir, char name[TD_HIDDEN_NAME]);

/* A failure is logged; the next start tries again. */
void td_data_remove_hidden(struct td_data_dir *dir, const char *name);

/* Whether it is a regular file. Returns 0, or errno if stat fails for another reason than
 * ENOENT. */
int td_data_file_exists(struct td_data_dir *dir, const char *file, bool *found);

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
