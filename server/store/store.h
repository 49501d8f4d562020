/* store.h - resident tensors: named, versioned, replaced atomically, and persisted on request.
 *
 *     data folder ──map──► ┐
 *     PUT, store=  ──────► ├─ name ─► current version ──► requests, each holding a reference
 *     scatter      ──────► ┘              │
 *                                         └─ persist ─► NAME.tensord in the data folder
 *
 * A published version never changes. Replacing or deleting a name does not affect the versions that
 * requests hold. The last reference frees a version.
 *
 * Files      `table.npy` becomes `table`. Tensor `w` of `model.safetensors` becomes `model:w`, and
 *            of `model@v.safetensors`, `model:w@v`. Both kinds of file are mapped, not read. Data
 *            in another byte order or in Fortran order is converted in memory. `NAME.tensord`
 *            becomes NAME and takes precedence over the others. It is a safetensors file with dtype
 *            and shape in its metadata, and can hold strings and complex128. A malformed file, or a
 *            tensor with an invalid name, is logged and skipped; the rest is served. The store
 *            reads only headers, bool data (bytes other than 0 and 1 are invalid), and the offsets
 *            of strings (which must stay within the file).
 * Persisting Temporary file, fsync, rename, fsync of the folder. After a crash at any point the
 *            folder has either the complete old version or the complete new one, and the next start
 *            removes the temporary file. A PUT, update or DELETE that fails changes neither memory
 *            nor folder. There is one exception, which its error describes: if the folder can be
 *            neither fsynced nor restored, both have changed. A tensor persisted by PUT is mapped
 *            from its file afterwards, as after a restart, and only the offsets of strings, which
 *            are in memory, count against the quota. A tensor persisted by an update stays in
 *            memory for the next update.
 * Lock       Only the process that holds the lock of a data folder changes it. Other processes
 *            serve its files, and a PUT, update or DELETE that would change the folder is
 *            DATA_DIR_LOCKED until they get the lock (td_store_retry_lock, td_store_rescan).
 *            Without permission to lock the folder, such a change is FORBIDDEN.
 * Truncation A truncated mapped file reads as zeros. The store discards a version made from such
 *            data before publishing it. td_store_check reports the truncation to a caller that
 *            sends the data.
 * Damage     NAME.tensord has checksums. TD_VERIFY_START compares a file with them before serving
 *            its tensor, and TD_VERIFY_BACKGROUND while serving it (td_store_verify). A damaged
 *            file is handled like a truncated one: the tensor, and the results of updates and calls
 *            in flight that used it, are refused until the tensor is replaced or deleted or the
 *            file changes. If the header of NAME.tensord is damaged or malformed, NAME is not
 *            listed, and is refused unless another file or a PUT provides it.
 * Versions   Version numbers increase with every change of the store. ETags are strong. The ETag of
 *            a mapped or persisted tensor is derived from the checksums in its file, or from the
 *            size and modification time of a file without checksums. So a restart keeps it, and
 *            replicas that serve copies of the file have the same one. Other ETags are derived from
 *            the version and a random number drawn at the start.
 * Limits     Bytes that are not mapped count against the quota (RESOURCE_LIMIT, resident_bytes).
 *            There are at most TD_STORE_TENSORS names (RESOURCE_LIMIT, resident_tensors). Files
 *            written into the folder count against the disk quota (RESOURCE_LIMIT, disk_bytes).
 * Ownership  The caller's arena holds what td_store_get returns.
 * Threads    Any. Readers never wait for a copy or a disk. Writers of one name take turns
 *            (writer_queue.h). A change that persists or deletes may block on the disk, so do not
 *            make it on an I/O thread or a worker. */
#ifndef TD_SERVER_STORE_STORE_H
#define TD_SERVER_STORE_STORE_H

#include "api/describe.h"
#include "api/message/message.h"
#include "kernels/statistics/statistics.h"
#include "server/config/config.h"
#include "server/observe/log.h"
#include "server/store/changes/writer_queue.h"
#include "server/store/precondition.h"

#include <stdatomic.h>

struct td_store;
struct td_access;
struct td_exec;

enum { TD_STORE_TENSORS = 65536 };

/* Receives what the store finds in each file of the folder, in loading order: first each skipped
 * tensor, then the number of tensors in the file, including skipped ones. If the whole file is
 * skipped, `tensor` is NULL and nothing follows. `file` is NULL if the report is not about a single
 * file. */
struct td_store_inspector {
    void (*skipped)(void *context, const char *file, const char *tensor, const char *why);
    void (*read)(void *context, const char *file, int tensors);
    void (*keys)(void *context, const char *file, const char *table); /* which are read with it */
    void (*ignored)(void *context, const char *file);                 /* not a file of tensors */
    void *context;
};

