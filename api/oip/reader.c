#include "api/oip/reader.h"

#include <string.h>

void *td_oip_grow(struct td_oip_reader *reader, void *items, int count, int *room, size_t size)
{
    if (count < *room)
        return items;
    const int larger = *room ? *room * 2 : 4;
    void *copy = td_arena_alloc(reader->arena, (size_t)larger, size, reader->err);
    if (!copy)
        return NULL;
    if (count)
        memcpy(copy, items, (size_t)count * size);
    *room = larger;
    return copy;
}
