#include "api/programs/builder.h"

#include <string.h>

/* Returns a larger copy of an array, or NULL. */
static void *grown(struct td_program_builder *builder, const void *array, int count, int capacity,
                   size_t size)
{
    void *larger =
        td_arena_alloc(builder->source.arena, (size_t)capacity, size, builder->source.err);
    if (larger && count > 0)
        memcpy(larger, array, (size_t)count * size);
    return larger;
}

td_status td_builder_value(struct td_program_builder *builder, struct td_program_value value,
                           int *number)
{
    if (builder->n_values == builder->values_capacity) {
        const int capacity = builder->values_capacity ? 2 * builder->values_capacity : 32;
        builder->values = grown(builder, builder->values, builder->n_values, capacity,
                                sizeof(builder->values[0]));
        if (!builder->values)
            return builder->source.err->status;
        builder->values_capacity = capacity;
    }
    *number = builder->n_values++;
    builder->values[*number] = value;
    return TD_OK;
}

td_status td_builder_step(struct td_program_builder *builder, const struct td_json_skipped *object)
{
    if (builder->n_steps == TD_PROGRAM_STEPS)
        return td_error_resource(builder->source.err, "steps", TD_PROGRAM_STEPS + 1,
                                 TD_PROGRAM_STEPS, "the program");
    if (builder->n_steps == builder->steps_capacity) {
        const int capacity = builder->steps_capacity ? 2 * builder->steps_capacity : 8;
        builder->steps =
            grown(builder, builder->steps, builder->n_steps, capacity, sizeof(builder->steps[0]));
        builder->texts =
            grown(builder, builder->texts, builder->n_steps, capacity, sizeof(builder->texts[0]));
        if (!builder->steps || !builder->texts)
            return builder->source.err->status;
        builder->steps_capacity = capacity;
    }
    memset(&builder->steps[builder->n_steps], 0, sizeof(builder->steps[0]));
    memset(&builder->texts[builder->n_steps], 0, sizeof(builder->texts[0]));
    builder->texts[builder->n_steps++].object = *object;
    return TD_OK;
}
