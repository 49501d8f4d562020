/* plan.h - how a call of a program is computed: the arguments of each step and the place of each
 * result.
 *
 * Ownership  A plan is in the arena of the call.
 * Threads    A plan belongs to its call. */
#ifndef TD_KERNELS_PROGRAM_PLAN_H
#define TD_KERNELS_PROGRAM_PLAN_H

#include "kernels/program/program.h"

#define TD_PROGRAM_NO_PLACE SIZE_MAX

/* A tensor in the arguments of a step. */
struct td_program_use {
    struct td_tensor *tensor;
    int input; /* number of the tensor in plan->inputs, or -1 for the result of a step */
    int root;  /* the value whose data the tensor has */
};

struct td_program_job; /* run.h */

struct td_program_plan {
    const struct td_program *program;
    const struct td_op_args *call; /* the arguments of the program */
    struct {
        struct td_op_args args;
        /* [n_inputs]: the keys that replace each input, or NULL for an input without keys. The
         * input itself has the row numbers. NULL if no input has keys. */
        struct td_tensor **keys;
        bool is_inferred;
        int first, last; /* the steps that run as one chain with this step (fuse.h) */
    } * steps;
    struct {
        struct td_tensor tensor; /* described if is_known; data is set once it is computed */
        bool is_known;
        /* The value whose data this value shares, because only reshapes are between them; or the
         * value itself. */
        int root;
        /* True if only steps of the same chain use the value, which then has no memory. */
        bool is_inner;
        bool has_rows; /* set by td_program_by_rows (rows.h) */
        int last_use;  /* of a root: the last step that computes or reads it; -1: no step does */
        size_t place;  /* of a root: offset in the block, or TD_PROGRAM_NO_PLACE */
    } * values;
    size_t block_bytes; /* size of the block that holds the results */
    /* The step that the call can share with other calls, or -1; and the call's state while it does
     * so (pass.h). */
    int shared;
    struct td_program_job *job;
    /* Set by td_program_find_inputs: the tensors that the program reads, each once, and all tensors
     * in the arguments of its steps, in the order of the steps. */
    struct td_tensor **inputs;
    int *input_values; /* [n_inputs]: the value of the program whose data each input has */
    int n_inputs;
    struct td_program_use *uses;
    int n_uses;
};

/* Describes all steps that do not depend on computed values, missing constants or missing
 * attributes. Inputs can be tensors without data: a step that must read their values is then not
 * described. */
TD_MUST_CHECK td_status td_program_plan_make(const struct td_program *program,
                                             const struct td_op_args *args, struct td_arena *arena,
                                             struct td_program_plan **out, struct td_error *err);

/* Describes a step whose inputs are all known. Values that determine shapes must have data. */
TD_MUST_CHECK td_status td_program_plan_step(struct td_program_plan *plan, int step,
                                             struct td_arena *arena, struct td_error *err);

/* Returns the cost of a step that is described, including the search for the rows of its keys. */
struct td_cost td_program_step_cost(const struct td_program_plan *plan, int step);

/* Returns the number of results of a step that is described. An op with named outputs can leave out
 * the last outputs. */
int td_program_result_count(const struct td_program_plan *plan, int step);

/* True if the step only reshapes its input and its result shares the data of the input. False if
 * the result is an output of the program, which has memory of its own. */
bool td_program_shares(const struct td_program *program, int step);

/* Sets the data of the result of a step for which td_program_shares is true to the data of its
 * input. */
void td_program_share(struct td_program_plan *plan, int step);

/* Names the step in an error, unless the error names one. Returns the status. */
td_status td_program_blame(const struct td_program *program, int step, td_status status,
                           struct td_error *err);

#endif
