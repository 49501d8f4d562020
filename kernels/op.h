/* op.h - the descriptor of an op, from which routes, argument checks, metadata, statistics and
 * replies are derived. A new op is one folder in kernels/ and one line in ops.def. A device plugin
 * finds its kernel for an op by the op's name, in a table of its own: nothing here names devices.
 *
 * Threads  Descriptors are constants; infer, cost and run are reentrant. */
#ifndef TD_KERNELS_OP_H
#define TD_KERNELS_OP_H

#include "kernels/arena.h"
#include "kernels/dtype.h"
#include "kernels/exec.h"
#include "kernels/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_MAX_INPUTS 16 /* declared inputs of one op; a list counts as one */
#define TD_ATTRS_SIZE 128
#define TD_MAX_ATTRS  32

/* Bounds policy: the result of an index outside [0, bound). */
typedef enum td_bounds {
    TD_BOUNDS_ERROR, /* INDEX_OUT_OF_BOUNDS, nothing computed */
    TD_BOUNDS_ZERO,  /* a row of zeros (of empty strings) */
    TD_BOUNDS_CLIP,  /* the nearest valid row */
    TD_BOUNDS_WRAP,  /* index modulo bound, so that -1 is the last row */
    TD_BOUNDS_COUNT
} td_bounds;

/* "error", "zero", "clip", "wrap", NULL. Every attribute `bounds` has this array as its choices;
 * other code recognises the attribute by the address of the array. */
extern const char *const td_bounds_names[TD_BOUNDS_COUNT + 1];
const char *td_bounds_name(td_bounds bounds);

/* What the values of an input mean. The role decides two things: the dtype of JSON values that have
 * none, and which tensors are copied before the op runs. Copied are those whose values decide on
 * addresses, when a client can still write to them (shared memory) or their file can be truncated.
 * The values of all other tensors may change between two reads, so a kernel derives no address and
 * no size from a value unless it has copied the value first. */
typedef enum td_role {
    TD_ROLE_DATA,      /* values to move or to compute with */
    TD_ROLE_INDEX,     /* positions, row numbers, offsets, segments: they decide on addresses */
    TD_ROLE_KEY,       /* identifiers that are only compared with each other */
    TD_ROLE_CONDITION, /* truth values that select, as in where() */
    TD_ROLE_COUNT
} td_role;

/* "data", "index", "key", "condition". */
const char *td_role_name(td_role role);

/* What an input is to quantised rows of the first input. A resident table NAME may have the
 * resident tensor NAME.<name of the input> beside it; imports of quantised rows write NAME.scale
 * and NAME.offset. */
typedef enum td_companion {
    TD_COMPANION_NONE,
    TD_COMPANION_SCALE,
    /* added or subtracted: a request that gives a scale and none of these is refused if there is
     * one beside the table */
    TD_COMPANION_SHIFT,
} td_companion;

/* What an input is to an op that picks rows of a table (op_rows.h). */
typedef enum td_row_part {
    TD_ROW_PART_NONE,
    TD_ROW_PART_TABLE,     /* the rows, along its first dimension; the first input */
    TD_ROW_PART_PER_ROW,   /* an element for each row, or one for all: keys, scales */
    TD_ROW_PART_QUERY,     /* which rows: row numbers (role index) or keys (role key) */
    TD_ROW_PART_PER_QUERY, /* an element or a row for each query, in the same order: weights */
    TD_ROW_PART_OFFSETS,   /* bags of queries: the position in the queries at which each begins */
    TD_ROW_PART_SEGMENTS,  /* bags of queries: the bag of each query, never decreasing */
} td_row_part;

/* A declared input. The first of an op is not optional. */
struct td_op_args;
struct td_input_spec {
    const char *name;
    const char *summary; /* one sentence, shapes included */
    td_role role;
    td_dtype_set dtypes;
    bool one_dtype;    /* data and keys: all tensors of all inputs of the role with this flag must
                          have one dtype (else td_op.mixed_dtypes), except an input whose `dtypes`
                          lack that of the first; JSON values without a dtype get that of the
                          others */
    bool optional;     /* may be missing: then it has no tensors */
    bool list;         /* takes a list of tensors: indices.0, indices.1, ... */
    int most;          /* in a list; 0: any number */
    bool reads_values; /* data: the kernel reads values; for other roles it always does */
    bool sets_shape;   /* infer reads values: they decide the shape of an output */
    /* In td_op.rows. Keys PER_ROW may be left out by a request whose table is resident and has
     * keys. */
    td_row_part part;
    bool or_keys; /* row numbers: a request may have keys of such a table in their place */
    td_companion companion;
    /* False if these attributes leave an optional input unused: its dtype then does not matter.
     * NULL: it is used wherever it is given. */
    bool (*is_used)(const struct td_op_args *args);
};

/* True unless the attributes leave the input unused. */
bool td_input_is_used(const struct td_input_spec *spec, const struct td_op_args *args);

