#include "api/text/sorted_names.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <string.h>

static const char *const names[] = { "B", "a", "a.b", "ab", "b", "\xc3\xa4" };

static const char *name_at(const void *list, int i)
{
    return ((const char *const *)list)[i];
}

START_TEST(every_name_is_found_in_lists_of_every_length)
{
    bool found;
    for (int i = 0; i < _i; i++) {
        ck_assert_int_eq(td_sorted_find(names, _i, name_at, names[i], strlen(names[i]), &found), i);
        ck_assert_msg(found, "'%s' among %d", names[i], _i);
    }
}
END_TEST

static const struct {
    const char *says, *name;
    size_t length;
    int place;
} others[] = {
    { "before all", "A", 1, 0 },
    { "no byte at all", "", 0, 0 },
    { "between two", "aa", 2, 3 },
    { "the beginning of a known one", "a.", 2, 2 },
    { "a known one, and more", "abc", 3, 4 },
    { "a known one, and a NUL", "a\0", 2, 2 },
    { "a known one behind a NUL", "\0a", 2, 0 },
    { "behind letters, but before what is no ASCII", "z", 1, 5 },
    { "behind all", "\xff", 1, 6 },
};

START_TEST(another_name_has_its_place_before_the_next_larger_one)
{
    bool found = true;
    ck_assert_msg(td_sorted_find(names, COUNT_OF(names), name_at, others[_i].name,
                                 others[_i].length, &found) == others[_i].place,
                  "%s", others[_i].says);
    ck_assert_msg(!found, "%s", others[_i].says);
}
END_TEST

START_TEST(an_empty_list_has_the_first_place)
{
    bool found = true;
    ck_assert_int_eq(td_sorted_find(NULL, 0, name_at, "a", 1, &found), 0);
    ck_assert(!found);
}
END_TEST

static void add(TCase *tcase)
{
    tcase_add_loop_test(tcase, every_name_is_found_in_lists_of_every_length, 1,
                        COUNT_OF(names) + 1);
    tcase_add_loop_test(tcase, another_name_has_its_place_before_the_next_larger_one, 0,
                        COUNT_OF(others));
    tcase_add_test(tcase, an_empty_list_has_the_first_place);
}

int main(void)
{
    return run_suite("sorted_names", add);
}
