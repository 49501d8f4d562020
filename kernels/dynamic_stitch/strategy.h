/* strategy.h - the strategies by which dynamic_stitch writes its output, and the choice among them.
 *
 * Rows are scattered in input order instead of gathered in output order, so the input is read
 * sequentially and no read has to wait for a write. Output rows that no index selects become zeros.
 * The strategies differ in how they find these rows and how they select the last of several equal
 * indices. stitch_rows.c implements the strategies.
 *
 * Threads    Reentrant. */
#ifndef TD_KERNELS_DYNAMIC_STITCH_STRATEGY_H
#define TD_KERNELS_DYNAMIC_STITCH_STRATEGY_H

#include "kernels/dynamic_stitch/geometry.h"
#include "kernels/rows/strings.h"

/* Positions of the inputs in the descriptor of the op. */
enum { TD_STITCH_INDICES, TD_STITCH_DATA };

enum td_stitch_strategy {
    TD_STITCH_EMPTY, /* the output has no elements */
    /* Sets the whole output to zero, then writes the rows in order. Used if rows are narrow or
     * few. */
    TD_STITCH_ZERO_FIRST,
    /* One thread writes the rows in order and marks them. It then sets unmarked rows to zero. Used
     * for small calls. */
    TD_STITCH_SERIAL,
    /* One thread marks rows. Several threads then set unmarked rows to zero and write the others.
     * Among rows with equal indices, only the last is written. */
    TD_STITCH_PARALLEL,
    /* Records the source of each row in order, then copies the rows. */
    TD_STITCH_STRINGS,
    /* Like STRINGS, for rows so large that they are copied in parts. */
    TD_STITCH_LARGE_ROWS
};

/* A call with its strategy. Input rows are numbered over all data tensors, as in
 * td_dynamic_stitch_geometry. */
struct td_stitch {
    const struct td_dynamic_stitch_geometry *geometry;
    const struct td_tensor *indices, *data;
    struct td_tensor *out;
    int64_t n_in;     /* number of input rows */
    int64_t n_out;    /* number of output rows */
    size_t row_bytes; /* 0 for strings */
    enum td_stitch_strategy strategy;
    bool stream; /* rows are written with streaming stores */

    /* Scratch memory of td_stitch_run. Each array has one element per output row. */
    uint8_t *marks;    /* for SERIAL and PARALLEL: 1 if an index selects the row, otherwise 0 */
    bool mark_written; /* for SERIAL: true if marks are set while rows are written */
    /* For PARALLEL with equal indices: number of the last input row with this index. Undefined if
     * no index selects the row. Uses the memory of `marks`. */
    uint32_t *last_row;
    struct td_string_row *string_rows; /* for STRINGS: the strings of each row */
    const char **row_sources;          /* for LARGE_ROWS: address of each row in data, or NULL */
};

/* Sets up a job from a call after infer, and chooses its strategy. */
void td_stitch_init(struct td_stitch *job, const struct td_op_args *args);

/* True if n rows are enough to be written by several threads. */
bool td_stitch_is_parallel(const struct td_stitch *job, int64_t n);

/* Returns the size of marks in bytes, which is a multiple of 8. */
size_t td_stitch_marks_bytes(const struct td_stitch *job);

/* Returns the size in bytes of the scratch memory that the strategy needs. */
uint64_t td_stitch_scratch_bytes(const struct td_stitch *job);

/* Returns the estimated cost of a call, after infer. */
struct td_cost td_stitch_cost(const struct td_op_args *args);

#endif
