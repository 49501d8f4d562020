/* tensor_file.h - writes the content of a NAME.tensord file; data_dir.h describes the format.
 *
 * Ownership  Borrows the tensor.
 * Threads    Reentrant. */
#ifndef TD_SERVER_STORE_TENSOR_FILE_H
#define TD_SERVER_STORE_TENSOR_FILE_H

#include "kernels/stop.h"
#include "kernels/tensor.h"

#define TD_TENSOR_FILE_HEADER 2048 /* room for the header */

/* The content of a file. */
struct td_tensor_file {
    const struct td_tensor *tensor;
    size_t header_bytes;
    uint64_t bytes; /* size of the file */
    char header[TD_TENSOR_FILE_HEADER];
};

void td_tensor_file_plan(struct td_tensor_file *file, const struct td_tensor *tensor,
                         uint64_t version);

/* Writes it to an empty file and fsyncs that. 0 or errno; ECANCELED with err filled if `stop` ended
 * the writing. */
int td_tensor_file_write(const struct td_tensor_file *file, int fd, const struct td_stop *stop,
                         struct td_error *err);

#endif
