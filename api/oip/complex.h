/* complex.h - complex numbers in the Open Inference Protocol, which has no complex datatypes. With
 * the parameter "complex": true of the request or of an input, complex numbers are pairs of FP32 or
 * FP64 with a trailing dimension of 2. */
#ifndef TD_API_OIP_COMPLEX_H
#define TD_API_OIP_COMPLEX_H

#include "kernels/tensor.h"

struct td_oip_reader;
struct td_oip_input;

/* Converts a tensor of pairs to complex numbers without moving its data. 16-bit floats are errors.
 * Tensors of integers, booleans and strings are errors if "complex" is a parameter of the input;
 * if it is a parameter of the request, they stay unchanged. Errors name the input. */
TD_MUST_CHECK td_status td_oip_pairs_to_complex(struct td_oip_reader *reader,
                                                const struct td_oip_input *input,
                                                struct td_tensor *tensor);

/* Returns an output in a dtype of the protocol: complex numbers become pairs of their parts. The
 * shape does not get the extra dimension of the pairs. */
struct td_tensor td_oip_complex_to_pairs(const struct td_tensor *tensor);

#endif
