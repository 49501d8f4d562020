/* common_members.h - the members that every op accepts besides its inputs and attributes: `device`,
 * `response`, `timing` and `store`, which can have a time to live, `ttl_s`.
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
    /* Time to live of the stored outputs in seconds. If 0, they remain until they are deleted or
     * replaced. */
    int64_t store_ttl_s;
    uint32_t set; /* bit i is set if the request has the member i of enum td_common_member */
};

/* NULL-terminated lists of names for the td_device_choice values, the td_layout values and
 * booleans. In td_bool_names, the names at odd indices mean true. */
extern const char *const td_device_names[], *const td_layout_names[], *const td_bool_names[];

/* Hint for a client that asks for an unknown layout. */
#define TD_BINARY_HINT                                                                             \
    "for a binary format, set the header Accept to application/vnd.safetensors or, for a "         \
    "resident tensor, application/x-npy"

/* True if a request can have the member. A request that neither sends nor stores outputs
 * (`has_no_output`) cannot have "response" or "store". */
bool td_common_member_allowed(enum td_common_member member, bool has_no_output);

/* Returns the allowed member with this name, or TD_COMMON_MEMBER_COUNT if there is none. */
enum td_common_member td_common_member_find(const char *name, size_t length, bool has_no_output);

/* Checks the value and sets the member, but not its bit in `set`. */
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
