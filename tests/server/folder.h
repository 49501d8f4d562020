/* folder.h - a temporary data folder for a test, functions that write files into it, and a store
 * that serves it.
 *
 * Errors     Any failure fails the test. */
#ifndef TD_TESTS_SERVER_FOLDER_H
#define TD_TESTS_SERVER_FOLDER_H

#include "server/store/store.h"
#include "tests/server/counting.h"

#include <check.h>

enum { QUOTA = 1 << 20 };

extern char folder[64];
extern enum td_verify folder_verify; /* of stores that are opened: TD_VERIFY_START at first */
extern uint64_t folder_quota;        /* of the files of stores that are opened; 0 for none */
extern int64_t folder_keep_versions; /* of stores that are opened; 0 for all */
extern uint64_t folder_compiled_limit;
extern struct td_log store_log;      /* writes into a pipe: see logged */
extern struct counting store_memory; /* the buffers of all stores */

void folder_open(void); /* fixture: in /dev/shm if there is one */
void folder_close(void);

const char *path_of(const char *name); /* valid until the next call */
void move_file(const char *from, const char *to);
void put_file(const char *name, const void *data, size_t size);
void put_text(const char *name, const char *text);

/* A .npy file, version 1.0, of n int32: first, first + 1, ... */
void put_npy(const char *name, int32_t first, int n);

/* The same of n int64, as keys of rows. */
void put_keys_npy(const char *name, const int64_t *keys, int n);

/* A .safetensors file: the header as written, then n int32: first, first + 1, ... */
void put_safetensors(const char *name, const char *header, int32_t first, int n);

#define TWO_TENSORS                                                                                \
    "{\"w\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"                          \
    "\"b.x\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[16,24]}}  "

/* A folder of a version: its files, "m.npy t.npy m.safetensors", with values from `first` and the
 * tensors w and b.x; the manifest of those that are there, `aliases` is the text of that member, ""
 * for none; both of these. */
void put_version_files(const char *version, const char *files, int32_t first);
void put_manifest(const char *version, const char *files, const char *aliases);
void put_version(const char *version, const char *files, int32_t first, const char *aliases);
void remove_version(const char *version);

struct td_store *open_at(const char *path); /* NULL on failure */
struct td_store *open_folder(void);
struct td_store *open_reader(void); /* one that never changes the folder, for any thread */

/* td_store_put with nothing but a name and a tensor. */
td_status put_tensor(struct td_store *store, const char *name, const struct td_tensor *t,
                     bool persist, struct td_error *err);

/* All that was logged since the last call, without what scans found, and with it. */
const char *logged(void);
const char *logged_with_scans(void);

/* Fails unless the store has exactly these names, in this order: "a b c". */
void expect_names(struct td_store *store, const char *wanted);

/* Lives until the test ends. */
const struct td_tensor_listing *found(struct td_store *store, const char *name);

/* "x=m@1 ": what each alias names now, and after a restart. What the list of aliases says about
 * the data folder: "SOURCE: REASON;". Until the next call. */
const char *aliases_of(struct td_store *store);
const char *problems_of(struct td_store *store);

/* Runs with the rights of a user who owns nothing here, to whom permissions apply. */
void drop_rights(void);
void regain_rights(void);

/* Why a user without rights cannot read a file. Until the next call. */
const char *denied(void);

/* The error of looking up a name that does not exist. */
struct td_error missing_error(struct td_store *store, const char *name, size_t length);

int32_t value_of(const struct td_tensor *tensor, int i);

#endif
