#include "server/store/scan/version_folders.h"

#include "api/text/sorted_names.h"
#include "server/config/read_error.h"
#include "server/memory/fault_guard.h"
#include "server/store/aliases/alias_file.h"
#include "server/store/aliases/alias_folder.h"
#include "server/store/changes/writers.h"
#include "server/store/entries.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/load.h"
#include "server/store/scan/manifest.h"
#include "server/store/scan/problems.h"
#include "server/store/scan/verify.h"
#include "server/store/state.h"

#include <nettle/sha2.h>
#include <nettle/version.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST "manifest.json"

enum { MOST_MANIFEST_BYTES = 64 << 20 };

/* File of a loaded folder. */
struct known_file {
    char name[TD_FILE_NAME];
    struct td_file_id id;
    unsigned char sha256[TD_SHA256_BYTES];
    /* True if the SHA-256 of the file is correct again but its identity differs from the mapped
     * file. */
    bool restored;
};

/* A folder with a manifest. */
struct td_version_folder {
    struct td_version_folder *next;
    char name[TD_FILE_NAME];
    /* Digest of the manifest when the folder was loaded. */
    char digest[TD_MANIFEST_DIGEST];
    /* True if this scan has seen the folder. */
    bool seen;
    /* True if the folder is loaded, false if it is refused. */
    bool taken;
    /* True if the folder has been loaded at least once since the server started. */
    bool was_taken;
    /* The result of td_version_folders_find_gone. */
    bool gone;
    struct known_file *files;
    char (*tensors)[TD_TENSOR_NAME];
    int n_files, n_tensors;
    /* Number of tensors in the folder's files that cannot be served. */
    int n_unreadable;
    /* Reason that the first of these tensors cannot be served. */
    char unreadable[512];
};

static void free_folder(struct td_version_folder *folder)
{
    free(folder->files);
    free(folder->tensors);
    free(folder);
}

void td_version_folders_free(struct td_store *store)
{
    while (store->folders) {
        struct td_version_folder *folder = store->folders;
        store->folders = folder->next;
        free_folder(folder);
    }
}

static struct td_version_folder *find_folder(const struct td_store *store, const char *name)
{
    struct td_version_folder *folder = store->folders;
    while (folder && strcmp(folder->name, name) != 0)
        folder = folder->next;
    return folder;
}

bool td_version_folder_is_known(const struct td_store *store, const char *name)
{
    return find_folder(store, name) != NULL;
}

/* ---- digests --------------------------------------------------------------------------------- */

static void finish_digest(struct sha256_ctx *context, unsigned char digest[TD_SHA256_BYTES])
{
#if NETTLE_VERSION_MAJOR >= 4
    sha256_digest(context, digest);
#else
    sha256_digest(context, TD_SHA256_BYTES, digest);
#endif
}

