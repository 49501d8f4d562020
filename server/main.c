/* main.c - reads the configuration, starts the modules in order, waits for a signal, drains, and
 * stops the modules in reverse order. */
#include "server/calls/credentials.h"
#include "server/calls/services_open.h"
#include "server/check/check.h"
#include "server/check/health.h"
#include "server/config/load.h"
#include "server/config/variables.h"
#include "server/devices/devices.h"
#include "server/http/http.h"
#include "server/http/listener.h"
#include "server/http/origin.h"
#include "server/http/proxies.h"
#include "server/memory/fault_guard.h"
#include "server/observe/clock.h"
#include "server/observe/notify.h"
#include "server/traces/collector.h"

#include <sys/ioctl.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { EXIT_WRONG_CONFIG = 2, EXIT_FAILED = 1 };

enum { TICKS_PER_SWEEP = 10, DRAIN_TICKS_PER_SWEEP = 100 };

#define TICK_NS         100000000   /* maximum delay until an expired request is refused */
#define DRAIN_TICK_NS   2000000     /* maximum delay until the end of a drain is noticed */
#define IDLE_GRACE_NS   500000000   /* how long a drain keeps idle connections open */
#define EXPORT_NS       3000000000  /* time for sending the last spans, within the drain timeout */
#define REPLY_GRACE_NS  500000000   /* time for sending replies made after the drain timeout */
#define END_GRACE_NS    3000000000  /* the process ends at most this long after the drain */
#define WARM_FOR_NS     10000000000 /* buffers unused for this long are returned to the system */
#define FORGET_AFTER_NS 60000000000 /* time after which a client without connections is forgotten */
#define TIDY_EACH_NS    1000000000

/* True if a signal to stop is pending. During startup, signals are blocked and no thread waits for
 * them. With --verify start, startup takes as long as reading the data folder. */
static bool is_stop_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

static void set_up_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    sigaddset(signals, SIGUSR1);
    sigaddset(signals, SIGUSR2);
    /* Do this before starting the first thread. All threads inherit the mask, so only the main
     * thread receives the signals. */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* makes writes beyond the file size limit fail with EFBIG */
}

/* State of the running daemon. */
struct daemon {
    struct td_services *services;
    struct td_http *http;
    sigset_t signals;
    const char *manager; /* the service manager's NOTIFY_SOCKET, or NULL */
    bool reloading;      /* true if the manager was told that a reload is running */
    int64_t tidied_ns;
    /* End of the drain timeout, or 0 before the drain. */
    int64_t drained_by_ns;
    pthread_t timekeeper;
    /* Time at which the process is forced to end, or TD_NEVER before the drain. */
    atomic_int_fast64_t ends_by_ns;
    atomic_bool ended; /* set when the timekeeper is no longer needed */
};

/* Does periodic work: reloads the credentials and scans the data folder if `rescan` is set, refuses
 * expired requests, starts the verification of files, and occasionally trims memory. */
static void keep_house(struct daemon *daemon, bool rescan)
{
    struct td_services *services = daemon->services;
    const int64_t now = td_now_ns();
    if (rescan) {
        td_notify_reloading(daemon->manager);
        td_credentials_reload(services);
    }
    daemon->reloading = daemon->reloading || rescan;
    td_services_rescan(services, rescan);
    if (daemon->reloading && !td_services_is_rescanning(services)) {
        td_notify(daemon->manager, "READY=1");
        daemon->reloading = false;
    }
    td_services_verify(services);
    td_services_expire(services, now, false);
    td_http_tidy(daemon->http, now, TICKS_PER_SWEEP);
    if (now - daemon->tidied_ns > TIDY_EACH_NS) {
        td_buffer_pool_trim(services->buffers, now - WARM_FOR_NS);
        td_store_expire(services->store, now);
        td_store_trim(services->store, now - WARM_FOR_NS);
        td_clients_trim(services->clients, now, now - FORGET_AFTER_NS);
        daemon->tidied_ns = now;
    }
}

/* Waits for a signal and returns it, or 0 if no signal arrives within a tick. Handles the signals
 * for the log level itself and then returns 0. */
