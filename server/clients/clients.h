/* clients.h - the clients that send requests.
 *
 * A client is an IPv4 address, or the first 64 bits of an IPv6 address, because one site or machine
 * owns all addresses with that prefix. On a Unix socket, a client is a user. For requests with a
 * token, the token is the client, regardless of the address or user. Connections always belong to
 * an address or user. Limits and turns apply per client. sender.h defines what logs and spans
 * contain about the sender of a request.
 *
 * Ownership  Clients are reference-counted. Each connection and each call holds a reference. At
 *            most TD_CLIENTS_KEPT clients without references are kept for a few seconds, so their
 *            state survives a reconnect.
 * Threads    Any thread. One mutex guards the table; the members of a client are atomic. */
#ifndef TD_SERVER_CLIENTS_CLIENTS_H
#define TD_SERVER_CLIENTS_CLIENTS_H

#include "server/clients/refusals.h"
#include "server/workers/job_queue.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_clients;

/* Maximum number of unreferenced clients that are kept. */
enum { TD_CLIENTS_KEPT = 65536 };

/* An IPv6 address, or an IPv4 address mapped to IPv6. */
struct td_address {
    uint8_t bytes[16];
};

enum td_client_kind { TD_CLIENT_ADDRESS, TD_CLIENT_USER, TD_CLIENT_TOKEN };

/* Key of a client. For an address, an IPv6 prefix of 64 bits followed by zeros, or an IPv4 address
 * mapped to IPv6. For a user, the user id followed by zeros. For a token, 128 bits of its digest.
 * Must not be printed. */
struct td_client_key {
    /* A value of enum td_client_kind, stored as a byte so the key has no padding and can be
     * compared with memcmp. */
    uint8_t kind;
    uint8_t bytes[16];
};

struct td_client {
    struct td_client_key key;
    atomic_int references;
    atomic_int connections; /* open connections */
    /* Number of open connections on the first I/O thread. The mutex of connections.c guards it. */
    int on_first;
    /* True if connections of the client have left the first I/O thread. Its new connections then go
     * to the other threads, until it has no connection. */
    atomic_bool left_first;
    /* Number of open restricted connections that were not ended. */
    atomic_int restricted;
    /* Flows of the client's queued calls, in the workers' queue and in the disk threads' queue. */
    struct td_job_flow flow, disk_flow;
    struct td_refused refused;
    atomic_int_fast64_t requests; /* number of the client's calls that are queued or running */
    /* Memory charged to the client for its calls in progress. */
    atomic_uint_fast64_t memory_bytes;

    /* The table's mutex guards the following members. */
    struct td_client *next;
    /* Time at which the client was first seen unreferenced, or 0 if it is in use. */
    int64_t unused_since_ns;
};

/* Returns NULL if allocation fails. The seed determines the order of the hash table and must be
 * unknown to clients. */
struct td_clients *td_clients_new(uint64_t seed);
/* Frees the table. Call only when no references are left. Accepts NULL. */
void td_clients_free(struct td_clients *clients);

/* Stores the IPv4 or IPv6 address of a peer. Returns false if the peer's address is of another
 * family. */
bool td_address_of(const struct sockaddr *peer, struct td_address *address);
struct td_address td_address_map_ipv4(const struct in_addr *ipv4);

/* Writes the address as text: "192.0.2.1" or "2001:db8::1". Needs at most INET6_ADDRSTRLEN
 * bytes. */
void td_address_print(const struct td_address *address, char *text, size_t size);

/* Return the client key of an address, of a user id, and of a token's digest. */
struct td_client_key td_client_key_of_address(const struct td_address *address);
struct td_client_key td_client_key_of_user(uid_t user);
struct td_client_key td_client_key_of_token(const uint8_t digest_part[16]);

/* Returns the client with this key, with a reference for the caller. Adds the client if it is not
 * in the table. Returns NULL if allocation fails. */
struct td_client *td_clients_find(struct td_clients *clients, const struct td_client_key *key);

struct td_client *td_client_ref(struct td_client *client);
void td_client_unref(struct td_client *client); /* NULL is allowed */

/* Returns the number of the client's open connections, or 0 if `client` is NULL. */
int td_client_connections(const struct td_client *client);

/* Frees the clients that have been unreferenced since before `since_ns`. Call periodically. */
void td_clients_trim(struct td_clients *clients, int64_t now_ns, int64_t since_ns);

/* Returns the number of clients in the table. */
int td_clients_count(struct td_clients *clients);

#endif
