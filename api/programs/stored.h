/* stored.h - a stored program, which is compiled once and bound to tables by each call.
 *
 *     text ─read─► compiled ─bind─► program of a call ─► an op like any other
 *
 * Ownership  A compiled program is a buffer that owns its memory, including a copy of the text. The
 *            program of a call is in the arena of the call, and refers to the compiled program.
 * Threads    A compiled program is constant.
 * Errors     As in read.h; for tables, the errors of the resolver with the step (td_error.step). */
#ifndef TD_API_PROGRAMS_STORED_H
#define TD_API_PROGRAMS_STORED_H

#include "api/message/message.h"
#include "api/programs/builder.h"
#include "kernels/buffer.h"

/* Maximum size in bytes of the text of a stored program. */
#define TD_PROGRAM_BYTES ((size_t)1 << 20)

struct td_stored_program {
    struct td_buffer base; /* must be the first member, because the release casts back */
    struct td_arena arena;
    struct td_program_builder *builder;
    const char *text;
    size_t bytes;
};

/* Maximum size in bytes of a compiled program. Each constant in a text, such as 1, takes hundreds
 * of bytes. */
#define TD_PROGRAM_COMPILED_BYTES ((size_t)16 << 20)

/* Compiles a text, in memory from `memory`. *out has one reference. Does not look at tables. Errors
 * about limits call the program by `name`, such as "the program 'rank'". */
TD_MUST_CHECK td_status td_stored_program_read(const char *text, size_t bytes, const char *name,
                                               struct td_memory *memory,
                                               struct td_stored_program **out,
                                               struct td_error *err);

/* Returns TD_OK if the text is a program, or an error that says why it is not. Does not look at
 * tables. */
TD_MUST_CHECK td_status td_program_check_text(const char *text, size_t bytes, struct td_error *err);

/* Makes the program of a call, and looks up its tables. `name` becomes the name of the op, and must
 * live as long as the arena. */
TD_MUST_CHECK td_status td_stored_program_bind(const struct td_stored_program *stored,
                                               const char *name, struct td_resolver *resolver,
                                               struct td_arena *arena, struct td_program **out,
                                               struct td_error *err);

/* What is known about a stored program without the inputs of a call. */
struct td_program_signature {
    const struct td_program *program;
    const struct td_program_result *results; /* [program->n_values] */
    bool is_ready;                           /* all tables were found */
    struct td_error problem;                 /* the error of the first table that was not found */
};

/* Checks the steps against the declared inputs and the current tables. Does not check a step whose
 * table cannot be found. If a step fails, sets *out without the results. */
TD_MUST_CHECK td_status td_stored_program_check(const struct td_stored_program *stored,
                                                const char *name, struct td_resolver *resolver,
                                                struct td_arena *arena,
                                                struct td_program_signature *out,
                                                struct td_error *err);

#endif
