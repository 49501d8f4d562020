/* message.h - a decoded request and an encoded reply, independent of the wire format.
 *
 * Ownership  All pointers are into the call's arena, its body, or a buffer that the arena has a
 *            reference to. */
#ifndef TD_API_MESSAGE_MESSAGE_H
#define TD_API_MESSAGE_MESSAGE_H

#include "kernels/op.h"

typedef enum td_format {
    TD_FORMAT_JSON,
    TD_FORMAT_SAFETENSORS,
    TD_FORMAT_NPY, /* for single tensors only */
    TD_FORMAT_OIP
} td_format;

typedef enum td_layout { TD_LAYOUT_NESTED, TD_LAYOUT_FLAT, TD_LAYOUT_BASE64 } td_layout;

/* The longest time to live of a stored result: a year, in seconds. */
#define TD_STORE_TTL_MAX 31536000

/* "device": where the client wants the op to be computed. */
typedef enum td_device_choice { TD_DEVICE_AUTO, TD_DEVICE_CPU, TD_DEVICE_GPU } td_device_choice;

/* The request-wide members and their values. All zero is the default. */
struct td_options {
    td_device_choice device;
    td_layout layout; /* "response": nested, flat or base64, of a JSON reply */
    bool timing;      /* ?timing=1 */
    /* "store": keep the outputs as resident tensors of this name and reply with their descriptions;
     * in the arena, NULL if not given. The outputs of a list are NAME.0, NAME.1, ..., named outputs
     * NAME.values, ... */
    const char *store;
    int64_t store_ttl_s; /* how long they stay, in seconds; 0: until they are deleted or replaced */
    uint32_t set;        /* bit i: member i was given; enum option in attrs.c numbers them */
};

struct td_oip_request; /* what the encoder of /v2 needs besides the outputs (api/oip/types.h) */

struct td_request {
    const struct td_op *op;
    /* Inputs that are set before the body is decoded may not be in the body. */
    struct td_op_args args;
    struct td_options options;
    /* Bits of args.attrs_set and options.set that the query string has set and the body has not. */
    struct {
        uint32_t attrs, options;
    } by_query;
    /* Keys of rows of the first input, a resident table, in place of input number row_input, which
     * has no tensor then. In the arena. NULL and 0: none were given. */
    struct td_tensor *row_keys;
    int row_input;
    const char *row_keys_name;  /* of row_keys, in the body and in errors; NULL: INPUT.keys */
    const char *table;          /* the table that the path names, the first input; NULL: none */
    const char *whole;          /* the table of which that is a part, "t" of "t.scale"; or NULL */
    bool table_has_keys;        /* it has keys */
    bool called_keys;           /* the body calls the input of td_op_keys_input "keys" */
    struct td_oip_request *oip; /* in the arena; NULL outside /v2 */
    bool decoded;               /* all input tensors are set */
    bool has_complex_base64;    /* a complex tensor is base64 in JSON, without [re, im] */
    bool has_no_output;         /* to send or store, so that it has no "response" and no "store" */
    bool is_change; /* of the table that the path names; the query string has TD_PERSIST */
};

/* Maximum number of tensors in a list input; more is RESOURCE_LIMIT (tensors). A tensor of one
 * element takes two bytes of a request, but hundreds of bytes in memory. */
#define TD_MAX_LIST 16384

/* Looks up a resident tensor. On success *out describes it and the arena has a reference to its
 * buffer. */
struct td_resolver {
    td_status (*resolve)(struct td_resolver *self, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err);
};

/* Calls resolver->resolve. Without a resolver there are no resident tensors: TENSOR_NOT_FOUND. */
TD_MUST_CHECK td_status td_resolve(struct td_resolver *resolver, const char *name, size_t length,
                                   struct td_arena *arena, struct td_tensor *out,
                                   struct td_error *err);

/* Looks up shared memory that a client has registered. On success *out is the address of `bytes`
 * bytes at `offset` in the region, and the arena has a reference to it. Errors: NOT_FOUND,
 * INVALID_ARGUMENT. */
struct td_regions {
    td_status (*find)(struct td_regions *self, const char *name, size_t length, uint64_t offset,
                      uint64_t bytes, struct td_arena *arena, void **out, struct td_error *err);
};

/* A part of a reply's body, as struct iovec. The chunks of a reply are sent one after the other. */
struct td_chunk {
    const void *data;
    size_t size;
};

/* Enough for one output; replies with more allocate the array in the arena. */
#define TD_REPLY_CHUNKS 4

struct td_header {
    const char *name;  /* static */
    const char *value; /* static, or in the arena */
};

#define TD_REPLY_HEADERS 8

struct td_reply {
    int http_status;
    const char *content_type;                   /* static; NULL for a reply without a body */
    struct td_header headers[TD_REPLY_HEADERS]; /* other than Content-Type and those of errors */
    int n_headers;
    struct td_chunk *chunks; /* `own`, or in the arena */
    int n_chunks;
    struct td_chunk own[TD_REPLY_CHUNKS];
};

/* The bounds policy of a request; TD_BOUNDS_ERROR if its op has no such attribute. */
td_bounds td_request_bounds(const struct td_request *request);

/* Sets status, content type and a body of one chunk. */
void td_reply_set(struct td_reply *reply, int http_status, const char *content_type,
                  const void *data, size_t size);

/* Adds a header; at most TD_REPLY_HEADERS. */
void td_reply_header(struct td_reply *reply, const char *name, const char *value);

size_t td_reply_bytes(const struct td_reply *reply);

#endif
