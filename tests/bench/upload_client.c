/* upload_client - measures the speed of uploads of a large body over one keep-alive connection.
 *
 *     upload_client PORT METHOD TARGET FILE UPLOADS MB_PER_S ["NAME: VALUE"]...
 *
 * Sends the file to 127.0.0.1 repeatedly, with these headers and at most at this rate (0:
 * unlimited; 10 Gbit/s is 1250). For each upload, prints the nanoseconds from the first byte sent
 * to the last byte of the reply. After any reply other than 200, the program ends with status 1. */
#include "tests/bench/measure.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 4096 };

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Appends formatted text and returns the new length. */
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

struct request {
    struct iovec head, body;
};

/* Maps the body from the file. A copy would need new memory, whose allocation would distort the
 * measurement. */
static struct request make_request(const char *method, const char *target, const char *file,
                                   char **headers)
{
    static char head[HEAD];
    struct stat status;
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        fail(file);
    const size_t bytes = (size_t)status.st_size;
    void *body = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (body == MAP_FAILED)
        fail(file);
    close(fd);
    size_t used = add(head, 0, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n",
                      method, target, bytes);
    for (; *headers; headers++)
        used = add(head, used, "%s\r\n", *headers);
    used = add(head, used, "\r\n");
    return (struct request){ { head, used }, { body, bytes } };
}

/* Sleeps until `ns` nanoseconds after `begun`. */
static void sleep_until(double begun, double ns)
{
    const double left = begun + ns - now_ns();
    if (left <= 0)
        return;
    const struct timespec time = { (time_t)(left / 1e9), (long)fmod(left, 1e9) };
    nanosleep(&time, NULL);
}

/* Sends head and body together at `rate` bytes per nanosecond, or without limit if `rate` is 0. */
static void send_request(int fd, struct request request, double rate)
{
    enum { BURST = 1 << 20 };
    const double begun = now_ns();
    size_t sent = 0;
    while (request.head.iov_len + request.body.iov_len > 0) {
        struct iovec chunks[] = { request.head, request.body };
        const struct msghdr message = { .msg_iov = chunks, .msg_iovlen = 2 };
        if (rate > 0 && chunks[1].iov_len > BURST)
            chunks[1].iov_len = BURST;
        const ssize_t put = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (put <= 0)
            fail("send");
        const size_t of_head =
            (size_t)put < request.head.iov_len ? (size_t)put : request.head.iov_len;
        request.head.iov_base = (char *)request.head.iov_base + of_head;
        request.head.iov_len -= of_head;
        request.body.iov_base = (char *)request.body.iov_base + ((size_t)put - of_head);
        request.body.iov_len -= (size_t)put - of_head;
        sent += (size_t)put;
        if (rate > 0)
            sleep_until(begun, (double)sent / rate);
    }
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

/* Reads and discards one reply. */
static void read_reply(int fd)
{
    static char room[1 << 20];
    size_t seen = 0;
    const char *end = NULL;
    while (!end) {
        const ssize_t got =
            seen < sizeof room - 1 ? read(fd, room + seen, sizeof room - 1 - seen) : -1;
        if (got <= 0)
            fail("the reply");
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
            fail("the body of the reply");
        left -= got;
    }
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr,
                "usage: upload_client PORT METHOD TARGET FILE UPLOADS MB_PER_S [HEADER]...\n");
        return 2;
    }
    const struct request request = make_request(argv[2], argv[3], argv[4], argv + 7);
    const double rate = atof(argv[6]) / 1e3;
    const int fd = connect_to((uint16_t)atoi(argv[1]));
    for (int uploads = atoi(argv[5]); uploads > 0; uploads--) {
        const double begun = now_ns();
        send_request(fd, request, rate);
        read_reply(fd);
        printf("%.0f\n", now_ns() - begun);
    }
    return 0;
}
