/* run.h - runs the steps of a program.
 *
 *     begin ─► run_steps ─► end
 *                  └ each step: open ─► its inputs and outputs are set, it runs ─► close
 *
 * Ownership  A job is in memory of the caller. Everything that it holds is in exec->arena, except
 *            results whose size was not known in advance. Such a result is in memory of its own,
 *            which is freed after the last step that reads the result, or by td_program_end. All
 *            other results are in one block. The memory that a step allocates for itself is freed
 *            after the step.
 * Threads    One thread at a time. Steps run one after another; each splits its work through exec.
 * Errors     The errors of the steps, and DEADLINE_EXCEEDED between two steps. */
#ifndef TD_KERNELS_PROGRAM_RUN_H
#define TD_KERNELS_PROGRAM_RUN_H

#include "kernels/program/plan.h"

struct td_program_held; /* memory of a result that has no place in the block */

/* A call whose steps run. */
struct td_program_job {
    struct td_program_plan *plan;
    struct td_op_args *args; /* of the program */
    struct td_exec *exec;
    int step;                          /* the next step, or the step that is open */
    char *block;                       /* the results that have a place */
    struct td_program_held *held;      /* [n_values] */
    bool has_held;                     /* true if an element of `held` has memory */
    struct td_step_replaced *replaced; /* [n_steps] */
    struct td_step_time *times;        /* [n_steps] */
    uint64_t begun_ns;                 /* when the open step was opened, if exec->now is set */
    uint64_t output_bytes;             /* of the outputs that were described by this run */
    uint64_t flops;                    /* of the steps that are described so far */
};

/* Implements td_op.run. */
TD_MUST_CHECK td_status td_program_run(struct td_op_args *args, struct td_exec *exec,
                                       struct td_error *err);

/* Starts with the outputs that the caller has allocated. td_program_end is called also if this
 * fails. */
TD_MUST_CHECK td_status td_program_begin(struct td_program_job *job, struct td_op_args *args,
                                         struct td_exec *exec, struct td_error *err);
void td_program_end(struct td_program_job *job);

/* Runs the steps before step `end` that have not run yet. */
TD_MUST_CHECK td_status td_program_run_steps(struct td_program_job *job, int end,
                                             struct td_error *err);

/* td_program_open_step gives the next step, or the chain that begins with it, its inputs and
 * memory for its outputs. td_program_find_rows then finds the rows that the step names by key. When
 * the op has run, td_program_close_step passes on the results. The errors do not name the step. */
TD_MUST_CHECK td_status td_program_open_step(struct td_program_job *job, struct td_error *err);
TD_MUST_CHECK td_status td_program_find_rows(struct td_program_job *job, struct td_error *err);
void td_program_close_step(struct td_program_job *job);

#endif
