#include "kernels/arena.h"

#include "kernels/shape.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* A reference that reset will drop. Notes live in the arena's blocks, not in front of the buffers
 * they are about: a power of two asked for stays a power of two in the pool's size classes. */
struct td_arena_hold {
    struct td_arena_hold *next;
    struct td_buffer *buffer;
};

#define BLOCK_SIZE ((size_t)64 * 1024)
/* What is larger gets a buffer of its own, so that at most a quarter of a block is left unused. */
#define LARGE_SIZE (BLOCK_SIZE / 4)

/* Under AddressSanitizer the free part of a block is poisoned and 16 bytes stay so behind every
 * allocation. The first block belongs to somebody else: it is poisoned from the first allocation to
 * the reset only. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define RED_ZONE              16
#define HIDE(pointer, size)   __asan_poison_memory_region(pointer, size)
#define REVEAL(pointer, size) __asan_unpoison_memory_region(pointer, size)
#else
#define RED_ZONE              0
#define HIDE(pointer, size)   ((void)0)
#define REVEAL(pointer, size) ((void)0)
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

/* `bytes` from the block in use, or NULL when they do not fit. */
static void *bump(struct td_arena *arena, size_t bytes)
{
    size_t align = bytes >= 64 ? 64 : 16;
    size_t skip = (size_t)(-(uintptr_t)arena->next & (align - 1));
    size_t room = (size_t)(arena->end - arena->next);
    if (!arena->next || skip > room || bytes > room - skip)
        return NULL;
    if (arena->next == arena->first)
        HIDE(arena->first, arena->first_size);
    char *place = arena->next + skip;
    REVEAL(place, bytes);
    size_t taken = skip + bytes + RED_ZONE;
    arena->next += taken < room ? taken : room;
    return place;
}

/* Replaces the block in use by a fresh one, which begins with the note of itself. */
static bool new_block(struct td_arena *arena, struct td_error *err)
{
    struct td_buffer *buffer = arena->memory->take(arena->memory, BLOCK_SIZE, err);
    if (!buffer)
        return false;
    arena->taken += BLOCK_SIZE;
    arena->next = buffer->data;
    arena->end = arena->next + BLOCK_SIZE;
    HIDE(arena->next, BLOCK_SIZE);
    struct td_arena_hold *hold = bump(arena, sizeof(*hold));
    *hold = (struct td_arena_hold){ .next = arena->held, .buffer = buffer };
    arena->held = hold;
    return true;
}

bool td_arena_keep(struct td_arena *arena, struct td_buffer *buffer, struct td_error *err)
{
    struct td_arena_hold *hold = bump(arena, sizeof(*hold));
    if (!hold) {
        if (!new_block(arena, err)) {
            td_buffer_unref(buffer);
            return false;
        }
        hold = bump(arena, sizeof(*hold));
    }
    *hold = (struct td_arena_hold){ .next = arena->held, .buffer = buffer };
    arena->held = hold;
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
        bytes = 1; /* a valid pointer, unlike any other */
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

td_status td_arena_reserve(struct td_arena *arena, size_t bytes, struct td_error *err)
{
    assert(bytes <= TD_ARENA_RESERVE);
    const size_t room = arena->next ? (size_t)(arena->end - arena->next) : 0;
    return room >= bytes || new_block(arena, err) ? TD_OK : TD_MEMORY_EXHAUSTED;
}

struct td_buffer *td_arena_owner(const struct td_arena *arena, const void *data)
{
    /* Blocks begin with their note, which nobody is given. */
    const struct td_arena_hold *hold = arena->held;
    while (hold && hold->buffer->data != data)
        hold = hold->next;
    return hold ? hold->buffer : NULL;
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
    struct td_arena_hold **link = &arena->held;
    while (*link && (*link)->buffer != buffer)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = (*link)->next;
    td_buffer_unref(buffer);
}

void td_arena_reset(struct td_arena *arena)
{
    /* A note may lie in the very buffer it is about, so it is read before the buffer goes. Blocks
     * lie in the list behind the notes they contain, so every note outlives its turn. */
    struct td_arena_hold *hold = arena->held;
    while (hold) {
        struct td_arena_hold *next = hold->next;
        struct td_buffer *buffer = hold->buffer;
        if (buffer->data == (void *)hold)
            REVEAL(buffer->data, BLOCK_SIZE); /* a block: its maker may use it again */
        td_buffer_unref(buffer);
        hold = next;
    }
    if (arena->first)
        REVEAL(arena->first, arena->first_size);
    td_arena_init(arena, arena->first, arena->first_size, arena->memory);
}
