/* fuzz.h - what the fuzz targets have in common: the program's input, memory that is counted, and
 * the properties of decoded tensors, errors and replies.
 *
 * Errors   A property that does not hold ends the process with a message, which libFuzzer records
 *          as a crash together with the input. */
#ifndef TD_TESTS_FUZZ_FUZZ_H
#define TD_TESTS_FUZZ_FUZZ_H

#include "api/message/message.h"

#include <stdint.h>

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                \
    } while (0)

__attribute__((noreturn, format(printf, 4, 5))) void
fuzz_fail(const char *file, int line, const char *condition, const char *format, ...);

/* libFuzzer calls these. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* ---- the input ------------------------------------------------------------------------------ */

/* Takes the first byte of the input; 0 at its end. */
uint8_t fuzz_byte(const uint8_t **data, size_t *size);

/* An op of kernels/ops.def, or one of the ops of tests/api/request.h, which have all kinds of
 * inputs and attributes and are never run. */
const struct td_op *fuzz_op(uint8_t number);

/* A heap copy of exactly these bytes and `padding` more, so that AddressSanitizer finds reads
 * beyond them. The padding is digits, which would change what is read. free() it. */
char *fuzz_copy(const uint8_t *data, size_t size, size_t padding);

/* ---- memory --------------------------------------------------------------------------------- */

/* An arena whose buffers are counted. Closing it requires that all are released. */
struct td_arena *fuzz_arena_open(void);
void fuzz_arena_close(struct td_arena *arena);

/* The source of those buffers, and how much of it is in use. */
struct td_memory *fuzz_memory(void);
size_t fuzz_memory_in_use(void);

/* Resolves "t", int32[4,2], and "s", string[3], with keys of int64 and of strings; and the regions
 * "r" and "q" of 64 bytes. */
struct td_resolver *fuzz_resolver(void);
struct td_regions *fuzz_regions(void);

/* ---- properties ----------------------------------------------------------------------------- */

/* A code, a message, positions within `size` bytes, and a problem document that is JSON. */
void fuzz_expect_error(const struct td_error *err, td_status status, size_t size);

/* Element count, size and offsets agree; reads all its bytes. */
void fuzz_expect_tensor(const struct td_tensor *tensor);

/* The index of the keys finds each of them at its place. Keys and index that are not `intact` may
 * give no row, or another one with an equal key. */
void fuzz_expect_keys(const struct td_tensor *keys, bool intact);

/* The data lies within the bytes. */
void fuzz_expect_within(const struct td_tensor *tensor, const void *bytes, size_t size);

/* Same dtype, shape and bits; without `bits` all NaNs are the same. */
void fuzz_expect_same(const struct td_tensor *a, const struct td_tensor *b, bool bits);

/* All inputs of a decoded request, and keys in place of one. */
void fuzz_expect_request(const struct td_request *request);

/* The bytes of a reply, copied: free() it. `bound` is the most that its encoder may allocate, with
 * the data that is not copied; SIZE_MAX for none. */
char *fuzz_reply(const struct td_reply *reply, size_t bound, size_t *size);

/* What the text of strings may take beyond its bound: escapes, or base64. */
size_t fuzz_beyond_bound(const struct td_tensor *tensors, int n);

void fuzz_expect_json(const void *text, size_t size);

/* As in /v2, where NaN, Infinity and -Infinity may be numbers. */
void fuzz_expect_oip_json(const void *text, size_t size);

/* Writing a tensor in this format and reading it yields the same tensor. Formats lack some
 * dtypes, which must be NOT_ACCEPTABLE. */
void fuzz_expect_round_trip(const struct td_tensor *tensor, td_format format, td_layout layout);

/* Runs the op of the request if it is one of kernels/ops.def, succeeds, and is small. True: the
 * outputs are set. */
bool fuzz_run(struct td_request *request, struct td_arena *arena);

#endif
