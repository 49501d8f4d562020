/* npy.h - NumPy's .npy files: tables in the data folder, bodies of PUT and GET.
 *
 * Read       Versions 1 to 3, either byte order, C or Fortran order, any dtype of numbers that
 *            tensord has. Objects, structured arrays, dates and text are refused with a sentence
 *            that says which, bfloat16 too, which NumPy has no name for. Text, '|S' as well: NumPy
 *            fills its strings up with NULs, and what was one before cannot be told from those.
 * Written    Version 1.0, little-endian C order; the data begins at a multiple of 64 bytes.
 * Ownership  What is opened points into the file's bytes.
 * Errors     MALFORMED_REQUEST, RESOURCE_LIMIT (rank, or more elements than can be counted),
 *            NOT_ACCEPTABLE (a dtype that the format lacks).
 * Cost       Conversion reads and writes each byte once (twice where Fortran and byte order both
 *            differ), in blocks that fit the nearest cache.
 * Source     numpy.lib.format in the NumPy reference. The blocks: Frigo, Leiserson, Prokop and
 *            Ramachandran, "Cache-Oblivious Algorithms" (1999).
 */
#ifndef TD_API_FILES_NPY_H
#define TD_API_FILES_NPY_H

#include "kernels/tensor.h"

/* What a file holds. */
struct td_npy {
    struct td_tensor tensor; /* its data as it lies in the file, and as told here: */
    bool big_endian, fortran;
};

TD_MUST_CHECK td_status td_npy_open(const void *bytes, size_t size, struct td_npy *out,
                                    struct td_error *err);

/* Is the data in the file the tensor's as it is? */
static inline bool td_npy_is_plain(const struct td_npy *file)
{
    return !file->big_endian && !file->fortran;
}

/* Writes the tensor's data, file->tensor.bytes of them, in C order and little-endian. `to` must not
 * overlap the file. */
void td_npy_convert(const struct td_npy *file, void *to);

/* The tensor as the file means it: its data in the file where that is plain (*in_file), else
 * converted in the arena. */
TD_MUST_CHECK td_status td_npy_read(const void *bytes, size_t size, struct td_arena *arena,
                                    struct td_tensor *out, bool *in_file, struct td_error *err);

/* Writes what stands before the data of a file, *size bytes. */
#define TD_NPY_HEADER 512
TD_MUST_CHECK td_status td_npy_write_header(const struct td_tensor *tensor,
                                            char header[TD_NPY_HEADER], size_t *size,
                                            struct td_error *err);

#endif
