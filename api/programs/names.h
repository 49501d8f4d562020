/* names.h - the names in a program. Inputs, arguments and the results of steps share one namespace.
 *
 * Ownership  Names are in the arena, NUL-terminated.
 * Errors     MALFORMED_REQUEST. The caller adds the JSON Pointer. */
#ifndef TD_API_PROGRAMS_NAMES_H
#define TD_API_PROGRAMS_NAMES_H

#include "kernels/arena.h"

#include <stdbool.h>

#define TD_PROGRAM_NAME_MOST 64 /* maximum length of a name */

struct td_program_name {
    const char *text;
    int value; /* number of the value, or TD_PROGRAM_ARGUMENT */
    int step;  /* the step that computes the value, or -1 for an input or an argument */
    bool used; /* a step or the outputs refer to the value */
};
#define TD_PROGRAM_ARGUMENT (-1)

struct td_program_names {
    struct td_program_name *at;
    int count, capacity;
    int *sorted; /* [count]: positions in `at`, in the order of the texts */
    int sorted_capacity;
};

/* True if the text is [A-Za-z_][A-Za-z0-9_]{0,63}. */
bool td_program_name_valid(const char *text, size_t length);
#define TD_PROGRAM_NAME_EXPECTED "a letter or _, followed by at most 63 letters, digits or _"

/* Adds a name. Fails if it is not [A-Za-z_][A-Za-z0-9_]{0,63}, if it is the name of a member of a
 * request, or if it is taken. */
TD_MUST_CHECK td_status td_program_names_add(struct td_program_names *names, const char *text,
                                             size_t length, int value, int step,
                                             struct td_arena *arena, struct td_error *err);

/* True if there is an argument with this name. */
bool td_program_names_has_argument(const struct td_program_names *names, const char *text,
                                   size_t length);

/* Finds a name and marks it as used. `step` is the step that refers to it, or the number of steps
 * for the outputs. Fails if the name does not exist, is an argument, or is the result of this or
 * a later step. */
TD_MUST_CHECK td_status td_program_names_use(struct td_program_names *names, const char *text,
                                             size_t length, int step, int *value,
                                             struct td_error *err);

/* Adds a hint to an error about a text that is not a reference, such as "rows" or {"ref": "rows"},
 * if "$rows" is an input, or a result that the step can use. */
void td_program_names_hint(const struct td_program_names *names, const char *text, size_t length,
                           int step, struct td_error *err);

/* Returns the name of a value, or NULL if it has none. */
const char *td_program_names_of(const struct td_program_names *names, int value);

#endif
