#include "server/http/listener.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 4096, PATH_ROOM = sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1 };

/* Returns a socket bound to the address, or -1 on failure. */
static int bind_socket(const char *address, const char **why)
{
    char host[256], service[8];
    uint16_t port = 0;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    const int on = 1;
    /* The address was checked when the options were read. */
    (void)td_config_split_address(address, host, &port);
    snprintf(service, sizeof service, "%u", port);
    const int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0) {
        *why = gai_strerror(code);
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
        *why = strerror(errno);
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

int td_listener_open(const char *address, const char **why)
{
    const char *path = td_config_socket_path(address);
    if (path)
        return td_unix_socket_open(path, BACKLOG, why);
    const int fd = bind_socket(address, why);
    if (fd < 0 || listen(fd, BACKLOG) == 0)
        return fd;
    *why = strerror(errno);
    close(fd);
    return -1;
}

/* Makes the kernel ignore new connections of a TCP socket. */
static void ignore_new(int fd)
{
    /* Closing the socket would reset the connections that wait in its backlog, and so would
     * shutting it down. Instead, a filter drops the first segments of new connections, which have
     * SYN but not ACK. Clients repeat them a second later, when the socket is closed or another
     * process has it. If filters are not allowed, only connections that are being established at
     * that moment are reset. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, offsetof(struct tcphdr, th_flags)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TH_SYN | TH_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TH_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = { .len = sizeof code / sizeof *code, .filter = code };
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

int td_listener_reserve(const char *address, const char **why)
{
    const char *path = td_config_socket_path(address);
    if (path)
        return td_unix_socket_open(path, 0, why);
    const int fd = bind_socket(address, why);
    if (fd < 0)
        return -1;
    ignore_new(fd);
    if (listen(fd, 1) == 0)
        return fd;
    *why = strerror(errno);
    close(fd);
    return -1;
}

bool td_listener_is_loopback(const struct td_listener_address *bound)
{
    const struct sockaddr_in *ipv4 = (const void *)&bound->address;
    const struct sockaddr_in6 *ipv6 = (const void *)&bound->address;
    if (bound->address.ss_family == AF_INET)
        return ntohl(ipv4->sin_addr.s_addr) >> 24 == 127;
    return bound->address.ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr) && ipv6->sin6_addr.s6_addr[12] == 127));
}

bool td_listener_is_unix(const struct td_listener_address *bound)
{
    return bound->address.ss_family == AF_UNIX;
}

bool td_listener_is_local(const struct td_listener_address *bound)
{
    return td_listener_is_unix(bound) || td_listener_is_loopback(bound);
}

bool td_listener_set_mode(const struct td_listener *listener, mode_t mode, const char **why)
{
    return !td_listener_is_unix(&listener->bound) ||
           td_socket_file_set_mode(&listener->file, mode, why);
}

void td_listener_shut(struct td_listener *listener)
{
    if (td_listener_is_unix(&listener->bound))
        td_socket_file_remove(&listener->file);
    else
        ignore_new(listener->fd);
}

/* Returns the path of a Unix socket. The kernel omits the NUL of the longest path. */
static const char *path_of(const struct td_listener_address *bound, char path[PATH_ROOM])
{
    const struct sockaddr_un *local = (const void *)&bound->address;
    snprintf(path, PATH_ROOM, "%.*s", (int)(bound->length - offsetof(struct sockaddr_un, sun_path)),
             local->sun_path);
    return path;
}

void td_listener_print(const struct td_listener_address *bound, char *text, size_t size)
{
    char path[PATH_ROOM];
    if (td_listener_is_unix(bound)) {
        snprintf(text, size, "unix:%s", path_of(bound, path));
        return;
    }
    char host[NI_MAXHOST] = "?", service[NI_MAXSERV] = "?";
    getnameinfo((const struct sockaddr *)&bound->address, bound->length, host, sizeof host, service,
                sizeof service, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, size, strchr(host, ':') ? "[%.200s]:%.30s" : "%.200s:%.30s", host, service);
}

bool td_listener_find(int fd, struct td_listener_address *bound, const char **why)
{
    bound->length = sizeof bound->address;
    if (getsockname(fd, (struct sockaddr *)&bound->address, &bound->length) == 0)
        return true;
    *why = strerror(errno);
    return false;
}

/* ---- sockets of a service manager ------------------------------------------------------------ */

/* Returns the number in the variable, 0 if the variable is not set, or -1 if its value is not a
 * number. */
static long number_of(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    if (!text || !*text)
        return 0;
    errno = 0;
    const long number = strtol(text, &end, 10);
    return *end == '\0' && errno == 0 && number >= 0 ? number : -1;
}

static bool has_option(int fd, int option, int value)
{
    int found = 0;
    socklen_t size = sizeof found;
    return getsockopt(fd, SOL_SOCKET, option, &found, &size) == 0 && found == value;
}

/* Describes why the socket cannot be used, or returns NULL if it can. */
static const char *fault_of(int fd, struct td_listener_address *bound)
{
    const char *why;
    if (fcntl(fd, F_GETFD) < 0)
        return "is not open";
    if (!has_option(fd, SO_TYPE, SOCK_STREAM) || !has_option(fd, SO_ACCEPTCONN, 1))
        return "is not a listening stream socket";
    if (!td_listener_find(fd, bound, &why))
        return why;
    if (td_listener_is_unix(bound))
        return bound->length > offsetof(struct sockaddr_un, sun_path) &&
                       ((const struct sockaddr_un *)(const void *)&bound->address)->sun_path[0]
                   ? NULL
                   : "is an abstract Unix socket, which has no permissions; expected a path";
    return bound->address.ss_family == AF_INET || bound->address.ss_family == AF_INET6
               ? NULL
               : "is neither an IPv4, an IPv6, nor a Unix socket";
}

bool td_listeners_inherit(struct td_listeners *listeners, char message[TD_CONFIG_MESSAGE])
{
    enum { FIRST = 3 };
    const long pid = number_of("LISTEN_PID"), count = number_of("LISTEN_FDS");
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    if (pid != (long)getpid() || count == 0)
        return true;
    if (count < 0 || count > TD_MOST_ADDRESSES) {
        snprintf(message, TD_CONFIG_MESSAGE,
                 "LISTEN_FDS is not a number of listening sockets from 1 to %d", TD_MOST_ADDRESSES);
        return false;
    }
    for (int fd = FIRST; fd < FIRST + (int)count; fd++) {
        struct td_listener *listener = &listeners->all[listeners->n];
        const char *fault = fault_of(fd, &listener->bound);
        if (fault) {
            snprintf(message, TD_CONFIG_MESSAGE, "LISTEN_FDS is %ld, but descriptor %d %s", count,
                     fd, fault);
            return false;
        }
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        listener->fd = fd;
        listeners->n++;
    }
    return true;
}

/* ---- all addresses --------------------------------------------------------------------------- */

static unsigned port_of(const struct td_listener *listener)
{
    const struct sockaddr_in *ipv4 = (const void *)&listener->bound.address;
    const struct sockaddr_in6 *ipv6 = (const void *)&listener->bound.address;
    return ntohs(ipv4->sin_family == AF_INET6 ? ipv6->sin6_port : ipv4->sin_port);
}

/* True if a listener has the port of this address. */
static bool has_port(const struct td_listeners *listeners, const char *address)
{
    char host[256];
    uint16_t port = 0;
    if (td_config_socket_path(address))
        return false;
    (void)td_config_split_address(address, host, &port);
    for (int i = 0; i < listeners->n; i++)
        if (!td_listener_is_unix(&listeners->all[i].bound) && port_of(&listeners->all[i]) == port)
            return true;
    return false;
}

int td_listeners_open_beside(const struct td_listeners *listeners, const char *address,
                             int (*open)(const char *address, const char **why), const char **why)
{
    const int fd = open(address, why);
    if (fd < 0 && strcmp(*why, strerror(EADDRINUSE)) == 0 && has_port(listeners, address))
        *why = "Address already in use, possibly by another address of this daemon (--listen, "
               "--metrics-listen); 0.0.0.0 includes all IPv4 addresses, and [::] includes all IPv6 "
               "and IPv4 addresses";
    return fd;
}

bool td_listeners_take(struct td_listeners *listeners, int fd, const char **why)
{
    char path[PATH_ROOM];
    struct td_listener *listener = &listeners->all[listeners->n];
    *listener = (struct td_listener){ .fd = fd };
    if (!td_listener_find(fd, &listener->bound, why)) {
        close(fd);
        return false;
    }
    if (td_listener_is_unix(&listener->bound))
        td_socket_file_find(&listener->file, path_of(&listener->bound, path));
    listeners->n++;
    return true;
}

bool td_listeners_add(struct td_listeners *listeners, const char *address,
                      int (*open)(const char *address, const char **why), const char **why)
{
    const int fd = td_listeners_open_beside(listeners, address, open, why);
    return fd >= 0 && td_listeners_take(listeners, fd, why);
}

void td_listeners_close(struct td_listeners *listeners)
{
    for (int i = 0; i < listeners->n; i++) {
        td_socket_file_remove(&listeners->all[i].file);
        close(listeners->all[i].fd);
    }
    listeners->n = 0;
}
