#include "api/files/safetensors.h"
#include "api/message/attrs.h"
#include "api/message/common_members.h"
#include "api/message/message.h"
#include "kernels/gather/gather.h"
#include "tests/api/request.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_error err;

/* Makes a file: header length, header, data. */
static size_t make_file(char *file, const char *header, const void *data, size_t data_size)
{
    uint64_t length = strlen(header);
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, header, length);
    if (data_size)
        memcpy(file + sizeof length + length, data, data_size);
    return sizeof length + length + data_size;
}

static td_status open_exact(const char *file, size_t size, struct td_safetensors *out, char **copy)
{
    *copy = malloc(size ? size : 1);
    memcpy(*copy, file, size);
    return td_safetensors_open(*copy, size, &test_arena, out, &err);
}

static const unsigned char bytes[64] = { 1, 0, 0, 0, 2, 0, 0, 0, 3 };

TD_TEST(entries_point_into_the_file)
{
    char file[512], *copy;
    struct td_safetensors opened;
    size_t size = make_file(file,
                            "{\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                            " \"a\\u00e9\" : { \"data_offsets\" : [ 8 , 9 ] , \"dtype\" : \"U8\" , "
                            "\"shape\" : [ ] } ,\"__metadata__\":{\"k\":\"v\\n\",\"\":\"\"}}  ",
                            bytes, 9);
    EXPECT_OK(open_exact(file, size, &opened, &copy), &err);
    ck_assert_int_eq(opened.n_entries, 2);
    ck_assert_str_eq(opened.entries[0].name, "b");
    expect_tensor(&opened.entries[0].tensor, "int32[2] 1 2", "b");
    ck_assert_ptr_eq(opened.entries[0].tensor.data, copy + size - 9);
    ck_assert_str_eq(opened.entries[1].name, "a\xc3\xa9");
    expect_tensor(&opened.entries[1].tensor, "uint8[] 3", "a");
    ck_assert_int_eq(opened.n_metadata, 2);
    ck_assert_str_eq(opened.metadata[0].key, "k");
    ck_assert_str_eq(opened.metadata[0].value, "v\n");
    ck_assert_str_eq(opened.metadata[1].key, "");
    free(copy);
}

