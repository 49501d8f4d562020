#include "server/http/handshakes.h"

#include "server/http/tls_output.h"
#include "server/http/transport_errors.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVENTS = 64 };

struct td_handshake {
    /* Links in the list of an I/O thread, and later in the list of incomplete handshakes. */
    struct td_handshake *next, **link;
    struct MHD_Connection *connection;
    gnutls_session_t session; /* session that the library made */
    int socket;
    uint32_t waits_for;               /* events that epoll waits for */
    struct td_tls_identity *identity; /* NULL until the client has sent something */
    bool held;                        /* the library must still send the last message */
};

struct td_handshakes {
    struct td_services *services;
    pthread_t thread;
    bool running;
    int epoll, wake;       /* `wake` is an eventfd that stops the thread */
    pthread_mutex_t mutex; /* guards the list */
    struct td_handshake *first;
};

/* ---- the library's sessions ------------------------------------------------------------------ */

/* Handshake that this thread is performing, or NULL on I/O threads. */
static _Thread_local struct td_handshake *performed;

/* Sends the session's bytes, except the server's last message of a TLS 1.2 handshake, which the
 * library sends. If GnuTLS were called after that message was sent, it would start another
 * handshake. With TLS 1.3, the client sends the last message, and calling GnuTLS again does
 * nothing. */
static ssize_t push(gnutls_transport_ptr_t socket, const giovec_t *parts, int n)
{
    const struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)parts,
                                    .msg_iovlen = (size_t)n };
    if (!performed || gnutls_handshake_get_last_in(performed->session) != GNUTLS_HANDSHAKE_FINISHED)
        return sendmsg((int)(intptr_t)socket, &message, MSG_NOSIGNAL);
    performed->held = true;
    errno = EAGAIN;
    return -1;
}

/* Receives nothing, so a session whose handshake has failed cannot continue. */
static ssize_t pull_nothing(gnutls_transport_ptr_t socket, void *data, size_t size)
{
    (void)socket, (void)data, (void)size;
    errno = ECONNRESET;
    return -1;
}

/* Provides no certificate. The library insists on having certificates, but does not need them
 * here. */
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
    return MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES;
}

void td_handshakes_set_options(struct MHD_OptionItem options[TD_HANDSHAKE_OPTIONS])
{
    gnutls_certificate_retrieve_function3 *const callback = no_certificate;
    options[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0,
                                          (void *)(uintptr_t)TD_TLS_PRIORITIES };
    options[1] =
        (struct MHD_OptionItem){ MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)callback };
}

/* ---- a handshake ----------------------------------------------------------------------------- */

static void list(struct td_handshakes *handshakes, struct td_handshake *handshake)
{
    pthread_mutex_lock(&handshakes->mutex);
    handshake->link = &handshakes->first;
    handshake->next = handshakes->first;
    if (handshake->next)
        handshake->next->link = &handshake->next;
    handshakes->first = handshake;
    pthread_mutex_unlock(&handshakes->mutex);
}

static void unlist(struct td_handshakes *handshakes, struct td_handshake *handshake)
{
    pthread_mutex_lock(&handshakes->mutex);
    *handshake->link = handshake->next;
    if (handshake->next)
        handshake->next->link = handshake->link;
    pthread_mutex_unlock(&handshakes->mutex);
}

/* Gives the connection back to its I/O thread, which uses the session from then on, and frees the
 * handshake. */
static void resume(struct td_handshakes *handshakes, struct td_handshake *handshake)
{
    (void)epoll_ctl(handshakes->epoll, EPOLL_CTL_DEL, handshake->socket, NULL);
    unlist(handshakes, handshake);
    MHD_resume_connection(handshake->connection);
    td_tls_identity_unref(handshake->identity);
    free(handshake);
}

/* Ends the connection. The library finds that the connection cannot be used, and closes it. */
static void end(struct td_handshakes *handshakes, struct td_handshake *handshake)
{
    gnutls_transport_set_pull_function(handshake->session, pull_nothing);
    (void)shutdown(handshake->socket, SHUT_RDWR);
    resume(handshakes, handshake);
}

static void fail(struct td_handshakes *handshakes, struct td_handshake *handshake, int code)
{
    const struct td_services *services = handshakes->services;
    td_tls_count_failed(services->tls);
    td_log(&services->log, TD_LOG_DEBUG, "handshake_failed",
           TD_TEXT("reason", gnutls_strerror(code)));
    if (handshake->identity)
        (void)gnutls_alert_send_appropriate(handshake->session, code);
    end(handshakes, handshake);
}

