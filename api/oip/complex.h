/* complex.h - complex numbers in the Open Inference Protocol, which has no complex datatypes. If
 * the request or an input has the parameter "complex": true, complex numbers are pairs of FP32 or
 * FP64 values in a trailing dimension of size 2. */
#ifndef TD_API_OIP_COMPLEX_H
#define TD_API_OIP_COMPLEX_H

#include "kernels/tensor.h"

struct td_oip_reader;
struct td_oip_input;

/* Converts a tensor of pairs to complex numbers without moving its data. 16-bit floats are errors.
 * Integers, booleans and strings are errors if the input has the parameter "complex", and stay
 * unchanged if only the request has it. Errors name the input. */
TD_MUST_CHECK td_status td_oip_pairs_to_complex(struct td_oip_reader *reader,
                                                const struct td_oip_input *input,
                                                struct td_tensor *tensor);

/* Returns an output in a dtype of the protocol: complex numbers become pairs of their parts. Does
 * not add the extra dimension of the pairs to the shape. */
struct td_tensor td_oip_complex_to_pairs(const struct td_tensor *tensor);

#endif
