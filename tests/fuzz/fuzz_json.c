/* fuzz_json.c - JSON bodies of ops: decoded, run, encoded.
 *
 * Input    A byte that selects the op (fuzz_op), the body. */
#include "api/codec.h"
#include "api/message/common_members.h"
#include "api/message/message.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static void expect_inputs_return(const struct td_request *request)
{
    for (int i = 0; i < request->op->n_inputs; i++)
        for (int j = 0; j < request->args.inputs[i].count; j++)
            for (int layout = TD_LAYOUT_NESTED; layout <= TD_LAYOUT_BASE64; layout++)
                fuzz_expect_round_trip(&request->args.inputs[i].tensors[j], TD_FORMAT_JSON,
                                       (td_layout)layout);
}

static void encode(struct td_request *request, struct td_arena *arena)
{
    struct td_error err = { 0 };
    struct td_reply reply = { 0 };
    size_t bound, size;
    if (!td_codec_encoded_bound(TD_FORMAT_JSON, request, &bound))
        return;
    const td_status status = td_codec_encode(TD_FORMAT_JSON, request, arena, &reply, &err);
    if (status != TD_OK) {
        fuzz_expect_error(&err, status, 0);
        return;
    }
    char *text = fuzz_reply(
        &reply, bound + fuzz_beyond_bound(request->args.outputs, request->args.n_outputs), &size);
    fuzz_expect_json(text, size);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct td_op *op = fuzz_op(fuzz_byte(&data, &size));
    struct td_arena *arena = fuzz_arena_open();
    struct td_request request;
    struct td_error err = { 0 };
    char *body = fuzz_copy(data, size, TD_JSON_PADDING);
    td_request_init(&request, op);
    const td_status status =
        td_codec_decode(TD_FORMAT_JSON, body, size, fuzz_resolver(), arena, &request, &err);
    if (status != TD_OK) {
        fuzz_expect_error(&err, status, size);
    } else {
        fuzz_expect_json(data, size);
        fuzz_expect_request(&request);
        expect_inputs_return(&request);
        if (fuzz_run(&request, arena))
            encode(&request, arena);
    }
    free(body);
    fuzz_arena_close(arena);
    return 0;
}
