#include "server/store/version_name.h"
#include "tests/support/expect.h"
#include "tests/support/suite.h"

static const char *const ascending[] = {
    "",  "0",  "00",  "01", "1",    "2",    "9",     "10",  "99", "100", "9999999999999999999999",
    "a", "a1", "a1b", "a2", "a2.1", "a2.9", "a2.10", "a10", "b"
};

TD_TEST_EACH(versions_are_in_natural_order, ascending)
{
    for (size_t j = 0; j < COUNT_OF(ascending); j++) {
        const int order = td_version_name_order(ascending[_i], ascending[j]),
                  wanted = (_i > (int)j) - (_i < (int)j);
        ck_assert_msg((order > 0) - (order < 0) == wanted, "%s, %s: %d", ascending[_i],
                      ascending[j], order);
    }
}
