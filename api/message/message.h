/* message.h - a decoded request and a finished reply, whatever the format on the wire.
 *
 * Ownership  Everything they point to lives in the call's arena, in its body, or in a buffer that
 * the arena keeps a reference to. */
#ifndef TD_API_MESSAGE_MESSAGE_H
#define TD_API_MESSAGE_MESSAGE_H

#include "kernels/op.h"

typedef enum td_format {
    TD_FORMAT_JSON,
    TD_FORMAT_SAFETENSORS,
    TD_FORMAT_NPY, /* of a single tensor only */
    TD_FORMAT_OIP
} td_format;

typedef enum td_layout { TD_LAYOUT_NESTED, TD_LAYOUT_FLAT, TD_LAYOUT_BASE64 } td_layout;

/* Where a request wants to be computed. */
typedef enum td_device_choice { TD_DEVICE_AUTO, TD_DEVICE_CPU, TD_DEVICE_GPU } td_device_choice;

/* Members a request may set beside the op's inputs and attributes, and what they are when it does
 * not. */
struct td_options {
    td_device_choice device;
    td_layout layout;  /* of a JSON response: "response": nested | flat | base64 */
    bool timing;       /* ?timing=1 */
    const char *store; /* keep the outputs under this name (a list's under name.0, ..., named ones
                          under name.values, ...) and answer with what a resident tensor is told
                          by; in the arena, NULL: no */
    uint32_t set;      /* bit i: the i-th request-wide member was given (attrs.c) */
};

struct td_oip_request; /* what an answer of /v2 depends on beside the outputs (api/oip/types.h) */

struct td_request {
    const struct td_op *op;
    struct td_op_args
        args; /* an input that is set before the body is decoded may not stand in it */
    struct td_options options;
    struct td_oip_request *oip; /* in the arena; NULL outside /v2 */
    bool decoded;               /* the inputs' tensors are all there, to be looked at */
};

/* Tensors in a list input; more are RESOURCE_LIMIT (tensors). A tensor of one element takes two
 * bytes of a request, but hundreds in memory. */
#define TD_MAX_LIST 16384

/* Finds a resident tensor. On success *out describes it and the arena holds a reference to its
 * buffer. */
struct td_resolver {
    td_status (*resolve)(struct td_resolver *self, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err);
};

/* Asks resolver; NULL is one that has no tensor. */
TD_MUST_CHECK td_status td_resolve(struct td_resolver *resolver, const char *name, size_t length,
                                   struct td_arena *arena, struct td_tensor *out,
                                   struct td_error *err);

/* Finds memory that clients share with the server. On success *out is the address of `bytes` bytes
 * at `offset` of the region, and the arena holds a reference to it. NOT_FOUND, INVALID_ARGUMENT. */
struct td_regions {
    td_status (*find)(struct td_regions *self, const char *name, size_t length, uint64_t offset,
                      uint64_t bytes, struct td_arena *arena, void **out, struct td_error *err);
};

/* A reply: chunks that follow each other on the wire. */
struct td_chunk {
    const void *data;
    size_t size;
};

#define TD_REPLY_CHUNKS 4 /* enough for one output; a list of outputs allocates its own */

struct td_header {
    const char *name;  /* static text */
    const char *value; /* static or in the arena */
};

#define TD_REPLY_HEADERS 6

struct td_reply {
    int http_status;
    const char *content_type;                   /* static text; NULL for a reply without a body */
    struct td_header headers[TD_REPLY_HEADERS]; /* beside Content-Type and those of an error */
    int n_headers;
    struct td_chunk *chunks; /* own, or in the arena */
    int n_chunks;
    struct td_chunk own[TD_REPLY_CHUNKS];
};

/* The bounds policy of a request, wherever its op keeps it; TD_BOUNDS_ERROR where it has none. */
td_bounds td_request_bounds(const struct td_request *request);

/* Makes a reply of one piece. */
void td_reply_set(struct td_reply *reply, int http_status, const char *content_type,
                  const void *data, size_t size);

/* Adds a header; there is room for TD_REPLY_HEADERS. */
void td_reply_header(struct td_reply *reply, const char *name, const char *value);

size_t td_reply_bytes(const struct td_reply *reply);

#endif
