/* store_member.h - reads the member "store" of a JSON request when it is an object:
 *
 *     {"name": "best", "ttl_s": 600}
 *     {"who": "ids", "scores": "best", "ttl_s": 600}    for a program: output name, stored name
 *
 * Errors     MALFORMED_REQUEST with a JSON Pointer. */
#ifndef TD_API_JSON_STORE_MEMBER_H
#define TD_API_JSON_STORE_MEMBER_H

#include "api/json/tensor.h"

/* Reads the object at source->scan, which is the value at `path`. */
TD_MUST_CHECK td_status td_json_store(struct td_json_source *source, struct td_request *request,
                                      const struct td_json_path *path);

#endif
