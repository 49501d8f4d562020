#include "server/clients/clients.h"
#include "server/clients/sender.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static struct td_client_key key_of(const char *address)
{
    struct td_address found;
    struct sockaddr_in ipv4 = { .sin_family = AF_INET };
    struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6 };
    const bool is_ipv4 = inet_pton(AF_INET, address, &ipv4.sin_addr) == 1;
    if (!is_ipv4)
        ck_assert_int_eq(inet_pton(AF_INET6, address, &ipv6.sin6_addr), 1);
    ck_assert(td_address_of(is_ipv4 ? (void *)&ipv4 : (void *)&ipv6, &found));
    return td_client_key_of_address(&found);
}

static bool is_one_client(const char *one, const char *other)
{
    const struct td_client_key a = key_of(one), b = key_of(other);
    return memcmp(&a, &b, sizeof a) == 0;
}

TD_TEST(an_ipv4_address_is_a_client)
{
    ck_assert(is_one_client("192.0.2.1", "192.0.2.1"));
    ck_assert(!is_one_client("192.0.2.1", "192.0.2.2"));
    ck_assert(is_one_client("192.0.2.1", "::ffff:192.0.2.1")); /* on a listener for both families */
    ck_assert(!is_one_client("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
}

TD_TEST(the_first_64_bits_of_an_ipv6_address_are_a_client)
{
    ck_assert(is_one_client("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"));
    ck_assert(!is_one_client("2001:db8:1:2::1", "2001:db8:1:3::1"));
    ck_assert(!is_one_client("::1", "127.0.0.1"));
}

TD_TEST(a_user_is_a_client_and_neither_an_address_nor_a_token)
{
    const uint8_t digest[16] = { 1 };
    const struct td_client_key keys[] = { td_client_key_of_user(1), td_client_key_of_user(2),
                                          td_client_key_of_user(UINT32_MAX - 1),
                                          key_of("100::"), /* the bytes of user 1 */
                                          td_client_key_of_token(digest) };
    const struct td_client_key again = td_client_key_of_user(1);
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        ck_assert_msg((memcmp(&keys[i], &again, sizeof again) == 0) == (i == 0), "%zu", i);
}

TD_TEST(the_peer_of_a_unix_socket_is_the_user_that_connected)
{
    const struct sockaddr local = { .sa_family = AF_UNIX };
    struct td_sender sender = { .token = NULL };
    struct td_sender_text text;
    struct td_client_key key;
    char expected[32];
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    sender.peer = td_peer_of(ends[0], &local);
    ck_assert_int_eq(sender.peer.kind, TD_PEER_USER);
    ck_assert_uint_eq(sender.peer.user, geteuid());
    ck_assert(td_peer_key(&sender.peer, &key));
    const struct td_client_key own = td_client_key_of_user(geteuid());
    ck_assert_mem_eq(&key, &own, sizeof key);
    td_sender_print(&sender, &text);
    snprintf(expected, sizeof expected, "uid:%u", geteuid());
    ck_assert_str_eq(text.peer, expected);
    close(ends[0]);
    close(ends[1]);
}

TD_TEST(a_peer_that_the_kernel_does_not_know_is_no_client)
{
    const struct sockaddr families[] = { { .sa_family = AF_UNIX }, { .sa_family = AF_UNSPEC } };
    struct td_client_key key;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct td_sender sender = { .peer = td_peer_of(-1, &families[i]) };
        struct td_sender_text text;
        ck_assert_int_eq(sender.peer.kind, TD_PEER_UNKNOWN);
        ck_assert(!td_peer_key(&sender.peer, &key));
        td_sender_print(&sender, &text);
        ck_assert_str_eq(text.peer, "");
    }
}

TD_TEST(a_key_finds_the_same_client_each_time)
{
    enum { CLIENTS = 20000 }; /* more than there are buckets */
    struct td_clients *clients = td_clients_new(1);
    struct td_client *found[CLIENTS];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < CLIENTS; i++) {
            char address[32];
            snprintf(address, sizeof address, "10.0.%d.%d", i / 250, i % 250);
            const struct td_client_key key = key_of(address);
            struct td_client *client = td_clients_find(clients, &key);
            ck_assert(round == 0 || client == found[i]);
            found[i] = client;
        }
    ck_assert_int_eq(td_clients_count(clients), CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_int_eq(atomic_load(&found[i]->references), 2);
    td_clients_free(clients);
}

static const char *const networks[] = { "10.0.%d.%d", "192.168.%d.%d",     "10.%d.0.%d",
                                        "%d.%d.0.1",  "2001:db8:%x:%x::1", "%x:%x::1" };

TD_TEST_EACH(the_addresses_of_a_network_are_spread, networks)
{
    enum { CLIENTS = 20000 }; /* five for each hash */
    struct td_clients *clients = td_clients_new((uint64_t)_i);
    for (int i = 0; i < CLIENTS; i++) {
        char address[40];
        snprintf(address, sizeof address, networks[_i], i / 100, i % 100);
        const struct td_client_key key = key_of(address);
        struct td_client *client = td_clients_find(clients, &key);
        ck_assert_ptr_nonnull(client);
        td_client_unref(client); /* only some without a reference are kept for each hash */
    }
    ck_assert_int_eq(td_clients_count(clients), CLIENTS);
    td_clients_free(clients);
}

TD_TEST(a_client_is_freed_some_time_after_its_last_reference)
{
    struct td_clients *clients = td_clients_new(1);
    const struct td_client_key key = key_of("192.0.2.1");
    struct td_client *client = td_clients_find(clients, &key);
    td_clients_trim(clients, 10 * SECOND, INT64_MAX);
    ck_assert_int_eq(td_clients_count(clients), 1); /* in use */
    td_client_unref(client);
    td_clients_trim(clients, 20 * SECOND, 10 * SECOND);
    ck_assert_int_eq(td_clients_count(clients), 1); /* unused since 20 s */
    td_clients_trim(clients, 29 * SECOND, 19 * SECOND);
    ck_assert_int_eq(td_clients_count(clients), 1);
    td_clients_trim(clients, 30 * SECOND, 20 * SECOND);
    ck_assert_int_eq(td_clients_count(clients), 0);
    td_clients_free(clients);
}

TD_TEST(a_client_that_returns_in_time_is_kept)
{
    struct td_clients *clients = td_clients_new(1);
    const struct td_client_key key = key_of("192.0.2.1");
    td_client_unref(td_clients_find(clients, &key));
    td_clients_trim(clients, 20 * SECOND, 10 * SECOND);
    td_client_unref(td_clients_find(clients, &key));
    td_clients_trim(clients, 31 * SECOND, 21 * SECOND);
    ck_assert_int_eq(td_clients_count(clients), 1); /* unused since 31 s */
    td_clients_free(clients);
}

TD_TEST(of_many_clients_without_a_reference_only_some_are_kept)
{
    struct td_clients *clients = td_clients_new(1);
    const struct td_client_key held_key = key_of("192.0.2.1");
    struct td_client *held = td_clients_find(clients, &held_key);
    for (uint32_t i = 0; i < 2 * TD_CLIENTS_KEPT; i++) {
        struct td_client_key key = { .bytes = { 0x20, 0x01 } };
        memcpy(key.bytes + 4, &i, sizeof i);
        td_client_unref(td_clients_find(clients, &key));
    }
    ck_assert_int_gt(td_clients_count(clients), TD_CLIENTS_KEPT / 2);
    ck_assert_int_le(td_clients_count(clients), TD_CLIENTS_KEPT + 1);
    ck_assert_ptr_eq(td_clients_find(clients, &held_key), held);
    td_clients_free(clients);
}

static void *find_and_release(void *context)
{
    struct td_clients *clients = context;
    for (int i = 0; i < 20000; i++) {
        const struct td_client_key key = { .bytes = { (uint8_t)(i % 7) } };
        struct td_client *client = td_clients_find(clients, &key);
        atomic_fetch_add(&client->connections, 1);
        atomic_fetch_sub(&client->connections, 1);
        td_client_unref(client);
    }
    return NULL;
}

TD_TEST(no_client_in_use_is_freed_by_another_thread)
{
    struct td_clients *clients = td_clients_new(1);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, find_and_release, clients);
    for (int i = 1; i <= 2000; i++)
        td_clients_trim(clients, i, INT64_MAX);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    td_clients_trim(clients, 1, INT64_MAX);
    ck_assert_int_eq(td_clients_count(clients), 0);
    td_clients_free(clients);
}
