#include "server/store/version.h"

#include "server/memory/fault_guard.h"
#include "server/observe/clock.h"
#include "server/store/copy.h"
#include "server/store/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void release_version(struct td_buffer *base)
{
    struct td_version *version = (struct td_version *)(void *)base;
    td_buffer_unref(version->bytes);
    td_keys_unref(version->keys);
    td_buffer_unref(atomic_load(&version->statistics));
    td_buffer_unref(atomic_load(&version->statistics_of_keys));
    td_compiled_release(&version->compiled);
    free(version);
}

struct td_version *td_version_new(const char *name, struct td_error *err)
{
    struct td_version *version = calloc(1, sizeof *version);
    if (!version) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for %s", TD_NAMED(name));
        return NULL;
    }
    td_buffer_init(&version->base, NULL, 0, release_version);
    version->range = -1;
    version->expires_ns = TD_NEVER;
    snprintf(version->name, sizeof version->name, "%s", name);
    return version;
}

void td_version_set(struct td_version *version, const struct td_tensor *tensor,
                    struct td_buffer *bytes)
{
    version->tensor = *tensor;
    version->tensor.owner = &version->base;
    /* The key index belongs to the vector of keys from which the tensor was made. */
    version->tensor.key_index = NULL;
    version->tensor.keys = version->keys ? &version->key_vector : NULL;
    version->base.data = tensor->data;
    version->base.size = tensor->bytes;
    version->bytes = bytes;
}

void td_version_set_keys(struct td_version *version, struct td_keys *keys)
{
    td_keys_unref(version->keys);
    version->keys = keys;
    version->tensor.keys = keys ? &version->key_vector : NULL;
    if (!keys)
        return;
    version->key_vector = keys->tensor;
    version->key_vector.owner = &version->base;
}

uint64_t td_version_keys_held(const struct td_version *version)
{
    return version->keys ? version->keys->held : 0;
}

uint64_t td_version_mapped(const struct td_version *version)
{
    return version->rows_mapped + (version->keys ? version->keys->mapped : 0);
}

static bool is_within(const struct td_tensor *part, const struct td_tensor *whole)
{
    const uintptr_t begin = (uintptr_t)whole->data, at = (uintptr_t)part->data;
    return at >= begin && at - begin < whole->bytes;
}

struct td_part td_version_part(const struct td_version *version, const struct td_tensor *tensor)
{
    const struct td_keys *keys = version->keys;
    return keys && is_within(tensor, &version->key_vector)
               ? (struct td_part){ keys->bytes, keys->mapped, keys->range }
               : (struct td_part){ version->bytes, version->rows_mapped, version->range };
}

uint64_t td_version_mapped_held(const struct td_tensor *tensor)
{
    return tensor->dtype == TD_DTYPE_STRING ? td_tensor_footprint(tensor) - tensor->bytes : 0;
}

void td_version_map(struct td_version *version, const struct td_data_tensor *mapped)
{
    const struct td_tensor *tensor = &mapped->tensor;
    td_version_set(version, tensor, td_buffer_ref(tensor->owner));
    version->range = mapped->range;
    version->checksums = mapped->checksums;
    const uint64_t held = td_version_mapped_held(tensor);
    version->held = held + td_version_keys_held(version);
    version->rows_mapped = td_tensor_footprint(tensor) - held;
}

void td_version_share(struct td_version *version, const struct td_version *before, uint64_t held)
{
    td_version_set(version, &before->tensor, td_buffer_ref(before->bytes));
    version->held = held;
    version->rows_mapped = before->rows_mapped;
    version->range = before->range;
    version->from_file = before->from_file;
    version->checksums = before->checksums;
    atomic_store(&version->integrity, atomic_load(&before->integrity));
    memcpy(version->file, before->file, sizeof version->file);
}

const struct td_version *td_version_of(const struct td_tensor *tensor)
{
    const struct td_buffer *owner = tensor->owner;
    return owner && owner->release == release_version
               ? (const struct td_version *)(const void *)owner
               : NULL;
}

static bool is_cut(int range)
{
    td_guard_look_at_end(range);
    return td_guard_marked(range);
}

static bool keys_are_cut(const struct td_version *version)
{
    return version->keys && (is_cut(version->keys->range) || is_cut(version->keys->index_range));
}

bool td_version_index_is_cut(const struct td_version *version)
{
    return version->keys && is_cut(version->keys->index_range) && !is_cut(version->range) &&
           !is_cut(version->keys->range);
}

bool td_version_is_cut(const struct td_version *version)
{
    return is_cut(version->range) || keys_are_cut(version);
}

bool td_version_is_lost(const struct td_version *version)
{
    return td_version_is_cut(version) && atomic_load(&version->integrity) != TD_INTEGRITY_DAMAGED;
}

td_status td_version_check(const struct td_version *version, struct td_error *err)
{
    if (!td_version_is_cut(version))
        return TD_OK;
    if (atomic_load(&version->integrity) == TD_INTEGRITY_DAMAGED)
        return td_error_set(
            err, TD_DEVICE_UNAVAILABLE,
            "the file %s of %s is damaged: its bytes %" PRIu64 " to %" PRIu64
            " do not match their checksum; put the %s with ?persist=1, or replace the file and "
            "send SIGHUP",
            version->file, TD_NAMED(version->name), version->damage_begin, version->damage_end - 1,
            td_named_kind(version->name));
    if (td_version_index_is_cut(version))
        return td_error_set(
            err, TD_DEVICE_UNAVAILABLE,
            "the stored index of the keys of '%s', beside the file %s, was truncated "
            "while it was served, or cannot be read; the server builds it again, so try "
            "again later. If this error remains, send SIGHUP",
            version->name, version->keys->file);
    return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                        "the file %s of %s was truncated while it was served, or cannot be "
                        "read; put the %s with ?persist=1, or replace the file and send SIGHUP",
                        is_cut(version->range) ? version->file : version->keys->file,
                        TD_NAMED(version->name), td_named_kind(version->name));
}

td_status td_version_copy(struct td_store *store, struct td_version *version,
                          const struct td_tensor *tensor, const struct td_stop *stop,
                          struct td_error *err)
{
    struct td_tensor copy;
    struct td_buffer *bytes;
    const td_status status = td_store_copy(store->memory, tensor, stop, &copy, &bytes, err);
    if (status == TD_OK)
        td_version_set(version, &copy, bytes);
    return status;
}

td_status td_version_keep(struct td_version *version, struct td_arena *arena, struct td_error *err)
{
    return td_arena_keep(arena, &version->base, err) ? TD_OK : TD_MEMORY_EXHAUSTED;
}

/* Returns the seconds until the version expires, rounded up and at least 1, or 0 if it does not
 * expire. */
static int64_t seconds_left(const struct td_version *version)
{
    const int64_t ns_per_s = 1000000000;
    if (version->expires_ns == TD_NEVER)
        return 0;
    const int64_t left_ns = version->expires_ns - td_now_ns();
    return left_ns > 0 ? (left_ns + ns_per_s - 1) / ns_per_s : 1;
}

struct td_tensor_listing td_version_listing(struct td_version *version)
{
    return (struct td_tensor_listing){ .name = version->name,
                                       .tensor = &version->tensor,
                                       .keys = version->keys ? &version->key_vector : NULL,
                                       .source = version->from_file ? version->file : NULL,
                                       .version = version->number,
                                       .etag = version->etag,
                                       .ttl_s = seconds_left(version),
                                       .integrity = atomic_load(&version->integrity),
                                       .persisted =
                                           version->persisted && !atomic_load(&version->orphaned) };
}
