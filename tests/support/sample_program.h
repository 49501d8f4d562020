/* sample_program.h - programs of tests, step by step.
 *
 * Ownership  Everything but the sample itself is in test_arena. */
#ifndef TD_TESTS_SUPPORT_SAMPLE_PROGRAM_H
#define TD_TESTS_SUPPORT_SAMPLE_PROGRAM_H

#include "kernels/program/program.h"
#include "tests/support/op_call.h"

#define SAMPLE_MOST 64 /* values, steps and operands of a program */

struct sample {
    struct td_program program;
    struct td_program_value values[SAMPLE_MOST];
    struct td_program_step steps[SAMPLE_MOST];
    struct td_input_spec inputs[TD_MAX_INPUTS];
    struct td_output_spec output_specs[SAMPLE_MOST];
    int outputs[SAMPLE_MOST];
    struct td_tensor tensors[TD_MAX_INPUTS]; /* of the inputs */
};

void sample_begin(struct sample *sample);

/* Return the number of the value. */
int sample_input(struct sample *sample, struct td_tensor tensor);
int sample_constant(struct sample *sample, struct td_tensor tensor);

/* The operands of a step: values, NEXT between two inputs, END at the end. */
#define NEXT          (-1)
#define END           (-2)
#define OPERANDS(...) ((const int[]){ __VA_ARGS__, END })

/* Adds a step with n results, and attributes as in call_begin. Returns the number of the first
 * result. */
int sample_step(struct sample *sample, const char *op_name, const char *attrs, const int *operands,
                int n_results);

void sample_output(struct sample *sample, int value);

/* Describes the program, and its call with the inputs. */
td_status sample_infer(struct sample *sample, struct op_call *call);

#endif
