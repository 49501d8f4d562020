#include "server/store/files/file_name.h"

#include <stdio.h>
#include <string.h>

bool td_data_file_is_own(const char *file)
{
    return file[0] != '.' &&
           (td_data_file_is(file, TD_OWN_SUFFIX) || td_data_file_is(file, TD_PROGRAM_SUFFIX));
}

bool td_data_file_wanted(const char *name)
{
    return td_data_file_is_own(name) ||
           (name[0] != '.' &&
            (td_data_file_is(name, TD_NPY_SUFFIX) || td_data_file_is(name, TD_SAFETENSORS_SUFFIX)));
}

const char *td_data_file_suffix(const char *file)
{
    return td_data_file_is(file, TD_PROGRAM_SUFFIX)
               ? file + strlen(file) - (sizeof TD_PROGRAM_SUFFIX - 1)
               : strrchr(file, '.');
}

void td_data_own_file(const char *name, char file[TD_FILE_NAME])
{
    char program[TD_TENSOR_NAME];
    size_t length;
    const bool of_program = td_table_of_program(name, strlen(name), program, &length);
    snprintf(file, TD_FILE_NAME, "%s%s", of_program ? program : name,
             of_program ? TD_PROGRAM_SUFFIX : TD_OWN_SUFFIX);
}

bool td_data_npy_file(const char *name, char file[TD_FILE_NAME])
{
    snprintf(file, TD_FILE_NAME, "%s%s", name, TD_NPY_SUFFIX);
    return !td_is_program_name(name, strlen(name));
}

bool td_data_only_name(const char *file, char name[TD_TENSOR_NAME])
{
    char stem[TD_TENSOR_NAME];
    const size_t length = (size_t)(td_data_file_suffix(file) - file);
    if (td_data_file_is(file, TD_SAFETENSORS_SUFFIX) || length >= sizeof stem)
        return false;
    snprintf(stem, sizeof stem, "%.*s", (int)length, file);
    if (!td_data_file_is(file, TD_PROGRAM_SUFFIX))
        memcpy(name, stem, sizeof stem);
    else if (!td_program_name(stem, name))
        return false;
    return td_name_valid(name);
}

td_status td_data_check_name(const char *file, const char *name, struct td_error *err)
{
    char program[TD_TENSOR_NAME];
    size_t length;
    const td_status status = td_name_check(name, err);
    if (status != TD_OK || !td_table_of_program(name, strlen(name), program, &length))
        return status;
    const bool is_text = td_data_file_is(file, TD_PROGRAM_SUFFIX);
    if (is_text && td_program_is_reserved(program))
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "no program can have the name '%s', because " TD_PROGRAM_RESERVED,
                            program);
    if (is_text)
        return TD_OK;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%s' is the name of the program '%s', not of a tensor; a program is read "
                        "from its text in %s" TD_PROGRAM_SUFFIX,
                        name, program, program);
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

/* Writes the name of the next .safetensors file that can hold the tensor. Each ':' in the name ends
 * one or two stems: without and with the version. */
static bool next_safetensors(const char *name, int *place, char file[TD_FILE_NAME])
{
    const int base = (int)td_table_base(name);
    for (; *place < 2 * base; ++*place) {
        const int colon = *place / 2;
        const bool with_version = *place % 2 == 1;
        if (colon < 1 || name[colon] != ':' || (with_version && !name[base]))
            continue;
        snprintf(file, TD_FILE_NAME, "%.*s%s%s", colon, name, with_version ? name + base : "",
                 TD_SAFETENSORS_SUFFIX);
        return true;
    }
    return false;
}

bool td_data_next_file(const char *name, int *place, char file[TD_FILE_NAME])
{
    const int at = *place;
    bool found = true;
    if (at == 0)
        td_data_own_file(name, file);
    else if (at == 1)
        found = td_data_npy_file(name, file);
    else
        found = next_safetensors(name, place, file);
    ++*place;
    return found;
}

int td_data_file_order(const char *file, const char *other)
{
    const bool own = td_data_file_is_own(file), other_own = td_data_file_is_own(other);
    return own != other_own ? other_own - own : strcmp(file, other);
}