static void complete(struct td_handshakes *handshakes, struct td_handshake *handshake)
{
    const struct td_services *services = handshakes->services;
    struct td_connection *record = td_connections_find(services->connections, handshake->socket);
    td_tls_count_complete(services->tls, handshake->session);
    td_connection_skip_read(record, handshake->socket);
    record->tls_output = td_tls_output_new(handshake->socket, services->buffers);
    if (record->tls_output) {
        gnutls_transport_set_ptr2(handshake->session,
                                  (gnutls_transport_ptr_t)(intptr_t)handshake->socket,
                                  record->tls_output);
        gnutls_transport_set_vec_push_function(handshake->session, td_tls_output_push);
    }
    resume(handshakes, handshake);
}

static void begin(struct td_handshakes *handshakes, struct td_handshake *handshake)
{
    const int on = 1;
    /* Without this option, each small message would wait up to 40 ms until the previous message is
     * acknowledged. */
    (void)setsockopt(handshake->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    gnutls_transport_set_vec_push_function(handshake->session, push);
    handshake->identity = td_tls_session_begin(handshakes->services->tls, handshake->session);
}

static void wait_for(struct td_handshakes *handshakes, struct td_handshake *handshake,
                     uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = handshake };
    if (handshake->waits_for == events)
        return;
    handshake->waits_for = events;
    (void)epoll_ctl(handshakes->epoll, EPOLL_CTL_MOD, handshake->socket, &event);
}

/* True if the client has sent the method of an HTTP request. */
static bool speaks_http(const struct td_handshake *handshake)
{
    char first;
    return recv(handshake->socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first >= 'A' &&
           first <= 'Z';
}

static void advance(struct td_handshakes *handshakes, struct td_handshake *handshake)
{
    if (!handshake->identity && speaks_http(handshake)) {
        td_transport_refuse_plain(handshakes->services, handshake->socket);
        fail(handshakes, handshake, GNUTLS_E_UNEXPECTED_PACKET);
        return;
    }
    if (!handshake->identity)
        begin(handshakes, handshake);
    performed = handshake;
    const int code = gnutls_handshake(handshake->session);
    performed = NULL;
    if (code == GNUTLS_E_SUCCESS || handshake->held) {
        complete(handshakes, handshake);
    } else if (gnutls_error_is_fatal(code)) {
        fail(handshakes, handshake, code);
    } else {
        wait_for(handshakes, handshake,
                 gnutls_record_get_direction(handshake->session) ? EPOLLOUT : EPOLLIN);
    }
}

/* ---- from the I/O threads -------------------------------------------------------------------- */

void td_handshakes_prepare(struct td_handshake **prepared, struct MHD_Connection *connection,
                           int socket)
{
    struct td_handshake *handshake = calloc(1, sizeof *handshake);
    if (!handshake) {
        (void)shutdown(socket, SHUT_RDWR); /* the library then closes the connection */
        return;
    }
    handshake->connection = connection;
    handshake->session =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;
    handshake->socket = socket;
    handshake->next = *prepared;
    *prepared = handshake;
}

void td_handshakes_forget(struct td_handshake **prepared, const struct MHD_Connection *connection)
{
    while (*prepared && (*prepared)->connection != connection)
        prepared = &(*prepared)->next;
    struct td_handshake *handshake = *prepared;
    if (!handshake)
        return;
    *prepared = handshake->next;
    free(handshake);
}

void td_handshakes_submit(struct td_handshakes *handshakes, struct td_handshake **prepared)
{
    while (*prepared) {
        struct td_handshake *handshake = *prepared;
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = handshake };
        *prepared = handshake->next;
        handshake->waits_for = event.events;
        MHD_suspend_connection(handshake->connection);
        list(handshakes, handshake);
        /* From here on, the handshake thread might free the handshake. */
        if (epoll_ctl(handshakes->epoll, EPOLL_CTL_ADD, handshake->socket, &event) != 0)
            end(handshakes, handshake);
    }
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

struct td_handshakes *td_handshakes_start(struct td_services *services)
{
    struct td_handshakes *handshakes = calloc(1, sizeof *handshakes);
    struct epoll_event stop = { .events = EPOLLIN, .data.ptr = NULL };
    if (!handshakes)
        return NULL;
    handshakes->services = services;
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
