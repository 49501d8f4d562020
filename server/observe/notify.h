/* notify.h - reports the daemon's state to the service manager.
 *
 * Source     sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names, with lines such as
 *            "READY=1". A name that starts with @ is in the abstract namespace.
 * Threads    Any thread.
 * Errors     None. Without a manager, nothing is sent; a manager that does not listen
 *            is ignored. */
#ifndef TD_SERVER_OBSERVE_NOTIFY_H
#define TD_SERVER_OBSERVE_NOTIFY_H

/* Sends the state. `address` is the value of NOTIFY_SOCKET, or NULL if there is no manager. */
void td_notify(const char *address, const char *state);

/* Sends "RELOADING=1", with the time that the protocol requires. After the reload, send "READY=1"
 * with td_notify. */
void td_notify_reloading(const char *address);

#endif
