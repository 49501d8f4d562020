/* fuzz_npy.c - NumPy's .npy files, and bodies and replies of ops in this format.
 *
 * Input    The file. Its size selects the op (fuzz_op) and the dtype of the outputs. */
#include "api/codec.h"
#include "api/files/npy.h"
#include "api/message/attrs.h"
#include "api/message/outputs.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* A file without conversion holds the tensor as it is; a converted one has the same elements in
 * another order, so that their bytes have the same sum. */
static void expect_same_bytes(const struct td_npy *file, const struct td_tensor *read, bool in_file,
                              const char *body, size_t size)
{
    unsigned long before = 0, after = 0;
    REQUIRE(in_file == td_npy_is_plain(file), "converted or not");
    fuzz_expect_within(&file->tensor, body, size);
    if (in_file) {
        fuzz_expect_same(&file->tensor, read, true);
        return;
    }
    REQUIRE(td_shape_equal(&file->tensor.shape, &read->shape), "another shape");
    for (size_t i = 0; i < read->bytes; i++) {
        before += ((const unsigned char *)file->tensor.data)[i];
        after += ((const unsigned char *)read->data)[i];
    }
    REQUIRE(before == after, "other bytes after the conversion");
}

/* The reply is a file with the output. */
static void encode(const struct td_request *request, struct td_arena *arena)
{
    struct td_error err = { 0 };
    struct td_reply reply = { 0 };
    struct td_npy file;
    size_t bound, size;
    if (td_codec_can_encode(TD_FORMAT_NPY, request, &err) != TD_OK) {
        fuzz_expect_error(&err, TD_NOT_ACCEPTABLE, 0);
        return;
    }
    const struct td_tensor *output = td_request_output(request, 0);
    REQUIRE(td_codec_encoded_bound(TD_FORMAT_NPY, request, &bound), "no bound");
    td_status status = td_codec_encode(TD_FORMAT_NPY, request, arena, &reply, &err);
    REQUIRE(status == TD_OK, "%s", err.message);
    char *text = fuzz_reply(&reply, bound + output->bytes, &size);
    status = td_npy_open(text, size, &file, &err);
    REQUIRE(status == TD_OK, "%s", err.message);
    fuzz_expect_same(&file.tensor, output, true);
    free(text);
}

/* Sets the attributes that an op requires, and the table of an op that picks rows. */
static void begin(struct td_request *request, struct td_arena *arena)
{
    static const char *const attrs[][2] = { { "k", "1" },
                                            { "dtype", "float16" },
                                            { "equation", "...->..." } };
    static struct td_tensor table;
    struct td_error err;
    bool known;
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++)
        REQUIRE(td_attrs_set_query(request, attrs[i][0], strlen(attrs[i][0]), attrs[i][1],
                                   strlen(attrs[i][1]), arena, &known, &err) == TD_OK,
                "%s", err.message);
    if (!request->op->rows)
        return;
    REQUIRE(td_resolve(fuzz_resolver(), "t", 1, arena, &table, &err) == TD_OK, "no table");
    request->args.inputs[0] = (struct td_operand){ &table, 1 };
    request->table = "t";
    request->table_has_keys = table.keys;
}

/* Runs an op with the file as its body, and converts the outputs. */
static void run(const char *body, size_t size, struct td_arena *arena)
{
    static const td_dtype dtypes[] = { TD_DTYPE_FLOAT16, TD_DTYPE_BFLOAT16, TD_DTYPE_FLOAT32,
                                       TD_DTYPE_FLOAT64 };
    struct td_request request;
    struct td_error err = { 0 };
    struct td_exec exec;
    td_request_init(&request, fuzz_op((uint8_t)size));
    begin(&request, arena);
    request.common.set = UINT32_C(1) << TD_COMMON_OUTPUT_DTYPE;
    request.common.output_dtype = dtypes[size % 4];
    td_status status =
        td_codec_decode(TD_FORMAT_NPY, body, size, fuzz_resolver(), arena, &request, &err);
    if (status != TD_OK) {
        fuzz_expect_error(&err, status, size);
        return;
    }
    fuzz_expect_request(&request);
    if (!fuzz_run(&request, arena))
        return;
    status = td_outputs_describe(&request, arena, &err);
    REQUIRE(status == TD_OK, "%s", err.message);
    for (int i = 0; i < request.n_outputs && status == TD_OK; i++)
        if (td_output_is_converted(&request, i))
            status = td_tensor_alloc(&request.outputs[i].tensor, arena, &err);
    td_exec_serial(&exec, arena);
    if (status == TD_OK)
        status = td_outputs_convert(&request, &exec, &err);
    if (status == TD_OK)
        encode(&request, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_arena *arena = fuzz_arena_open();
    struct td_tensor tensor;
    struct td_npy file;
    struct td_error err = { 0 };
    bool in_file;
    char *body = fuzz_copy(data, size, 0);
    const td_status opened = td_npy_open(body, size, &file, &err);
    if (opened != TD_OK)
        fuzz_expect_error(&err, opened, size);
    const td_status status = td_npy_read(body, size, arena, &tensor, &in_file, &err);
    if (status != TD_OK) {
        fuzz_expect_error(&err, status, size);
    } else {
        REQUIRE(opened == TD_OK, "read but not opened");
        fuzz_expect_tensor(&tensor);
        expect_same_bytes(&file, &tensor, in_file, body, size);
        fuzz_expect_round_trip(&tensor, TD_FORMAT_NPY, TD_LAYOUT_NESTED);
        fuzz_expect_round_trip(&tensor, TD_FORMAT_JSON, TD_LAYOUT_FLAT);
        fuzz_expect_round_trip(&tensor, TD_FORMAT_JSON, TD_LAYOUT_BASE64);
    }
    run(body, size, arena);
    free(body);
    fuzz_arena_close(arena);
    return 0;
}
