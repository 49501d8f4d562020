#include "server/store/table_name.h"

#include "api/text/unicode_name.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <stdio.h>
#include <string.h>

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

/* True if these characters can form a BASE. For a name in ASCII, this costs one strspn. */
static bool base_valid(const char *name, size_t base)
{
    const size_t plain = strspn(name, TD_NAME_CHARACTERS ":");
    return plain == base || (!is_ascii(name[plain]) && td_unicode_name_valid(name, base, 0, NULL));
}

bool td_name_valid(const char *name)
{
    const size_t base = td_table_base(name);
    const char *version = td_table_version(name);
    return base >= 1 && strlen(name) < TD_TENSOR_NAME && name[0] != '.' && base_valid(name, base) &&
           (!version || td_version_name_valid(version));
}

const char *td_name_fault(const char *name, size_t length, struct td_unicode_reason *reason)
{
    const char *at = memchr(name, '@', length);
    const size_t base = at ? (size_t)(at - name) : length;
    char version[TD_TENSOR_NAME] = "";
    size_t plain = 0;
    while (plain < base && is_ascii(name[plain]))
        plain++;
    if (plain == base || length >= TD_TENSOR_NAME)
        return NULL;
    if (at)
        memcpy(version, at + 1, length - base - 1);
    const size_t rest = td_version_name_valid(version) ? length - base : 0;
    return td_unicode_name_valid(name, base, rest, reason) ? NULL : reason->text;
}

td_status td_name_check(const char *name, struct td_error *err)
{
    char table[TD_TENSOR_NAME];
    size_t length;
    if (td_table_of_keys(name, strlen(name), table, &length))
        return td_error_set(err, TD_INVALID_ARGUMENT,
                            "'%s' is the name of the keys of '%s', not of a tensor; use PUT or "
                            "DELETE /v1/tensors/%s/keys",
                            name, table, table);
    if (td_name_valid(name))
        return TD_OK;
    const char *version = td_table_version(name);
    const char *part = version ? td_version_name_part(version) : NULL;
    if (part)
        return td_error_set(
            err, TD_INVALID_ARGUMENT,
            "'%s' is not a valid tensor name: .%s must come before the '@', as in '%.*s.%s@%.*s'",
            TD_SHOWN(name, strlen(name)), part, (int)td_table_base(name), name, part,
            (int)(strrchr(version, '.') - version), version);
    struct td_unicode_reason reason;
    const char *why = td_name_fault(name, strlen(name), &reason);
    return td_error_set(err, TD_INVALID_ARGUMENT, "'%s' is not a valid %s name: %s%s",
                        TD_SHOWN(name, strlen(name)), td_named_kind(name), why ? "" : "expected ",
                        why ? why : TD_NAME_EXPECTED);
}

/* Copies the name without the suffix of its BASE. Returns false if the BASE does not end in the
 * suffix, or if the result is too long. */
static bool cut_suffix(const char *name, size_t length, const char *suffix,
                       char table[TD_TENSOR_NAME], size_t *table_length)
{
    const size_t cut = strlen(suffix);
    const char *at = memchr(name, '@', length);
    const size_t base = at ? (size_t)(at - name) : length;
    if (base <= cut || length - cut >= TD_TENSOR_NAME ||
        memcmp(name + base - cut, suffix, cut) != 0)
        return false;
    memcpy(table, name, base - cut);
    memcpy(table + base - cut, name + base, length - base);
    *table_length = length - cut;
    table[*table_length] = '\0';
    return true;
}

bool td_table_of_keys(const char *name, size_t length, char table[TD_TENSOR_NAME],
                      size_t *table_length)
{
    return cut_suffix(name, length, ".keys", table, table_length);
}

bool td_table_of_program(const char *name, size_t length, char program[TD_TENSOR_NAME],
                         size_t *program_length)
{
    return cut_suffix(name, length, ".program", program, program_length);
}

bool td_is_program_name(const char *name, size_t length)
{
    char program[TD_TENSOR_NAME];
    return td_table_of_program(name, length, program, &length);
}

bool td_program_name(const char *program, char name[TD_TENSOR_NAME])
{
    return td_table_part_name(program, "program", name);
}

bool td_program_is_reserved(const char *program)
{
    const size_t base = td_table_base(program);
    return td_name_is("run", program, base) || td_name_is("plan", program, base);
}

const char *td_named_text(const char *name, size_t length, struct td_named *out)
{
    char program[TD_TENSOR_NAME];
    if (td_table_of_program(name, length, program, &length))
        snprintf(out->text, sizeof out->text, "the program '%s'", program);
    else
        snprintf(out->text, sizeof out->text, "'%s'", TD_SHOWN(name, length));
    return out->text;
}

const char *td_named_kind(const char *name)
{
    return td_is_program_name(name, strlen(name)) ? "program" : "tensor";
}

bool td_table_of_part(const char *name, const char *part, char table[TD_TENSOR_NAME])
{
    char suffix[TD_TENSOR_NAME];
    size_t length;
    snprintf(suffix, sizeof suffix, ".%s", part);
    return cut_suffix(name, strlen(name), suffix, table, &length);
}

/* Writes the name of a table's part. Returns false if it does not fit. Each request that names a
 * table forms such names, and snprintf would take a tenth of a microsecond for each. */
static bool part_name(const char *table, const char *part, char *name, size_t size)
{
    const size_t base = td_table_base(table), version = strlen(table + base), length = strlen(part);
    if (base + 1 + length + version >= size)
        return false;
    memcpy(name, table, base);
    name[base] = '.';
    memcpy(name + base + 1, part, length + 1);
    memcpy(name + base + 1 + length, table + base, version + 1);
    return true;
}

void td_table_keys_name(const char *table, char name[TD_KEYS_NAME])
{
    if (!part_name(table, "keys", name, TD_KEYS_NAME))
        *name = '\0';
}

bool td_table_part_name(const char *table, const char *part, char name[TD_TENSOR_NAME])
{
    return part_name(table, part, name, TD_TENSOR_NAME);
}
