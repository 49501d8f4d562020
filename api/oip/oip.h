/* oip.h - the Open Inference Protocol (KServe V2): requests, replies and documents of /v2.
 *
 * Every op, every table and every stored program is a model; an op has version "1". The tensors of
 * a list input `indices` are named indices.0, indices.1, ..., as are lists of outputs. The protocol
 * defines the datatypes and the forms of tensors. If the request or an input has the parameter
 * "complex": true, complex numbers are pairs of floats. A request parameter "params.ref" names a
 * resident tensor to use as the input params.
 *
 * A body is JSON, or JSON followed by the bytes of the tensors that have a binary_data_size. The
 * header Inference-Header-Content-Length is the length of the JSON.
 *
 * Ownership  As in the other decoders, tensors point into the body, into the arena, or into a
 *            shared-memory region to which the arena holds a reference.
 * Errors     The codes of /v1. td_oip_problem writes them as the protocol requires: {"error":
 *            message, and the other members of a problem document}, with status 400 for codes that
 *            are 422 under /v1.
 * Source     KServe's Open Inference Protocol, "HTTP/REST", and the extensions binary tensor data,
 *            classification (rejected), statistics, model repository, model configuration, system
 *            shared memory. */
#ifndef TD_API_OIP_OIP_H
#define TD_API_OIP_OIP_H

#include "api/message/message.h"

/* ---- inference ------------------------------------------------------------------------------ */

#define TD_OIP_NO_HEADER SIZE_MAX

/* Parses the value of Inference-Header-Content-Length. If `text` is NULL, *json_bytes becomes
 * TD_OIP_NO_HEADER. */
TD_MUST_CHECK td_status td_oip_header_length(const char *text, size_t *json_bytes,
                                             struct td_error *err);

/* Decodes the body into a request that td_request_init has initialized, and sets request->oip to
 * the data that the encoder needs. Modifies the bytes after the JSON in place, and tensors point to
 * them. json_bytes is the value of the header, or TD_OIP_NO_HEADER. `regions` is NULL if shared
 * memory is off. Sets *timeout_us to the request's timeout, or to 0 if there is none. If the first
 * input of the request is already set, the model is that table: `source` gives the name of the
 * model, and "complex" defaults to true if the rows are complex. */
struct td_oip_source {
    size_t json_bytes;
    const char *model, *version; /* NULL for the name and version of the op */
    struct td_resolver *resolver;
    struct td_regions *regions;
};
TD_MUST_CHECK td_status td_oip_decode(const char *body, size_t bytes,
                                      const struct td_oip_source *source, struct td_arena *arena,
                                      struct td_request *request, uint64_t *timeout_us,
                                      struct td_error *err);

/* Returns MALFORMED_REQUEST if a query parameter has the name of a request parameter. Other query
 * parameters are ignored. */
TD_MUST_CHECK td_status td_oip_check_query(const struct td_request *request, const char *name,
                                           size_t length, struct td_error *err);

/* True if the JSON text contains the name of the member that refers to shared memory. Does not
 * parse the text, so a string in the data counts too. Searches text that is not valid JSON up to
 * the first error. */
bool td_oip_names_shared_memory(const char *json, size_t bytes);

/* Checks that the requested outputs exist, have datatypes, and fit in their shared memory. Must run
 * after infer. */
TD_MUST_CHECK td_status td_oip_can_encode(const struct td_request *request, struct td_error *err);
bool td_oip_encoded_bound(const struct td_request *request, size_t *bytes);

/* Returns the part of td_oip_encoded_bound that is tensor data, which is copied rather than
 * printed. */
size_t td_oip_copied_bytes(const struct td_request *request);

/* Encodes the reply. Outputs in shared memory are written last, after everything that can fail, and
 * remain there even if the caller discards the reply. Large binary outputs become separate chunks
 * and are not copied. */
TD_MUST_CHECK td_status td_oip_encode(const struct td_request *request, struct td_arena *arena,
                                      struct td_reply *reply, struct td_error *err);

/* Writes the reply for an error. The message starts with the name of the model. `model` and
 * `op_name` can be NULL. Cannot fail. If memory is exhausted, the reply is a static text. */
