/* program.h - several ops that run as one call.
 *
 * A program is a list of steps. Each step is an op whose inputs are inputs of the program,
 * constants, or results of earlier steps. The program itself is described by a struct td_op, so
 * everything that works with ops works with programs.
 *
 * infer describes all steps whose shapes do not depend on computed values, and gives each result a
 * place in one block of memory, in which results that are not needed at the same time overlap. The
 * other steps are described when the values are known. An output of such a step is described and
 * allocated by run: until then, it has no elements.
 *
 * A step that only reshapes its input (td_op.reshapes) shares the data of the input. Every step
 * rounds, so the results have the same bits as if each step were a call of its own.
 *
 * Ownership  Borrows the ops, and everything that the program refers to. The plan of a call is in
 *            its arena.
 * Threads    A program is constant once it is described. infer, cost and run are reentrant.
 * Errors     The errors of the steps, with the step and its name (td_error.step, as, op).
 *            SHAPE_MISMATCH if an input does not have its declared shape.
 *            MALFORMED_REQUEST if a step returns a list whose length differs from the number of
 *            names in `as`, or if it does not return a named output that is used. */
#ifndef TD_KERNELS_PROGRAM_H
#define TD_KERNELS_PROGRAM_H

#include "kernels/op.h"

#define TD_PROGRAM_STEPS    256  /* maximum number of steps */
#define TD_PROGRAM_RESULTS  4096 /* maximum number of results of all steps, used or not */
/* Maximum number of tensors in the inputs of all steps. */
#define TD_PROGRAM_OPERANDS 65536

/* A tensor of a program: an input, a constant or the result of a step. Values are numbered: first
 * the inputs in the order of the descriptor, then constants and results. */
struct td_program_value {
    int step;   /* the step that computes the value; -1 for an input or a constant */
    int result; /* number of the value among the results of the step */
    /* The tensor of a constant; NULL for other values, and for a constant that `complete` sets. A
     * constant has one reader. */
    const struct td_tensor *constant;
    int output; /* number of the program's output, or -1 */
    /* True for a constant that is not known yet, such as a table that does not exist. A step that
     * uses the constant cannot be described. */
    bool is_missing;
    /* Set by td_program_describe, also for a value that is reshaped first. */
    bool is_index;   /* a step uses the elements as indices, so they must not change meanwhile */
    bool is_read;    /* a step reads the elements, which must be aligned (td_input_reads_values) */
    bool sets_shape; /* infer reads the elements */
};

/* A size in the declared shape of an input, or in the shape of a result. */
struct td_program_size {
    int64_t size; /* used if `letter` is TD_SIZE_NUMBER */
    /* Number of the letter, which stands for the same size wherever it occurs; or TD_SIZE_NUMBER;
     * or TD_SIZE_UNKNOWN, for results only. */
    int letter;
};
#define TD_SIZE_NUMBER  (-1)
#define TD_SIZE_UNKNOWN (-2)

struct td_program_shape {
    int rank; /* -1 if it is not known, for results only */
    struct td_program_size sizes[TD_MAX_RANK];
};

/* Gives an attribute of a step the value of an attribute of the program. A step whose attribute has
 * no value yet cannot be described. */
struct td_program_binding {
    int attr;      /* of the program */
    int step_attr; /* of the step */
};

/* The tensors of one input of a step. */
struct td_program_operand {
    const int *values;
    int count; /* 0: the optional input is not given */
    /* True if the value has keys instead of row numbers. The table of the keys is the first input
     * of the step. */
    bool by_keys;
};

struct td_program_step {
    const struct td_op *op;
    const char *as;                          /* name of the first named result, for messages */
    const struct td_program_operand *inputs; /* [op->n_inputs] */
    _Alignas(16) unsigned char attrs[TD_ATTRS_SIZE];
    uint32_t attrs_set;
    const struct td_program_binding *bindings;
    int n_bindings;
    /* The value of each result, including unused results. n_results is the length of the list if
     * the op returns a list, and otherwise op->n_outputs. */
    const int *results;
    int n_results;
};

struct td_program {
    struct td_op op; /* set by td_program_describe, except `inputs`, `outputs` and their numbers */
    struct td_program_value *values;
    int n_values;
    const struct td_program_step *steps;
    int n_steps;
    /* For estimates of the time that infer takes: the number of tensors in the inputs of all steps,
     * and the length of the text that `complete` reads. */
    int n_operands;
    size_t completed_bytes;
    const int *outputs; /* [op.n_outputs]: the values of the outputs */
    /* The declared shapes of the inputs [op.n_inputs], or NULL if any shape is accepted. */
    const struct td_program_shape *shapes;
    const char *const *letters;
    int n_letters;
    /* Sets the tensors of the constants of a step whose dtype depends on other inputs of the step.
     * All other inputs in `args` must be set before the call. NULL if there are no such
     * constants. */
    td_status (*complete)(const struct td_program *program, int step, struct td_op_args *args,
                          struct td_arena *arena, struct td_error *err);
    /* Adds hints to the error of a step, or NULL. */
    void (*explain)(const struct td_program *program, int step, struct td_error *err);
    void *context; /* for `complete` and `explain` */
};

/* Describes the program. Sets the functions of program->op, and for each value how steps use it.
 * Derives the role of each input (indices or data), and whether its values are read, from the steps
 * that use the input. `inputs` is the array of program->op.inputs. */
void td_program_describe(struct td_program *program, struct td_input_spec *inputs);

/* Returns the program of an op that td_program_describe has described, or NULL for any other op. */
const struct td_program *td_program_of(const struct td_op *op);

#endif
