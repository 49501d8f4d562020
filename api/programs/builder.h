/* builder.h - a program that is being read: its parts before their number is known.
 *
 * Ownership  Everything is in the arena of the source.
 * Threads    Used by one call. */
#ifndef TD_API_PROGRAMS_BUILDER_H
#define TD_API_PROGRAMS_BUILDER_H

#include "api/json/siblings.h"
#include "api/json/tensor.h"
#include "api/programs/names.h"
#include "kernels/program/program.h"

/* A step, with the parts of its text that are read later. */
struct td_step_text {
    struct td_json_skipped object; /* the step itself */
    /* Plain values that get their dtype from the other inputs of the step. */
    struct td_json_siblings siblings;
};

struct td_program_builder {
    struct td_json_source source;
    struct td_program *program;
    struct td_program_names names;
    struct td_program_value *values;
    int n_values, values_capacity;
    struct td_program_step *steps;
    struct td_step_text *texts; /* [n_steps] */
    int n_steps, steps_capacity;
};

/* Adds a value and sets *number to its number. */
TD_MUST_CHECK td_status td_builder_value(struct td_program_builder *builder,
                                         struct td_program_value value, int *number);

/* Adds a step without inputs and results. */
TD_MUST_CHECK td_status td_builder_step(struct td_program_builder *builder,
                                        const struct td_json_skipped *object);

#endif
