#include "server/auth/token_file.h"

#include "api/text/unicode_name.h"
#include "server/auth/secret_file.h"

#include <stdio.h>
#include <string.h>

enum { LINE_NAME = 12 }; /* size of "#", a number and the NUL */

struct parser {
    const char *name;
    struct td_token_list *list;
    int line;
    char *message;
    size_t size;
};

struct word {
    const char *text;
    size_t length;
};

/* ---- characters ------------------------------------------------------------------------------ */

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* True if the character is one of `characters`. Excludes NUL explicitly, because strchr would find
 * it. */
static bool is_one_of(char c, const char *characters)
{
    return c != '\0' && strchr(characters, c) != NULL;
}

bool td_token_is_valid(const char *text, size_t length)
{
    size_t end = length;
    if (length < TD_TOKEN_LEAST || length > TD_TOKEN_MOST)
        return false;
    while (end > 0 && text[end - 1] == '=')
        end--;
    for (size_t i = 0; i < end; i++)
        if (!is_alphanumeric(text[i]) && !is_one_of(text[i], "-._~+/"))
            return false;
    return end > 0;
}

static bool is_prefix(struct word word)
{
    if (word.length > TD_TOKEN_PREFIX)
        return false;
    for (size_t i = 0; i < word.length; i++)
        if ((unsigned char)word.text[i] >= 0x80)
            return td_unicode_name_valid(word.text, word.length, 0, NULL);
        else if (!is_alphanumeric(word.text[i]) && !is_one_of(word.text[i], "._:-"))
            return false;
    return true;
}

/* True if the word is a valid name. A name cannot contain '#', because name_after_line uses it for
 * tokens without a name. */
static bool is_name(struct word word)
{
    for (size_t i = 0; i < word.length; i++)
        if (!is_alphanumeric(word.text[i]) && !is_one_of(word.text[i], "._:@-"))
            return false;
    return word.length > 0 && word.length <= TD_TOKEN_NAME;
}

static bool begins(struct word word, const char *text)
{
    return word.length >= strlen(text) && memcmp(word.text, text, strlen(text)) == 0;
}

static bool is_word(struct word word, const char *text)
{
    return word.length == strlen(text) && begins(word, text);
}

/* ---- a line ---------------------------------------------------------------------------------- */