static void print_hex(const unsigned char digest[TD_SHA256_BYTES], char text[TD_MANIFEST_DIGEST])
{
    for (size_t i = 0; i < TD_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void digest_text(const char *text, size_t bytes, char digest[TD_MANIFEST_DIGEST])
{
    struct sha256_ctx context;
    unsigned char raw[TD_SHA256_BYTES];
    sha256_init(&context);
    sha256_update(&context, bytes, (const uint8_t *)text);
    finish_digest(&context, raw);
    print_hex(raw, digest);
}

static td_status compare_digest(const struct td_store *store,
                                const unsigned char wanted_digest[TD_SHA256_BYTES],
                                const struct td_mapped_bytes *bytes, struct td_error *err)
{
    enum { STEP = 4 << 20 };
    struct sha256_ctx context;
    unsigned char digest[TD_SHA256_BYTES];
    char found[TD_MANIFEST_DIGEST], wanted[TD_MANIFEST_DIGEST];
    sha256_init(&context);
    for (size_t at = 0; at < bytes->size; at += STEP) {
        if (td_store_must_stop(store))
            return td_error_set(err, TD_DRAINING, "the server stops");
        const size_t rest = bytes->size - at;
        sha256_update(&context, rest < STEP ? rest : STEP, (const uint8_t *)bytes->data + at);
    }
    finish_digest(&context, digest);
    if (td_guard_marked(bytes->range))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "it was truncated while it was read, or cannot be read");
    if (memcmp(digest, wanted_digest, TD_SHA256_BYTES) == 0)
        return TD_OK;
    print_hex(digest, found);
    print_hex(wanted_digest, wanted);
    return td_error_set(err, TD_MALFORMED_REQUEST, "its SHA-256 is %s; the manifest says %s", found,
                        wanted);
}

/* ---- loading a folder ------------------------------------------------------------------------ */

/* Tensor of the folder that is being loaded. */
struct taken_tensor {
    const struct td_data_tensor *found;
    const struct td_manifest_file *file;
    /* Identity of the file, including the file of keys. */
    const struct td_file_id *id;
    struct td_version *version;
};

struct taking {
    struct td_store *store;
    const char *name; /* V */
    int folder;       /* descriptor of the folder */
    struct td_arena arena;
    char digest[TD_MANIFEST_DIGEST]; /* digest of the manifest */
    /* True if the folder has already set its aliases with this manifest. */
    bool known;
    /* True if the versions exist and are being made again. */
    bool again;
    struct td_manifest manifest;
    struct td_data_content *contents; /* contents of the files */
    struct taken_tensor *tensors;
    int n_tensors;
    /* Writer for all names of the folder. Its `version` is NULL until it has locked them. */
    struct td_writer writer;
};

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct td_manifest_file *)a)->versioned,
                  ((const struct td_manifest_file *)b)->versioned);
}

/* Reads the manifest and sorts its files by name. */
static td_status read_manifest(struct taking *taking, struct td_error *err)
{
    char *text;
    size_t bytes;
    struct td_file_id id;
    if (!td_version_name_valid(taking->name))
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "its name is not a valid VERSION; expected 1 to %d of the characters "
                            "A-Z, a-z, 0-9, '.', '_' and '-'",
                            TD_TABLE_VERSION - 1);
    td_status status = td_sub_folder_read_text(taking->folder, MANIFEST, MOST_MANIFEST_BYTES, &text,
                                               &bytes, &id, err);
    if (status == TD_OK && !text)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, MANIFEST " is gone");
    if (status == TD_OK) {
        digest_text(text, bytes, taking->digest);
        taking->known = td_alias_folder_is_taken(taking->store, taking->name, taking->digest);
        status =
            td_manifest_read(text, bytes, taking->name, &taking->arena, &taking->manifest, err);
    }
    if (status == TD_OK)
        qsort(taking->manifest.files, (size_t)taking->manifest.n_files,
              sizeof *taking->manifest.files, by_file);
    free(text);
    return status;
}

static td_status load_file(struct taking *taking, int i, struct td_error *err)
{
    const bool compare = !taking->known || taking->store->verify == TD_VERIFY_START;
    const struct td_manifest_file *file = &taking->manifest.files[i];
    struct td_mapped_bytes bytes;
    struct td_error reason;
    td_status status = td_sub_folder_load(taking->folder, file->name, file->versioned, file->size,
                                          &taking->arena, &taking->contents[i], &bytes, &reason);
    if (status == TD_OK && compare)
        status = compare_digest(taking->store, file->sha256, &bytes, &reason);
    if (status == TD_OK)
        status = td_store_verify_header(taking->store, &taking->contents[i], &reason);
    return status == TD_OK ? TD_OK
                           : td_error_set(err, status, "%s: %s", file->name, reason.message);
}

