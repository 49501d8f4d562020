/* connections.h - the open connections: their clients and phases, and the choice of connections
 * that must end.
 *
 *     open ─► ACCEPTED ─► WAITING ─► RECEIVING ─► WORKING ─► SENDING ─► WAITING ... ─► close
 *                            │           │                      │
 *                            └───────────┴── sweep ─► ENDED ◄───┘
 *
 * An I/O thread reports each change of a connection's phase. td_connections_sweep regularly looks
 * at all connections and ends those that make no progress: headers that do not arrive in time,
 * bodies and replies below a minimum rate, and idle clients. The kernel counts the bytes of each
 * socket, so packets need no reports. A reply makes progress as long as the client acknowledges
 * bytes, even while the library writes none because the kernel's buffer is full. The kernel does
 * not count the bytes of Unix sockets, only those that the client has not read yet. On Unix
 * sockets, a sweep therefore sees whether a reply makes progress, but not its rate, and it does not
 * see when a request's headers start. Such a client is idle until its headers are complete.
 *
 * A sweep also wakes the HTTP library for clients that have disconnected. The library reads with
 * edge-triggered epoll events. When a client's last bytes and its FIN arrive together, the library
 * reads the bytes and gets no second event. POLLRDHUP finds these sockets, and shutting down their
 * reading side causes another event. Unread bytes of the next request are then lost, so a client
 * that half-closes after several pipelined requests might get only the first reply.
 *
 * A sweep also releases connections that no I/O thread will take over. If the library has no memory
 * for a connection, it closes the socket but reports neither the start nor the end of the
 * connection. The kernel's cookie shows whether a socket number still belongs to the same socket.
 *
 * Ownership  Records are in a table indexed by socket number. A record is in use from open until
 *            close, and holds a reference to its client. Close is called before the socket is
 *            closed. This module does not close sockets.
 * Threads    Any thread. One mutex serializes open, close and sweep, so a sweep never shuts down a
 *            socket whose number was reused. Reports take no lock. */
#ifndef TD_SERVER_CLIENTS_CONNECTIONS_H
#define TD_SERVER_CLIENTS_CONNECTIONS_H

#include "server/auth/tokens.h"
#include "server/clients/sender.h"
#include "server/memory/buffer_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct td_connections;
struct td_tls_output;

enum td_phase {
    TD_CONNECTION_CLOSED,
    /* No I/O thread has taken over the connection yet. */
    TD_CONNECTION_ACCEPTED,
    TD_CONNECTION_WAITING,   /* waiting for the headers of a request */
    TD_CONNECTION_RECEIVING, /* receiving the body */
    TD_CONNECTION_WORKING,   /* the request is queued or running */
    TD_CONNECTION_SENDING,   /* sending the reply */
    TD_CONNECTION_ENDED      /* shut down; the I/O thread will close the socket */
};

/* Limit that was reached when the connection was accepted. A connection restricted by a limit can
 * only request the server's state. */
enum td_restriction {
    TD_UNRESTRICTED,
    TD_CONNECTIONS_REACHED, /* --connection-limit */
    TD_CLIENT_REACHED,      /* --client-connections */
    TD_MEMORY_REACHED       /* --memory-limit */
};

struct td_connection {
    /* The kernel's cookie of the socket, or 0 if it is unknown. */
    uint64_t cookie;
    /* Client of the connection, or NULL if the client is unknown. Also NULL for a proxy, whose
     * requests belong to other clients. */
    struct td_client *client;
    struct td_peer peer;
    bool forwards; /* the peer is a trusted proxy */
    /* The listening socket is bound to a loopback address. */
    bool loopback;
    /* The connection is on a Unix socket. */
    bool is_unix;
    /* Token that the connection last presented. Only the I/O thread uses it. */
    struct td_pass pass;
    /* Client that holds the token, or NULL if there is no token. */
    struct td_client *holder;
    /* State of td_tls_check_client. Only the I/O thread uses it. */
    uint64_t tls_checked;
    /* Output of the TLS session, or NULL. Only server/http uses it, and frees it. */
    struct td_tls_output *tls_output;
    /* Number of bytes received before the first request, during a TLS handshake. */
    atomic_uint_fast64_t skipped;
    enum td_restriction restriction;
    int io_thread;
    atomic_int phase;
    atomic_int_fast64_t since_ns;  /* start of the phase */
    atomic_uint_fast64_t received; /* bytes of the body received so far */
    /* True if the connection has had a request. */
    atomic_bool requested;

    /* The following members are the state of sweeps. The mutex guards them. */
    /* Next socket in the list of restricted connections, or -1 at the end of the list. */
    int next_restricted;
    /* Phase in the last sweep. */
    int seen_phase;
    /* Value of since_ns in the last sweep. */
    int64_t seen_since_ns;
    /* Time at which a sweep last examined the transfer, or time of the first bytes of the headers.
     * Initially 0. */
    int64_t seen_ns;
    uint64_t seen_bytes; /* bytes transferred at seen_ns */
    /* Remaining time for which the transfer can stall. */
    int64_t credit_ns;
    /* Acknowledged bytes of all replies when a sweep last asked the kernel. */
    uint64_t acknowledged;
    /* Number of bytes transferred when a sweep last found progress. */
    uint64_t moved_bytes;
    int64_t moved_ns; /* time of that sweep */
};

/* Maximum numbers of open connections. */
struct td_connection_limits {
    int open;       /* for all clients together */
    int per_client; /* for one client */
};

