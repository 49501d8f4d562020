/* audit.h - log lines of changes of tables and aliases: who has changed what, when the change is
 * made.
 *
 *     audit request_id=… client=192.0.2.1 forwarded_for=… token=NAME operation=put_tensor
 *           table=words@2 version=7 persisted=1
 *
 * They do not depend on the reply: a client that has disconnected has made its change all the same.
 * Requests without a token leave none: nobody could be named, and updates of rows, which may be
 * many thousands a second, would fill the log of a daemon that needs no audit.
 *
 * Threads  The call's owner. */
#ifndef TD_SERVER_CALLS_AUDIT_H
#define TD_SERVER_CALLS_AUDIT_H

#include "server/calls/call.h"

/* A version of a table was made: by an operation such as "put_tensor". */
void td_audit_table(const struct td_call *call, const char *operation,
                    const struct td_tensor_listing *made);

/* persisted: the data folder has changed, too. */
void td_audit_table_deleted(const struct td_call *call, const char *table, bool persisted);

/* target: what the alias names from now on; NULL if it was deleted. */
void td_audit_alias(const struct td_call *call, const char *alias, const char *target,
                    bool persisted);

#endif
