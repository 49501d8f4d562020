#include "api/files/foreign.h"

#include "api/files/npy.h"
#include "api/files/safetensors.h"

#include <string.h>

#define IMPORT "deploy/import makes a table of it"
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
    { "\xff\xfe", 2, { "text in UTF-16", "send UTF-8", SAVE } },
    { "\xfe\xff", 2, { "text in UTF-16", "send UTF-8", SAVE } },
    { "\xef\xbb\xbf",
      3,
      { "text with a byte order mark", "send it without its first 3 bytes", SAVE } },
};

/* Formats that tensord reads, in a body that was sent as another one of them. */
static const struct td_foreign npy = { "a .npy file", "PUT takes it as application/x-npy", "" },
                               safetensors = { "a safetensors file",
                                               "send it as application/vnd.safetensors", "" },
                               json = { "JSON", "send it as application/json", "" };

static const struct td_foreign *find_other(td_format sent, const char *bytes, size_t size)
{
    const bool is_text = sent == TD_FORMAT_JSON || sent == TD_FORMAT_OIP;
    if (td_npy_is(bytes, size))
        return sent == TD_FORMAT_NPY ? NULL : &npy;
    if (td_safetensors_is(bytes, size))
        return sent == TD_FORMAT_SAFETENSORS ? NULL : &safetensors;
    return !is_text && size > 0 && (bytes[0] == '{' || bytes[0] == '[') ? &json : NULL;
}

const struct td_foreign *td_foreign_find(const void *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (size >= formats[i].bytes && memcmp(bytes, formats[i].start, formats[i].bytes) == 0)
            return &formats[i].format;
    return NULL;
}

td_status td_foreign_explain_body(td_status status, td_format sent, const void *bytes, size_t size,
                                  struct td_error *err)
{
    if (status != TD_MALFORMED_REQUEST)
        return status;
    const struct td_foreign *found = td_foreign_find(bytes, size);
    if (!found)
        found = find_other(sent, bytes, size);
    if (!found)
        return status;
    td_error_set(err, status, "the body is %s; %s", found->name, found->of_body);
    if (err)
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
