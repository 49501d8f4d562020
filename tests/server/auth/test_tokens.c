#include "server/auth/token_file.h"
#include "server/auth/tokens.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/stat.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbb"

static char message[512];
static struct td_token_key key;

static struct td_token_list *parse(const char *text, size_t bytes)
{
    message[0] = '\0';
    /* In memory of its own, so that a sanitizer sees a read after its end. */
    char *copy = malloc(bytes ? bytes : 1);
    memcpy(copy, text, bytes);
    struct td_token_list *list =
        td_token_file_parse(&key, "FILE", copy, bytes, message, sizeof message);
    free(copy);
    return list;
}

static const struct td_bearer *find(const struct td_token_list *list, const char *token)
{
    return td_token_list_find(list, token, strlen(token));
}

/* ---- the file -------------------------------------------------------------------------------- */

#define TEXT(text) text, sizeof(text) - 1

static const struct {
    const char *says, *text;
    size_t bytes;
    int tokens;
} good[] = {
    { "a line is a role and a token", TEXT("read " A "\n"), 1 },
    { "the last line needs no end", TEXT("read " A), 1 },
    { "lines may end with CR LF", TEXT("read " A "\r\nadmin " B "\r\n"), 2 },
    { "a byte order mark is ignored", TEXT("\xef\xbb\xbfread " A "\n"), 1 },
    { "comments and empty lines are ignored", TEXT("# c\n\n \t\n  # read\nwrite " A "\n\r\n"), 1 },
    { "words are separated by blanks and tabs", TEXT("\tread \t " A " \t p q \n"), 1 },
    { "a token has the characters of b64token", TEXT("read aZ09-._~+/aaaaaa==\n"), 1 },
    { "a prefix has the characters of a name", TEXT("read " A " aZ09._:- \n"), 1 },
    { "also beyond ASCII", TEXT("read " A " \xc3\xa9quipe. \xe6\xbc\xa2\n"), 1 },
    { "a token may have a name", TEXT("read " A " name=aZ09._:@-\n"), 1 },
    { "before or after its prefixes", TEXT("read " A " p name=n q\n"), 1 },
    { "two tokens may have the same name", TEXT("read " A " name=n\nread " B " name=n\n"), 2 },
    { "name is a prefix, too", TEXT("read " A " name\n"), 1 },
};

TD_TEST_EACH(a_good_file_is_read, good)
{
    struct td_token_list *list = parse(good[_i].text, good[_i].bytes);
    ck_assert_msg(list != NULL, "%s: %s", good[_i].says, message);
    ck_assert_msg(td_token_list_count(list) == good[_i].tokens, "%s", good[_i].says);
    td_token_list_unref(list);
}

