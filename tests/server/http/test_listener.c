#include "server/http/listener.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct td_listener_address address_of(const char *host)
{
    struct td_listener_address bound = { .length = sizeof(struct sockaddr_in6) };
    struct sockaddr_in *ipv4 = (void *)&bound.address;
    struct sockaddr_in6 *ipv6 = (void *)&bound.address;
    if (strchr(host, ':')) {
        ipv6->sin6_family = AF_INET6;
        ipv6->sin6_port = htons(80);
        ck_assert_int_eq(inet_pton(AF_INET6, host, &ipv6->sin6_addr), 1);
    } else {
        bound.length = sizeof *ipv4;
        ipv4->sin_family = AF_INET;
        ipv4->sin_port = htons(80);
        ck_assert_int_eq(inet_pton(AF_INET, host, &ipv4->sin_addr), 1);
    }
    return bound;
}

static const struct {
    const char *host, *printed;
    bool loopback;
} addresses[] = {
    { "127.0.0.1", "127.0.0.1:80", true },
    { "127.255.255.254", "127.255.255.254:80", true },
    { "126.0.0.1", "126.0.0.1:80", false },
    { "128.0.0.127", "128.0.0.127:80", false },
    { "0.0.0.0", "0.0.0.0:80", false },
    { "::1", "[::1]:80", true },
    { "::", "[::]:80", false },
    { "::ffff:127.0.0.1", "[::ffff:127.0.0.1]:80", true },
    { "::ffff:126.0.0.127", "[::ffff:126.0.0.127]:80", false },
    { "2001:db8::7f00:1", "[2001:db8::7f00:1]:80", false },
};

TD_TEST_EACH(an_address_is_printed_as_in_a_url_and_may_be_loopback, addresses)
{
    const struct td_listener_address bound = address_of(addresses[_i].host);
    char text[256];
    td_listener_print(&bound, text, sizeof text);
    ck_assert_str_eq(text, addresses[_i].printed);
    ck_assert_msg(td_listener_is_loopback(&bound) == addresses[_i].loopback, "%s", text);
}

TD_TEST(a_socket_listens_at_its_address_and_is_not_inherited_by_programs)
{
    struct td_listener_address bound;
    struct sockaddr_in *ipv4 = (void *)&bound.address;
    const char *why = NULL;
    char address[32];
    int fd = td_listener_open("127.0.0.1:0", &why);
    ck_assert_int_ge(fd, 0);
    ck_assert(td_listener_find(fd, &bound, &why));
    ck_assert_uint_eq(ntohl(ipv4->sin_addr.s_addr), INADDR_LOOPBACK);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(ipv4->sin_port));
    ck_assert_int_eq(td_listener_open(address, &why), -1);
    ck_assert_str_eq(why, "Address already in use");
    close(fd);
}

/* A socket at an address that another one had just before; -1 (why set) if it cannot be opened. */
static int open_again(const char **why)
{
    struct td_listener_address bound;
    struct sockaddr_in *ipv4 = (void *)&bound.address;
    char address[32];
    const int fd = td_listener_open("127.0.0.1:0", why);
    ck_assert(td_listener_find(fd, &bound, why));
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&bound.address, bound.length), 0);
    close(accept(fd, NULL, NULL)); /* the end that closes first is remembered for a minute */
    close(client);
    close(fd);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(ipv4->sin_port));
    return td_listener_open(address, why);
}

TD_TEST(an_address_can_be_used_again_while_old_connections_end)
{
    enum { TRIES = 100 }; /* another process may take the port in between */
    const char *why = NULL;
    int fd = -1;
    for (int i = 0; i < TRIES && fd < 0; i++)
        fd = open_again(&why);
    ck_assert_msg(fd >= 0, "%s", why);
    close(fd);
}

static struct pollfd connect_to(const struct td_listener_address *bound)
{
    const struct pollfd client = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0),
                                   .events = POLLOUT };
    (void)connect(client.fd, (const struct sockaddr *)&bound->address, bound->length);
    return client;
}

TD_TEST(many_connections_may_wait_to_be_accepted)
{
    enum { WAITING = 100 };
    struct td_listener_address bound;
    const char *why = NULL;
    const int fd = td_listener_open("127.0.0.1:0", &why);
    ck_assert(td_listener_find(fd, &bound, &why));
    for (int i = 0; i < WAITING; i++) {
        struct pollfd client = connect_to(&bound);
        ck_assert_int_eq(poll(&client, 1, -1), 1);
        ck_assert_int_eq(client.revents, POLLOUT);
    }
    close(fd);
}

