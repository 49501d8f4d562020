/* expect.h - assertions. Unlike those of Check they write to no file when they pass, so that they
 * suit inner loops: every assertion of Check is a system call. */
#ifndef TD_TESTS_SUPPORT_EXPECT_H
#define TD_TESTS_SUPPORT_EXPECT_H

#include <check.h>
#include <string.h>

#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

/* A call that writes its error to *err succeeds. */
#define EXPECT_OK(call, err) EXPECT((call) == TD_OK, "%s", (err)->message)

/* The message of the error has this part. */
#define EXPECT_MESSAGE(err, part)                                                                  \
    EXPECT(strstr((err)->message, (part)), "\"%s\" is not in \"%s\"", (part), (err)->message)

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

#endif
