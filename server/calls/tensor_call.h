/* tensor_call.h - code shared by calls on one resident tensor: their state, their query arguments
 * and the reply to a change. Private to the tasks of /v1/tensors/{name} and the paths under it.
 *
 * Ownership  The state is in the arena of the call.
 * Threads    The thread that owns the call. */
#ifndef TD_SERVER_CALLS_TENSOR_CALL_H
#define TD_SERVER_CALLS_TENSOR_CALL_H

#include "api/describe.h"
#include "server/calls/call.h"

/* State of a call on one tensor. */
struct td_tensor_call {
    struct td_tensor_listing listing; /* listing of the version that was found or made */
    /* GET: ETag of the version in the reply's format. */
    const char *etag;
    /* GET */
    bool unmodified; /* If-None-Match matches */
    bool whole;      /* the reply is the tensor, not just its metadata */
    td_layout layout;
    unsigned given; /* bit set of enum td_tensor_argument */
    /* GET of statistics: NULL until they are computed. */
    const struct td_statistics *statistics;
    /* PUT: the new tensor. Row changes: the description of the tensor that was found during
     * decoding. GET: a copy of mapped strings. */
    struct td_tensor tensor;
    /* writers */
    struct td_store_write write;
    /* PUT: the keys in the body. Row changes by key: the description of the table's keys. */
    struct td_tensor keys;
    bool has_keys;
    bool created;
    bool upload; /* PUT: also upload the tensor to the device */
};

/* Arguments in the query of a call on a tensor. */
enum td_tensor_argument { TD_TENSOR_PERSIST, TD_TENSOR_DEVICE, TD_TENSOR_RESPONSE };

/* Creates call->state. Returns FORBIDDEN if the request is not allowed to name the tensor. */
TD_MUST_CHECK td_status td_tensor_call_begin(struct td_call *call);

/* Finds the version in the decode stage of a GET, and sets listing, etag and unmodified. Fails with
 * TENSOR_NOT_FOUND, PRECONDITION_FAILED or errors of the store. */
TD_MUST_CHECK td_status td_tensor_call_find(struct td_call *call);

/* Replies 304 with the ETag. */
td_status td_tensor_call_unmodified(struct td_call *call);

/* Starts a change, which a worker makes. */
TD_MUST_CHECK td_status td_tensor_call_begin_write(struct td_call *call);

/* Refuses a DELETE with a body of known length, because the client probably meant to delete only
 * part of the tensor. */
TD_MUST_CHECK td_status td_tensor_call_refuse_body(struct td_call *call);
TD_MUST_CHECK td_status td_tensor_call_check_write(struct td_call *call);
td_effect td_tensor_call_effect(struct td_call *call, struct td_writer *writer);

/* Sets the error for a query parameter that is not in `known`, which has at most two names. */
td_status td_tensor_call_unknown(struct td_call *call, const char *name, size_t length,
                                 const char *const *known, int n);

/* Returns the index of `value` in the choices. Returns -1 and sets the error if the value is not a
 * choice or the parameter is repeated. */
int td_tensor_call_choose(struct td_call *call, enum td_tensor_argument argument,
                          const char *const *choices, const char *value, size_t length);

/* "persist" */
TD_MUST_CHECK td_status td_tensor_call_persist(struct td_call *call, const char *value,
                                               size_t length);

/* Adds the reply's ETag. Replies to changes are JSON and have the version's ETag. */
void td_tensor_call_add_etag(struct td_call *call);
TD_MUST_CHECK td_status td_tensor_call_encode_listing(struct td_call *call);

/* If state->created is set, replies 201 with the path of the created resource below /v1/tensors. */
TD_MUST_CHECK td_status td_tensor_call_add_location(struct td_call *call, const char *suffix);

/* Detects the format of the body if Content-Type does not state it. */
void td_tensor_call_recognise(struct td_call *call);

/* Sets the owner of the data of a tensor that was read from the body, so the store can keep the
 * data. */
void td_tensor_call_own(struct td_call *call, struct td_tensor *tensor, bool in_body);

#endif
