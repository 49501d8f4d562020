/* fuzz_oip.c - bodies of the Open Inference Protocol: inference, the repository, shared memory.
 *
 * Input    A byte that selects the op (fuzz_op), or with the values from 0xf0 a body of the
 *          repository or of shared memory; two bytes, little-endian: the length of the JSON as in
 *          Inference-Header-Content-Length, 0xffff for no header; the body. */
#include "api/codec.h"
#include "api/message/message.h"
#include "api/oip/oip.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char *header_of(const struct td_reply *reply, const char *name)
{
    for (int i = 0; i < reply->n_headers; i++)
        if (strcmp(reply->headers[i].name, name) == 0)
            return reply->headers[i].value;
    return NULL;
}

static void expect_error(const struct td_error *err, td_status status, size_t size,
                         struct td_arena *arena)
{
    struct td_reply reply = { 0 };
    size_t bytes;
    fuzz_expect_error(err, status, size);
    td_oip_problem(err, "gather", "gather", "request", arena, &reply);
    REQUIRE(reply.http_status >= 400, "%d", reply.http_status);
    char *text = fuzz_reply(&reply, SIZE_MAX, &bytes);
    fuzz_expect_json(text, bytes);
    free(text);
}

static void encode(struct td_request *request, struct td_arena *arena)
{
    struct td_error err = { 0 };
    struct td_reply reply = { 0 };
    size_t bound, outputs = 0, size;
    td_status status = td_oip_can_encode(request, &err);
    if (status == TD_OK)
        status = td_oip_encode(request, arena, &reply, &err);
    if (status != TD_OK) {
        expect_error(&err, status, SIZE_MAX >> 1, arena);
        return;
    }
    for (int i = 0; i < request->args.n_outputs; i++)
        outputs += request->args.outputs[i].bytes;
    REQUIRE(td_oip_encoded_bound(request, &bound), "no bound");
    bound += fuzz_beyond_bound(request->args.outputs, request->args.n_outputs);
    char *text = fuzz_reply(&reply, bound + outputs, &size);
    const char *header = header_of(&reply, "Inference-Header-Content-Length");
    const size_t json = header ? strtoull(header, NULL, 10) : size;
    REQUIRE(json <= size, "a header of %zu in %zu bytes", json, size);
    fuzz_expect_oip_json(text, json);
    free(text);
}

/* The bodies that are not those of ops. */
static void read_document(int which, const char *body, size_t size, struct td_arena *arena)
{
    struct td_error err = { 0 };
    struct td_reply reply = { 0 };
    struct td_oip_region region = { 0 };
    const struct td_oip_model model = td_oip_model_of(fuzz_op(0));
    size_t bytes;
    const td_status status =
        which == 0   ? td_oip_check_index(body, size, arena, &err)
        : which == 1 ? td_oip_repository_load(body, size, &model, arena, &reply, &err)
        : which == 2 ? td_oip_repository_unload(body, size, &model, arena, &err)
                     : td_oip_read_region(body, size, arena, &region, &err);
    if (status != TD_OK) {
        expect_error(&err, status, size, arena);
    } else if (which == 1) {
        char *text = fuzz_reply(&reply, SIZE_MAX, &bytes);
        if (bytes)
            fuzz_expect_json(text, bytes);
        free(text);
    } else if (which == 3) {
        REQUIRE(region.key && strlen(region.key) <= size, "no key");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t number = fuzz_byte(&data, &size);
    size_t json = fuzz_byte(&data, &size);
    json |= (size_t)fuzz_byte(&data, &size) << 8;
    struct td_arena *arena = fuzz_arena_open();
    struct td_request request;
    struct td_error err = { 0 };
    uint64_t timeout_us;
    const struct td_oip_source source = { .json_bytes = json == 0xffff ? TD_OIP_NO_HEADER : json,
                                          .resolver = fuzz_resolver(),
                                          .regions = number & 0x80 ? NULL : fuzz_regions() };
    char *body = fuzz_copy(data, size, 64); /* TD_JSON_PADDING */
    if (number >= 0xf0) {
        read_document(number & 3, body, size, arena);
        goto done;
    }
    (void)td_oip_names_shared_memory(body, json < size ? json : size);
    td_request_init(&request, fuzz_op(number & 0x7f));
    const td_status status = td_oip_decode(body, size, &source, arena, &request, &timeout_us, &err);
    if (status != TD_OK) {
        expect_error(&err, status, size, arena);
    } else {
        if (source.json_bytes == TD_OIP_NO_HEADER)
            fuzz_expect_oip_json(data, size);
        fuzz_expect_request(&request);
        if (fuzz_run(&request, arena))
            encode(&request, arena);
    }
done:
    free(body);
    fuzz_arena_close(arena);
    return 0;
}