static int wait_for_signal(const struct daemon *daemon, const struct timespec *tick)
{
    struct td_log *log = &daemon->services->log;
    const int signal_number = sigtimedwait(&daemon->signals, NULL, tick);
    if (signal_number == SIGUSR1 || signal_number == SIGUSR2)
        td_log_change_level(log, signal_number == SIGUSR1 ? 1 : -1);
    else if (signal_number > 0)
        return signal_number;
    return 0;
}

/* Serves until the given time or a signal to stop. Returns the signal, or 0. SIGHUP reloads the
 * credentials and scans the data folder. */
static int serve_until(struct daemon *daemon, int64_t until_ns)
{
    while (td_now_ns() < until_ns) {
        const int64_t left = until_ns - td_now_ns();
        const struct timespec tick = { .tv_nsec = left > TICK_NS ? TICK_NS : left > 0 ? left : 0 };
        const int signal_number = wait_for_signal(daemon, &tick);
        if (signal_number > 0 && signal_number != SIGHUP)
            return signal_number;
        keep_house(daemon, signal_number == SIGHUP);
    }
    return 0;
}

/* ---- stopping ------------------------------------------------------------------------------- */

/* Ends the process at the end of the drain. A disk, a device or a trace collector might still be
 * busy, and waiting for it cannot be interrupted. As after kill -9, no acknowledged change is lost.
 * This thread is created at startup, while memory for it is available. */
static void *keep_time(void *argument)
{
    const struct timespec tick = { .tv_nsec = TICK_NS };
    struct daemon *daemon = argument;
    struct td_services *services = daemon->services;
    (void)pthread_setname_np(pthread_self(), "timekeeper");
    while (!atomic_load(&daemon->ended)) {
        if (td_now_ns() > atomic_load(&daemon->ends_by_ns)) {
            td_log(&services->log, TD_LOG_WARN, "exit_forced",
                   TD_INT("in_flight", atomic_load(&services->in_flight)));
            _exit(0);
        }
        nanosleep(&tick, NULL);
    }
    return NULL;
}

/* Sets the time at which the process ends. Called when no connections are served any more, or when
 * the time for serving is over. The exporter gets the rest of the drain timeout, but at most
 * EXPORT_NS. */
static void set_end(struct daemon *daemon)
{
    const int64_t now = td_now_ns(), export_by = now + EXPORT_NS;
    const int64_t until = daemon->drained_by_ns < export_by ? daemon->drained_by_ns : export_by;
    atomic_store(&daemon->ends_by_ns, (until > now ? until : now) + END_GRACE_NS);
}

/* Waits for a tick. Returns true if a signal to stop arrived. */
static bool is_hurried(const struct daemon *daemon)
{
    const struct timespec tick = { .tv_nsec = DRAIN_TICK_NS };
    const int signal_number = wait_for_signal(daemon, &tick);
    return signal_number > 0 && signal_number != SIGHUP;
}

/* Serves the open connections until all are idle. Each reply announces that its connection closes,
 * and idle connections get IDLE_GRACE_NS to send another request. Returns true if the time limit or
 * a signal cut the drain short. */
static bool drain_connections(struct daemon *daemon, int64_t until_ns)
{
    struct td_services *services = daemon->services;
    const int64_t begun = td_now_ns();
    for (int64_t now = begun; now < until_ns; now = td_now_ns()) {
        const bool is_busy =
            atomic_load(&services->in_flight) > 0 || atomic_load(&services->unsent) > 0;
        if (!is_busy && (now - begun > IDLE_GRACE_NS || td_http_connections(daemon->http) == 0))
            return false;
        td_services_expire(services, now, false);
        td_http_tidy(daemon->http, now, DRAIN_TICKS_PER_SWEEP);
        if (is_hurried(daemon))
            break;
    }
    return true;
}

/* Refuses queued calls, stops running calls at their next check, and waits for all of them, because
 * the HTTP library cannot be stopped while a connection is suspended. Calls whose body is still
 * arriving end with their connections. Late replies get a short time to be sent. */
