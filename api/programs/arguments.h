/* arguments.h - the arguments of a stored program, which set attributes of its steps:
 *
 *     {"op": "top_k", "x": "$scores", "k": {"attr": "k", "default": 10}, "as": ...}
 *
 * An argument is an attribute of the program. It has the kind and the accepted values of the
 * attribute that it sets, and can set attributes of several steps. A call must give an argument
 * without a default.
 *
 * Errors     MALFORMED_REQUEST with a JSON Pointer; RESOURCE_LIMIT (arguments). */
#ifndef TD_API_PROGRAMS_ARGUMENTS_H
#define TD_API_PROGRAMS_ARGUMENTS_H

#include "api/programs/builder.h"

#define TD_ARGUMENT_DEFAULT "default"

struct td_argument {
    const char *name;
    size_t length;
    bool has_default;
    struct td_json_scan value; /* start of the default */
};

/* Reads the object at source->scan. */
TD_MUST_CHECK td_status td_argument_read(struct td_json_source *source,
                                         const struct td_json_path *path, struct td_argument *out);

/* Adds the argument, or finds it if another attribute already uses it. `args` has the attributes of
 * the step, including the default. Sets *number to the number of the argument among the attributes
 * of the program. */
TD_MUST_CHECK td_status td_argument_add(struct td_program_builder *builder,
                                        const struct td_argument *argument, int step, int attr,
                                        const struct td_op_args *args,
                                        const struct td_json_path *path, int *number);

#endif
