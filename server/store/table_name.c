#include "server/store/table_name.h"

#include "api/text/unicode_name.h"

#include <stdio.h>
#include <string.h>

#define DIGITS  "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

const char *const td_table_parts[TD_TABLE_PARTS] = { "scale", "offset", "zero_point" };

static bool ends_in(const char *text, const char *part)
{
    const char *dot = strrchr(text, '.');
    return dot && strcmp(dot + 1, part) == 0;
}

const char *td_table_part_of_version(const char *version)
{
    for (int i = 0; i < TD_TABLE_PARTS; i++)
        if (ends_in(version, td_table_parts[i]))
            return td_table_parts[i];
    return ends_in(version, "keys") ? "keys" : NULL;
}

bool td_table_version_valid(const char *version)
{
    const size_t length = strlen(version);
    return length >= 1 && length < TD_TABLE_VERSION &&
           strspn(version, LETTERS DIGITS "._-") == length && !td_table_part_of_version(version);
}

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

/* True if these characters can form a BASE. For a name in ASCII, this costs one strspn. */
static bool base_valid(const char *name, size_t base)
{
    const size_t plain = strspn(name, LETTERS DIGITS "._:-");
    return plain == base || (!is_ascii(name[plain]) && td_unicode_name_valid(name, base, 0, NULL));
}

bool td_name_valid(const char *name)
{
    const size_t base = td_table_base(name);
    const char *version = td_table_version(name);
    return base >= 1 && strlen(name) < TD_TENSOR_NAME && name[0] != '.' && base_valid(name, base) &&
           (!version || td_table_version_valid(version));
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
    const size_t rest = td_table_version_valid(version) ? length - base : 0;
    return td_unicode_name_valid(name, base, rest, reason) ? NULL : reason->text;
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

bool td_table_of_part(const char *name, const char *part, char table[TD_TENSOR_NAME])
{
    char suffix[TD_TENSOR_NAME];
    size_t length;
    snprintf(suffix, sizeof suffix, ".%s", part);
    return cut_suffix(name, strlen(name), suffix, table, &length);
}

void td_table_keys_name(const char *table, char name[TD_KEYS_NAME])
{
    const size_t base = td_table_base(table);
    snprintf(name, TD_KEYS_NAME, "%.*s.keys%s", (int)base, table, table + base);
}

bool td_table_part_name(const char *table, const char *part, char name[TD_TENSOR_NAME])
{
    const size_t base = td_table_base(table);
    return snprintf(name, TD_TENSOR_NAME, "%.*s.%s%s", (int)base, table, part, table + base) <
           TD_TENSOR_NAME;
}

const char *td_table_version(const char *name)
{
    const char *at = strchr(name, '@');
    return at ? at + 1 : NULL;
}

size_t td_table_base(const char *name)
{
    return strcspn(name, "@");
}

/* Compares the numbers at the start of both texts, and advances both texts past these numbers. */
static int compare_numbers(const char **a, const char **b)
{
    *a += strspn(*a, "0");
    *b += strspn(*b, "0");
    const size_t n = strspn(*a, DIGITS), m = strspn(*b, DIGITS);
    const int order = n != m ? (n > m) - (n < m) : strncmp(*a, *b, n);
    *a += n;
    *b += m;
    return order;
}

int td_table_version_order(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        if (strspn(x, DIGITS) > 0 && strspn(y, DIGITS) > 0) {
            const int order = compare_numbers(&x, &y);
            if (order != 0)
                return order;
        } else if (*x != *y) {
            break;
        } else {
            x++;
            y++;
        }
    }
    const int order = strcmp(x, y);
    /* If the order is 0 here, the texts differ at most in leading zeros. */
    return order != 0 ? order : strcmp(a, b);
}

void td_table_name_in_file(const char *stem, const char *tensor, char name[TD_TABLE_NAME_IN_FILE])
{
    const size_t base = td_table_base(stem);
    const int shown = base < TD_TENSOR_NAME ? (int)base : TD_TENSOR_NAME;
    snprintf(name, TD_TABLE_NAME_IN_FILE, "%.*s:%.128s%.128s", shown, stem, tensor, stem + base);
}

bool td_table_next_stem(const char *name, int *place, char stem[TD_TENSOR_NAME])
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
