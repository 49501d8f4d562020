/* strings.h - assembles a tensor of strings from rows, which differ in size.
 *
 * The strings of a row are contiguous, so a single copy moves a row after its position in the
 * output is known. There are three passes: the sizes of all rows, their prefix sums, and the bytes.
 *
 * Ownership  The caller allocates out->offsets. out->data is allocated in exec->arena.
 * Errors     RESOURCE_LIMIT if the bytes exceed exec->output_limit, and the arena's error if memory
 *            is exhausted.
 * Threads    Reentrant. The first and third passes run in parallel through exec. */
#ifndef TD_KERNELS_ROWS_STRINGS_H
#define TD_KERNELS_ROWS_STRINGS_H

#include "kernels/exec.h"
#include "kernels/tensor.h"

/* The strings of a row, as row_numel + 1 offsets into bytes. If both pointers are NULL, the row
 * consists of empty strings. */
struct td_string_row {
    const uint64_t *offsets;
    const char *bytes;
};

/* Returns the rows [begin, begin + n) of the output, where n <= TD_ROWS_CHUNK. Returns `rows` after
 * filling it, or another array that contains the rows. Runs on any thread. */
typedef const struct td_string_row *td_string_rows_fn(const void *context, int64_t begin, int64_t n,
                                                      struct td_string_row *rows);

struct td_strings {
    struct td_tensor *out;
    int64_t n_rows;    /* number of rows of out; neither n_rows nor row_numel is 0 */
    int64_t row_numel; /* number of elements per row */
    td_string_rows_fn *rows;
    const void *context;
};

TD_MUST_CHECK td_status td_strings_run(const struct td_strings *job, struct td_exec *exec,
                                       struct td_error *err);

#endif
