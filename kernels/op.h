/* op.h - what an op is: one descriptor, from which routes, argument checks, metadata, statistics and
 * answers derive. Adding an op is one folder in kernels/ and one line in ops.def. A
 * device's kernel for an op is found by the op's name in the device plugin's own table: nothing here
 * names devices.
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

/* What an index outside [0, bound) gives. */
typedef enum td_bounds {
    TD_BOUNDS_ERROR, /* INDEX_OUT_OF_BOUNDS, nothing computed */
    TD_BOUNDS_ZERO,  /* a row of zeros (of empty strings) */
    TD_BOUNDS_CLIP,  /* the nearest valid row */
    TD_BOUNDS_WRAP,  /* index modulo bound, so that -1 is the last row */
    TD_BOUNDS_COUNT
} td_bounds;

/* "error", "zero", "clip", "wrap", and NULL: what an attribute `bounds` has as its choices, so that
 * it can be told from others. */
extern const char *const td_bounds_names[TD_BOUNDS_COUNT + 1];
const char *td_bounds_name(td_bounds bounds);

/* What the values of an input mean. It decides what an untyped value of JSON is read as, and which
 * tensors are copied before the op sees them: those whose values decide on addresses, where a client
 * may write on (shared memory) or a file may be cut short. All others can change from one look to the
 * next, so a kernel takes no address and no size from a value that it has not copied itself. */
typedef enum td_role {
    TD_ROLE_DATA,      /* values to move or to compute with */
    TD_ROLE_INDEX,     /* positions, row numbers, offsets, segments: they decide on addresses */
    TD_ROLE_KEY,       /* names that are only compared */
    TD_ROLE_CONDITION, /* truth values that choose */
    TD_ROLE_COUNT
} td_role;

/* "data", "index", "key", "condition". */
const char *td_role_name(td_role role);

/* A declared input. The first of an op is not optional. */
struct td_input_spec {
    const char *name;
    const char *summary; /* one sentence, shapes included */
    td_role role;
    td_dtype_set dtypes;
    bool one_dtype;    /* data: all tensors of all inputs that say so have one dtype
                          (td_op.mixed_dtypes), which an untyped value of JSON takes from the others */
    bool optional;     /* may be left out: then it has no tensors */
    bool list;         /* takes a list of tensors: indices.0, indices.1, ... */
    bool reads_values; /* data: the kernel looks at values. Those of other roles always are */
    bool sets_shape;   /* infer looks at values: they decide the shape of an output */
};

/* Does the kernel look at values, so that data must be aligned? */
bool td_input_reads_values(const struct td_input_spec *spec);

/* What values of JSON without a dtype are read as where they leave it open. */
struct td_untyped {
    td_dtype empty;   /* [] */
    td_dtype integer; /* the narrowest dtype of integers, int32 or int64 */
};
struct td_untyped td_input_untyped(const struct td_input_spec *spec);

/* A declared output. */
struct td_output_spec {
    const char *name;       /* "output"; "outputs" of a list; where there are several, any */
    const char *summary;    /* one sentence */
    const char *shape_rule; /* as documented */
    const char *dtype_of;   /* the input that has the same dtype, or the attribute that names it, */
    td_dtype_set dtypes;    /* or NULL: one of these; */
    const char *dtype_rule; /* which, as documented; NULL: any of them */
    bool list;              /* as many tensors as infer makes; then there is no other output */
};

/* How an answer holds the outputs: {"output": T}, {"outputs": [T, ...]}, {"outputs": {"values": T,
 * "indices": T}}. */
typedef enum td_output_form { TD_OUTPUT_ONE, TD_OUTPUT_LIST, TD_OUTPUT_NAMED } td_output_form;

/* A list of integers, in the arena: axes, sizes of a shape. */
struct td_ints {
    const int64_t *values; /* NULL: it was not given */
    int count;
};
#define TD_MAX_INTS 64 /* in one list: more than any rank */

typedef enum td_attr_kind {
    TD_ATTR_INT,    /* int64_t */
    TD_ATTR_INTS,   /* struct td_ints */
    TD_ATTR_FLOAT,  /* double, finite */
    TD_ATTR_BOOL,   /* bool */
    TD_ATTR_CHOICE, /* an enum that counts its choices from 0 */
    TD_ATTR_DTYPE,  /* td_dtype */
    TD_ATTR_TEXT,   /* const char *, NUL-terminated, in the arena */
    TD_ATTR_KIND_COUNT
} td_attr_kind;

/* Bytes of a member of this kind. */
size_t td_attr_size(td_attr_kind kind);

/* The numbers that an attribute may be, both ends among them. */
struct td_int_range {
    int64_t min, max;
};
struct td_float_range {
    double min, max;
};

#define TD_ATTR_UNSET INT64_MIN /* an int whose default depends on the other arguments */

