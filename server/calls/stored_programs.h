/* stored_programs.h - finds the stored program of a call, by its name NAME or NAME@VERSION.
 *
 * The text of a program is a tensor of the store. The store keeps its compiled form with the
 * version, so usually only the first call after a change compiles it. If the store has dropped the
 * form to make room, the next call compiles the text again.
 *
 * Ownership  The call's arena holds references to the version and to the compiled form.
 * Threads    The thread that owns the call.
 * Errors     TENSOR_NOT_FOUND; FORBIDDEN; the errors of api/programs/stored.h. */
#ifndef TD_SERVER_CALLS_STORED_PROGRAMS_H
#define TD_SERVER_CALLS_STORED_PROGRAMS_H

#include "api/programs/describe.h"
#include "server/calls/call.h"

/* Returns the compiled form of the program whose text is this tensor, or NULL with err filled. */
const struct td_stored_program *
td_stored_program_of(struct td_call *call, const struct td_tensor *text, struct td_error *err);

/* Drops the call's reference before the call ends. For a call that uses many programs in turn. */
void td_stored_program_drop(struct td_call *call, const struct td_stored_program *stored);

/* Offers the form to the store, to be kept with the version of this text. */
void td_stored_program_keep(struct td_call *call, const struct td_tensor *text,
                            const struct td_stored_program *stored);

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