static td_status load_files(struct taking *taking, struct td_error *err)
{
    const int n = taking->manifest.n_files;
    td_status status = TD_OK;
    taking->contents = td_arena_alloc(&taking->arena, (size_t)n, sizeof *taking->contents, err);
    if (!taking->contents)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < n && status == TD_OK; i++) {
        status = load_file(taking, i, err);
        taking->n_tensors += taking->contents[i].count;
        if (status == TD_OK)
            status = td_store_check_count(taking->store, taking->n_tensors, err);
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
static td_status join_keys(struct taking *taking, struct td_error *err)
{
    td_status status = TD_OK;
    for (int i = 0; i < taking->manifest.n_files && status == TD_OK; i++) {
        const struct td_manifest_file *file = &taking->manifest.files[i];
        char versioned[TD_FILE_NAME], other[TD_FILE_NAME];
        if (!td_data_table_of_keys_file(file->versioned, versioned))
            continue;
        const int table = find_file(&taking->manifest, versioned);
        if (table < 0 || td_data_table_of_keys_file(versioned, other))
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "%s has the name of a file of keys, but the manifest lists no "
                                ".npy file with the same name without .keys",
                                file->name);
        status = td_data_join_keys(&taking->contents[table], &taking->contents[i], file->name, err);
        taking->contents[i].count = 0;
        taking->n_tensors--;
    }
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct taken_tensor *)a)->found->name,
                  ((const struct taken_tensor *)b)->found->name);
}

/* Lists the tensors of all files, sorted by name. Each name must be valid and occur only once. */
static td_status list_tensors(struct taking *taking, struct td_error *err)
{
    int n = 0;
    td_status status = TD_OK;
    taking->tensors =
        td_arena_alloc(&taking->arena, (size_t)taking->n_tensors, sizeof *taking->tensors, err);
    if (!taking->tensors)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < taking->manifest.n_files; i++)
        for (int j = 0; j < taking->contents[i].count; j++)
            taking->tensors[n++] = (struct taken_tensor){ .found = &taking->contents[i].tensors[j],
                                                          .file = &taking->manifest.files[i],
                                                          .id = &taking->contents[i].id };
    qsort(taking->tensors, (size_t)n, sizeof *taking->tensors, by_name);
    for (int i = 0; i < n && status == TD_OK; i++) {
        const char *name = taking->tensors[i].found->name;
        status = td_name_check(name, err);
        if (status == TD_OK && i > 0 && strcmp(name, taking->tensors[i - 1].found->name) == 0)
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "two of its files contain the tensor "
                                "'%s'",
                                name);
    }
    return status;
}

/* True if the version is from the folder. */
static bool is_of(const struct td_version *version, const char *folder)
{
    const size_t length = strlen(folder);
    return strncmp(version->file, folder, length) == 0 && version->file[length] == '/';
}

/* Makes the version of a tensor. `before` is the current version of the name, or NULL. */
static td_status make_version(const struct taking *taking, struct taken_tensor *tensor,
                              const struct td_version *before, struct td_error *err)
{
    struct td_store *store = taking->store;
    const char *name = tensor->found->name;
    char file[TD_FILE_NAME];
    if (before && !before->file[0])
        return td_error_set(
            err, TD_CONFLICT,
            "'%s' already exists: a request stored it. Delete it, or remove the folder, and send "
            "SIGHUP",
            name);
    if (before ? !(taking->again && is_of(before, taking->name))
               : td_store_find_file(store, name, file))
        return td_error_set(
            err, TD_CONFLICT,
            "'%s' already exists: it is in %s. Remove that file or the folder, and send SIGHUP",
            name, before ? before->file : file);
    if (snprintf(file, sizeof file, "%s/%s", taking->name, tensor->file->name) >= TD_FILE_NAME)
        return td_error_set(err, TD_MALFORMED_REQUEST, "the name %s is too long",
                            tensor->file->name);
    return td_load_version(store, file, tensor->id, tensor->found, before, &tensor->version, err);
}

/* Locks the names of the folder and makes their versions. */
static td_status make_versions(struct taking *taking, struct td_error *err)
{
    td_status status = TD_OK;
    taking->writer = (struct td_writer){ .version = taking->name };
    td_writer_wait(taking->store, &taking->writer);
    for (int i = 0; i < taking->n_tensors && status == TD_OK; i++) {
        struct taken_tensor *tensor = &taking->tensors[i];
        const char *name = tensor->found->name;
        struct td_version *before = td_store_current(taking->store, name, strlen(name));
        status = make_version(taking, tensor, before, err);
        /* Clients must not be able to distinguish the two versions. */
        if (status == TD_OK && before) {
            tensor->version->number = before->number;
            memcpy(tensor->version->etag, before->etag, sizeof before->etag);
        }
        td_buffer_unref(before ? &before->base : NULL);
    }
    return status;
}

