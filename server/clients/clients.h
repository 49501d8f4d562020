/* clients.h - the clients that requests come from.
 *
 * A client is an address: an IPv4 address, or the first 64 bits of an IPv6 address, since a site or
 * a machine owns all addresses below such a prefix. Requests with a token are of the token as a
 * client, wherever they come from; connections are always of an address. Limits and turns are by
 * client. What logs and spans say about the sender of a request is in sender.h.
 *
 * Ownership  A client is shared: each connection and each call holds a reference. Without
 *            references it is kept for some seconds, so that what is known of it outlasts a
 *            reconnect, but at most TD_CLIENTS_KEPT are.
 * Threads    Any. One mutex guards the table; the members of a client are atomic. */
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

/* How many clients without references are kept at most. */
enum { TD_CLIENTS_KEPT = 65536 };

/* An IPv6 address, or an IPv4 address mapped to IPv6. */
struct td_address {
    uint8_t bytes[16];
};

enum td_client_kind { TD_CLIENT_ADDRESS, TD_CLIENT_TOKEN };

/* Of an address: an IPv6 prefix of 64 bits with zeros after it, or an IPv4 address mapped to IPv6.
 * Of a token: 128 bits of its digest. Not to be printed. */
struct td_client_key {
    uint8_t kind; /* enum td_client_kind; a byte, so that there is no padding to compare */
    uint8_t bytes[16];
};

struct td_client {
    struct td_client_key key;
    atomic_int references;
    atomic_int connections; /* that are open, */
    atomic_int restricted;  /* and of these, restricted ones that were not ended */
    /* Of its queued calls, in the queue of the workers and in that of the disk threads. */
    struct td_job_source source, disk_source;
    struct td_refused refused;
    atomic_int_fast64_t requests;      /* of its calls, queued or running */
    atomic_uint_fast64_t memory_bytes; /* that its calls in progress are charged for */

    /* Guarded by the table's mutex. */
    struct td_client *next;
    int64_t unused_since_ns; /* when it was first seen without a reference; 0: in use */
};

/* NULL without memory. The seed decides the order of the hash table: clients must not know it. */
struct td_clients *td_clients_new(uint64_t seed);
void td_clients_free(struct td_clients *clients); /* after the last reference; NULL is fine */

/* The address of an IPv4 or IPv6 peer. False for another family. */
bool td_address_of(const struct sockaddr *peer, struct td_address *address);
struct td_address td_address_map_ipv4(const struct in_addr *ipv4);

/* "192.0.2.1", "2001:db8::1"; at most INET6_ADDRSTRLEN bytes. */
void td_address_print(const struct td_address *address, char *text, size_t size);

/* The key of an address, of a peer's (false as td_address_of), and of a token's digest. */
struct td_client_key td_client_key_of_address(const struct td_address *address);
struct td_client_key td_client_key_of_token(const uint8_t digest_part[16]);
bool td_client_key_of(const struct sockaddr *peer, struct td_client_key *key);

/* The client with this key, new if it is not in the table; the caller gets a reference. NULL
 * without memory. */
struct td_client *td_clients_find(struct td_clients *clients, const struct td_client_key *key);

struct td_client *td_client_ref(struct td_client *client);
void td_client_unref(struct td_client *client); /* NULL is fine */

/* How many connections it has open; 0 if it is NULL. */
int td_client_connections(const struct td_client *client);

/* Frees the clients that have been without a reference since before `since_ns`. To be called
 * periodically. */
void td_clients_trim(struct td_clients *clients, int64_t now_ns, int64_t since_ns);

/* How many are in the table. */
int td_clients_count(struct td_clients *clients);

#endif
