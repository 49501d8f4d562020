#include "kernels/search/table.h"

#include "kernels/quantized.h"

#include <string.h>

void td_search_table_open(struct td_search_table *table, td_dtype real, td_isa isa)
{
    table->real = real;
    table->by_offset = table->trailer || table->offset;
    if (td_is_quantized(table->dtype))
        table->dequantize = td_dequantize_loop(table->dtype, real, table->by_offset, isa);
    else
        td_cast_path_find(&table->path, table->dtype, real, isa);
}

void td_search_table_scaling(const struct td_search_table *table, int64_t row, float *scale,
                             double *offset)
{
    float pair[2];
    if (table->trailer) {
        memcpy(pair, td_search_row(table, row) + table->columns, sizeof(pair));
        *scale = pair[0];
        *offset = (double)pair[1];
        return;
    }
    *scale = table->scale[row * table->scale_step];
    *offset = table->offset ? (double)table->offset[row * table->offset_step]
                            : (double)td_zero_point(&table->zero_points, row);
}

void td_search_table_read(const struct td_search_table *table, int64_t row, void *to)
{
    const char *from = td_search_row(table, row);
    if (td_is_quantized(table->dtype)) {
        float scale;
        double offset;
        td_search_table_scaling(table, row, &scale, &offset);
        table->dequantize(to, from, table->columns, scale, offset);
    } else if (table->path.n_steps == 0)
        memcpy(to, from, (size_t)table->columns * td_dtype_info(table->real)->size);
    else
        td_cast_path_run(&table->path, to, from, table->columns);
}
