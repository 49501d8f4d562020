/* audit.h - log lines that record who changed which table or alias, written when the change is
 * made.
 *
 *     audit request_id=… client=192.0.2.1 forwarded_for=… token=NAME operation=put_tensor
 *           table=words@2 version=7 persisted=1
 *
 * The lines do not depend on the reply, because a change counts even if its client has
 * disconnected.
 *
 * Requests without a token leave no line. Such a line could not name anybody, and thousands of row
 * updates a second would fill the log of a daemon that needs no audit.
 *
 * Threads  Runs on the thread that owns the call. */
#ifndef TD_SERVER_CALLS_AUDIT_H
#define TD_SERVER_CALLS_AUDIT_H

#include "server/calls/call.h"

/* Logs that an operation such as "put_tensor" created a version of a table. */
void td_audit_table(const struct td_call *call, const char *operation,
                    const struct td_tensor_listing *made);

/* Logs that a table was deleted. `persisted` is true if the data folder has also changed. */
void td_audit_table_deleted(const struct td_call *call, const char *table, bool persisted);

/* Logs that an alias was set to `target`, or deleted if `target` is NULL. */
void td_audit_alias(const struct td_call *call, const char *alias, const char *target,
                    bool persisted);

#endif
