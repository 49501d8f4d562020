#include "server/clients/clients.h"

#include <arpa/inet.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_PER_BUCKET = 16, BUCKETS = TD_CLIENTS_KEPT / KEPT_PER_BUCKET };

struct td_clients {
    uint64_t seed;
    pthread_mutex_t mutex; /* guards the following members */
    int count;
    struct td_client *buckets[BUCKETS];
};

struct td_clients *td_clients_new(uint64_t seed)
{
    struct td_clients *clients = calloc(1, sizeof *clients);
    if (!clients)
        return NULL;
    clients->seed = seed;
    pthread_mutex_init(&clients->mutex, NULL);
    return clients;
}

void td_clients_free(struct td_clients *clients)
{
    if (!clients)
        return;
    for (int i = 0; i < BUCKETS; i++)
        while (clients->buckets[i]) {
            struct td_client *next = clients->buckets[i]->next;
            free(clients->buckets[i]);
            clients->buckets[i] = next;
        }
    pthread_mutex_destroy(&clients->mutex);
    free(clients);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

struct td_address td_address_map_ipv4(const struct in_addr *ipv4)
{
    struct td_address address;
    memcpy(address.bytes, mapped_prefix, sizeof mapped_prefix);
    memcpy(address.bytes + sizeof mapped_prefix, ipv4, sizeof *ipv4);
    return address;
}

bool td_address_of(const struct sockaddr *peer, struct td_address *address)
{
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    if (peer->sa_family == AF_INET) {
        memcpy(&ipv4, peer, sizeof ipv4);
        *address = td_address_map_ipv4(&ipv4.sin_addr);
        return true;
    }
    if (peer->sa_family != AF_INET6)
        return false;
    memcpy(&ipv6, peer, sizeof ipv6);
    memcpy(address->bytes, &ipv6.sin6_addr, sizeof address->bytes);
    return true;
}

static bool is_ipv4(const struct td_address *address)
{
    return memcmp(address->bytes, mapped_prefix, sizeof mapped_prefix) == 0;
}

void td_address_print(const struct td_address *address, char *text, size_t size)
{
    const bool ipv4 = is_ipv4(address);
    text[0] = '\0';
    (void)inet_ntop(ipv4 ? AF_INET : AF_INET6, address->bytes + (ipv4 ? sizeof mapped_prefix : 0),
                    text, (socklen_t)size);
}

struct td_client_key td_client_key_of_address(const struct td_address *address)
{
    enum { PREFIX_BYTES = 8 };
    struct td_client_key key = { .kind = TD_CLIENT_ADDRESS };
    memcpy(key.bytes, address->bytes, is_ipv4(address) ? sizeof key.bytes : PREFIX_BYTES);
    return key;
}

struct td_client_key td_client_key_of_user(uid_t user)
{
    struct td_client_key key = { .kind = TD_CLIENT_USER };
    memcpy(key.bytes, &user, sizeof user);
    return key;
}

struct td_client_key td_client_key_of_token(const uint8_t digest_part[16])
{
    struct td_client_key key = { .kind = TD_CLIENT_TOKEN };
    memcpy(key.bytes, digest_part, sizeof key.bytes);
    return key;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Returns the bucket of the key. Clients can choose their addresses but do not know the seed, so
 * they cannot fill one bucket. The last round mixes all bits into the low bits, because the IPv4
 * addresses of a network differ in only a few bits. */
static struct td_client **bucket_of(struct td_clients *clients, const struct td_client_key *key)
{
    uint64_t halves[2], hash = clients->seed;
    memcpy(halves, key->bytes, sizeof halves);
    for (int i = 0; i < 2; i++) {
        hash = (hash ^ halves[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    hash *= UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 32;
    return &clients->buckets[hash % BUCKETS];
}

/* Removes the oldest unreferenced client from a full bucket. Without this limit, an attacker with
 * many addresses could make the table large and every search slow. The caller holds the mutex. */
static void make_room(struct td_clients *clients, struct td_client **bucket)
{
    struct td_client **oldest = NULL;
    int length = 0;
    for (struct td_client **link = bucket; *link; link = &(*link)->next, length++)
        if (atomic_load_explicit(&(*link)->references, memory_order_acquire) == 0)
            oldest = link;
    if (length < KEPT_PER_BUCKET || !oldest)
        return;
    struct td_client *client = *oldest;
    *oldest = client->next;
    clients->count--;
    free(client);
}

struct td_client *td_clients_find(struct td_clients *clients, const struct td_client_key *key)
{
    pthread_mutex_lock(&clients->mutex);
    struct td_client **bucket = bucket_of(clients, key);
    struct td_client *client = *bucket;
    while (client && memcmp(&client->key, key, sizeof *key) != 0)
        client = client->next;
    if (!client)
        make_room(clients, bucket);
    if (!client && (client = calloc(1, sizeof *client))) {
        client->key = *key;
        client->next = *bucket;
        *bucket = client;
        clients->count++;
    }
    if (client) {
        (void)td_client_ref(client);
        client->unused_since_ns = 0;
    }
    pthread_mutex_unlock(&clients->mutex);
    return client;
}

struct td_client *td_client_ref(struct td_client *client)
{
    atomic_fetch_add_explicit(&client->references, 1, memory_order_relaxed);
    return client;
}

/* Release order lets the thread that frees the client see everything written to it. */
void td_client_unref(struct td_client *client)
{
    if (client)
        atomic_fetch_sub_explicit(&client->references, 1, memory_order_release);
}

int td_client_connections(const struct td_client *client)
{
    return client ? atomic_load_explicit(&client->connections, memory_order_relaxed) : 0;
}

/* True if the client has had no reference since `since_ns`. Only the table can add a reference to
 * an unreferenced client, and the caller holds the mutex. */
static bool is_unused(struct td_client *client, int64_t now_ns, int64_t since_ns)
{
    if (atomic_load_explicit(&client->references, memory_order_acquire) > 0) {
        client->unused_since_ns = 0;
        return false;
    }
    if (client->unused_since_ns == 0)
        client->unused_since_ns = now_ns;
    return client->unused_since_ns <= since_ns;
}

void td_clients_trim(struct td_clients *clients, int64_t now_ns, int64_t since_ns)
{
    pthread_mutex_lock(&clients->mutex);
    for (int i = 0; i < BUCKETS && clients->count > 0; i++) {
        struct td_client **link = &clients->buckets[i];
        while (*link) {
            struct td_client *client = *link;
            if (!is_unused(client, now_ns, since_ns)) {
                link = &client->next;
                continue;
            }
            *link = client->next;
            clients->count--;
            free(client);
        }
    }
    pthread_mutex_unlock(&clients->mutex);
}

int td_clients_count(struct td_clients *clients)
{
    pthread_mutex_lock(&clients->mutex);
    const int count = clients->count;
    pthread_mutex_unlock(&clients->mutex);
    return count;
}
