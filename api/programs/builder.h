/* builder.h - a program that is being read, in arrays that grow because the numbers of its parts
 * are not known yet.
 *
 * Ownership  Everything is in the arena of the source.
 * Threads    Used by one call while the program is read, and constant afterwards. */
#ifndef TD_API_PROGRAMS_BUILDER_H
#define TD_API_PROGRAMS_BUILDER_H

#include "api/json/siblings.h"
#include "api/json/tensor.h"
#include "api/programs/names.h"
#include "kernels/program/program.h"
#include "kernels/program/signature.h"

/* Kinds of content of the member "inputs". */
typedef enum td_program_form {
    TD_PROGRAM_RUN,   /* tensors */
    TD_PROGRAM_PLAN,  /* tensors, or their dtypes and shapes */
    TD_PROGRAM_STORED /* dtypes and shapes with letters; attributes can be arguments of a call */
} td_program_form;

/* A step, with the parts of its text that are read later. */
struct td_step_text {
    struct td_json_skipped object; /* the step itself */
    /* Plain values that get their dtype from the other inputs of the step. */
    struct td_json_siblings siblings;
    /* The first plain string in place of a tensor, which might be meant as a name. NULL if there is
     * none. `of` is the input. */
    const char *string;
    size_t string_length;
    const char *of;
};

/* A resident table that a step of a stored program refers to. Each call looks it up. */
struct td_program_table {
    const char *name;
    size_t length; /* a name with a NUL does not exist */
    int value, step;
    const char *input; /* of the step */
};

/* The place that first uses an argument. */
struct td_argument_use {
    int step, attr;
};

struct td_program_builder {
    struct td_json_source source;
    td_program_form form;
    struct td_program *program;
    struct td_program_names names;
    struct td_program_value *values;
    int n_values, values_capacity;
    int n_results;        /* values that steps compute */
    int n_operands;       /* tensors in the inputs of the steps */
    size_t untyped_bytes; /* length of the plain values that each call reads */
    struct td_program_step *steps;
    int n_steps, steps_capacity;
    struct td_step_text *texts; /* [n_steps] */
    int texts_capacity;

    /* The following members are used only for a stored program. */
    struct td_program_shape *shapes; /* [TD_MAX_INPUTS] */
    const char *letters[TD_PROGRAM_LETTERS];
    int n_letters;
    struct td_program_table *tables;
    int n_tables, tables_capacity;
    struct td_attr_spec arguments[TD_MAX_ATTRS];
    struct td_argument_use uses[TD_MAX_ATTRS];
    int n_arguments;
    size_t arguments_size; /* size in bytes of the program's attributes */
};

/* Adds a value and sets *number to its number. */
TD_MUST_CHECK td_status td_builder_value(struct td_program_builder *builder,
                                         struct td_program_value value, int *number);

/* Adds a step without inputs and results. */
TD_MUST_CHECK td_status td_builder_step(struct td_program_builder *builder,
                                        const struct td_json_skipped *object);

TD_MUST_CHECK td_status td_builder_table(struct td_program_builder *builder,
                                         const struct td_program_table *table);

#endif
