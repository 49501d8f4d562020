#include "server/http/handshakes.h"

#include "server/http/transport_errors.h"
#include "server/observe/clock.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVENTS = 64 };

struct handshake {
    struct handshake *next, **link; /* in the list of those that are not complete */
    int socket, io_thread;
    uint32_t waits_for;       /* events of epoll */
    gnutls_session_t session; /* NULL until the client has sent something */
    struct td_tls_identity *identity;
    struct sockaddr_storage peer;
    socklen_t length;
};

struct td_handshakes {
    struct td_services *services;
    struct td_io_thread *io_threads;
    pthread_t thread;
    bool running;
    int epoll, wake;       /* wake is an eventfd: stop */
    pthread_mutex_t mutex; /* guards the list */
    struct handshake *first;
};

/* ---- sessions for the library ---------------------------------------------------------------- */

/* The session that this thread gives to the library; NULL: none. */
static _Thread_local gnutls_session_t given;

/* The value of gnutls_db_get_ptr of sessions whose handshake is complete; the library does not use
 * it. */
static char complete;

/* The names are --wrap's. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __real_gnutls_init(gnutls_session_t *session, unsigned flags);
int __wrap_gnutls_init(gnutls_session_t *session, unsigned flags);
int __real_gnutls_handshake(gnutls_session_t session);
int __wrap_gnutls_handshake(gnutls_session_t session);

int __wrap_gnutls_init(gnutls_session_t *session, unsigned flags)
{
    if (!given)
        return __real_gnutls_init(session, flags);
    *session = given;
    given = NULL;
    return GNUTLS_E_SUCCESS;
}

int __wrap_gnutls_handshake(gnutls_session_t session)
{
    return gnutls_db_get_ptr(session) == &complete ? GNUTLS_E_SUCCESS
                                                   : __real_gnutls_handshake(session);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* The library insists on certificates of its own, which it does not need. */
static int no_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                          gnutls_pcert_st **certificates, unsigned *length,
                          gnutls_ocsp_data_st **responses, unsigned *n_responses,
                          gnutls_privkey_t *key, unsigned *flags)
{
    (void)session, (void)info, (void)certificates, (void)responses, (void)key;
    *length = *n_responses = *flags = 0;
    return -1;
}

bool td_handshakes_are_possible(void)
{
    return TD_MICROHTTPD_IS_STATIC && MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES;
}

void td_handshakes_set_options(struct MHD_OptionItem options[TD_HANDSHAKE_OPTIONS])
{
    gnutls_certificate_retrieve_function3 *const callback = no_certificate;
    options[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0,
                                          (void *)(uintptr_t)TD_TLS_PRIORITIES };
    options[1] =
        (struct MHD_OptionItem){ MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)callback };
    options[2] = (struct MHD_OptionItem){ MHD_OPTION_TLS_NO_ALPN, 1, NULL };
}

/* ---- a handshake ----------------------------------------------------------------------------- */

static void list(struct td_handshakes *handshakes, struct handshake *handshake)
{
    pthread_mutex_lock(&handshakes->mutex);
    handshake->link = &handshakes->first;
    handshake->next = handshakes->first;
    if (handshake->next)
        handshake->next->link = &handshake->next;
    handshakes->first = handshake;
    pthread_mutex_unlock(&handshakes->mutex);
}

static void unlist(struct td_handshakes *handshakes, struct handshake *handshake)
{
    pthread_mutex_lock(&handshakes->mutex);
    *handshake->link = handshake->next;
    if (handshake->next)
        handshake->next->link = handshake->link;
    pthread_mutex_unlock(&handshakes->mutex);
}

static void release(struct handshake *handshake)
{
    if (handshake->session)
        gnutls_deinit(handshake->session);
    td_tls_identity_unref(handshake->identity);
    free(handshake);
}

/* No events of the handshake come after this. To close the socket is not enough: while another
 * thread is in a call with it, such as that which adds it, the file stays open, and watched. */
static void unwatch(struct td_handshakes *handshakes, struct handshake *handshake)
{
    (void)epoll_ctl(handshakes->epoll, EPOLL_CTL_DEL, handshake->socket, NULL);
    unlist(handshakes, handshake);
}

/* Ends the connection. */
static void end(struct td_handshakes *handshakes, struct handshake *handshake)
{
    unwatch(handshakes, handshake);
    td_connections_close(handshakes->services->connections, handshake->socket);
    close(handshake->socket);
    release(handshake);
}

static void fail(struct td_handshakes *handshakes, struct handshake *handshake, int code)
{
    const struct td_services *services = handshakes->services;
    td_tls_count(services->tls, false);
    td_log(&services->log, TD_LOG_DEBUG, "handshake_failed",
           TD_TEXT("reason", gnutls_strerror(code)));
    if (handshake->session)
        (void)gnutls_alert_send_appropriate(handshake->session, code);
    end(handshakes, handshake);
}

