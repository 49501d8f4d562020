#include "api/programs/builder.h"

#include <string.h>

/* Makes room for one more element of an array. Sets the array to NULL if memory is exhausted. */
#define GROW(builder, array, count, capacity)                                                      \
    ((array) = td_arena_grow((builder)->source.arena, array, count, capacity, sizeof(*(array)),    \
                             (builder)->source.err))

td_status td_builder_value(struct td_program_builder *builder, struct td_program_value value,
                           int *number)
{
    if (!GROW(builder, builder->values, builder->n_values, &builder->values_capacity))
        return builder->source.err->status;
    *number = builder->n_values++;
    builder->values[*number] = value;
    return TD_OK;
}

td_status td_builder_step(struct td_program_builder *builder, const struct td_json_skipped *object)
{
    const int n = builder->n_steps;
    if (n == TD_PROGRAM_STEPS)
        return td_error_resource(builder->source.err, "steps", TD_PROGRAM_STEPS + 1,
                                 TD_PROGRAM_STEPS, "the program");
    if (!GROW(builder, builder->steps, n, &builder->steps_capacity) ||
        !GROW(builder, builder->texts, n, &builder->texts_capacity))
        return builder->source.err->status;
    memset(&builder->steps[n], 0, sizeof(builder->steps[0]));
    memset(&builder->texts[n], 0, sizeof(builder->texts[0]));
    builder->texts[n].object = *object;
    builder->n_steps++;
    return TD_OK;
}

td_status td_builder_table(struct td_program_builder *builder, const struct td_program_table *table)
{
    if (!GROW(builder, builder->tables, builder->n_tables, &builder->tables_capacity))
        return builder->source.err->status;
    builder->tables[builder->n_tables++] = *table;
    return TD_OK;
}
