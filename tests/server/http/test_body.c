/* The bytes of a body as they arrive: limits, and memory that is given back. */
#include "server/calls/client_limits.h"
#include "server/calls/services_open.h"
#include "server/config/load.h"
#include "server/http/body.h"
#include "server/observe/clock.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LIMIT = 4 << 20, CHUNKS = 65536, CHUNK_BYTES = 16 };

static struct td_services services;
static char *bytes; /* LIMIT + 1 */
static struct td_call *call;

static void server_open(void)
{
    static char *nothing[] = { NULL };
    char *arguments[] = { (char *)(uintptr_t) "tensord", (char *)(uintptr_t) "--workers=1",
                          (char *)(uintptr_t) "--max-body=4M",
                          (char *)(uintptr_t) "--memory-limit=64M", NULL };
    char message[TD_CONFIG_MESSAGE];
    memset(&services, 0, sizeof services);
    services.log.fd = -1;
    ck_assert_int_eq(td_config_load(&services.config, 4, arguments, nothing, message),
                     TD_CONFIG_RUN);
    ck_assert(td_services_open(&services));
    bytes = calloc(1, LIMIT + 1);
    ck_assert_ptr_nonnull(bytes);
}

static void server_close(void)
{
    free(bytes);
    td_services_close(&services);
    td_config_free(&services.config);
}

static uint64_t in_use(void)
{
    return td_buffer_pool_usage(services.buffers).in_use;
}

/* A call whose body is about to arrive; length -1: in chunks. */
static td_status begin(int64_t length)
{
    call = td_call_new(&services);
    ck_assert_ptr_nonnull(call);
    call->body_limit = TD_BODY_ANY;
    call->schedule.deadline_ns = TD_NEVER;
    call->headers.content_length = length;
    call->headers.chunked = length < 0;
    return td_body_begin(call);
}

/* Receives n chunks of this size; the status of the last one, or the first that is refused. */
static td_status receive(int n, size_t size)
{
    td_status status = TD_OK;
    for (int i = 0; i < n && status == TD_OK; i++)
        status = td_body_receive(call, bytes, size);
    return status;
}

static void end(void)
{
    td_call_free(call);
    ck_assert_uint_eq(in_use(), 0);
}

TD_TEST(a_body_has_at_most_max_body_bytes)
{
    ck_assert_int_eq(begin(LIMIT), TD_OK);
    ck_assert_int_eq(receive(1, LIMIT), TD_OK);
    ck_assert_uint_eq(call->body_bytes, LIMIT);
    end();
    ck_assert_int_eq(begin(LIMIT + 1), TD_PAYLOAD_TOO_LARGE);
    end();
    ck_assert_int_eq(begin(-1), TD_OK);
    ck_assert_int_eq(receive(LIMIT / 65536, 65536), TD_OK);
    ck_assert_uint_eq(call->body_bytes, LIMIT);
    ck_assert_int_eq(receive(1, 1), TD_PAYLOAD_TOO_LARGE);
    ck_assert_uint_eq(in_use(), 0); /* while the client sends the rest */
    end();
}

/* From 65536 chunks on they have 16 bytes on average. */
static const struct {
    int n;
    size_t size;
    bool refused;
} chunks[] = {
    { CHUNKS - 1, 1, false },
    { CHUNKS, 1, true },
    { CHUNKS, CHUNK_BYTES - 1, true },
    { CHUNKS, CHUNK_BYTES, false },
    { CHUNKS + 1000, CHUNK_BYTES, false },
};

TD_TEST_EACH(a_body_has_few_or_large_chunks, chunks)
{
    ck_assert_int_eq(begin(-1), TD_OK);
    ck_assert_int_eq(receive(chunks[_i].n, chunks[_i].size),
                     chunks[_i].refused ? TD_MALFORMED_REQUEST : TD_OK);
    ck_assert(call->http.close_connection == chunks[_i].refused);
    if (chunks[_i].refused) {
        ck_assert_msg(strstr(call->error.message, "65536 chunks") != NULL, "%s",
                      call->error.message);
        ck_assert_uint_eq(in_use(), 0);
    }
    end();
}