static bool refuse(const struct parser *parser, const char *sentence)
{
    snprintf(parser->message, parser->size, "token-file: %.300s line %d: %s", parser->name,
             parser->line, sentence);
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Removes the next word from the line. Returns false if no words are left. */
static bool next_word(struct word *line, struct word *word)
{
    size_t begin = 0, end;
    while (begin < line->length && is_blank(line->text[begin]))
        begin++;
    for (end = begin; end < line->length && !is_blank(line->text[end]);)
        end++;
    *word = (struct word){ line->text + begin, end - begin };
    *line = (struct word){ line->text + end, line->length - end };
    return word->length > 0;
}

static td_access_role role_of(struct word word)
{
    for (int role = TD_ACCESS_READ; role < TD_ACCESS_ROLES; role++)
        if (is_word(word, td_access_role_name((td_access_role)role)))
            return (td_access_role)role;
    return TD_ACCESS_NONE;
}

static bool refuse_word(const struct parser *parser, int number)
{
    char why[400];
    snprintf(
        why, sizeof why,
        "word %d is neither name=NAME nor a prefix of tensor names; expected at most 128 bytes of "
        "letters, digits and combining marks of any script in Unicode normalisation form C (NFC), "
        "'.', '_', ':' and '-'. Separate prefixes with blanks, not with commas; do not use '*' or "
        "quotes. Write comments on separate lines",
        number);
    return refuse(parser, why);
}

/* Names a token after its line, such as "#7" for a token without a name in line 7. */
static void name_after_line(const struct parser *parser)
{
    char name[LINE_NAME];
    const int length = snprintf(name, sizeof name, "#%d", parser->line);
    td_token_list_set_name(parser->list, name, (size_t)length);
}

/* Parses the words after a token. */
static bool parse_rest(const struct parser *parser, struct word line)
{
    static const char mark[] = "name=";
    enum { MARK = sizeof mark - 1 };
    bool named = false;
    int number = 2;
    for (struct word word; next_word(&line, &word);) {
        number++;
        if (begins(word, "name:"))
            return refuse(parser, "a word after the token starts with 'name:'; expected name=NAME "
                                  "for the name of the token");
        if (begins(word, "."))
            return refuse(parser, "a prefix starts with '.', but tensor names do not");
        if (begins(word, mark)) {
            const struct word name = { word.text + MARK, word.length - MARK };
            if (!is_name(name))
                return refuse(parser,
                              "the name of the token is invalid; expected name= and 1 to 64 "
                              "characters of A-Z, a-z, 0-9, ., _, :, @ and -");
            if (named)
                return refuse(parser, "the token has two names; expected one word name=NAME");
            named = true;
            td_token_list_set_name(parser->list, name.text, name.length);
        } else if (is_prefix(word)) {
            td_token_list_add_prefix(parser->list, word.text, word.length);
        } else {
            return refuse_word(parser, number);
        }
    }
    if (!named)
        name_after_line(parser);
    return true;
}

/* Messages never show a word, because it could be a misplaced token. */
static bool parse_line(struct parser *parser, struct word line)
{
    struct word role, token;
    if (line.length > 0 && line.text[line.length - 1] == '\r')
        line.length--;
    if (line.length > TD_TOKEN_LINE)
        return refuse(parser, "the line is too long; expected at most 4096 bytes");
    if (!next_word(&line, &role) || role.text[0] == '#')
        return true;
    if (role_of(role) == TD_ACCESS_NONE)
        return refuse(parser, "the first word is not a role; expected ROLE TOKEN [name=NAME] "
                              "[PREFIX...], where ROLE is read, write or admin");
    if (!next_word(&line, &token) || !td_token_is_valid(token.text, token.length))
        return refuse(parser,
                      "the second word is not a token; expected 16 to 512 characters of "
                      "A-Z, a-z, 0-9, -, ., _, ~, + and /, with any number of = at the end");
    if (td_token_list_count(parser->list) == TD_TOKENS)
        return refuse(parser, "too many tokens; expected at most 10000 in a file");
    td_token_list_add(parser->list, role_of(role), parser->line, token.text, token.length);
    return parse_rest(parser, line);
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* Returns an empty list large enough for all tokens, prefixes and bytes that the text might
 * contain. */
static struct td_token_list *new_list(const struct td_token_key *key, const char *text,
                                      size_t bytes)
{
    int lines = 1, words = 1;
    for (size_t i = 0; i < bytes; i++) {
        lines += text[i] == '\n';
        words += is_blank(text[i]) && (i + 1 == bytes || !is_blank(text[i + 1]));
    }
    const int tokens = lines < TD_TOKENS ? lines : TD_TOKENS;
    return td_token_list_new(key, tokens, words, bytes + (size_t)tokens * LINE_NAME);
}

static bool parse_lines(struct parser *parser, const char *text, size_t bytes)
{
    static const char mark[] = "\xef\xbb\xbf";
    const char *end = text + bytes;
    if (bytes >= sizeof mark - 1 && memcmp(text, mark, sizeof mark - 1) == 0)
        text += sizeof mark - 1;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const size_t length = (size_t)((stop ? stop : end) - text);
        parser->line++;
        if (!parse_line(parser, (struct word){ text, length }))
            return false;
        text += length + (stop != NULL);
    }
    return true;
}

static bool seal(struct parser *parser)
{
    char sentence[96];
    int first;
    if (!td_token_list_seal(parser->list, &first, &parser->line)) {
        snprintf(sentence, sizeof sentence, "the token is the same as in line %d", first);
        return refuse(parser, sentence);
    }
    if (td_token_list_count(parser->list) > 0)
        return true;
    snprintf(parser->message, parser->size,
             "token-file: %.300s has no token; expected at least one line ROLE TOKEN [name=NAME] "
             "[PREFIX...]",
             parser->name);
    return false;
}

struct td_token_list *td_token_file_parse(const struct td_token_key *key, const char *name,
                                          const char *text, size_t bytes, char *message,
                                          size_t size)
{
    struct parser parser = { .name = name, .message = message, .size = size };
    snprintf(message, size, "token-file: no memory for %.300s", name);
    parser.list = new_list(key, text, bytes);
    if (!parser.list)
        return NULL;
    if (parse_lines(&parser, text, bytes) && seal(&parser))
        return parser.list;
    td_token_list_unref(parser.list);
    return NULL;
}

struct td_token_list *td_token_file_read(const struct td_token_key *key, const char *path,
                                         bool *exposed, char *message, size_t size)
{
    struct td_secret file;
    if (!td_secret_read("token-file", path, TD_TOKEN_FILE, &file, message, size))
        return NULL;
    *exposed = file.exposed;
    struct td_token_list *list =
        td_token_file_parse(key, path, file.bytes, file.length, message, size);
    td_secret_free(&file);
    return list;
}
