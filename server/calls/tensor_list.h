/* tensor_list.h - the task of GET /v1/tensors: the resident tensors that the request may name, all
 * or a page of them.
 *
 *     prefix   only names that begin with it
 *     after    only names that come after this one, which need not exist: "next" of the page before
 *     limit    at most so many, at least 1; without it all
 *
 * A page has "next", its last name, if the list goes on. Pages are read one after the other, not at
 * one moment: a tensor that is stored meanwhile is in the list only if its page was still to come.
 *
 * Errors   MALFORMED_REQUEST for other parameters, repeated ones and other values. */
#ifndef TD_SERVER_CALLS_TENSOR_LIST_H
#define TD_SERVER_CALLS_TENSOR_LIST_H

#include "server/calls/call.h"

extern const struct td_task td_tensor_list_task;

#endif
