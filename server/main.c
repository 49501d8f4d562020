/* main.c - reads the configuration, starts the modules in order, waits for a signal, drains, and
 * stops them in reverse order. */
#include "server/calls/services_open.h"
#include "server/config/load.h"
#include "server/devices/devices.h"
#include "server/http/http.h"
#include "server/http/origin.h"
#include "server/memory/fault_guard.h"
#include "server/observe/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { EXIT_WRONG_CONFIG = 2, EXIT_FAILED = 1 };

enum { TICKS_PER_SWEEP = 10, DRAIN_TICKS_PER_SWEEP = 100 };

#define TICK_NS         100000000   /* an expired request is refused at most this late */
#define DRAIN_TICK_NS   2000000     /* the end of a drain is noticed at most this late */
#define REPLY_GRACE_NS  500000000   /* for sending replies that are made after the drain timeout */
#define WARM_FOR_NS     10000000000 /* buffers unused for so long are returned to the system */
#define FORGET_AFTER_NS 60000000000 /* a client without connections is forgotten after so long */
#define TIDY_EACH_NS    1000000000

static void set_up_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    /* Before the first thread starts: all inherit the mask, so only main receives the signals. */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file above the limit on its size fails with EFBIG instead */
}

/* Serves until a signal to stop. Periodically refuses expired requests and trims memory; scans the
 * data folder after SIGHUP. */
static int serve(struct td_services *services, struct td_http *http, const sigset_t *signals)
{
    const struct timespec tick = { .tv_nsec = TICK_NS };
    int64_t tidied = td_now_ns();
    for (;;) {
        const int signal_number = sigtimedwait(signals, NULL, &tick);
        if (signal_number > 0 && signal_number != SIGHUP)
            return signal_number;
        td_services_rescan(services, signal_number == SIGHUP);
        td_services_verify(services);
        const int64_t now = td_now_ns();
        td_worker_pool_expire(services->workers, now, false);
        td_http_tidy(http, now, TICKS_PER_SWEEP);
        if (now - tidied > TIDY_EACH_NS) {
            td_buffer_pool_trim(services->buffers, now - WARM_FOR_NS);
            td_store_trim(services->store, now - WARM_FOR_NS);
            td_clients_trim(services->clients, now, now - FORGET_AFTER_NS);
            tidied = now;
        }
    }
}

static bool is_busy(const struct td_services *services)
{
    return atomic_load(&services->in_flight) > 0 || atomic_load(&services->unsent) > 0;
}

/* Waits for the calls in flight. After the drain timeout queued calls are refused, running ones
 * stop at their next check, and calls whose body is still arriving end with their connections.
 * Running calls are waited for, since the HTTP library cannot be stopped with a suspended
 * connection. Replies that are made only then get a short time to be sent. */
static void drain(struct td_services *services, struct td_http *http)
{
    const struct timespec tick = { .tv_nsec = DRAIN_TICK_NS };
    const int64_t until = td_now_ns() + services->config.drain_timeout_ms * 1000000;
    td_refusals_close(services->refusals);
    for (; is_busy(services) && td_now_ns() < until; nanosleep(&tick, NULL)) {
        td_worker_pool_expire(services->workers, td_now_ns(), false);
        td_http_tidy(http, td_now_ns(), DRAIN_TICKS_PER_SWEEP);
    }
    atomic_store(&services->refusing, true);
    td_devices_drain(services->devices);
    for (; atomic_load(&services->suspended) > 0; nanosleep(&tick, NULL))
        td_worker_pool_expire(services->workers, td_now_ns(), true);
    const int64_t now = td_now_ns();
    const int64_t sent_by = now < until - REPLY_GRACE_NS ? until : now + REPLY_GRACE_NS;
    while (atomic_load(&services->unsent) > 0 && td_now_ns() < sent_by)
        nanosleep(&tick, NULL);
}

static int run(struct td_services *services)
{
    sigset_t signals;
    struct td_http *http = NULL;
    int status = EXIT_FAILED;
    set_up_signals(&signals);
    td_guard_install();
    const int64_t begun = td_now_ns();
    if (!td_services_open(services) || !(http = td_http_start(services)))
        goto done;
    td_log(&services->log, TD_LOG_INFO, "ready", TD_MS("start_ms", td_now_ns() - begun));
    const int signal_number = serve(services, http, &signals);
    atomic_store(&services->draining,
                 true); /* before it is logged: readers of the log rely on it */
    td_log(&services->log, TD_LOG_INFO, "draining", TD_TEXT("signal", strsignal(signal_number)),
           TD_INT("in_flight", atomic_load(&services->in_flight)));
    drain(services, http);
    status = 0;
done:
    td_services_stop_workers(
        services); /* before HTTP: a worker may still use the connection that it resumed */
    td_http_stop(http);
    td_services_close(services);
    td_log(&services->log, TD_LOG_INFO, "stopped", TD_INT("exit", status));
    return status;
}

static int wrong(const char *message)
{
    fprintf(stderr, "tensord: %s\n", message);
    return EXIT_WRONG_CONFIG;
}

static bool check_origins(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    struct td_origins *origins =
        td_origins_new(config->allow_origin, config->allow_host, false, message, TD_CONFIG_MESSAGE);
    td_origins_free(origins);
    return origins != NULL;
}

int main(int argc, char **argv)
{
    static struct td_services services;
    char message[TD_CONFIG_MESSAGE];
    int status = 0;
    const enum td_config_action action =
        td_config_load(&services.config, argc, argv, environ, message);
    switch (action) {
    case TD_CONFIG_HELP:
        td_config_help(stdout);
        return 0;
    case TD_CONFIG_VERSION:
        puts("tensord " TD_VERSION);
        return 0;
    case TD_CONFIG_WRONG:
        return wrong(message);
    case TD_CONFIG_CHECK:
    case TD_CONFIG_RUN:
        break;
    }
    services.log = (struct td_log){ .level = services.config.log_level,
                                    .format = services.config.log_format,
                                    .fd = STDERR_FILENO };
    if (!td_config_check_system(&services.config, message) ||
        !check_origins(&services.config, message) ||
        !td_devices_check_system(&services.config, message))
        status = wrong(message);
    else if (action == TD_CONFIG_RUN)
        status = run(&services);
    else
        puts("tensord: the configuration is valid");
    td_config_free(&services.config);
    return status;
}