/* Row numbers, in whose place a request may have keys of a table? Keys that a table may have? */
bool td_input_is_row_numbers(const struct td_input_spec *spec);
bool td_input_is_row_keys(const struct td_input_spec *spec);

/* Does the kernel read values, so that data must be aligned? */
bool td_input_reads_values(const struct td_input_spec *spec);

/* The dtypes of JSON values that have no dtype and whose text allows more than one. */
struct td_untyped {
    td_dtype empty;      /* [] */
    td_dtype integer;    /* the narrowest dtype of integers: int32, of keys int64, and float32 where
                         that is accepted and int32 is not */
    bool no_fractions;   /* true if the numbers are integers only: indices and keys */
    td_dtype_set others; /* dtypes that the client may give the values, for advice; 0 if they have
                            the dtype of another tensor */
};
struct td_untyped td_input_untyped(const struct td_input_spec *spec);

/* A declared output. */
struct td_output_spec {
    const char *name;       /* "output", or "outputs" for a list; any where an op has several */
    const char *summary;    /* one sentence */
    const char *shape_rule; /* for the documentation */
    const char *dtype_of;   /* the input with the same dtype, or the attribute that names the dtype;
                               NULL: the dtype is one of `dtypes` */
    td_dtype_set dtypes; /* where dtype_of is NULL; where it names an attribute, further dtypes that
                               the output may have without it */
    const char *dtype_rule; /* which of dtypes, for the documentation; NULL: any of them */
    bool list;              /* infer decides how many tensors; the op has no other output */
};

/* How a reply holds the outputs: {"output": T}, {"outputs": [T, ...]}, {"outputs": {"values": T,
 * "indices": T}}. */
typedef enum td_output_form { TD_OUTPUT_ONE, TD_OUTPUT_LIST, TD_OUTPUT_NAMED } td_output_form;

/* A list of integers, in the arena: axes, sizes of a shape. */
struct td_ints {
    const int64_t *values; /* NULL: not given */
    int count;
};
#define TD_MAX_INTS 64 /* in one list: more than any rank */

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

/* Size in bytes of a member of the attrs struct that has this kind. */
size_t td_attr_size(td_attr_kind kind);

/* The values that an attribute accepts, both ends included. */
struct td_int_range {
    int64_t min, max;
};
struct td_float_range {
    double min, max;
};

/* An int that is not given and whose default depends on the call. */
#define TD_ATTR_UNSET INT64_MIN

/* A declared attribute, with its place in the op's attrs struct. */
struct td_attr_spec {
    const char *name;
    const char *summary;
    td_attr_kind kind;
    bool required;
    const char *const *choices; /* TD_ATTR_CHOICE: the names, NULL after the last */
    td_dtype_set dtypes;        /* TD_ATTR_DTYPE: those accepted; others are UNSUPPORTED_DTYPE */
    const struct td_int_range *range; /* TD_ATTR_INT, and each of TD_ATTR_INTS: values outside
                                         it are INVALID_ARGUMENT; NULL: all are accepted */
    const struct td_float_range *float_range; /* TD_ATTR_FLOAT: as range */
    int64_t default_int;      /* TD_ATTR_INT, TD_ATTR_BOOL, TD_ATTR_CHOICE, TD_ATTR_DTYPE */
    double default_float;     /* TD_ATTR_FLOAT */
    const char *default_text; /* the default in the documentation, "batch_dims", where it depends on
                                 the call and the op reads attrs_set; always for INTS and TEXT */
    size_t offset;            /* in the attrs struct */
};

/* The tensors of one input: one, or the elements of a list. */
struct td_operand {
    struct td_tensor *tensors; /* in the call's arena */
    int count;
};

/* The arguments and results of one call. */
struct td_op;
struct td_op_args {
    const struct td_op *op; /* set by td_op_set_defaults and td_op_infer, for functions that several
                               ops share */
    struct td_operand inputs[TD_MAX_INPUTS]; /* in the order of the descriptor */
    _Alignas(16) unsigned char attrs[TD_ATTRS_SIZE];
    uint32_t attrs_set;        /* bit i: attribute i was given */
    struct td_tensor *outputs; /* described by infer, filled by run */
    int n_outputs;
    int64_t replaced; /* number of indices that a bounds policy replaced; set by run */
    const void *plan; /* made by infer for cost and run, op-specific; in the arena; may be NULL */
};

/* The estimated cost of a call, from shapes alone. */
struct td_cost {
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t random_reads; /* rows read from unpredictable addresses: a cache miss each */
    uint64_t flops;
    uint64_t workspace;            /* bytes beyond inputs and outputs, for all threads together */
    uint64_t workspace_per_thread; /* further bytes for each thread */
    bool single_threaded;          /* run uses one thread, however many there are */
};

struct td_op_rows;   /* op_rows.h */
struct td_op_stack;  /* merge.h */
struct td_op_change; /* op_change.h */
struct td_plan;      /* op_plan.h */

