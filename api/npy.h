/* npy.h - NumPy's .npy files, as tables in the data folder.
 *
 * Versions 1 to 3; little-endian C order of any dtype that tensord has (bfloat16 travels as
 * safetensors). Big-endian, Fortran-order, structured and object arrays are refused with a sentence
 * that says which.
 *
 * Ownership  The tensor points into the file's bytes.
 * Errors     MALFORMED_REQUEST, RESOURCE_LIMIT (rank, or more elements than can be counted).
 * Source     numpy.lib.format in the NumPy reference.
 */
#ifndef TD_API_NPY_H
#define TD_API_NPY_H

#include "kernels/tensor.h"

TD_MUST_CHECK td_status td_npy_open(const void *bytes, size_t size, struct td_tensor *out,
                                    struct td_error *err);

#endif
