#include "server/observe/notify.h"

#include "server/observe/clock.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void td_notify(const char *address, const char *state)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    const size_t length = address ? strlen(address) : 0;
    if (length < 2 || length >= sizeof to.sun_path || (address[0] != '/' && address[0] != '@'))
        return;
    memcpy(to.sun_path, address, length);
    if (address[0] == '@')
        to.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                 (const struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

void td_notify_reloading(const char *address)
{
    char state[80];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, td_now_ns() / 1000);
    td_notify(address, state);
}