/* Publishes the versions and the aliases, or changes nothing on failure. */
static td_status publish(struct taking *taking, struct td_error *err)
{
    const struct td_string_map *aliases = &taking->manifest.aliases;
    struct td_version **versions =
        td_arena_alloc(&taking->arena, (size_t)taking->n_tensors, sizeof(void *), err);
    struct td_alias_change *set =
        td_arena_alloc(&taking->arena, (size_t)aliases->count, sizeof *set, err);
    if (!versions || !set)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < taking->n_tensors; i++)
        versions[i] = taking->tensors[i].version;
    for (int i = 0; i < aliases->count; i++)
        set[i] = (struct td_alias_change){ aliases->pairs[i].name, aliases->pairs[i].value };
    const td_status status =
        td_alias_take_folder(taking->store,
                             &(struct td_alias_folder){ .name = taking->name,
                                                        .digest = taking->digest,
                                                        .versions = versions,
                                                        .n_versions = taking->n_tensors,
                                                        .set = set,
                                                        .n_set = aliases->count },
                             err);
    for (int i = 0; i < taking->n_tensors && status == TD_OK; i++)
        taking->tensors[i].version = NULL; /* published */
    return status;
}

static void release(struct taking *taking)
{
    for (int i = 0; i < taking->n_tensors && taking->tensors; i++)
        td_version_abandon(taking->store, taking->tensors[i].version);
    if (taking->writer.version)
        td_writer_leave(taking->store, &taking->writer);
    td_arena_reset(&taking->arena);
}

/* ---- the record of a folder ------------------------------------------------------------------ */

/* Fills the record of the folder before the folder is loaded, so a lack of memory cannot leave the
 * record incomplete later. */
static td_status make_record(struct taking *taking, struct td_version_folder *folder,
                             struct td_error *err)
{
    const int n_files = taking->manifest.n_files, n_tensors = taking->n_tensors;
    folder->files = calloc((size_t)n_files + 1, sizeof *folder->files);
    folder->tensors = calloc((size_t)n_tensors + 1, sizeof *folder->tensors);
    if (!folder->files || !folder->tensors)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the names of its files");
    for (int i = 0; i < n_files; i++) {
        snprintf(folder->files[i].name, TD_FILE_NAME, "%s", taking->manifest.files[i].name);
        folder->files[i].id = taking->contents[i].id;
        memcpy(folder->files[i].sha256, taking->manifest.files[i].sha256, TD_SHA256_BYTES);
        /* A file of keys has its own record. */
        td_file_id_set_keys(&folder->files[i].id, &td_file_id_unknown);
    }
    for (int i = 0; i < n_tensors; i++)
        snprintf(folder->tensors[i], TD_TENSOR_NAME, "%s", taking->tensors[i].found->name);
    folder->n_files = n_files;
    folder->n_tensors = n_tensors;
    memcpy(folder->digest, taking->digest, sizeof folder->digest);
    return TD_OK;
}

static void forget_content(struct td_version_folder *folder)
{
    free(folder->files);
    free(folder->tensors);
    folder->files = NULL;
    folder->tensors = NULL;
    folder->n_files = folder->n_tensors = 0;
}

static void report_unreadable(struct td_scan_report *report, const char *file,
                              const struct td_data_content *content)
{
    for (int i = 0; i < content->n_unreadable; i++)
        td_scan_report_skip(report, TD_LOG_WARN, file, content->unreadable[i].name,
                            content->unreadable[i].why);
}

static bool is_listed(const struct td_version_folder *folder, const char *file)
{
    for (int i = 0; i < folder->n_files; i++)
        if (strcmp(folder->files[i].name, file) == 0)
            return true;
    return false;
}

/* Reports tensor files that are in a version folder but not in its manifest. */
static void report_unlisted(struct td_scan_report *report, const struct td_version_folder *folder,
                            int descriptor)
{
    char(*files)[TD_FILE_NAME], file[2 * TD_FILE_NAME];
    int count;
    if (!td_sub_folder_list(descriptor, &files, &count))
        return;
    for (int i = 0; i < count; i++) {
        if (is_listed(folder, files[i]))
            continue;
        snprintf(file, sizeof file, "%s/%s", folder->name, files[i]);
        td_scan_report_skip(report, TD_LOG_WARN, file, NULL,
                            MANIFEST
                            " of this version does not list it; put the file beside the folder, or "
                            "use the importer to make a version that includes it");
    }
    free(files);
}

