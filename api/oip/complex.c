#include "api/oip/complex.h"

#include "api/oip/reader.h"

/* Finds the complex dtype whose parts have dtype `part`. Returns false if no complex dtype has such
 * parts. */
static bool complex_of(td_dtype part, td_dtype *out)
{
    *out = part == TD_DTYPE_FLOAT32 ? TD_DTYPE_COMPLEX64 : TD_DTYPE_COMPLEX128;
    return td_dtype_part(*out) == part;
}

td_status td_oip_pairs_to_complex(struct td_oip_reader *reader, const struct td_oip_input *input,
                                  struct td_tensor *tensor)
{
    td_dtype pair;
    char text[TD_SHAPE_TEXT];
    struct td_shape *shape = &tensor->shape;
    const bool is_half = tensor->dtype == TD_DTYPE_FLOAT16 || tensor->dtype == TD_DTYPE_BFLOAT16;
    const bool has_pair = complex_of(tensor->dtype, &pair);
    /* The request's parameter does not apply to integers such as indices. */
    if (is_half || (input->has_complex && !has_pair))
        td_error_set(reader->err, TD_MALFORMED_REQUEST,
                     "%s is %s, but complex is true; complex numbers must be pairs of FP32 or FP64",
                     TD_OIP_SHOWN(input->name), td_dtype_info(tensor->dtype)->oip);
    else if (!has_pair)
        return TD_OK;
    else if (shape->rank > 0 && shape->dim[shape->rank - 1] == 2) {
        shape->rank--;
        tensor->numel /= 2;
        tensor->dtype = pair;
        return TD_OK;
    } else
        td_error_set(reader->err, TD_MALFORMED_REQUEST,
                     "%s has shape %s, but complex is true; the last dimension must be 2, for the "
                     "real and imaginary parts",
                     TD_OIP_SHOWN(input->name), td_shape_text(shape, text, sizeof text));
    return td_oip_error_at_input(reader, TD_MALFORMED_REQUEST, input);
}

struct td_tensor td_oip_complex_to_pairs(const struct td_tensor *tensor)
{
    struct td_tensor parts = *tensor;
    if (td_dtype_is_complex(tensor->dtype)) {
        parts.dtype = td_dtype_part(tensor->dtype);
        parts.numel *= 2;
    }
    return parts;
}