struct td_store_options {
    const char *dir;          /* "" for none */
    uint64_t quota;           /* bytes that are not mapped */
    uint64_t disk_quota;      /* bytes of the files that are written; 0 for any number */
    int64_t keep_versions;    /* of each table, beside those that aliases name; 0: all */
    enum td_verify verify;    /* when the checksums of files are compared */
    struct td_memory *memory; /* allocates them */
    const struct td_log *log;
    bool read_only; /* the folder is never locked, so it cannot be changed */
    /* NULL, or whether opening is to end early: then what was not loaded yet is left out. Asked on
     * the opening thread, before each file and each MiB that is compared. */
    bool (*stop_requested)(void);
    /* NULL, or: the folder is loaded but nothing in it is changed, not even its lock, and the
     * inspector is told what would be logged about files. */
    const struct td_store_inspector *inspector;
};

/* Returns NULL, and logs why, if the folder cannot be read. */
struct td_store *td_store_open(const struct td_store_options *options);
void td_store_free(struct td_store *store); /* NULL is fine */

/* Returns the bytes of the files that count against disk_quota, or 0 without a disk quota. */
uint64_t td_store_counted_bytes(struct td_store *store);

/* Returns the current version in *out; its texts and tensor live as long as the arena.
 * TENSOR_NOT_FOUND with the most similar neighbouring name, or DEVICE_UNAVAILABLE if the file was
 * truncated. */
TD_MUST_CHECK td_status td_store_get(struct td_store *store, const char *name, size_t length,
                                     struct td_arena *arena, struct td_tensor_listing *out,
                                     struct td_error *err);

/* False if td_store_get of this tensor or alias would return TENSOR_NOT_FOUND, or
 * DEVICE_UNAVAILABLE only because a refused folder may have the tensor. Costs one lookup, because
 * it does not search for a similar name. */
bool td_store_knows(struct td_store *store, const char *name);

/* Returns a counter of the changes of all names. If it is the same before the first and after the
 * last of several lookups, all lookups saw the same state of the store. */
uint64_t td_store_changes(const struct td_store *store);

/* Looks up `count` names in one state of the store. out[i] and errors are those of td_resolve. */
struct td_store_name {
    const char *text;
    size_t length;
};
TD_MUST_CHECK td_status td_store_resolve_all(struct td_store *store,
                                             const struct td_store_name *names, int count,
                                             struct td_arena *arena, struct td_tensor *out,
                                             struct td_error *err);

/* DEVICE_UNAVAILABLE if the file of the listed version has been truncated since td_store_get. */
TD_MUST_CHECK td_status td_store_check(const struct td_tensor_listing *listing,
                                       struct td_error *err);

/* True if the file of the version `owner`, or the file of its keys, has been truncated, cannot be
 * read, or is damaged. Call it after reading the bytes. */
bool td_store_is_cut(struct td_buffer *owner);

/* True if the version `owner` has been replaced or deleted. For caches of tensors. */
bool td_store_is_replaced(struct td_buffer *owner);

/* True if the tensor is mapped from a file, which may be truncated while it is read. */
bool td_store_is_mapped(const struct td_tensor *tensor);

/* Returns the variable for a resident tensor's index in the metrics plus one, initially 0. A
 * version inherits the value from the version it replaces. NULL if the tensor is not resident. */
atomic_int *td_store_place_of(const struct td_tensor *tensor, const char **name);

/* Returns the statistics that the version of a listed tensor keeps, or NULL. They live as long as
 * the version. */
const struct td_statistics *td_store_statistics(const struct td_tensor *tensor);

/* Keeps a copy of the statistics with the version, in the store's memory. All kept statistics
 * together take at most a sixteenth of the size of their tensors. Does nothing without memory, if
 * the version has statistics already, or if the tensor is small. */
void td_store_keep_statistics(struct td_store *store, const struct td_tensor *tensor,
                              const struct td_statistics *statistics);

/* Sets the name and number of a resident tensor's version. The name lives as long as the version.
 * False if the tensor is not resident. */
bool td_store_identity(const struct td_tensor *tensor, const char **name, uint64_t *number);

/* A range of sorted names: at most `limit` names that start with `prefix` and sort after `after`,
 * which need not exist. "", "" and 0: all names. */
struct td_name_range {
    const char *prefix, *after;
    int limit;
};