static void end_calls(struct daemon *daemon)
{
    struct td_services *services = daemon->services;
    const struct timespec tick = { .tv_nsec = DRAIN_TICK_NS };
    atomic_store(&services->refusing, true);
    td_devices_drain(services->devices);
    for (; atomic_load(&services->suspended) > 0; nanosleep(&tick, NULL))
        td_services_expire(services, td_now_ns(), true);
    for (const int64_t until = td_now_ns() + REPLY_GRACE_NS;
         atomic_load(&services->unsent) > 0 && td_now_ns() < until;)
        nanosleep(&tick, NULL);
}

/* Stops in three steps: first, only /readyz fails, for --drain-delay-ms; then, no connections are
 * accepted; finally, no calls run. Another signal cuts the first two steps short. */
static void stop(struct daemon *daemon, int signal_number)
{
    struct td_services *services = daemon->services;
    const struct td_config *config = &services->config;
    /* Set all of these before logging the line, because readers of the log rely on them. */
    const int64_t until_ns = td_now_ns() + config->drain_delay_ms * 1000000;
    daemon->drained_by_ns = until_ns + config->drain_timeout_ms * 1000000;
    atomic_store(&services->draining, true);
    td_log(&services->log, TD_LOG_INFO, "draining", TD_TEXT("signal", strsignal(signal_number)),
           TD_INT("delay_ms", config->drain_delay_ms),
           TD_INT("in_flight", atomic_load(&services->in_flight)));
    td_notify(daemon->manager, "STOPPING=1");
    const bool hurried = serve_until(daemon, until_ns) != 0;
    td_http_stop_accepting(daemon->http);
    td_refusals_close(services->refusals);
    if (hurried || drain_connections(daemon, daemon->drained_by_ns)) {
        daemon->drained_by_ns = td_now_ns();
        td_log(&services->log, TD_LOG_WARN, "drain_cut_short",
               TD_INT("in_flight", atomic_load(&services->in_flight)),
               TD_INT("unsent", atomic_load(&services->unsent)));
    }
    set_end(daemon);
    end_calls(daemon);
}

static void stop_exporter(struct daemon *daemon)
{
    const int64_t left = daemon->drained_by_ns - td_now_ns();
    td_exporter_stop(daemon->services->exporter, left < 0           ? 0
                                                 : left < EXPORT_NS ? left
                                                                    : EXPORT_NS);
    daemon->services->exporter = NULL;
}

static void log_start(const struct td_services *services, int64_t took_ns)
{
    struct td_error why;
    if (td_store_check_aliases(services->store, &why) == TD_OK)
        td_log(&services->log, TD_LOG_INFO, "ready", TD_MS("start_ms", took_ns));
    else
        td_log(&services->log, TD_LOG_WARN, "not_ready", TD_TEXT("reason", why.message),
               TD_MS("start_ms", took_ns));
}

static int run(struct td_services *services)
{
    struct daemon daemon = { .services = services,
                             .manager = getenv("NOTIFY_SOCKET"),
                             .ends_by_ns = TD_NEVER };
    int status = EXIT_FAILED;
    bool keeps_time = false;
    struct td_listeners inherited = { .n = 0 };
    char message[TD_CONFIG_MESSAGE];
    const bool usable = td_listeners_inherit(&inherited, message);
    set_up_signals(&daemon.signals);
    td_guard_install();
    const int64_t begun = td_now_ns();
    if (!usable) {
        td_log(&services->log, TD_LOG_ERROR, "listen_failed", TD_TEXT("reason", message));
        return EXIT_FAILED;
    }
    services->stop_requested = is_stop_pending;
    if (!td_services_open(services))
        goto done;
    keeps_time = pthread_create(&daemon.timekeeper, NULL, keep_time, &daemon) == 0;
    if (!keeps_time) {
        td_log(&services->log, TD_LOG_ERROR, "start_failed", TD_TEXT("part", "timekeeper"));
        goto done;
    }
    if (is_stop_pending()) {
        td_notify(daemon.manager, "STOPPING=1");
        status = 0;
        goto done;
    }
    if (services->config.otlp_endpoint[0] &&
        !(services->exporter = td_exporter_start(&services->config, &services->log)))
        goto done;
    if (!(daemon.http = td_http_start(services, &inherited)))
        goto done;
    log_start(services, td_now_ns() - begun);
    td_notify(daemon.manager, "READY=1");
    stop(&daemon, serve_until(&daemon, TD_NEVER));
    status = 0;
done:
    /* Stop the workers before HTTP, because a worker might still use the connection that it
     * resumed. */
    td_services_stop_workers(services);
    td_http_stop(daemon.http);
    stop_exporter(&daemon);
    const bool closed = td_services_close(services);
    atomic_store(&daemon.ended, true);
    if (keeps_time)
        pthread_join(daemon.timekeeper, NULL);
    td_log(&services->log, TD_LOG_INFO, "stopped", TD_INT("exit", status));
    if (!closed)
        _exit(status);
    return status;
}

