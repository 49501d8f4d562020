/* fuzz_safetensors.c - safetensors: files, and bodies of ops.
 *
 * Input    A byte that selects the op (fuzz_op), the file. */
#include "api/codec.h"
#include "api/files/safetensors.h"
#include "api/message/common_members.h"
#include "api/message/message.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* Every readable tensor of a valid file lies in it, and what is written is read again. */
static void read_file(const char *body, size_t size, struct td_arena *arena)
{
    struct td_safetensors file;
    struct td_error err = { 0 };
    const td_status status = td_safetensors_open_partly(body, size, arena, &file, &err);
    if (status != TD_OK) {
        fuzz_expect_error(&err, status, size);
        return;
    }
    for (int i = 0; i < file.n_entries; i++) {
        if (file.entries[i].unreadable)
            continue;
        fuzz_expect_tensor(&file.entries[i].tensor);
        fuzz_expect_within(&file.entries[i].tensor, body, size);
        fuzz_expect_round_trip(&file.entries[i].tensor, TD_FORMAT_SAFETENSORS, TD_LAYOUT_NESTED);
    }
    for (int i = 0; i < file.n_metadata; i++)
        REQUIRE(strlen(file.metadata[i].key) + strlen(file.metadata[i].value) <= size, "metadata");
}

/* The reply is a file with the outputs. */
static void encode(struct td_request *request, struct td_arena *arena)
{
    struct td_error err = { 0 };
    struct td_reply reply = { 0 };
    struct td_safetensors file;
    size_t bound, outputs = 0, size;
    const td_status can = td_codec_can_encode(TD_FORMAT_SAFETENSORS, request, &err);
    td_status status = td_codec_encode(TD_FORMAT_SAFETENSORS, request, arena, &reply, &err);
    if (status != TD_OK) {
        REQUIRE(can != TD_OK || status == TD_MEMORY_EXHAUSTED, "%s", err.message);
        fuzz_expect_error(&err, status, 0);
        return;
    }
    for (int i = 0; i < request->args.n_outputs; i++)
        outputs += request->args.outputs[i].bytes;
    REQUIRE(td_codec_encoded_bound(TD_FORMAT_SAFETENSORS, request, &bound), "no bound");
    char *text = fuzz_reply(&reply, bound + outputs, &size);
    status = td_safetensors_open(text, size, arena, &file, &err);
    REQUIRE(status == TD_OK, "%s", err.message);
    REQUIRE(file.n_entries == request->args.n_outputs, "%d outputs", file.n_entries);
    if (file.n_entries == 1)
        fuzz_expect_same(&file.entries[0].tensor, &request->args.outputs[0], true);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct td_op *op = fuzz_op(fuzz_byte(&data, &size));
    struct td_arena *arena = fuzz_arena_open();
    struct td_request request;
    struct td_error err = { 0 };
    char *body = fuzz_copy(data, size, 0);
    read_file(body, size, arena);
    td_request_init(&request, op);
    const td_status status =
        td_codec_decode(TD_FORMAT_SAFETENSORS, body, size, fuzz_resolver(), arena, &request, &err);
    if (status != TD_OK) {
        fuzz_expect_error(&err, status, size);
    } else {
        fuzz_expect_request(&request);
        if (fuzz_run(&request, arena))
            encode(&request, arena);
    }
    free(body);
    fuzz_arena_close(arena);
    return 0;
}