static const struct {
    const char *says, *text;
    size_t bytes;
    const char *message;
} bad[] = {
    { "no token", TEXT(""), "FILE has no token" },
    { "comments alone", TEXT("# read " A "\n"), "FILE has no token" },
    { "a role that is none", TEXT("\nowner " A "\n"), "FILE line 2: the first word" },
    { "no role", TEXT(A "\n"), "line 1: the first word" },
    { "'none' is no role", TEXT("none " A "\n"), "line 1: the first word" },
    { "a role in capitals", TEXT("READ " A "\n"), "line 1: the first word" },
    { "no token after the role", TEXT("read\n"), "line 1: the second word" },
    { "a token of 15 characters", TEXT("read aaaaaaaaaaaaaaa\n"), "line 1: the second word" },
    { "a token with another character", TEXT("read aaaaaaaaaaaaaaaa!\n"), "the second word" },
    { "= before the end", TEXT("read aaaaaaaaaaaaaa=a\n"), "the second word" },
    { "= alone", TEXT("read ================\n"), "the second word" },
    { "a NUL in a token", TEXT("read aaaaaaaa\0aaaaaaaaa\n"), "the second word" },
    { "a NUL in a role", TEXT("read\0 " A "\n"), "the first word" },
    { "a NUL in a prefix", TEXT("read " A " p\0q\n"), "line 1: word 3 is neither" },
    { "bytes that are not ASCII", TEXT("read aaaaaaaaaaaaaaa\xc3\xa4\n"), "the second word" },
    { "a prefix that is not in NFC", TEXT("read " A " e\xcc\x81\n"), "form C (NFC)" },
    { "half a character in a prefix", TEXT("read " A " \xe6\xbc\n"), "line 1: word 3 is neither" },
    { "a zero-width space in a prefix", TEXT("read " A " p\xe2\x80\x8b\n"),
      "line 1: word 3 is neither" },
    { "a comment after a token", TEXT("read " A " # mine\n"),
      "line 1: word 3 is neither name=NAME nor a prefix of tensor names; expected at most 128 "
      "bytes" },
    { "a pattern", TEXT("read " A " shop:*\n"), "do not use '*' or quotes" },
    { "a comma after a prefix", TEXT("read " A " name=x shop,planets\n"),
      "word 4 is neither name=NAME nor a prefix" },
    { "quotes", TEXT("read " A " shop: \"words\"\n"), "Separate prefixes with blanks, not with" },
    { "an empty name", TEXT("read " A " name=\n"), "line 1: the name of the token" },
    { "a name with another character", TEXT("read " A " name=a#b\n"), "the name of the token" },
    { "a name of 65 characters",
      TEXT("read " A " name=aaaabbbbaaaabbbbaaaabbbbaaaabbbbaaaabbbbaaaabbbbaaaabbbbaaaabbbbc\n"),
      "the name of the token" },
    { "a second name", TEXT("read " A " name=a p name=b\n"), "line 1: the token has two names" },
    { "name: for name=", TEXT("read " A " name:web\n"), "expected name=NAME" },
    { "name: and a blank", TEXT("read " A " name: web\n"), "expected name=NAME" },
    { "a prefix of no name", TEXT("read " A " .web\n"), "line 1: a prefix starts with '.'" },
    { "name= in capitals", TEXT("read " A " NAME=a\n"), "line 1: word 3 is neither" },
    { "CR within a line", TEXT("read " A "\rread " B "\n"), "the second word" },
    { "a mark on another line", TEXT("# c\n\xef\xbb\xbfread " A "\n"), "line 2: the first word" },
    { "the same token twice", TEXT("read " A "\nread " B "\nadmin " A "\n"),
      "FILE line 3: the token is the same as in line 1" },
};

TD_TEST_EACH(a_wrong_file_is_refused_with_its_line_and_without_a_token, bad)
{
    ck_assert_msg(parse(bad[_i].text, bad[_i].bytes) == NULL, "%s", bad[_i].says);
    ck_assert_msg(strstr(message, bad[_i].message) != NULL, "%s: %s", bad[_i].says, message);
    ck_assert_msg(!strstr(message, "aaaaa"), "%s: %s", bad[_i].says, message);
}

/* Random words of the grammar with random bytes among them: memory is a sanitizer's to check. */
TD_TEST_LOOP(any_bytes_are_read_or_refused, 0, 4)
{
    static const char *const words[] = { "read ", "write\t", "admin ", A,       B,
                                         "\n",    "\r\n",    "#",      "p.",    "\xef\xbb\xbf",
                                         "=",     "\0",      " ",      "name=n" };
    char text[256];
    srandom((unsigned)_i);
    for (int n = 0; n < 1000; n++) {
        size_t bytes = 0;
        while (bytes < sizeof text - 16 && random() % 12) {
            const char *word = words[random() % COUNT_OF(words)];
            const size_t length = *word ? strlen(word) : 1;
            memcpy(text + bytes, word, length);
            if (random() % 8 == 0)
                text[bytes] = (char)random();
            bytes += length;
        }
        struct td_token_list *list = parse(text, bytes);
        ck_assert(list ? td_token_list_count(list) > 0 : strstr(message, "FILE") != NULL);
        td_token_list_unref(list);
    }
}

