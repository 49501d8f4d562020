/* status.h - error codes, and struct td_error with the details of a failure.
 *
 * A function that can fail returns td_status and takes a struct td_error last. The function that
 * detects the failure fills in the error, and its callers pass it on unchanged. Only
 * api/message/problem.c turns an error into HTTP.
 *
 * Ownership  struct td_error has no pointers. Texts are copied into it and truncated if they are
 *            too long.
 * Threads    Not synchronised. An error belongs to the call that failed. */
#ifndef TD_KERNELS_STATUS_H
#define TD_KERNELS_STATUS_H

#include "kernels/shape.h"
#include "kernels/shown_text.h"

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
    X(DIVISION_BY_ZERO)                                                                            \
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

/* Returns the name of a status as a static string, such as "INDEX_OUT_OF_BOUNDS". */
const char *td_status_name(td_status status);

/* The details of a failure. td_error_set sets status and message, and clears all other members. The
 * function that fails then sets the members that apply. */
struct td_error {
    td_status status;
    char message[512];  /* one sentence: what was given, what was expected */
    char input[64];     /* the invalid input, such as "indices" or "data[3]", or "" */
    char attribute[64]; /* the invalid attribute, header or option, or "" */
    /* For UNSUPPORTED_DTYPE: the device that has no kernel for the dtype, or "". */
    char device[8];
    char pointer[256]; /* JSON Pointer into a JSON body; can contain NULs */
    size_t pointer_length;
    int64_t offset;   /* byte offset into the body or the equation, or -1 */
    bool has_pointer; /* true if pointer is set; "" is the root */
    bool has_index;   /* true if position_rank, position, index and bad_count are set */
    bool has_bound;   /* true if bound and axis are set */
    /* True if position_rank, position and bad_count are set without an index or a key. */
    bool has_position;
    int position_rank;
    int axis;
    int64_t position[TD_MAX_RANK]; /* position of the first bad element, in row-major order */
    int64_t index;                 /* value of the first bad element */
    int64_t bound;                 /* index must be in [0, bound) */
    int64_t bad_count;             /* number of bad elements */
    /* For KEY_NOT_FOUND: true if key, position_rank, position and bad_count are set. */
    bool has_key;
    bool key_is_number;      /* true if key consists of the decimal digits of a number */
    char key[TD_SHOWN_SIZE]; /* the first key that was not found; can contain NULs */
    size_t key_length;
    bool has_equal;   /* true if equal is set */
    int64_t equal[2]; /* two positions in a vector with equal values, in ascending order */
    /* For an error of a step of a program: true if step, as and op are set. */
    bool has_step;
    int step;     /* number of the step */
    char as[65];  /* name of the step's first result */
    char op[33];  /* name of the step's op */
    int n_shapes; /* number of shapes, which do not match */
    struct {
        char name[64];
        struct td_shape shape;
    } shapes[3];
    char label[8];         /* label of an equation, one character in UTF-8, or "" */
    bool has_extents;      /* true if extents is set */
    int64_t extents[2];    /* two sizes of the same dimension, which should be equal */
    char did_you_mean[64]; /* most similar known name, or "" if none is similar */
    char resource[32];     /* for RESOURCE_LIMIT: name of the limited resource, or "" */
    uint64_t needed;
    uint64_t limit;
    /* Number of seconds to wait before a retry, based on the length of a queue. 0 means the default
     * of the error code. */
    unsigned retry_after_s;
    char allow[64]; /* for METHOD_NOT_ALLOWED: the allowed methods */
    char etag[64];  /* for PRECONDITION_FAILED: the current ETag, or "" if nothing exists */
    /* Name of the tensor that has this ETag, which can differ from the name in the request. Not
     * reported to clients. */
    char etag_of[129];
};

/* Records a failure and returns `status`, so a refusal is one statement:
 *     return td_error_set(err, TD_INVALID_AXIS, "axis = %lld is not in [-%d, %d)", ...);
 * Clears all other members of err.
 *
 * No function that takes err accepts NULL. A caller that does not need the error passes TD_IGNORED.
 * On frequent paths, it passes its own variable, because TD_IGNORED is cleared at each use. */
#define TD_IGNORED (&(struct td_error){ .status = TD_OK })

td_status td_error_set(struct td_error *err, td_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends "; " and a hint to the message of an error if the whole hint fits. */
void td_error_hint(struct td_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The functions below add a detail to an error after td_error_set. Functions with a parameter
 * `status` return it. */
/* Sets the name of the tensor that err->etag belongs to. */
void td_error_etag_of(struct td_error *err, const char *name);

td_status td_error_at_input(struct td_error *err, td_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
td_status td_error_at_attribute(struct td_error *err, td_status status, const char *name);
/* Adds the first key that was not found, which has `length` bytes. Omits bytes that do not fit. */
td_status td_error_at_key(struct td_error *err, td_status status, const char *key, size_t length,
                          bool is_number);
td_status td_error_at_device(struct td_error *err, td_status status, const char *device);
void td_error_add_shape(struct td_error *err, const char *name, const struct td_shape *shape);

/* Sets RESOURCE_LIMIT with the message "<what> needs N <unit>; the limit is M". */
td_status td_error_resource(struct td_error *err, const char *resource, uint64_t needed,
                            uint64_t limit, const char *what);

/* Sets PAYLOAD_TOO_LARGE with the message "<what> the limit of N bytes". For example, `what` is
 * "the body exceeds". */
td_status td_error_too_large(struct td_error *err, uint64_t limit, const char *what);

#endif
