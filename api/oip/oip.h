/* oip.h - the Open Inference Protocol (KServe V2): requests, answers and documents of /v2.
 *
 * Every op is a model of version "1". A list input `indices` has the tensors indices.0, indices.1,
 * ...; an output list likewise. Datatypes and the forms of tensors are the protocol's; complex
 * numbers travel as pairs, the request parameter "complex" being true; a request parameter
 * "params.ref" names a resident tensor as that input.
 *
 * A body is JSON, or JSON and behind it the bytes of those tensors that have a binary_data_size;
 * the header Inference-Header-Content-Length tells where the JSON ends.
 *
 * Ownership  As the other decoders: tensors point into the body, into a shared-memory region (the
 *            arena holds a reference) or into the arena.
 * Errors     The codes of /v1. td_oip_problem writes them as the protocol wants them:
 *            {"error": one sentence, beside the members of a problem document}, and 400 for what
 *            /v1 answers with 422.
 * Source     KServe's Open Inference Protocol, "HTTP/REST" and the extensions binary tensor data,
 *            classification (refused), statistics, model repository, model configuration, system
 *            shared memory. */
#ifndef TD_API_OIP_OIP_H
#define TD_API_OIP_OIP_H

#include "api/message/message.h"

/* ---- inference ------------------------------------------------------------------------------ */

#define TD_OIP_NO_HEADER SIZE_MAX

/* The number that the text of Inference-Header-Content-Length is; NULL: there is no such header. */
TD_MUST_CHECK td_status td_oip_header_length(const char *text, size_t *json_bytes,
                                             struct td_error *err);

/* Fills request (begun by td_request_init) from the body, and request->oip with what the answer
 * needs to know. The bytes behind the JSON text may be changed in place, and tensors stay there.
 * json_bytes is the header's number, TD_OIP_NO_HEADER where there is none. regions NULL: shared
 * memory is off. *timeout_us is the request's own, 0 where it has none. */
struct td_oip_source {
    size_t json_bytes;
    struct td_resolver *resolver;
    struct td_regions *regions;
};
TD_MUST_CHECK td_status td_oip_decode(const char *body, size_t bytes,
                                      const struct td_oip_source *source, struct td_arena *arena,
                                      struct td_request *request, uint64_t *timeout_us,
                                      struct td_error *err);

/* Does a member of the JSON text name a region of shared memory? Before it is decoded, so a string of
 * the data with that text counts as well; a text that is no JSON counts up to where it is none. */
bool td_oip_names_shared_memory(const char *json, size_t bytes);

/* Do the requested outputs exist, have they a datatype, do they fit their regions? After infer. */
TD_MUST_CHECK td_status td_oip_can_encode(const struct td_request *request, struct td_error *err);
bool td_oip_encoded_bound(const struct td_request *request, size_t *bytes);

/* How much of that bound are bytes of tensors, which are only copied. */
size_t td_oip_copied_bytes(const struct td_request *request);

/* The answer; outputs that go to a region are written there, once nothing can fail here. Who gives
 * the answer up afterwards has written them all the same. Large binary outputs are chunks of their
 * own, not copied. */
TD_MUST_CHECK td_status td_oip_encode(const struct td_request *request, struct td_arena *arena,
                                      struct td_reply *reply, struct td_error *err);

/* Cannot fail: without memory it is a static text. */
void td_oip_problem(const struct td_error *err, const char *op_name, const char *request_id,
                    struct td_arena *arena, struct td_reply *reply);

/* ---- documents ------------------------------------------------------------------------------ */

/* What is on. */
struct td_oip_server {
    const char *version;
    bool shared_memory;
    int workers;
};
TD_MUST_CHECK td_status td_oip_describe_server(const struct td_oip_server *server,
                                               struct td_arena *arena, struct td_reply *reply,
                                               struct td_error *err);
TD_MUST_CHECK td_status td_oip_describe_model(const struct td_op *op, struct td_arena *arena,
                                              struct td_reply *reply, struct td_error *err);
TD_MUST_CHECK td_status td_oip_describe_config(const struct td_op *op,
                                               const struct td_oip_server *server,
                                               struct td_arena *arena, struct td_reply *reply,
                                               struct td_error *err);

/* Body of POST .../repository/index, which may be empty: all ops, ready as they are. */
TD_MUST_CHECK td_status td_oip_repository_index(const char *body, size_t bytes,
                                                struct td_arena *arena, struct td_reply *reply,
                                                struct td_error *err);
/* Bodies of .../load and .../unload of an op that there is. */
TD_MUST_CHECK td_status td_oip_repository_load(const char *body, size_t bytes,
                                               struct td_arena *arena, struct td_reply *reply,
                                               struct td_error *err);
TD_MUST_CHECK td_status td_oip_repository_unload(const char *body, size_t bytes,
                                                 struct td_arena *arena, struct td_reply *reply,
                                                 struct td_error *err);

/* Sums since the start, as the statistics extension names them. */
struct td_oip_stat {
    uint64_t count, ns;
};
struct td_oip_stats {
    uint64_t last_ms; /* since the epoch, of the last that succeeded; 0 for none */
    uint64_t inferences, executions;
    struct td_oip_stat success, fail, queue, input, infer, output;
};
/* of: one set for each of ops. */
TD_MUST_CHECK td_status td_oip_describe_stats(const struct td_op *const *ops,
                                              const struct td_oip_stats *of, int count,
                                              struct td_arena *arena, struct td_reply *reply,
                                              struct td_error *err);

/* A region of shared memory, and the body of .../systemsharedmemory/region/{name}/register. */
struct td_oip_region {
    const char *name, *key; /* key: in the arena, NUL-terminated */
    uint64_t offset, bytes;
};
TD_MUST_CHECK td_status td_oip_read_region(const char *body, size_t bytes, struct td_arena *arena,
                                           struct td_oip_region *out, struct td_error *err);
TD_MUST_CHECK td_status td_oip_describe_regions(const struct td_oip_region *list, int count,
                                                struct td_arena *arena, struct td_reply *reply,
                                                struct td_error *err);

#endif
