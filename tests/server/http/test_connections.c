#include "server/http/connections.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* A connection in an edge-triggered epoll set, as in libmicrohttpd. */
struct watched {
    int ours, theirs, epoll;
};

static struct watched watched_open(void)
{
    struct watched watched;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    watched.ours = ends[0];
    watched.theirs = ends[1];
    watched.epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    ck_assert_int_eq(epoll_ctl(watched.epoll, EPOLL_CTL_ADD, watched.ours, &event), 0);
    return watched;
}

static void watched_close(struct watched *watched)
{
    close(watched->ours);
    close(watched->theirs);
    close(watched->epoll);
}

/* Has there been an edge since the last call? */
static bool has_edge(const struct watched *watched)
{
    struct epoll_event event;
    return epoll_wait(watched->epoll, &event, 1, 0) == 1;
}

START_TEST(nudge_makes_an_edge_for_a_client_that_has_closed)
{
    struct td_connections *connections = td_connections_new();
    struct watched watched = watched_open();
    td_connections_add(connections, watched.ours);
    ck_assert_int_eq(write(watched.theirs, "GET", 3), 3);
    shutdown(watched.theirs, SHUT_WR);
    ck_assert(has_edge(&watched)); /* one edge for the bytes and the end */
    ck_assert(!has_edge(&watched));
    td_connections_nudge(connections);
    ck_assert(has_edge(&watched));
    char bytes[8]; /* the bytes that it sent can still be read, then the end */
    ck_assert_int_eq(read(watched.ours, bytes, sizeof bytes), 3);
    ck_assert_int_eq(read(watched.ours, bytes, sizeof bytes), 0);
    ck_assert_int_eq(write(watched.ours, "HTTP", 4), 4); /* and the reply can be sent */
    ck_assert_int_eq(read(watched.theirs, bytes, sizeof bytes), 4);
    watched_close(&watched);
    td_connections_free(connections);
}
END_TEST

START_TEST(nudge_ignores_a_client_that_has_not_closed)
{
    struct td_connections *connections = td_connections_new();
    struct watched watched = watched_open();
    char bytes[8];
    td_connections_add(connections, watched.ours);
    ck_assert_int_eq(write(watched.theirs, "GET", 3), 3);
    ck_assert(has_edge(&watched));
    td_connections_nudge(connections);
    ck_assert(!has_edge(&watched));
    ck_assert_int_eq(read(watched.ours, bytes, sizeof bytes), 3);
    ck_assert_int_eq(write(watched.theirs, "more", 4), 4); /* it can continue sending */
    ck_assert_int_eq(read(watched.ours, bytes, sizeof bytes), 4);
    watched_close(&watched);
    td_connections_free(connections);
}
END_TEST

START_TEST(nudge_ignores_a_removed_socket)
{
    struct td_connections *connections = td_connections_new();
    struct watched removed = watched_open(), kept = watched_open();
    td_connections_add(connections, removed.ours);
    td_connections_add(connections, kept.ours);
    td_connections_remove(connections, removed.ours);
    td_connections_remove(connections, removed.ours); /* removing an unknown socket has no effect */
    td_connections_remove(connections, 100000);
    shutdown(removed.theirs, SHUT_WR);
    shutdown(kept.theirs, SHUT_WR);
    ck_assert(has_edge(&removed) && has_edge(&kept));
    td_connections_nudge(connections);
    ck_assert(!has_edge(&removed) && has_edge(&kept));
    watched_close(&removed);
    watched_close(&kept);
    td_connections_free(connections);
}
END_TEST

START_TEST(nudge_reaches_exactly_the_added_sockets)
{
    enum { SOCKETS = 200 };
    struct td_connections *connections = td_connections_new();
    struct watched watched[SOCKETS];
    unsigned state = 1;
    bool noted[SOCKETS] = { false };
    for (int i = 0; i < SOCKETS; i++) {
        watched[i] = watched_open();
        shutdown(watched[i].theirs, SHUT_WR);
        ck_assert(has_edge(&watched[i]));
    }
    for (int turn = 0; turn < 2000; turn++) {
        const int i = rand_r(&state) % SOCKETS;
        if (noted[i])
            td_connections_remove(connections, watched[i].ours);
        else
            td_connections_add(connections, watched[i].ours);
        noted[i] = !noted[i];
    }
    td_connections_nudge(connections);
    for (int i = 0; i < SOCKETS; i++) {
        ck_assert_int_eq(has_edge(&watched[i]), noted[i]);
        watched_close(&watched[i]);
    }
    td_connections_free(connections);
}
END_TEST

static void *add_and_remove(void *argument)
{
    for (int i = 0; i < 500; i++) {
        struct watched watched = watched_open();
        td_connections_add(argument, watched.ours);
        if (i % 2)
            shutdown(watched.theirs, SHUT_WR);
        td_connections_remove(argument, watched.ours); /* always before the socket is closed */
        watched_close(&watched);
    }
    return NULL;
}

START_TEST(threads_add_and_remove_sockets_while_others_nudge)
{
    struct td_connections *connections = td_connections_new();
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_and_remove, connections), 0);
    for (int i = 0; i < 500; i++)
        td_connections_nudge(connections);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    td_connections_free(connections);
    td_connections_free(NULL);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_test(tcase, nudge_makes_an_edge_for_a_client_that_has_closed);
    tcase_add_test(tcase, nudge_ignores_a_client_that_has_not_closed);
    tcase_add_test(tcase, nudge_ignores_a_removed_socket);
    tcase_add_test(tcase, nudge_reaches_exactly_the_added_sockets);
    tcase_add_test(tcase, threads_add_and_remove_sockets_while_others_nudge);
}

int main(void)
{
    return run_suite("connections", add);
}
