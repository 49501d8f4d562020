/* notify.h - tells the service manager what the daemon does.
 *
 * Source     sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names, with lines such as
 *            "READY=1". A name that begins with @ is in the abstract namespace.
 * Threads    Any.
 * Errors     None: without a manager nothing is sent, and one that does not listen is ignored. */
#ifndef TD_SERVER_OBSERVE_NOTIFY_H
#define TD_SERVER_OBSERVE_NOTIFY_H

/* address: the value of NOTIFY_SOCKET; NULL: there is no manager. */
void td_notify(const char *address, const char *state);

/* "RELOADING=1", with the time that the protocol asks for. Ends with td_notify of "READY=1". */
void td_notify_reloading(const char *address);

#endif
