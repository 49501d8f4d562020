#include "tests/conformance/tree.h"

#include "tests/support/tensors.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at, *end;
    struct td_arena *arena;
    int depth;
};

enum { MOST_NESTED = 64 };

static struct tree *read_value(struct reader *reader);

bool text_is(struct text text, const char *expected)
{
    return text.length == strlen(expected) && memcmp(text.at, expected, text.length) == 0;
}

bool same_text(struct text a, struct text b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

static void *take(struct reader *reader, size_t bytes)
{
    struct td_error err;
    void *place = td_arena_alloc(reader->arena, bytes, 1, &err);
    EXPECT(place, "%s", err.message);
    return place;
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at))
        reader->at++;
}

static char peek(struct reader *reader)
{
    skip_space(reader);
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool take_char(struct reader *reader, char c)
{
    if (peek(reader) != c || c == '\0')
        return false;
    reader->at++;
    return true;
}

static bool read_hex(struct reader *reader, unsigned *code)
{
    char digits[5] = "", *end;
    if (reader->end - reader->at < 4)
        return false;
    memcpy(digits, reader->at, 4);
    *code = (unsigned)strtoul(digits, &end, 16);
    reader->at += 4;
    return end == digits + 4;
}

static char *write_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* After \u. */
static bool read_code(struct reader *reader, unsigned *code)
{
    unsigned low;
    if (!read_hex(reader, code))
        return false;
    if (*code < 0xd800 || *code > 0xdfff)
        return true;
    if (*code > 0xdbff || reader->end - reader->at < 6 || memcmp(reader->at, "\\u", 2) != 0)
        return false;
    reader->at += 2;
    if (!read_hex(reader, &low) || low < 0xdc00 || low > 0xdfff)
        return false;
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool read_escape(struct reader *reader, char **to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char c = *reader->at++;
    const char *letter = c ? strchr(letters, c) : NULL;
    unsigned code;
    if (letter) {
        *(*to)++ = meanings[letter - letters];
        return true;
    }
    if (c != 'u' || !read_code(reader, &code))
        return false;
    *to = write_utf8(*to, code);
    return true;
}

static bool read_string(struct reader *reader, struct text *string)
{
    if (!take_char(reader, '"'))
        return false;
    char *to = take(reader, (size_t)(reader->end - reader->at) + 1);
    string->at = to;
    while (reader->at < reader->end && *reader->at != '"') {
        const char c = *reader->at;
        if ((unsigned char)c < 0x20)
            return false;
        if (c != '\\') {
            *to++ = c;
            reader->at++;
        } else if (++reader->at == reader->end || !read_escape(reader, &to)) {
            return false;
        }
    }
    string->length = (size_t)(to - string->at);
    return reader->at++ < reader->end;
}

static size_t digits(const char **at, const char *end)
{
    const char *begin = *at;
    while (*at < end && **at >= '0' && **at <= '9')
        ++*at;
    return (size_t)(*at - begin);
}

static bool read_word(struct reader *reader, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static bool read_number(struct reader *reader)
{
    if (read_word(reader, "NaN") || read_word(reader, "Infinity") || read_word(reader, "-Infinity"))
        return true;
    const char *at = reader->at, *end = reader->end;
    at += *at == '-';
    const bool zero = at < end && *at == '0';
    const size_t whole = digits(&at, end);
    if (whole == 0 || (zero && whole > 1))
        return false;
    if (at < end && *at == '.' && (at++, digits(&at, end) == 0))
        return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '-' || *at == '+');
        if (digits(&at, end) == 0)
            return false;
    }
    reader->at = at;
    return true;
}

static bool is_new(const struct tree *object, struct text name)
{
    for (const struct tree *member = object->first; member; member = member->next)
        if (same_text(member->name, name))
            return false;
    return true;
}

/* Elements or members, after the bracket. */
static bool read_list(struct reader *reader, struct tree *tree, char close)
{
    struct tree **link = &tree->first;
    if (take_char(reader, close))
        return true;
    do {
        struct text name = { NULL, 0 };
        if (close == '}' &&
            (!read_string(reader, &name) || !take_char(reader, ':') || !is_new(tree, name)))
            return false;
        *link = read_value(reader);
        if (!*link)
            return false;
        (*link)->name = name;
        link = &(*link)->next;
        tree->count++;
    } while (take_char(reader, ','));
    return take_char(reader, close);
}

static bool read_kind(struct reader *reader, struct tree *tree)
{
    switch (tree->kind) {
    case '{':
    case '[':
        reader->at++;
        return reader->depth < MOST_NESTED &&
               read_list(reader, tree, tree->kind == '{' ? '}' : ']');
    case '"':
        return read_string(reader, &tree->string);
    case 't':
        return read_word(reader, "true");
    case 'f':
        return read_word(reader, "false");
    case 'n':
        return read_word(reader, "null");
    default:
        tree->kind = '0';
        return read_number(reader);
    }
}

static struct tree *read_value(struct reader *reader)
{
    struct tree *tree = take(reader, sizeof *tree);
    *tree = (struct tree){ .kind = peek(reader) };
    tree->source.at = reader->at;
    reader->depth++;
    if (reader->at == reader->end || !read_kind(reader, tree))
        return NULL;
    reader->depth--;
    tree->source.length = (size_t)(reader->at - tree->source.at);
    return tree;
}

struct tree *tree_read(struct text text, struct td_arena *arena)
{
    struct reader reader = { .at = text.at, .end = text.at + text.length, .arena = arena };
    struct tree *tree = read_value(&reader);
    skip_space(&reader);
    return reader.at == reader.end ? tree : NULL;
}

const struct tree *tree_member(const struct tree *object, const char *name)
{
    if (!object || object->kind != '{')
        return NULL;
    const struct tree *member = object->first;
    while (member && !text_is(member->name, name))
        member = member->next;
    return member;
}

static const struct tree *partner(const struct tree *object, struct text name)
{
    const struct tree *member = object->first;
    while (member && !same_text(member->name, name))
        member = member->next;
    return member;
}

bool tree_equal(const struct tree *a, const struct tree *b)
{
    if (!a || !b || a->kind != b->kind || a->count != b->count)
        return false;
    if (a->kind == '"')
        return same_text(a->string, b->string);
    if (a->kind != '{' && a->kind != '[')
        return same_text(a->source, b->source);
    const struct tree *y = b->first;
    for (const struct tree *x = a->first; x; x = x->next) {
        if (!tree_equal(x, a->kind == '{' ? partner(b, x->name) : y))
            return false;
        y = y->next;
    }
    return true;
}
