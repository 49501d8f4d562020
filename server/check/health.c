#include "server/check/health.h"

#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEP_S = 2, STATUS_LINE = 12 /* bytes of "HTTP/1.1 200" */ };

/* Replaces 0.0.0.0 or [::] with the loopback address, at which the daemon can be reached. */
static void replace_any_address(struct sockaddr *address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)address;
    if (address->sa_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY))
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (address->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
        v6->sin6_addr = in6addr_loopback;
}

/* Returns a connected socket, or -1 with *why set. */
static int connect_socket(const struct sockaddr *address, socklen_t length, const char **why)
{
    const struct timeval step = { .tv_sec = STEP_S };
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &step, sizeof step) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &step, sizeof step) == 0 &&
        connect(fd, address, length) == 0)
        return fd;
    /* The last error is a Unix socket's. */
    *why = errno == EINPROGRESS || errno == EAGAIN ? "the server does not accept connections"
                                                   : strerror(errno);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Returns a socket that is connected to the address, or -1 with *why set. */
static int connect_to(const char *address, const char **why)
{
    char host[256], service[8];
    uint16_t port = 0;
    const char *path = td_config_socket_path(address);
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    if (path) {
        snprintf(local.sun_path, sizeof local.sun_path, "%s", path);
        return connect_socket((const struct sockaddr *)&local, sizeof local, why);
    }
    /* The address was checked when the options were parsed. */
    (void)td_config_split_address(address, host, &port);
    if (port == 0)
        return *why = "port 0 stands for any free port; give the actual port", -1;
    snprintf(service, sizeof service, "%u", port);
    const int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0)
        return *why = gai_strerror(code), -1;
    replace_any_address(found->ai_addr);
    const int fd = connect_socket(found->ai_addr, found->ai_addrlen, why);
    freeaddrinfo(found);
    return fd;
}

/* Connection to the daemon: a socket, and a TLS session if the daemon has a certificate. */
struct peer {
    int fd;
    gnutls_session_t session; /* NULL without TLS */
    gnutls_certificate_credentials_t credentials;
};

/* Performs the TLS handshake. The certificate is not verified, because it is issued for a name
 * other than localhost. Verification would add nothing, because a process that could replace the
 * daemon on this machine could also answer here. */
static bool secure(struct peer *peer, const char **why)
{
    int code = gnutls_certificate_allocate_credentials(&peer->credentials);
    if (code >= 0)
        code = gnutls_init(&peer->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    if (code >= 0)
        code = gnutls_set_default_priority(peer->session);
    if (code >= 0)
        code = gnutls_credentials_set(peer->session, GNUTLS_CRD_CERTIFICATE, peer->credentials);
    if (code >= 0) {
        gnutls_transport_set_int(peer->session, peer->fd);
        code = gnutls_handshake(peer->session);
    }
    if (code < 0)
        *why = code == GNUTLS_E_AGAIN ? "the server does not answer the TLS handshake"
                                      : gnutls_strerror(code);
    return code >= 0;
}

/* Describes the failure of a call that returned `got`. */
static const char *failure(const struct peer *peer, ssize_t got)
{
    if (peer->session)
        return got == 0                ? "the server closed the connection without a reply"
               : got == GNUTLS_E_AGAIN ? "the server does not reply"
                                       : gnutls_strerror((int)got);
    if (got == 0 || errno == ECONNRESET || errno == EPIPE)
        return "the server closed the connection without a reply. If the server uses HTTPS, pass "
               "--tls-certificate here too";
    return errno == EAGAIN ? "the server does not reply" : strerror(errno);
}

/* Receives bytes of the reply. A server can send tickets before the reply. GnuTLS then returns
 * GNUTLS_E_AGAIN, as it does after a timeout, which also sets errno. */
static ssize_t receive(const struct peer *peer, char *to, size_t room)
{
    enum { TICKETS = 8 };
    ssize_t got = GNUTLS_E_AGAIN;
    if (!peer->session)
        return recv(peer->fd, to, room, 0);
    errno = 0;
    for (int i = 0; got == GNUTLS_E_AGAIN && errno != EAGAIN && i < TICKETS; i++)
        got = gnutls_record_recv(peer->session, to, room);
    return got;
}

/* Sends the request and reads the start of the reply. */
static bool ask(const struct peer *peer, char line[STATUS_LINE + 1], const char **why)
{
    static const char request[] =
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const ssize_t size = sizeof request - 1;
    ssize_t got = peer->session ? gnutls_record_send(peer->session, request, (size_t)size)
                                : send(peer->fd, request, (size_t)size, MSG_NOSIGNAL);
    for (ssize_t n = 0; got > 0 && n < STATUS_LINE; n += got)
        got = receive(peer, line + n, (size_t)(STATUS_LINE - n));
    if (got <= 0)
        return *why = failure(peer, got), false;
    line[STATUS_LINE] = '\0';
    if (strncmp(line, "HTTP/1.", 7) == 0 && strcmp(line + 8, " 200") == 0)
        return true;
    if (strncmp(line, "HTTP/1.", 7) != 0)
        *why = "the reply is not HTTP";
    else if (!peer->session && strcmp(line + 8, " 400") == 0)
        *why =
            "the status of the reply is 400. If the server uses HTTPS, pass --tls-certificate here "
            "too";
    else
        *why = "the status of the reply is not 200";
    return false;
}

bool td_check_health(const struct td_config *config, FILE *out)
{
    char line[STATUS_LINE + 1], address[TD_ADDRESS_SIZE] = "";
    const char *why = NULL, *rest = config->listen;
    (void)td_config_next_address(&rest, address);
    struct peer peer = { .fd = connect_to(address, &why) };
    const bool tls = config->tls_certificate[0] && !td_config_socket_path(address);
    const bool is_alive = peer.fd >= 0 && (!tls || secure(&peer, &why)) && ask(&peer, line, &why);
    if (peer.session)
        gnutls_deinit(peer.session);
    if (peer.credentials)
        gnutls_certificate_free_credentials(peer.credentials);
    if (peer.fd >= 0)
        close(peer.fd);
    fprintf(out, "tensord: %s %s%s%s\n", address, is_alive ? "is alive" : "is not alive",
            why ? ": " : "", why ? why : "");
    return is_alive;
}
