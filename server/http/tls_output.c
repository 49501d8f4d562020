#include "server/http/tls_output.h"

#include "server/memory/buffer_pool.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    OVERHEAD = 256, /* bytes that encryption adds to a few records */
    MOST_PARTS = 32 /* GnuTLS passes no more parts than this; the rest would be passed again */
};

struct td_tls_output {
    int socket;
    struct td_buffer_pool *budget;
    bool headers; /* the next record has the headers of a reply */
    /* At most the number of bytes of the body that are still to come, because the sizes of records
     * after encryption are subtracted. */
    size_t remaining;
    char *held;              /* room for records, or NULL */
    size_t room, begin, end; /* bytes [begin, end) are held */
};

struct td_tls_output *td_tls_output_new(int socket, struct td_buffer_pool *budget)
{
    struct td_tls_output *output = calloc(1, sizeof *output);
    if (output)
        *output = (struct td_tls_output){ .socket = socket, .budget = budget };
    return output;
}

/* Makes room only while half of the budget is free, so that clients that read slowly cannot use it
 * up. */
static void make_room(struct td_tls_output *output, size_t size)
{
    const struct td_buffer_pool_usage usage = td_buffer_pool_usage(output->budget);
    if (usage.in_use > usage.limit / 2 || !td_buffer_pool_charge_if_room(output->budget, size))
        return;
    output->held = malloc(size);
    if (output->held)
        output->room = size;
    else
        td_buffer_pool_discharge(output->budget, size);
}

static void release_room(struct td_tls_output *output)
{
    free(output->held);
    td_buffer_pool_discharge(output->budget, output->room);
    output->held = NULL;
    output->room = output->begin = output->end = 0;
}

void td_tls_output_free(struct td_tls_output *output)
{
    if (output)
        release_room(output);
    free(output);
}

void td_tls_output_expect(struct td_tls_output *output, size_t size)
{
    if (!output)
        return;
    output->headers = true;
    output->remaining = size;
}

/* Returns the value of `remaining` after a record of `size` bytes. The headers do not count. */
static size_t remaining_after(const struct td_tls_output *output, size_t size)
{
    if (output->headers)
        return output->remaining;
    return output->remaining > size ? output->remaining - size : 0;
}

static void count(struct td_tls_output *output, size_t size)
{
    output->remaining = remaining_after(output, size);
    output->headers = false;
}

/* Returns the room that the rest of a reply needs if its next record has `size` bytes. */
static size_t room_for(const struct td_tls_output *output, size_t size)
{
    const size_t rest = output->remaining < TD_TLS_HELD ? output->remaining : TD_TLS_HELD;
    const size_t room = size + rest + OVERHEAD;
    return room < TD_TLS_HELD ? room : TD_TLS_HELD;
}

/* Copies the parts after the held bytes. Returns false if there is no room. */
static bool hold(struct td_tls_output *output, const giovec_t *parts, int n, size_t size)
{
    if (!output->held)
        make_room(output, room_for(output, size));
    if (size > output->room - output->end)
        return false;
    for (int i = 0; i < n; i++) {
        memcpy(output->held + output->end, parts[i].iov_base, parts[i].iov_len);
        output->end += parts[i].iov_len;
    }
    return true;
}

/* Sends the held bytes and the parts. Returns the number of bytes of the parts that were sent. */
static ssize_t send_all(struct td_tls_output *output, const giovec_t *parts, int n)
{
    struct iovec all[1 + MOST_PARTS];
    const size_t held = output->end - output->begin;
    const size_t used = n < MOST_PARTS ? (size_t)n : MOST_PARTS;
    all[0] = (struct iovec){ output->held ? output->held + output->begin : NULL, held };
    memcpy(all + 1, parts, used * sizeof *all);
    const struct msghdr message = { .msg_iov = all, .msg_iovlen = 1 + used };
    const ssize_t sent = sendmsg(output->socket, &message, MSG_NOSIGNAL);
    if (sent < 0)
        return -1;
    if ((size_t)sent <= held && held > 0) {
        output->begin += (size_t)sent;
        errno = EAGAIN;
        return -1;
    }
    output->begin = output->end = 0;
    return sent - (ssize_t)held;
}

ssize_t td_tls_output_push(gnutls_transport_ptr_t pointer, const giovec_t *parts, int n)
{
    struct td_tls_output *output = pointer;
    size_t size = 0;
    for (int i = 0; i < n; i++)
        size += parts[i].iov_len;
    const bool more = remaining_after(output, size) > 0;
    ssize_t taken = (ssize_t)size;
    if (!more || !hold(output, parts, n, size))
        taken = send_all(output, parts, n);
    if (taken > 0)
        count(output, (size_t)taken);
    /* While a client reads slowly, each record waits in GnuTLS, so no room is needed. */
    if ((!more || taken < (ssize_t)size) && output->end == output->begin)
        release_room(output);
    return taken;
}