/* Gives the connection to its I/O thread, which owns socket and session from then on. */
static void hand_over(struct td_handshakes *handshakes, struct handshake *handshake)
{
    struct td_services *services = handshakes->services;
    const int socket = handshake->socket;
    td_tls_count(services->tls, true);
    unwatch(handshakes, handshake);
    struct td_connection *record = td_connections_find(services->connections, socket);
    const uint64_t opened = record->opened;
    td_connection_skip_read(record, socket);
    gnutls_db_set_ptr(handshake->session, &complete);
    given = handshake->session;
    if (MHD_add_connection(handshakes->io_threads[handshake->io_thread].library, socket,
                           (const struct sockaddr *)&handshake->peer, handshake->length) != MHD_YES)
        td_connections_close_opened(services->connections, socket,
                                    opened); /* the library has closed the socket */
    handshake->session = given;              /* NULL, unless the library did not get so far */
    given = NULL;
    release(handshake);
}

static bool begin(struct td_handshakes *handshakes, struct handshake *handshake)
{
    const int on = 1;
    /* Each of its small messages would wait until the one before is acknowledged: 40 ms. */
    (void)setsockopt(handshake->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    handshake->session =
        td_tls_session_new(handshakes->services->tls, handshake->socket, &handshake->identity);
    return handshake->session != NULL;
}

static void wait_for(struct td_handshakes *handshakes, struct handshake *handshake, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = handshake };
    if (handshake->waits_for == events)
        return;
    handshake->waits_for = events;
    (void)epoll_ctl(handshakes->epoll, EPOLL_CTL_MOD, handshake->socket, &event);
}

/* True if the client has sent the method of an HTTP request. */
static bool speaks_http(const struct handshake *handshake)
{
    char first;
    return recv(handshake->socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first >= 'A' &&
           first <= 'Z';
}

static void advance(struct td_handshakes *handshakes, struct handshake *handshake)
{
    if (!handshake->session && speaks_http(handshake)) {
        td_transport_refuse_plain(handshakes->services, handshake->socket);
        fail(handshakes, handshake, GNUTLS_E_UNEXPECTED_PACKET);
        return;
    }
    if (!handshake->session && !begin(handshakes, handshake)) {
        fail(handshakes, handshake, GNUTLS_E_MEMORY_ERROR);
        return;
    }
    const int code = gnutls_handshake(handshake->session);
    if (code == GNUTLS_E_SUCCESS) {
        hand_over(handshakes, handshake);
    } else if (gnutls_error_is_fatal(code)) {
        fail(handshakes, handshake, code);
    } else {
        wait_for(handshakes, handshake,
                 gnutls_record_get_direction(handshake->session) ? EPOLLOUT : EPOLLIN);
    }
}

bool td_handshakes_add(struct td_handshakes *handshakes, int socket,
                       const struct sockaddr_storage *peer, socklen_t length, int io_thread)
{
    struct td_connection *record = td_connections_find(handshakes->services->connections, socket);
    struct handshake *handshake = calloc(1, sizeof *handshake);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = handshake };
    if (!handshake)
        return false;
    handshake->socket = socket;
    handshake->io_thread = io_thread;
    handshake->waits_for = event.events;
    handshake->peer = *peer;
    handshake->length = length;
    (void)td_connection_enter(record, TD_CONNECTION_WAITING, td_now_ns());
    list(handshakes, handshake);
    if (epoll_ctl(handshakes->epoll, EPOLL_CTL_ADD, socket, &event) == 0)
        return true;
    unlist(handshakes, handshake);
    release(handshake);
    return false;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *run(void *context)
{
    struct td_handshakes *handshakes = context;
    struct epoll_event events[EVENTS];
    (void)pthread_setname_np(pthread_self(), "handshakes");
    for (;;) {
        const int n = epoll_wait(handshakes->epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (!events[i].data.ptr)
                return NULL;
            advance(handshakes, events[i].data.ptr);
        }
    }
}

struct td_handshakes *td_handshakes_start(struct td_services *services,
                                          struct td_io_thread *io_threads)
{
    struct td_handshakes *handshakes = calloc(1, sizeof *handshakes);
    struct epoll_event stop = { .events = EPOLLIN, .data.ptr = NULL };
    if (!handshakes)
        return NULL;
    handshakes->services = services;
    handshakes->io_threads = io_threads;
    pthread_mutex_init(&handshakes->mutex, NULL);
    handshakes->epoll = epoll_create1(EPOLL_CLOEXEC);
    handshakes->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    handshakes->running =
        handshakes->epoll >= 0 && handshakes->wake >= 0 &&
        epoll_ctl(handshakes->epoll, EPOLL_CTL_ADD, handshakes->wake, &stop) == 0 &&
        pthread_create(&handshakes->thread, NULL, run, handshakes) == 0;
    if (handshakes->running)
        return handshakes;
    td_handshakes_stop(handshakes);
    return NULL;
}

void td_handshakes_stop(struct td_handshakes *handshakes)
{
    const uint64_t one = 1;
    if (!handshakes)
        return;
    if (handshakes->running) {
        const bool woken = write(handshakes->wake, &one, sizeof one) == sizeof one;
        (void)woken; /* fails only if the counter is full, and then the thread wakes anyway */
        pthread_join(handshakes->thread, NULL);
    }
    while (handshakes->first)
        end(handshakes, handshakes->first);
    if (handshakes->wake >= 0)
        close(handshakes->wake);
    if (handshakes->epoll >= 0)
        close(handshakes->epoll);
    pthread_mutex_destroy(&handshakes->mutex);
    free(handshakes);
}
