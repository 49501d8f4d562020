/* alias_tasks.h - the tasks of /v1/aliases. An alias is another name for a version of a table
 * (server/store/aliases/aliases.h).
 *
 *     list      GET     {"aliases": {"movies": "movies@2"}, "persisted": {...}, "problems": [...]}
 *     flip      POST    {"set": {"movies": "movies@2", "old": null}, "if": {"movies": "movies@1"}}
 *
 * A flip runs on a worker because it might wait for the disk. The token must be allowed to write to
 * the aliases that a flip sets and to name their targets. The list contains only aliases whose name
 * and target the token is allowed to name.
 *
 * Errors   The errors of td_store_flip; MALFORMED_REQUEST for an invalid body. */
#ifndef TD_SERVER_CALLS_ALIAS_TASKS_H
#define TD_SERVER_CALLS_ALIAS_TASKS_H

#include "server/calls/call.h"

extern const struct td_task td_aliases_list_task, td_aliases_flip_task;

#endif
