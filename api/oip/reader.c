#include "api/oip/reader.h"

#include <string.h>

void *td_oip_grow(struct td_oip_reader *reader, void *items, int count, int *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    const int larger = *capacity ? *capacity * 2 : 4;
    void *copy = td_arena_alloc(reader->arena, (size_t)larger, size, reader->err);
    if (!copy)
        return NULL;
    if (count)
        memcpy(copy, items, (size_t)count * size);
    *capacity = larger;
    return copy;
}

td_status td_oip_error_at_input(struct td_oip_reader *reader, td_status status,
                                const struct td_oip_input *input)
{
    return input->name.text && status != TD_OK
               ? td_error_at_input(reader->err, status, "%s", TD_OIP_SHOWN(input->name))
               : status;
}
