#include "api/files/foreign.h"
#include "tests/support/suite.h"

#include <string.h>

static struct td_error err;

static const struct {
    const char *start;
    size_t bytes;
    const char *body, *file; /* NULL: not known */
} starts[] = {
    { "PK\3\4", 4,
      "the body is a zip archive, such as .npz or .pt; convert it to a table with deploy/import",
      "it is a zip archive, such as .npz or .pt; convert it to a table with deploy/import" },
    { "PAR1", 4, "the body is a Parquet file; convert it to a table with deploy/import",
      "it is a Parquet file; convert it to a table with deploy/import" },
    { "\x80\2}q", 4,
      "the body is a pickle; convert it to a table with deploy/import if torch.save wrote it",
      "it is a pickle; convert it to a table with deploy/import if torch.save wrote it" },
    { "\x80\4\x95", 3, "the body is a pickle; save its tensors as .safetensors or .npy",
      "it is a pickle; save its tensors as .safetensors or .npy" },
    { "GGUF", 4, "the body is a GGUF file; save its tensors as .safetensors or .npy",
      "it is a GGUF file; save its tensors as .safetensors or .npy" },
    { "\x89HDF\r\n\x1a\n", 8, "the body is an HDF5 file; save its tensors as .safetensors or .npy",
      "it is an HDF5 file; save its tensors as .safetensors or .npy" },
    { "\x1f\x8b", 2, "the body is compressed with gzip; send it with Content-Encoding: gzip",
      "it is compressed with gzip; decompress it" },
    { "\xfd\x37zXZ", 6, "the body is compressed with xz; decompress it",
      "it is compressed with xz; decompress it" },
    { "\xff\xfe[\0", 4, "the body is text in UTF-16; send UTF-8",
      "it is text in UTF-16; save its tensors as .safetensors or .npy" },
    { "\xff\xfe\0\0{\0\0\0", 8, "the body is text in UTF-32; send UTF-8",
      "it is text in UTF-32; save its tensors as .safetensors or .npy" },
    { "{\0}\0", 4, "the body is text in UTF-16; send UTF-8", NULL },
    { "\0{\0}", 4, "the body is text in UTF-16; send UTF-8", NULL },
    { "{\0\0\0}\0\0\0", 8, "the body is text in UTF-32; send UTF-8", NULL },
    { "\0\0\0{\0\0\0}", 8, "the body is text in UTF-32; send UTF-8", NULL },
    { "params=1&indices=2", 18, "the body is a form, name=value; send JSON, {\"name\": value}",
      NULL },
    { "--x\r\n", 5, "the body is a multipart form; send the JSON text alone", NULL },
    { "<html>", 6, "the body is XML or HTML; send JSON", NULL },
    { "=1", 2, NULL, NULL },
    { "params: 1", 9, NULL, NULL },
    { "-1", 2, NULL, NULL },
    { "{", 1, NULL, NULL },
    { "", 0, NULL, NULL },
    { "PK", 2, NULL, NULL },
    { "[1, 2]", 6, NULL, NULL },
};

TD_TEST_EACH(other_formats_are_named_by_their_first_bytes, starts)
{
    const char *start = starts[_i].start;
    const size_t bytes = starts[_i].bytes;
    td_error_set(&err, TD_MALFORMED_REQUEST, "why");
    ck_assert_int_eq(
        td_foreign_explain_body(TD_MALFORMED_REQUEST, TD_FORMAT_JSON, start, bytes, &err),
        TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.message, starts[_i].body ? starts[_i].body : "why");
    ck_assert_int_eq(err.offset, starts[_i].body ? 0 : -1);
    td_error_set(&err, TD_MALFORMED_REQUEST, "why");
    ck_assert_int_eq(td_foreign_explain_file(TD_MALFORMED_REQUEST, start, bytes, &err),
                     TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.message, starts[_i].file ? starts[_i].file : "why");
}

TD_TEST(other_results_are_left_as_they_are)
{
    td_error_set(&err, TD_RESOURCE_LIMIT, "why");
    ck_assert_int_eq(td_foreign_explain_body(TD_OK, TD_FORMAT_JSON, "PAR1", 4, &err), TD_OK);
    ck_assert_int_eq(td_foreign_explain_body(TD_RESOURCE_LIMIT, TD_FORMAT_JSON, "PAR1", 4, &err),
                     TD_RESOURCE_LIMIT);
    ck_assert_int_eq(td_foreign_explain_file(TD_RESOURCE_LIMIT, "PAR1", 4, &err),
                     TD_RESOURCE_LIMIT);
    ck_assert_str_eq(err.message, "why");
}

