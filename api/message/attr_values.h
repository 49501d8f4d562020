/* attr_values.h - parses attribute values and stores them in the attrs struct of an op.
 *
 * Values from JSON are typed. Values from query strings and from the metadata of safetensors are
 * text. Lists in the Open Inference Protocol are also text, because its parameters cannot be lists.
 * As text, a list of integers is written "0,2", a list of names "values,indices", the empty list
 * "", and a boolean true, false, 1 or 0.
 *
 * Ownership  Lists and strings are in the arena, or point into the source.
 * Errors     MALFORMED_REQUEST, with `attribute` set, for a value of the wrong kind. The op itself
 *            checks whether the value makes sense. */
#ifndef TD_API_MESSAGE_ATTR_VALUES_H
#define TD_API_MESSAGE_ATTR_VALUES_H

#include "kernels/op.h"

/* A list of names, not NUL-terminated. */
struct td_attr_names {
    const struct td_attr_name {
        const char *text;
        size_t length;
    } * values;
    int count;
};
#define TD_MAX_NAMES 64 /* maximum length of a list of names */

struct td_attr_value {
    enum {
        TD_VALUE_INT,
        TD_VALUE_FLOAT, /* a number that is not an int64 */
        TD_VALUE_BOOL,
        TD_VALUE_INTS, /* also an empty list */
        TD_VALUE_NAMES,
        TD_VALUE_TEXT,
        TD_VALUE_OTHER
    } kind;
    int64_t integer;
    double number; /* value for TD_VALUE_FLOAT; infinite if the number is too large */
    bool boolean;
    struct td_ints list;
    struct td_attr_names names;
    /* The string for TD_VALUE_TEXT, or a description of the value for other kinds, such as "a
     * list". */
    const char *text;
    /* Not set for TD_VALUE_INT, whose error message prints the number. */
    size_t text_length;
};

/* Parses text as a value of the attribute's kind. Text that cannot be parsed keeps the kind
 * TD_VALUE_TEXT. */
TD_MUST_CHECK td_status td_attr_of_text(const struct td_attr_spec *spec, const char *text,
                                        size_t length, struct td_arena *arena,
                                        struct td_attr_value *out, struct td_error *err);

/* Splits text at its commas. Text with more than TD_MAX_NAMES names keeps the kind
 * TD_VALUE_TEXT. */
TD_MUST_CHECK td_status td_attr_names_of_text(const char *text, size_t length,
                                              struct td_arena *arena, struct td_attr_value *out,
                                              struct td_error *err);

/* Checks the kind of a value and writes it to args->attrs. */
TD_MUST_CHECK td_status td_attr_store(const struct td_attr_spec *spec,
                                      const struct td_attr_value *value, struct td_op_args *args,
                                      struct td_arena *arena, struct td_error *err);

/* Copies a string value into the arena and NUL-terminates the copy. */
TD_MUST_CHECK td_status td_attr_copy_text(const char *name, const struct td_attr_value *value,
                                          struct td_arena *arena, const char **out,
                                          struct td_error *err);

/* Returns the index of the value in `choices`, which ends with NULL, or -1 with err filled if the
 * value is not one of the choices. */
TD_MUST_CHECK int td_attr_choose(const char *name, const char *const *choices,
                                 const struct td_attr_value *value, struct td_error *err);

/* Sets MALFORMED_REQUEST. The message gives the value of `name` and the expected values. */
td_status td_attr_refuse(struct td_error *err, const char *name, const char *expected,
                         const struct td_attr_value *value);

#endif