TD_TEST(lines_tokens_and_prefixes_have_limits)
{
    static char text[TD_TOKEN_LINE + 64];
    static const char role[] = "read ";
    const size_t at = sizeof role - 1;
    for (int more = 0; more < 2; more++) {
        memset(text, 'a', sizeof text);
        memcpy(text, role, at);
        struct td_token_list *list = parse(text, at + TD_TOKEN_MOST + (size_t)more);
        ck_assert_msg((list != NULL) == !more, "%s", message);
        td_token_list_unref(list);
        text[at + TD_TOKEN_LEAST] = ' ';
        list = parse(text, at + TD_TOKEN_LEAST + 1 + TD_TOKEN_PREFIX + (size_t)more);
        ck_assert_msg((list != NULL) == !more, "%s", message);
        td_token_list_unref(list);
        memset(text + at + TD_TOKEN_LEAST, ' ', sizeof text - at - TD_TOKEN_LEAST);
        list = parse(text, TD_TOKEN_LINE + (size_t)more);
        ck_assert_msg((list != NULL) == !more, "%s", message);
        td_token_list_unref(list);
    }
}

/* "read 0000000000000000\n", ... */
static char *many_lines(int n)
{
    enum { LINE = 22 };
    char *text = malloc((size_t)n * LINE + 1);
    for (int i = 0; i < n; i++)
        snprintf(text + i * LINE, LINE + 1, "read %016d\n", i);
    return text;
}

TD_TEST(each_of_ten_thousand_tokens_is_found)
{
    char *text = many_lines(TD_TOKENS + 1), token[32];
    struct td_token_list *list = parse(text, TD_TOKENS * 22);
    ck_assert_msg(list != NULL, "%s", message);
    for (int i = 0; i < TD_TOKENS; i++) {
        snprintf(token, sizeof token, "%016d", i);
        const struct td_bearer *found = find(list, token);
        ck_assert(found && found->line == i + 1);
    }
    ck_assert_ptr_null(find(list, "0000000000010000"));
    td_token_list_unref(list);
    ck_assert_ptr_null(parse(text, (TD_TOKENS + 1) * 22));
    ck_assert_ptr_nonnull(strstr(message, "line 10001: too many tokens"));
    free(text);
}

TD_TEST(only_the_whole_token_is_found)
{
    struct td_token_list *list = parse(TEXT("write " A "\nadmin " B " p\n"));
    ck_assert_int_eq(find(list, A)->access.role, TD_ACCESS_WRITE);
    ck_assert_int_eq(find(list, B)->access.role, TD_ACCESS_ADMIN);
    static const char *const others[] = {
        "", "a", A "a", "aaaaaaaaaaaaaaa", A B, "AAAAAAAAAAAAAAAA"
    };
    for (size_t i = 0; i < COUNT_OF(others); i++)
        ck_assert_ptr_null(find(list, others[i]));
    ck_assert_ptr_null(td_token_list_find(list, A "\0", 17));
    td_token_list_unref(list);
}

TD_TEST(a_token_has_a_name_or_that_of_its_line)
{
    struct td_token_list *list =
        parse(TEXT("# c\nread " A " name=shop@example.com p\n\nread " B " p\n"));
    const struct td_bearer *a = find(list, A), *b = find(list, B);
    ck_assert_str_eq(a->name, "shop@example.com");
    ck_assert_int_eq(a->access.n_prefixes, 1);
    ck_assert_str_eq(b->name, "#4");
    td_token_list_unref(list);
}

