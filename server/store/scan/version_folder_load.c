#include "server/store/scan/version_folder_load.h"

#include "api/text/sorted_names.h"
#include "server/store/aliases/alias_folder.h"
#include "server/store/entries.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/load.h"
#include "server/store/scan/verify.h"
#include "server/store/scan/version_folder_digest.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct td_manifest_file *)a)->versioned,
                  ((const struct td_manifest_file *)b)->versioned);
}

/* Reads the manifest and sorts its files by name. */
static td_status read_manifest(struct td_folder_load *load, struct td_error *err)
{
    char *text;
    size_t bytes;
    struct td_file_id id;
    if (!td_version_name_valid(load->name))
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "its name is not a valid VERSION; expected 1 to %d of the characters "
                            "A-Z, a-z, 0-9, '.', '_' and '-'",
                            TD_TABLE_VERSION - 1);
    td_status status = td_sub_folder_read_text(load->folder, TD_MANIFEST_FILE, TD_MANIFEST_BYTES,
                                               &text, &bytes, &id, err);
    if (status == TD_OK && !text)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, TD_MANIFEST_FILE " is gone");
    if (status == TD_OK) {
        td_folder_digest(text, bytes, load->digest);
        load->known = td_alias_folder_is_taken(load->store, load->name, load->digest);
        status = td_manifest_read(text, bytes, load->name, &load->arena, &load->manifest, err);
    }
    if (status == TD_OK)
        qsort(load->manifest.files, (size_t)load->manifest.n_files, sizeof *load->manifest.files,
              by_file);
    free(text);
    return status;
}

static td_status load_file(struct td_folder_load *load, int i, struct td_error *err)
{
    const bool compare = !load->known || load->store->verify == TD_VERIFY_START;
    const struct td_manifest_file *file = &load->manifest.files[i];
    struct td_mapped_bytes bytes;
    struct td_error reason;
    td_status status = td_sub_folder_load(load->folder, file->name, file->versioned, file->size,
                                          &load->arena, &load->contents[i], &bytes, &reason);
    if (status == TD_OK && compare)
        status = td_folder_check_digest(load->store, file->sha256, &bytes, &reason);
    if (status == TD_OK)
        status = td_store_verify_header(load->store, &load->contents[i], &reason);
    return status == TD_OK ? TD_OK
                           : td_error_set(err, status, "%s: %s", file->name, reason.message);
}

static td_status load_files(struct td_folder_load *load, struct td_error *err)
{
    const int n = load->manifest.n_files;
    td_status status = TD_OK;
    load->contents = td_arena_alloc(&load->arena, (size_t)n, sizeof *load->contents, err);
    if (!load->contents)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < n && status == TD_OK; i++) {
        status = load_file(load, i, err);
        load->n_tensors += load->contents[i].count;
        if (status == TD_OK)
            status = td_store_check_count(load->store, load->n_tensors, err);
    }
    return status;
}

static const char *file_at(const void *files, int i)
{
    return ((const struct td_manifest_file *)files)[i].versioned;
}

/* Returns the index of the manifest's file whose name, combined with the version, is `versioned`.
 * Returns -1 if there is none. */
static int find_file(const struct td_manifest *manifest, const char *versioned)
{
    bool found;
    const int i = td_sorted_find(manifest->files, manifest->n_files, file_at, versioned,
                                 strlen(versioned), &found);
    return found ? i : -1;
}

/* Adds the keys in X.keys.npy to the table in X.npy. X.keys.npy then has no tensor of its own. */
static td_status join_keys(struct td_folder_load *load, struct td_error *err)
{
    td_status status = TD_OK;
    for (int i = 0; i < load->manifest.n_files && status == TD_OK; i++) {
        const struct td_manifest_file *file = &load->manifest.files[i];
        char versioned[TD_FILE_NAME], other[TD_FILE_NAME];
        if (!td_data_table_of_keys_file(file->versioned, versioned))
            continue;
        const int table = find_file(&load->manifest, versioned);
        if (table < 0 || td_data_table_of_keys_file(versioned, other))
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "%s has the name of a file of keys, but the manifest lists no "
                                ".npy file with the same name without .keys",
                                file->name);
        status = td_data_join_keys(&load->contents[table], &load->contents[i], file->name, err);
        load->contents[i].count = 0;
        load->n_tensors--;
    }
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_folder_tensor *)a)->found->name,
                  ((const struct td_folder_tensor *)b)->found->name);
}

