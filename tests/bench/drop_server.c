/* drop_server - the baseline of the benchmarks: a server on the same libmicrohttpd with the same
 * flags, threads and connection memory. It discards every body and sends a fixed reply.
 *
 *     drop_server [--reply BYTES] [--io-threads N] [--connection-memory BYTES]
 *
 * Prints its port and serves until it is killed. The difference to tensord is the cost of decoding
 * the request, the op, encoding the reply, and two additional headers. */
#include <arpa/inet.h>

#include <getopt.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *bytes, void **state)
{
    static int seen; /* its address marks a request whose headers have arrived */
    (void)path;
    (void)method;
    (void)version;
    (void)data;
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    if (*bytes > 0) {
        *bytes = 0;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, context);
}

static size_t number(const char *text)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || value < 1 || value > 1 << 30) {
        fprintf(stderr, "drop_server: '%s' is not a number from 1 to 1073741824\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = { { "reply", required_argument, NULL, 'r' },
                                             { "io-threads", required_argument, NULL, 't' },
                                             { "connection-memory", required_argument, NULL, 'm' },
                                             { NULL, 0, NULL, 0 } };
    size_t reply = 64, io_threads = 2, connection_memory = 32 << 10;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'r':
            reply = number(optarg);
            break;
        case 't':
            io_threads = number(optarg);
            break;
        case 'm':
            connection_memory = number(optarg);
            break;
        default:
            return 2;
        }
    char *body = malloc(reply);
    if (!body)
        return 1;
    memset(body, 'x', reply);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply, body, MHD_RESPMEM_PERSISTENT);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    /* The same options as in server/http/http.c; it does not accept a pool of one thread either. */
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
        handle, response, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_memory, MHD_OPTION_CONNECTION_TIMEOUT, 60u,
        io_threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (unsigned)io_threads,
        MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info) {
        fprintf(stderr, "drop_server: libmicrohttpd did not start\n");
        return 1;
    }
    printf("%u\n", info->port);
    fflush(stdout);
    for (;;)
        pause();
}
