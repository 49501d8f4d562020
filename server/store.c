#include "server/store.h"

#include "api/npy.h"
#include "api/safetensors.h"
#include "api/suggest.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MAX_LENGTH = 128 };

struct entry {
    struct td_tensor_listing listing; /* of the two texts and the tensor below */
    struct td_tensor tensor;
    char name[NAME_MAX_LENGTH + 1];
    char source[256];
};

struct td_store {
    struct td_resolver resolver; /* first: resolve casts back */
    const struct td_log *log;
    struct entry **entries; /* sorted by name */
    struct td_tensor_listing *listings;
    const char **names;
    int n_entries, capacity;
};

/* A mapped file; each tensor in it holds a reference. */
struct mapping {
    struct td_buffer base; /* first: release casts back */
};

static void unmap(struct td_buffer *base)
{
    munmap(base->data, base->size);
    free(base);
}

/* NULL with *why set. */
static struct mapping *map_file(int dir, const char *name, const char **why)
{
    struct stat info;
    struct mapping *mapping = NULL;
    /* A FIFO would keep a blocking open waiting for its writer. */
    const int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0) {
        *why = strerror(errno);
    } else if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        *why = "it is empty or not a regular file";
    } else {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        mapping = data == MAP_FAILED ? NULL : malloc(sizeof *mapping);
        if (mapping)
            td_buffer_init(&mapping->base, data, (size_t)info.st_size, unmap);
        else
            *why = data == MAP_FAILED ? strerror(errno) : "no memory";
        if (!mapping && data != MAP_FAILED)
            munmap(data, (size_t)info.st_size);
    }
    if (fd >= 0)
        close(fd);
    return mapping;
}

/* Names clients can write: [A-Za-z0-9._:-]{1,128}, not beginning with a dot. */
static bool valid_name(const char *name)
{
    const size_t length = strlen(name);
    return length >= 1 && length <= NAME_MAX_LENGTH && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") ==
               length;
}

static void skipped(const struct td_store *store, const char *file, const char *tensor,
                    const char *why)
{
    td_log(store->log, TD_LOG_WARN, "table_skipped", TD_TEXT("file", file),
           TD_TEXT("tensor", tensor), TD_TEXT("reason", why));
}

static bool grow(struct td_store *store)
{
    if (store->n_entries < store->capacity)
        return true;
    const int capacity = store->capacity ? store->capacity * 2 : 16;
    struct entry **entries = realloc(store->entries, (size_t)capacity * sizeof *entries);
    if (!entries)
        return false;
    store->entries = entries;
    store->capacity = capacity;
    return true;
}

static void add(struct td_store *store, struct mapping *mapping, const char *file, const char *name,
                const struct td_tensor *tensor)
{
    struct entry *entry = NULL;
    if (!valid_name(name)) {
        skipped(store, file, name,
                "its name is not [A-Za-z0-9._:-]{1,128} beginning without a dot");
        return;
    }
    for (int i = 0; i < store->n_entries; i++)
        if (strcmp(store->entries[i]->name, name) == 0) {
            skipped(store, file, name, "another file has a tensor of that name");
            return;
        }
    if (grow(store))
        entry = calloc(1, sizeof *entry);
    if (!entry) {
        skipped(store, file, name, "no memory");
        return;
    }
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->source, sizeof entry->source, "%s", file);
    entry->tensor = *tensor;
    entry->tensor.owner = td_buffer_ref(&mapping->base);
    entry->listing = (struct td_tensor_listing){ .name = entry->name,
                                                 .tensor = &entry->tensor,
                                                 .source = entry->source };
    store->entries[store->n_entries++] = entry;
}

static void add_npy(struct td_store *store, struct mapping *mapping, const char *file,
                    const char *stem)
{
    struct td_tensor tensor;
    struct td_error err;
    if (td_npy_open(mapping->base.data, mapping->base.size, &tensor, &err) != TD_OK)
        skipped(store, file, NULL, err.message);
    else
        add(store, mapping, file, stem, &tensor);
}

static void add_safetensors(struct td_store *store, struct mapping *mapping, const char *file,
                            const char *stem)
{
    struct td_safetensors opened;
    struct td_error err;
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    if (td_safetensors_open(mapping->base.data, mapping->base.size, &arena, &opened, &err) !=
        TD_OK) {
        skipped(store, file, NULL, err.message);
    } else {
        for (int i = 0; i < opened.n_entries; i++) {
            char name[2 * NAME_MAX_LENGTH + 2]; /* what is cut off here is too long to be valid */
            snprintf(name, sizeof name, "%.129s:%.127s", stem, opened.entries[i].name);
            add(store, mapping, file, name, &opened.entries[i].tensor);
        }
    }
    td_arena_reset(&arena);
}

