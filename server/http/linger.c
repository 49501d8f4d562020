#include "server/http/linger.h"

#include "server/observe/clock.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define TIME_LIMIT_NS INT64_C(5000000000)
enum { MOST_BYTES = 256 << 20, EACH_READ = 1 << 20 };

/* A lingering connection. */
struct lingering_socket {
    int socket;
    int64_t until_ns;
    int64_t bytes;
};

struct td_linger {
    pthread_t thread;
    int wake; /* eventfd, signalled when a member below changes */

    pthread_mutex_t mutex; /* guards the following members */
    int taken[TD_LINGER_SOCKETS];
    int n_taken; /* number of sockets that the thread has not received yet */
    int n_all;   /* total number of sockets, in `taken` and with the thread */
    bool stop;
};

static void wake(const struct td_linger *linger)
{
    const uint64_t one = 1;
    const bool woken = write(linger->wake, &one, sizeof one) == sizeof one;
    /* The write fails only if the counter is full, and the thread then wakes anyway. */
    (void)woken;
}

void td_linger_take(struct td_linger *linger, int socket)
{
    pthread_mutex_lock(&linger->mutex);
    const bool room = linger->n_all < TD_LINGER_SOCKETS;
    if (room) {
        linger->taken[linger->n_taken++] = socket;
        linger->n_all++;
    }
    pthread_mutex_unlock(&linger->mutex);
    if (room)
        wake(linger);
    else
        close(socket);
}

/* Drops received bytes. Returns false at the end of the stream or when the limit is reached. */
static bool discard_received(struct lingering_socket *one)
{
    static char dropped[EACH_READ]; /* used by one thread, for Unix sockets only */
    for (;;) {
        /* With MSG_TRUNC, a TCP socket drops the bytes without copying them. */
        const ssize_t got = recv(one->socket, dropped, sizeof dropped, MSG_TRUNC | MSG_DONTWAIT);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR;
        one->bytes += got;
        if (got == 0 || one->bytes > MOST_BYTES)
            return false;
        if (got < EACH_READ)
            return true;
    }
}

/* Moves new sockets to the thread's own list. Returns false if the thread must stop. */
static bool collect(struct td_linger *linger, struct lingering_socket *list, int *count)
{
    pthread_mutex_lock(&linger->mutex);
    linger->n_all = linger->n_taken + *count; /* excludes closed sockets */
    for (int i = 0; i < linger->n_taken; i++)
        list[(*count)++] = (struct lingering_socket){ .socket = linger->taken[i],
                                                      .until_ns = td_now_ns() + TIME_LIMIT_NS };
    linger->n_taken = 0;
    const bool stop = linger->stop;
    pthread_mutex_unlock(&linger->mutex);
    return !stop;
}

/* Waits until a socket is readable or has reached its time limit. */
static void wait_for_some(const struct td_linger *linger, const struct lingering_socket *list,
                          int count)
{
    enum { TICK_MS = 100 };
    struct pollfd pollers[TD_LINGER_SOCKETS + 1];
    uint64_t wakes;
    pollers[count] = (struct pollfd){ .fd = linger->wake, .events = POLLIN };
    for (int i = 0; i < count; i++)
        pollers[i] = (struct pollfd){ .fd = list[i].socket, .events = POLLIN };
    if (poll(pollers, (nfds_t)count + 1, count > 0 ? TICK_MS : -1) <= 0)
        return;
    const bool woken = read(linger->wake, &wakes, sizeof wakes) == sizeof wakes;
    (void)woken; /* EAGAIN if a socket caused the wakeup */
}

static void *run(void *context)
{
    struct td_linger *linger = context;
    struct lingering_socket list[TD_LINGER_SOCKETS];
    int count = 0;
    (void)pthread_setname_np(pthread_self(), "linger");
    while (collect(linger, list, &count)) {
        wait_for_some(linger, list, count);
        const int64_t now = td_now_ns();
        int left = 0;
        for (int i = 0; i < count; i++)
            if (now < list[i].until_ns && discard_received(&list[i]))
                list[left++] = list[i];
            else
                close(list[i].socket);
        count = left;
    }
    for (int i = 0; i < count; i++)
        close(list[i].socket);
    return NULL;
}

struct td_linger *td_linger_new(void)
{
    struct td_linger *linger = calloc(1, sizeof *linger);
    if (!linger)
        return NULL;
    linger->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&linger->mutex, NULL);
    if (linger->wake >= 0 && pthread_create(&linger->thread, NULL, run, linger) == 0)
        return linger;
    if (linger->wake >= 0)
        close(linger->wake);
    pthread_mutex_destroy(&linger->mutex);
    free(linger);
    return NULL;
}

void td_linger_free(struct td_linger *linger)
{
    if (!linger)
        return;
    pthread_mutex_lock(&linger->mutex);
    linger->stop = true;
    pthread_mutex_unlock(&linger->mutex);
    wake(linger);
    pthread_join(linger->thread, NULL);
    close(linger->wake);
    pthread_mutex_destroy(&linger->mutex);
    free(linger);
}
