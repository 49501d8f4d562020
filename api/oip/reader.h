/* reader.h - the state of the decoder of /v2, shared by its source files:
 *
 *     decode.c      the whole body and its members; assigns tensors to inputs
 *     parameters.c  parameters of requests and tensors
 *     operands.c    inputs and outputs
 *
 * Ownership  All data is in the call's arena or on the stack of td_oip_decode.
 * Errors     As for td_oip_decode. Errors in the JSON text have a pointer or an offset. */
#ifndef TD_API_OIP_READER_H
#define TD_API_OIP_READER_H

#include "api/json/members.h"
#include "api/json/scan.h"
#include "api/message/named_inputs.h"
#include "api/oip/oip.h"
#include "api/oip/types.h"
#include "kernels/shown_text.h"

/* Converts a struct td_json_name to an argument for "%s". */
#define TD_OIP_SHOWN(name) TD_SHOWN((name).text, (name).length)

/* An input of the request. */
struct td_oip_input {
    struct td_json_name name;
    struct td_named_input target;
    bool has_shape, has_dtype;
    struct td_shape shape;
    td_dtype dtype;
    struct td_json_skipped data; /* skipped data, read later */
    bool has_data, data_read;
    int64_t binary_size; /* -1 if not given */
    bool has_complex, is_complex;
    struct td_oip_range range;
    struct td_tensor tensor;
};

/* A resident tensor that the request gives for an input. */
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
    char *binary_data, *binary_end; /* unread bytes after the JSON text */
    struct td_oip_input *inputs;
    struct td_oip_ref *refs;
    struct td_oip_output *outputs;
    /* Bit i is set if the client requests output i. NULL until the first output is read. */
    unsigned char *requested;
    bool has_inputs; /* true if the body has the member "inputs" */
    /* First member of the body that td_oip_check_unknown refuses. */
    struct td_json_name misplaced;
    int n_inputs, n_refs, n_outputs, input_capacity, ref_capacity, output_capacity;
    /* The objects that are currently being read. */
    struct td_oip_input *input;
    struct td_oip_tensor_parameters *tensor_parameters;
    struct td_json_name *output_name;
};

/* Ensures that an array in the arena has space for one more element, doubling its capacity if it is
 * full. Returns the array, or NULL if memory is exhausted. */
void *td_oip_grow(struct td_oip_reader *reader, void *items, int count, int *capacity, size_t size);

/* ---- parameters.c ---- */

/* Parameters of an input or output. */
struct td_oip_tensor_parameters {
    bool output;
    int64_t binary_size;          /* size for an input; -1 if not given */
    bool has_complex, is_complex; /* for an input */
    /* For an output: whether binary_data is given, and its value. */
    bool has_binary, binary;
    bool has_range_bytes, has_range_offset;
    struct td_oip_range range;
};

/* Read the parameters of the request and the parameters of an input or output. */
TD_MUST_CHECK td_status td_oip_read_parameters(struct td_oip_reader *reader,
                                               const struct td_json_path *path);
TD_MUST_CHECK td_status td_oip_read_tensor_parameters(struct td_oip_reader *reader,
                                                      const struct td_json_path *path,
                                                      struct td_oip_tensor_parameters *parameters);

/* Kind of object that has members. */
enum td_oip_place { TD_OIP_REQUEST, TD_OIP_INPUT, TD_OIP_OUTPUT };

/* Checks the name of an unknown member. The protocol allows servers to ignore unknown members, but
 * ignoring a misspelt member, or a model parameter in the wrong place, would give a wrong
 * result. */
TD_MUST_CHECK td_status td_oip_check_unknown(const struct td_request *request,
                                             const struct td_json_path *path,
                                             struct td_json_name name, enum td_oip_place place,
                                             struct td_error *err);

/* ---- operands.c ---- */

TD_MUST_CHECK td_status td_oip_read_inputs(struct td_oip_reader *reader,
                                           const struct td_json_path *path);
TD_MUST_CHECK td_status td_oip_read_outputs(struct td_oip_reader *reader,
                                            const struct td_json_path *path);

/* Sets the input that an error is about and returns `status`. */
td_status td_oip_error_at_input(struct td_oip_reader *reader, td_status status,
                                const struct td_oip_input *input);

/* Checks that no output overlaps an input or another output in shared memory. */
TD_MUST_CHECK td_status td_oip_check_ranges(struct td_oip_reader *reader);

#endif
