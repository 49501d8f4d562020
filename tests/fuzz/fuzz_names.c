/* fuzz_names.c - names of tensors, versions and files.
 *
 * Input    Three texts, separated by line feeds. */
#include "server/store/files/file_name.h"
#include "server/store/table_name.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 3 };

/* Requires that the names of keys and of parts lead back to the name. */
static void expect_related(const char *name)
{
    char keys[TD_KEYS_NAME], table[TD_TENSOR_NAME], part[TD_TENSOR_NAME];
    size_t length;
    td_table_keys_name(name, keys);
    REQUIRE(td_table_of_keys(keys, strlen(keys), table, &length) && strcmp(table, name) == 0 &&
                length == strlen(name),
            "the keys of %s are %s", name, keys);
    if (td_table_part_name(name, "scale", part))
        REQUIRE(td_table_of_part(part, "scale", table) && strcmp(table, name) == 0, "%s", part);
}

static void expect_name(const char *name)
{
    struct td_error err = { .offset = -1 };
    struct td_unicode_reason reason;
    const bool valid = td_name_valid(name);
    const td_status status = td_name_check(name, &err);
    if (status != TD_OK)
        fuzz_expect_error(&err, status, 0);
    REQUIRE(valid || status != TD_OK, "'%s' is accepted", name);
    const char *fault = td_name_fault(name, strlen(name), &reason);
    REQUIRE(!fault || strlen(fault) > 8, "no reason");
    if (!valid)
        return;
    REQUIRE(!fault, "%s: %s", name, fault);
    const char *version = td_table_version(name);
    REQUIRE(strlen(name) < TD_TENSOR_NAME && !strchr(name, '/') && name[0] != '.', "%s", name);
    REQUIRE(td_table_base(name) + (version ? 1 + strlen(version) : 0) == strlen(name), "%s", name);
    expect_related(name);
}

/* Requires that a file of keys and the file of its table name each other. */
static void expect_file(const char *file)
{
    char keys[TD_FILE_NAME], table[TD_FILE_NAME], stem[TD_FILE_NAME], name[TD_NAME_IN_FILE];
    int place = 0;
    if (strlen(file) < TD_TENSOR_NAME && file[0] != '@' && td_data_keys_file(file, keys))
        REQUIRE(td_data_table_of_keys_file(keys, table) && strcmp(table, file) == 0, "%s, %s", keys,
                table);
    if (!td_name_valid(file))
        return;
    for (int stems = 0; td_data_next_file(file, &place, stem); stems++) {
        if (!td_data_file_is(stem, TD_SAFETENSORS_SUFFIX))
            continue;
        stem[strlen(stem) - strlen(TD_SAFETENSORS_SUFFIX)] = '\0';
        const char *colon = file + strcspn(stem, "@");
        char tensor[TD_TENSOR_NAME];
        REQUIRE(stems < 2 * TD_TENSOR_NAME && *colon == ':', "%s of %s", stem, file);
        if (strchr(stem, '@') || !strchr(file, '@')) {
            snprintf(tensor, sizeof tensor, "%.*s", (int)strcspn(colon + 1, "@"), colon + 1);
            td_data_name_in_file(stem, tensor, name);
            REQUIRE(strcmp(name, file) == 0, "%s of %s is %s", tensor, stem, name);
        }
    }
}

static int sign(int number)
{
    return (number > 0) - (number < 0);
}

/* Requires a total order. */
static void expect_order(char *texts[TEXTS], int (*compare)(const char *, const char *))
{
    for (int i = 0; i < TEXTS; i++)
        for (int j = 0; j < TEXTS; j++) {
            const int order = compare(texts[i], texts[j]);
            REQUIRE(sign(order) == -sign(compare(texts[j], texts[i])), "%s, %s", texts[i],
                    texts[j]);
            REQUIRE((order == 0) == (strcmp(texts[i], texts[j]) == 0), "%s, %s", texts[i],
                    texts[j]);
            for (int k = 0; k < TEXTS; k++)
                REQUIRE(order > 0 || compare(texts[j], texts[k]) > 0 ||
                            compare(texts[i], texts[k]) <= 0,
                        "%s, %s, %s", texts[i], texts[j], texts[k]);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = fuzz_copy(data, size, 1), *rest = copy, *texts[TEXTS] = { "", "", "" };
    bool versions = true;
    copy[size] = '\0';
    for (int i = 0; i < TEXTS && rest; i++)
        texts[i] = strsep(&rest, "\n");
    for (int i = 0; i < TEXTS; i++) {
        expect_name(texts[i]);
        expect_file(texts[i]);
        versions = versions && td_version_name_valid(texts[i]);
    }
    if (versions)
        expect_order(texts, td_version_name_order);
    expect_order(texts, td_data_file_order);
    free(copy);
    return 0;
}
