/* strategy.h - the strategies by which dynamic_stitch writes its output, and the choice of one.
 *
 * Rows are scattered in the order of the input instead of gathered in the order of the output, so
 * the input is read sequentially and no read has to wait for a write. The strategies differ in how
 * they find the rows of the output that no index names, which become zeros, and in how they select
 * the last of equal indices. stitch_rows.c implements the strategies.
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
    /* Sets the whole output to zero, then writes the rows in order. Used for narrow rows, or few
     * rows. */
    TD_STITCH_ZERO_FIRST,
    /* One thread writes the rows in order and marks them; then unmarked rows are set to zero. Used
     * for small calls. */
    TD_STITCH_SERIAL,
    /* One thread marks rows; then several threads set unmarked rows to zero and write the rows. Of
     * equal indices, only the last row is written. */
    TD_STITCH_PARALLEL,
    /* Records the source of each row in order, then copies the rows. */
    TD_STITCH_STRINGS,
    /* Works like STRINGS, for rows so large that they are copied in parts. */
    TD_STITCH_LARGE_ROWS
};

/* A call with its strategy. Rows of the input are numbered over all data tensors, as in
 * td_dynamic_stitch_geometry. */
struct td_stitch {
    const struct td_dynamic_stitch_geometry *geometry;
    const struct td_tensor *indices, *data;
    struct td_tensor *out;
    int64_t n_in;     /* rows of the input */
    int64_t n_out;    /* rows of the output */
    size_t row_bytes; /* 0 for strings */
    enum td_stitch_strategy strategy;
    bool stream; /* rows are written with streaming stores */

    /* Scratch memory of td_stitch_run. Each array has one element for each row of the output. */
    uint8_t *marks;    /* for SERIAL and PARALLEL: 1 if an index names the row, otherwise 0 */
    bool mark_written; /* for SERIAL: true if marks are set while rows are written */
    /* For PARALLEL with equal indices: the number of the last input row with the index, undefined
     * if no index names the row. Uses the memory of `marks`. */
    uint32_t *last_row;
    struct td_string_row *string_rows; /* for STRINGS: the strings of each row */
    const char **row_sources;          /* for LARGE_ROWS: address of each row in data, or NULL */
};

/* Sets up a job from a call after infer, and chooses its strategy. */
void td_stitch_init(struct td_stitch *job, const struct td_op_args *args);

/* True if several threads would write n rows. */
bool td_stitch_is_parallel(const struct td_stitch *job, int64_t n);

/* Returns the size of marks in bytes, which is a multiple of 8. */
size_t td_stitch_marks_bytes(const struct td_stitch *job);

/* Returns the bytes of scratch memory that the strategy needs. */
uint64_t td_stitch_scratch_bytes(const struct td_stitch *job);

/* Returns the estimated cost of a call, after infer. */
struct td_cost td_stitch_cost(const struct td_op_args *args);

#endif
