#include "server/http/linger.h"
#include "tests/gates/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define MS INT64_C(1000000)

/* Both ends of a connection. */
struct pair {
    int ours, theirs;
};

static struct pair pair_open_unix(void)
{
    struct pair pair;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pair = (struct pair){ ends[0], ends[1] };
    return pair;
}

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

static struct pair (*const kinds[])(void) = { pair_open, pair_open_unix };

TD_TEST_EACH(a_client_that_continues_sending_reads_the_reply_and_the_end, kinds)
{
    enum { BYTES = 32 << 20, CHUNK = 1 << 16 };
    test_clock_stop(); /* however long it sends */
    struct td_linger *linger = td_linger_new();
    struct pair pair = kinds[_i]();
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
    return poll(&poller, 1, -1) == 1 && recv(socket, &byte, 1, 0) <= 0;
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

static bool is_open(int socket)
{
    return fcntl(socket, F_GETFD) >= 0;
}

static void wait_for_release(int socket)
{
    EVENTUALLY(!is_open(socket));
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
        wait_for_release(pair.ours);
    }
    struct pair last = pair_open();
    td_linger_take(linger, last.ours);
    ck_assert(is_open(last.ours)); /* this thread closes what there is no room for */
    close(last.theirs);
    td_linger_free(linger);
}

TD_TEST(a_socket_is_closed_when_its_client_has_closed)
{
    struct td_linger *linger = td_linger_new();
    struct pair pair = pair_open();
    td_linger_take(linger, pair.ours);
    close(pair.theirs);
    wait_for_release(pair.ours);
    td_linger_free(linger);
}

static bool is_drained(int socket)
{
    int bytes = 1;
    ck_assert_int_eq(ioctl(socket, FIONREAD, &bytes), 0);
    return bytes == 0;
}

/* Returns when the thread has looked at the clock, and then at the socket. It dropped the second
 * byte in a later round than the first, so it has looked since this was called. */
static void wait_for_a_round(const struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(send(pair->theirs, "x", 1, MSG_NOSIGNAL), 1);
        EVENTUALLY(is_drained(pair->ours));
    }
}

TD_TEST(a_socket_is_closed_after_five_seconds_although_its_client_goes_on)
{
    test_clock_stop();
    struct td_linger *linger = td_linger_new();
    struct pair pair = pair_open();
    td_linger_take(linger, pair.ours);
    wait_for_a_round(&pair);
    test_clock_advance(4999 * MS);
    wait_for_a_round(&pair);
    ck_assert(is_open(pair.ours)); /* not yet */
    test_clock_advance(1 * MS);
    ck_assert_int_eq(send(pair.theirs, "x", 1, MSG_NOSIGNAL), 1); /* a round at that time */
    wait_for_release(pair.ours);
    close(pair.theirs);
    td_linger_free(linger);
}

TD_TEST(a_socket_is_closed_after_some_seconds_although_its_client_is_silent)
{
    test_clock_stop();
    struct td_linger *linger = td_linger_new();
    struct pair pair = pair_open();
    td_linger_take(linger, pair.ours);
    /* Repeatedly: the thread may begin its wait for the next round after the clock has moved. */
    int steps = 0;
    EVENTUALLY((steps++, test_clock_advance(100 * MS), !is_open(pair.ours)));
    ck_assert_int_ge(steps, 50); /* five seconds */
    close(pair.theirs);
    td_linger_free(linger);
}

TD_TEST(a_client_may_send_some_256_mib)
{
    enum { MOST = 256 << 20, CHUNK = 1 << 20 };
    test_clock_stop(); /* the limit of the time is not reached */
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
    wait_for_release(pair.ours);
    free(piece);
    close(pair.theirs);
    td_linger_free(linger);
}
