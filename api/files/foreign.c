#include "api/files/foreign.h"

#include "api/files/npy.h"
#include "api/files/safetensors.h"
#include "kernels/name.h"
#include "kernels/utf8.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define IMPORT "convert it to a table with deploy/import"
#define SAVE   "save its tensors as .safetensors or .npy"

static const struct {
    const char *start;
    size_t bytes;
    struct td_foreign format;
} formats[] = {
    { "PK\3\4", 4, { "a zip archive, such as .npz or .pt", IMPORT, IMPORT } },
    { "PK\5\6", 4, { "an empty zip archive", IMPORT, IMPORT } },
    { "PAR1", 4, { "a Parquet file", IMPORT, IMPORT } },
    { "ARROW1", 6, { "an Arrow file", IMPORT, IMPORT } },
    { "\x80\2",
      2,
      { "a pickle", IMPORT " if torch.save wrote it", IMPORT " if torch.save wrote it" } },
    { "\x80\3", 2, { "a pickle", SAVE, SAVE } },
    { "\x80\4", 2, { "a pickle", SAVE, SAVE } },
    { "\x80\5", 2, { "a pickle", SAVE, SAVE } },
    { "GGUF", 4, { "a GGUF file", SAVE, SAVE } },
    { "\x89HDF\r\n\x1a\n", 8, { "an HDF5 file", SAVE, SAVE } },
    { "\x1f\x8b",
      2,
      { "compressed with gzip", "send it with Content-Encoding: gzip", "decompress it" } },
    { "\x28\xb5\x2f\xfd", 4, { "compressed with zstd", "decompress it", "decompress it" } },
    { "\xfd\x37zXZ", 6, { "compressed with xz", "decompress it", "decompress it" } },
    { "BZh", 3, { "compressed with bzip2", "decompress it", "decompress it" } },
    { "\xff\xfe\0\0", 4, { "text in UTF-32", "send UTF-8", SAVE } },
    { "\0\0\xfe\xff", 4, { "text in UTF-32", "send UTF-8", SAVE } },
    { "\xff\xfe", 2, { "text in UTF-16", "send UTF-8", SAVE } },
    { "\xfe\xff", 2, { "text in UTF-16", "send UTF-8", SAVE } },
    { "\xef\xbb\xbf",
      3,
      { "text with a byte order mark", "send it without its first 3 bytes", SAVE } },
};

/* Formats that tensord reads, used to name the real format of a body that was sent as another
 * format. */
static const struct td_foreign npy = { "a .npy file",
                                       "send it with PUT, or to an op, as application/x-npy", "" },
                               safetensors = { "a safetensors file",
                                               "send it as application/vnd.safetensors", "" },
                               json = { "JSON", "send it as application/json", "" };

/* Text that is not JSON. */
static const struct td_foreign
    utf16 = { "text in UTF-16", "send UTF-8", "" },
    utf32 = { "text in UTF-32", "send UTF-8", "" },
    form = { "a form, name=value", "send JSON, {\"name\": value}", "" },
    multipart = { "a multipart form", "send the JSON text alone", "" },
    markup = { "XML or HTML", "send JSON", "" },
    file_name = { "the name of a file",
                  "curl sends the file's contents with --data-binary "
                  "@FILE",
                  "" },
    printed_object = { "the text form of a JavaScript object", "send JSON.stringify(object)", "" },
    lines = { "lines of text, such as CSV",
              "send JSON such as [[1, 2], [3, 4]], or convert CSV to a table with deploy/import",
              "" };

/* Binary files that were damaged because they were sent as text. */
#define BINARY "send it unchanged, with curl --data-binary or -T, or with CURLOPT_POSTFIELDSIZE"
static const struct td_foreign
    stripped_npy = { "a .npy file without its NULs, as curl -d sends it", BINARY, "" },
    stripped_safetensors = { "a safetensors file without its NULs, as curl -d sends it", BINARY,
                             "" },
    decoded_npy = { "a .npy file that was decoded as text", "send its bytes unchanged", "" };

/* True for control characters, which JSON and CSV do not contain. */
static bool is_control(char c)
{
    return (unsigned char)c < ' ' && c != '\t' && c != '\n' && c != '\r';
}

/* Returns the UTF-16 or UTF-32 code unit at `bytes`. */
static uint32_t unit_at(const unsigned char *bytes, size_t width, bool is_big_endian)
{
    uint32_t unit = 0;
    for (size_t i = 0; i < width; i++)
        unit |= (uint32_t)bytes[i] << 8 * (is_big_endian ? width - 1 - i : i);
    return unit;
}