/* Records how many tensors of the folder cannot be served, and the reason for the first of these
 * tensors. */
static void count_unreadable(const struct taking *taking, struct td_version_folder *folder)
{
    folder->n_unreadable = 0;
    for (int i = 0; i < taking->manifest.n_files; i++) {
        const struct td_data_content *content = &taking->contents[i];
        if (folder->n_unreadable == 0 && content->n_unreadable > 0)
            snprintf(folder->unreadable, sizeof folder->unreadable, "%.100s: %.128s: %.250s",
                     taking->manifest.files[i].name, content->unreadable[0].name,
                     content->unreadable[0].why);
        folder->n_unreadable += content->n_unreadable;
    }
}

/* Adds a loaded folder to the list of problems if some of its tensors cannot be served. Otherwise
 * removes the folder from the list. */
static void note_unreadable(struct td_store *store, const struct td_version_folder *folder)
{
    char reason[sizeof folder->unreadable + 64];
    snprintf(reason, sizeof reason, "%s", folder->unreadable);
    if (folder->n_unreadable > 1)
        snprintf(reason, sizeof reason, "%s; and %d more tensors", folder->unreadable,
                 folder->n_unreadable - 1);
    if (folder->n_unreadable > 0)
        td_store_note_problem(store, folder->name, reason);
    else
        td_store_solve_problem(store, folder->name);
}

static void report_files(const struct taking *taking, struct td_scan_report *report)
{
    const struct td_store_inspector *inspector = taking->store->inspector;
    char file[TD_FILE_NAME], table[TD_FILE_NAME];
    for (int i = 0; i < taking->manifest.n_files; i++) {
        const struct td_manifest_file *of = &taking->manifest.files[i];
        const struct td_data_content *content = &taking->contents[i];
        snprintf(file, sizeof file, "%s/%.180s", taking->name, of->name);
        report_unreadable(report, file, content);
        if (inspector && td_data_table_of_keys_file(of->name, table))
            inspector->keys(inspector->context, file, table);
        else if (inspector)
            inspector->read(inspector->context, file, content->count + content->n_unreadable);
    }
}

/* Reads the manifest and the files of the folder. */
static td_status read_folder(struct taking *taking, struct td_error *err)
{
    td_status status = read_manifest(taking, err);
    if (status == TD_OK)
        status = load_files(taking, err);
    if (status == TD_OK)
        status = join_keys(taking, err);
    if (status == TD_OK)
        status = list_tensors(taking, err);
    return status;
}

static td_status take(struct taking *taking, struct td_version_folder *folder, struct td_error *err)
{
    td_status status = read_folder(taking, err);
    if (status == TD_OK)
        status = make_record(taking, folder, err);
    if (status == TD_OK)
        status = make_versions(taking, err);
    if (status == TD_OK)
        status = publish(taking, err);
    return status;
}

/* Adds the folder to the list of problems. The reason says why the folder is not served or, if it
 * is still served, why a restart would not serve it. */
static void refuse(struct td_store *store, const struct td_version_folder *folder,
                   const char *reason)
{
    td_store_report_folder(store, folder->name, folder->taken, reason);
}

static void take_folder(struct td_store *store, struct td_scan_report *report,
                        struct td_version_folder *folder, int descriptor)
{
    struct td_error err;
    struct taking taking = { .store = store, .name = folder->name, .folder = descriptor };
    td_arena_init(&taking.arena, NULL, 0, td_memory_heap());
    folder->taken = take(&taking, folder, &err) == TD_OK;
    if (folder->taken) {
        folder->was_taken = true;
        report->added += taking.n_tensors;
        count_unreadable(&taking, folder);
        note_unreadable(store, folder);
        report_files(&taking, report);
    } else {
        forget_content(folder);
        refuse(store, folder, err.message);
        report->skipped++;
    }
    td_scan_report_file(report, folder->name);
    release(&taking);
}

