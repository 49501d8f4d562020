/* npy.h - reads and writes NumPy's .npy files, which can be tables in the data folder or bodies of
 * PUT and GET.
 *
 * Reading    Versions 1 to 3, any byte order, C or Fortran order, any numeric dtype that tensord
 *            has. Objects, structured arrays, dates and text are errors that name the type.
 *            bfloat16 is an error because NumPy has no name for it. '|S' is an error because NumPy
 *            pads its strings with NULs, which look like NULs in the string.
 * Writing    Version 1.0, little-endian, C order; the data starts at a multiple of 64 bytes.
 * Ownership  Opened tensors point into the bytes of the file.
 * Errors     MALFORMED_REQUEST, RESOURCE_LIMIT (rank, or a number of elements that overflows),
 *            NOT_ACCEPTABLE (a dtype that the format does not have).
 * Cost       Conversion reads and writes each byte once, in blocks that fit in the L1 cache. If
 *            both dimension order and byte order differ, it does so twice.
 * Source     numpy.lib.format in the NumPy reference. The blocks: Frigo, Leiserson, Prokop and
 *            Ramachandran, "Cache-Oblivious Algorithms" (1999). */
#ifndef TD_API_FILES_NPY_H
#define TD_API_FILES_NPY_H

#include "kernels/tensor.h"

/* The contents of a file. */
struct td_npy {
    struct td_tensor tensor; /* tensor as stored in the file, before conversion */
    bool big_endian, fortran;
};

/* True if the bytes start like a .npy file of any version. */
bool td_npy_is(const void *bytes, size_t size);

TD_MUST_CHECK td_status td_npy_open(const void *bytes, size_t size, struct td_npy *out,
                                    struct td_error *err);

/* True if the data can be used directly from the file, without conversion. */
static inline bool td_npy_is_plain(const struct td_npy *file)
{
    return !file->big_endian && !file->fortran;
}

/* Converts the tensor's data (file->tensor.bytes bytes) to C order and little-endian. `to` must not
 * overlap the file. `stop` can be NULL. */
TD_MUST_CHECK td_status td_npy_convert(const struct td_npy *file, void *to,
                                       const struct td_stop *stop, struct td_error *err);

/* Reads the tensor of a file. If it needs no conversion, sets *in_file to true and leaves the data
 * in the file; otherwise converts the data into the arena. */
TD_MUST_CHECK td_status td_npy_read(const void *bytes, size_t size, struct td_arena *arena,
                                    struct td_tensor *out, bool *in_file, struct td_error *err);

/* Writes the header of a .npy file for the tensor. Sets *size to the size of the header in
 * bytes. */
#define TD_NPY_HEADER 512
TD_MUST_CHECK td_status td_npy_write_header(const struct td_tensor *tensor,
                                            char header[TD_NPY_HEADER], size_t *size,
                                            struct td_error *err);

#endif
