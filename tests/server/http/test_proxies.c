#include "server/http/proxies.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string.h>

static struct td_proxies *proxies_new(const char *trusted)
{
    char message[512];
    struct td_proxies *proxies = td_proxies_new(trusted, message, sizeof message);
    ck_assert_msg(proxies != NULL, "%s", message);
    return proxies;
}

static bool is_trusted(const char *trusted, const char *peer)
{
    struct td_proxies *proxies = proxies_new(trusted);
    struct sockaddr_in ipv4 = { .sin_family = AF_INET };
    struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6 };
    const bool is_ipv4 = inet_pton(AF_INET, peer, &ipv4.sin_addr) == 1;
    if (!is_ipv4)
        ck_assert_int_eq(inet_pton(AF_INET6, peer, &ipv6.sin6_addr), 1);
    const struct td_peer found = td_peer_of(-1, is_ipv4 ? (void *)&ipv4 : (void *)&ipv6);
    const bool trust = td_proxies_trust(proxies, &found);
    td_proxies_free(proxies);
    return trust;
}

static bool is_trusted_user(const char *trusted, uid_t user)
{
    struct td_proxies *proxies = proxies_new(trusted);
    const struct td_peer peer = { .kind = TD_PEER_USER, .user = user };
    const bool trust = td_proxies_trust(proxies, &peer);
    td_proxies_free(proxies);
    return trust;
}

/* The client in the header, or "none". */
static const char *client_in(const char *trusted, const char *forwarded_for)
{
    static char text[INET6_ADDRSTRLEN];
    struct td_forwarded client;
    struct td_proxies *proxies = proxies_new(trusted);
    const bool found = td_proxies_client(proxies, forwarded_for, &client);
    td_proxies_free(proxies);
    ck_assert_int_eq(found, client.known);
    return found ? inet_ntop(AF_INET6, client.address.bytes, text, sizeof text) : "none";
}

TD_TEST(addresses_and_prefixes_are_trusted)
{
    ck_assert(is_trusted("192.0.2.1", "192.0.2.1"));
    ck_assert(!is_trusted("192.0.2.1", "192.0.2.2"));
    ck_assert(is_trusted("192.0.2.1", "::ffff:192.0.2.1"));
    ck_assert(is_trusted("192.0.2.1/32", "192.0.2.1"));
    ck_assert(!is_trusted("192.0.2.1/32", "192.0.2.0"));
    ck_assert(is_trusted("2001:db8::1/128", "2001:db8::1"));
    ck_assert(!is_trusted("2001:db8::1/128", "2001:db8::"));
    ck_assert(is_trusted("10.0.0.0/8", "10.255.255.255"));
    ck_assert(!is_trusted("10.0.0.0/8", "11.0.0.0"));
    ck_assert(is_trusted("192.0.2.128/25", "192.0.2.128"));
    ck_assert(!is_trusted("192.0.2.128/25", "192.0.2.127"));
    ck_assert(is_trusted("0.0.0.0/0", "198.51.100.7"));
    ck_assert(!is_trusted("0.0.0.0/0", "2001:db8::1"));
    ck_assert(is_trusted("::/0", "198.51.100.7"));
    ck_assert(is_trusted("2001:db8::/33", "2001:db8:7fff::1"));
    ck_assert(!is_trusted("2001:db8::/33", "2001:db8:8000::1"));
    ck_assert(is_trusted(" 192.0.2.1 ,, 2001:db8::1", "2001:db8::1"));
    ck_assert(!is_trusted("", "127.0.0.1"));
}

TD_TEST(users_are_trusted_on_unix_sockets)
{
    ck_assert(is_trusted_user("uid:33", 33));
    ck_assert(!is_trusted_user("uid:33", 34));
    ck_assert(is_trusted_user("10.0.0.0/8, uid:0", 0));
    ck_assert(is_trusted_user("uid:4294967294", 4294967294u));
    ck_assert(!is_trusted_user("::/0", 0)); /* all addresses, but no users */
    ck_assert(!is_trusted("uid:0", "::"));
    ck_assert(!is_trusted_user("", 0));
    const struct td_peer unknown = { .kind = TD_PEER_UNKNOWN };
    struct td_proxies *proxies = proxies_new("::/0, uid:0");
    ck_assert(!td_proxies_trust(proxies, &unknown));
    td_proxies_free(proxies);
    ck_assert_str_eq(client_in("uid:33", "10.0.0.1"), "::ffff:10.0.0.1");
}

TD_TEST(a_list_with_anything_else_is_refused)
{
    static const char *const lists[] = { "localhost",      "192.0.2",        "192.0.2.1/33",
                                         "192.0.2.1/",     "192.0.2.1/-1",   "192.0.2.1/8x",
                                         "2001:db8::/129", "[2001:db8::1]",  "10.0.0.1,evil",
                                         "192.0.2.1/ 8",   "192.0.2.1:8080", "/8",
                                         "uid:",           "uid:-1",         "uid:33x",
                                         "uid: 33",        "uid:www-data",   "uid:4294967295",
                                         "uid:4294967296", "uid:33/8",       "UID:33",
                                         "uid:00000000033" };
    char message[512], longest[400];
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        ck_assert_msg(!td_proxies_new(lists[i], message, sizeof message), "%s", lists[i]);
        ck_assert_ptr_nonnull(strstr(message, "trusted-proxy: "));
    }
    memset(longest, '1', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert(!td_proxies_new(longest, message, sizeof message));
}

TD_TEST(the_client_is_the_last_address_that_is_no_trusted_proxy)
{
    ck_assert_str_eq(client_in("10.0.0.0/8", "192.0.2.1"), "::ffff:192.0.2.1");
    ck_assert_str_eq(client_in("10.0.0.0/8", "198.51.100.1, 192.0.2.1, 10.1.1.1,10.0.0.2"),
                     "::ffff:192.0.2.1");
    ck_assert_str_eq(client_in("10.0.0.0/8", "192.0.2.1:50000"), "::ffff:192.0.2.1");
    ck_assert_str_eq(client_in("10.0.0.0/8", "2001:db8:1:2:3::4"), "2001:db8:1:2:3::4");
    ck_assert_str_eq(client_in("10.0.0.0/8", "[2001:db8:1:2:3::4]:443 , 10.0.0.1"),
                     "2001:db8:1:2:3::4");
}

TD_TEST(without_such_an_address_there_is_no_client)
{
    ck_assert_str_eq(client_in("10.0.0.0/8", ""), "none");
    ck_assert_str_eq(client_in("10.0.0.0/8", "10.0.0.1, 10.0.0.2"), "none");
    /* What a proxy appended is not an address: nothing to its left is believed. */
    ck_assert_str_eq(client_in("10.0.0.0/8", "192.0.2.1, unknown"), "none");
    ck_assert_str_eq(client_in("10.0.0.0/8", "192.0.2.1,"), "none");
    ck_assert_str_eq(client_in("10.0.0.0/8", "192.0.2.1, [2001:db8::1"), "none");
    ck_assert_str_eq(client_in("10.0.0.0/8", ","), "none");
    for (size_t length = 50; length < 60; length++) { /* about as long as an address may be */
        char text[60];
        memset(text, '1', length);
        text[length] = '\0';
        ck_assert_str_eq(client_in("10.0.0.0/8", text), "none");
    }
    ck_assert_str_eq(client_in("10.0.0.0/8", "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa"
                                             ":bbbb:cccc:dddd:eeee:ffff"),
                     "none");
}