/* ---- folders that were loaded before --------------------------------------------------------- */

/* Reason that a restart would not serve a folder with its current content, or "". A file that was
 * written in place takes precedence over other reasons. */
struct folder_change {
    char reason[TD_FILE_NAME + 400];
    /* True if the mapped bytes have changed. */
    bool in_place;
};

static void note_change(struct folder_change *change, const char *file, bool in_place)
{
    if (change->reason[0] && (change->in_place || !in_place))
        return;
    change->in_place = in_place;
    snprintf(change->reason, sizeof change->reason,
             "%.200s %s. A restart would read the folder again, but would verify the files of a "
             "known manifest only with --verify start. A version never changes: restore the "
             "folder, and put the new content into a folder for another version",
             file,
             in_place ? "was written in place since the folder was taken, so its new content might "
                        "already be served"
                      : "has changed since the folder was taken; the versions loaded before are "
                        "still served until a restart");
}

static void note_closed(struct folder_change *change, const char *why)
{
    if (!change->reason[0])
        snprintf(change->reason, sizeof change->reason,
                 "%.400s; the versions loaded before are still served until a restart; let the "
                 "server read the file and send SIGHUP",
                 why);
}

/* Checks that the manifest still has its digest. Reads the manifest again, because it is small. */
static void check_manifest(const struct td_version_folder *folder, int descriptor,
                           struct folder_change *change)
{
    char *text, digest[TD_MANIFEST_DIGEST] = "";
    size_t bytes;
    struct td_file_id unused;
    struct td_error err;
    const td_status status = td_sub_folder_read_text(descriptor, MANIFEST, MOST_MANIFEST_BYTES,
                                                     &text, &bytes, &unused, &err);
    if (text)
        digest_text(text, bytes, digest);
    free(text);
    if (status == TD_DEVICE_UNAVAILABLE || status == TD_MEMORY_EXHAUSTED)
        note_closed(change, err.message);
    else if (strcmp(digest, folder->digest) != 0)
        note_change(change, MANIFEST, false);
}

/* Checks that a file still has the size and the SHA-256 that it had when the folder was loaded. */
static td_status compare_file(const struct td_store *store, struct known_file *file, int descriptor,
                              struct td_error *err)
{
    struct td_arena arena;
    struct td_data_content content;
    struct td_mapped_bytes bytes;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_status status = td_sub_folder_load(descriptor, file->name, file->name, file->id.size, &arena,
                                          &content, &bytes, err);
    if (status == TD_OK)
        status = compare_digest(store, file->sha256, &bytes, err);
    if (status == TD_OK) {
        file->id = content.id;
        file->restored = true;
    }
    td_arena_reset(&arena);
    return status;
}

static void check_file(const struct td_store *store, struct known_file *file, int descriptor,
                       struct folder_change *change)
{
    struct td_file_id id;
    struct td_error err = { 0 };
    char why[TD_FILE_NAME + 200];
    const bool there = td_sub_folder_stat(descriptor, file->name, &id) == TD_FILE_PRESENT,
               same = there && td_file_id_equal(&id, &file->id),
               in_place = there && (same || td_file_id_overwritten(&file->id, &id));
    const td_status status = same && !td_file_id_touched(&file->id, &id)
                                 ? td_sub_folder_check_read(descriptor, file->name, &err)
                                 : compare_file(store, file, descriptor, &err);
    snprintf(why, sizeof why, "%.200s: %.200s", file->name, err.message);
    if (status == TD_MALFORMED_REQUEST || !there)
        note_change(change, file->name, in_place);
    else if (status != TD_OK && status != TD_DRAINING)
        note_closed(change, why);
}

/* True if the versions of an unchanged folder must be made again. This is necessary if a mapping
 * was lost. It is also necessary if a file matches the manifest but the mapped file, possibly
 * another inode, might have been written after it was mapped. */
static bool is_stale(struct td_store *store, const struct td_version_folder *folder)
{
    bool any = false;
    for (int i = 0; i < folder->n_files && !any; i++)
        any = folder->files[i].restored;
    for (int i = 0; i < folder->n_tensors && !any; i++) {
        const char *name = folder->tensors[i];
        struct td_version *current = td_store_current(store, name, strlen(name));
        any = current && is_of(current, folder->name) && td_version_is_lost(current);
        td_buffer_unref(current ? &current->base : NULL);
    }
    return any;
}

