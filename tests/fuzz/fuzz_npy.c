/* fuzz_npy.c - NumPy's .npy files.
 *
 * Input    The file. */
#include "api/files/npy.h"
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
    free(body);
    fuzz_arena_close(arena);
    return 0;
}