/* Limits on slow clients. A body or a reply can stall for header_timeout_ns. Each byte adds the
 * time that it takes at min_rate, up to a total of one minute. A client is idle while it sends no
 * byte of a request and acknowledges no byte of a reply. */
struct td_progress_limits {
    /* Maximum time from the first byte of a request to the end of its headers. */
    int64_t header_timeout_ns;
    /* Maximum idle time of a client, or 0 for no limit. */
    int64_t idle_timeout_ns;
    /* Minimum rate of bodies and replies in bytes per second, or 0 for no limit. */
    uint64_t min_rate;

    /* Sends REQUEST_TIMEOUT, with `sentence` as its text, to a client that has sent only part of a
     * request. Does not block. */
    void (*refuse)(void *context, int socket, const char *sentence);
    void *context;
};

struct td_connection_counts {
    int open; /* connections in all phases */
    int waiting, receiving, working, sending;
    int restricted;
    /* Memory that is counted against the memory budget. */
    uint64_t memory_bytes;
};

/* Makes a table for sockets with numbers below n_sockets. Each unrestricted connection uses
 * connection_bytes of the memory budget. Returns NULL if allocation fails. */
struct td_connections *td_connections_new(int n_sockets, struct td_buffer_pool *budget,
                                          size_t connection_bytes);
void td_connections_free(struct td_connections *connections); /* NULL is allowed */

/* td_connections_charge charges the memory of an unrestricted connection to the budget, before
 * td_connections_open. Returns false if the budget has no room. td_connections_discharge undoes the
 * charge if no connection is opened. */
bool td_connections_charge(struct td_connections *connections);
void td_connections_discharge(struct td_connections *connections);

/* Opens a record for a new connection, which takes over the reference to the client. A trusted
 * proxy has no client, and therefore no per-client limit. Returns false if the socket number is too
 * large, in which case the caller keeps the reference. */
bool td_connections_open(struct td_connections *connections, int socket, struct td_client *client,
                         enum td_restriction restriction, int io_thread);

/* Closes the record. Call before the socket is closed. Unknown sockets are ignored. */
void td_connections_close(struct td_connections *connections, int socket);

/* Returns the record of an open connection. Call on the connection's I/O thread. */
struct td_connection *td_connections_find(struct td_connections *connections, int socket);

/* Starts a phase. Returns false if the connection was ended, in which case nothing can be sent.
 * Call on the connection's I/O thread. */
bool td_connection_enter(struct td_connection *connection, enum td_phase phase, int64_t now_ns);

/* Records that the bytes read from the socket so far do not belong to a request. Call before the
 * first request. */
void td_connection_skip_read(struct td_connection *connection, int socket);

/* Reports that `bytes` more bytes of the body have arrived. Call on the connection's I/O thread. */
void td_connection_received(struct td_connection *connection, size_t bytes);

/* Reports that the reply was sent and the connection waits for the next request. Call on the
 * connection's I/O thread. */
void td_connection_wait(struct td_connection *connection);

/* Return the number of open connections: all connections, restricted connections that were not
 * ended, and connections of one I/O thread. */
int td_connections_count(const struct td_connections *connections);
int td_connections_count_restricted(const struct td_connections *connections);
int td_connections_count_on(const struct td_connections *connections, int io_thread);

/* A client has many connections if it has more than TD_FEW_CONNECTIONS. The first I/O thread is
 * meant for clients with few connections.
 *
 * td_connections_first_is_wanted returns true if a client with few connections has sent a request
 * to the first I/O thread within the last second, and still has a connection there, while another
 * client has many. The time is that of the last sweep. td_connections_note_request notes the start
 * of each request. td_connections_should_move returns true if
 * the connection should then move to another I/O thread, because it is on the first I/O thread and
 * its client has many. A connection can move only by being closed and opened again. A connection
 * with unread bytes does not move, because its next request has already arrived. Call
 * td_connections_should_move on the connection's I/O thread. */
enum { TD_FEW_CONNECTIONS = 8 };
void td_connections_note_request(struct td_connections *connections,
                                 const struct td_connection *connection, int64_t now_ns);
bool td_connections_first_is_wanted(const struct td_connections *connections);
bool td_connections_should_move(const struct td_connections *connections,
                                const struct td_connection *connection);

/* Ends a waiting, unrestricted connection to make room for a connection of `client`. A connection
 * can be ended if it has waited for a long time, or if its client has more connections than
 * `client`. If that client has only one connection more, fresh connections cannot be ended, because
 * the two clients would just change places. Chooses the oldest of these connections from the client
 * with the most connections. Skips connections whose request has arrived. Searches only part of the
 * table. Returns false if no connection was ended. */
bool td_connections_make_room(struct td_connections *connections, const struct td_client *client,
                              int64_t now_ns);

/* Finds the client with the most restricted connections, and ends the oldest of these that is not
 * being answered. A client with many connections therefore does not cause another client's
 * connection to be ended. A connection whose request has arrived is ended only if `also_requested`
 * is set. Returns false if no connection was ended. */
bool td_connections_end_restricted(struct td_connections *connections, bool also_requested);

/* Sweeps the next of `parts` equal parts of the connections. */
void td_connections_sweep(struct td_connections *connections,
                          const struct td_progress_limits *limits, int64_t now_ns, int parts);

/* Returns the counts. They are not a snapshot, because phases change during the count. Phases are
 * counted again only if the last count is some milliseconds old. */
struct td_connection_counts td_connections_counts(struct td_connections *connections,
                                                  int64_t now_ns);

#endif
