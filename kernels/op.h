/* op.h - the descriptor of an op, from which routes, argument checks, metadata, statistics and
 * replies are derived. To add an op, add a folder to kernels/ and a line to ops.def. A device
 * plugin has its own table of kernels by op name, so this file does not refer to devices.
 *
 * Threads    Descriptors are constants. infer, cost and run are reentrant. */
#ifndef TD_KERNELS_OP_H
#define TD_KERNELS_OP_H

#include "kernels/arena.h"
#include "kernels/dtype.h"
#include "kernels/exec.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of tensors in a list input. A longer list is RESOURCE_LIMIT (tensors), because a
 * tensor of one element takes two bytes of a request but hundreds of bytes of memory. */
#define TD_MAX_LIST    16384
#define TD_MAX_INPUTS  64 /* number of declared inputs of an op; a list counts as one */
#define TD_MAX_OUTPUTS 64 /* number of declared outputs of an op; a list counts as one */
#define TD_ATTRS_SIZE  128
#define TD_MAX_ATTRS   32

/* Bounds policies, which determine the result of an index outside [0, bound). */
typedef enum td_bounds {
    TD_BOUNDS_ERROR, /* INDEX_OUT_OF_BOUNDS, nothing computed */
    TD_BOUNDS_ZERO,  /* a row of zeros, or of empty strings */
    TD_BOUNDS_CLIP,  /* the nearest valid row */
    TD_BOUNDS_WRAP,  /* index modulo bound; -1 is the last row */
    TD_BOUNDS_COUNT
} td_bounds;

/* "error", "zero", "clip", "wrap", NULL. Every attribute `bounds` has this array as its choices,
 * and other code recognises such an attribute by the address of the array. */
extern const char *const td_bounds_names[TD_BOUNDS_COUNT + 1];
const char *td_bounds_name(td_bounds bounds);

/* The meaning of an input's values. The role determines the dtype of untyped JSON values and
 * whether the server copies the tensor before the op runs. A tensor whose values determine
 * addresses is copied if a client can still write to it (shared memory) or if its file can be
 * truncated. The values of any other tensor can change between two reads, so a kernel must not
 * derive an address or a size from a value that it has not copied. */
typedef enum td_role {
    TD_ROLE_DATA, /* values to move or compute with */
    /* Positions, row numbers, offsets and segments, whose values determine addresses. */
    TD_ROLE_INDEX,
    TD_ROLE_KEY,       /* identifiers that are only compared with each other */
    TD_ROLE_CONDITION, /* truth values that select, as in where() */
    TD_ROLE_COUNT
} td_role;

/* "data", "index", "key", "condition". */
const char *td_role_name(td_role role);

/* The function of an input for quantised rows of the first input. The importer stores the scale of
 * a quantised table NAME as the resident tensor NAME.scale and its offset as NAME.offset. The
 * suffixes are the names of the inputs. */
typedef enum td_companion {
    TD_COMPANION_NONE,
    TD_COMPANION_SCALE,
    /* The input is added or subtracted. If the table has a stored shift, a request that passes a
     * scale but no shift is refused. */
    TD_COMPANION_SHIFT,
} td_companion;

/* The function of an input in an op that picks rows of a table (op_rows.h). */
typedef enum td_row_part {
    TD_ROW_PART_NONE,
    TD_ROW_PART_TABLE,     /* the rows, along the first dimension; always the first input */
    TD_ROW_PART_PER_ROW,   /* one element per row, or one for all rows: keys, scales */
    TD_ROW_PART_QUERY,     /* the rows to pick: row numbers (role index) or keys (role key) */
    TD_ROW_PART_PER_QUERY, /* one element or row per query, in the same order: weights */
    TD_ROW_PART_OFFSETS,   /* the position in the queries at which each bag starts */
    TD_ROW_PART_SEGMENTS,  /* the bag of each query, in non-decreasing order */
    TD_ROW_PART_COUNT
} td_row_part;

