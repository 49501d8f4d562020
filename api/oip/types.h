/* types.h - the Open Inference Protocol's names of datatypes, and what a request of /v2 leaves
 * for its answer.
 *
 * The names stand in the table of kernels/dtype.h. */
#ifndef TD_API_OIP_TYPES_H
#define TD_API_OIP_TYPES_H

#include "api/message/message.h"

/* Look-up by name, exact; false when there is none. `name` need not end in NUL. */
bool td_oip_dtype(const char *name, size_t length, td_dtype *out);

/* "FP32, INT64" for those of a set that have a name; returns text. */
#define TD_OIP_NAMES_TEXT 128
const char *td_oip_names(td_dtype_set set, char *text, size_t size);

/* The name in a model's configuration, "TYPE_FP32"; returns text. */
#define TD_OIP_CONFIG_TEXT 16
const char *td_oip_config_name(td_dtype dtype, char *text, size_t size);

/* The dtype that the pairs of a float dtype make, and back. False where there is none. */
bool td_oip_complex_of(td_dtype part, td_dtype *out);
bool td_oip_part_of(td_dtype dtype, td_dtype *out);

/* A range of shared memory. */
struct td_oip_range {
    const char *region; /* NULL: none */
    size_t region_length;
    uint64_t offset, bytes;
    void *data;
};

/* An output that the client requested. */
struct td_oip_output {
    int index;               /* among the op's */
    bool has_binary, binary; /* as the client says; else the request's word on all of them counts */
    struct td_oip_range range;
};

struct td_oip_request {
    const char *id; /* not unescaped: as it stands between its quotes; NULL: none */
    size_t id_length;
    bool pairs;                          /* complex numbers are pairs of floats */
    bool binary;                         /* outputs nobody said more about are binary */
    const struct td_oip_output *outputs; /* in the client's order; NULL: all */
    int n_outputs;
};

#endif
