#include "api/message/attrs.h"

#include "api/message/attr_values.h"
#include "api/message/common_members.h"
#include "api/message/outputs.h"
#include "kernels/name.h"

#include <string.h>

static const struct td_attr_spec *find_attr(const struct td_op *op, const char *name, size_t length,
                                            int *index)
{
    for (*index = 0; *index < op->n_attrs; ++*index)
        if (td_name_is(op->attrs[*index].name, name, length))
            return &op->attrs[*index];
    return NULL;
}

static bool same_attr(const struct td_attr_spec *spec, const struct td_op_args *a,
                      const struct td_op_args *b)
{
    size_t a_size = 0, b_size = 0;
    const void *a_bytes = td_op_attr_bytes(spec, a, &a_size);
    const void *b_bytes = td_op_attr_bytes(spec, b, &b_size);
    return a_size == b_size && (a_size == 0 || memcmp(a_bytes, b_bytes, a_size) == 0);
}

/* The attribute or common member to which a name in a request refers. */
struct place {
    const struct td_attr_spec *spec; /* NULL for a common member */
    enum td_common_member member;
    const char *name;
    uint32_t bit; /* bit of the name in `set` and `by_query` */
    /* Sets of the request that the bit belongs to. NULL if the name is unknown. */
    uint32_t *set, *by_query;
};

static struct place find_place(struct td_request *request, const char *name, size_t length)
{
    int index;
    const struct td_attr_spec *spec = find_attr(request->op, name, length, &index);
    if (spec)
        return (struct place){ .spec = spec,
                               .name = spec->name,
                               .bit = UINT32_C(1) << index,
                               .set = &request->args.attrs_set,
                               .by_query = &request->by_query.attrs };
    const enum td_common_member member =
        td_common_member_find(name, length, td_request_n_choices(request));
    if (member == TD_COMMON_MEMBER_COUNT)
        return (struct place){ .set = NULL };
    return (struct place){ .member = member,
                           .name = td_common_member_names[member],
                           .bit = UINT32_C(1) << member,
                           .set = &request->common.set,
                           .by_query = &request->by_query.common };
}

static td_status set_place(const struct place *place, const struct td_attr_value *value,
                           struct td_op_args *args, struct td_common_members *common,
                           struct td_arena *arena, struct td_error *err)
{
    if (place->spec)
        return td_attr_store(place->spec, value, args, arena, err);
    return place->member == TD_COMMON_OUTPUTS
               ? td_outputs_select(args->op, value, &common->outputs, err)
               : td_common_member_set(common, place->member, value, arena, err);
}

/* Checks that the values in the body and in the query string are equal. */
static td_status check_repeated(const struct place *place, const struct td_attr_value *value,
                                struct td_request *request, struct td_arena *arena,
                                struct td_error *err)
{
    struct td_op_args args = request->args;
    struct td_common_members common = request->common;
    const td_status status = set_place(place, value, &args, &common, arena, err);
    *place->by_query &= ~place->bit;
    if (status != TD_OK || (place->spec ? same_attr(place->spec, &args, &request->args)
                                        : td_common_members_equal(&common, &request->common)))
        return status;
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "%s has different values in the query string and in the body", place->name);
    return td_error_at_attribute(err, TD_MALFORMED_REQUEST, place->name);
}

td_status td_attrs_set(struct td_request *request, const char *name, size_t length,
                       const struct td_attr_value *value, struct td_arena *arena, bool *known,
                       struct td_error *err)
{
    const struct place place = find_place(request, name, length);
    *known = place.set != NULL;
    if (!*known)
        return TD_OK;
    if (*place.by_query & place.bit)
        return check_repeated(&place, value, request, arena, err);
    if (*place.set & place.bit) {
        td_error_set(err, TD_MALFORMED_REQUEST, "%s is given twice", place.name);
        return td_error_at_attribute(err, TD_MALFORMED_REQUEST, place.name);
    }
    const td_status status = set_place(&place, value, &request->args, &request->common, arena, err);
    if (status == TD_OK)
        *place.set |= place.bit;
    return status;
}

td_status td_attrs_set_text(struct td_request *request, const char *name, size_t length,
                            const char *text, size_t text_length, struct td_arena *arena,
                            bool *known, struct td_error *err)
{
    struct td_attr_value value = { .kind = TD_VALUE_TEXT,
                                   .text = text,
                                   .text_length = text_length };
    int index;
    const struct td_attr_spec *spec = find_attr(request->op, name, length, &index);
    td_status status = TD_OK;
    if (spec)
        status = td_attr_of_text(spec, text, text_length, arena, &value, err);
    else if (td_name_is(td_common_member_names[TD_COMMON_OUTPUTS], name, length))
        status = td_attr_names_of_text(text, text_length, arena, &value, err);
    return status != TD_OK ? status
                           : td_attrs_set(request, name, length, &value, arena, known, err);
}

td_status td_attrs_set_query(struct td_request *request, const char *name, size_t length,
                             const char *text, size_t text_length, struct td_arena *arena,
                             bool *known, struct td_error *err)
{
    const struct place place = find_place(request, name, length);
    *known = place.set != NULL;
    if (!*known)
        return TD_OK;
    *place.by_query &= ~place.bit; /* a repeated query parameter is an error */
    const td_status status =
        td_attrs_set_text(request, name, length, text, text_length, arena, known, err);
    if (status == TD_OK)
        *place.by_query |= place.bit;
    return status;
}