/* A declared input. The first input of an op is not optional. */
struct td_op_args;
struct td_input_spec {
    const char *name;
    const char *summary; /* one sentence, including the shapes */
    td_role role;
    td_dtype_set dtypes;
    /* For data and keys: all inputs of the role with this flag must have the same dtype, otherwise
     * the error is td_op.mixed_dtypes. An input that does not accept the first such input's dtype
     * is exempt. Untyped JSON values get the dtype of the typed inputs. */
    bool one_dtype;
    bool optional; /* the input can be missing, and then has no tensors */
    bool list;     /* the input is a list of tensors: indices.0, indices.1, ... */
    int most;      /* maximum length of the list; 0: no maximum */
    /* For data: true if the kernel reads values. Kernels always read the values of other roles. */
    bool reads_values;
    bool sets_shape;     /* infer reads values, because they determine the shape of an output */
    bool plain_as_dtype; /* `dtypes` has one dtype, which plain JSON values get */
    /* Function of the input, for ops with td_op.rows. Other ops that take a table have only the
     * parts TABLE and PER_ROW. A request can omit PER_ROW keys if its table is resident and has
     * keys. */
    td_row_part part;
    bool or_keys; /* a request can pass keys of a resident table instead of row numbers */
    /* Documents that the input has one element for each row of another input, whose shape starts
     * with the shape of this input. Of two lists, the elements pair up. NULL: no such input. */
    const char *aligned_with;
    td_companion companion;
    /* Returns false if the attributes leave this optional input unused, in which case its dtype
     * does not matter. NULL if the input is always used. */
    bool (*is_used)(const struct td_op_args *args);
};

/* True unless the attributes leave the input unused. */
bool td_input_is_used(const struct td_input_spec *spec, const struct td_op_args *args);

/* td_input_is_row_numbers: true if a request can pass table keys in place of the row numbers in
 * this input. td_input_is_row_keys: true if the input contains the keys of the rows, which a
 * resident table can have. */
bool td_input_is_row_numbers(const struct td_input_spec *spec);
bool td_input_is_row_keys(const struct td_input_spec *spec);

/* True if the kernel reads values, which requires aligned data. */
bool td_input_reads_values(const struct td_input_spec *spec);

/* A declared output. */
struct td_output_spec {
    const char *name; /* "output", or "outputs" for a list; any name if there are several outputs */
    const char *summary;    /* one sentence */
    const char *shape_rule; /* for the documentation */
    /* Name of the input that has the same dtype, or of the attribute that sets the dtype. NULL if
     * `dtypes` alone determines the possible dtypes. */
    const char *dtype_of;
    /* Possible dtypes if dtype_of is NULL. If dtype_of names an attribute, additional dtypes for
     * requests without the attribute. */
    td_dtype_set dtypes;
    /* Documents which of `dtypes` the output has. NULL if it can have any of them. */
    const char *dtype_rule;
    bool list; /* infer determines the number of tensors; the op has no other output */
};

/* Form of the outputs in a reply: {"output": T}, {"outputs": [T, ...]}, or {"outputs": {"values":
 * T, "indices": T}}. */
typedef enum td_output_form { TD_OUTPUT_ONE, TD_OUTPUT_LIST, TD_OUTPUT_NAMED } td_output_form;

/* A list of integers in the arena, such as axes or the sizes of a shape. */
struct td_ints {
    const int64_t *values; /* NULL: not given */
    int count;
};
#define TD_MAX_INTS 64 /* maximum length of a list; larger than the maximum rank */

typedef enum td_attr_kind {
    TD_ATTR_INT,    /* int64_t */
    TD_ATTR_INTS,   /* struct td_ints */
    TD_ATTR_FLOAT,  /* double, finite */
    TD_ATTR_BOOL,   /* bool */
    TD_ATTR_CHOICE, /* an enum: the position in td_attr_spec.choices */
    TD_ATTR_DTYPE,  /* td_dtype */
    TD_ATTR_TEXT,   /* const char *, NUL-terminated, in the arena */
    TD_ATTR_KIND_COUNT
} td_attr_kind;

