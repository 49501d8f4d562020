/* audit.h - log lines that record who changed which table or alias, written when the change is
 * made.
 *
 *     audit request_id=… client=192.0.2.1 forwarded_for=… token=NAME operation=put_tensor
 *           table=words@2 version=7 persisted=1
 *
 * A change is logged even if its client has disconnected and gets no reply.
 *
 * Changes by requests without a token are not logged. The lines would name nobody, and thousands of
 * row updates a second would fill the log of a daemon that needs no audit.
 *
 * Threads  Runs on the thread that owns the call. */
#ifndef TD_SERVER_CALLS_AUDIT_H
#define TD_SERVER_CALLS_AUDIT_H

#include "server/calls/call.h"

/* Logs that an operation such as "put_tensor" created a version of a table. */
void td_audit_table(const struct td_call *call, const char *operation,
                    const struct td_tensor_listing *made);

/* Logs that an operation such as "delete_tensor" deleted a table or a program. `persisted` is true
 * if the data folder changed too. */
void td_audit_deleted(const struct td_call *call, const char *operation, const char *table,
                      bool persisted);

/* Logs that an alias was set to `target`, or deleted if `target` is NULL. */
void td_audit_alias(const struct td_call *call, const char *alias, const char *target,
                    bool persisted);

#endif
