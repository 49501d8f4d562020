#include "server/store/files/file_name.h"

#include <stdio.h>
#include <string.h>

bool td_data_file_wanted(const char *name)
{
    return name[0] != '.' &&
           (td_data_file_is(name, TD_OWN_SUFFIX) || td_data_file_is(name, TD_NPY_SUFFIX) ||
            td_data_file_is(name, TD_SAFETENSORS_SUFFIX));
}

bool td_data_keys_file(const char *file, char keys[TD_FILE_NAME])
{
    char table[TD_TENSOR_NAME], name[TD_KEYS_NAME];
    const size_t length = strlen(file) - strlen(TD_NPY_SUFFIX);
    if (!td_data_file_is(file, TD_NPY_SUFFIX) || length >= sizeof table)
        return false;
    snprintf(table, sizeof table, "%.*s", (int)length, file);
    td_table_keys_name(table, name);
    snprintf(keys, TD_FILE_NAME, "%s%s", name, TD_NPY_SUFFIX);
    return true;
}

bool td_data_table_of_keys_file(const char *file, char table[TD_FILE_NAME])
{
    char name[TD_TENSOR_NAME];
    size_t length;
    if (!td_data_file_is(file, TD_NPY_SUFFIX) ||
        !td_table_of_keys(file, strlen(file) - strlen(TD_NPY_SUFFIX), name, &length))
        return false;
    snprintf(table, TD_FILE_NAME, "%s%s", name, TD_NPY_SUFFIX);
    return true;
}

void td_data_index_file(const char *keys_file, char index[TD_FILE_NAME])
{
    snprintf(index, TD_FILE_NAME, ".%.200s%s", keys_file, TD_INDEX_SUFFIX);
}

bool td_data_keys_file_of_index(const char *file, char keys[TD_FILE_NAME])
{
    char table[TD_FILE_NAME];
    if (file[0] != '.' || !td_data_file_is(file, TD_INDEX_SUFFIX))
        return false;
    snprintf(keys, TD_FILE_NAME, "%.*s", (int)(strlen(file) - sizeof TD_INDEX_SUFFIX), file + 1);
    return td_data_table_of_keys_file(keys, table);
}

void td_data_name_in_file(const char *stem, const char *tensor, char name[TD_NAME_IN_FILE])
{
    const size_t base = td_table_base(stem);
    const int shown = base < TD_TENSOR_NAME ? (int)base : TD_TENSOR_NAME;
    snprintf(name, TD_NAME_IN_FILE, "%.*s:%.128s%.128s", shown, stem, tensor, stem + base);
}

bool td_data_next_stem(const char *name, int *place, char stem[TD_TENSOR_NAME])
{
    const int base = (int)td_table_base(name);
    while (*place < 2 * base) {
        const int colon = *place / 2;
        const bool with_version = *place % 2 == 1;
        ++*place;
        if (colon < 1 || name[colon] != ':' || (with_version && !name[base]))
            continue;
        snprintf(stem, TD_TENSOR_NAME, "%.*s%s", colon, name, with_version ? name + base : "");
        return true;
    }
    return false;
}

int td_data_file_order(const char *file, const char *other)
{
    const bool own = td_data_file_is(file, TD_OWN_SUFFIX),
               other_own = td_data_file_is(other, TD_OWN_SUFFIX);
    return own != other_own ? other_own - own : strcmp(file, other);
}
