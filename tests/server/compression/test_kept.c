#include "server/compression/kept.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char text[5000];

static struct td_memory *memory;
static int taken;

static struct td_buffer *take_counted(struct td_memory *self, size_t bytes, struct td_error *err)
{
    (void)self;
    taken++;
    return memory->take(memory, bytes, err);
}

static struct td_memory counted = { .take = take_counted };

/* Its chunks are its own, so it is not returned by value. */
static void ask_for(struct td_kept *kept, const char *tag, size_t size, td_encoding encoding,
                    struct td_memory *from, struct td_reply *reply)
{
    struct td_error err;
    *reply = (struct td_reply){ 0 };
    td_reply_set(reply, 200, "text/plain", text, size);
    ck_assert_int_eq(td_kept_deflate(kept, tag, reply, encoding, from, &test_arena, &err), TD_OK);
}

static struct td_kept *new_kept(void)
{
    struct td_kept *kept = td_kept_new();
    ck_assert_ptr_nonnull(kept);
    memory = td_memory_heap();
    taken = 0;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "import {el} from dom;"[i * 7 % 21];
    return kept;
}

static const char *encoding_of(const struct td_reply *reply)
{
    return reply->n_headers == 1 ? reply->headers[0].value : "";
}

TD_TEST(a_document_is_compressed_once_in_each_encoding)
{
    struct td_kept *kept = new_kept();
    const void *data[2] = { NULL };
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++) {
            const td_encoding encoding = i ? TD_ENCODING_DEFLATE : TD_ENCODING_GZIP;
            struct td_reply reply;
            ask_for(kept, "\"a\"", sizeof text, encoding, &counted, &reply);
            ck_assert_str_eq(encoding_of(&reply), i ? "deflate" : "gzip");
            ck_assert_uint_lt(td_reply_bytes(&reply), sizeof text);
            if (round == 2)
                ck_assert_ptr_eq(reply.chunks[0].data, data[i]);
            data[i] = reply.chunks[0].data;
        }
    ck_assert_int_eq(taken, 2);
    td_kept_free(kept);
}

TD_TEST(documents_are_told_from_each_other_by_their_tags)
{
    struct td_kept *kept = new_kept();
    const size_t sizes[] = { 1000, 5000 };
    size_t compressed[2][2];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            struct td_reply reply;
            ask_for(kept, i ? "\"b\"" : "\"a\"", sizes[i], TD_ENCODING_GZIP, memory, &reply);
            compressed[round][i] = td_reply_bytes(&reply);
        }
    ck_assert_uint_ne(compressed[0][0], compressed[0][1]);
    ck_assert_mem_eq(compressed[0], compressed[1], sizeof compressed[0]);
    td_kept_free(kept);
}

TD_TEST(a_reply_that_is_not_compressed_is_not_kept)
{
    struct td_kept *kept = new_kept();
    struct td_reply reply;
    ask_for(kept, "\"a\"", sizeof text, TD_ENCODING_GZIP, &no_memory, &reply);
    ck_assert_str_eq(encoding_of(&reply), "");
    ck_assert_ptr_eq(reply.chunks[0].data, text);
    ask_for(kept, "\"a\"", sizeof text, TD_ENCODING_NONE, memory, &reply);
    ck_assert_ptr_eq(reply.chunks[0].data, text);
    ask_for(kept, "\"s\"", TD_DEFLATE_LEAST - 1, TD_ENCODING_GZIP, memory, &reply);
    ck_assert_ptr_eq(reply.chunks[0].data, text);
    ask_for(kept, "\"a\"", sizeof text, TD_ENCODING_GZIP, memory, &reply);
    ck_assert_str_eq(encoding_of(&reply), "gzip");
    td_kept_free(kept);
}

TD_TEST(documents_beyond_the_bound_and_long_tags_are_compressed_each_time)
{
    struct td_kept *kept = new_kept();
    char tag[2 * TD_KEPT_TAG];
    struct td_reply reply;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TD_KEPT_DOCUMENTS + 3; i++) {
            snprintf(tag, sizeof tag, "\"%d\"", i);
            ask_for(kept, tag, 600, TD_ENCODING_GZIP, &counted, &reply);
            ck_assert_str_eq(encoding_of(&reply), "gzip");
        }
    ck_assert_int_eq(taken, TD_KEPT_DOCUMENTS + 6);
    memset(tag, 'x', sizeof tag - 1);
    tag[sizeof tag - 1] = '\0';
    for (int round = 0; round < 2; round++)
        ask_for(kept, tag, 600, TD_ENCODING_GZIP, &counted, &reply);
    ck_assert_int_eq(taken, TD_KEPT_DOCUMENTS + 8);
    td_kept_free(kept);
}

static void *ask(void *context)
{
    struct td_error err;
    struct td_arena arena;
    _Alignas(64) char first[1024];
    td_arena_init(&arena, first, sizeof first, td_memory_heap());
    for (int i = 0; i < 200; i++) {
        char tag[16];
        struct td_reply reply = { 0 };
        snprintf(tag, sizeof tag, "\"%d\"", i % 20);
        td_reply_set(&reply, 200, "text/plain", text, 600 + (size_t)(i % 20));
        if (td_kept_deflate(context, tag, &reply, TD_ENCODING_GZIP, td_memory_heap(), &arena,
                            &err) != TD_OK ||
            reply.n_headers != 1)
            return context;
    }
    td_arena_reset(&arena);
    return NULL;
}

TD_TEST(threads_may_ask_for_one_document_at_once)
{
    enum { THREADS = 4 };
    struct td_kept *kept = new_kept();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, kept), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    td_kept_free(kept);
}
