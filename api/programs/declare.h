/* declare.h - reads the dtype and shape of an input that is declared without data:
 *
 *     {"dtype": "float32", "shape": ["n", 64]}
 *
 * Errors     MALFORMED_REQUEST with a JSON Pointer; RESOURCE_LIMIT (rank, letters). */
#ifndef TD_API_PROGRAMS_DECLARE_H
#define TD_API_PROGRAMS_DECLARE_H

#include "api/programs/builder.h"

/* Reads the declaration at builder->source.scan, and adds its letters to the program. */
TD_MUST_CHECK td_status td_declare_input(struct td_program_builder *builder,
                                         const struct td_json_path *path, td_dtype *dtype,
                                         struct td_program_shape *shape);

#endif
