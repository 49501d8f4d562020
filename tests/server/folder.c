#include "tests/server/folder.h"

#include "server/store/aliases/aliases.h"
#include "tests/support/tensors.h"

#include <nettle/sha2.h>
#include <nettle/version.h>
#include <sys/stat.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char folder[64];
uint64_t folder_quota;
int64_t folder_keep_versions;
uint64_t folder_compiled_limit;
enum td_verify folder_verify;
struct td_log store_log; /* writes into a pipe */
struct counting store_memory;
static int log_reading;

void folder_open(void)
{
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    int ends[2];
    snprintf(folder, sizeof folder, "%s/tensord-test-store-XXXXXX", parent);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
    log_reading = ends[0];
    counting_init(&store_memory);
    store_log = (struct td_log){ .level = TD_LOG_INFO, .format = TD_LOG_TEXT, .fd = ends[1] };
}

const char *path_of(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

void folder_close(void)
{
    DIR *dir = opendir(folder);
    for (struct dirent *item; (item = readdir(dir));)
        if (unlink(path_of(item->d_name)) != 0 && item->d_name[0] != '.')
            remove_version(item->d_name);
    closedir(dir);
    rmdir(folder);
    close(log_reading);
    close(store_log.fd);
}

void move_file(const char *from, const char *to)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", path_of(from));
    ck_assert_int_eq(rename(path, path_of(to)), 0);
}

