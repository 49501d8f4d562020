/* path_inputs.h - inputs that the path of a request gives, such as the table in POST
 * /v1/tensors/{name}/gather. They cannot be in the body as well.
 *
 * Errors     MALFORMED_REQUEST */
#ifndef TD_API_MESSAGE_PATH_INPUTS_H
#define TD_API_MESSAGE_PATH_INPUTS_H

#include "api/message/message.h"

/* td_path_gives_input: true if the path gives the input. td_path_inputs returns the bit set of all
 * such inputs. Called before td_named_inputs_alloc and before the body is decoded, when only these
 * inputs have tensors. */
bool td_path_gives_input(const struct td_request *request, int input);
uint64_t td_path_inputs(const struct td_request *request);

/* Sets MALFORMED_REQUEST for an input in the body that the path already gives. */
td_status td_path_input_refuse(const struct td_input_spec *spec, struct td_error *err);

#endif