static bool is_printable(uint32_t unit)
{
    enum { AFTER_ASCII = 0x7f, FIRST_OF_LATIN = 0xa0, LAST_OF_UNICODE = 0x10ffff };
    return unit < AFTER_ASCII ? !is_control((char)unit)
                              : unit >= FIRST_OF_LATIN && unit <= LAST_OF_UNICODE;
}

/* True if the whole text is UTF-16 or UTF-32 and is either complete JSON or lines with a separator.
 * The first character must be ASCII. Elements of int16 and int32 tensors can also look like
 * characters, but they rarely form such a text. */
static bool is_wide(const char *text, size_t size, size_t width)
{
    const unsigned char *bytes = (const unsigned char *)text;
    const bool is_big_endian = size > 0 && bytes[0] == 0;
    uint32_t first = 0, last = 0, end = 0;
    bool is_separated = false;
    if (size % width)
        return false;
    for (size_t at = 0; at < size; at += width) {
        end = unit_at(bytes + at, width, is_big_endian);
        if (!is_printable(end))
            return false;
        is_separated |= end == ',' || end == ';' || end == '\t';
        last = end == ' ' || end == '\t' || end == '\r' || end == '\n' ? last : end;
        first = first ? first : last;
    }
    const bool is_json = (first == '{' && last == '}') || (first == '[' && last == ']');
    return is_json || (is_separated && end == '\n' && first < 0x80);
}

static const struct td_foreign *find_wide_text(const char *bytes, size_t size)
{
    return is_wide(bytes, size, 4) ? &utf32 : is_wide(bytes, size, 2) ? &utf16 : NULL;
}

/* True if the text starts with a name and '='. */
static bool is_form(const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && (isalnum((unsigned char)bytes[at]) || bytes[at] == '_' || bytes[at] == '.'))
        at++;
    return at > 0 && at < size && bytes[at] == '=';
}

/* True if the first line consists of values with separators between them and has no brackets. */
static bool is_lines(const char *bytes, size_t size)
{
    enum { MOST = 4096 };
    size_t at = 0, separators = 0, spaces = 0;
    if (size == 0 || !(isalnum((unsigned char)bytes[0]) || strchr("-#,", bytes[0])))
        return false;
    for (; at < size && at < MOST && bytes[at] != '\n'; at++) {
        const unsigned char c = (unsigned char)bytes[at];
        if (c == ' ')
            spaces++;
        else if (c == ',' || c == ';' || c == '\t')
            separators++;
        else if ((c < ' ' && c != '\r') || strchr("[]{}", c))
            return false;
    }
    const bool ends = at < size && bytes[at] == '\n';
    return separators > 0 || (ends && (spaces > 0 || at + 1 < size));
}

/* True if the body is a file name, which is what curl sends if the user forgets the '@'. */
static bool is_file_name(const char *bytes, size_t size)
{
    static const char *const endings[] = { ".npy", ".npz",     ".safetensors", ".json", ".jsonl",
                                           ".csv", ".parquet", ".arrow",       ".tsv",  ".txt",
                                           ".pt",  ".feather", ".bin",         ".gz" };
    enum { MOST = 255 };
    if (size > MOST)
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)bytes[i] < ' ' || strchr("\"[]{}", bytes[i]))
            return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t length = strlen(endings[i]);
        if (size > length && td_name_is_caseless(endings[i], bytes + size - length, length))
            return true;
    }
    return false;
}

/* True if the body is not text: its first character is not UTF-8, or its start contains control
 * characters. Returns false if the body starts like JSON, because the JSON error names the invalid
 * byte. */
static bool is_binary(const char *bytes, size_t size)
{
    enum { LOOKED_AT = 64 };
    while (size > 0 && *bytes && strchr(" \t\n\r", *bytes))
        bytes++, size--;
    if (size == 0 || (*bytes && strchr("{[\"", *bytes)))
        return false;
    for (size_t i = 0; i < size && i < LOOKED_AT; i++)
        if (is_control(bytes[i]))
            return true;
    return td_utf8_character((const unsigned char *)bytes, size) == 0;
}

static bool begins(const char *bytes, size_t size, const char *with)
{
    const size_t length = strlen(with);
    return size >= length && memcmp(bytes, with, length) == 0;
}

/* Recognises binary files that the client damaged. `curl -d @file` omits NULs and line breaks, or
 * ends the body at the first NUL. In a file that was decoded as text, \x93 at the start is
 * replaced: by \xc2\x93 if the file was decoded as Latin-1, or by the replacement character if
 * decoding failed. */
