/* strings.h - rows of strings, which differ in size, put together into one tensor.
 *
 * The elements of a row lie one after the other in its bytes, so a row of strings is one copy too,
 * once its place in the output is known: first the sizes of all rows, then their sums, then the
 * bytes.
 *
 * Ownership  The caller allocated out->offsets; out->data is taken from exec->arena.
 * Errors     RESOURCE_LIMIT when the bytes exceed exec->output_limit; what the arena says when it
 *            has none.
 * Threads    Reentrant. Both passes over the rows go through exec. */
#ifndef TD_KERNELS_ROWS_STRINGS_H
#define TD_KERNELS_ROWS_STRINGS_H

#include "kernels/exec.h"
#include "kernels/tensor.h"

/* Where the strings of a row are: row_numel + 1 offsets into bytes. NULL, NULL: a row of empty
 * strings. */
struct td_string_row {
    const uint64_t *offsets;
    const char *bytes;
};

/* Rows begin .. begin + n of the output, n <= TD_ROWS_CHUNK: written to `rows` and returned, or
 * returned from where they are. Runs on any thread. */
typedef const struct td_string_row *td_string_rows_fn(const void *context, int64_t begin, int64_t n,
                                                      struct td_string_row *rows);

struct td_strings {
    struct td_tensor *out;
    int64_t n_rows;    /* of out; neither this nor row_numel is 0 */
    int64_t row_numel; /* elements in a row */
    td_string_rows_fn *rows;
    const void *context;
};

TD_MUST_CHECK td_status td_strings_run(const struct td_strings *job, struct td_exec *exec,
                                       struct td_error *err);

#endif