static int check(const struct td_services *services)
{
    const bool starts = td_check_start(&services->config, services->tokens, &services->log, stdout);
    puts(starts ? "tensord: the configuration is valid" : "tensord: the server would not start");
    return starts ? 0 : EXIT_FAILED;
}

static int wrong(const char *message)
{
    fprintf(stderr, "tensord: %s\n", message);
    return EXIT_WRONG_CONFIG;
}

static int check_health(struct td_config *config)
{
    const bool is_alive = td_check_health(config, stdout);
    td_config_free(config);
    return is_alive ? 0 : EXIT_FAILED;
}

static bool check_origins(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    struct td_origins *origins =
        td_origins_new(config->allow_origin, config->allow_host, message, TD_CONFIG_MESSAGE);
    td_origins_free(origins);
    return origins != NULL;
}

static bool check_proxies(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    struct td_proxies *proxies = td_proxies_new(config->trusted_proxy, message, TD_CONFIG_MESSAGE);
    td_proxies_free(proxies);
    return proxies != NULL;
}

/* Logs unknown variables. They are not fatal, because the author of a container does not control
 * all of its variables. */
static void report_unknown_variables(const struct td_log *log)
{
    struct td_unknown_variable unknown;
    char **at = environ;
    while (td_config_unknown_variable(&at, &unknown))
        td_log(log, TD_LOG_WARN, "unknown_variable", TD_TEXT("name", unknown.name),
               TD_TEXT("did_you_mean", unknown.did_you_mean[0] ? unknown.did_you_mean : NULL));
}

/* Returns the width of the terminal, or 80. */
static int columns_of(int fd)
{
    enum { USUAL = 80, FEWEST = 40 };
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return USUAL;
    return size.ws_col < FEWEST ? FEWEST : size.ws_col;
}

/* Opens standard streams that are closed. Otherwise, another file could get the number of a
 * standard stream, and log lines would be written to that file. */
static void open_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    static struct td_services services;
    char message[TD_CONFIG_MESSAGE];
    int status = 0;
    open_standard_streams();
    const enum td_config_action action =
        td_config_load(&services.config, argc, argv, environ, message);
    switch (action) {
    case TD_CONFIG_HELP:
        td_config_help(stdout, columns_of(STDOUT_FILENO));
        return 0;
    case TD_CONFIG_PRINT:
        td_config_free(&services.config);
        return td_config_print(stdout, argc, argv, environ, message) ? 0 : wrong(message);
    case TD_CONFIG_VERSION:
        puts("tensord " TD_VERSION);
        return 0;
    case TD_CONFIG_WRONG:
        return wrong(message);
    case TD_CONFIG_CHECK_HEALTH:
        return check_health(&services.config);
    case TD_CONFIG_CHECK:
    case TD_CONFIG_RUN:
        break;
    }
    td_log_open(&services.log, STDERR_FILENO, services.config.log_level, services.config.log_format,
                &services.log_state);
    report_unknown_variables(&services.log);
    if (!td_config_check_system(&services.config, message) ||
        !check_origins(&services.config, message) || !check_proxies(&services.config, message) ||
        !td_collector_check(&services.config, message) ||
        !td_devices_check_system(&services.config, message) ||
        !td_credentials_open(&services, message, sizeof message)) {
        td_config_name_source(argc, argv, environ, message);
        status = wrong(message);
    } else if (action == TD_CONFIG_RUN)
        status = run(&services);
    else
        status = check(&services);
    td_credentials_close(&services);
    td_config_free(&services.config);
    return status;
}
