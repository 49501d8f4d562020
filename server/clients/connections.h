/* connections.h - the open connections: whose they are, what they wait for, which of them must end.
 *
 *     open ─► ACCEPTED ─► WAITING ─► RECEIVING ─► WORKING ─► SENDING ─► WAITING ... ─► close
 *                            │           │                      │
 *                            └───────────┴── sweep ─► ENDED ◄───┘
 *
 * An I/O thread reports each change of a connection's phase. td_connections_sweep looks at all
 * connections from time to time, and ends those that hold their place without making progress:
 * headers that do not arrive in time, bodies and replies below a minimum rate, clients that are
 * idle. The kernel counts the bytes of a socket, so that none needs a report for each packet, and a
 * reply makes progress as long as the client acknowledges bytes, even if the library writes none
 * because the kernel's buffer is full.
 *
 * A sweep also wakes the HTTP library for clients that have disconnected. The library reads with
 * edge-triggered epoll events; when a client's last bytes and its FIN arrive together, it reads the
 * bytes and gets no second event. POLLRDHUP finds such sockets, and shutting down their reading
 * side makes another event. Bytes of a next request that are not yet read are then lost, so a
 * client that half-closes after several pipelined requests may get only the first reply.
 *
 * A sweep also releases connections that no I/O thread will take over: the library reports neither
 * their begin nor their end if there is no memory for them, but closes their sockets. Whether a
 * number is still that of the same socket is seen by the kernel's cookie.
 *
 * Ownership  Records are in a table indexed by socket. A record is in use from open until close,
 *            which is called before the socket is closed, and holds a reference to its client.
 *            Sockets are not closed here.
 * Threads    Any. One mutex, for open, close and sweep: a sweep never shuts down a socket that was
 *            closed and opened again meanwhile. Reports take no lock. */
#ifndef TD_SERVER_CLIENTS_CONNECTIONS_H
#define TD_SERVER_CLIENTS_CONNECTIONS_H

#include "server/auth/tokens.h"
#include "server/clients/clients.h"
#include "server/memory/buffer_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct td_connections;

enum td_phase {
    TD_CONNECTION_CLOSED,
    TD_CONNECTION_ACCEPTED,  /* its I/O thread has not taken it over yet */
    TD_CONNECTION_WAITING,   /* for the headers of a request */
    TD_CONNECTION_RECEIVING, /* the body */
    TD_CONNECTION_WORKING,   /* the request is queued or computed */
    TD_CONNECTION_SENDING,   /* the reply */
    TD_CONNECTION_ENDED      /* shut down; its I/O thread will close it */
};

/* Why a connection may only ask for the server's state: which limit was reached when it was
 * accepted. */
enum td_restriction {
    TD_UNRESTRICTED,
    TD_CONNECTIONS_REACHED, /* --connection-limit */
    TD_CLIENT_REACHED,      /* --client-connections */
    TD_MEMORY_REACHED       /* --memory-limit */
};

struct td_connection {
    uint64_t opened;          /* its number, from 1: no two connections have the same */
    uint64_t cookie;          /* the kernel's number of its socket; 0: unknown */
    struct td_client *client; /* NULL: unknown, or a proxy's, whose requests are of other clients */
    bool forwards;            /* the peer is a trusted proxy */
    bool loopback;            /* its listening socket is bound to a loopback address */
    struct td_pass pass;      /* the token presented last, used by the I/O thread, */
    struct td_client *holder; /* and its holder as a client; NULL: none */
    uint64_t tls_checked;     /* of td_tls_check_client, used by the I/O thread */
    atomic_uint_fast64_t skipped; /* bytes received before the first request: of a handshake */
    enum td_restriction restriction;
    int io_thread;
    atomic_int phase;
    atomic_int_fast64_t since_ns;  /* of the phase */
    atomic_uint_fast64_t received; /* bytes of the body so far */
    atomic_bool requested;         /* it has had a request */

    /* Of sweeps, guarded by the mutex. */
    int next_restricted;   /* in the list of restricted connections; -1: the last */
    int seen_phase;        /* the phase that the others describe, */
    int64_t seen_since_ns; /* and its since_ns */
    int64_t seen_ns;       /* the last look at a transfer, or when headers began; 0: not yet */
    uint64_t seen_bytes;   /* transferred then */
    int64_t credit_ns;     /* how long the transfer may stand still */
    uint64_t acknowledged; /* bytes of all replies, at the last look that asked the kernel */
    uint64_t moved_bytes;  /* transferred when a look last saw more, */
    int64_t moved_ns;      /* and the time of that look */
};