/* ---- access ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool of_a, of_b;
} names[] = {
    { "team.x", true, true }, { "team.", true, true },   { "team", false, true },
    { "x", true, true },      { "xy", true, true },      { "y", false, true },
    { "", false, true },      { "Team.x", false, true },
};

TD_TEST_EACH(a_token_with_prefixes_is_for_names_that_begin_with_one, names)
{
    struct td_token_list *list = parse(TEXT("read " A " team. x\nread " B "\n"));
    const struct td_access *a = &find(list, A)->access, *b = &find(list, B)->access;
    struct td_error err;
    const size_t length = strlen(names[_i].name);
    ck_assert_msg(td_access_has_table(a, names[_i].name, length) == names[_i].of_a, "%s",
                  names[_i].name);
    ck_assert(td_access_has_table(b, names[_i].name, length) == names[_i].of_b);
    ck_assert_int_eq(td_access_need_table(a, names[_i].name, length, &err),
                     names[_i].of_a ? TD_OK : TD_FORBIDDEN);
    td_token_list_unref(list);
}

TD_TEST(a_refusal_says_what_the_token_is_for)
{
    struct td_token_list *list =
        parse(TEXT("read " A " name=my app shop:\n\nread " B " name=all\n"));
    const struct td_access *a = &find(list, A)->access, *b = &find(list, B)->access;
    struct td_error err;
    char text[60];
    ck_assert_int_eq(td_access_need_table(a, "planets", 7, &err), TD_FORBIDDEN);
    ck_assert_str_eq(err.message,
                     "the token is not valid for the tensor 'planets'; it is for tensors "
                     "whose names start with 'app' or 'shop:'");
    ck_assert_str_eq(td_access_tables_text(b, text, sizeof text), "every tensor");
    ck_assert_str_eq(td_access_tables_text(a, text, sizeof text),
                     "tensors whose names start with one of 2 prefixes");
    td_token_list_unref(list);
}

TD_TEST(tokens_are_listed_in_the_order_of_their_lines)
{
    struct td_token_list *list = parse(TEXT("read " B "\n\nread " A "\n"));
    ck_assert_ptr_eq(td_token_list_after(list, 0), find(list, B));
    ck_assert_ptr_eq(td_token_list_after(list, 1), find(list, A));
    ck_assert_ptr_null(td_token_list_after(list, 3));
    td_token_list_unref(list);
}

TD_TEST(a_role_may_do_what_lower_ones_may)
{
    struct td_error err;
    for (int role = TD_ACCESS_NONE; role < TD_ACCESS_ROLES; role++)
        for (int needed = TD_ACCESS_NONE; needed < TD_ACCESS_ROLES; needed++) {
            struct td_access access = { .role = (td_access_role)role };
            ck_assert_int_eq(td_access_need_role(&access, (td_access_role)needed, &err),
                             needed <= role ? TD_OK : TD_FORBIDDEN);
            access.read_only = true;
            ck_assert_int_eq(td_access_need_role(&access, (td_access_role)needed, &err),
                             needed <= role && needed <= TD_ACCESS_READ ? TD_OK : TD_FORBIDDEN);
        }
    const struct td_access none = { 0 };
    ck_assert_int_eq(td_access_need_role(&none, TD_ACCESS_WRITE, &err), TD_FORBIDDEN);
    ck_assert_ptr_nonnull(strstr(err.message, "role write"));
}

/* ---- files and passes ------------------------------------------------------------------------ */

static char folder[] = "/tmp/tensord-tokens-XXXXXX";
static char path[64];

static void set_up(void)
{
    ck_assert(td_token_key_make(&key));
    strcpy(folder + sizeof folder - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokens", folder);
}

static void tear_down(void)
{
    (void)unlink(path);
    (void)rmdir(path);
    (void)rmdir(folder);
}

static void write_file(const char *text, mode_t mode)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    ck_assert(fchmod(file, mode) == 0 && close(file) == 0);
}

static struct td_tokens *open_tokens(void)
{
    message[0] = '\0';
    return td_tokens_open(path, message, sizeof message);
}

