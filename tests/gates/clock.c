/* Two numbers move the clock: an offset in nanoseconds, which is added to the system's time, and
 * the time at which CLOCK_MONOTONIC stands still (0: it runs). In the test daemon the test writes
 * both, as eight bytes each, to the file "clock" in the folder TD_TEST_GATES.
 *
 * Waits with a time limit end early when the test has advanced the clock past it: they look every
 * LOOK_MS. The daemon's main thread, which waits for signals, keeps house after each look. Timeouts
 * of sockets, which the kernel counts, are an hour. */
#include "tests/gates/clock.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 5, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* Wall-clock times are larger than this, times since the machine started are smaller: 30 years. */
#define LONGEST_UPTIME_S 1000000000

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *request,
                           struct timespec *remain);
int __real_poll(struct pollfd *pollers, nfds_t n, int timeout_ms);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __real_sigtimedwait(const sigset_t *signals, siginfo_t *info, const struct timespec *timeout);
int __real_setsockopt(int socket, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int socket, int level, int name, const void *value, socklen_t size);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *request,
                           struct timespec *remain);
int __wrap_poll(struct pollfd *pollers, nfds_t n, int timeout_ms);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_sigtimedwait(const sigset_t *signals, siginfo_t *info, const struct timespec *timeout);
time_t __wrap_time(time_t *out);
clockid_t __wrap_check_get_clockid(void);

enum { OFFSET, STOPPED_AT, NUMBERS };

static _Atomic int64_t own[NUMBERS]; /* of a program that moves its own clock */
static const _Atomic int64_t *numbers = own;

/* Before main, so that every thread sees it. */
__attribute__((constructor)) static void map_numbers(void)
{
    const char *folder = getenv("TD_TEST_GATES");
    char path[4096];
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/clock", folder);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof own, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        numbers = page;
}

/* What the test did before it moved the clock happens before what a thread does that sees it
 * moved. */
static int64_t number(int which)
{
    return atomic_load_explicit(&numbers[which], memory_order_acquire);
}

static struct timespec plus(struct timespec time, int64_t ns)
{
    int64_t nsec = time.tv_nsec + ns % NS_PER_S;
    time.tv_sec += ns / NS_PER_S + (nsec >= NS_PER_S) - (nsec < 0);
    time.tv_nsec = (nsec + NS_PER_S) % NS_PER_S;
    return time;
}

static bool is_before(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* How long a wait lasts until its next look at the clock. */
static int64_t next_look_ns(struct timespec now, struct timespec until)
{
    const struct timespec look = plus(now, LOOK_MS * NS_PER_MS);
    if (is_before(look, until))
        return LOOK_MS * NS_PER_MS;
    return (until.tv_sec - now.tv_sec) * NS_PER_S + until.tv_nsec - now.tv_nsec;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int status = __real_clock_gettime(clock, now);
    const int64_t stopped_at =
        clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ? number(STOPPED_AT) : 0;
    if (stopped_at > 0)
        *now = plus((struct timespec){ 0 }, stopped_at);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ||
                        clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE))
        *now = plus(*now, number(OFFSET));
    return status;
}

time_t __wrap_time(time_t *out)
{
    struct timespec now;
    (void)__wrap_clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int __wrap_poll(struct pollfd *pollers, nfds_t n, int timeout_ms)
{
    struct timespec now, until;
    if (timeout_ms <= LOOK_MS)
        return __real_poll(pollers, n, timeout_ms);
    (void)__wrap_clock_gettime(CLOCK_MONOTONIC, &now);
    until = plus(now, (int64_t)timeout_ms * NS_PER_MS);
    for (;;) {
        const int ready = __real_poll(pollers, n, LOOK_MS);
        (void)__wrap_clock_gettime(CLOCK_MONOTONIC, &now);
        if (ready != 0 || !is_before(now, until))
            return ready;
    }
}

/* Callers wait in a loop, so the return after each look is a spurious wakeup. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    struct timespec now;
    const clockid_t clock = until->tv_sec > LONGEST_UPTIME_S ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    (void)__wrap_clock_gettime(clock, &now);
    if (!is_before(now, *until))
        return ETIMEDOUT;
    const int64_t look_ns = next_look_ns(now, *until);
    (void)__real_clock_gettime(clock, &now);
    const struct timespec look = plus(now, look_ns);
    const int status = __real_pthread_cond_timedwait(condition, mutex, &look);
    return status == ETIMEDOUT ? 0 : status;
}

/* Callers that sleep until a time look at the clock in a loop. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *request,
                           struct timespec *remain)
{
    struct timespec now;
    if (flags != TIMER_ABSTIME)
        return __real_clock_nanosleep(clock, flags, request, remain);
    (void)__wrap_clock_gettime(clock, &now);
    if (!is_before(now, *request))
        return 0;
    const struct timespec look = { .tv_nsec = next_look_ns(now, *request) };
    return __real_clock_nanosleep(CLOCK_MONOTONIC, 0, &look, NULL);
}

int __wrap_sigtimedwait(const sigset_t *signals, siginfo_t *info, const struct timespec *timeout)
{
    const struct timespec look = { .tv_nsec = LOOK_MS * NS_PER_MS };
    return __real_sigtimedwait(signals, info, is_before(look, *timeout) ? &look : timeout);
}

int __wrap_setsockopt(int socket, int level, int name, const void *value, socklen_t size)
{
    const struct timeval hour = { .tv_sec = 3600 };
    const bool is_timeout = level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO);
    if (is_timeout)
        return __real_setsockopt(socket, level, name, &hour, sizeof hour);
    return __real_setsockopt(socket, level, name, value, size);
}

/* ---- a program's own clock ------------------------------------------------------------------- */

int64_t test_clock_now_ns(void)
{
    struct timespec now;
    (void)__wrap_clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void test_clock_stop(void)
{
    struct timespec now;
    (void)__real_clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store(&own[STOPPED_AT], now.tv_sec * NS_PER_S + now.tv_nsec);
}

void test_clock_advance(int64_t ns)
{
    atomic_fetch_add(&own[OFFSET], ns);
}

void test_clock_go_on(void)
{
    atomic_store(&own[STOPPED_AT], 0);
}

/* Check measures and limits the duration of tests with a clock that does not move. */
clockid_t __wrap_check_get_clockid(void)
{
    return CLOCK_BOOTTIME;
}
