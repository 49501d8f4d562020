#include "kernels/arena.h"

#include "kernels/shape.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* A list node for a buffer reference that reset drops. Nodes are in the arena's blocks, not in
 * front of the buffers' data, so a buffer whose requested size is a power of two keeps that size
 * and fits a size class of the pool. */
struct td_arena_node {
    struct td_arena_node *next;
    struct td_buffer *buffer;
};

#define BLOCK_SIZE ((size_t)64 * 1024)
/* Larger allocations get their own buffer, so at most a quarter of a block stays unused. */
#define LARGE_SIZE (BLOCK_SIZE / 4)

/* Under AddressSanitizer, the free part of each block and the 16 bytes after every allocation are
 * poisoned. Because the first block is borrowed, it is poisoned only between the first allocation
 * and the reset. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE                16
#define POISON(pointer, size)   __asan_poison_memory_region(pointer, size)
#define UNPOISON(pointer, size) __asan_unpoison_memory_region(pointer, size)
#else
#define RED_ZONE                0
#define POISON(pointer, size)   ((void)0)
#define UNPOISON(pointer, size) ((void)0)
#endif

void td_arena_init(struct td_arena *arena, void *first, size_t first_size, struct td_memory *memory)
{
    *arena = (struct td_arena){
        .first = first,
        .first_size = first_size,
        .next = first,
        .end = first_size > 0 ? (char *)first + first_size : first,
        .memory = memory,
    };
}

/* Allocates `bytes` in the current block, or returns NULL if they do not fit. */
static void *bump(struct td_arena *arena, size_t bytes)
{
    size_t align = bytes >= 64 ? 64 : 16;
    size_t skip = (size_t)(-(uintptr_t)arena->next & (align - 1));
    size_t room = (size_t)(arena->end - arena->next);
    if (!arena->next || skip > room || bytes > room - skip)
        return NULL;
    if (arena->next == arena->first)
        POISON(arena->first, arena->first_size);
    char *place = arena->next + skip;
    UNPOISON(place, bytes);
    size_t taken = skip + bytes + RED_ZONE;
    arena->next += taken < room ? taken : room;
    return place;
}

/* Replaces the current block with a new one, whose first allocation is the list node for its own
 * buffer. */
static bool new_block(struct td_arena *arena, struct td_error *err)
{
    struct td_buffer *buffer = arena->memory->take(arena->memory, BLOCK_SIZE, err);
    if (!buffer)
        return false;
    arena->taken += BLOCK_SIZE;
    arena->next = buffer->data;
    arena->end = arena->next + BLOCK_SIZE;
    POISON(arena->next, BLOCK_SIZE);
    struct td_arena_node *node = bump(arena, sizeof(*node));
    *node = (struct td_arena_node){ .next = arena->nodes, .buffer = buffer };
    arena->nodes = node;
    return true;
}

bool td_arena_keep(struct td_arena *arena, struct td_buffer *buffer, struct td_error *err)
{
    struct td_arena_node *node = bump(arena, sizeof(*node));
    if (!node) {
        if (!new_block(arena, err)) {
            td_buffer_unref(buffer);
            return false;
        }
        node = bump(arena, sizeof(*node));
    }
    *node = (struct td_arena_node){ .next = arena->nodes, .buffer = buffer };
    arena->nodes = node;
    return true;
}

void *td_arena_alloc(struct td_arena *arena, size_t count, size_t size, struct td_error *err)
{
    size_t bytes;
    if (!td_size_mul(count, size, &bytes)) {
        td_error_resource(err, "workspace_bytes", UINT64_MAX, SIZE_MAX, "one allocation");
        return NULL;
    }
    if (bytes == 0)
        bytes = 1; /* at least one byte, so that the pointer is valid and unique */
    void *place = bump(arena, bytes);
    if (place)
        return place;
    if (bytes <= LARGE_SIZE)
        return new_block(arena, err) ? bump(arena, bytes) : NULL;
    struct td_buffer *buffer = arena->memory->take(arena->memory, bytes, err);
    if (!buffer || !td_arena_keep(arena, buffer, err))
        return NULL;
    arena->taken += bytes;
    return buffer->data;
}

void td_arena_trim(struct td_arena *arena, void *place, size_t bytes, size_t used)
{
    char *end = (char *)place + bytes + RED_ZONE;
    assert(used <= bytes);
    if (end != arena->next)
        return;
    arena->next = (char *)place + used + RED_ZONE;
    POISON((char *)place + used, bytes - used + RED_ZONE);
}

td_status td_arena_reserve(struct td_arena *arena, size_t bytes, struct td_error *err)
{
    assert(bytes <= TD_ARENA_RESERVE);
    const size_t room = arena->next ? (size_t)(arena->end - arena->next) : 0;
    return room >= bytes || new_block(arena, err) ? TD_OK : TD_MEMORY_EXHAUSTED;
}

struct td_buffer *td_arena_owner(const struct td_arena *arena, const void *data)
{
    /* A block starts with its own list node, so no other allocation has the address of a block. */
    const struct td_arena_node *node = arena->nodes;
    while (node && node->buffer->data != data)
        node = node->next;
    return node ? node->buffer : NULL;
}

void *td_arena_grow(struct td_arena *arena, void *array, int count, int *capacity, size_t size,
                    struct td_error *err)
{
    if (count < *capacity)
        return array;
    const int more = *capacity > 0 ? 2 * *capacity : 8;
    void *larger = td_arena_alloc(arena, (size_t)more, size, err);
    if (!larger)
        return NULL;
    if (count > 0)
        memcpy(larger, array, (size_t)count * size);
    *capacity = more;
    return larger;
}

char *td_arena_text(struct td_arena *arena, const char *text, size_t length, struct td_error *err)
{
    char *copy = td_arena_alloc(arena, length + 1, 1, err);
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

void td_arena_drop(struct td_arena *arena, struct td_buffer *buffer)
{
    struct td_arena_node **link = &arena->nodes;
    while (*link && (*link)->buffer != buffer)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = (*link)->next;
    td_buffer_unref(buffer);
}

void td_arena_reset(struct td_arena *arena)
{
    /* Reads the node before releasing the buffer, because the node can be inside that buffer. In
     * the list, a block's own node comes after all other nodes in the block, so no node is read
     * after its memory has been released. */
    struct td_arena_node *node = arena->nodes;
    while (node) {
        struct td_arena_node *next = node->next;
        struct td_buffer *buffer = node->buffer;
        if (buffer->data == (void *)node)
            /* The buffer is a block, which the pool can reuse. */
            UNPOISON(buffer->data, BLOCK_SIZE);
        td_buffer_unref(buffer);
        node = next;
    }
    if (arena->first)
        UNPOISON(arena->first, arena->first_size);
    const struct td_stop stop = arena->stop;
    td_arena_init(arena, arena->first, arena->first_size, arena->memory);
    arena->stop = stop;
}