/* Lists the tensors of all files, sorted by name. Each name must be valid and occur only once. */
static td_status list_tensors(struct td_folder_load *load, struct td_error *err)
{
    int n = 0;
    td_status status = TD_OK;
    load->tensors =
        td_arena_alloc(&load->arena, (size_t)load->n_tensors, sizeof *load->tensors, err);
    if (!load->tensors)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < load->manifest.n_files; i++)
        for (int j = 0; j < load->contents[i].count; j++)
            load->tensors[n++] = (struct td_folder_tensor){ .found = &load->contents[i].tensors[j],
                                                            .file = &load->manifest.files[i],
                                                            .id = &load->contents[i].id };
    qsort(load->tensors, (size_t)n, sizeof *load->tensors, by_name);
    for (int i = 0; i < n && status == TD_OK; i++) {
        const char *name = load->tensors[i].found->name;
        status = td_data_check_name(load->tensors[i].file->name, name, err);
        if (status == TD_OK && i > 0 && strcmp(name, load->tensors[i - 1].found->name) == 0)
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "two of its files contain the tensor "
                                "'%s'",
                                name);
    }
    return status;
}

td_status td_folder_read(struct td_folder_load *load, struct td_error *err)
{
    td_status status = read_manifest(load, err);
    if (status == TD_OK)
        status = load_files(load, err);
    if (status == TD_OK)
        status = join_keys(load, err);
    if (status == TD_OK)
        status = list_tensors(load, err);
    return status;
}

bool td_folder_has_version(const struct td_version *version, const char *folder)
{
    const size_t length = strlen(folder);
    return strncmp(version->file, folder, length) == 0 && version->file[length] == '/';
}

/* Makes the version of a tensor. `before` is the current version of the name, or NULL. */
static td_status make_version(const struct td_folder_load *load, struct td_folder_tensor *tensor,
                              const struct td_version *before, struct td_error *err)
{
    struct td_store *store = load->store;
    const char *name = tensor->found->name;
    char file[TD_FILE_NAME];
    if (before && !before->file[0])
        return td_error_set(
            err, TD_CONFLICT,
            "'%s' already exists: a request stored it. Delete it, or remove the folder, and send "
            "SIGHUP",
            name);
    if (before ? !(load->again && td_folder_has_version(before, load->name))
               : td_store_find_file(store, name, file))
        return td_error_set(
            err, TD_CONFLICT,
            "'%s' already exists: it is in %s. Remove that file or the folder, and send SIGHUP",
            name, before ? before->file : file);
    if (snprintf(file, sizeof file, "%s/%s", load->name, tensor->file->name) >= TD_FILE_NAME)
        return td_error_set(err, TD_MALFORMED_REQUEST, "the name %s is too long",
                            tensor->file->name);
    return td_load_version(store, file, tensor->id, tensor->found, before, &tensor->version, err);
}

td_status td_folder_make_versions(struct td_folder_load *load, struct td_error *err)
{
    td_status status = TD_OK;
    load->writer = (struct td_writer){ .version = load->name };
    td_writer_wait(load->store, &load->writer);
    for (int i = 0; i < load->n_tensors && status == TD_OK; i++) {
        struct td_folder_tensor *tensor = &load->tensors[i];
        const char *name = tensor->found->name;
        struct td_version *before = td_store_current(load->store, name, strlen(name));
        status = make_version(load, tensor, before, err);
        /* Clients must not be able to distinguish the two versions. */
        if (status == TD_OK && before) {
            tensor->version->number = before->number;
            memcpy(tensor->version->etag, before->etag, sizeof before->etag);
        }
        td_buffer_unref(before ? &before->base : NULL);
    }
    return status;
}

td_status td_folder_publish(struct td_folder_load *load, struct td_error *err)
{
    const struct td_string_map *aliases = &load->manifest.aliases;
    struct td_version **versions =
        td_arena_alloc(&load->arena, (size_t)load->n_tensors, sizeof(void *), err);
    struct td_alias_change *set =
        td_arena_alloc(&load->arena, (size_t)aliases->count, sizeof *set, err);
    if (!versions || !set)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < load->n_tensors; i++)
        versions[i] = load->tensors[i].version;
    for (int i = 0; i < aliases->count; i++)
        set[i] = (struct td_alias_change){ aliases->pairs[i].name, aliases->pairs[i].value };
    const td_status status =
        td_alias_take_folder(load->store,
                             &(struct td_alias_folder){ .name = load->name,
                                                        .digest = load->digest,
                                                        .versions = versions,
                                                        .n_versions = load->n_tensors,
                                                        .set = set,
                                                        .n_set = aliases->count },
                             err);
    for (int i = 0; i < load->n_tensors && status == TD_OK; i++)
        load->tensors[i].version = NULL; /* published */
    return status;
}

void td_folder_release(struct td_folder_load *load)
{
    for (int i = 0; i < load->n_tensors && load->tensors; i++)
        td_version_abandon(load->store, load->tensors[i].version);
    if (load->writer.version)
        td_writer_leave(load->store, &load->writer);
    td_arena_reset(&load->arena);
}
