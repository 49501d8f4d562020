/* upload_client - how fast a server takes a large body, over one connection that stays open.
 *
 *     upload_client PORT METHOD TARGET FILE UPLOADS ["NAME: VALUE"]...
 *
 * Sends the file to 127.0.0.1 again and again, with these headers; for each upload prints the
 * nanoseconds from the first byte sent to the last byte of the answer. Answers other than 200 end it
 * with status 1. */
#include "tests/bench/measure.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 4096 };

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* The bytes so far, after what is printed there. */
__attribute__((format(printf, 3, 4))) static size_t add(char *to, size_t used, const char *format,
                                                        ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(to + used, HEAD - used, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= HEAD - used) {
        fprintf(stderr, "upload_client: the headers have more than %d bytes\n", HEAD);
        exit(2);
    }
    return used + (size_t)length;
}

/* Head and body in one piece, so that they go out without a seam. */
static char *make_request(const char *method, const char *target, const char *file, char **headers,
                          size_t *size)
{
    struct stat status;
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        fail(file);
    const size_t body = (size_t)status.st_size;
    char *request = malloc(HEAD + body);
    if (!request)
        fail("malloc");
    size_t head = add(request, 0, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n",
                      method, target, body);
    for (; *headers; headers++)
        head = add(request, head, "%s\r\n", *headers);
    head = add(request, head, "\r\n");
    size_t filled = 0;
    while (filled < body) {
        const ssize_t got = read(fd, request + head + filled, body - filled);
        if (got <= 0)
            fail(file);
        filled += (size_t)got;
    }
    close(fd);
    *size = head + body;
    return request;
}

static int connect_to(uint16_t port)
{
    const int on = 1;
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(port),
                                         .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    return fd;
}

/* Reads one answer and forgets it. */
static void read_answer(int fd)
{
    static char room[1 << 20];
    size_t seen = 0;
    const char *end = NULL;
    while (!end) {
        const ssize_t got =
            seen < sizeof room - 1 ? read(fd, room + seen, sizeof room - 1 - seen) : -1;
        if (got <= 0)
            fail("the answer");
        seen += (size_t)got;
        room[seen] = '\0';
        end = strstr(room, "\r\n\r\n");
    }
    const char *length = strcasestr(room, "\r\nContent-Length:");
    if (strncmp(room, "HTTP/1.1 200 ", 13) != 0 || !length || length > end) {
        fprintf(stderr, "upload_client: not a 200 with a length: %.200s\n", room);
        exit(1);
    }
    long long left = atoll(length + 17) - (long long)(seen - (size_t)(end + 4 - room));
    while (left > 0) {
        const ssize_t got = read(fd, room, sizeof room);
        if (got <= 0)
            fail("the answer's body");
        left -= got;
    }
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: upload_client PORT METHOD TARGET FILE UPLOADS [HEADER]...\n");
        return 2;
    }
    size_t size;
    const char *request = make_request(argv[2], argv[3], argv[4], argv + 6, &size);
    const int fd = connect_to((uint16_t)atoi(argv[1]));
    for (int uploads = atoi(argv[5]); uploads > 0; uploads--) {
        const double begun = now_ns();
        for (size_t sent = 0; sent < size;) {
            const ssize_t put = send(fd, request + sent, size - sent, MSG_NOSIGNAL);
            if (put <= 0)
                fail("send");
            sent += (size_t)put;
        }
        read_answer(fd);
        printf("%.0f\n", now_ns() - begun);
    }
    return 0;
}
