#include "api/text/sorted_names.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static const char *const names[] = { "B", "a", "a.b", "ab", "b", "\xc3\xa4" };

static const char *name_at(const void *list, int i)
{
    return ((const char *const *)list)[i];
}

TD_TEST_LOOP(every_name_is_found_in_lists_of_every_length, 1, COUNT_OF(names) + 1)
{
    bool found;
    for (int i = 0; i < _i; i++) {
        ck_assert_int_eq(td_sorted_find(names, _i, name_at, names[i], strlen(names[i]), &found), i);
        ck_assert_msg(found, "'%s' among %d", names[i], _i);
        ck_assert_int_eq(
            td_sorted_find_at_end(names, _i, name_at, names[i], strlen(names[i]), &found), i);
        ck_assert_msg(found, "'%s' among %d, from the end", names[i], _i);
    }
}

static const struct {
    const char *case_name, *name;
    size_t length;
    int place;
} others[] = {
    { "before all names", "A", 1, 0 },
    { "an empty name", "", 0, 0 },
    { "between two names", "aa", 2, 3 },
    { "a prefix of a known name", "a.", 2, 2 },
    { "a known name with a suffix", "abc", 3, 4 },
    { "a known name and a NUL", "a\0", 2, 2 },
    { "a NUL and a known name", "\0a", 2, 0 },
    { "after ASCII names, before other names", "z", 1, 5 },
    { "after all names", "\xff", 1, 6 },
};

TD_TEST_EACH(an_unknown_name_is_placed_before_the_next_larger_one, others)
{
    bool found = true;
    ck_assert_msg(td_sorted_find(names, COUNT_OF(names), name_at, others[_i].name,
                                 others[_i].length, &found) == others[_i].place,
                  "%s", others[_i].case_name);
    ck_assert_msg(!found, "%s", others[_i].case_name);
    found = true;
    ck_assert_msg(td_sorted_find_at_end(names, COUNT_OF(names), name_at, others[_i].name,
                                        others[_i].length, &found) == others[_i].place,
                  "%s, from the end", others[_i].case_name);
    ck_assert_msg(!found, "%s, from the end", others[_i].case_name);
}

TD_TEST(in_an_empty_list_every_name_is_placed_first)
{
    bool found = true;
    ck_assert_int_eq(td_sorted_find(NULL, 0, name_at, "a", 1, &found), 0);
    ck_assert(!found);
    found = true;
    ck_assert_int_eq(td_sorted_find_at_end(NULL, 0, name_at, "a", 1, &found), 0);
    ck_assert(!found);
}