static const struct td_foreign *find_stripped(const char *bytes, size_t size)
{
    enum { NPY_MINOR = 7, HEADER = 256, LENGTH = 3 };
    static const char offsets[] = "\"data_offsets\"";
    if (td_npy_is(bytes, size)) {
        const bool cut = size <= NPY_MINOR;
        return cut || (bytes[NPY_MINOR] && !memchr(bytes, 0, size < HEADER ? size : HEADER))
                   ? &stripped_npy
                   : NULL;
    }
    if (begins(bytes, size, "\xc2\x93NUMPY") || begins(bytes, size, "\xef\xbf\xbdNUMPY"))
        return &decoded_npy;
    for (size_t at = 0; at <= LENGTH && at + 1 < size; at++)
        if (bytes[at] == '{' && bytes[at + 1] == '"' && (at == 0 || !strchr("[{", bytes[0])))
            return memmem(bytes, size < 65536 ? size : 65536, offsets, sizeof offsets - 1)
                       ? &stripped_safetensors
                       : NULL;
    return NULL;
}

/* True if the body might be a binary file that was cut at its first NUL: it contains no NUL, and it
 * was sent as safetensors, or as JSON although it is not text. */
static bool may_be_cut(td_format sent, const char *bytes, size_t size)
{
    if (size == 0 || memchr(bytes, 0, size))
        return false;
    if (sent == TD_FORMAT_SAFETENSORS)
        return true;
    return sent == TD_FORMAT_JSON &&
           (is_binary(bytes, size) || (size == 1 && !strchr(" \t\n\r\"{[-0123456789tfn", *bytes)));
}

static const struct td_foreign *find_other_text(const char *bytes, size_t size)
{
    if (begins(bytes, size, "[object "))
        return &printed_object;
    if (size > 0 && bytes[0] == '<')
        return &markup;
    if (size > 2 && memcmp(bytes, "--", 2) == 0)
        return &multipart;
    if (is_form(bytes, size))
        return &form;
    const struct td_foreign *wide = find_wide_text(bytes, size);
    return wide ? wide : is_lines(bytes, size) ? &lines : NULL;
}

static const struct td_foreign *find_other(td_format sent, const char *bytes, size_t size)
{
    const bool is_text = sent == TD_FORMAT_JSON || sent == TD_FORMAT_OIP;
    const struct td_foreign *stripped = find_stripped(bytes, size);
    if (stripped)
        return stripped;
    if (td_npy_is(bytes, size))
        return sent == TD_FORMAT_NPY ? NULL : &npy;
    if (td_safetensors_is(bytes, size))
        return sent == TD_FORMAT_SAFETENSORS ? NULL : &safetensors;
    if (is_file_name(bytes, size))
        return &file_name;
    if (is_text)
        return find_other_text(bytes, size);
    return size > 0 && (bytes[0] == '{' || bytes[0] == '[') ? &json : NULL;
}

const struct td_foreign *td_foreign_find(const void *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (size >= formats[i].bytes && memcmp(bytes, formats[i].start, formats[i].bytes) == 0)
            return &formats[i].format;
    return NULL;
}

#define MAY_BE_CUT                                                                                 \
    "curl -d and CURLOPT_POSTFIELDS without a size cut a binary file at its first NUL; " BINARY
#define ELEMENTS_ALONE "to send elements without a header, use base64 in JSON"

td_status td_foreign_explain_body(td_status status, td_format sent, const void *bytes, size_t size,
                                  struct td_error *err)
{
    if (status != TD_MALFORMED_REQUEST)
        return status;
    const struct td_foreign *found = td_foreign_find(bytes, size);
    if (!found)
        found = find_other(sent, bytes, size);
    if (found == &lines && err->offset < 0) /* the text is JSON */
        found = NULL;
    if (!found && may_be_cut(sent, bytes, size))
        td_error_hint(err, MAY_BE_CUT);
    if (!found && sent == TD_FORMAT_SAFETENSORS && size > 0 && !td_safetensors_is(bytes, size))
        td_error_hint(err, "the body was sent as a safetensors file; " ELEMENTS_ALONE);
    if (!found && sent == TD_FORMAT_JSON && is_binary(bytes, size))
        td_error_hint(err, ELEMENTS_ALONE);
    if (!found)
        return status;
    td_error_set(err, status, "the body is %s; %s", found->name, found->of_body);
    err->offset = 0;
    return status;
}

td_status td_foreign_explain_file(td_status status, const void *bytes, size_t size,
                                  struct td_error *err)
{
    const struct td_foreign *found =
        status == TD_MALFORMED_REQUEST ? td_foreign_find(bytes, size) : NULL;
    return found ? td_error_set(err, status, "it is %s; %s", found->name, found->of_file) : status;
}
