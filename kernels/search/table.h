/* table.h - the rows of a table as numbers: float, or double if an input is float64.
 *
 * Threads    Pure functions. */
#ifndef TD_KERNELS_SEARCH_TABLE_H
#define TD_KERNELS_SEARCH_TABLE_H

#include "kernels/convert/cast_path.h"
#include "kernels/convert/dequantize_loops.h"
#include "kernels/zero_point.h"

struct td_search_table {
    const char *data;
    size_t row_bytes; /* distance in bytes between two rows */
    td_dtype dtype;
    int64_t n_rows, columns;
    /* For int8 and uint8. The step from one row to the next is 1, or 0 if all rows share a value.
     * With `trailer`, each row ends with its scale and offset, two float32. */
    bool trailer, by_offset;
    const float *scale, *offset;
    int64_t scale_step, offset_step;
    struct td_zero_points zero_points; /* used if there is no offset */
    /* How td_search_table_read converts a row. */
    td_dtype real;
    struct td_cast_path path;
    td_dequantize_fn *dequantize;
};

/* Sets the members that td_search_table_read uses. The caller has set the other members. */
void td_search_table_open(struct td_search_table *table, td_dtype real, td_isa isa);

/* Returns the address of a row. */
static inline const char *td_search_row(const struct td_search_table *table, int64_t row)
{
    return table->data + (size_t)row * table->row_bytes;
}

/* Sets the scale and the offset, or zero point, of a row of int8 or uint8. */
void td_search_table_scaling(const struct td_search_table *table, int64_t row, float *scale,
                             double *offset);

/* Writes the numbers of a row. */
void td_search_table_read(const struct td_search_table *table, int64_t row, void *to);

#endif