#define BINARY   "send it unchanged, with curl --data-binary or -T, or with CURLOPT_POSTFIELDSIZE"
#define STRIPPED "the body is a safetensors file without its NULs, as curl -d sends it; " BINARY
#define CUT                                                                                        \
    "curl -d and CURLOPT_POSTFIELDS without a size cut a binary file at its first NUL; " BINARY
#define ELEMENTS  "to send elements without a header, use base64 in JSON"
#define NO_HEADER "the body was sent as a safetensors file; " ELEMENTS

static const struct {
    td_format sent;
    const char *start;
    size_t bytes;
    const char *message; /* NULL: as it was */
} sent_as_others[] = {
    { TD_FORMAT_JSON, "\x93NUMPY\1\0", 8,
      "the body is a .npy file; send it with PUT, or to an op, as application/x-npy" },
    { TD_FORMAT_NPY, "\x93NUMPY\1\0", 8, NULL },
    { TD_FORMAT_NPY, "\x93NUMPY\1v{'descr': '<f4'", 23,
      "the body is a .npy file without its NULs, as curl -d sends it; " BINARY },
    { TD_FORMAT_NPY, "\x93NUMPY\1", 7,
      "the body is a .npy file without its NULs, as curl -d sends it; " BINARY },
    { TD_FORMAT_NPY, "\xc2\x93NUMPY\1\0", 9,
      "the body is a .npy file that was decoded as text; send its bytes unchanged" },
    { TD_FORMAT_JSON, "P{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 55,
      STRIPPED },
    { TD_FORMAT_SAFETENSORS, "\x1\x2{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 44,
      STRIPPED },
    { TD_FORMAT_JSON, "{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}\1", 43, STRIPPED },
    { TD_FORMAT_SAFETENSORS, "{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}\1", 43, STRIPPED },
    { TD_FORMAT_SAFETENSORS, "@", 1, "why; " CUT "; " NO_HEADER },
    { TD_FORMAT_SAFETENSORS, "P\1", 2, "why; " CUT "; " NO_HEADER },
    { TD_FORMAT_JSON, "@", 1, "why; " CUT },
    { TD_FORMAT_JSON, "P\1", 2, "why; " CUT "; " ELEMENTS },
    { TD_FORMAT_JSON, "\270", 1, "why; " CUT "; " ELEMENTS },
    { TD_FORMAT_JSON, "-", 1, NULL },
    { TD_FORMAT_JSON, "P{\"x\":1}", 8, NULL },
    { TD_FORMAT_SAFETENSORS, "\0\0\200\077\0\0\0\100", 8, "why; " NO_HEADER },
    { TD_FORMAT_JSON, "\0\0\200\077\0\0\0\100", 8, "why; " ELEMENTS }, /* float32 */
    { TD_FORMAT_JSON, "\1\0\0\0\2\0\0\0", 8, "why; " ELEMENTS },       /* int32 */
    { TD_FORMAT_JSON, "\0\0\0\0\1\0\0\0", 8, "why; " ELEMENTS },
    { TD_FORMAT_JSON, "\1\0\2\0", 4, "why; " ELEMENTS }, /* int16 */
    { TD_FORMAT_JSON, "33\363\077\0\0\200\077", 8, "why; " ELEMENTS },
    { TD_FORMAT_JSON, "\0", 1, "why; " ELEMENTS }, /* int8 */
    { TD_FORMAT_JSON, "\315\314\314=", 4, "why; " CUT "; " ELEMENTS },
    { TD_FORMAT_JSON, " {\"x\": \"\1\"}", 11, NULL },
    { TD_FORMAT_JSON, "[1, \0]", 6, NULL },
    { TD_FORMAT_JSON, "caf\303\251", 5, NULL },
    { TD_FORMAT_JSON, "\r\n\t ", 4, NULL },
    { TD_FORMAT_JSON, "\r\0\n\0{\0\"\0\74\116\"\0:\0001\0}\0\r\0\n\0", 22,
      "the body is text in UTF-16; send UTF-8" },
    { TD_FORMAT_JSON, "\0\0\0[\0\0\0001\0\0\0]", 12, "the body is text in UTF-32; send UTF-8" },
    { TD_FORMAT_JSON, "a\0,\0b\0\n\0001\0,\0002\0\n\0", 16,
      "the body is text in UTF-16; send UTF-8" },
    { TD_FORMAT_JSON, "d\0\0\0\310\0\0\0", 8,
      "why; to send elements without a header, use base64 in JSON" }, /* int32 100, 200 */
    { TD_FORMAT_JSON, "d\0\0\0e\0\0\0\n\0\0\0", 12,
      "why; to send elements without a header, use base64 in JSON" },
    { TD_FORMAT_JSON, "[\0\0\0\1\0\0\0]\0\0\0", 12, NULL },
    { TD_FORMAT_JSON, "d\0\310\0,\1", 6,
      "why; to send elements without a header, use base64 in JSON" }, /* int16 */
    { TD_FORMAT_JSON, "planets.npy", 11,
      "the body is the name of a file; curl sends the file's contents with --data-binary @FILE" },
    { TD_FORMAT_NPY, "my data/Planets 2.NPY", 21,
      "the body is the name of a file; curl sends the file's contents with --data-binary @FILE" },
    { TD_FORMAT_SAFETENSORS, "/tmp/model.safetensors", 22,
      "the body is the name of a file; curl sends the file's contents with --data-binary @FILE" },
    { TD_FORMAT_OIP, "request.json", 12,
      "the body is the name of a file; curl sends the file's contents with --data-binary @FILE" },
    { TD_FORMAT_JSON, "planets", 7, NULL },
    { TD_FORMAT_JSON, ".npy", 4, NULL },
    { TD_FORMAT_JSON, "[a.npy", 6, NULL },
    { TD_FORMAT_JSON, "[object Object]", 15,
      "the body is the text form of a JavaScript object; send JSON.stringify(object)" },
    { TD_FORMAT_JSON, "id,x\n1,2\n", 9,
      "the body is lines of text, such as CSV; send JSON such as [[1, 2], [3, 4]], or convert "
      "CSV to a table with deploy/import" },
    { TD_FORMAT_JSON, ",x\n0,2\n", 7,
      "the body is lines of text, such as CSV; send JSON such as [[1, 2], [3, 4]], or convert "
      "CSV to a table with deploy/import" },
    { TD_FORMAT_JSON, "1.5 2\n3 4", 9,
      "the body is lines of text, such as CSV; send JSON such as [[1, 2], [3, 4]], or convert "
      "CSV to a table with deploy/import" },
    { TD_FORMAT_JSON, "king\nqueen\n", 11,
      "the body is lines of text, such as CSV; send JSON such as [[1, 2], [3, 4]], or convert "
      "CSV to a table with deploy/import" },
    { TD_FORMAT_JSON, "king\n", 5, NULL },
    { TD_FORMAT_JSON, "king, [1]", 9, NULL },
    { TD_FORMAT_JSON, "'[1, 2]'", 8, NULL },
    { TD_FORMAT_JSON, "NaN", 3, NULL },
    { TD_FORMAT_JSON, "\100\0\0\0\0\0\0\0{\"x\"", 12,
      "the body is a safetensors file; send it as application/vnd.safetensors" },
    { TD_FORMAT_SAFETENSORS, "\100\0\0\0\0\0\0\0{\"x\"", 12, NULL },
    { TD_FORMAT_SAFETENSORS, "{\"params\"", 9, "the body is JSON; send it as application/json" },
    { TD_FORMAT_NPY, "[1, 2]", 6, "the body is JSON; send it as application/json" },
    { TD_FORMAT_JSON, "{\"params\"", 9, NULL },
    { TD_FORMAT_OIP, "{\"inputs\"", 9, NULL },
    { TD_FORMAT_SAFETENSORS, "", 0, NULL },
};

TD_TEST_EACH(a_body_that_was_sent_as_another_format_is_named, sent_as_others)
{
    td_error_set(&err, TD_MALFORMED_REQUEST, "why");
    err.offset = 0; /* a syntax error */
    ck_assert_int_eq(td_foreign_explain_body(TD_MALFORMED_REQUEST, sent_as_others[_i].sent,
                                             sent_as_others[_i].start, sent_as_others[_i].bytes,
                                             &err),
                     TD_MALFORMED_REQUEST);
    ck_assert_str_eq(err.message, sent_as_others[_i].message ? sent_as_others[_i].message : "why");
}
