/* tensor_file.h - writes the content of a NAME.tensord or NAME.program.json file. data_dir.h
 * describes the formats.
 *
 * Ownership  Borrows the tensor and the keys.
 * Threads    Reentrant. */
#ifndef TD_SERVER_STORE_TENSOR_FILE_H
#define TD_SERVER_STORE_TENSOR_FILE_H

#include "kernels/stop.h"
#include "kernels/tensor.h"

#define TD_TENSOR_FILE_HEADER 2048 /* room for the header */

/* An entry of the file. */
struct td_tensor_part {
    const char *name;
    const char *dtype; /* name of the dtype in safetensors */
    char shape[TD_SHAPE_TEXT];
    const void *data;
    uint64_t bytes;
    /* Strings whose offsets the entry holds, counted from 0, or NULL for other entries. */
    const struct td_tensor *offsets_of;
};

#define TD_TENSOR_FILE_PARTS 6

/* The content of a file. */
struct td_tensor_file {
    /* Entries of the file, in the order of their data. */
    struct td_tensor_part parts[TD_TENSOR_FILE_PARTS];
    int n_parts;
    uint64_t data_bytes; /* total bytes of all parts */
    size_t header_bytes;
    /* True if the checksums of the data follow the data. */
    bool has_checksums;
    uint64_t bytes; /* size of the file */
    char header[TD_TENSOR_FILE_HEADER];
};

/* Plans the content of a file for the tensor. `keys` are the keys of the rows, with their index, or
 * NULL. */
void td_tensor_file_plan(struct td_tensor_file *file, const struct td_tensor *tensor,
                         const struct td_tensor *keys, uint64_t version);

/* Plans a file that holds only the bytes of the tensor. */
void td_tensor_file_plan_bytes(struct td_tensor_file *file, const struct td_tensor *tensor);

/* Writes the planned content to an empty file and fsyncs the file. Returns 0 or errno, or ECANCELED
 * with err filled if `stop` ended the writing. */
int td_tensor_file_write(const struct td_tensor_file *file, int fd, const struct td_stop *stop,
                         struct td_error *err);

#endif