struct td_op {
    const char *name;
    const char *summary;
    const char *source; /* the published definition it follows */
    const struct td_input_spec *inputs;
    int n_inputs;
    const struct td_attr_spec *attrs;
    int n_attrs;
    const struct td_output_spec *outputs;
    int n_outputs;
    td_status mixed_dtypes;  /* the error when inputs with one_dtype differ in dtype; TD_OK means
                                UNSUPPORTED_DTYPE */
    const td_status *errors; /* the codes that it can return, TD_OK after the last */
    const char *example;     /* a JSON request that succeeds */

    /* Describes the outputs (allocated in arena, data still NULL) in the order of their
     * declaration, or fails. Reads shapes, dtypes and attributes, and the values of inputs with
     * sets_shape only. */
    td_status (*infer)(struct td_op_args *args, struct td_arena *arena, struct td_error *err);
    /* After infer. */
    struct td_cost (*cost)(const struct td_op_args *args);
    /* After infer, with outputs allocated by the caller; for strings the caller allocates the
     * offsets and run takes the bytes from exec->arena. On failure the outputs are undefined. */
    td_status (*run)(struct td_op_args *args, struct td_exec *exec, struct td_error *err);
    /* After infer, for a device, which does not look: would run accept the values of inputs of role
     * index, indices out of range apart (offsets that decrease)? NULL: any values. */
    bool (*valid)(const struct td_op_args *args);
    /* How run will compute the call (op_plan.h). NULL: the op has no plan. */
    td_status (*explain)(const struct td_op_args *args, int threads, struct td_arena *arena,
                         struct td_plan *out, struct td_error *err);
    const struct td_op_rows *rows;     /* the op picks rows of a table; NULL: it does not */
    const struct td_op_stack *stack;   /* calls of equal shapes are merged into one; NULL: not */
    const struct td_op_change *change; /* it changes a resident table; NULL: it does not */
    const void *detail; /* what tells ops apart whose functions are the same; theirs alone */
};

/* Numbers of the ops, in the order of ops.def: indices of tables with an entry for each op. */
enum {
#define TD_OP(folder, name) TD_OP_NUMBER_##name,
#include "kernels/ops.def"
#undef TD_OP
    TD_OP_COUNT
};

/* All ops, in the order of ops.def. */
const struct td_op *const *td_ops(int *count);

/* NULL when no op has this name. `name` need not end in NUL. */
const struct td_op *td_op_named(const char *name, size_t length);

/* What a table computes where it stands for a function, such as a model of /v2: the rows that it is
 * asked for. */
extern const struct td_op *const td_table_op;

td_output_form td_op_output_form(const struct td_op *op);

/* The input that says which rows by keys of the table: keys to find, else row numbers, in whose
 * place keys may be. -1: there is none. */
int td_op_keys_input(const struct td_op *op);

/* All dtypes that an output can have, over all dtypes that its inputs accept. */
td_dtype_set td_op_output_dtypes(const struct td_op *op, const struct td_output_spec *spec);

/* The value of an attribute of kind CHOICE or DTYPE. */
int td_op_choice(const struct td_attr_spec *attr, const struct td_op_args *args);
/* Sets it. */
void td_op_set_choice(const struct td_attr_spec *attr, struct td_op_args *args, int choice);

/* Sets the op of args, and every attribute to its default. */
void td_op_set_defaults(const struct td_op *op, struct td_op_args *args);

/* The bytes of an attribute's value, those of a list or text included: two given values are equal
 * when these bytes are. NULL for a list or text that is not given. One whose default depends on the
 * call has, where it is not given, the bytes of some value: attrs_set tells the two apart. */
const void *td_op_attr_bytes(const struct td_attr_spec *attr, const struct td_op_args *args,
                             size_t *size);

/* Copies an attribute; a list or text is copied into the arena. False, with err filled, when memory
 * is exhausted. */
bool td_op_attr_copy(const struct td_attr_spec *attr, const struct td_op_args *from,
                     struct td_op_args *to, struct td_arena *arena, struct td_error *err);

/* The checks that are the same for all ops: every input is given, no list is empty, dtypes are
 * accepted and equal where one_dtype is set, required attributes are given, attributes are within
 * their ranges. Part of td_op_infer. */
TD_MUST_CHECK td_status td_op_check(const struct td_op *op, const struct td_op_args *args,
                                    struct td_error *err);

/* For infer: td_op_outputs allocates n outputs in the arena, which infer describes then;
 * td_op_output also describes the only one, with the errors of td_tensor_describe. */
TD_MUST_CHECK td_status td_op_outputs(struct td_op_args *args, int n, struct td_arena *arena,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_op_output(struct td_op_args *args, td_dtype dtype,
                                     const struct td_shape *shape, struct td_arena *arena,
                                     struct td_error *err);

/* Widens keys of int32 and uint32 (key_dtype.h), then td_op_check, then aligns the inputs whose
 * values are read, then op->infer. */
TD_MUST_CHECK td_status td_op_infer(const struct td_op *op, struct td_op_args *args,
                                    struct td_arena *arena, struct td_error *err);

#endif
