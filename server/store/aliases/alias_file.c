#include "server/store/aliases/alias_file.h"

#include "api/text/text.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define DIGEST "xxh3-64:"

enum { DIGEST_TEXT = sizeof DIGEST + 16 };

static void print_digest(const char *text, size_t bytes, char digest[DIGEST_TEXT])
{
    snprintf(digest, DIGEST_TEXT, DIGEST "%016" PRIx64, (uint64_t)XXH3_64bits(text, bytes));
}

td_status td_alias_check_kind(const char *name, const char *target, struct td_error *err)
{
    if (td_is_program_name(name, strlen(name)) == td_is_program_name(target, strlen(target)))
        return TD_OK;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "the alias '%s' cannot name '%s': an alias of a program has a name "
                        "ALIAS.program, and names NAME.program@VERSION",
                        name, target);
}

td_status td_alias_check(const char *name, const char *target, struct td_error *err)
{
    char table[TD_TENSOR_NAME];
    size_t length;
    struct td_unicode_reason reason;
    const char *why = td_name_fault(name, strlen(name), &reason);
    if (why)
        return td_error_set(err, TD_INVALID_ARGUMENT, "'%s' cannot be an alias: %s",
                            TD_SHOWN(name, strlen(name)), why);
    why = target ? td_name_fault(target, strlen(target), &reason) : NULL;
    if (why)
        return td_error_set(err, TD_INVALID_ARGUMENT, "the alias '%s' cannot name '%s': %s", name,
                            TD_SHOWN(target, strlen(target)), why);
    if (!td_name_valid(name) || td_table_version(name) ||
        td_table_of_keys(name, strlen(name), table, &length))
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "'%.140s' cannot be an alias: expected the name of a %s without '@'%s",
                            name, td_named_kind(name),
                            td_is_program_name(name, strlen(name))
                                ? ", NAME.program"
                                : ", but not the name of keys, X.keys");
    if (target && (!td_name_valid(target) || !td_table_version(target)))
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "the alias '%s' cannot name '%.140s': expected a version, NAME@VERSION",
                            name, target);
    return target ? td_alias_check_kind(name, target, err) : TD_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reader {
    struct td_json_scan scan;
    struct td_arena *arena;
    struct td_alias_file *file;
    bool has_aliases;
    bool ended; /* the checksum has been read */
    struct td_error *err;
};

static td_status read_checksum(struct reader *reader, const struct td_json_path *path,
                               const char *name)
{
    char wanted[DIGEST_TEXT];
    const char *given;
    const td_status status =
        td_json_c_string(&reader->scan, path, "checksum", reader->arena, &given, reader->err);
    if (status != TD_OK)
        return status;
    /* A name with escapes is decoded elsewhere, so it does not point into the text. */
    if (name <= reader->scan.begin || name >= reader->scan.end)
        return td_json_refuse(path, reader->err, "the name checksum is written with escapes");
    print_digest(reader->scan.begin, (size_t)(name - 1 - reader->scan.begin), wanted);
    reader->ended = true;
    return strcmp(given, wanted) == 0
               ? TD_OK
               : td_json_refuse(path, reader->err,
                                "it is damaged or was edited: its checksum is %.40s; expected %s. "
                                "After an edit, remove the member checksum and the comma before it",
                                given, wanted);
}

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct reader *reader = context;
    if (reader->ended)
        return td_json_refuse(path, reader->err, "a member follows the checksum");
    if (td_json_name_is(name, "aliases")) {
        reader->has_aliases = true;
        return td_json_string_map(&reader->scan, path, "aliases", reader->arena,
                                  &reader->file->aliases, reader->err);
    }
    if (td_json_name_is(name, "taken"))
        return td_json_string_map(&reader->scan, path, "taken", reader->arena, &reader->file->taken,
                                  reader->err);
    if (td_json_name_is(name, "checksum"))
        return read_checksum(reader, path, name.text);
    return td_json_refuse(path, reader->err,
                          "the member \"%s\" is unknown; expected aliases, taken and checksum",
                          TD_SHOWN(name.text, name.length));
}

