/* read.h - reads a program from JSON.
 *
 *     {"inputs": {"x": T},
 *      "steps": [{"op": "add", "x": "$x", "y": 1, "as": "y"}],
 *      "outputs": ["y"]}
 *
 * Where a step takes a tensor, or a list of tensors, a string "$name" refers to an input or to the
 * result of an earlier step. The whole structure is checked: names, ops, attributes and their
 * kinds, and that every input and result is used.
 *
 * Plain values in a step get the dtype of the step's other tensors, which is known only when the
 * earlier steps have been described. Plain values are read at that time, so the text must live as
 * long as the program.
 *
 * Ownership  The program is in the arena, and refers to the text.
 * Errors     MALFORMED_REQUEST and UNKNOWN_OP have a JSON Pointer to the place, and an error in a
 *            step has the number of the step (td_error.step). RESOURCE_LIMIT for too many inputs or
 *            steps. TENSOR_NOT_FOUND. */
#ifndef TD_API_PROGRAMS_READ_H
#define TD_API_PROGRAMS_READ_H

#include "api/message/message.h"
#include "api/programs/builder.h"
#include "kernels/program/program.h"

/* Reads the body of a request that contains a program and its inputs. Sets request->op to the
 * program, and sets the inputs and the common members of the request. With TD_PROGRAM_PLAN, inputs
 * can have a dtype and a shape without data. At least TD_JSON_PADDING readable bytes must follow
 * the body. */
TD_MUST_CHECK td_status td_program_read_request(td_program_form form, const char *body,
                                                size_t bytes, struct td_resolver *resolver,
                                                struct td_arena *arena, struct td_request *request,
                                                struct td_error *err);

/* Reads a program whose inputs are declared, for stored.h. *out is the builder of the program, in
 * the arena. */
TD_MUST_CHECK td_status td_program_read_declared(const char *text, size_t bytes,
                                                 struct td_arena *arena,
                                                 struct td_program_builder **out,
                                                 struct td_error *err);

#endif
