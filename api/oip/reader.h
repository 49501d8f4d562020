/* reader.h - what the parts of the decoder of /v2 share: the request as far as it is read.
 *
 *     decode.c      the body as a whole, its members, and the tensors into their places
 *     parameters.c  parameters, of the request and of tensors
 *     operands.c    inputs and outputs
 *
 * Ownership  All of it lives in the call's arena or on the stack of td_oip_decode.
 * Errors     As td_oip_decode; those in the JSON text have its pointer and offset. */
#ifndef TD_API_OIP_READER_H
#define TD_API_OIP_READER_H

#include "api/json/members.h"
#include "api/json/scan.h"
#include "api/message/named_inputs.h"
#include "api/oip/oip.h"
#include "api/oip/types.h"
#include "kernels/name.h"

/* A struct td_json_name for "%s" in a message. */
#define TD_OIP_SHOWN(name) TD_SHOWN((name).text, (name).length)

/* An input as the request describes it. */
struct td_oip_input {
    struct td_json_name name;
    struct td_named_input target;
    bool has_shape, has_dtype;
    struct td_shape shape;
    td_dtype dtype;
    struct td_json_scan data; /* where it stands, until it is read; begin NULL: nowhere */
    bool data_read;
    int64_t binary_size; /* -1: none */
    struct td_oip_range range;
    struct td_tensor tensor;
};

/* A resident tensor in the place of an input. */
struct td_oip_ref {
    struct td_named_input target;
    const char *name;
    size_t length;
};

struct td_oip_reader {
    struct td_json_scan scan;
    const struct td_oip_source *source;
    struct td_arena *arena;
    struct td_request *request;
    struct td_oip_request *oip;
    uint64_t *timeout_us;
    struct td_error *err;
    char *binary_data, *binary_end; /* the next input's bytes behind the JSON text */
    struct td_oip_input *inputs;
    struct td_oip_ref *refs;
    struct td_oip_output *outputs;
    unsigned char *requested; /* a bit for each output that was requested for */
    int n_inputs, n_refs, n_outputs, input_room, ref_room, output_room;
    /* being read */
    struct td_oip_input *input;
    struct td_oip_tensor_parameters *tensor_parameters;
    struct td_json_name *output_name;
};

/* Room for one more of an array in the arena, doubled where it is full. NULL without memory. */
void *td_oip_grow(struct td_oip_reader *reader, void *items, int count, int *room, size_t size);

/* ---- parameters.c ---- */

/* What may stand in the parameters of an input or output. */
struct td_oip_tensor_parameters {
    bool output;
    int64_t binary_size;     /* of an input; -1: not given */
    bool has_binary, binary; /* of an output */
    bool has_range_bytes, has_range_offset;
    struct td_oip_range range;
};

/* The parameters of the request, and of an input or output. */
TD_MUST_CHECK td_status td_oip_read_parameters(struct td_oip_reader *reader,
                                               const struct td_json_path *path);
TD_MUST_CHECK td_status td_oip_read_tensor_parameters(struct td_oip_reader *reader,
                                                      const struct td_json_path *path,
                                                      struct td_oip_tensor_parameters *parameters);

/* ---- operands.c ---- */

TD_MUST_CHECK td_status td_oip_read_inputs(struct td_oip_reader *reader,
                                           const struct td_json_path *path);
TD_MUST_CHECK td_status td_oip_read_outputs(struct td_oip_reader *reader,
                                            const struct td_json_path *path);

/* Notes that an error is about this input; returns status. */
td_status td_oip_error_at_input(struct td_oip_reader *reader, td_status status,
                                const struct td_oip_input *input);

/* No output may lie over an input or another output. */
TD_MUST_CHECK td_status td_oip_check_ranges(struct td_oip_reader *reader);

#endif
