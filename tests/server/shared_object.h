/* shared_object.h - objects of shared memory under names that no other process has.
 *
 * Errors     Any failure fails the test. */
#ifndef TD_TESTS_SERVER_SHARED_OBJECT_H
#define TD_TESTS_SERVER_SHARED_OBJECT_H

#include <stddef.h>

enum { SHARED_OBJECT_KEY = 32 };

/* Creates an object of zeros and sets its key, as shm_open takes it. Returns its descriptor. */
int shared_object_open(char key[SHARED_OBJECT_KEY], size_t bytes);

/* Removes the name. */
void shared_object_remove(const char *key);

#endif