/* Makes the versions of an unchanged folder again from its files. */
static void take_again(struct td_store *store, struct td_version_folder *folder, int descriptor)
{
    struct td_error err;
    struct taking taking = {
        .store = store, .name = folder->name, .folder = descriptor, .again = true
    };
    td_arena_init(&taking.arena, NULL, 0, td_memory_heap());
    td_status status = read_folder(&taking, &err);
    if (status == TD_OK)
        status = make_versions(&taking, &err);
    for (int i = 0; i < taking.n_tensors && status == TD_OK; i++) {
        struct td_version *replaced = td_store_publish(store, taking.tensors[i].version);
        taking.tensors[i].version = NULL; /* published */
        td_buffer_unref(replaced ? &replaced->base : NULL);
    }
    for (int i = 0; i < folder->n_files && status == TD_OK; i++)
        folder->files[i].restored = false;
    if (status != TD_OK)
        refuse(store, folder, err.message);
    release(&taking);
}

/* Checks that no file in the data folder itself contains one of the folder's names. Otherwise, a
 * restart would refuse the folder, because the server reads the files before the folders. */
static void check_names(struct td_store *store, const struct td_version_folder *folder,
                        struct folder_change *change)
{
    char file[TD_FILE_NAME];
    for (int i = 0; i < folder->n_tensors && !change->reason[0]; i++)
        if (td_store_find_file(store, folder->tensors[i], file))
            snprintf(change->reason, sizeof change->reason,
                     "'%s' is also in %s. The folder is served until a restart, which would refuse "
                     "all of it; remove that file or the folder, and send SIGHUP",
                     folder->tensors[i], file);
}

/* Checks a loaded folder, and reads only those of its files that might have changed. If a restart
 * would not serve the folder with its current content, adds the folder to the list of problems. */
static void check_unchanged(struct td_store *store, struct td_version_folder *folder,
                            int descriptor)
{
    struct folder_change change = { .reason = "" };
    check_manifest(folder, descriptor, &change);
    for (int i = 0; i < folder->n_files; i++)
        check_file(store, &folder->files[i], descriptor, &change);
    const bool unchanged = !change.reason[0];
    check_names(store, folder, &change);
    if (change.reason[0])
        refuse(store, folder, change.reason);
    else
        note_unreadable(store, folder);
    if (unchanged && is_stale(store, folder))
        take_again(store, folder, descriptor);
}

/* Drops the versions of a removed folder. */
static void drop_folder(struct td_store *store, struct td_scan_report *report,
                        const struct td_version_folder *folder)
{
    for (int i = 0; i < folder->n_tensors; i++) {
        const char *name = folder->tensors[i];
        struct td_writer writer = { .names = &name, .n_names = 1 };
        td_writer_wait(store, &writer);
        struct td_version *current = td_store_current(store, name, strlen(name));
        if (current && is_of(current, folder->name)) {
            td_store_drop(store, name);
            report->removed++;
        }
        td_buffer_unref(current ? &current->base : NULL);
        td_writer_leave(store, &writer);
    }
    td_store_solve_problem(store, folder->name);
    td_scan_report_file(report, folder->name);
}

static void drop_vanished(struct td_store *store, struct td_scan_report *report)
{
    struct td_version_folder **link = &store->folders;
    while (*link) {
        struct td_version_folder *folder = *link;
        if (folder->seen) {
            link = &folder->next;
            continue;
        }
        drop_folder(store, report, folder);
        *link = folder->next;
        free_folder(folder);
    }
}

/* ---- folders that are gone ------------------------------------------------------------------- */

void td_version_folders_find_gone(struct td_store *store)
{
    for (struct td_version_folder *folder = store->folders; folder; folder = folder->next) {
        int descriptor, reason;
        folder->gone = td_data_dir_open_sub_folder(store->dir, folder->name, MANIFEST, &descriptor,
                                                   &reason) == TD_FILE_GONE;
        if (descriptor >= 0)
            close(descriptor);
    }
}

