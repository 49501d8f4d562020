/* names.h - the names of a program: its inputs and the results of its steps, which share one space.
 *
 * Ownership  Names are in the arena, NUL-terminated.
 * Errors     MALFORMED_REQUEST, without a pointer, which the caller adds. */
#ifndef TD_API_PROGRAMS_NAMES_H
#define TD_API_PROGRAMS_NAMES_H

#include "kernels/arena.h"

#include <stdbool.h>

#define TD_PROGRAM_NAME_MOST 64 /* maximum length of a name */

struct td_program_name {
    const char *text;
    int value; /* number of the value */
    int step;  /* the step that computes the value, or -1 for an input */
    bool used; /* a step or the outputs refer to the value */
};

struct td_program_names {
    struct td_program_name *at;
    int count, capacity;
};

/* Adds a name. Fails if it is not [A-Za-z_][A-Za-z0-9_]{0,63}, if it is the name of a member of a
 * request, or if it is taken. */
TD_MUST_CHECK td_status td_program_names_add(struct td_program_names *names, const char *text,
                                             size_t length, int value, int step,
                                             struct td_arena *arena, struct td_error *err);

/* Finds a name and marks it as used. `step` is the step that refers to it, or the number of steps
 * for the outputs. Fails if the name does not exist, or is the result of this or a later step. */
TD_MUST_CHECK td_status td_program_names_use(struct td_program_names *names, const char *text,
                                             size_t length, int step, int *value,
                                             struct td_error *err);

/* Returns the name of a value, or NULL if it has none. */
const char *td_program_names_of(const struct td_program_names *names, int value);

#endif
