/* message.h - a decoded request and a finished reply, whatever the format on the wire.
 *
 * Ownership  Everything they point to lives in the call's arena, in its body, or in a buffer that
 * the arena keeps a reference to. */
#ifndef TD_API_MESSAGE_H
#define TD_API_MESSAGE_H

#include "kernels/op.h"

typedef enum td_format { TD_FORMAT_JSON, TD_FORMAT_SAFETENSORS } td_format;

typedef enum td_layout { TD_LAYOUT_NESTED, TD_LAYOUT_FLAT, TD_LAYOUT_BASE64 } td_layout;

typedef enum td_device { TD_DEVICE_AUTO, TD_DEVICE_CPU, TD_DEVICE_GPU } td_device;

/* Members a request may set beside the op's inputs and attributes, and what they are when it does
 * not. */
struct td_options {
    td_device device;
    td_layout layout; /* of a JSON response: "response": nested | flat | base64 */
    bool timing;      /* ?timing=1 */
    uint32_t set;     /* bit i: the i-th request-wide member was given (attrs.c) */
};

struct td_request {
    const struct td_op *op;
    struct td_op_args args;
    struct td_options options;
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

/* A reply: pieces that follow each other on the wire. */
struct td_piece {
    const void *data;
    size_t size;
};

#define TD_REPLY_PIECES 4 /* enough for one output; a list of outputs allocates its own */

struct td_reply {
    int http_status;
    const char *content_type; /* static text */
    struct td_piece *pieces;  /* own, or in the arena */
    int n_pieces;
    struct td_piece own[TD_REPLY_PIECES];
};

/* The bounds policy of a request, wherever its op keeps it; TD_BOUNDS_ERROR where it has none. */
td_bounds td_request_bounds(const struct td_request *request);

/* Makes a reply of one piece. */
void td_reply_set(struct td_reply *reply, int http_status, const char *content_type,
                  const void *data, size_t size);

size_t td_reply_bytes(const struct td_reply *reply);

#endif