/* How many connections there may be. */
struct td_connection_limits {
    int open;       /* of all clients */
    int per_client; /* of one */
};

/* How slow they may be. A body or a reply may stand still for header_timeout_ns; each byte adds the
 * time that it takes at min_rate, up to a minute in all. A client is idle while no byte of a
 * request arrives and none of a reply is acknowledged. */
struct td_progress_limits {
    int64_t header_timeout_ns; /* from the first byte of a request to the end of its headers */
    int64_t idle_timeout_ns;   /* 0: clients may be idle for any time */
    uint64_t min_rate;         /* bytes per second; 0: bodies and replies may be of any rate */

    /* Sends a client that has sent a part of a request a REQUEST_TIMEOUT with the sentence, without
     * blocking. */
    void (*refuse)(void *context, int socket, const char *sentence);
    void *context;
};

struct td_connection_counts {
    int open; /* of all phases */
    int waiting, receiving, working, sending;
    int restricted;
    uint64_t memory_bytes; /* counted against the memory budget */
};

/* For sockets below n_sockets. Each unrestricted connection takes connection_bytes of the memory
 * budget. NULL without memory. */
struct td_connections *td_connections_new(int n_sockets, struct td_buffer_pool *budget,
                                          size_t connection_bytes);
void td_connections_free(struct td_connections *connections); /* NULL is fine */

/* Takes the memory of an unrestricted connection from the budget, for open, or gives it back if
 * there is none to open. False if there is no room for it. */
bool td_connections_charge(struct td_connections *connections);
void td_connections_discharge(struct td_connections *connections);

/* A new connection, which takes over the reference to the client. A trusted proxy's has none, so it
 * has no limit of its own. False if the number of the socket is too large; then the reference is
 * still the caller's. */
bool td_connections_open(struct td_connections *connections, int socket, struct td_client *client,
                         enum td_restriction restriction, int io_thread);

/* Before the socket is closed. An unknown socket has no effect. */
void td_connections_close(struct td_connections *connections, int socket);

/* After the socket was closed: only if the record is still that of this connection, since the
 * socket's number may have another one meanwhile. */
void td_connections_close_opened(struct td_connections *connections, int socket, uint64_t opened);

/* The record of an open connection, on its I/O thread. */
struct td_connection *td_connections_find(struct td_connections *connections, int socket);

/* On the I/O thread: a phase begins. False if the connection was ended: nothing may be sent. */
bool td_connection_enter(struct td_connection *connection, enum td_phase phase, int64_t now_ns);

/* Before the first request: what has been read of the socket so far is not of it. */
void td_connection_skip_read(struct td_connection *connection, int socket);

/* On the I/O thread: that many bytes of the body have arrived. */
void td_connection_received(struct td_connection *connection, size_t bytes);

/* On the I/O thread: the reply is sent, and the connection waits for the next request. */
void td_connection_wait(struct td_connection *connection);

/* Open connections: all, the restricted ones that were not ended, and those of an I/O thread. */
int td_connections_count(const struct td_connections *connections);
int td_connections_count_restricted(const struct td_connections *connections);
int td_connections_count_on(const struct td_connections *connections, int io_thread);

/* Has any client more than a few connections? */
enum { TD_FEW_CONNECTIONS = 8 };
bool td_connections_one_has_many(const struct td_connections *connections);

/* Ends a waiting, unrestricted connection in favour of one of `client`: one that has waited for
 * seconds, or whose client has more connections than that one; of those the one whose client has
 * most, then the oldest. One with a request that has arrived is not waiting, and one that has just
 * been opened is not ended for a client with one connection fewer: the two would only change
 * places. Looks at a part of the table; false if it found none. */
bool td_connections_make_room(struct td_connections *connections, const struct td_client *client,
                              int64_t now_ns);

/* Ends the oldest restricted connection, that is not being answered, of the client with most of
 * them: a storm of one client ends none of another. One with a request that has arrived is ended
 * only if `also_requested`. False if that client has none such now. */
bool td_connections_end_restricted(struct td_connections *connections, bool also_requested);

/* Looks at one part of `parts` of the connections, the next one at each call. */
void td_connections_sweep(struct td_connections *connections,
                          const struct td_progress_limits *limits, int64_t now_ns, int parts);

/* Not of one instant: connections change their phase meanwhile, and the phases are counted again
 * only some milliseconds after the last call. */
struct td_connection_counts td_connections_counts(struct td_connections *connections,
                                                  int64_t now_ns);

#endif