bool td_version_folder_has_gone(const struct td_store *store, const struct td_version *version)
{
    const struct td_version_folder *folder = store->folders;
    while (folder && !is_of(version, folder->name))
        folder = folder->next;
    return folder && folder->gone;
}

/* ---- the scan -------------------------------------------------------------------------------- */

static int in_order(const void *a, const void *b)
{
    return td_version_name_order(a, b);
}

/* Returns the record of a folder. Makes the record if it does not exist. Returns NULL if no memory
 * is available. */
static struct td_version_folder *recall(struct td_store *store, const char *name)
{
    struct td_version_folder *folder = find_folder(store, name);
    if (folder)
        return folder;
    folder = calloc(1, sizeof *folder);
    if (!folder) {
        td_store_report_folder(store, name, false, "no memory for its name");
        return NULL;
    }
    snprintf(folder->name, sizeof folder->name, "%s", name);
    folder->next = store->folders;
    store->folders = folder;
    return folder;
}

/* Reports a folder that cannot be read. Versions that were loaded from it before are still
 * served. */
static void refuse_unreadable(struct td_store *store, struct td_scan_report *report,
                              const struct td_version_folder *folder, int reason)
{
    char why[TD_READ_ERROR], text[TD_READ_ERROR + 80];
    snprintf(text, sizeof text, "it cannot be read: %s%s", td_read_error(NULL, reason, why),
             folder->taken ? "; the versions loaded before are still served" : "");
    refuse(store, folder, text);
    report->skipped += !folder->taken;
    td_scan_report_file(report, folder->name);
}

/* Handles a loaded folder that still exists but no longer contains a manifest. Keeps the record, so
 * the problem remains listed. */
static void lose_manifest(struct td_store *store, struct td_scan_report *report,
                          struct td_version_folder *folder)
{
    int descriptor, reason;
    if (td_data_dir_open_sub_folder(store->dir, folder->name, ".", &descriptor, &reason) !=
        TD_FILE_PRESENT)
        return;
    close(descriptor);
    if (folder->taken)
        drop_folder(store, report, folder);
    forget_content(folder);
    folder->taken = false;
    folder->seen = true;
    refuse(store, folder,
           "its " MANIFEST " is missing, so its versions are not served; put the file back, or "
           "remove the folder, and send SIGHUP");
    report->skipped++;
    td_scan_report_file(report, folder->name);
}

static void scan_folder(struct td_store *store, struct td_scan_report *report, const char *name)
{
    int descriptor, reason;
    const td_file_state state =
        td_data_dir_open_sub_folder(store->dir, name, MANIFEST, &descriptor, &reason);
    if (state == TD_FILE_GONE) {
        struct td_version_folder *before = find_folder(store, name);
        if (before && before->was_taken)
            lose_manifest(store, report, before);
        return;
    }
    struct td_version_folder *folder = recall(store, name);
    if (folder)
        folder->seen = true;
    if (folder && state == TD_FILE_UNKNOWN)
        refuse_unreadable(store, report, folder, reason);
    if (folder && descriptor >= 0) {
        if (folder->taken) {
            check_unchanged(store, folder, descriptor);
            report->unchanged += folder->n_tensors;
            /* The log already reported these tensors when the folder was loaded. */
            report->skipped += folder->n_unreadable;
        } else {
            take_folder(store, report, folder, descriptor);
        }
        if (folder->taken)
            report_unlisted(report, folder, descriptor);
    }
    if (descriptor >= 0)
        close(descriptor);
}

void td_version_folders_scan(struct td_store *store, struct td_scan_report *report)
{
    char(*names)[TD_FILE_NAME];
    int count;
    if (!td_data_dir_sub_folders(store->dir, &names, &count))
        return;
    for (struct td_version_folder *folder = store->folders; folder; folder = folder->next)
        folder->seen = false;
    qsort(names, (size_t)count, sizeof *names, in_order);
    for (int i = 0; i < count && !td_store_must_stop(store); i++)
        scan_folder(store, report, names[i]);
    if (!td_store_must_stop(store))
        drop_vanished(store, report);
    free(names);
}