static const struct {
    const char *case_name, *header;
    size_t data;
    bool accepted;
} headers[] = {
    { "no tensors", "{}", 0, true },
    { "metadata alone", "{\"__metadata__\":{}}", 0, true },
    { "metadata that is null", "{\"__metadata__\":null}", 0, true },
    { "a member of another version",
      "{\"a\":{\"dtype\":\"U8\",\"x\":[{\"y\":[]},1e5,\"\"],\"shape\":[1],\"data_offsets\":[0,1]}}",
      1, true },
    { "an empty tensor", "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
      true },
    { "an empty tensor of huge dimensions",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,0],\"data_offsets\":[0,0]}}", 0,
      true },
    { "tensors in another order than their data",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
      4, true },
    { "empty tensors at the beginning, between and at the end",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
      "\"d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},"
      "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]}}",
      3, true },
    { "all dtypes",
      "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]},"
      "\"b\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[1,2]},"
      "\"c\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[2,4]},"
      "\"d\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[4,12]},"
      "\"e\":{\"dtype\":\"U16\",\"shape\":[],\"data_offsets\":[12,14]},"
      "\"f\":{\"dtype\":\"U32\",\"shape\":[],\"data_offsets\":[14,18]},"
      "\"g\":{\"dtype\":\"U64\",\"shape\":[],\"data_offsets\":[18,26]},"
      "\"h\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[26,28]},"
      "\"i\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[28,30]},"
      "\"j\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[30,38]},"
      "\"k\":{\"dtype\":\"C64\",\"shape\":[],\"data_offsets\":[38,46]}}",
      46, true },
    { "nothing", "", 0, false },
    { "a list", "[]", 0, false },
    { "no closing brace", "{", 0, false },
    { "text after the end", "{}{}", 0, false },
    { "a comma at the end", "{\"__metadata__\":{},}", 0, false },
    { "data without a tensor", "{}", 1, false },
    { "a dtype that tensord lacks",
      "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, false },
    { "an unknown dtype", "{\"a\":{\"dtype\":\"F7\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
      false },
    { "a dtype in small letters", "{\"a\":{\"dtype\":\"u8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
      1, false },
    { "no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, false },
    { "no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, false },
    { "no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, false },
    { "an empty entry", "{\"a\":{}}", 0, false },
    { "an entry that is a list", "{\"a\":[]}", 0, false },
    { "a member of another version that is not JSON",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":[}}}", 1, false },
    { "a repeated member",
      "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
      false },
    { "a repeated name",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
      2, false },
    { "repeated metadata", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, false },
    { "a repeated metadata name", "{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 0, false },
    { "metadata that is not text", "{\"__metadata__\":{\"a\":1}}", 0, false },
    { "metadata that is nothing", "{\"__metadata__\":nil}", 0, false },
    { "metadata that is null twice", "{\"__metadata__\":null,\"__metadata__\":null}", 0, false },
    { "a metadata value that is null", "{\"__metadata__\":{\"a\":null}}", 0, false },
    { "metadata that is a list", "{\"__metadata__\":[]}", 0, false },
    { "a name with a NUL", "{\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
      1, false },
    { "a name that is not UTF-8",
      "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, false },
    { "a negative dimension", "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1,
      false },
    { "a dimension with a fraction",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, false },
    { "rank 17",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,"
      "1]}}",
      1, false },
    { "a negative offset", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 0,
      false },
    { "one offset", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1]}}", 1, false },
    { "three offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1,
      false },
    { "offsets in the wrong order",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, false },
    { "an end after the data", "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1,
      false },
    { "offsets beyond int64",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9223372036854775808,"
      "9223372036854775809]}}",
      1, false },
    { "fewer bytes than the shape needs",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, false },
    { "more bytes", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, false },
    { "elements that overflow",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
      false },
    { "bytes that overflow",
      "{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
      false },
    { "a gap at the beginning", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
      2, false },
    { "a gap between tensors",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
      3, false },
    { "a gap at the end", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2,
      false },
    { "an overlap",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
      3, false },
    { "the same range twice",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
      2, false },
    { "a bool of 3", "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[9],\"data_offsets\":[0,9]}}", 9,
      false },
};

TD_TEST_EACH(malformed_headers_are_refused, headers)
{
    char file[2048], *copy;
    struct td_safetensors opened;
    const char *case_name = headers[_i].case_name;
    size_t size = make_file(file, headers[_i].header, bytes, headers[_i].data);
    td_status status = open_exact(file, size, &opened, &copy);
    ck_assert_msg((status == TD_OK) == headers[_i].accepted, "%s: %s", case_name, err.message);
    if (status != TD_OK) {
        ck_assert_msg(status == TD_MALFORMED_REQUEST || status == TD_RESOURCE_LIMIT, "%s",
                      case_name);
        expect_clean_error(&err, status, size, case_name);
    }
    free(copy);
}

static const struct {
    const char *case_name, *entry; /* of the tensor "a", which has 2 bytes */
    const char *why;               /* NULL: the whole file is refused */
} unreadable[] = {
    { "a dtype that tensord lacks", "\"F8_E4M3\",\"shape\":[2]",
      "dtype \"F8_E4M3\"; expected BOOL" },
    { "a dtype of half a byte", "\"F4\",\"shape\":[4]", "dtype \"F4\"" },
    { "a dtype that safetensors lacks, too", "\"F7\",\"shape\":[9]", "dtype \"F7\"" },
    { "17 dimensions", "\"I16\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
      "has 17 dimensions; expected at most 16" },
    { "a bool of 3", "\"BOOL\",\"shape\":[2]", "element 1 of a bool tensor is the byte 3" },
    { "a size that is not one of its dtype", "\"F8_E4M3\",\"shape\":[3]", NULL },
    { "half a byte more", "\"F4\",\"shape\":[5]", NULL },
    { "elements that overflow", "\"F8_E4M3\",\"shape\":[4294967296,4294967296]", NULL },
};

TD_TEST_EACH(an_unreadable_tensor_leaves_the_others_readable, unreadable)
{
    char header[512], file[1024], *copy;
    struct td_safetensors opened;
    const char *case_name = unreadable[_i].case_name, *why = unreadable[_i].why;
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":%s,\"data_offsets\":[0,2]},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
             unreadable[_i].entry);
    const size_t size = make_file(file, header, "\1\3\7", 3);
    ck_assert_msg(open_exact(file, size, &opened, &copy) == TD_MALFORMED_REQUEST, "%s", case_name);
    ck_assert_str_eq(err.input, "a");
    if (why)
        EXPECT_MESSAGE(&err, why);
    const td_status status = td_safetensors_open_partly(copy, size, &test_arena, &opened, &err);
    ck_assert_msg((status == TD_OK) == (why != NULL), "%s: %s", case_name, err.message);
    if (why) {
        ck_assert_int_eq(opened.n_entries, 2);
        ck_assert_msg(strstr(opened.entries[0].unreadable, why) != NULL, "%s: %s", case_name,
                      opened.entries[0].unreadable);
        ck_assert_ptr_null(opened.entries[0].tensor.data);
        ck_assert_ptr_null(opened.entries[1].unreadable);
        expect_tensor(&opened.entries[1].tensor, "uint8[1] 7", "b");
    }
    free(copy);
}

/* So each byte is read once, however many entries share it. */
TD_TEST(values_are_checked_after_the_ranges)
{
    char file[2048], *copy;
    struct td_safetensors opened;
    size_t size = make_file(file,
                            "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]},"
                            "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                            "\3\3", 2);
    ck_assert_int_eq(open_exact(file, size, &opened, &copy), TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, "overlaps and gaps are not allowed");
    free(copy);
}

static const struct {
    const char *case_name;
    uint64_t length;
    size_t size;
} lengths[] = {
    { "fewer than eight bytes", 0, 7 },
    { "nothing", 0, 0 },
    { "a header that ends after the file", 3, 10 },
    { "a header of 2^64 - 1", UINT64_MAX, 10 },
    { "a header that would wrap around", UINT64_MAX - 7, 10 },
    { "no header", 0, 8 },
};

TD_TEST_EACH(the_header_length_must_fit_the_file, lengths)
{
    char file[16] = "        {}", *copy;
    struct td_safetensors opened;
    memcpy(file, &lengths[_i].length, 8);
    td_status status = open_exact(file, lengths[_i].size, &opened, &copy);
    ck_assert_msg(status == TD_MALFORMED_REQUEST, "%s", lengths[_i].case_name);
    ck_assert_msg(err.offset >= 0, "%s", lengths[_i].case_name);
    free(copy);
}

/* The limit of the reference implementation. Spaces may follow the JSON text. */
TD_TEST(a_header_has_at_most_100_million_bytes)
{
    enum { LIMIT = 100000000 };
    char *file = malloc(8 + LIMIT + 1);
    struct td_safetensors opened;
    uint64_t length = LIMIT;
    ck_assert_ptr_nonnull(file);
    memset(file, ' ', 8 + LIMIT + 1);
    memcpy(file, &length, 8);
    memcpy(file + 8, "{}", 2);
    const td_status status = td_safetensors_open(file, 8 + LIMIT, &test_arena, &opened, &err);
    ck_assert_msg(status == TD_OK, "%s", err.message);
    length++;
    memcpy(file, &length, 8);
    ck_assert_int_eq(td_safetensors_open(file, 8 + LIMIT + 1, &test_arena, &opened, &err),
                     TD_MALFORMED_REQUEST);
    EXPECT_MESSAGE(&err, "at most 100000000");
    free(file);
}

TD_TEST(a_tensor_has_up_to_16_dimensions)
{
    char header[256], file[300], *copy;
    struct td_safetensors opened;
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%s],\"data_offsets\":[0,1]}}",
             "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
    const size_t size = make_file(file, header, bytes, 1);
    ck_assert_int_eq(open_exact(file, size, &opened, &copy), TD_OK);
    ck_assert_int_eq(opened.entries[0].tensor.shape.rank, 16);
    free(copy);
}

/* The header of n tensors t0, t1, ..., or of metadata. With `twice` the last has the name of number
 * `twice` - 1. */
static void print_names(char *header, int n, int twice, bool metadata)
{
    char *at = header + sprintf(header, metadata ? "{\"__metadata__\":{" : "{");
    for (int i = 0; i < n; i++) {
        const int name = twice && i == n - 1 ? twice - 1 : i;
        at += sprintf(at, "%s\"t%d\":", i ? "," : "", name);
        at += metadata ? sprintf(at, "\"%d\"", i)
                       : sprintf(at, "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
    }
    strcpy(at, metadata ? "}}" : "}");
}

TD_TEST(a_repeated_name_is_found_among_any_number)
{
    for (int n = 2; n <= 18; n++)
        for (int twice = 0; twice < n; twice++)
            for (int metadata = 0; metadata < 2; metadata++) {
                char header[2048], file[2100], *copy;
                struct td_safetensors opened;
                print_names(header, n, twice, metadata);
                const size_t size = make_file(file, header, NULL, 0);
                const td_status status = open_exact(file, size, &opened, &copy);
                EXPECT(status == (twice ? TD_MALFORMED_REQUEST : TD_OK), "%d: %s", twice, header);
                free(copy);
            }
}

TD_TEST(many_tensors_are_checked_like_few)
{
    enum { MANY = 300 };
    for (int twice = 0; twice < 2; twice++) {
        char *header = malloc(MANY * 80), *at = header, *file = malloc(MANY * 90), *copy;
        at += sprintf(at, "{");
        for (int i = 0; i < MANY; i++) {
            int place = i * 7 % MANY; /* another order */
            int name = twice && place == 150 ? 149 : place;
            at += sprintf(at, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                          i ? "," : "", name, place, place + 1);
        }
        sprintf(at, "}");
        unsigned char data[MANY];
        for (int i = 0; i < MANY; i++)
            data[i] = (unsigned char)i;
        size_t size = make_file(file, header, data, MANY);
        struct td_safetensors opened;
        td_status status = open_exact(file, size, &opened, &copy);
        ck_assert_int_eq(status, twice ? TD_MALFORMED_REQUEST : TD_OK);
        if (twice)
            ck_assert_str_eq(err.input, "t149");
        else
            ck_assert_int_eq(opened.n_entries, MANY);
        free(header);
        free(file);
        free(copy);
    }
}

/* ---- requests ---- */

#define PARAMS  "\"params\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define INDICES "\"indices\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}"

TD_TEST(a_file_is_a_request)
{
    char file[512];
    struct decoded decoded;
    size_t size = make_file(file,
                            "{" PARAMS "," INDICES ",\"__metadata__\":{\"axis\":\"-1\",\"bounds\":"
                            "\"wrap\",\"format\":\"pt\",\"response\":\"flat\"}}",
                            bytes, 9);
    decode_safetensors(&decoded, td_op_named("gather", 6), file, size, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    const struct td_op_args *args = &decoded.request.args;
    expect_tensor(&args->inputs[0].tensors[0], "int32[2] 1 2", "params");
    expect_tensor(&args->inputs[1].tensors[0], "uint8[1] 3", "indices");
    const char *data = args->inputs[0].tensors[0].data;
    ck_assert_msg(data >= decoded.body && data < decoded.body + size, "it was copied");
    struct td_gather_attrs attrs;
    memcpy(&attrs, args->attrs, sizeof attrs);
    ck_assert_int_eq(attrs.axis, -1);
    ck_assert_int_eq(attrs.bounds, TD_BOUNDS_WRAP);
    ck_assert_int_eq(decoded.request.common.layout, TD_LAYOUT_FLAT);
}

TD_TEST(lists_are_numbered)
{
    char file[512];
    struct decoded decoded;
    size_t size = make_file(file,
                            "{\"ints.1\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                            "\"ints.0\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
                            "\"ints.2\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]}}",
                            bytes, 3);
    decode_safetensors(&decoded, &list_op, file, size, NULL);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    const struct td_operand *ints = &decoded.request.args.inputs[1];
    ck_assert_int_eq(ints->count, 3);
    expect_tensor(&ints->tensors[0], "uint8[2] 0 0", "ints.0");
    expect_tensor(&ints->tensors[1], "uint8[1] 1", "ints.1");
    expect_tensor(&ints->tensors[2], "uint8[0]", "ints.2");
}

TD_TEST(a_list_has_at_most_16384_tensors)
{
    for (int n = 16383; n <= 16385; n++) {
        char *header = malloc((size_t)n * 80), *file = malloc((size_t)n * 81), *at = header;
        struct decoded decoded;
        for (int i = 0; i < n; i++)
            at +=
                sprintf(at, "%s\"ints.%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                        i ? "," : "{", i);
        strcpy(at, "}");
        const size_t size = make_file(file, header, NULL, 0);
        decode_safetensors(&decoded, &list_op, file, size, NULL);
        ck_assert_int_eq(decoded.status, n <= 16384 ? TD_OK : TD_RESOURCE_LIMIT);
        if (n <= 16384) {
            ck_assert_int_eq(decoded.request.args.inputs[1].count, n);
        } else {
            ck_assert_str_eq(decoded.err.resource, "tensors");
            ck_assert_uint_eq(decoded.err.needed, 16385);
            ck_assert_uint_eq(decoded.err.limit, 16384);
        }
        free(header);
        free(file);
    }
}

TD_TEST(metadata_may_name_resident_tensors)
{
    char file[512];
    struct decoded decoded;
    struct test_resolver resolver;
    test_resolver_init(&resolver, tensor("float32[2] 1 2"));
    size_t size = make_file(file,
                            "{\"__metadata__\":{\"params.ref\":\"table\"},"
                            "\"indices\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                            bytes, 1);
    decode_safetensors(&decoded, td_op_named("gather", 6), file, size, &resolver.base);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    expect_tensor(&decoded.request.args.inputs[0].tensors[0], "float32[2] 1 2", "params");

    size = make_file(file,
                     "{\"__metadata__\":{\"ints.0.ref\":\"table\"},"
                     "\"ints.1\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                     bytes, 1);
    decode_safetensors(&decoded, &list_op, file, size, &resolver.base);
    ck_assert_msg(decoded.status == TD_OK, "%s", decoded.err.message);
    ck_assert_int_eq(decoded.request.args.inputs[1].count, 2);
    expect_tensor(&decoded.request.args.inputs[1].tensors[0], "float32[2] 1 2", "ints.0");
}

#define U8_AT(name, at) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" at "]}"

static const struct {
    const char *case_name, *header;
    size_t data;
    td_status status;
    const char *input, *attribute, *near;
} refused[] = {
    { "an unknown name", "{" U8_AT("parmas", "0,1") "}", 1, TD_MALFORMED_REQUEST, "parmas", "",
      "params" },
    { "an index for an input that is not a list", "{" U8_AT("params.0", "0,1") "}", 1,
      TD_MALFORMED_REQUEST, "params.0", "", "params" },
    { "an unknown metadata entry", "{\"__metadata__\":{\"axes\":\"1\"}}", 0, TD_MALFORMED_REQUEST,
      "", "axes", "axis" },
    { "a bad attribute", "{\"__metadata__\":{\"axis\":\"x\"}}", 0, TD_MALFORMED_REQUEST, "", "axis",
      "" },
    { "an input and its ref",
      "{\"__metadata__\":{\"params.ref\":\"table\"}," U8_AT("params", "0,1") "}", 1,
      TD_MALFORMED_REQUEST, "params", "", "" },
    { "a tensor that is not resident", "{\"__metadata__\":{\"params.ref\":\"w\"}}", 0,
      TD_TENSOR_NOT_FOUND, "params", "", "" },
    { "a ref of an unknown input", "{\"__metadata__\":{\"x.ref\":\"table\"}}", 0,
      TD_MALFORMED_REQUEST, "", "x.ref", "" },
};

TD_TEST_EACH(unknown_tensors_and_metadata_are_refused, refused)
{
    char file[512];
    struct decoded decoded;
    struct test_resolver resolver;
    test_resolver_init(&resolver, tensor("float32[2] 1 2"));
    size_t size = make_file(file, refused[_i].header, bytes, refused[_i].data);
    decode_safetensors(&decoded, td_op_named("gather", 6), file, size, &resolver.base);
    ck_assert_msg(decoded.status == refused[_i].status, "%s: %s", refused[_i].case_name,
                  decoded.err.message);
    ck_assert_msg(strcmp(decoded.err.input, refused[_i].input) == 0, "%s: %s",
                  refused[_i].case_name, decoded.err.input);
    ck_assert_msg(strcmp(decoded.err.attribute, refused[_i].attribute) == 0, "%s: %s",
                  refused[_i].case_name, decoded.err.attribute);
    ck_assert_msg(strcmp(decoded.err.did_you_mean, refused[_i].near) == 0, "%s: %s",
                  refused[_i].case_name, decoded.err.did_you_mean);
}

static const struct {
    const char *case_name, *header;
    size_t data;
    const char *input;
} lists_refused[] = {
    { "a gap", "{" U8_AT("ints.0", "0,1") "," U8_AT("ints.2", "1,2") "}", 2, "ints[2]" },
    { "not from 0", "{" U8_AT("ints.1", "0,1") "}", 1, "ints[1]" },
    { "a huge index", "{" U8_AT("ints.999999999", "0,1") "}", 1, "ints[999999999]" },
    { "an index with a leading zero", "{" U8_AT("ints.00", "0,1") "}", 1, "ints.00" },
    { "an index beyond int64", "{" U8_AT("ints.99999999999999999999", "0,1") "}", 1,
      "ints.99999999999999999999" },
    { "no index", "{" U8_AT("ints.", "0,1") "}", 1, "ints." },
    { "no index and no dot", "{" U8_AT("ints", "0,1") "}", 1, "ints" },
    { "a negative index", "{" U8_AT("ints.-1", "0,1") "}", 1, "ints.-1" },
    { "a ref with the same index",
      "{\"__metadata__\":{\"ints.0.ref\":\"table\"}," U8_AT("ints.0", "0,1") "}", 1, "ints[0]" },
};

TD_TEST_EACH(lists_are_numbered_from_0_each_once, lists_refused)
{
    char file[512];
    struct decoded decoded;
    size_t size = make_file(file, lists_refused[_i].header, bytes, lists_refused[_i].data);
    decode_safetensors(&decoded, &list_op, file, size, NULL);
    ck_assert_msg(decoded.status == TD_MALFORMED_REQUEST, "%s", lists_refused[_i].case_name);
    ck_assert_msg(strcmp(decoded.err.input, lists_refused[_i].input) == 0, "%s: %s",
                  lists_refused[_i].case_name, decoded.err.input);
}

TD_TEST(truncated_and_mutated_files_fail_cleanly)
{
    char file[1024];
    size_t size = make_file(
        file, "{" PARAMS "," INDICES ",\"__metadata__\":{\"axis\":\"0\",\"form\\u0061t\":\"pt\"}} ",
        bytes, 9);
    expect_clean_failures(decode_safetensors, td_op_named("gather", 6), file, size, 60000, 7);
    size = make_file(file, "{" U8_AT("ints.1", "0,1") "," U8_AT("ints.0", "1,2") "}", bytes, 2);
    expect_clean_failures(decode_safetensors, &list_op, file, size, 60000, 8);
}

/* ---- replies ---- */

static struct td_request request;

/* Encodes and joins the chunks; checks the bound and where the data is. */
static char *encode(const struct td_op *op, struct td_tensor *outputs, int n, size_t *size,
                    int *n_chunks)
{
    struct td_reply reply;
    td_request_init(&request, op);
    request.args.outputs = outputs;
    request.args.n_outputs = n;
    EXPECT_OK(td_safetensors_encode(&request, &test_arena, &reply, &err), &err);
    *size = td_reply_bytes(&reply);
    *n_chunks = reply.n_chunks;
    char *file = malloc(*size), *at = file;
    for (int i = 0; i < reply.n_chunks; i++) {
        memcpy(at, reply.chunks[i].data, reply.chunks[i].size);
        at += reply.chunks[i].size;
    }
    return file;
}

TD_TEST(a_small_output_is_in_one_chunk)
{
    struct td_tensor output = tensor("int16[2,1] 5 -6");
    size_t size;
    int n_chunks;
    char *file = encode(td_op_named("gather", 6), &output, 1, &size, &n_chunks);
    static const char header[] =
        "{\"output\":{\"dtype\":\"I16\",\"shape\":[2,1],\"data_offsets\":[0,4]}}";
    uint64_t length;
    memcpy(&length, file, 8);
    ck_assert_int_eq(n_chunks, 1);
    ck_assert_uint_eq(length % 8, 0);
    ck_assert_uint_ge(length, sizeof header - 1);
    ck_assert_mem_eq(file + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < length; i++)
        ck_assert_int_eq(file[8 + i], ' ');
    ck_assert_uint_eq(size, 8 + length + 4);
    ck_assert_mem_eq(file + 8 + length, output.data, 4);
    free(file);
}

TD_TEST(large_outputs_are_not_copied)
{
    /* large, small, small, large, empty, small, large */
    static const char *const texts[] = { "uint8[70000]",   "uint8[3]", "uint8[5]",
                                         "float32[20000]", "int8[0]",  "float64[100]",
                                         "uint8[65536]" };
    enum { N = COUNT_OF(texts) };
    struct td_tensor outputs[N];
    uint64_t seed = 1;
    for (int i = 0; i < N; i++) {
        outputs[i] = tensor_without_data(texts[i]);
        ck_assert_int_eq(td_tensor_alloc(&outputs[i], &test_arena, &err), TD_OK);
        for (size_t k = 0; k < outputs[i].bytes; k++)
            ((char *)outputs[i].data)[k] = (char)random_from(&seed);
    }
    size_t size, bound;
    int n_chunks;
    char *file = encode(&list_op, outputs, N, &size, &n_chunks);
    ck_assert_int_eq(n_chunks, 6);
    ck_assert(td_safetensors_encoded_bound(&request, &bound));
    ck_assert_uint_lt(bound, 16384); /* large data is not included */
    struct td_safetensors opened;
    EXPECT_OK(td_safetensors_open(file, size, &test_arena, &opened, &err), &err);
    ck_assert_int_eq(opened.n_entries, N);
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "outputs.%d", i);
        ck_assert_str_eq(opened.entries[i].name, name);
        expect_same_tensor(&opened.entries[i].tensor, &outputs[i], name);
    }
    free(file);
}

TD_TEST(outputs_have_their_names)
{
    struct td_tensor outputs[] = { tensor("float32[2] 0.5 1"), tensor("int32[2] 3 4") };
    struct td_safetensors opened;
    size_t size;
    int n_chunks;
    char *file = encode(&pair_op, outputs, 2, &size, &n_chunks);
    ck_assert_int_eq(td_safetensors_open(file, size, &test_arena, &opened, &err), TD_OK);
    ck_assert_int_eq(opened.n_entries, 2);
    ck_assert_str_eq(opened.entries[0].name, "values");
    ck_assert_str_eq(opened.entries[1].name, "places");
    expect_same_tensor(&opened.entries[1].tensor, &outputs[1], "places");
    free(file);
}

TD_TEST(a_bounds_policy_that_replaced_something_is_in_the_metadata)
{
    struct td_tensor output = tensor("int8[1] 0");
    struct td_reply reply;
    struct td_safetensors opened;
    bool known;
    td_request_init(&request, td_op_named("gather", 6));
    ck_assert_int_eq(td_attrs_set_text(&request, "bounds", 6, "clip", 4, &test_arena, &known, &err),
                     TD_OK);
    request.args.outputs = &output;
    request.args.n_outputs = 1;
    request.args.replaced = 12;
    ck_assert_int_eq(td_safetensors_encode(&request, &test_arena, &reply, &err), TD_OK);
    ck_assert_int_eq(
        td_safetensors_open(reply.chunks[0].data, reply.chunks[0].size, &test_arena, &opened, &err),
        TD_OK);
    ck_assert_int_eq(opened.n_metadata, 2);
    ck_assert_str_eq(opened.metadata[0].key, "bounds.policy");
    ck_assert_str_eq(opened.metadata[0].value, "clip");
    ck_assert_str_eq(opened.metadata[1].key, "bounds.replaced");
    ck_assert_str_eq(opened.metadata[1].value, "12");
}

TD_TEST(no_outputs_are_an_empty_file)
{
    size_t size;
    int n_chunks;
    struct td_safetensors opened;
    char *file = encode(&list_op, NULL, 0, &size, &n_chunks);
    ck_assert_int_eq(td_safetensors_open(file, size, &test_arena, &opened, &err), TD_OK);
    ck_assert_int_eq(opened.n_entries, 0);
    free(file);
}

TD_TEST(dtypes_that_the_format_lacks_are_not_acceptable)
{
    static const char *const texts[] = { "string[1] 'a'", "complex128[1] 1 2" };
    for (int i = 0; i < 2; i++) {
        struct td_tensor output = tensor(texts[i]);
        struct td_reply reply;
        td_request_init(&request, td_op_named("gather", 6));
        request.args.outputs = &output;
        request.args.n_outputs = 1;
        ck_assert_int_eq(td_safetensors_encode(&request, &test_arena, &reply, &err),
                         TD_NOT_ACCEPTABLE);
        EXPECT_MESSAGE(&err, "safetensors has no dtype for");
        ck_assert_int_eq(td_safetensors_can_encode(&request, &err), TD_NOT_ACCEPTABLE);
    }
}

TD_TEST(the_largest_entry_fits)
{
    struct td_tensor outputs[2];
    outputs[0] = outputs[1] =
        tensor_without_data("complex64[9223372036854775807,9223372036854775807,9223372036854775807,"
                            "9223372036854775807,9223372036854775807,9223372036854775807,"
                            "9223372036854775807,9223372036854775807,9223372036854775807,"
                            "9223372036854775807,9223372036854775807,9223372036854775807,"
                            "9223372036854775807,9223372036854775807,9223372036854775807,0]");
    outputs[0].data = outputs[1].data = &outputs;
    size_t size;
    int n_chunks;
    struct td_safetensors opened;
    char *file = encode(&list_op, outputs, 2, &size, &n_chunks);
    EXPECT_OK(td_safetensors_open(file, size, &test_arena, &opened, &err), &err);
    ck_assert_int_eq(opened.n_entries, 2);
    free(file);
}

TD_FIXTURE(NULL, bodies_free);
