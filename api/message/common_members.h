/* common_members.h - the members that every op accepts besides its inputs and attributes: `device`,
 * `response`, `timing`, `output_dtype`, and `store`, which can have a time to live, `ttl_s`. An op
 * with several outputs also accepts `outputs` (outputs.h).
 *
 * `attrs` calls these functions for members of the body, for entries of the metadata of safetensors
 * and for query parameters.
 *
 * Ownership  The name in `store` is in the arena.
 * Errors     MALFORMED_REQUEST, with `attribute` set, for a value that the member does not
 *            accept. */
#ifndef TD_API_MESSAGE_COMMON_MEMBERS_H
#define TD_API_MESSAGE_COMMON_MEMBERS_H

#include "api/message/attr_values.h"

typedef enum td_layout { TD_LAYOUT_NESTED, TD_LAYOUT_FLAT, TD_LAYOUT_BASE64 } td_layout;

/* Values of the member "device": the device on which the client wants the op to run. */
typedef enum td_device_choice { TD_DEVICE_AUTO, TD_DEVICE_CPU, TD_DEVICE_GPU } td_device_choice;

/* Maximum time to live of a stored result, in seconds: one year. */
#define TD_STORE_TTL_MAX 31536000

enum td_common_member {
    TD_COMMON_DEVICE,
    TD_COMMON_RESPONSE,
    TD_COMMON_TIMING,
    TD_COMMON_STORE,
    TD_COMMON_STORE_TTL,
    TD_COMMON_OUTPUT_DTYPE,
    TD_COMMON_OUTPUTS,
    TD_COMMON_MEMBER_COUNT
};

/* Names indexed by enum td_common_member. In JSON, "store.ttl_s" is the member ttl_s of the object
 * store. */
extern const char *const td_common_member_names[TD_COMMON_MEMBER_COUNT];

/* Values of the members. All zeros are the defaults. */
struct td_common_members {
    td_device_choice device;
    td_layout layout; /* member "response": layout of tensors in a JSON reply */
    bool timing;      /* ?timing=1 */
    /* Member "store": the outputs become resident tensors of this name, and the reply describes
     * them. A list of outputs becomes NAME.0, NAME.1, ..., and named outputs become NAME.values,
     * ... The name is in the arena, or NULL if not given. */
    const char *store;
    /* [n_outputs], for an op with named outputs: the name under which each output is stored, or
     * NULL for an output that is not stored. `store` is then one of these names. NULL if `store`
     * applies to all outputs. */
    const char **store_as;
    /* Time to live of the stored outputs in seconds. If 0, they remain until they are deleted or
     * replaced. */
    int64_t store_ttl_s;
    /* Member "output_dtype": the dtype to which floating-point outputs are rounded. Only if `set`
     * has the member. */
    td_dtype output_dtype;
    /* Member "outputs": bit set of the selected outputs of the op. 0 selects all. */
    uint64_t outputs;
    uint32_t set; /* bit i is set if the request has the member i of enum td_common_member */
};

/* NULL-terminated lists of names for the td_device_choice values, the td_layout values, booleans
 * and the dtypes of outputs. In td_bool_names, the names at odd indices mean true. */
extern const char *const td_device_names[],
    *const td_layout_names[], *const td_bool_names[], *const td_output_dtype_names[];

/* The dtypes in td_output_dtype_names. */
#define TD_OUTPUT_DTYPES                                                                           \
    (TD_DTYPE_BIT(FLOAT16) | TD_DTYPE_BIT(BFLOAT16) | TD_DTYPE_BIT(FLOAT32) | TD_DTYPE_BIT(FLOAT64))

/* Hint for a client that asks for an unknown layout. */
#define TD_BINARY_HINT                                                                             \
    "for a binary format, set the header Accept to application/vnd.safetensors or, for one "       \
    "tensor, application/x-npy"

/* True if a request can have the member. A request without outputs (n_outputs is 0) can have only
 * "device" and "timing", and only a request with several outputs can have "outputs". */
bool td_common_member_allowed(enum td_common_member member, int n_outputs);

/* Returns the allowed member with this name, or TD_COMMON_MEMBER_COUNT if there is none. */
enum td_common_member td_common_member_find(const char *name, size_t length, int n_outputs);

/* Checks the value and sets the member, but not its bit in `set`. td_outputs_select sets
 * "outputs", which depends on the op. */
TD_MUST_CHECK td_status td_common_member_set(struct td_common_members *members,
                                             enum td_common_member member,
                                             const struct td_attr_value *value,
                                             struct td_arena *arena, struct td_error *err);

/* True if all values are equal. Ignores `set`. */
bool td_common_members_equal(const struct td_common_members *a, const struct td_common_members *b);

/* Returns the index of a query parameter's value in `choices`, which ends with NULL, or -1 with err
 * filled. For routes that do not run ops. */
TD_MUST_CHECK int td_common_member_choose(const char *name, const char *const *choices,
                                          const char *text, size_t length, struct td_error *err);

#endif
