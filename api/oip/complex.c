#include "api/oip/complex.h"

#include "api/oip/reader.h"

static const struct {
    td_dtype part, pair;
} pairs[] = {
    { TD_DTYPE_FLOAT32, TD_DTYPE_COMPLEX64 },
    { TD_DTYPE_FLOAT64, TD_DTYPE_COMPLEX128 },
};
#define N_PAIRS (sizeof pairs / sizeof *pairs)

bool td_oip_complex_of(td_dtype part, td_dtype *out)
{
    for (size_t i = 0; i < N_PAIRS; i++)
        if (pairs[i].part == part) {
            *out = pairs[i].pair;
            return true;
        }
    return false;
}

bool td_oip_part_of(td_dtype dtype, td_dtype *out)
{
    for (size_t i = 0; i < N_PAIRS; i++)
        if (pairs[i].pair == dtype) {
            *out = pairs[i].part;
            return true;
        }
    return false;
}

td_status td_oip_pairs_to_complex(struct td_oip_reader *reader, const struct td_oip_input *input,
                                  struct td_tensor *tensor)
{
    td_dtype pair;
    char text[TD_SHAPE_TEXT];
    struct td_shape *shape = &tensor->shape;
    if (tensor->dtype == TD_DTYPE_FLOAT16 || tensor->dtype == TD_DTYPE_BFLOAT16)
        td_error_set(reader->err, TD_MALFORMED_REQUEST,
                     "%s is %s, but complex is true: complex numbers are pairs of FP32 or FP64",
                     TD_OIP_SHOWN(input->name), td_dtype_info(tensor->dtype)->oip);
    else if (!td_oip_complex_of(tensor->dtype, &pair))
        return TD_OK;
    else if (shape->rank > 0 && shape->dim[shape->rank - 1] == 2) {
        shape->rank--;
        tensor->numel /= 2;
        tensor->dtype = pair;
        return TD_OK;
    } else
        td_error_set(reader->err, TD_MALFORMED_REQUEST,
                     "%s has shape %s, but complex is true: the last dimension is 2, for real and "
                     "imaginary part",
                     TD_OIP_SHOWN(input->name), td_shape_text(shape, text, sizeof text));
    return td_oip_error_at_input(reader, TD_MALFORMED_REQUEST, input);
}

struct td_tensor td_oip_complex_to_pairs(const struct td_tensor *tensor)
{
    struct td_tensor parts = *tensor;
    if (td_oip_part_of(tensor->dtype, &parts.dtype))
        parts.numel *= 2;
    return parts;
}
