#include "server/store/keys.h"

#include "server/store/copy.h"
#include "server/store/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

td_status td_keys_check(const struct td_tensor *keys, const char *table,
                        const struct td_shape *rows, struct td_error *err)
{
    char text[TD_SHAPE_TEXT];
    if (!(TD_DTYPES_KEY >> keys->dtype & 1))
        td_error_set(err, TD_UNSUPPORTED_DTYPE,
                     "keys have dtype %s; expected int64, uint64 or string",
                     td_dtype_info(keys->dtype)->name);
    else if (keys->shape.rank != 1)
        td_error_set(err, TD_SHAPE_MISMATCH, "keys have shape %s; expected a vector",
                     td_shape_text(&keys->shape, text, sizeof text));
    else if (rows->rank == 0)
        td_error_set(err, TD_CONFLICT, "'%s' is a scalar; only a table with rows has keys", table);
    else if (keys->numel != rows->dim[0])
        td_error_set(err, TD_CONFLICT, "there are %" PRId64 " keys, but '%s' has %" PRId64 " rows",
                     keys->numel, table, rows->dim[0]);
    else
        return TD_OK;
    return td_error_at_input(err, err->status, "keys");
}

/* True if the strings have the same lengths. Their offsets can start at different values. */
static bool same_lengths(const struct td_tensor *a, const struct td_tensor *b)
{
    bool same = true;
    for (int64_t i = 0; i < a->numel && same; i++)
        same = a->offsets[i + 1] - a->offsets[i] == b->offsets[i + 1] - b->offsets[i];
    return same;
}

static const char *first_byte(const struct td_tensor *strings)
{
    return (const char *)strings->data + strings->offsets[0];
}

bool td_keys_equal(const struct td_keys *keys, const struct td_tensor *vector)
{
    const struct td_tensor *own = &keys->tensor;
    if (own->dtype != vector->dtype || own->numel != vector->numel)
        return false;
    if (own->dtype != TD_DTYPE_STRING)
        return memcmp(own->data, vector->data, own->bytes) == 0;
    return same_lengths(own, vector) &&
           memcmp(first_byte(own), first_byte(vector),
                  (size_t)(own->offsets[own->numel] - own->offsets[0])) == 0;
}

uint64_t td_keys_footprint(const struct td_tensor *keys)
{
    const uint64_t tensor = td_tensor_footprint(keys), index = td_key_index_bytes(keys->numel);
    return index == 0 || tensor > UINT64_MAX - index ? UINT64_MAX : tensor + index;
}

static void release(struct td_buffer *base)
{
    struct td_keys *keys = (struct td_keys *)(void *)base;
    td_buffer_unref(keys->bytes);
    td_buffer_unref(keys->image);
    free(keys);
}

struct td_keys *td_keys_new(struct td_error *err)
{
    struct td_keys *keys = calloc(1, sizeof *keys);
    if (!keys) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for keys");
        return NULL;
    }
    td_buffer_init(&keys->base, NULL, 0, release);
    keys->range = keys->index_range = -1;
    return keys;
}

/* Allocates the index and builds it. */
static td_status build(struct td_store *store, struct td_keys *keys, struct td_exec *exec,
                       struct td_error *err)
{
    const size_t bytes = td_key_index_bytes(keys->tensor.numel);
    if (bytes == 0)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the index of the keys");
    keys->image = store->memory->take(store->memory, bytes, err);
    if (!keys->image)
        return TD_MEMORY_EXHAUSTED;
    const td_status status =
        td_key_index_build(&keys->tensor, "keys", store->hash_seed, keys->image->data, exec, err);
    if (status == TD_OK &&
        !td_key_index_open(keys->image->data, bytes, &keys->tensor, &keys->index))
        return td_error_set(err, TD_INTERNAL, "the index of the keys cannot be opened");
    keys->tensor.key_index = &keys->index;
    keys->held += bytes;
    return status;
}

