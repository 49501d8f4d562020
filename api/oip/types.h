/* types.h - the datatypes of the Open Inference Protocol, and the data that the /v2 decoder passes
 * to the encoder.
 *
 * The names of the datatypes are in the table of kernels/dtype.h. */
#ifndef TD_API_OIP_TYPES_H
#define TD_API_OIP_TYPES_H

#include "api/message/message.h"

/* Finds a datatype by its exact name. Returns false if no datatype has this name. `name` need not
 * be NUL-terminated. */
bool td_oip_dtype(const char *name, size_t length, td_dtype *out);

/* Lists the datatypes in a set, such as "FP32, INT64". Returns `text`. */
#define TD_OIP_NAMES_TEXT 128
const char *td_oip_names(td_dtype_set set, char *text, size_t size);

/* Writes a datatype's name for a model configuration, such as "TYPE_FP32". Returns `text`. */
#define TD_OIP_CONFIG_TEXT 16
const char *td_oip_config_name(td_dtype dtype, char *text, size_t size);

/* A range of bytes in shared memory. */
struct td_oip_range {
    const char *region; /* NULL if not in shared memory */
    size_t region_length;
    uint64_t offset, bytes;
    void *data;
};

/* An output that the client requested. */
struct td_oip_output {
    int index; /* index of the output among the op's outputs */
    /* Parameter binary_data. If the parameter is absent, td_oip_request.binary applies. */
    bool has_binary, binary;
    struct td_oip_range range;
};

struct td_oip_request {
    const char *model, *version; /* name and version of the model in the reply */
    /* Text between the quotes in the body, with escapes as written. NULL if the request has no
     * id. */
    const char *id;
    size_t id_length;
    bool pairs; /* true if complex numbers are pairs of floats */
    /* Parameter binary_data_output: true if outputs without binary_data are binary. */
    bool binary;
    /* Requested outputs, in the order of the request. NULL means all outputs of the op. */
    const struct td_oip_output *outputs;
    int n_outputs;
};

#endif
