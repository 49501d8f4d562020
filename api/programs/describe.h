/* describe.h - describes programs in JSON: GET /v1/programs/{name}, and plans.
 *
 * A size in a shape is a number, a letter, or null. It is null if it depends on an argument, on
 * data or on several sizes. A shape is null if its rank is not known.
 *
 * Errors     MEMORY_EXHAUSTED. */
#ifndef TD_API_PROGRAMS_DESCRIBE_H
#define TD_API_PROGRAMS_DESCRIBE_H

#include "api/message/plan_limits.h"
#include "api/programs/stored.h"

/* Facts about a stored program that are known without reading its text. */
struct td_program_listing {
    const char *name;
    uint64_t version;
    const char *etag;   /* NULL if the program is not stored, so it has no version */
    const char *source; /* file in the data folder, or NULL */
    bool persisted;
    uint64_t bytes; /* length of the text */
};

/* Writes {"name", "version", "etag", ..., "inputs", "arguments", "outputs", "steps", "program"}. */
TD_MUST_CHECK td_status td_describe_program(const struct td_program_listing *listing,
                                            const struct td_stored_program *stored,
                                            const struct td_program_signature *signature,
                                            struct td_arena *arena, struct td_reply *reply,
                                            struct td_error *err);

/* Writes {"programs": [{"name", "version", "etag", ...}, ...], "next"}. */
TD_MUST_CHECK td_status td_describe_programs(const struct td_program_listing *list, int count,
                                             bool more, struct td_arena *arena,
                                             struct td_reply *reply, struct td_error *err);

/* Writes the plan that td_op_infer has made for a program. */
TD_MUST_CHECK td_status td_describe_program_plan(const struct td_op_args *args,
                                                 const struct td_plan_limits *limits,
                                                 struct td_arena *arena, struct td_reply *reply,
                                                 struct td_error *err);

#endif
