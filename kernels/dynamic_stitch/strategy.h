/* strategy.h - the strategies by which dynamic_stitch writes its output, and the choice of one.
 *
 * Rows are scattered in the order of the input, not gathered in the order of the output: so the
 * input is read sequentially, and no read has to wait for a write. The strategies differ in two
 * things: how they find the rows of the output that no index names, which become zeros, and how
 * they select the last of equal indices. stitch_rows.c implements them.
 *
 * Threads  Reentrant. */
#ifndef TD_KERNELS_DYNAMIC_STITCH_STRATEGY_H
#define TD_KERNELS_DYNAMIC_STITCH_STRATEGY_H

#include "kernels/dynamic_stitch/geometry.h"
#include "kernels/rows/strings.h"

/* The inputs of the op, in the order of its descriptor. */
enum { TD_STITCH_INDICES, TD_STITCH_DATA };

enum td_stitch_strategy {
    TD_STITCH_EMPTY,      /* the output has no elements */
    TD_STITCH_ZERO_FIRST, /* the whole output is set to zero, then the rows are written in order:
                             for narrow rows, or few of them */
    TD_STITCH_SERIAL,     /* one thread writes the rows in order and marks them; then unmarked rows
                             are set to zero: for small calls */
    TD_STITCH_PARALLEL,   /* one thread marks rows; then several set unmarked ones to zero and write
                             rows, of equal indices only the last */
    TD_STITCH_STRINGS,    /* the source of each row is recorded, in order; then rows are copied */
    TD_STITCH_LARGE_ROWS  /* as STRINGS, for rows so large that they are copied in parts */
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

    /* Scratch memory of td_stitch_run, each with an element for each row of the output. */
    uint8_t *marks;    /* SERIAL, PARALLEL: 1 where an index names the row, else 0 */
    bool mark_written; /* SERIAL: marks are set while rows are written */
    /* PARALLEL, with equal indices: the number of the last input row with that index, undefined
     * where no index names the row. Replaces marks in their memory. */
    uint32_t *last_row;
    struct td_string_row *string_rows; /* STRINGS: the strings of the row */
    const char **row_sources;          /* LARGE_ROWS: the address of the row in data, or NULL */
};

/* Chooses the strategy of a call, after infer. */
void td_stitch_init(struct td_stitch *job, const struct td_op_args *args);

/* Would n rows be written by several threads? */
bool td_stitch_is_parallel(const struct td_stitch *job, int64_t n);

/* Size of marks in bytes: a multiple of 8. */
size_t td_stitch_marks_bytes(const struct td_stitch *job);

/* Bytes of scratch memory that the strategy needs. */
uint64_t td_stitch_scratch_bytes(const struct td_stitch *job);

/* Estimated cost of a call, after infer. */
struct td_cost td_stitch_cost(const struct td_op_args *args);

#endif
