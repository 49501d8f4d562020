/* message.h - a decoded request and an encoded reply, independent of the wire format.
 *
 * Ownership  All pointers point into the call's arena, into the body, or into a buffer to which the
 *            arena holds a reference. */
#ifndef TD_API_MESSAGE_MESSAGE_H
#define TD_API_MESSAGE_MESSAGE_H

#include "api/message/common_members.h"
#include "kernels/op.h"

typedef enum td_format {
    TD_FORMAT_JSON,
    TD_FORMAT_SAFETENSORS,
    TD_FORMAT_NPY, /* holds one tensor */
    TD_FORMAT_OIP
} td_format;

struct td_oip_request; /* data for the encoder of /v2 (api/oip/types.h) */

/* An output to send or store. */
struct td_output {
    struct td_tensor tensor;
    int index; /* index among args.outputs */
};

/* Keys for rows of the first input, which is a resident table, in place of row numbers. */
struct td_row_keys {
    int input;              /* the input that the keys replace, which then has no tensor */
    struct td_tensor *keys; /* in the arena */
};
#define TD_MAX_ROW_KEYS 4 /* number of inputs of an op that keys can replace */

struct td_request {
    const struct td_op *op;
    /* Arguments of the op. An input that is set before the body is decoded cannot also be in the
     * body. */
    struct td_op_args args;
    struct td_common_members common;
    /* Outputs to send or store, in the op's order: the outputs that `outputs` selects, in the dtype
     * `output_dtype` (outputs.h). NULL if they are args.outputs. */
    struct td_output *outputs;
    int n_outputs;
    /* Bits of args.attrs_set and common.set for values that only the query string has set so
     * far. */
    struct {
        uint32_t attrs, common;
    } by_query;
    struct td_row_keys row_keys[TD_MAX_ROW_KEYS];
    int n_row_keys;
    /* Name, in the body and in errors, of the row keys for td_op_keys_input. NULL: "INPUT.keys", as
     * for all other inputs. */
    const char *row_keys_name;
    /* Table that the path names as the first input, or NULL. */
    const char *table;
    /* Table of which `table` is a part, such as "t" for "t.scale", or NULL. */
    const char *whole;
    bool table_has_keys; /* `table` has keys */
    /* True if the body uses the name "keys" for the input of td_op_keys_input. */
    bool called_keys;
    struct td_oip_request *oip; /* in the arena; NULL for requests that are not of /v2 */
    bool decoded;               /* true if all input tensors are set */
    /* True if a complex tensor in JSON is given as base64, not as lists [re, im]. */
    bool has_complex_base64;
    /* True if the request neither sends nor stores outputs, so it cannot have the common members
     * about outputs. */
    bool has_no_output;
    /* True if the request changes the table that the path names. The query string can then have
     * TD_PERSIST. */
    bool is_change;
    /* True if an input can be a dtype and a shape without data, because nothing is computed. */
    bool is_plan;
    /* True for a step of a program. The program has the common members. */
    bool is_step;
    /* The members that are not inputs, attributes or common members, such as the steps of a
     * program. Ends with NULL. NULL if there are none. */
    const char *const *other_members;
};

/* Looks up a resident tensor. On success, *out describes the tensor and the arena holds a reference
 * to its buffer. */
struct td_resolver {
    td_status (*resolve)(struct td_resolver *self, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err);
};

/* Calls resolver->resolve. Returns TENSOR_NOT_FOUND if `resolver` is NULL, which means that there
 * are no resident tensors. */
TD_MUST_CHECK td_status td_resolve(struct td_resolver *resolver, const char *name, size_t length,
                                   struct td_arena *arena, struct td_tensor *out,
                                   struct td_error *err);

/* Looks up shared memory that a client has registered. On success, *out points to `bytes` bytes at
 * `offset` in the region, and the arena holds a reference to the region. Errors: NOT_FOUND,
 * INVALID_ARGUMENT. */
struct td_regions {
    td_status (*find)(struct td_regions *self, const char *name, size_t length, uint64_t offset,
                      uint64_t bytes, struct td_arena *arena, void **out, struct td_error *err);
};

/* A part of a reply's body, like struct iovec. The chunks of a reply are sent in order. */
struct td_chunk {
    const void *data;
    size_t size;
};

/* Number of chunks that a reply holds without allocation, enough for one output. A reply with more
 * chunks has its array in the arena. */
#define TD_REPLY_CHUNKS 4

struct td_header {
    const char *name;  /* static */
    const char *value; /* static string or string in the arena */
};

#define TD_REPLY_HEADERS 8

struct td_reply {
    int http_status;
    const char *content_type; /* static string; NULL if the reply has no body */
    /* All headers except Content-Type and the headers of errors. */
    struct td_header headers[TD_REPLY_HEADERS];
    int n_headers;
    struct td_chunk *chunks; /* points to `own` or into the arena */
    int n_chunks;
    struct td_chunk own[TD_REPLY_CHUNKS];
};

/* Initializes a request for the op with default attributes and no inputs. */
void td_request_init(struct td_request *request, const struct td_op *op);

/* Return the number of outputs to send or store, the i-th of them, and its index among
 * args.outputs. */
static inline int td_request_n_outputs(const struct td_request *request)
{
    return request->outputs ? request->n_outputs : request->args.n_outputs;
}
static inline struct td_tensor *td_request_output(const struct td_request *request, int i)
{
    return request->outputs ? &request->outputs[i].tensor : &request->args.outputs[i];
}
static inline int td_request_output_index(const struct td_request *request, int i)
{
    return request->outputs ? request->outputs[i].index : i;
}

/* Returns the number of outputs from which the member `outputs` selects: 0 if the request neither
 * sends nor stores outputs. */
static inline int td_request_n_choices(const struct td_request *request)
{
    return request->has_no_output ? 0 : request->op->n_outputs;
}

/* Returns the row keys that replace this input, or NULL if there are none. */
struct td_row_keys *td_request_row_keys(struct td_request *request, int input);

/* Adds row keys for an input that has none. */
struct td_row_keys *td_request_add_row_keys(struct td_request *request, int input,
                                            struct td_tensor *keys);

/* Returns the bounds policy of a request, or TD_BOUNDS_ERROR if the op has no such attribute. */
td_bounds td_request_bounds(const struct td_request *request);

/* Writes the report of the indices that bounds policies replaced: {"policy": P, "replaced": N}, and
 * for a program a list of such objects with the number of the `step`. Writes nothing, and returns
 * false, if no index was replaced. td_replaced_bound returns the maximum size of the text. */
struct td_text;
bool td_replaced_write(const struct td_request *request, const char *before, struct td_text *text);
size_t td_replaced_bound(const struct td_request *request);

/* Writes the times of the steps of a program: a list of {"step", "as", "ms"}. Steps that ran as one
 * share an item, which also has "last". Writes nothing if no times are known. td_step_times_bound
 * returns the maximum size of the text. */
void td_step_times_write(const struct td_request *request, const char *before,
                         struct td_text *text);
size_t td_step_times_bound(const struct td_request *request);

/* Sets the status, the content type and a body of one chunk. */
void td_reply_set(struct td_reply *reply, int http_status, const char *content_type,
                  const void *data, size_t size);

/* Adds a header. A reply has at most TD_REPLY_HEADERS headers. */
void td_reply_header(struct td_reply *reply, const char *name, const char *value);

size_t td_reply_bytes(const struct td_reply *reply);

#endif
