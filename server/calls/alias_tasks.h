/* alias_tasks.h - the tasks of /v1/aliases, other names of versions:
 * server/store/aliases/aliases.h.
 *
 *     list      GET     {"aliases": {"movies": "movies@2"}, "persisted": {...}, "problems": [...]}
 *     flip      POST    {"set": {"movies": "movies@2", "old": null}, "if": {"movies": "movies@1"}}
 *
 * A flip runs on a worker, since it may wait for the disk. A token needs the right to write to the
 * aliases that it sets, and to name what they are to name; a list has only those whose name and
 * target it may name.
 *
 * Errors   Those of td_store_flip; MALFORMED_REQUEST for another body. */
#ifndef TD_SERVER_CALLS_ALIAS_TASKS_H
#define TD_SERVER_CALLS_ALIAS_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_aliases_list_task, td_aliases_flip_task;

#endif
