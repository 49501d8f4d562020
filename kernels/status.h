/* status.h - error codes, and struct td_error with the details of a failure.
 *
 * A function that can fail returns td_status and takes a struct td_error last. The function that
 * detects the failure fills it, and its callers pass it on unchanged. Only api/message/problem.c
 * turns it into HTTP.
 *
 * Ownership  struct td_error has no pointers: texts are copied into it, truncated if too long.
 * Threads    Not synchronised: an error belongs to the call that failed. */
#ifndef TD_KERNELS_STATUS_H
#define TD_KERNELS_STATUS_H

#include "kernels/shape.h"

#include <stdbool.h>
#include <stdint.h>

#define TD_MUST_CHECK __attribute__((warn_unused_result))

/* All error codes that a client can receive. The names are part of the HTTP API. */
#define TD_STATUSES(X)                                                                             \
    X(MALFORMED_REQUEST)                                                                           \
    X(INDEX_OUT_OF_BOUNDS)                                                                         \
    X(SHAPE_MISMATCH)                                                                              \
    X(INVALID_AXIS)                                                                                \
    X(INVALID_BATCH_DIMS)                                                                          \
    X(INVALID_EQUATION)                                                                            \
    X(UNSUPPORTED_DTYPE)                                                                           \
    X(INVALID_ARGUMENT)                                                                            \
    X(KEY_NOT_FOUND)                                                                               \
    X(UNKNOWN_OP)                                                                                  \
    X(TENSOR_NOT_FOUND)                                                                            \
    X(NOT_FOUND)                                                                                   \
    X(METHOD_NOT_ALLOWED)                                                                          \
    X(NOT_ACCEPTABLE)                                                                              \
    X(UNSUPPORTED_MEDIA_TYPE)                                                                      \
    X(PRECONDITION_FAILED)                                                                         \
    X(CONFLICT)                                                                                    \
    X(PAYLOAD_TOO_LARGE)                                                                           \
    X(RANGE_NOT_SATISFIABLE)                                                                       \
    X(RESOURCE_LIMIT)                                                                              \
    X(UNAUTHENTICATED)                                                                             \
    X(FORBIDDEN)                                                                                   \
    X(REQUEST_TIMEOUT)                                                                             \
    X(CLIENT_LIMIT)                                                                                \
    X(CONNECTION_LIMIT)                                                                            \
    X(QUEUE_FULL)                                                                                  \
    X(MEMORY_EXHAUSTED)                                                                            \
    X(DRAINING)                                                                                    \
    X(DATA_DIR_LOCKED)                                                                             \
    X(DEVICE_UNAVAILABLE)                                                                          \
    X(DEADLINE_EXCEEDED)                                                                           \
    X(NOT_SUPPORTED)                                                                               \
    X(INTERNAL)

typedef enum td_status {
    TD_OK = 0,
#define TD_STATUS_ENUM(name) TD_##name,
    TD_STATUSES(TD_STATUS_ENUM)
#undef TD_STATUS_ENUM
        TD_STATUS_COUNT
} td_status;

/* "INDEX_OUT_OF_BOUNDS" for TD_INDEX_OUT_OF_BOUNDS. A static string. */
const char *td_status_name(td_status status);

/* The details of a failure. td_error_set sets status and message and makes all other members
 * absent; the function that fails then adds the members that apply. */
struct td_error {
    td_status status;
    char message[512];  /* one sentence: what was given, what was expected */
    char input[64];     /* input at fault, "indices" or "data[3]"; "" when none */
    char attribute[64]; /* attribute, header or option at fault; "" when none */
    char device[8];     /* UNSUPPORTED_DTYPE: the device that has no kernel for it; "" when none */
    char pointer[256];  /* JSON Pointer into a JSON body; may contain NULs */
    size_t pointer_length;
    int64_t offset;   /* byte offset into the body or into an equation; -1 when none */
    bool has_pointer; /* pointer is set; "" is the root */
    bool has_index;   /* position_rank, position, index and bad_count are set */
    bool has_bound;   /* bound and axis are set */
    int position_rank;
    int axis;
    int64_t position[TD_MAX_RANK]; /* of the first bad element in row-major order */
    int64_t index;                 /* the value of that element */
    int64_t bound;                 /* index must be in [0, bound) */
    int64_t bad_count;             /* number of bad elements */
    bool has_key;       /* KEY_NOT_FOUND: key, position_rank, position, bad_count are set */
    bool key_is_number; /* key is its decimal digits */
    char key[129];      /* the first key that was not found; may contain NULs */
    size_t key_length;
    bool has_equal;   /* equal is set */
    int64_t equal[2]; /* two positions in a vector with equal values, in order */
    int n_shapes;     /* shapes that do not match */
    struct {
        char name[64];
        struct td_shape shape;
    } shapes[2];
    char label[8];         /* of an equation: one character in UTF-8; "" when none */
    bool has_extents;      /* extents is set */
    int64_t extents[2];    /* two sizes of one dimension that should be equal */
    char did_you_mean[64]; /* the most similar known name; "" when none is similar */
    char resource[32];     /* RESOURCE_LIMIT: the limited resource; "" when none */
    uint64_t needed;
    uint64_t limit;
    unsigned retry_after_s; /* of a queue, whose length tells; 0: as its code says */
    char allow[64];         /* METHOD_NOT_ALLOWED: the allowed methods */
    char etag[64];          /* PRECONDITION_FAILED: the current ETag; "" when nothing exists */
    char etag_of[129]; /* whose that is, which may be another name than that of the request; not
                          reported */
};

/* Records a failure and returns `status`, so that a refusal is one statement:
 *     return td_error_set(err, TD_INVALID_AXIS, "axis = %lld is not in [-%d, %d)", ...);
 * All other members of err become absent.
 *
 * err is never NULL, in no function that has one: a caller that does not want the error passes
 * TD_IGNORED, or a variable of its own where that is called often, since TD_IGNORED is cleared. */
#define TD_IGNORED (&(struct td_error){ .status = TD_OK })

td_status td_error_set(struct td_error *err, td_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends "; " and a hint to the message of an error, if there is room for all of it. */
void td_error_hint(struct td_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add a detail to an error after td_error_set. Functions that take `status` return it. */
/* Names the tensor that err->etag is of. */
void td_error_etag_of(struct td_error *err, const char *name);

td_status td_error_at_input(struct td_error *err, td_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
td_status td_error_at_attribute(struct td_error *err, td_status status, const char *name);
/* The first key that was not found: of `length` bytes, those that do not fit are left out. */
td_status td_error_at_key(struct td_error *err, td_status status, const char *key, size_t length,
                          bool is_number);
td_status td_error_at_device(struct td_error *err, td_status status, const char *device);
void td_error_add_shape(struct td_error *err, const char *name, const struct td_shape *shape);

/* Reports RESOURCE_LIMIT: "<what> needs N <unit>, the limit is M". */
td_status td_error_resource(struct td_error *err, const char *resource, uint64_t needed,
                            uint64_t limit, const char *what);

/* Reports PAYLOAD_TOO_LARGE: "<what> the limit of N bytes", where what is "the body exceeds". */
td_status td_error_too_large(struct td_error *err, uint64_t limit, const char *what);

#endif
