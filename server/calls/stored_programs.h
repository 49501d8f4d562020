/* stored_programs.h - finds the stored program of a call, by its name NAME or NAME@VERSION.
 *
 * The text of a program is a tensor of the store. Its compiled form is kept with the version, so
 * only the first call after a change compiles it.
 *
 * Ownership  The call's arena holds a reference to the version, which holds the compiled form.
 * Threads    The thread that owns the call.
 * Errors     TENSOR_NOT_FOUND; FORBIDDEN; the errors of api/programs/stored.h. */
#ifndef TD_SERVER_CALLS_STORED_PROGRAMS_H
#define TD_SERVER_CALLS_STORED_PROGRAMS_H

#include "api/programs/describe.h"
#include "server/calls/call.h"

/* Returns the compiled form of the program whose text is this tensor, or NULL with err filled. */
const struct td_stored_program *td_stored_program_of(struct td_services *services,
                                                     const struct td_tensor *text,
                                                     struct td_error *err);

/* Finds what is known about a program without inputs. If a step fails with the current tables, the
 * program is not ready. */
TD_MUST_CHECK td_status td_stored_program_describe(struct td_call *call, const char *name,
                                                   const struct td_stored_program *stored,
                                                   struct td_program_signature *out);

/* Makes the program call->program the op of the call, with the current tables. Resets
 * call->request, except for the common members. Called by the decode stage. */
TD_MUST_CHECK td_status td_stored_program_use(struct td_call *call);

/* Returns the description of a program that the catalog has found. */
struct td_program_listing td_stored_program_listing(const struct td_tensor_listing *listing);

#endif
