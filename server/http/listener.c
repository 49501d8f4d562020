#include "server/http/listener.h"

#include "server/config/config.h"

#include <netinet/in.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

int td_listener_open(const char *address, const char **why)
{
    char host[256], service[8];
    uint16_t port = 0;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    const int on = 1;
    (void)td_config_split_address(address, host, &port); /* checked when the options were read */
    snprintf(service, sizeof service, "%u", port);
    const int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0) {
        *why = gai_strerror(code);
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        *why = strerror(errno);
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
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

void td_listener_print(const struct td_listener_address *bound, char *text, size_t size)
{
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
