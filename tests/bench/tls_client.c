/* tls_client - measures the rate of requests that each use a new connection.
 *
 *     tls_client PORT SECONDS plain|full|resumed
 *
 * Four threads send GET /healthz to 127.0.0.1, one request after another. With `full`, each
 * connection performs a whole TLS handshake. With `resumed`, it resumes the session of the thread's
 * previous connection. Certificates are not verified. Prints the requests per second and how many
 * connections were resumed. After any reply other than 200, the program ends with status 1. */
#include "tests/bench/measure.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4 };

static const char request[] =
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

static struct {
    struct sockaddr_in address;
    double end_ns;
    bool tls, resumes;
    gnutls_certificate_credentials_t credentials;
} run;

struct counts {
    int64_t requests, resumed;
};

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "tls_client: %s\n", what);
    exit(1);
}

static int connected(void)
{
    const int on = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Otherwise, the request would wait until the end of the handshake is acknowledged. */
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        connect(fd, (const struct sockaddr *)&run.address, sizeof run.address) != 0)
        fail("cannot connect");
    return fd;
}

static void check(const char *reply, ssize_t size)
{
    static const char ok[] = "HTTP/1.1 200";
    if (size < (ssize_t)sizeof ok || memcmp(reply, ok, sizeof ok - 1) != 0)
        fail("a reply has a status other than 200");
}

static void exchange_plain(void)
{
    char reply[4096];
    ssize_t size = 0, got = 1;
    const int fd = connected();
    if (write(fd, request, sizeof request - 1) < 0)
        fail("cannot send");
    for (; got > 0 && size<(ssize_t)sizeof reply; size += got> 0 ? got : 0)
        got = read(fd, reply + size, sizeof reply - (size_t)size);
    check(reply, size);
    close(fd);
}

/* Reads until the server closes the connection. A ticket shows as GNUTLS_E_AGAIN. */
static void read_reply(gnutls_session_t session)
{
    char reply[4096];
    ssize_t size = 0, got = 1;
    for (; got > 0 || got == GNUTLS_E_AGAIN; size += got > 0 ? got : 0)
        got = gnutls_record_recv(session, reply + size, sizeof reply - (size_t)size);
    check(reply, size);
}

static void exchange_secure(gnutls_datum_t *resumable, struct counts *counts)
{
    gnutls_session_t session;
    const int fd = connected();
    gnutls_init(&session, GNUTLS_CLIENT);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, run.credentials);
    gnutls_transport_set_int(session, fd);
    if (run.resumes && resumable->data)
        gnutls_session_set_data(session, resumable->data, resumable->size);
    if (gnutls_handshake(session) < 0)
        fail("a handshake failed");
    counts->resumed += gnutls_session_is_resumed(session) != 0;
    if (gnutls_record_send(session, request, sizeof request - 1) < 0)
        fail("cannot send");
    read_reply(session);
    if (run.resumes) {
        gnutls_free(resumable->data);
        gnutls_session_get_data2(session, resumable);
    }
    gnutls_deinit(session);
    close(fd);
}

static void *load(void *context)
{
    struct counts *counts = context;
    gnutls_datum_t resumable = { NULL, 0 };
    for (; now_ns() < run.end_ns; counts->requests++) {
        if (run.tls)
            exchange_secure(&resumable, counts);
        else
            exchange_plain();
    }
    gnutls_free(resumable.data);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    struct counts counts[THREADS] = { { 0, 0 } }, all = { 0, 0 };
    if (argc != 4) {
        fprintf(stderr, "usage: tls_client PORT SECONDS plain|full|resumed\n");
        return 2;
    }
    const int seconds = atoi(argv[2]);
    run.address = (struct sockaddr_in){ .sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)atoi(argv[1])),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    run.tls = strcmp(argv[3], "plain") != 0;
    run.resumes = strcmp(argv[3], "resumed") == 0;
    gnutls_certificate_allocate_credentials(&run.credentials);
    run.end_ns = now_ns() + seconds * 1e9;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, load, &counts[i]) != 0)
            fail("cannot start a thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all.requests += counts[i].requests;
        all.resumed += counts[i].resumed;
    }
    printf("%.1f requests/s, %lld of %lld resumed\n", (double)all.requests / seconds,
           (long long)all.resumed, (long long)all.requests);
    gnutls_certificate_free_credentials(run.credentials);
    return 0;
}