TD_TEST(only_a_regular_file_is_read)
{
    ck_assert_ptr_null(open_tokens());
    ck_assert_ptr_nonnull(strstr(message, "No such file"));
    ck_assert(mkdir(path, 0700) == 0);
    ck_assert_ptr_null(open_tokens());
    ck_assert_ptr_nonnull(strstr(message, "not a regular file"));
    ck_assert(rmdir(path) == 0 && mkfifo(path, 0600) == 0);
    ck_assert_ptr_null(open_tokens());
    ck_assert_ptr_nonnull(strstr(message, "not a regular file"));
    ck_assert(unlink(path) == 0);
    write_file("", 0600);
    ck_assert(truncate(path, TD_TOKEN_FILE + 1) == 0);
    ck_assert_ptr_null(open_tokens());
    ck_assert_ptr_nonnull(strstr(message, "too large"));
    /* This file has a size of 0 and a text, like a file that grows while it is read. */
    ck_assert_ptr_null(td_tokens_open("/proc/self/status", message, sizeof message));
    ck_assert_ptr_nonnull(strstr(message, "grew"));
}

TD_TEST(a_file_that_others_can_read_or_change_is_noticed)
{
    static const struct {
        mode_t mode;
        bool exposed;
    } modes[] = {
        { 0600, false }, { 0640, false }, { 0660, false }, { 0644, true }, { 0602, true }
    };
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        write_file("read " A "\n", modes[i].mode);
        struct td_tokens *tokens = open_tokens();
        ck_assert_msg(tokens != NULL, "%s", message);
        ck_assert(td_tokens_are_exposed(tokens) == modes[i].exposed);
        td_tokens_free(tokens);
    }
}

static const struct td_bearer *check(struct td_pass *pass, struct td_tokens *tokens,
                                     const char *text, bool expected_renewed)
{
    bool renewed;
    const struct td_bearer *token = td_pass_check(pass, tokens, text, strlen(text), &renewed);
    ck_assert_int_eq(renewed, expected_renewed);
    return token;
}

TD_TEST(a_connection_remembers_its_last_token)
{
    struct td_pass pass = { 0 };
    write_file("read " A "\nwrite " B "\n", 0600);
    struct td_tokens *tokens = open_tokens();
    const struct td_bearer *a = check(&pass, tokens, A, true);
    ck_assert(a && a->access.role == TD_ACCESS_READ);
    ck_assert_ptr_eq(check(&pass, tokens, A, false), a);
    ck_assert_int_eq(check(&pass, tokens, B, true)->access.role, TD_ACCESS_WRITE);
    ck_assert_ptr_null(check(&pass, tokens, "bbbbbbbbbbbbbbbc", true));
    ck_assert_ptr_null(pass.text);
    ck_assert_ptr_null(check(&pass, tokens, "", true));
    td_pass_end(&pass);
    td_tokens_free(tokens);
}

TD_TEST(a_reload_replaces_the_tokens_unless_the_file_is_wrong)
{
    struct td_pass pass = { 0 };
    write_file("read " A "\n", 0600);
    struct td_tokens *tokens = open_tokens();
    uint8_t digest[SHA256_DIGEST_SIZE];
    memcpy(digest, check(&pass, tokens, A, true)->digest, sizeof digest);
    write_file("wrong\n", 0600);
    ck_assert(!td_tokens_reload(tokens, message, sizeof message));
    ck_assert_ptr_nonnull(strstr(message, "line 1"));
    ck_assert_ptr_nonnull(check(&pass, tokens, A, false));
    ck_assert(unlink(path) == 0);
    ck_assert(!td_tokens_reload(tokens, message, sizeof message));
    ck_assert_ptr_nonnull(check(&pass, tokens, A, false));
    write_file("admin " A "\n", 0600);
    ck_assert(td_tokens_reload(tokens, message, sizeof message));
    const struct td_bearer *token = check(&pass, tokens, A, true);
    ck_assert_int_eq(token->access.role, TD_ACCESS_ADMIN);
    ck_assert(memcmp(token->digest, digest, sizeof digest) == 0); /* the same client */
    write_file("read " B "\n", 0600);
    ck_assert(td_tokens_reload(tokens, message, sizeof message));
    ck_assert_ptr_null(check(&pass, tokens, A, true));
    td_pass_end(&pass);
    td_tokens_free(tokens);
}

TD_FIXTURE(set_up, tear_down);
