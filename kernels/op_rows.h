/* op_rows.h - describes ops that pick rows of a table by queries: which inputs and outputs belong
 * to rows, and which to queries.
 *
 *     table    [n, R...]      per row    [n] or []
 *     queries  [Q...]         per query  [Q...]          output  [Q..., R...]
 *     bags of queries, by offsets [b] or segments [Q]     output  [b, R...]
 *
 * With batch dimensions B, and a dimension P of the table to pick along that is not the first:
 *
 *     table    [B..., P..., n, R...]     queries  [B..., Q...]     output  [B..., P..., Q..., R...]
 *
 * Each input declares its function (td_input_spec.part). From these declarations, other code merges
 * calls (merge.h), counts the rows that a call reads, accepts keys in place of row numbers,
 * determines which queries a device reports, and splits a call among parts of the table
 * (split/split.h).
 *
 * Threads  Constants; all functions are reentrant. */
#ifndef TD_KERNELS_OP_ROWS_H
#define TD_KERNELS_OP_ROWS_H

#include "kernels/op.h"

#define TD_ROWS_NONE (-1) /* the op has no such attribute or output */

/* The first two values of every policy for queries that have no row. */
enum { TD_ROWS_POLICY_ERROR, TD_ROWS_POLICY_ZERO };

/* How an op combines the rows of a bag. The values are in the order of the attribute's choices. */
typedef enum td_bag_mode {
    TD_BAG_SUM,   /* the weighted sum of the rows */
    TD_BAG_MEAN,  /* the weighted sum divided by the sum of the weights */
    TD_BAG_SQRTN, /* the weighted sum divided by the square root of the sum of squared weights */
    TD_BAG_MAX    /* maximum of each column; NaN if the column contains a NaN */
} td_bag_mode;

/* The attributes of an op that picks rows in bags. The op has an input SEGMENTS. */
struct td_op_bags {
    int mode_attr; /* td_bag_mode */
    /* dtype of the output. Sums are float64 if the table or the output is float64. */
    int dtype_attr;
    /* A row number. Queries with this value before the policy applies are ignored. */
    int skip_attr;
    /* True if the last offset is the end of the last bag instead of the start of a bag. */
    int last_attr;
};

/* The dimensions that a tuple of `depth` components indexes. The row number of a tuple is the sum
 * of its components, each multiplied by its stride. If depth is 0, there is a single row, number
 * 0. */
struct td_tuple_space {
    int depth;
    int64_t bound[TD_MAX_RANK];
    int64_t stride[TD_MAX_RANK];
};

struct td_op_rows {
    /* Number of trailing dimensions that form one query: 1 for index tuples, otherwise 0. */
    int query_rank;
    /* Attribute with the dimension of the table to pick along. TD_ROWS_NONE: the first dimension
     * after the batch dimensions. */
    int axis_attr;
    /* Attribute with the number of batch dimensions. TD_ROWS_NONE: their number is `batch_dims`,
     * and a negative number counts from the dimensions of the queries. */
    int batch_attr;
    int batch_dims;
    /* True if each query picks rows along the first dimension of the table and the outputs have one
     * row per query or bag. Only such calls can be merged. Called after infer. */
    bool (*is_plain)(const struct td_op_args *args);
    /* Bit i is set if attribute i means the same as its default in every plain call, even if the
     * value differs (axis = -2). */
    uint32_t plain_attrs;
    /* Attribute with the number of bags if bags are defined by segments, or TD_ROWS_NONE. */
    int count_attr;
    /* Attribute with the policy for queries without a row, or TD_ROWS_NONE if a query without a row
     * is never an error. */
    int policy_attr;
    int found_output; /* bool output, true if a query by key has a row; or TD_ROWS_NONE */
    /* Output of int64 row numbers, with -1 for a query without a row, or TD_ROWS_NONE. */
    int numbers_output;
    const struct td_op_bags *bags; /* NULL if the outputs have one row per query */
    /* Sets the dimensions of the table that row numbers index. NULL means the first dimension. */
    void (*space)(const struct td_op_args *args, struct td_tuple_space *out);
};

/* Returns "none", "table", "per_row", "query", "per_query", "offsets" or "segments". */
const char *td_row_part_name(td_row_part part);

/* Returns the first input with this part, or -1. */
int td_op_rows_input(const struct td_op *op, td_row_part part);

/* Returns the number of dimensions of the queries, not counting the dimension of an index tuple. */
int td_op_rows_query_dims(const struct td_op *op, const struct td_op_args *args);

/* Sets the dimensions that the queries index, after infer. Returns false if the queries are
 * keys. */
bool td_op_rows_space(const struct td_op *op, const struct td_op_args *args,
                      struct td_tuple_space *out);

/* Number and size in bytes of the rows that a call reads, after infer. */
struct td_rows_read {
    uint64_t rows, bytes;
};
struct td_rows_read td_op_rows_read(const struct td_op *op, const struct td_op_args *args);

#endif