/* List the current versions of all names, or of a range of names, sorted by name. */
TD_MUST_CHECK td_status td_store_list(struct td_store *store, struct td_arena *arena,
                                      struct td_tensor_listing **list, int *count,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_store_list_range(struct td_store *store,
                                            const struct td_name_range *range,
                                            struct td_arena *arena, struct td_tensor_listing **list,
                                            int *count, struct td_error *err);

/* Sets and returns TENSOR_NOT_FOUND, with the most similar neighbouring name. Only names that
 * `access` allows are considered; NULL: all names. */
td_status td_store_not_found(struct td_store *store, const char *name, size_t length,
                             const struct td_access *access, struct td_error *err);

/* INVALID_ARGUMENT unless the name is valid (table_name.h). */
TD_MUST_CHECK td_status td_store_check_name(const char *name, struct td_error *err);

/* A requested change. */
struct td_store_write {
    const char *name;
    struct td_condition condition;  /* PRECONDITION_FAILED, with the current ETag in err->etag */
    bool persist;                   /* INVALID_ARGUMENT without a data folder */
    bool removes;                   /* a DELETE, also of an alias or a version */
    const struct td_access *access; /* the names that the token allows; NULL: all */
    /* The result of an op, which is stored in memory only. CONFLICT if a file has a tensor of the
     * name, even if a client has replaced that tensor in memory. */
    bool is_result;
    int64_t ttl_s; /* seconds until td_store_expire removes the tensor; 0: never */
    /* A writer that has entered with the name, as td_store_plan_write describes it. NULL: the
     * change blocks its thread until other writers of the name have left. */
    struct td_writer *writer;
};

/* Describes the writer that the change needs, except for its deadline and ready(). True if the
 * change may wait for a disk. */
bool td_store_plan_write(struct td_store *store, const struct td_store_write *write,
                         struct td_writer *writer);

/* Checks the name, the condition, and that there is a folder to persist in. For changes that need
 * no memory, before their body arrives. The change checks again. */
TD_MUST_CHECK td_status td_store_check_change(struct td_store *store,
                                              const struct td_store_write *write,
                                              struct td_error *err);

/* Also checks that a tensor of `bytes` bytes fits now. Called before the tensor is computed; put
 * checks again. */
TD_MUST_CHECK td_status td_store_admit(struct td_store *store, const struct td_store_write *write,
                                       uint64_t bytes, struct td_error *err);

/* The same for each of several tensors that will be put into memory in this order. The tensor must
 * fit beside those already admitted with the same `totals`, which start at zero. */
struct td_store_totals {
    uint64_t bytes, replaced; /* size of the new tensors, and of the versions that they replace */
    int new_names;
};
TD_MUST_CHECK td_status td_store_admit_next(struct td_store *store,
                                            const struct td_store_write *write, uint64_t bytes,
                                            struct td_store_totals *totals, struct td_error *err);

/* Makes `tensor` the current version. If its owner is not much larger than the tensor, the version
 * keeps the owner; otherwise the data is copied. Nobody may write to data that has an owner: pass a
 * tensor without one if the caller or a client may still write to it. */
TD_MUST_CHECK td_status td_store_put(struct td_store *store, const struct td_store_write *write,
                                     const struct td_tensor *tensor, struct td_arena *arena,
                                     struct td_tensor_listing *out, bool *created,
                                     struct td_error *err);

/* Like td_store_put, with keys for the rows: a vector as long as the table, or NULL. Builds the
 * index with `exec`. CONFLICT if the lengths differ, INVALID_ARGUMENT with the positions of two
 * equal keys, DEVICE_UNAVAILABLE if the keys are from another table whose file was truncated. */
TD_MUST_CHECK td_status td_store_put_table(struct td_store *store,
                                           const struct td_store_write *write,
                                           const struct td_tensor *rows,
                                           const struct td_tensor *keys, struct td_exec *exec,
                                           struct td_arena *arena, struct td_tensor_listing *out,
                                           bool *created, struct td_error *err);

/* Publish a version with the same rows and these keys. Without persist the rows stay where they
 * are, and a restart restores the keys in the file. *created is true if there were no keys before.
 * */
TD_MUST_CHECK td_status td_store_admit_keys(struct td_store *store,
                                            const struct td_store_write *write,
                                            const struct td_tensor *keys, struct td_error *err);
TD_MUST_CHECK td_status td_store_put_keys(struct td_store *store,
                                          const struct td_store_write *write,
                                          const struct td_tensor *keys, struct td_exec *exec,
                                          struct td_arena *arena, struct td_tensor_listing *out,
                                          bool *created, struct td_error *err);

/* Publishes a version with the same rows and without keys. TENSOR_NOT_FOUND without keys. */
TD_MUST_CHECK td_status td_store_delete_keys(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_arena *arena, struct td_tensor_listing *out,
                                             struct td_error *err);

/* Returns TENSOR_NOT_FOUND: the table has no keys. */
td_status td_store_no_keys(const char *table, struct td_error *err);

/* Deletes the tensor and removes all files that hold it, so that neither a restart nor a rescan
 * brings it back. FORBIDDEN if a file also holds other tensors. *persisted is true if the data
 * folder has changed. */
TD_MUST_CHECK td_status td_store_delete(struct td_store *store, const struct td_store_write *write,
                                        bool *persisted, struct td_error *err);

/* A private copy of the current version, for changing a few bytes of it. If the previous version is
 * kept as the spare copy and no reader holds it, only the slices that have changed since are
 * copied, so the second of two changes costs only what the first has changed. An update never
 * writes to the current version: readers would have to wait for the writer, which may be a worker
 * that runs a nested request for the same tensor. Other writers of the name wait until the update
 * ends. Strings are not copied and must not be written to. */
struct td_store_update {
    struct td_tensor tensor; /* change it in place, or replace it by a tensor in the arena */
    uint64_t from;           /* number of the version that was copied */
    bool unchanged;          /* set it before abort to keep the copy for the next update */
    /* The current version, read only. It lives until the update ends. */
    const struct td_tensor *before;
    /* New keys, one per row of `tensor`. NULL: the keys of `before`. */
    const struct td_tensor *keys;
};
TD_MUST_CHECK td_status td_store_update_begin(struct td_store *store,
                                              const struct td_store_write *write,
                                              struct td_arena *arena, struct td_exec *exec,
                                              struct td_store_update **out, struct td_error *err);

/* The two steps of begin. open sets `before`, which may determine the new number of rows. copy sets
 * `tensor`: the first `rows` rows of `before`, or all rows and room for more, whose values are not
 * set. Strings are never copied. exec is not NULL if the table has keys. */
TD_MUST_CHECK td_status td_store_update_open(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_arena *arena, struct td_exec *exec,
                                             struct td_store_update **out, struct td_error *err);
TD_MUST_CHECK td_status td_store_update_copy(struct td_store_update *update, int64_t rows,
                                             struct td_error *err);

/* Publishes the change. If the number of rows is the same, slice_bytes bytes were written at each
 * of the `count` offsets. A tensor that replaces update->tensor (strings) is taken as a whole.
 * Returns also the errors of td_store_put_table about keys. Ends the update even on failure; then
 * the previous version stays current. */
TD_MUST_CHECK td_status td_store_update_commit(struct td_store_update *update,
                                               const uint64_t *offsets, int64_t count,
                                               size_t slice_bytes, struct td_arena *arena,
                                               struct td_tensor_listing *out, struct td_error *err);
void td_store_update_abort(struct td_store_update *update); /* NULL is fine */

/* Scans the data folder for new, changed and removed files. A tensor of a changed file is replaced.
 * A tensor that was PUT stays, unless its file has changed since. If the path of the folder now
 * leads to another folder, the store uses that one from then on. */
void td_store_rescan(struct td_store *store);

/* True if the folder cannot be changed because this process does not hold its lock. retry tries to
 * take the lock, and then scans the folder. */
bool td_store_is_locked_out(struct td_store *store);
void td_store_retry_lock(struct td_store *store);

/* With TD_VERIFY_BACKGROUND: compares the next block with its checksum; false if no block is left.
 * Call it on one thread at a time. It may block on the disk. */
bool td_store_verify(struct td_store *store);
bool td_store_has_unverified(struct td_store *store); /* from any thread */

/* Call it before the server stops: a running scan then skips the files that it has not loaded yet.
 * */
void td_store_stop(struct td_store *store);

/* Removes the tensors whose time to live has passed. Never waits for a writer: the next call
 * removes tensors that are being written. Call it on one thread at a time. */
void td_store_expire(struct td_store *store, int64_t now_ns);

/* Releases the spare copies that have not been used since `since_ns`. */
void td_store_trim(struct td_store *store, int64_t since_ns);

struct td_store_stats {
    int tensors;
    int damaged;     /* tensors that are refused because a checksum does not match */
    uint64_t mapped; /* bytes of mapped files */
    uint64_t held;   /* bytes in memory, with those of spare copies; at most quota */
    uint64_t spare;  /* bytes of spare copies */
    uint64_t quota;
};
struct td_store_stats td_store_stats(struct td_store *store);

/* What the last scan could read. */
struct td_store_reading {
    bool folder;
    bool aliases; /* true also if there is no aliases.json */
    int problems; /* of td_store_list_problems, listed or not */
};
struct td_store_reading td_store_reading(struct td_store *store);

/* DEVICE_UNAVAILABLE if aliases.json could not be read at the start, nor since, so that its aliases
 * are missing. */
TD_MUST_CHECK td_status td_store_check_aliases(const struct td_store *store, struct td_error *err);

/* The store as the api's resolver of refs. Borrowed. */
struct td_resolver *td_store_resolver(struct td_store *store);

#endif