void td_oip_problem(const struct td_error *err, const char *model, const char *op_name,
                    const char *request_id, struct td_arena *arena, struct td_reply *reply);

/* Returns the HTTP status of an error. The protocol uses 400 for all bad requests and 429 for too
 * many requests. */
int td_oip_http_status(td_status status);

/* ---- documents ------------------------------------------------------------------------------ */

/* Properties of the server that appear in its documents. */
struct td_oip_server {
    const char *version;
    bool shared_memory;
    int workers;
};
TD_MUST_CHECK td_status td_oip_describe_server(const struct td_oip_server *server,
                                               struct td_arena *arena, struct td_reply *reply,
                                               struct td_error *err);

/* Name of the input that takes keys instead of row numbers if the model is a table. */
#define TD_OIP_KEYS "keys"

/* The dtype and shape of an input or output of a program. */
struct td_oip_shape {
    bool has_dtype;
    td_dtype dtype;
    int rank;                 /* -1 if it is not known */
    int64_t dim[TD_MAX_RANK]; /* -1 for a size that is not known */
};

/* A model: an op, a table whose rows the op looks up, or a stored program. */
struct td_oip_model {
    const char *name, *version;
    const struct td_op *op;
    /* First input of the op, or NULL if the request provides it. */
    const struct td_tensor *table;
    /* [op->n_inputs] and [op->n_outputs] for a program; NULL for other models. */
    const struct td_oip_shape *inputs, *outputs;
    /* The resident tensor that holds the text of a program, with its statistics; or NULL. */
    const struct td_tensor *text;
};
struct td_oip_model td_oip_model_of(const struct td_op *op);

TD_MUST_CHECK td_status td_oip_describe_model(const struct td_oip_model *model,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);
TD_MUST_CHECK td_status td_oip_describe_config(const struct td_oip_model *model,
                                               const struct td_oip_server *server,
                                               struct td_arena *arena, struct td_reply *reply,
                                               struct td_error *err);

/* An element of the repository's index. The name must not need escapes. */
struct td_oip_entry {
    const char *name;
    size_t name_length;
    const char *version;
    const char *reason; /* why the model is not ready, without characters to escape; or NULL */
};
/* td_oip_check_index checks the body of POST .../repository/index. The body can be empty.
 * td_oip_write_index writes the reply. */
TD_MUST_CHECK td_status td_oip_check_index(const char *body, size_t bytes, struct td_arena *arena,
                                           struct td_error *err);
TD_MUST_CHECK td_status td_oip_write_index(const struct td_oip_entry *entries, int count,
                                           struct td_arena *arena, struct td_reply *reply,
                                           struct td_error *err);
/* Handle the bodies of POST .../load and .../unload for an existing model. The unload function
 * always refuses. */
TD_MUST_CHECK td_status td_oip_repository_load(const char *body, size_t bytes,
                                               const struct td_oip_model *model,
                                               struct td_arena *arena, struct td_reply *reply,
                                               struct td_error *err);
td_status td_oip_repository_unload(const char *body, size_t bytes, const struct td_oip_model *model,
                                   struct td_arena *arena, struct td_error *err);

/* Totals of a model since the server started, as defined by the statistics extension. */
struct td_oip_stat {
    uint64_t count, ns;
};
struct td_oip_stats {
    const char *name, *version;
    /* Time of the last successful inference in milliseconds since the epoch, or 0 if there has been
     * none. */
    uint64_t last_ms;
    uint64_t inferences, executions;
    struct td_oip_stat success, fail, queue, input, infer, output;
};
TD_MUST_CHECK td_status td_oip_describe_stats(const struct td_oip_stats *stats, int count,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

/* A region of shared memory. td_oip_read_region reads it from the body of
 * .../systemsharedmemory/region/{name}/register. */
struct td_oip_region {
    /* `key` is in the arena and NUL-terminated. */
    const char *name, *key;
    uint64_t offset, bytes;
};
TD_MUST_CHECK td_status td_oip_read_region(const char *body, size_t bytes, struct td_arena *arena,
                                           struct td_oip_region *out, struct td_error *err);
TD_MUST_CHECK td_status td_oip_describe_regions(const struct td_oip_region *list, int count,
                                                struct td_arena *arena, struct td_reply *reply,
                                                struct td_error *err);

#endif
