#include "api/text/sorted_names.h"

#include <string.h>

static int compare(const char *known, const char *name, size_t length)
{
    const size_t known_length = strlen(known);
    const int order = memcmp(known, name, known_length < length ? known_length : length);
    return order != 0 ? order : (known_length > length) - (known_length < length);
}

int td_sorted_find(const void *list, int count, td_name_at_fn *name_at, const char *name,
                   size_t length, bool *found)
{
    int low = 0, high = count;
    *found = false;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = compare(name_at(list, middle), name, length);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int td_sorted_find_at_end(const void *list, int count, td_name_at_fn *name_at, const char *name,
                          size_t length, bool *found)
{
    const bool follows = count > 0 && compare(name_at(list, count - 1), name, length) < 0;
    *found = false;
    return follows ? count : td_sorted_find(list, count, name_at, name, length, found);
}
