/* request.h - decodes requests in tests and detects reads after the end of the body.
 *
 * A body is a heap copy of exact size, followed by the padding that the decoder requires. The
 * padding consists of bytes that would change the result if they were read as part of the body; the
 * sanitizers detect reads after it. */
#ifndef TD_TESTS_API_REQUEST_H
#define TD_TESTS_API_REQUEST_H

#include "api/message/message.h"
#include "tests/support/expect.h"

/* An op with list inputs and every kind of attribute; it is never run.
 *     lists   float32 or string, a list    ints   int32, a list, values used
 *     count (int64)   bounds   equation (text)   size (small, large or huge)   axes (int64[])
 *     epsilon (float64)   keep (bool)   dtype (int16, int32 or int64) */
extern const struct td_op list_op;

/* An op with named outputs, values and places, and inputs of all roles but indices; it is never
 * run.
 *     x, more (a list, optional)   of one dtype
 *     keys (int64, uint64, string), condition (bool)   optional */
extern const struct td_op pair_op;

struct decoded {
    td_status status;
    struct td_request request;
    struct td_error err;
    const char *body; /* which tensors may point into; NULL after JSON */
};

/* A resolver with one tensor, "table". */
struct test_resolver {
    struct td_resolver base;
    struct td_tensor table;
};
void test_resolver_init(struct test_resolver *resolver, struct td_tensor table);

char *padded_copy(const void *bytes, size_t size, int padding); /* free() it */

void decode_json(struct decoded *out, const struct td_op *op, const void *body, size_t size,
                 struct td_resolver *resolver);
void decode_safetensors(struct decoded *out, const struct td_op *op, const void *body, size_t size,
                        struct td_resolver *resolver);

/* Keeps a body that tensors may point into, until bodies_free, which a fixture calls. */
void body_keep(struct decoded *out, char *body);
void bodies_free(void);

/* Decodes a request for gather from a NUL-terminated body. */
void decode_gather(struct decoded *out, const char *body);

/* Expects an error that a client can act on: a code, a message, an offset or position in the
 * body. */
void expect_clean_error(const struct td_error *err, td_status status, size_t body_size,
                        const char *case_name);

/* Decodes every truncation of a body, and `mutations` variants of it with some bytes changed,
 * removed, duplicated or exchanged. Each must be decoded or fail with an error that
 * expect_clean_error accepts. */
typedef void decode_fn(struct decoded *out, const struct td_op *op, const void *body, size_t size,
                       struct td_resolver *resolver);
void expect_clean_failures(decode_fn *decode, const struct td_op *op, const void *body, size_t size,
                           int mutations, uint64_t seed);

/* Makes a random variant of a body, in place, and returns its size; state is random_from's. */
size_t mutate(char *body, size_t size, size_t capacity, uint64_t *state);

#endif
