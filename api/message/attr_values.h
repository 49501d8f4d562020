/* attr_values.h - values of attributes, as a source spelled them and as an op's attrs struct holds
 * them.
 *
 * A value may come from JSON, typed, or from text: a query string, the metadata of safetensors, and
 * of lists the parameters of the Open Inference Protocol, which have no lists. There a list of
 * integers is "0,2", and "" the empty one; boolean values are true, false, 1 and 0.
 *
 * Ownership  Lists and texts lie in the arena, or where the source has them.
 * Errors     MALFORMED_REQUEST for a value of the wrong kind, with attribute set; what it means is
 *            for the op to judge. */
#ifndef TD_API_MESSAGE_ATTR_VALUES_H
#define TD_API_MESSAGE_ATTR_VALUES_H

#include "kernels/op.h"

struct td_attr_value {
    enum {
        TD_VALUE_INT,
        TD_VALUE_FLOAT, /* a number that is no int64 */
        TD_VALUE_BOOL,
        TD_VALUE_INTS,
        TD_VALUE_TEXT,
        TD_VALUE_OTHER
    } kind;
    int64_t integer;
    double number; /* TD_VALUE_FLOAT: infinite where it is too large */
    bool boolean;
    struct td_ints list;
    const char *text;   /* TD_VALUE_TEXT: the string; else what it is, "a list" */
    size_t text_length; /* but of TD_VALUE_INT, which is shown itself */
};

/* What a text means to an attribute of this kind. One that is no such value stays text. */
TD_MUST_CHECK td_status td_attr_of_text(const struct td_attr_spec *spec, const char *text,
                                        size_t length, struct td_arena *arena,
                                        struct td_attr_value *out, struct td_error *err);

/* Puts a value into args->attrs. */
TD_MUST_CHECK td_status td_attr_store(const struct td_attr_spec *spec,
                                      const struct td_attr_value *value, struct td_op_args *args,
                                      struct td_arena *arena, struct td_error *err);

/* A string as a NUL-terminated copy in the arena. */
TD_MUST_CHECK td_status td_attr_copy_text(const char *name, const struct td_attr_value *value,
                                          struct td_arena *arena, const char **out,
                                          struct td_error *err);

/* Which of a list of names, NULL at the end, the value is; -1 with err filled. */
TD_MUST_CHECK int td_attr_choose(const char *name, const char *const *choices,
                                 const struct td_attr_value *value, struct td_error *err);

/* MALFORMED_REQUEST: what the value of `name` is, and what was expected. */
td_status td_attrs_refuse(struct td_error *err, const char *name, const char *expected,
                          const struct td_attr_value *value);

#endif
