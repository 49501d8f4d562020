/* data_dir_internal.h - what the files of the data folder's module share.
 *
 *     data_dir.c         opening, listing, looking, hidden files
 *     data_dir_read.c    mapping a file and reading its header
 *     data_dir_write.c   writing a file, which it maps
 *     data_dir_forget.c  removing the files of a name
 *
 * Threads    Nothing changes after td_data_dir_open but the atomic. */
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
    uint64_t seed;                    /* of hidden names: process ids repeat among containers */
    atomic_uint_fast64_t temporaries; /* numbers their names */
};

/* Does the name of a file end with the suffix, after at least one other character? */
bool td_data_file_is(const char *name, const char *suffix);

struct td_file_id td_data_id_of(const struct stat *info);

/* What the system said about changing a file, or writing one of `bytes`. */
td_status td_data_disk_error(const struct td_data_dir *dir, const char *file, int reason,
                             uint64_t bytes, struct td_error *err);

/* A name for a hidden file, unlike any other. */
enum { TD_HIDDEN_NAME = 64 };
void td_data_hidden_name(struct td_data_dir *dir, char name[TD_HIDDEN_NAME]);

/* One that cannot be removed is logged; the next start tries again. */
void td_data_remove_hidden(struct td_data_dir *dir, const char *name);

/* Is there such a regular file? 0, or errno where the system does not tell. */
int td_data_file_exists(struct td_data_dir *dir, const char *file, bool *there);

/* A mapped file; each tensor in it holds a reference. */
struct mapping {
    struct td_buffer base; /* first: release casts back */
    int range;
};

/* Maps an open file; NULL (err filled, as td_data_dir_load) where it cannot. */
struct mapping *td_mapping_new(int fd, struct td_file_id *id, struct td_error *err);

/* Reads what is mapped as what the file's name says. Takes the caller's reference for the arena. */
TD_MUST_CHECK td_status td_mapping_read(struct mapping *mapping, const char *file,
                                        struct td_arena *arena, struct td_data_content *out,
                                        struct td_error *err);

#endif
