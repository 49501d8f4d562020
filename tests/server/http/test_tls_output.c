#include "server/http/tls_output.h"
#include "server/memory/buffer_pool.h"
#include "tests/support/suite.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADERS = 300, RECORD = 16406, LIMIT = 1 << 20 };

/* An output whose socket does not block, and the client's end of its connection. */
static int ours, client;
static struct td_buffer_pool *budget;
static struct td_tls_output *output;

static void set_up_with(uint64_t limit)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ours = ends[0], client = ends[1];
    ck_assert_int_eq(fcntl(ours, F_SETFL, O_NONBLOCK), 0);
    budget = td_buffer_pool_new(limit, 0);
    output = td_tls_output_new(ours, budget);
}

static void set_up(void)
{
    set_up_with(LIMIT);
}

static void tear_down(void)
{
    td_tls_output_free(output);
    ck_assert_uint_eq(td_buffer_pool_usage(budget).in_use, 0);
    td_buffer_pool_free(budget);
    close(ours);
    close(client);
}

TD_FIXTURE(set_up, tear_down);

/* Passes one record as GnuTLS does, in two parts. The bytes depend on `first`. */
static ssize_t push(size_t size, size_t first)
{
    char *bytes = malloc(size);
    const size_t half = size / 2;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)((first + i) * 7 / 5);
    const ssize_t taken = td_tls_output_push(
        output, (const giovec_t[]){ { bytes, half }, { bytes + half, size - half } }, 2);
    free(bytes);
    return taken;
}

static int arrived(void)
{
    int bytes = -1;
    ck_assert_int_eq(ioctl(client, FIONREAD, &bytes), 0);
    return bytes;
}

TD_TEST(the_records_of_a_reply_are_sent_together)
{
    td_tls_output_expect(output, 200);
    ck_assert_int_eq(push(HEADERS, 0), HEADERS);
    ck_assert_int_eq(arrived(), 0);
    ck_assert_int_eq(push(222, 0), 222);
    ck_assert_int_eq(arrived(), HEADERS + 222);
}

TD_TEST(headers_without_a_body_are_sent_at_once)
{
    td_tls_output_expect(output, 0);
    ck_assert_int_eq(push(HEADERS, 0), HEADERS);
    ck_assert_int_eq(arrived(), HEADERS);
}

TD_TEST(other_records_are_sent_at_once)
{
    ck_assert_int_eq(push(40, 0), 40);
    ck_assert_int_eq(arrived(), 40);
    td_tls_output_expect(output, 10);
    ck_assert_int_eq(push(HEADERS, 0) + push(10, 0), HEADERS + 10);
    ck_assert_int_eq(push(40, 0), 40);
    ck_assert_int_eq(arrived(), 40 + HEADERS + 10 + 40);
}

TD_TEST(the_end_of_a_body_is_sent_even_if_encryption_adds_no_bytes)
{
    td_tls_output_expect(output, 2 * 16384);
    ck_assert_int_eq(push(HEADERS, 0), HEADERS);
    ck_assert_int_eq(push(16384, 0), 16384);
    ck_assert_int_eq(arrived(), 0);
    ck_assert_int_eq(push(16384, 0), 16384);
    ck_assert_int_eq(arrived(), HEADERS + 2 * 16384);
}

TD_TEST(records_are_sent_when_there_is_no_more_room)
{
    td_tls_output_expect(output, 1 << 20);
    ck_assert_int_eq(push(HEADERS, 0), HEADERS);
    int held = HEADERS;
    while (arrived() == 0) {
        ck_assert_int_le(held, TD_TLS_HELD);
        ck_assert_int_eq(push(RECORD, 0), RECORD);
        held += RECORD;
    }
    ck_assert_int_eq(arrived(), held);
    ck_assert_int_gt(held, TD_TLS_HELD);
}

TD_TEST(without_memory_each_record_is_sent_at_once)
{
    tear_down();
    set_up_with(100);
    td_tls_output_expect(output, 1 << 20);
    ck_assert_int_eq(push(HEADERS, 0), HEADERS);
    ck_assert_int_eq(arrived(), HEADERS);
}

TD_TEST(held_records_are_charged_until_they_are_sent)
{
    td_tls_output_expect(output, 1000);
    ck_assert_int_eq(push(HEADERS, 0), HEADERS);
    ck_assert_uint_ge(td_buffer_pool_usage(budget).in_use, HEADERS);
    ck_assert_int_eq(push(1022, 0), 1022);
    ck_assert_uint_eq(td_buffer_pool_usage(budget).in_use, 0);
}

TD_TEST(held_records_of_a_connection_that_ends_are_freed)
{
    td_tls_output_expect(output, 1000);
    ck_assert_int_eq(push(HEADERS, 0), HEADERS);
    ck_assert_int_eq(arrived(), 0);
}

/* Reads all bytes that have arrived. Checks that they continue the bytes that `push` makes. */
static size_t read_arrived(size_t first)
{
    char bytes[1 << 16];
    const ssize_t n = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return 0;
    for (ssize_t i = 0; i < n; i++)
        ck_assert_int_eq(bytes[i], (char)((first + (size_t)i) * 7 / 5));
    return (size_t)n;
}

TD_TEST(a_client_that_reads_slowly_gets_each_byte_once)
{
    const int small = 4096;
    const size_t body = 1 << 20;
    size_t pushed = 0, read = 0;
    bool waited = false;
    ck_assert_int_eq(setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    td_tls_output_expect(output, body);
    while (pushed < HEADERS + body) {
        const size_t size = pushed == 0                        ? HEADERS
                            : HEADERS + body - pushed < RECORD ? HEADERS + body - pushed
                                                               : RECORD - pushed % 3;
        const ssize_t taken = push(size, pushed);
        if (taken < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            waited = true;
            read += read_arrived(read);
        } else {
            pushed += (size_t)taken;
        }
    }
    for (size_t n = 1; n > 0; read += n)
        n = read_arrived(read);
    ck_assert(waited);
    ck_assert_uint_eq(read, HEADERS + body);
}

TD_TEST(a_client_that_has_gone_is_an_error)
{
    close(client);
    client = dup(ours);
    ck_assert_int_eq(push(HEADERS, 0), -1);
    ck_assert_int_eq(errno, EPIPE);
}
