/* fuzz_versions.c - what says which versions there are and what names them: manifest.json and
 * aliases.json.
 *
 * Input    A byte: 0 for a manifest, 1 for aliases.json, 2 for one whose checksum is appended; the
 *          text. */
#include "server/store/aliases/alias_file.h"
#include "server/store/files/data_dir.h"
#include "server/store/scan/manifest.h"
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char version[] = "v1";

static void expect_refused(const struct td_error *err, td_status status, size_t size)
{
    REQUIRE(status == TD_MALFORMED_REQUEST, "%s", err->message);
    fuzz_expect_error(err, status, size);
}

/* Each pair is an alias and a version, and no name is given twice. */
static void expect_aliases(const struct td_string_map *map)
{
    struct td_error err;
    for (int i = 0; i < map->count; i++) {
        const struct td_string_pair *pair = &map->pairs[i];
        REQUIRE(pair->value && td_alias_check(pair->name, pair->value, &err) == TD_OK, "%s",
                pair->name);
        REQUIRE(!strchr(pair->name, '@') && strchr(pair->value, '@'), "%s: %s", pair->name,
                pair->value);
        for (int j = 0; j < i; j++)
            REQUIRE(strcmp(map->pairs[j].name, pair->name) != 0, "%s twice", pair->name);
    }
}

/* ---- manifests ------------------------------------------------------------------------------- */

/* In the folder, visible, and with the name of a version. */
static void expect_file(const struct td_manifest_file *file)
{
    const char *suffix = strrchr(file->name, '.'), *added = strrchr(file->versioned, '@');
    REQUIRE(!strchr(file->name, '/') && file->name[0] != '.' && suffix, "%s", file->name);
    REQUIRE(strlen(file->name) < TD_FILE_NAME && strlen(file->versioned) < TD_FILE_NAME, "%s",
            file->name);
    REQUIRE(td_data_file_wanted(file->name) && td_data_file_wanted(file->versioned), "%s",
            file->name);
    REQUIRE(added && strncmp(file->name, file->versioned, (size_t)(added - file->versioned)) == 0 &&
                strncmp(added + 1, version, strlen(version)) == 0 &&
                strcmp(added + 1 + strlen(version), suffix) == 0,
            "%s becomes %s", file->name, file->versioned);
    REQUIRE(file->size <= INT64_MAX, "%s", file->name);
}

static void read_manifest(const char *text, size_t size, struct td_arena *arena)
{
    struct td_manifest manifest;
    struct td_error err = { 0 };
    const td_status status = td_manifest_read(text, size, version, arena, &manifest, &err);
    if (status != TD_OK) {
        expect_refused(&err, status, size);
        return;
    }
    fuzz_expect_json(text, size);
    REQUIRE(manifest.n_files > 0, "no file");
    for (int i = 0; i < manifest.n_files; i++) {
        expect_file(&manifest.files[i]);
        for (int j = 0; j < i; j++)
            REQUIRE(strcmp(manifest.files[j].name, manifest.files[i].name) != 0, "%s twice",
                    manifest.files[i].name);
    }
    expect_aliases(&manifest.aliases);
}

/* ---- aliases.json ---------------------------------------------------------------------------- */

static bool same(const struct td_string_map *a, const struct td_string_map *b)
{
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++)
        same = strcmp(a->pairs[i].name, b->pairs[i].name) == 0 &&
               strcmp(a->pairs[i].value, b->pairs[i].value) == 0;
    return same;
}

/* Writing it and reading it again gives the same. */
static void expect_round_trip(const struct td_alias_file *file, struct td_arena *arena)
{
    struct td_alias_list list = { .aliases =
                                      calloc((size_t)file->aliases.count + 1, sizeof *list.aliases),
                                  .count = file->aliases.count };
    struct td_taken_folder *taken = calloc((size_t)file->taken.count + 1, sizeof *taken);
    struct td_alias_file again;
    struct td_error err = { 0 };
    size_t size;
    for (int i = 0; i < list.count; i++) {
        snprintf(list.aliases[i].name, TD_TENSOR_NAME, "%s", file->aliases.pairs[i].name);
        snprintf(list.aliases[i].target, TD_TENSOR_NAME, "%s", file->aliases.pairs[i].value);
    }
    for (int i = 0; i < file->taken.count; i++) {
        snprintf(taken[i].name, sizeof taken[i].name, "%s", file->taken.pairs[i].name);
        snprintf(taken[i].digest, sizeof taken[i].digest, "%s", file->taken.pairs[i].value);
    }
    char *text = td_alias_file_text(&list, taken, file->taken.count, &size);
    fuzz_expect_json(text, size);
    REQUIRE(td_alias_file_read(text, size, arena, &again, &err) == TD_OK, "%s", err.message);
    REQUIRE(same(&file->aliases, &again.aliases) && same(&file->taken, &again.taken), "%.*s",
            (int)size, text);
    free(text);
    free(taken);
    free(list.aliases);
}

static void read_aliases(const char *text, size_t size, struct td_arena *arena)
{
    struct td_alias_file file;
    struct td_error err = { 0 };
    const td_status status = td_alias_file_read(text, size, arena, &file, &err);
    if (status != TD_OK) {
        expect_refused(&err, status, size);
        return;
    }
    fuzz_expect_json(text, size);
    expect_aliases(&file.aliases);
    for (int i = 0; i < file.taken.count; i++)
        REQUIRE(td_version_name_valid(file.taken.pairs[i].name), "%s", file.taken.pairs[i].name);
    expect_round_trip(&file, arena);
}

/* The text, which ends before a last member, with its checksum. */
static char *with_checksum(const uint8_t *data, size_t *size)
{
    char member[64];
    const int length = snprintf(member, sizeof member, "\"checksum\":\"xxh3-64:%016" PRIx64 "\"}",
                                (uint64_t)XXH3_64bits(data, *size));
    char *text = malloc(*size + (size_t)length);
    if (*size > 0)
        memcpy(text, data, *size);
    memcpy(text + *size, member, (size_t)length);
    *size += (size_t)length;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t kind = fuzz_byte(&data, &size) % 3;
    struct td_arena *arena = fuzz_arena_open();
    char *text = kind == 2 ? with_checksum(data, &size) : fuzz_copy(data, size, 0);
    if (kind == 0)
        read_manifest(text, size, arena);
    else
        read_aliases(text, size, arena);
    free(text);
    fuzz_arena_close(arena);
    return 0;
}
