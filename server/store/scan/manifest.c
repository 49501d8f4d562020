#include "server/store/scan/manifest.h"

#include "kernels/shown_text.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/files/data_dir.h"

#include <stdio.h>
#include <string.h>

struct reader {
    struct td_json_scan scan;
    const char *version;
    struct td_arena *arena;
    struct td_manifest *manifest;
    int capacity;
    /* True if the file that is being read has these members. */
    bool has_size, has_digest;
    struct td_error *err;
};

static td_status unknown(struct reader *reader, const struct td_json_path *path,
                         struct td_json_name name, const char *expected)
{
    return td_json_refuse(path, reader->err, "the member \"%s\" is unknown; expected %s",
                          TD_SHOWN(name.text, name.length), expected);
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* Sets both names of the file. The stem combined with the version must be a valid name, so the file
 * name has no slash and is not hidden. */
static td_status name_file(struct reader *reader, const struct td_json_path *path,
                           struct td_json_name name, struct td_manifest_file *file)
{
    char stem[TD_FILE_NAME], versioned[TD_FILE_NAME];
    const char *text = td_arena_text(reader->arena, name.text, name.length, reader->err);
    if (!text)
        return reader->err->status;
    if (strlen(text) != name.length || !td_data_file_wanted(text))
        return td_json_refuse(
            path, reader->err,
            "'%s' is not the name of a .npy, .safetensors, .tensord or .program.json file",
            TD_SHOWN(name.text, name.length));
    const char *suffix = td_data_file_suffix(text);
    const int length = (int)(suffix - text);
    if ((size_t)length + strlen(reader->version) + 1 < TD_TENSOR_NAME)
        snprintf(stem, sizeof stem, "%.*s@%s", length, text, reader->version);
    else
        stem[0] = '\0';
    struct td_unicode_reason reason;
    const char *why = td_name_fault(stem, strlen(stem), &reason);
    if (!td_name_valid(stem))
        return td_json_refuse(
            path, reader->err, "'%s' with the version '%s' is not a valid name%s%s",
            TD_SHOWN(name.text, name.length), reader->version, why ? ": " : "", why ? why : "");
    snprintf(versioned, sizeof versioned, "%s%s", stem, suffix);
    file->name = text;
    file->versioned = td_arena_text(reader->arena, versioned, strlen(versioned), reader->err);
    return file->versioned ? TD_OK : reader->err->status;
}

static td_status read_size(struct reader *reader, const struct td_json_path *path,
                           struct td_manifest_file *file)
{
    int64_t size = 0;
    bool fits = false;
    const char c = td_json_peek(&reader->scan);
    const td_status status = c == '-' || (c >= '0' && c <= '9')
                                 ? td_json_int64(&reader->scan, &size, &fits, reader->err)
                                 : TD_OK;
    if (status != TD_OK)
        return status;
    if (!fits || size < 0)
        return td_json_refuse(path, reader->err, "size is not an integer from 0 to 2^63 - 1");
    file->size = (uint64_t)size;
    reader->has_size = true;
    return TD_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static td_status read_digest(struct reader *reader, const struct td_json_path *path,
                             struct td_manifest_file *file)
{
    const char *text;
    const td_status status =
        td_json_c_string(&reader->scan, path, "sha256", reader->arena, &text, reader->err);
    if (status != TD_OK)
        return status;
    bool valid = strlen(text) == 2 * (size_t)TD_SHA256_BYTES;
    for (size_t i = 0; valid && i < TD_SHA256_BYTES; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        valid = high >= 0 && low >= 0;
        file->sha256[i] = (unsigned char)(valid ? 16 * high + low : 0);
    }
    reader->has_digest = valid;
    return valid ? TD_OK
                 : td_json_refuse(path, reader->err,
                                  "sha256 is not 64 hexadecimal digits in lower case");
}

static td_status read_file_member(void *context, const struct td_json_path *path,
                                  struct td_json_name name)
{
    struct reader *reader = context;
    struct td_manifest_file *file = &reader->manifest->files[reader->manifest->n_files];
    if (td_json_name_is(name, "size"))
        return read_size(reader, path, file);
    if (td_json_name_is(name, "sha256"))
        return read_digest(reader, path, file);
    return unknown(reader, path, name, "size and sha256");
}

static td_status make_room(struct reader *reader)
{
    struct td_manifest *manifest = reader->manifest;
    if (manifest->n_files < reader->capacity)
        return TD_OK;
    const int capacity = reader->capacity ? 2 * reader->capacity : 8;
    struct td_manifest_file *larger =
        td_arena_alloc(reader->arena, (size_t)capacity, sizeof *larger, reader->err);
    if (!larger)
        return reader->err->status;
    if (manifest->n_files > 0)
        memcpy(larger, manifest->files, (size_t)manifest->n_files * sizeof *larger);
    manifest->files = larger;
    reader->capacity = capacity;
    return TD_OK;
}

static td_status read_file(void *context, const struct td_json_path *path, struct td_json_name name)
{
    struct reader *reader = context;
    td_status status = make_room(reader);
    if (status != TD_OK)
        return status;
    struct td_manifest_file *file = &reader->manifest->files[reader->manifest->n_files];
    *file = (struct td_manifest_file){ 0 };
    reader->has_size = reader->has_digest = false;
    status = name_file(reader, path, name, file);
    if (status == TD_OK)
        status = td_json_object(&reader->scan, path, "a file", read_file_member, reader,
                                reader->arena, reader->err);
    if (status == TD_OK && (!reader->has_size || !reader->has_digest))
        return td_json_refuse(path, reader->err, "%s has no %s", file->name,
                              reader->has_size ? "sha256" : "size");
    reader->manifest->n_files += status == TD_OK;
    return status;
}

/* ---- the document ---------------------------------------------------------------------------- */

static td_status read_aliases(struct reader *reader, const struct td_json_path *path)
{
    struct td_string_map *aliases = &reader->manifest->aliases;
    td_status status =
        td_json_string_map(&reader->scan, path, "aliases", reader->arena, aliases, reader->err);
    for (int i = 0; i < aliases->count && status == TD_OK; i++) {
        const struct td_string_pair *pair = &aliases->pairs[i];
        if (!pair->value)
            return td_json_refuse(path, reader->err, "the alias '%.140s' is null", pair->name);
        status = td_alias_check(pair->name, pair->value, reader->err);
    }
    return status;
}

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct reader *reader = context;
    if (td_json_name_is(name, "files"))
        return td_json_object(&reader->scan, path, "files", read_file, reader, reader->arena,
                              reader->err);
    if (td_json_name_is(name, "aliases"))
        return read_aliases(reader, path);
    return unknown(reader, path, name, "files and aliases");
}

td_status td_manifest_read(const char *text, size_t bytes, const char *version,
                           struct td_arena *arena, struct td_manifest *out, struct td_error *err)
{
    struct reader reader = { .scan = { .begin = text, .at = text, .end = text + bytes },
                             .version = version,
                             .arena = arena,
                             .manifest = out,
                             .err = err };
    *out = (struct td_manifest){ 0 };
    if (td_json_peek(&reader.scan) != '{')
        return td_error_set(err, TD_MALFORMED_REQUEST, "expected a JSON object");
    td_status status =
        td_json_object(&reader.scan, NULL, "the manifest", read_member, &reader, arena, err);
    td_json_peek(&reader.scan);
    if (status == TD_OK && reader.scan.at != reader.scan.end)
        return td_json_syntax(&reader.scan, reader.scan.at, err, "expected the end of the file");
    if (status == TD_OK && out->n_files == 0)
        return td_error_set(err, TD_MALFORMED_REQUEST, "it lists no files");
    if (status == TD_INVALID_ARGUMENT)
        err->status = status = TD_MALFORMED_REQUEST;
    return status;
}