/* Returns the size in bytes of an attribute of this kind in the attrs struct. */
size_t td_attr_size(td_attr_kind kind);

/* Range of accepted values, inclusive. */
struct td_int_range {
    int64_t min, max;
};
struct td_float_range {
    double min, max;
};

/* The value of an integer attribute that the request does not set and whose default depends on the
 * call. */
#define TD_ATTR_UNSET INT64_MIN

/* A declared attribute, with its place in the op's attrs struct. */
struct td_attr_spec {
    const char *name;
    const char *summary;
    td_attr_kind kind;
    bool required;
    const char *const *choices; /* TD_ATTR_CHOICE: the names, terminated by NULL */
    /* TD_ATTR_DTYPE: accepted dtypes; any other dtype is UNSUPPORTED_DTYPE */
    td_dtype_set dtypes;
    /* Range for TD_ATTR_INT and for each element of TD_ATTR_INTS. A value outside the range is
     * INVALID_ARGUMENT. NULL: all values are accepted. */
    const struct td_int_range *range;
    const struct td_float_range *float_range; /* range for TD_ATTR_FLOAT; otherwise like `range` */
    /* Default for TD_ATTR_INT, TD_ATTR_BOOL, TD_ATTR_CHOICE and TD_ATTR_DTYPE. */
    int64_t default_int;
    double default_float; /* TD_ATTR_FLOAT */
    /* The documented default, such as "batch_dims", if the default depends on the call and the op
     * reads attrs_set. Always set for TD_ATTR_INTS and TD_ATTR_TEXT. A text of TD_ATTR_INTS that
     * starts with '[' is a list of numbers in JSON. */
    const char *default_text;
    size_t offset; /* in the attrs struct */
};

/* A set of tensors of a call. Bit i is tensor i, counted through the lists of all inputs. */
typedef uint64_t td_tensor_set;
#define TD_TENSOR_SET_MOST 64

/* The tensors of one input: a single tensor, or the elements of a list. */
struct td_operand {
    struct td_tensor *tensors; /* in the call's arena */
    int count;
};

/* The indices that a bounds policy replaced in a step of a program. */
struct td_step_replaced {
    int step;
    td_bounds policy;
    int64_t replaced;
};

/* The time that a program took for the steps first to last, which ran as one (chain/chain.h). */
struct td_step_time {
    int first, last;
    const char *as; /* name of the first result of the last step */
    uint64_t ns;
};

/* The arguments and results of one call. */
struct td_op;
struct td_op_args {
    /* The op, for functions that several ops share. Set by td_op_set_defaults and td_op_infer. */
    const struct td_op *op;
    struct td_operand inputs[TD_MAX_INPUTS]; /* inputs in the order of the descriptor */
    _Alignas(16) unsigned char attrs[TD_ATTRS_SIZE];
    uint32_t attrs_set;        /* bit i is set if the request sets attribute i */
    struct td_tensor *outputs; /* described by infer, filled by run */
    int n_outputs;
    int64_t replaced; /* number of indices that the bounds policy replaced; set by run */
    /* For a program: the steps in which a policy replaced indices, in the arena. Set by run. */
    const struct td_step_replaced *replaced_in;
    int n_replaced_in;
    /* For a program: the times of its steps, in the arena. Set by run if exec->now is set. */
    const struct td_step_time *times;
    int n_times;
    /* Made by infer for cost and run, or by run, and specific to the op. Stored in the arena, or
     * NULL. */
    const void *plan;
};

/* The estimated cost of a call, computed from shapes. */
struct td_cost {
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t random_reads; /* rows read from unpredictable addresses, one cache miss each */
    uint64_t flops;
    uint64_t steps; /* of a program; each has a fixed cost */
    /* Bytes in addition to inputs and outputs, for all threads together. */
    uint64_t workspace;
    uint64_t workspace_per_thread; /* additional bytes per thread */
    bool single_threaded;          /* run always uses one thread */
};