static td_status check_aliases(const struct td_string_map *aliases, struct td_error *err)
{
    for (int i = 0; i < aliases->count; i++) {
        const struct td_string_pair *pair = &aliases->pairs[i];
        if (!pair->value)
            return td_error_set(err, TD_MALFORMED_REQUEST, "the alias '%.140s' is null",
                                pair->name);
        if (td_alias_check(pair->name, pair->value, err) != TD_OK) {
            err->status = TD_MALFORMED_REQUEST;
            return TD_MALFORMED_REQUEST;
        }
    }
    return TD_OK;
}

static td_status check_taken(const struct td_string_map *taken, struct td_error *err)
{
    for (int i = 0; i < taken->count; i++) {
        const struct td_string_pair *pair = &taken->pairs[i];
        if (!td_version_name_valid(pair->name) || !pair->value ||
            strlen(pair->value) != TD_MANIFEST_DIGEST - 1)
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "taken has '%.70s' without a version and a digest", pair->name);
    }
    return TD_OK;
}

td_status td_alias_file_read(const char *text, size_t bytes, struct td_arena *arena,
                             struct td_alias_file *out, struct td_error *err)
{
    struct reader reader = { .scan = { .begin = text, .at = text, .end = text + bytes },
                             .arena = arena,
                             .file = out,
                             .err = err };
    *out = (struct td_alias_file){ 0 };
    if (td_json_peek(&reader.scan) != '{')
        return td_error_set(err, TD_MALFORMED_REQUEST, "expected a JSON object");
    td_status status =
        td_json_object(&reader.scan, NULL, "the file", read_member, &reader, arena, err);
    td_json_peek(&reader.scan);
    if (status == TD_OK && reader.scan.at != reader.scan.end)
        return td_json_syntax(&reader.scan, reader.scan.at, err, "expected the end of the file");
    /* If {} were accepted, a faulty generator of the file could remove all aliases. */
    if (status == TD_OK && !reader.has_aliases)
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "aliases is missing; a file without aliases is {\"aliases\": {}}");
    if (status == TD_OK)
        status = check_aliases(&out->aliases, err);
    return status == TD_OK ? check_taken(&out->taken, err) : status;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void add_pair(struct td_text *text, const char *name, const char *value,
                     const char **separator)
{
    td_text_print(text, "%s\n\"%s\":\"%s\"", *separator, name, value);
    *separator = ",";
}

char *td_alias_file_text(const struct td_alias_list *list, const struct td_taken_folder *taken,
                         int n, size_t *bytes)
{
    /* Each line has two strings in quotes, a colon, a comma and a line feed. The strings need no
     * escapes. */
    enum {
        PER_ALIAS = 2 * TD_TENSOR_NAME + 8,
        PER_FOLDER = TD_TABLE_VERSION + TD_MANIFEST_DIGEST + 8,
        FRAME = 64 + DIGEST_TEXT
    };
    char digest[DIGEST_TEXT];
    const size_t size = (size_t)list->count * PER_ALIAS + (size_t)n * PER_FOLDER + FRAME;
    char *begin = malloc(size);
    struct td_text text = { .at = begin, .end = begin ? begin + size : NULL };
    const char *separator = "";
    if (!begin)
        return NULL;
    td_text_string(&text, "{\"aliases\":{");
    for (int i = 0; i < list->count; i++)
        add_pair(&text, list->aliases[i].name, list->aliases[i].target, &separator);
    td_text_string(&text, n > 0 ? "},\n\"taken\":{" : "");
    separator = "";
    for (int i = 0; i < n; i++)
        add_pair(&text, taken[i].name, taken[i].digest, &separator);
    td_text_string(&text, "},\n");
    print_digest(begin, (size_t)(text.at - begin), digest);
    td_text_print(&text, "\"checksum\":\"%s\"}\n", digest);
    *bytes = (size_t)(text.at - begin);
    return begin;
}