void put_file(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

/* A header of 128 bytes. */
static void begin_npy(char *file, const char *descr, int n)
{
    const int length = snprintf(
        file + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", descr, n);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(file + 10 + length, ' ', (size_t)(118 - length));
    file[127] = '\n';
}

void put_keys_npy(const char *name, const int64_t *keys, int n)
{
    char *file = malloc(128 + 8 * (size_t)n);
    ck_assert_ptr_nonnull(file);
    begin_npy(file, "<i8", n);
    memcpy(file + 128, keys, 8 * (size_t)n);
    put_file(name, file, 128 + 8 * (size_t)n);
    free(file);
}

void put_npy(const char *name, int32_t first, int n)
{
    char *file = malloc(128 + 4 * (size_t)n);
    ck_assert_ptr_nonnull(file);
    begin_npy(file, "<i4", n);
    for (int i = 0; i < n; i++) {
        const int32_t value = first + i;
        memcpy(file + 128 + 4 * i, &value, 4);
    }
    put_file(name, file, 128 + 4 * (size_t)n);
    free(file);
}

void put_safetensors(const char *name, const char *header, int32_t first, int n)
{
    char file[8 + 2048 + 4 * 64];
    const uint64_t length = strlen(header);
    ck_assert(length <= 2048 && n <= 64);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    for (int i = 0; i < n; i++) {
        const int32_t value = first + i;
        memcpy(file + 8 + length + 4 * (size_t)i, &value, 4);
    }
    put_file(name, file, 8 + length + 4 * (size_t)n);
}

/* ---- version folders ---- */

static const char *name_in(const char *version, const char *file)
{
    static char name[512];
    snprintf(name, sizeof name, "%s/%s", version, file);
    return name;
}

void put_version_files(const char *version, const char *files, int32_t first)
{
    char words[256];
    char *rest = words;
    snprintf(words, sizeof words, "%s", files);
    (void)mkdir(path_of(version), 0700);
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        if (strstr(word, ".safetensors"))
            put_safetensors(name_in(version, word), TWO_TENSORS, first, 6);
        else
            put_npy(name_in(version, word), first, 100);
}

static void digest_of(const char *path, char text[65], size_t *size)
{
    static uint8_t bytes[1 << 16];
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    *size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    sha256_init(&context);
    sha256_update(&context, *size, bytes);
#if NETTLE_VERSION_MAJOR >= 4
    sha256_digest(&context, digest);
#else
    sha256_digest(&context, sizeof digest, digest);
#endif
    for (int i = 0; i < SHA256_DIGEST_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

void put_manifest(const char *version, const char *files, const char *aliases)
{
    char words[256], text[4096] = "{\"files\":{", digest[65];
    char *rest = words;
    const char *separator = "";
    size_t size;
    snprintf(words, sizeof words, "%s", files);
    for (char *word; (word = strtok_r(rest, " ", &rest)); separator = ",") {
        digest_of(path_of(name_in(version, word)), digest, &size);
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%s\"%s\":{\"size\":%zu,\"sha256\":\"%s\"}", separator, word, size, digest);
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), "}%s%s}", aliases[0] ? "," : "",
             aliases);
    put_text(name_in(version, "manifest.json"), text);
}

void put_version(const char *version, const char *files, int32_t first, const char *aliases)
{
    put_version_files(version, files, first);
    put_manifest(version, files, aliases);
}

void remove_version(const char *version)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", path_of(version));
    DIR *dir = opendir(path);
    for (const struct dirent *item; dir && (item = readdir(dir));)
        (void)unlink(path_of(name_in(version, item->d_name)));
    if (dir)
        closedir(dir);
    (void)rmdir(path_of(version));
}

struct td_store *open_at(const char *path)
{
    return td_store_open(&(struct td_store_options){ .dir = path,
                                                     .quota = QUOTA,
                                                     .disk_quota = folder_quota,
                                                     .compiled_limit = folder_compiled_limit,
                                                     .keep_versions = folder_keep_versions,
                                                     .verify = folder_verify,
                                                     .memory = &store_memory.memory,
                                                     .log = &store_log });
}

struct td_store *open_folder(void)
{
    struct td_store *store = open_at(folder);
    ck_assert_ptr_nonnull(store);
    return store;
}

struct td_store *open_reader(void)
{
    struct td_store *reader = td_store_open(&(struct td_store_options){ .dir = folder,
                                                                        .quota = QUOTA,
                                                                        .read_only = true,
                                                                        .memory = td_memory_heap(),
                                                                        .log = &store_log });
    ck_assert_ptr_nonnull(reader);
    return reader;
}

td_status put_tensor(struct td_store *store, const char *name, const struct td_tensor *t,
                     bool persist, struct td_error *err)
{
    const struct td_store_write write = { .name = name, .persist = persist };
    struct td_tensor_listing listing;
    bool created;
    return td_store_put(store, &write, t, &test_arena, &listing, &created, err);
}

const char *logged_with_scans(void)
{
    static char text[60000];
    const ssize_t length = read(log_reading, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

const char *logged(void)
{
    static char others[60000];
    size_t length = 0;
    for (const char *line = logged_with_scans(), *end; *line; line = end) {
        end = strchrnul(line, '\n');
        end += *end != '\0';
        const char *event = strstr(line, " info ");
        if (event && event < end &&
            (strncmp(event + 6, "tables_changed ", 15) == 0 ||
             strncmp(event + 6, "alias_changed ", 14) == 0 ||
             strncmp(event + 6, "aliases_loaded ", 15) == 0 ||
             strncmp(event + 6, "data_dir_scanned ", 17) == 0))
            continue;
        memcpy(others + length, line, (size_t)(end - line));
        length += (size_t)(end - line);
    }
    others[length] = '\0';
    return others;
}

void expect_names(struct td_store *store, const char *wanted)
{
    char names[1024] = "";
    int count;
    struct td_tensor_listing *list;
    struct td_error err;
    ck_assert_int_eq(td_store_list(store, &test_arena, &list, &count, &err), TD_OK);
    for (int i = 0; i < count; i++) {
        strcat(names, i ? " " : "");
        strcat(names, list[i].name);
    }
    ck_assert_str_eq(names, wanted);
}

const struct td_tensor_listing *found(struct td_store *store, const char *name)
{
    struct td_error err;
    struct td_tensor_listing *listing = td_arena_alloc(&test_arena, 1, sizeof *listing, &err);
    ck_assert_msg(td_store_get(store, name, strlen(name), &test_arena, listing, &err) == TD_OK,
                  "%s: %s", name, err.message);
    ck_assert_str_eq(listing->name, name);
    return listing;
}

const char *aliases_of(struct td_store *store)
{
    static char text[1024];
    struct td_alias_change *list;
    struct td_error err;
    int count;
    text[0] = '\0';
    ck_assert_int_eq(td_store_list_aliases(store, &test_arena, &list, &count, &err), TD_OK);
    for (int i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s=%s ", list[i].name,
                 list[i].target);
    return text;
}

const char *problems_of(struct td_store *store)
{
    static char text[1024];
    struct td_problem_listing *list;
    struct td_error err;
    int count;
    ck_assert_int_eq(td_store_list_problems(store, &test_arena, &list, &count, &(int){ 0 }, &err),
                     TD_OK);
    text[0] = '\0';
    for (int i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s: %s;", list[i].source,
                 list[i].reason);
    return text;
}

enum { NOBODY = 65534 };

static bool is_root(void)
{
    return getuid() == 0;
}

void drop_rights(void)
{
    ck_assert(!is_root() || seteuid(NOBODY) == 0);
}

void regain_rights(void)
{
    ck_assert(!is_root() || seteuid(0) == 0);
}

const char *denied(void)
{
    static char text[160];
    snprintf(
        text, sizeof text,
        "Permission denied: user ID %u cannot read it; change the owner or mode (chown, chmod) of "
        "the path or its parent folder",
        is_root() ? (unsigned)NOBODY : (unsigned)getuid());
    return text;
}

struct td_error missing_error(struct td_store *store, const char *name, size_t length)
{
    struct td_tensor_listing listing;
    struct td_error err;
    ck_assert_int_eq(td_store_get(store, name, length, &test_arena, &listing, &err),
                     TD_TENSOR_NOT_FOUND);
    ck_assert_int_eq(err.status, TD_TENSOR_NOT_FOUND);
    return err;
}

int32_t value_of(const struct td_tensor *tensor, int i)
{
    int32_t value;
    memcpy(&value, (const char *)tensor->data + 4 * i, 4);
    return value;
}