struct td_op_rows;   /* op_rows.h */
struct td_op_pass;   /* op_pass.h */
struct td_op_stack;  /* merge.h */
struct td_chain;     /* chain/chain.h */
struct td_op_change; /* op_change.h */
struct td_plan;      /* op_plan.h */

/* Functions of an elementwise op, which can be a step of a chain. */
struct td_op_chain {
    /* True if this call can be a step. Called after infer. */
    bool (*can_add)(const struct td_op_args *args);
    /* Adds the call to a chain. `operands` has the value of each input, and `to` receives the
     * result, or is NULL. Returns the number of the value. `isa` is a result of td_isa_resolve. */
    int (*add)(const struct td_op_args *args, struct td_chain *chain, const int *operands,
               const struct td_tensor *to, td_isa isa);
};

/* A request that succeeds. */
struct td_op_example {
    const char *title;   /* what the example shows */
    const char *request; /* JSON */
};

struct td_op {
    const char *name;
    const char *summary;
    const char *source; /* published definition that the op follows */
    const struct td_input_spec *inputs;
    int n_inputs;
    const struct td_attr_spec *attrs;
    int n_attrs;
    const struct td_output_spec *outputs;
    int n_outputs;
    /* The error if inputs with one_dtype have different dtypes. TD_OK means UNSUPPORTED_DTYPE. */
    td_status mixed_dtypes;
    const td_status *errors; /* error codes that the op can return, ending with TD_OK */
    /* Examples, of which the first is the simplest. The last element has no title. NULL for an op
     * that changes a table. */
    const struct td_op_example *examples;

    /* Describes the outputs in the order of their declaration. The descriptions are in the arena
     * and have no data. Reads shapes, dtypes and attributes. Reads values only of inputs with
     * sets_shape. */
    td_status (*infer)(struct td_op_args *args, struct td_arena *arena, struct td_error *err);
    /* Estimates the cost of a call, after infer. */
    struct td_cost (*cost)(const struct td_op_args *args);
    /* Computes the outputs, after infer. The caller has allocated the outputs. For a string output,
     * only the offsets are allocated, and run allocates the bytes in exec->arena. On failure, the
     * outputs are undefined. */
    td_status (*run)(struct td_op_args *args, struct td_exec *exec, struct td_error *err);
    /* True if run would accept the values of the index inputs, ignoring indices out of range that a
     * device reports (td_op.rows). For example, returns false for decreasing offsets. Also returns
     * false if values to check have no data. Called after infer, for devices whose kernels do not
     * check values. NULL if run accepts any values. */
    bool (*valid)(const struct td_op_args *args);
    /* Describes how run will compute the call (op_plan.h). NULL if the op has no plan. */
    td_status (*explain)(const struct td_op_args *args, int threads, struct td_arena *arena,
                         struct td_plan *out, struct td_error *err);
    /* An example of a JSON request for a plan, which succeeds. Set if `explain` is set. */
    const char *plan_example;
    /* True if the op computes its outputs row by row: row i of each output, along the first
     * dimension, depends on row i of the tensors in `rows`, and on nothing else but the other
     * tensors. Called after infer by td_op_by_rows (by_rows.h), which checks the sizes of the first
     * dimensions. NULL if this is never true, or if by_rows.h determines it from other members. */
    bool (*by_rows)(const struct td_op_args *args, td_tensor_set rows);
    /* True if calls of this op and of the other op compute the same function. NULL: only if it is
     * the same op. */
    bool (*is_same)(const struct td_op *op, const struct td_op *other);
    const struct td_op_rows *rows; /* set if the op picks rows of a table, otherwise NULL */
    /* Set if calls of equal shapes can be merged, otherwise NULL. */
    const struct td_op_stack *stack;
    /* Set if calls of the op can share one pass over a table, otherwise NULL. */
    const struct td_op_pass *pass;
    /* Set if the op computes each element of its output from one element of each input, otherwise
     * NULL. */
    const struct td_op_chain *chain;
    const struct td_op_change *change; /* set if the op changes a resident table, otherwise NULL */
    /* True if the output has the elements of the first input in the same order, so the caller can
     * share the data instead of a copy. */
    bool reshapes;
    /* True if a reply names the output, although the op has only one: {"outputs": {"NAME": T}}. */
    bool named_outputs;
    const void *detail; /* private to the op's functions, which several ops can share */
};

