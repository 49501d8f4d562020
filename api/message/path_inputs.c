#include "api/message/path_inputs.h"

bool td_path_gives_input(const struct td_request *request, int input)
{
    return request->args.inputs[input].tensors != NULL;
}

uint64_t td_path_inputs(const struct td_request *request)
{
    uint64_t set = 0;
    _Static_assert(TD_MAX_INPUTS <= 64, "each input has a bit");
    for (int i = 0; i < request->op->n_inputs; i++)
        set |= (uint64_t)(request->args.inputs[i].count > 0) << i;
    return set;
}

td_status td_path_input_refuse(const struct td_input_spec *spec, struct td_error *err)
{
    td_error_set(err, TD_MALFORMED_REQUEST,
                 "%s is given by the path; it cannot be in the body as well", spec->name);
    return td_error_at_input(err, TD_MALFORMED_REQUEST, "%s", spec->name);
}