/* An attribute, and where in the op's attrs struct it lies. */
struct td_attr_spec {
    const char *name;
    const char *summary;
    td_attr_kind kind;
    bool required;
    const char *const *choices; /* TD_ATTR_CHOICE: their names, NULL behind the last */
    td_dtype_set dtypes;        /* TD_ATTR_DTYPE: those it may be, others are UNSUPPORTED_DTYPE */
    const struct td_int_range *range;         /* TD_ATTR_INT, and each of TD_ATTR_INTS: others are
                                         INVALID_ARGUMENT; NULL: all are allowed */
    const struct td_float_range *float_range; /* TD_ATTR_FLOAT: the same */
    int64_t default_int;      /* TD_ATTR_INT, TD_ATTR_BOOL, TD_ATTR_CHOICE, TD_ATTR_DTYPE */
    double default_float;     /* TD_ATTR_FLOAT */
    const char *default_text; /* as documented, where the default depends on the call and the op
                                 looks at attrs_set: "batch_dims"; always of lists and texts */
    size_t offset;            /* in the attrs struct */
};

/* The tensors of one input: one, or as many as the list has. */
struct td_operand {
    struct td_tensor *tensors; /* in the call's arena */
    int count;
};

/* The arguments and results of one call. */
struct td_op_args {
    struct td_operand inputs[TD_MAX_INPUTS]; /* in the order of the descriptor */
    _Alignas(16) unsigned char attrs[TD_ATTRS_SIZE];
    uint32_t attrs_set;        /* bit i: attribute i was given */
    struct td_tensor *outputs; /* described by infer, filled by run */
    int n_outputs;
    int64_t replaced; /* indices that a bounds policy replaced; set by run */
    const void *plan; /* what infer worked out for cost and run; in the arena, NULL when nothing */
};

/* What a call will take, from shapes alone. */
struct td_cost {
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t random_reads; /* rows fetched from unpredictable places: a cache miss each */
    uint64_t flops;
    uint64_t workspace;            /* bytes beyond inputs and outputs, */
    uint64_t workspace_per_thread; /* and those for each thread that works on it, */
    bool single_threaded;          /* which is then only one, whatever the number of workers */
};

struct td_op_merge; /* merge.h */

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
    td_status mixed_dtypes;  /* the refusal where inputs of one dtype differ; TD_OK stands for
                                UNSUPPORTED_DTYPE */
    const td_status *errors; /* codes it can give, TD_OK ends the list */
    const char *example;     /* a JSON request that runs */

    /* Describes the outputs (allocated in arena, data still NULL), in the order in which they are
     * declared, or says why not. Reads shapes, dtypes and attributes, and values only of inputs that
     * set a shape. */
    td_status (*infer)(struct td_op_args *args, struct td_arena *arena, struct td_error *err);
    /* After infer. */
    struct td_cost (*cost)(const struct td_op_args *args);
    /* After infer, with outputs allocated by the caller. Strings: the caller allocated the offsets,
     * run takes the bytes from exec->arena. No output may be used when it fails. */
    td_status (*run)(struct td_op_args *args, struct td_exec *exec, struct td_error *err);
    /* How several calls become one; NULL: not at all. For ops of one output. */
    const struct td_op_merge *merge;
};

/* Numbers of the ops, in the order of ops.def: for tables that have an entry for each. */
enum {
#define TD_OP(folder, name) TD_OP_NUMBER_##name,
#include "kernels/ops.def"
#undef TD_OP
    TD_OP_COUNT
};

/* All ops, in the order of ops.def. */
const struct td_op *const *td_ops(int *count);

/* NULL when there is none. `name` need not end in NUL. */
const struct td_op *td_op_find(const char *name, size_t length);

td_output_form td_op_output_form(const struct td_op *op);

/* The dtypes that an output may have, with inputs of any dtype that they may have. */
td_dtype_set td_op_output_dtypes(const struct td_op *op, const struct td_output_spec *spec);

/* Sets an attribute that is a choice or a dtype. */
void td_op_choose(const struct td_attr_spec *attr, struct td_op_args *args, int choice);

/* Sets every attribute of args to its default. */
void td_op_defaults(const struct td_op *op, struct td_op_args *args);

/* What the value of an attribute consists of, wherever it lies: two are equal where these bytes are. */
const void *td_op_attr_bytes(const struct td_attr_spec *attr, const struct td_op_args *args,
                             size_t *size);

/* Copies an attribute, and what it points to into the arena. False with err filled without memory. */
bool td_op_attr_copy(const struct td_attr_spec *attr, const struct td_op_args *from,
                     struct td_op_args *to, struct td_arena *arena, struct td_error *err);

/* Checks that hold for any op: every input given, lists not empty, dtypes accepted, and one where
 * there must be one, required attributes set, all within their ranges. Part of td_op_infer. */
TD_MUST_CHECK td_status td_op_check(const struct td_op *op, const struct td_op_args *args,
                                    struct td_error *err);

/* td_op_check, then alignment of the inputs whose values are read, then op->infer. */
TD_MUST_CHECK td_status td_op_infer(const struct td_op *op, struct td_op_args *args,
                                    struct td_arena *arena, struct td_error *err);

#endif
