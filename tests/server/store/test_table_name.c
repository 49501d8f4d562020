#include "server/store/table_name.h"
#include "tests/support/expect.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#define LETTERS_62 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij"
#define LETTERS_64 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"

static const struct {
    const char *name;
    bool valid;
    const char *version; /* of a valid name */
} names[] = {
    { "a", true, NULL },
    { "m:w", true, NULL },
    { "m@v", true, "v" },
    { "m:w@2026.11-22_a", true, "2026.11-22_a" },
    { "m@.", true, "." },
    { LETTERS_64 "@" LETTERS_64, false, NULL }, /* 129 bytes */
    { "m@" LETTERS_64, true, LETTERS_64 },
    { "m@" LETTERS_64 "m", false, NULL },
    { "m@", false, NULL },
    { "@v", false, NULL },
    { "@", false, NULL },
    { "", false, NULL },
    { ".m@v", false, NULL },
    { "m@v@w", false, NULL },
    { "m@v:w", false, NULL },
    { "m@v/w", false, NULL },
    { "m v@w", false, NULL },
    { "\xc3\xa9:\xe6\xbc\xa2@v", true, "v" },
    { "\xc3\xa9", true, NULL },
    { ".\xc3\xa9", false, NULL },
    { "e\xcc\x81", false, NULL }, /* not in NFC */
    { "\xc3\xa9 b", false, NULL },
    { "\xc3\xa9\xff", false, NULL },
    { "m@\xc3\xa9", false, NULL },
    { "\xc3\xa9@v@w", false, NULL },
    { "\xc3\xa9@", false, NULL },
    { LETTERS_64 LETTERS_62 "\xc3\xa9", true, NULL },   /* 128 bytes */
    { LETTERS_64 LETTERS_62 "x\xc3\xa9", false, NULL }, /* 128 characters */
};

TD_TEST_EACH(a_name_has_at_most_one_version, names)
{
    const char *name = names[_i].name;
    ck_assert_msg(td_name_valid(name) == names[_i].valid, "%s", name);
    if (!names[_i].valid)
        return;
    ck_assert_pstr_eq(td_table_version(name), names[_i].version);
    ck_assert_uint_eq(td_table_base(name), strcspn(name, "@"));
}

static const struct {
    const char *name, *fault; /* a part of it, or NULL */
} faults[] = {
    { "a b", NULL },
    { "m@v@w", NULL },
    { "\xc3\xa9", NULL },
    { "m@\xc3\xa9", NULL },
    { "e\xcc\x81", "(NFC); expected '\xc3\xa9', in a path %C3%A9" },
    { "e\xcc\x81@v", "(NFC); expected '\xc3\xa9@v', in a path %C3%A9@v" },
    { "e\xcc\x81@a b", "(NFC); expected '\xc3\xa9', in a path %C3%A9" },
    { "a b\xc3\xa9", "U+0020 is not allowed" },
    { LETTERS_64 LETTERS_64 "e\xcc\x81", NULL },
};

TD_TEST_EACH(characters_beyond_ascii_are_a_fault_of_their_own, faults)
{
    struct td_unicode_reason reason;
    const char *name = faults[_i].name, *fault = faults[_i].fault;
    const char *given = td_name_fault(name, strlen(name), &reason);
    ck_assert_msg(fault ? given && strstr(given, fault) : !given, "%s: %s", name, given);
}

static const struct {
    const char *table, *part, *name;
} parts[] = {
    { "t", "scale", "t.scale" },
    { "t@v", "offset", "t.offset@v" },
    { "m:w@v", "zero_point", "m:w.zero_point@v" },
};

TD_TEST_EACH(the_name_of_a_part_has_its_table_and_version, parts)
{
    char name[TD_TENSOR_NAME], table[TD_TENSOR_NAME];
    ck_assert(td_table_part_name(parts[_i].table, parts[_i].part, name));
    ck_assert_str_eq(name, parts[_i].name);
    ck_assert(td_table_of_part(name, parts[_i].part, table));
    ck_assert_str_eq(table, parts[_i].table);
}

static const struct {
    const char *program, *name;
} programs[] = {
    { "score", "score.program" },
    { "score@v", "score.program@v" },
    { "m:w@v", "m:w.program@v" },
    { "score.program", "score.program.program" },
};

TD_TEST_EACH(the_name_of_a_program_has_its_version, programs)
{
    char name[TD_TENSOR_NAME], program[TD_TENSOR_NAME];
    size_t length;
    ck_assert(td_program_name(programs[_i].program, name));
    ck_assert_str_eq(name, programs[_i].name);
    ck_assert(td_is_program_name(name, strlen(name)));
    ck_assert(td_table_of_program(name, strlen(name), program, &length));
    ck_assert_str_eq(program, programs[_i].program);
    ck_assert_uint_eq(length, strlen(program));
}

static const char *const no_programs[] = { "score",      ".program",      "program",
                                           ".program@v", "score@program", "score.programs" };

TD_TEST_EACH(other_names_are_not_names_of_programs, no_programs)
{
    ck_assert(!td_is_program_name(no_programs[_i], strlen(no_programs[_i])));
}

TD_TEST(the_name_of_a_program_is_at_most_as_long_as_any)
{
    char program[TD_TENSOR_NAME] = "", name[TD_TENSOR_NAME];
    memset(program, 'a', 120);
    ck_assert(td_program_name(program, name));
    ck_assert_uint_eq(strlen(name), 128);
    program[120] = 'a';
    ck_assert(!td_program_name(program, name));
}

static const struct {
    const char *name, *text, *kind;
} shown[] = {
    { "movies", "'movies'", "tensor" },
    { "score.program", "the program 'score'", "program" },
    { "score.program@2", "the program 'score@2'", "program" },
    { ".program", "'.program'", "tensor" },
    { "", "''", "tensor" },
};

TD_TEST_EACH(errors_show_what_a_name_names, shown)
{
    ck_assert_str_eq(TD_NAMED(shown[_i].name), shown[_i].text);
    ck_assert_str_eq(td_named_kind(shown[_i].name), shown[_i].kind);
}
