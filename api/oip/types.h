/* types.h - the datatypes of the Open Inference Protocol, and what the decoder of /v2 stores for
 * the encoder.
 *
 * The names of the datatypes are in the table of kernels/dtype.h. */
#ifndef TD_API_OIP_TYPES_H
#define TD_API_OIP_TYPES_H

#include "api/message/message.h"

/* Finds a datatype by its exact name; false if there is none. `name` need not end with NUL. */
bool td_oip_dtype(const char *name, size_t length, td_dtype *out);

/* Lists the datatypes of a set, "FP32, INT64"; returns text. */
#define TD_OIP_NAMES_TEXT 128
const char *td_oip_names(td_dtype_set set, char *text, size_t size);

/* The name in a model configuration, "TYPE_FP32"; returns text. */
#define TD_OIP_CONFIG_TEXT 16
const char *td_oip_config_name(td_dtype dtype, char *text, size_t size);

/* A range of bytes in shared memory. */
struct td_oip_range {
    const char *region; /* NULL: not in shared memory */
    size_t region_length;
    uint64_t offset, bytes;
    void *data;
};

/* An output that the client requested. */
struct td_oip_output {
    int index;               /* index among the op's outputs */
    bool has_binary, binary; /* binary_data, if given; otherwise td_oip_request.binary applies */
    struct td_oip_range range;
};

struct td_oip_request {
    const char *model, *version; /* of the reply */
    const char *id;              /* as in the body between quotes, with escapes; NULL: none */
    size_t id_length;
    bool pairs; /* complex numbers are pairs of floats */
    /* binary_data_output: outputs without binary_data are binary */
    bool binary;
    const struct td_oip_output *outputs; /* in the order of the request; NULL: all */
    int n_outputs;
};

#endif
