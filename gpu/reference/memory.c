#include "gpu/reference/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_ALIGN 64
#define FILL       0xa5 /* fill pattern for new memory, which makes a read before a write visible */

struct td_reference_block {
    struct td_reference_block *next;
    char *data;
    size_t bytes;
};

bool td_reference_in_blocks(const struct td_reference_block *blocks, const void *address,
                            size_t bytes)
{
    uintptr_t begin = (uintptr_t)address;
    if (bytes == 0)
        return true;
    for (; blocks; blocks = blocks->next) {
        uintptr_t first = (uintptr_t)blocks->data;
        if (begin >= first && begin - first <= blocks->bytes &&
            bytes <= blocks->bytes - (begin - first))
            return true;
    }
    return false;
}

/* Maximum number of bytes to fill in a new allocation, which lets a test allocate a table above
 * 2^32 bytes and write a few rows without touching all its pages. */
#define FILLED ((size_t)64 << 20)

/* Allocates `bytes`, rounded up to a multiple of `align`. */
static td_status new_block(struct td_reference_block **list, size_t bytes, size_t align, void **out,
                           struct td_error *err)
{
    size_t rounded = (bytes + align - 1) / align * align;
    struct td_reference_block *block = malloc(sizeof(*block));
    char *data = aligned_alloc(align, rounded);
    if (!block || !data) {
        free(block);
        free(data);
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the host cannot allocate %zu bytes for the reference device", rounded);
    }
    memset(data, FILL, rounded < FILLED ? rounded : FILLED);
    *block = (struct td_reference_block){ .next = *list, .data = data, .bytes = bytes };
    *list = block;
    *out = data;
    return TD_OK;
}

/* Frees the block that starts at `data`. Returns false if no block starts there. */
static bool free_block(struct td_reference_block **list, const void *data, size_t *bytes)
{
    for (struct td_reference_block **at = list; *at; at = &(*at)->next) {
        struct td_reference_block *block = *at;
        if (block->data != data)
            continue;
        *at = block->next;
        *bytes = block->bytes;
        free(block->data);
        free(block);
        return true;
    }
    return false;
}

uint64_t td_reference_free_blocks(struct td_reference_block *blocks)
{
    uint64_t n = 0;
    for (struct td_reference_block *next; blocks; blocks = next, n++) {
        next = blocks->next;
        free(blocks->data);
        free(blocks);
    }
    return n;
}

/* Returns the number of bytes by which an allocation reduces the device's free memory. Even an
 * empty allocation has an address. */
static size_t footprint(size_t bytes)
{
    return bytes == 0 ? TD_REFERENCE_ALIGN
                      : (bytes + TD_REFERENCE_ALIGN - 1) / TD_REFERENCE_ALIGN * TD_REFERENCE_ALIGN;
}

td_status td_reference_alloc(struct td_device *device, size_t bytes, void **out,
                             struct td_error *err)
{
    *out = NULL;
    td_status status = td_reference_check(device, err);
    if (status != TD_OK)
        return status;
    device->allocs++;
    if (device->options.fail_alloc > 0 && device->allocs >= device->options.fail_alloc)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "allocation %" PRId64
                            " on the reference device fails (option fail_alloc)",
                            device->allocs);
    if (bytes > device->limit || footprint(bytes) > device->limit - device->used)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the reference device has %" PRIu64 " of its %" PRIu64
                            " bytes left; %zu are needed",
                            device->limit - device->used, device->limit, bytes);
    status = new_block(&device->blocks, bytes > 0 ? bytes : 1, TD_REFERENCE_ALIGN, out, err);
    if (status == TD_OK)
        device->used += footprint(bytes);
    return status;
}

static void wait_for_ever(void)
{
    for (;;)
        (void)pause();
}

/* Counts a free. Never returns if the option hang_free selects this free. */
static void count_free(struct td_device *device)
{
    if (++device->frees != device->options.hang_free)
        return;
    if (device->options.hang_exit)
        (void)atexit(wait_for_ever);
    wait_for_ever();
}

/* Frees `memory` and returns its size. If the pointer is invalid, stores the error in the device,
 * because free cannot return it. */
static size_t release(struct td_device *device, struct td_reference_block **list, void *memory,
                      const char *function)
{
    size_t bytes = 0;
    count_free(device);
    if (!memory || free_block(list, memory, &bytes))
        return bytes;
    snprintf(device->misuse, sizeof(device->misuse),
             "%s was called with %p, which is not the start of an allocation", function, memory);
    (void)td_reference_misuse(TD_IGNORED, device->misuse);
    return 0;
}

void td_reference_free(struct td_device *device, void *memory)
{
    size_t bytes = release(device, &device->blocks, memory, "free");
    if (bytes > 0)
        device->used -= footprint(bytes);
}

td_status td_reference_host_alloc(struct td_device *device, size_t bytes, void **out,
                                  struct td_error *err)
{
    *out = NULL;
    td_status status = td_reference_check(device, err);
    if (status != TD_OK)
        return status;
    if (bytes > SIZE_MAX / 2) /* rounding up must not overflow */
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "the host cannot allocate %zu bytes", bytes);
    return new_block(&device->host_blocks, bytes > 0 ? bytes : 1, HOST_ALIGN, out, err);
}

void td_reference_host_free(struct td_device *device, void *memory)
{
    release(device, &device->host_blocks, memory, "host_free");
}
