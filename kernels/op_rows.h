/* op_rows.h - ops that pick rows of a table by queries: how their inputs and outputs belong to rows
 * and queries, as data.
 *
 *     table    [n, R...]      per row    [n] or []
 *     queries  [Q...]         per query  [Q...]          output  [Q..., R...]
 *     bags of queries, by offsets [b] or segments [Q]     output  [b, R...]
 *
 * The parts of the inputs are in their declarations (td_input_spec.part). Other code derives from
 * them what it does with such an op: it merges calls (merge.h), counts the rows that are read,
 * accepts keys in place of row numbers, knows which queries a device reports, and splits calls
 * among parts of the table (split/split.h).
 *
 * Threads  Constants; all functions are reentrant. */
#ifndef TD_KERNELS_OP_ROWS_H
#define TD_KERNELS_OP_ROWS_H

#include "kernels/op.h"

#define TD_ROWS_NONE (-1) /* no such attribute, no such output */

/* The first values of every policy about queries without a row. */
enum { TD_ROWS_POLICY_ERROR, TD_ROWS_POLICY_ZERO };

/* What an op makes of the rows of a bag. The choices of its attribute are in this order. */
typedef enum td_bag_mode {
    TD_BAG_SUM,   /* the sum of the rows, each times its weight */
    TD_BAG_MEAN,  /* that, divided by the sum of the weights */
    TD_BAG_SQRTN, /* that, divided by the root of the sum of their squares */
    TD_BAG_MAX    /* the greatest element of each column; NaN wins */
} td_bag_mode;

/* The attributes of an op that picks rows in bags. It has an input SEGMENTS. */
struct td_op_bags {
    int mode_attr;  /* td_bag_mode */
    int dtype_attr; /* that of the output; sums are in float32, or float64 if either has it */
    int skip_attr;  /* a row number: queries that are equal to it, as given, do not count */
    int last_attr;  /* about offsets: their last element is no bag */
};

/* The dimensions that a tuple of `depth` components indexes. The row number of a tuple is the sum
 * of its components times the strides. With depth 0 there is one row, number 0. */
struct td_tuple_space {
    int depth;
    int64_t bound[TD_MAX_RANK];
    int64_t stride[TD_MAX_RANK];
};

struct td_op_rows {
    /* The number of trailing dimensions of the queries that make up one query: 1 for index tuples,
     * else 0. */
    int query_rank;
    /* Does each query of this call choose rows along the first dimension of the table, and do the
     * outputs have a row for each query or bag? Such calls are merged. After infer. */
    bool (*is_plain)(const struct td_op_args *args);
    /* Bit i: in every plain call attribute i has the meaning of its default, even if its value is a
     * different one (axis = -2). */
    uint32_t plain_attrs;
    int count_attr;     /* the number of bags, where segments say which; or TD_ROWS_NONE */
    int policy_attr;    /* what becomes of a query without a row; TD_ROWS_NONE: never an error */
    int found_output;   /* bool, has the query a row? Queries by key only; or TD_ROWS_NONE */
    int numbers_output; /* int64, row numbers, -1 for none; or TD_ROWS_NONE */
    const struct td_op_bags *bags; /* NULL: the outputs have a row for each query */
    /* The dimensions of the table that queries by number index. NULL: the first one. */
    void (*space)(const struct td_op_args *args, struct td_tuple_space *out);
};

/* The first input that is this part; -1: there is none. */
int td_op_rows_input(const struct td_op *op, td_row_part part);

/* How many of the queries' dimensions count them: all but those of an index tuple. */
int td_op_rows_query_dims(const struct td_op *op, const struct td_op_args *args);

/* The dimensions that the queries index. False where they are keys. After infer. */
bool td_op_rows_space(const struct td_op *op, const struct td_op_args *args,
                      struct td_tuple_space *out);

/* The rows that a call reads, after infer: their number, and their bytes. */
struct td_rows_read {
    uint64_t rows, bytes;
};
struct td_rows_read td_op_rows_read(const struct td_op *op, const struct td_op_args *args);

#endif
