/* data_dir_parts.h - what the files of the data folder's module share.
 *
 *     data_dir.c        opening, listing, looking
 *     data_dir_read.c   mapping a file and reading its header
 *     data_dir_write.c  writing and removing files; maps what it writes
 *
 * Threads    Nothing changes after td_data_dir_open but the atomic. */
#ifndef TD_SERVER_STORE_DATA_DIR_PARTS_H
#define TD_SERVER_STORE_DATA_DIR_PARTS_H

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
    atomic_uint_fast64_t temporaries; /* numbers their names */
};

/* Does the name of a file end with the suffix, after at least one other character? */
bool td_data_file_is(const char *name, const char *suffix);

struct td_file_id td_data_id_of(const struct stat *info);

/* A mapped file; each tensor in it holds a reference. */
struct mapping {
    struct td_buffer base; /* first: release casts back */
    int range;
};

/* Maps an open file; NULL with *why set. */
struct mapping *td_mapping_new(int fd, struct td_file_id *id, const char **why);

/* Reads what is mapped as what the file's name says. Takes the caller's reference for the arena. */
TD_MUST_CHECK td_status td_mapping_read(struct mapping *mapping, const char *file,
                                        struct td_arena *arena, struct td_data_content *out,
                                        struct td_error *err);

#endif
