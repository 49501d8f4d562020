#include "tests/server/shared_object.h"

#include <sys/mman.h>

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int shared_object_open(char key[SHARED_OBJECT_KEY], size_t bytes)
{
    char path[] = "/dev/shm/tensord-test-XXXXXX";
    const int object = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(object, 0);
    ck_assert_int_eq(ftruncate(object, (off_t)bytes), 0);
    snprintf(key, SHARED_OBJECT_KEY, "%s", path + sizeof "/dev/shm" - 1);
    return object;
}

void shared_object_remove(const char *key)
{
    ck_assert_int_eq(shm_unlink(key), 0);
}