static bool ends_with(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

static void add_file(struct td_store *store, int dir, const char *file)
{
    const bool npy = ends_with(file, ".npy");
    const char *why = NULL;
    char stem[256];
    if (file[0] == '.' || (!npy && !ends_with(file, ".safetensors")))
        return;
    struct mapping *mapping = map_file(dir, file, &why);
    if (!mapping) {
        skipped(store, file, NULL, why);
        return;
    }
    snprintf(stem, sizeof stem, "%.*s", (int)(strrchr(file, '.') - file), file);
    if (npy)
        add_npy(store, mapping, file, stem);
    else
        add_safetensors(store, mapping, file, stem);
    td_buffer_unref(&mapping->base);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct entry *const *)a)->name, (*(struct entry *const *)b)->name);
}

/* Sorts the entries and lays out the views of them that callers want. */
static bool finish(struct td_store *store)
{
    const size_t n = (size_t)store->n_entries;
    store->listings = calloc(n + 1, sizeof *store->listings);
    store->names = calloc(n + 1, sizeof *store->names);
    if (!store->listings || !store->names)
        return false;
    if (n > 0)
        qsort(store->entries, n, sizeof *store->entries, by_name);
    for (size_t i = 0; i < n; i++) {
        store->listings[i] = store->entries[i]->listing;
        store->names[i] = store->entries[i]->name;
    }
    return true;
}

static bool add_dir(struct td_store *store, const char *path)
{
    struct dirent **files = NULL;
    const int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* In the order of their names: of two tensors with one name, the same one is served every
     * time. */
    const int n_files = dir < 0 ? -1 : scandir(path, &files, NULL, alphasort);
    if (n_files < 0)
        td_log(store->log, TD_LOG_ERROR, "data_dir_unreadable", TD_TEXT("dir", path),
               TD_TEXT("reason", strerror(errno)));
    for (int i = 0; i < n_files; i++) {
        add_file(store, dir, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    if (dir >= 0)
        close(dir);
    return n_files >= 0;
}

static td_status resolve(struct td_resolver *resolver, const char *name, size_t length,
                         struct td_arena *arena, struct td_tensor *out, struct td_error *err)
{
    const struct td_store *store = (const struct td_store *)(void *)resolver;
    const struct td_tensor_listing *found = td_store_find(store, name, length, err);
    if (!found)
        return TD_TENSOR_NOT_FOUND;
    if (!td_arena_keep(arena, td_buffer_ref(found->tensor->owner), err))
        return TD_MEMORY_EXHAUSTED;
    *out = *found->tensor;
    return TD_OK;
}

struct td_store *td_store_open(const char *dir, const struct td_log *log)
{
    struct td_store *store = calloc(1, sizeof *store);
    if (!store)
        return NULL;
    store->resolver.resolve = resolve;
    store->log = log;
    if ((dir[0] && !add_dir(store, dir)) || !finish(store)) {
        td_store_free(store);
        return NULL;
    }
    return store;
}

void td_store_free(struct td_store *store)
{
    if (!store)
        return;
    for (int i = 0; i < store->n_entries; i++) {
        td_buffer_unref(store->entries[i]->tensor.owner);
        free(store->entries[i]);
    }
    free(store->entries);
    free(store->listings);
    free(store->names);
    free(store);
}

const struct td_tensor_listing *td_store_list(const struct td_store *store, int *count)
{
    *count = store->n_entries;
    return store->listings;
}

/* As strcmp, for a name of `length` bytes among which there may be a NUL. */
static int compare_names(const char *known, const char *name, size_t length)
{
    const size_t known_length = strlen(known);
    const int order = memcmp(known, name, known_length < length ? known_length : length);
    return order != 0 ? order : (known_length > length) - (known_length < length);
}

const struct td_tensor_listing *td_store_find(const struct td_store *store, const char *name,
                                              size_t length, struct td_error *err)
{
    int low = 0, high = store->n_entries;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = compare_names(store->names[middle], name, length);
        if (order == 0)
            return &store->listings[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    td_unknown_name(err, TD_TENSOR_NOT_FOUND, "resident tensor", name, length, store->names,
                    store->n_entries, "/v1/tensors");
    return NULL;
}

uint64_t td_store_bytes(const struct td_store *store)
{
    uint64_t bytes = 0;
    for (int i = 0; i < store->n_entries; i++)
        bytes += store->entries[i]->tensor.bytes;
    return bytes;
}

struct td_resolver *td_store_resolver(struct td_store *store)
{
    return &store->resolver;
}