/* Whether the client has sent its first segment again, a second later, for want of an answer. */
static bool asks_again(int client)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    ck_assert_int_eq(getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_total_retrans > 0;
}

TD_TEST(a_socket_that_is_shut_has_the_connections_before_and_ignores_those_after)
{
    struct td_listener_address bound;
    const char *why = NULL;
    const int fd = td_listener_open("127.0.0.1:0", &why);
    ck_assert(td_listener_find(fd, &bound, &why));
    struct pollfd before = connect_to(&bound);
    ck_assert_int_eq(poll(&before, 1, -1), 1);
    td_listener_shut(&(struct td_listener){ .fd = fd, .bound = bound });
    struct pollfd after = connect_to(&bound);
    EVENTUALLY(asks_again(after.fd));
    ck_assert_int_eq(poll(&after, 1, 0), 0); /* neither connected nor refused */
    const int accepted = accept(fd, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    ck_assert_int_eq(send(before.fd, "x", 1, MSG_NOSIGNAL), 1);
    char byte = 0;
    ck_assert_int_eq(recv(accepted, &byte, 1, 0), 1);
    ck_assert_int_eq(byte, 'x');
    close(accepted);
    close(fd);
}

/* ---- all addresses --------------------------------------------------------------------------- */

/* HOST:PORT with the port of a socket. */
static const char *at_port_of(const struct td_listener *listener, const char *host)
{
    static char address[64];
    const struct sockaddr_in *ipv4 = (const void *)&listener->bound.address;
    snprintf(address, sizeof address, "%s:%u", host, ntohs(ipv4->sin_port));
    return address;
}

TD_TEST(sockets_of_several_addresses_listen_until_all_are_closed)
{
    struct td_listeners listeners = { .n = 0 };
    const char *why;
    int clients[2];
    ck_assert(td_listeners_add(&listeners, "127.0.0.1:0", td_listener_open, &why));
    ck_assert(td_listeners_add(&listeners, "127.0.0.2:0", td_listener_open, &why));
    ck_assert_int_eq(listeners.n, 2);
    for (int i = 0; i < 2; i++) {
        const struct td_listener_address *bound = &listeners.all[i].bound;
        const struct sockaddr_in *ipv4 = (const void *)&bound->address;
        ck_assert_uint_eq(ntohl(ipv4->sin_addr.s_addr), INADDR_LOOPBACK + (in_addr_t)i);
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(connect(clients[i], (const void *)&bound->address, bound->length), 0);
        close(clients[i]);
    }
    const int fds[] = { listeners.all[0].fd, listeners.all[1].fd };
    td_listeners_close(&listeners);
    ck_assert_int_eq(listeners.n, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fcntl(fds[i], F_GETFD), -1);
    td_listeners_close(&listeners); /* again */
}

/* Addresses after 127.0.0.1 with its port. */
static const struct {
    const char *host;
    bool taken;
} same_ports[] = { { "127.0.0.1", true }, { "0.0.0.0", true }, { "127.0.0.2", false } };

TD_TEST_EACH(an_address_that_another_one_includes_is_refused_with_the_reason, same_ports)
{
    struct td_listeners listeners = { .n = 0 };
    const char *why = NULL;
    ck_assert(td_listeners_add(&listeners, "127.0.0.1:0", td_listener_open, &why));
    const char *address = at_port_of(&listeners.all[0], same_ports[_i].host);
    const bool added = td_listeners_add(&listeners, address, td_listener_open, &why);
    ck_assert_msg(added != same_ports[_i].taken, "%s", address);
    ck_assert_int_eq(listeners.n, added ? 2 : 1);
    if (!added)
        ck_assert_msg(strstr(why, "in use, possibly by another address of this daemon (--listen") !=
                          NULL,
                      "%s", why);
    td_listeners_close(&listeners);
}

TD_TEST(an_address_that_another_process_has_is_refused_without_that_reason)
{
    struct td_listeners listeners = { .n = 0 }, other = { .n = 0 };
    const char *why = NULL;
    ck_assert(td_listeners_add(&other, "127.0.0.1:0", td_listener_open, &why));
    ck_assert(td_listeners_add(&listeners, "127.0.0.1:0", td_listener_open, &why));
    const char *address = at_port_of(&other.all[0], "127.0.0.1");
    ck_assert(!td_listeners_add(&listeners, address, td_listener_open, &why));
    ck_assert_str_eq(why, "Address already in use");
    ck_assert_int_eq(listeners.n, 1);
    td_listeners_close(&listeners);
    td_listeners_close(&other);
}

TD_TEST(a_socket_without_an_address_is_not_taken)
{
    struct td_listeners listeners = { .n = 0 };
    const char *why = NULL;
    int pipes[2];
    ck_assert_int_eq(pipe(pipes), 0);
    ck_assert(!td_listeners_take(&listeners, pipes[0], &why));
    ck_assert_str_eq(why, "Socket operation on non-socket");
    ck_assert_int_eq(fcntl(pipes[0], F_GETFD), -1);
    close(pipes[1]);
}

/* ---- sockets of a service manager ------------------------------------------------------------ */

enum { FIRST = 3, MOST_PASSED = 2 };

/* Takes the descriptors before Check does for its messages, which would go to the sockets. */
__attribute__((constructor)) static void keep_descriptors(void)
{
    for (int fd = FIRST; fd < FIRST + MOST_PASSED; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)dup2(STDERR_FILENO, fd);
}

/* Blocking listening sockets are the descriptors from 3 on, and the variables are for this
 * process. */
static void pass_sockets(int count)
{
    char number[16];
    const char *why;
    for (int i = 0; i < count; i++) {
        const int fd = td_listener_open("127.0.0.1:0", &why);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(dup2(fd, FIRST + i), FIRST + i);
        if (fd != FIRST + i)
            close(fd);
        ck_assert_int_eq(fcntl(FIRST + i, F_SETFL, fcntl(FIRST + i, F_GETFL) & ~O_NONBLOCK), 0);
        ck_assert_int_eq(fcntl(FIRST + i, F_SETFD, 0), 0);
    }
    snprintf(number, sizeof number, "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    snprintf(number, sizeof number, "%d", count);
    setenv("LISTEN_FDS", number, 1);
    setenv("LISTEN_FDNAMES", "http", 1);
}

static struct td_listeners inherited;
static char message[TD_CONFIG_MESSAGE];

TD_TEST(sockets_that_were_passed_are_used_by_this_process_only)
{
    pass_sockets(MOST_PASSED);
    ck_assert(td_listeners_inherit(&inherited, message));
    ck_assert_int_eq(inherited.n, MOST_PASSED);
    for (int i = 0; i < MOST_PASSED; i++) {
        ck_assert_int_eq(inherited.all[i].fd, FIRST + i);
        ck_assert_int_eq(inherited.all[i].bound.address.ss_family, AF_INET);
        ck_assert_int_eq(fcntl(FIRST + i, F_GETFD), FD_CLOEXEC);
        ck_assert_int_ne(fcntl(FIRST + i, F_GETFL) & O_NONBLOCK, 0);
    }
    ck_assert_ptr_null(getenv("LISTEN_PID"));
    ck_assert_ptr_null(getenv("LISTEN_FDS"));
    ck_assert_ptr_null(getenv("LISTEN_FDNAMES"));
    inherited.n = 0;
    ck_assert(td_listeners_inherit(&inherited, message)); /* once */
    ck_assert_int_eq(inherited.n, 0);
}

static const struct {
    const char *pid, *count; /* NULL: not set; a pid of "" is this process's */
    const char *why;         /* part of the refusal; NULL: there is no socket */
} environments[] = {
    { NULL, NULL, NULL },
    { "1", "1", NULL },
    { NULL, "1", NULL },
    { "", NULL, NULL },
    { "", "0", NULL },
    { "", "17", "a number of listening sockets from 1 to 16" },
    { "", "-1", "a number of listening sockets from 1 to 16" },
    { "", "1x", "a number of listening sockets from 1 to 16" },
    { "", "99999999999999999999", "a number of listening sockets from 1 to 16" },
};

TD_TEST_EACH(other_variables_pass_no_socket_or_are_refused, environments)
{
    pass_sockets(1);
    if (!environments[_i].pid || environments[_i].pid[0])
        unsetenv("LISTEN_PID");
    if (environments[_i].pid && environments[_i].pid[0])
        setenv("LISTEN_PID", environments[_i].pid, 1);
    unsetenv("LISTEN_FDS");
    if (environments[_i].count)
        setenv("LISTEN_FDS", environments[_i].count, 1);
    ck_assert(td_listeners_inherit(&inherited, message) == !environments[_i].why);
    ck_assert_int_eq(inherited.n, 0);
    if (environments[_i].why)
        ck_assert_msg(strstr(message, environments[_i].why) != NULL, "%s", message);
}

TD_TEST(a_missing_descriptor_is_refused_and_named)
{
    pass_sockets(MOST_PASSED);
    close(FIRST + 1);
    ck_assert(!td_listeners_inherit(&inherited, message));
    ck_assert_str_eq(message, "LISTEN_FDS is 2, but descriptor 4 is not open");
}