TD_TEST(large_chunks_may_be_followed_by_small_ones)
{
    ck_assert_int_eq(begin(-1), TD_OK);
    ck_assert_int_eq(receive(1, 2 * CHUNKS * CHUNK_BYTES), TD_OK);
    ck_assert_int_eq(receive(CHUNKS + 1000, 1), TD_OK);
    end();
}

TD_TEST(a_growing_body_holds_only_its_last_buffer)
{
    ck_assert_int_eq(begin(-1), TD_OK);
    for (int i = 0; i < 60; i++) {
        ck_assert_int_eq(receive(1, 60000), TD_OK);
        ck_assert_uint_eq(in_use(), call->body_buffer->size);
    }
    end();
}

static struct td_client *new_client(void)
{
    static const struct td_client_key key = { .kind = TD_CLIENT_ADDRESS };
    struct td_client *client = td_clients_find(services.clients, &key);
    ck_assert_ptr_nonnull(client);
    return client;
}

TD_TEST(a_client_is_charged_for_the_last_buffer_of_a_growing_body)
{
    ck_assert_int_eq(begin(-1), TD_OK);
    call->client = new_client();
    for (int i = 0; i < 60; i++) {
        ck_assert_int_eq(receive(1, 60000), TD_OK);
        const uint64_t charged = atomic_load(&call->client->memory_bytes);
        ck_assert_uint_le(charged, call->body_buffer->size);
        ck_assert_uint_ge(charged, call->body_buffer->size / 2);
        ck_assert_uint_le(charged, LIMIT);
    }
    end();
}

TD_TEST(a_body_is_refused_when_it_needs_more_than_the_memory_of_its_client)
{
    services.config.client_memory = 1 << 20;
    struct td_call *other = td_call_new(&services);
    other->client = new_client();
    ck_assert_int_eq(td_client_limits_charge(other, 1000), TD_OK);
    ck_assert_int_eq(begin(-1), TD_OK);
    call->client = new_client();
    ck_assert_int_eq(receive(8, 60000), TD_OK);
    ck_assert_int_eq(receive(20, 60000), TD_CLIENT_LIMIT);
    ck_assert_str_eq(call->error.resource, "memory_bytes");
    ck_assert_uint_eq(in_use(), 0); /* while the client sends the rest */
    td_call_free(other);
    end();
}

TD_TEST(an_expanded_body_replaces_the_compressed_one)
{
    static const struct td_task nothing = { .decode = NULL };
    enum { EXPANDED = 3 << 20, COMPRESSED = 1 << 20 };
    char *packed = malloc(COMPRESSED);
    uLongf packed_bytes = COMPRESSED;
    uint32_t random = 1;
    ck_assert_ptr_nonnull(packed);
    for (int i = 0; i < EXPANDED; i += 100) /* too irregular for a few bytes */
        bytes[i] = (char)((random = random * 1664525 + 1013904223) >> 24);
    ck_assert_int_eq(compress((Bytef *)packed, &packed_bytes, (Bytef *)bytes, EXPANDED), Z_OK);
    ck_assert_int_eq(begin(-1), TD_OK);
    call->task = &nothing;
    call->encoded = true;
    ck_assert_int_eq(td_body_receive(call, packed, packed_bytes), TD_OK);
    ck_assert_uint_gt(in_use(), 0);
    ck_assert_int_eq(td_call_decode(call), TD_OK);
    ck_assert_uint_eq(call->body_bytes, EXPANDED);
    ck_assert_mem_eq(call->body, bytes, EXPANDED);
    ck_assert_uint_eq(in_use(), call->body_buffer->size);
    end();
    free(packed);
}

TD_TEST(a_body_that_cannot_be_expanded_is_given_back_with_its_call)
{
    static const struct td_task nothing = { .decode = NULL };
    ck_assert_int_eq(begin(-1), TD_OK);
    call->task = &nothing;
    call->encoded = true;
    ck_assert_int_eq(receive(1, 100000), TD_OK);
    ck_assert_int_eq(td_call_decode(call), TD_MALFORMED_REQUEST);
    end();
}

TD_FIXTURE(server_open, server_close);
