#include "tests/gates/gates.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Connects to a closed gate; -1 if the gate is open. */
static int arrive(const char *name, const char *what)
{
    const char *folder = getenv("TD_TEST_GATES");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char line[512];
    if (!folder)
        return -1;
    const int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        abort(); /* the test's folder has too long a name */
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        abort();
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    const int written = snprintf(line, sizeof line, "%s\n", what ? what : "");
    if (written > 0)
        (void)send(fd, line, strlen(line), MSG_NOSIGNAL);
    return fd;
}

/* True once the test has closed the connection. Waits at most timeout_ns; -1: without a limit. */
static bool is_released(int fd, int64_t timeout_ns)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };
    const struct timespec timeout = { .tv_sec = timeout_ns / 1000000000,
                                      .tv_nsec = timeout_ns % 1000000000 };
    return ppoll(&poller, 1, timeout_ns < 0 ? NULL : &timeout, NULL) > 0;
}

void td_gate(const char *name, const char *what)
{
    const int error = errno, fd = arrive(name, what);
    if (fd >= 0) {
        while (!is_released(fd, -1)) /* a signal interrupts it */
            continue;
        close(fd);
    }
    errno = error;
}

bool td_gate_is_open(struct td_polled_gate *gate, const char *name, int64_t timeout_ns)
{
    if (gate->fd < 0)
        gate->fd = arrive(name, NULL);
    if (gate->fd < 0)
        return true;
    if (!is_released(gate->fd, timeout_ns))
        return false;
    close(gate->fd);
    gate->fd = -1;
    return true;
}
