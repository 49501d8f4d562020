#include "server/http/linger.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Both ends of a TCP connection: MSG_TRUNC has another meaning for a socketpair. */
struct pair {
    int ours, theirs;
};

static struct pair pair_open(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    struct pair pair;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    pair.theirs = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(pair.theirs, (struct sockaddr *)&address, length), 0);
    pair.ours = accept(listener, NULL, NULL);
    ck_assert_int_ge(pair.ours, 0);
    close(listener);
    return pair;
}

TD_TEST(a_client_that_continues_sending_reads_the_reply_and_the_end)
{
    enum { BYTES = 32 << 20, CHUNK = 1 << 16 };
    struct td_linger *linger = td_linger_new();
    struct pair pair = pair_open();
    char *piece = calloc(1, CHUNK), answer[8];
    ck_assert_int_eq(send(pair.ours, "answer", 6, 0), 6);
    shutdown(pair.ours, SHUT_WR);
    td_linger_take(linger, pair.ours);
    for (size_t sent = 0; sent < BYTES;) {
        const ssize_t n = send(pair.theirs, piece, CHUNK, MSG_NOSIGNAL);
        ck_assert_int_gt(n, 0);
        sent += (size_t)n;
    }
    ck_assert_int_eq(recv(pair.theirs, answer, sizeof answer, MSG_WAITALL), 6);
    free(piece);
    close(pair.theirs);
    td_linger_free(linger);
}

static bool is_closed(int socket)
{
    struct pollfd poller = { .fd = socket, .events = POLLIN };
    char byte;
    return poll(&poller, 1, 10000) == 1 && recv(socket, &byte, 1, 0) <= 0;
}

TD_TEST(a_socket_beyond_the_limit_is_closed_at_once)
{
    struct td_linger *linger = td_linger_new();
    struct pair pairs[TD_LINGER_SOCKETS + 1];
    for (int i = 0; i <= TD_LINGER_SOCKETS; i++) {
        pairs[i] = pair_open();
        td_linger_take(linger, pairs[i].ours);
    }
    ck_assert(is_closed(pairs[TD_LINGER_SOCKETS].theirs));
    td_linger_free(linger); /* closes the others */
    for (int i = 0; i <= TD_LINGER_SOCKETS; i++) {
        ck_assert(is_closed(pairs[i].theirs));
        close(pairs[i].theirs);
    }
}

TD_TEST(closed_sockets_make_room_for_others)
{
    struct td_linger *linger = td_linger_new();
    for (int i = 0; i < 4 * TD_LINGER_SOCKETS; i++) {
        struct pair pair = pair_open();
        char byte;
        shutdown(pair.ours, SHUT_WR);
        td_linger_take(linger, pair.ours);
        ck_assert_int_eq(recv(pair.theirs, &byte, 1, 0), 0);
        ck_assert_int_eq(send(pair.theirs, "x", 1, MSG_NOSIGNAL), 1);
        close(pair.theirs);
        usleep(2000);
    }
    struct pair last = pair_open();
    td_linger_take(linger, last.ours);
    struct pollfd poller = { .fd = last.theirs, .events = POLLIN };
    ck_assert_int_eq(poll(&poller, 1, 50), 0); /* not closed */
    close(last.theirs);
    td_linger_free(linger);
}

/* Whether the descriptor is closed within a minute. */
static bool is_released(int socket)
{
    for (int i = 0; i < 60000 && fcntl(socket, F_GETFD) >= 0; i++)
        usleep(1000);
    return fcntl(socket, F_GETFD) < 0;
}

TD_TEST(a_socket_is_closed_when_its_client_has_closed)
{
    struct td_linger *linger = td_linger_new();
    struct pair pair = pair_open();
    td_linger_take(linger, pair.ours);
    close(pair.theirs);
    ck_assert(is_released(pair.ours));
    td_linger_free(linger);
}

TD_TEST(a_socket_is_closed_after_some_seconds_although_its_client_stays)
{
    struct td_linger *linger = td_linger_new();
    struct pair pair = pair_open();
    td_linger_take(linger, pair.ours);
    usleep(1500000);
    ck_assert_int_ge(fcntl(pair.ours, F_GETFD), 0); /* not yet */
    ck_assert(is_released(pair.ours));
    close(pair.theirs);
    td_linger_free(linger);
}

TD_TEST(a_client_may_send_some_256_mib)
{
    enum { MOST = 256 << 20, CHUNK = 1 << 20 };
    struct td_linger *linger = td_linger_new();
    struct pair pair = pair_open();
    char *piece = calloc(1, CHUNK);
    size_t sent = 0;
    td_linger_take(linger, pair.ours);
    for (ssize_t n; sent < (size_t)4 * MOST; sent += (size_t)n)
        if ((n = send(pair.theirs, piece, CHUNK, MSG_NOSIGNAL)) <= 0)
            break;
    ck_assert_uint_gt(sent, MOST);
    ck_assert_uint_lt(sent, (size_t)4 * MOST);
    ck_assert(is_released(pair.ours));
    free(piece);
    close(pair.theirs);
    td_linger_free(linger);
}
