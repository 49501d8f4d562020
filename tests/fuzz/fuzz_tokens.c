/* fuzz_tokens.c - files of --token-file.
 *
 * Input    The file. */
#include "server/auth/token_file.h"
#include "tests/fuzz/fuzz.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 768 };

static const char file_name[] = "FILE", beginning[] = "token-file: FILE ";

/* The next word of a line; false at its end. */
static bool next_word(const char **at, const char *end, const char **word, size_t *length)
{
    while (*at < end && strchr(" \t\r", **at) && **at)
        ++*at;
    *word = *at;
    while (*at < end && !(strchr(" \t\r", **at) && **at))
        ++*at;
    *length = (size_t)(*at - *word);
    return *length > 0;
}

/* One printable line, without anything that may be a token. */
static void expect_message(const char *message, const char *text, size_t size)
{
    const size_t length = strnlen(message, MESSAGE);
    REQUIRE(length > 0 && length < MESSAGE, "no message, or one without an end");
    REQUIRE(strncmp(message, beginning, strlen(beginning)) == 0, "not of the file: %s", message);
    for (size_t i = 0; i < length; i++)
        REQUIRE(isprint((unsigned char)message[i]), "byte %d in the message", message[i]);
    for (size_t i = 0; i + TD_TOKEN_LEAST <= size; i++)
        if (td_token_is_valid(text + i, TD_TOKEN_LEAST))
            REQUIRE(memmem(message, length, text + i, TD_TOKEN_LEAST) == NULL, "it has a token: %s",
                    message);
}

/* The token of a line is found, with its role and line, and is for what its prefixes name. */
static void expect_line(const struct td_token_list *list, int number, const char *at,
                        const char *end)
{
    const char *role, *token, *prefix;
    size_t role_length, length, prefix_length;
    int n_prefixes = 0;
    if (!next_word(&at, end, &role, &role_length) || role[0] == '#')
        return;
    REQUIRE(next_word(&at, end, &token, &length), "line %d has no token", number);
    const struct td_bearer *bearer = td_token_list_find(list, token, length);
    REQUIRE(bearer && bearer->line == number, "the token of line %d is not found", number);
    const char *name = td_access_role_name(bearer->access.role);
    REQUIRE(strlen(name) == role_length && memcmp(name, role, role_length) == 0, "another role");
    while (next_word(&at, end, &prefix, &prefix_length)) {
        if (prefix_length > 5 && memcmp(prefix, "name=", 5) == 0) {
            REQUIRE(strlen(bearer->name) == prefix_length - 5 &&
                        memcmp(bearer->name, prefix + 5, prefix_length - 5) == 0,
                    "line %d has another name", number);
            continue;
        }
        n_prefixes++;
        REQUIRE(td_access_has_table(&bearer->access, prefix, prefix_length),
                "line %d is not for its prefix", number);
    }
    REQUIRE(bearer->access.n_prefixes == n_prefixes, "another number of prefixes");
    REQUIRE(td_access_has_table(&bearer->access, "", 0) == (n_prefixes == 0),
            "for a name without a prefix");
    const struct td_bearer *shorter = td_token_list_find(list, token, length - 1);
    REQUIRE(shorter != bearer, "a part of the token of line %d is enough", number);
}

static void expect_list(const struct td_token_list *list, const char *text, size_t size)
{
    int number = 0;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, size -= 3;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        expect_line(list, ++number, at, feed ? feed : end);
        at = feed ? feed + 1 : end;
    }
    REQUIRE(td_token_list_count(list) > 0 && td_token_list_count(list) <= number, "the count");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_token_key key;
    char message[MESSAGE];
    char *text = fuzz_copy(data, size, 0);
    REQUIRE(td_token_key_make(&key), "no random bytes");
    struct td_token_list *list =
        td_token_file_parse(&key, file_name, text, size, message, sizeof message);
    if (list)
        expect_list(list, text, size);
    else
        expect_message(message, text, size);
    td_token_list_unref(list);
    free(text);
    return 0;
}
