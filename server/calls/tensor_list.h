/* tensor_list.h - the tasks of GET /v1/tensors and GET /v1/programs: list the resident tensors or
 * the stored programs that the request is allowed to name, either all at once or in pages.
 *
 *     prefix   only names that start with this text
 *     after    only names after this name, which need not exist: "next" of the previous page
 *     limit    maximum number of names, at least 1; all names if absent
 *
 * A page has "next", its last name, if the list continues. Pages are read one after another, not at
 * one moment. A tensor stored between two pages is listed only if its page has not been read yet.
 *
 * Errors   MALFORMED_REQUEST for unknown or repeated parameters and for invalid values. */
#ifndef TD_SERVER_CALLS_TENSOR_LIST_H
#define TD_SERVER_CALLS_TENSOR_LIST_H

#include "server/calls/call.h"

extern const struct td_task td_tensor_list_task, td_program_list_task;

#endif