/* Numbers of the ops in the order of ops.def, for indexing tables that have one entry per op. */
enum {
#define TD_OP(folder, name) TD_OP_NUMBER_##name,
#include "kernels/ops.def"
#undef TD_OP
    TD_OP_COUNT
};

/* Returns all ops, in the order of ops.def. */
const struct td_op *const *td_ops(int *count);

/* Returns the names of the parts that a table can have beside its rows, one at a time: the distinct
 * names of the inputs with a companion. Returns NULL after the last. */
const char *td_op_table_part(int i);

/* Returns the op with this name, or NULL. `name` need not be NUL-terminated. */
const struct td_op *td_op_named(const char *name, size_t length);

/* The op that runs if a request uses a table as a function, such as a model of /v2. The op returns
 * rows of the table. */
extern const struct td_op *const td_table_op;

/* The op that returns the row numbers of keys, and the op that returns rows by key. */
extern const struct td_op *const td_row_numbers_op, *const td_keyed_rows_op;

/* The op that finds the rows of a table that are nearest to a row or a vector. */
extern const struct td_op *const td_nearest_rows_op;

/* The op that converts the elements of its only input to the dtype of its output. run reads only
 * the dtypes, not the attributes. */
extern const struct td_op *const td_converter_op;

td_output_form td_op_output_form(const struct td_op *op);

/* True if the first input is a table, or the keys of a table, to which a path can refer. */
bool td_op_takes_table(const struct td_op *op);

/* Returns the input that picks rows by key: either the keys to find, or row numbers in place of
 * which a request can pass keys. If there are several, returns the first. Returns -1 if the op has
 * no such input. */
int td_op_keys_input(const struct td_op *op);

/* True if a request can omit the input, because it is optional or because a resident table can
 * have the keys that it contains. */
bool td_op_input_may_be_omitted(const struct td_op *op, int input);

/* Returns all dtypes that the output can have. */
td_dtype_set td_op_output_dtypes(const struct td_op *op, const struct td_output_spec *spec);

/* Returns the value of an attribute of kind CHOICE or DTYPE. */
int td_op_choice(const struct td_attr_spec *attr, const struct td_op_args *args);
/* Sets the value of an attribute of kind CHOICE or DTYPE. */
void td_op_set_choice(const struct td_attr_spec *attr, struct td_op_args *args, int choice);

/* Returns the bounds policy of a call, or TD_BOUNDS_ERROR if the op has no such attribute. */
td_bounds td_op_bounds(const struct td_op *op, const struct td_op_args *args);

/* Sets args->op, and sets every attribute to its default. */
void td_op_set_defaults(const struct td_op *op, struct td_op_args *args);

/* Returns the bytes of an attribute's value, including the contents of a list or text. Two values
 * are equal if their bytes are equal. Returns NULL for a list or text that the request does not
 * set. For an attribute whose default depends on the call, use attrs_set to find out whether the
 * request sets it. */
const void *td_op_attr_bytes(const struct td_attr_spec *attr, const struct td_op_args *args,
                             size_t *size);

/* Copies an attribute. A list or text is copied into the arena. Returns false with err filled if
 * memory is exhausted. */
bool td_op_attr_copy(const struct td_attr_spec *attr, const struct td_op_args *from,
                     struct td_op_args *to, struct td_arena *arena, struct td_error *err);

/* Allocate outputs, for infer. td_op_outputs allocates n outputs in the arena, which infer then
 * describes. td_op_output allocates and describes a single output, and returns the errors of
 * td_tensor_describe. */
TD_MUST_CHECK td_status td_op_outputs(struct td_op_args *args, int n, struct td_arena *arena,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_op_output(struct td_op_args *args, td_dtype dtype,
                                     const struct td_shape *shape, struct td_arena *arena,
                                     struct td_error *err);

#endif