/* Sets *out to the keys if `status` is TD_OK, and releases the keys otherwise. Returns `status`. */
static td_status finish(struct td_keys *keys, td_status status, struct td_keys **out)
{
    if (status == TD_OK)
        *out = keys;
    else
        td_keys_unref(keys);
    return status;
}

td_status td_keys_make(struct td_store *store, const struct td_tensor *tensor, struct td_exec *exec,
                       const struct td_stop *stop, struct td_keys **out, struct td_error *err)
{
    struct td_keys *keys = td_keys_new(err);
    if (!keys)
        return TD_MEMORY_EXHAUSTED;
    td_status status = td_store_copy(store->memory, tensor, stop, &keys->tensor, &keys->bytes, err);
    if (status == TD_OK) {
        keys->held = td_tensor_footprint(&keys->tensor);
        status = build(store, keys, exec, err);
    }
    return finish(keys, status, out);
}

bool td_keys_map(struct td_keys *keys, const struct td_data_tensor *found, const char *file)
{
    snprintf(keys->file, sizeof keys->file, "%s", file);
    keys->tensor = found->keys;
    keys->tensor.owner = NULL;
    keys->bytes = td_buffer_ref(found->keys.owner);
    keys->range = found->keys_range;
    keys->held = td_tensor_footprint(&found->keys) - found->keys.bytes; /* offsets of strings */
    keys->mapped = found->keys.bytes;
    if (!td_key_index_open(found->index, found->index_bytes, &keys->tensor, &keys->index))
        return false;
    keys->tensor.key_index = &keys->index;
    keys->mapped += found->index_bytes;
    return true;
}

/* Maps the index that is stored beside the file of keys. Returns false if there is none, or if it
 * cannot be used. */
static bool map_index(struct td_store *store, struct td_keys *keys, const char *file)
{
    keys->image =
        td_data_dir_map_index(store->dir, file, &keys->tensor, &keys->index, &keys->index_range);
    if (!keys->image)
        return false;
    keys->tensor.key_index = &keys->index;
    keys->mapped += td_key_index_bytes(keys->tensor.numel);
    return true;
}

void td_keys_store_index(struct td_store *store, struct td_keys *keys)
{
    if (keys->unstored != 0 &&
        td_data_dir_store_index(store->dir, keys->file, &keys->index, keys->unstored))
        keys->unstored = 0;
}

/* Sets the index of mapped keys whose file does not contain an index. */
static td_status find_index(struct td_store *store, struct td_keys *keys, const char *file,
                            struct td_error *err)
{
    struct td_arena scratch;
    struct td_exec exec;
    const bool is_storable = td_data_stores_index(file, &keys->tensor);
    if (is_storable && map_index(store, keys, file))
        return TD_OK;
    keys->unstored = is_storable ? td_data_keys_digest(&keys->tensor) : 0;
    td_arena_init(&scratch, NULL, 0, td_memory_heap());
    td_exec_serial(&exec, &scratch);
    const td_status status = build(store, keys, &exec, err);
    if (status == TD_OK)
        td_keys_store_index(store, keys);
    return status;
}

td_status td_keys_of_file(struct td_store *store, const struct td_data_tensor *found,
                          const char *file, struct td_keys **out, struct td_error *err)
{
    struct td_arena scratch;
    struct td_exec exec;
    if (!found->keys.owner || !td_tensor_is_aligned(&found->keys)) {
        td_arena_init(&scratch, NULL, 0, td_memory_heap());
        td_exec_serial(&exec, &scratch);
        return td_keys_make(store, &found->keys, &exec, NULL, out, err);
    }
    struct td_keys *keys = td_keys_new(err);
    if (!keys)
        return TD_MEMORY_EXHAUSTED;
    const td_status status =
        td_keys_map(keys, found, file) ? TD_OK : find_index(store, keys, file, err);
    return finish(keys, status, out);
}

struct td_keys *td_keys_ref(struct td_keys *keys)
{
    if (keys)
        td_buffer_ref(&keys->base);
    return keys;
}

void td_keys_unref(struct td_keys *keys)
{
    td_buffer_unref(keys ? &keys->base : NULL);
}
