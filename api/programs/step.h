/* step.h - reads a step of a program from JSON.
 *
 * Errors     As in read.h. */
#ifndef TD_API_PROGRAMS_STEP_H
#define TD_API_PROGRAMS_STEP_H

#include "api/programs/builder.h"

/* Reads the op of a step, and the names of its results. `steps` is the path of the list. */
TD_MUST_CHECK td_status td_step_read_head(struct td_program_builder *builder, int step,
                                          const struct td_json_path *steps);

/* Reads the inputs and attributes of a step. All names of the program must be known. */
TD_MUST_CHECK td_status td_step_read_arguments(struct td_program_builder *builder, int step,
                                               const struct td_json_path *steps);

/* Reads the plain values of a step that get their dtype from the other inputs. Implements
 * td_program.complete; program->context is the builder. */
TD_MUST_CHECK td_status td_step_complete(const struct td_program *program, int step,
                                         struct td_op_args *args, struct td_arena *arena,
                                         struct td_error *err);

/* Adds a hint to the error of a step about an input that is a plain string: the string might be
 * meant as the name of a resident tensor, an input or a result. Implements td_program.explain. */
void td_step_explain(const struct td_program *program, int step, struct td_error *err);

#endif
