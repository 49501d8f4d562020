/* tensor_call.h - what the calls on one resident tensor have in common: their state, the arguments
 * in the query, the reply to a change. Private to the tasks of /v1/tensors/{name} and the paths
 * under it.
 *
 * Ownership  The state is in the arena of the call.
 * Threads    The call's owner. */
#ifndef TD_SERVER_CALLS_TENSOR_CALL_H
#define TD_SERVER_CALLS_TENSOR_CALL_H

#include "api/describe.h"
#include "server/calls/call.h"

/* State of a call on one tensor. */
struct td_tensor_call {
    struct td_tensor_listing listing; /* of the version found or made */
    const char *etag;                 /* GET: of the version in the format of the reply */
    /* GET */
    bool unmodified; /* If-None-Match matches */
    bool whole;      /* the reply is the tensor, not its metadata */
    td_layout layout;
    unsigned given;                         /* bit set of enum td_tensor_argument */
    const struct td_statistics *statistics; /* GET of statistics: NULL until they are computed */
    /* PUT: the new tensor; scatter, upsert, remove: the one found while decoding, its keys; GET: a
     * copy of mapped strings */
    struct td_tensor tensor;
    /* writers */
    struct td_store_write write;
    struct td_tensor keys; /* PUT: those in the body */
    bool has_keys;
    bool created;
    bool upload; /* PUT: upload to the device too */
};

/* In the query. */
enum td_tensor_argument { TD_TENSOR_PERSIST, TD_TENSOR_DEVICE, TD_TENSOR_RESPONSE };

/* Makes call->state. FORBIDDEN if the request may not name the tensor. */
TD_MUST_CHECK td_status td_tensor_call_begin(struct td_call *call);

/* Of a GET, to decode it: finds the version, sets listing, etag and unmodified. TENSOR_NOT_FOUND,
 * PRECONDITION_FAILED, errors of the store. */
TD_MUST_CHECK td_status td_tensor_call_find(struct td_call *call);

/* 304 with the ETag. */
td_status td_tensor_call_unmodified(struct td_call *call);

/* Of a change, which a worker makes. */
TD_MUST_CHECK td_status td_tensor_call_begin_write(struct td_call *call);

/* For a DELETE: refuses a body of known length, which probably says that a part is meant. */
TD_MUST_CHECK td_status td_tensor_call_refuse_body(struct td_call *call);
TD_MUST_CHECK td_status td_tensor_call_check_write(struct td_call *call);
td_effect td_tensor_call_effect(struct td_call *call, struct td_writer *writer);

/* The error of a query parameter that is not one of `known`, of which there are at most two. */
td_status td_tensor_call_unknown(struct td_call *call, const char *name, size_t length,
                                 const char *const *known, int n);

/* The index of `value` in the choices; -1 with the error set if it is none of them, or the
 * parameter is repeated. */
int td_tensor_call_choose(struct td_call *call, enum td_tensor_argument argument,
                          const char *const *choices, const char *value, size_t length);

/* "persist" */
TD_MUST_CHECK td_status td_tensor_call_persist(struct td_call *call, const char *value,
                                               size_t length);

/* Replies to changes are JSON, whose tag is that of the version. */
void td_tensor_call_add_etag(struct td_call *call);
TD_MUST_CHECK td_status td_tensor_call_encode_listing(struct td_call *call);

/* 201 with the path of what was created, if state->created: below /v1/tensors. */
TD_MUST_CHECK td_status td_tensor_call_add_location(struct td_call *call, const char *suffix);

/* The format of the body where Content-Type does not state it. */
void td_tensor_call_recognise(struct td_call *call);

/* Of a tensor read from the body: who owns its data, so that the store can keep it. */
void td_tensor_call_own(struct td_call *call, struct td_tensor *tensor, bool in_body);

#endif
