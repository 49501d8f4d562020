/* folder.h - a data folder that lives as long as a test, files to put into it, and a store over it.
 *
 * Errors     What cannot be done fails the test. */
#ifndef TD_TESTS_SERVER_FOLDER_H
#define TD_TESTS_SERVER_FOLDER_H

#include "server/store/store.h"

#include <check.h>

enum { QUOTA = 1 << 20 };

extern char folder[64];
extern struct td_log store_log; /* into a pipe: see logged */

void folder_open(void);           /* the fixtures: on the disk, */
void folder_open_in_memory(void); /* or, where the system has such a folder, in memory */
void folder_close(void);

const char *path_of(const char *name); /* until the next call */
void put_file(const char *name, const void *data, size_t size);
void put_text(const char *name, const char *text);

/* A .npy file, version 1.0, of n int32: first, first + 1, ... */
void put_npy(const char *name, int32_t first, int n);

/* A .safetensors file: the header as written, then n int32: first, first + 1, ... */
void put_safetensors(const char *name, const char *header, int32_t first, int n);

#define TWO_TENSORS                                                                                \
    "{\"w\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"                          \
    "\"b.x\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]}}  "

struct td_store *open_at(const char *path); /* NULL where it cannot be opened */
struct td_store *open_folder(void);

/* All that was logged since the last look. */
const char *logged(void);

/* Fails unless exactly these names are in the store, in this order: "a b c". */
void expect_names(struct td_store *store, const char *wanted);

/* Lives until the test ends. */
const struct td_tensor_listing *found(struct td_store *store, const char *name);

/* Looks for a name that is not there. */
struct td_error missing_error(struct td_store *store, const char *name, size_t length);

int32_t value_of(const struct td_tensor *tensor, int i);

#endif
