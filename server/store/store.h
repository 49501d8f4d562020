/* store.h - resident tensors: named, versioned, replaced atomically, and persisted on request.
 *
 *     data folder ──map──► ┐
 *     PUT, store=  ──────► ├─ name ─► current version ──► requests, each holding a reference
 *     scatter      ──────► ┘              │
 *                                         └─ persist ─► NAME.tensord in the data folder
 *
 * A stored program NAME is the tensor NAME.program: a vector of uint8, the JSON text.
 *
 * A published version never changes. Replacing or deleting a name does not affect the versions that
 * requests hold. The last reference frees a version.
 *
 * Files      `table.npy` becomes `table`. Tensor `w` of `model.safetensors` becomes `model:w`, and
 *            tensor `w` of `model@v.safetensors` becomes `model:w@v`. Both kinds of file are
 *            mapped, not read. Data in another byte order or in Fortran order is converted in
 *            memory. `NAME.tensord` becomes NAME and takes precedence over the other kinds of file.
 *            It is a safetensors file with dtype and shape in its metadata, and can hold strings
 *            and complex128. `NAME.program.json` becomes NAME.program. Its text is copied into
 *            memory. No other file can hold a program. A malformed file, or a tensor with an
 *            invalid name, is logged and skipped; the rest is served. The store reads only headers,
 *            bool data (bytes other than 0 and 1 are invalid), and the offsets of strings (which
 *            must be within the file).
 * Persisting Temporary file, fsync, rename, fsync of the folder. After a crash at any point the
 *            folder has either the complete old version or the complete new version, and the next
 *            start removes the temporary file. A PUT, update or DELETE that fails changes neither
 *            memory nor folder. There is one exception, which its error describes: if the folder
 *            can be neither fsynced nor restored, both have changed. A tensor persisted by PUT is
 *            mapped from its file afterwards, as after a restart. Only the offsets of its strings
 *            count against the quota, because they are in memory. A tensor persisted by an update
 *            remains in memory for the next update, and a program remains in memory.
 * Lock       Only the process that holds the lock of a data folder changes it. Other processes
 *            serve its files, and a PUT, update or DELETE that would change the folder fails with
 *            DATA_DIR_LOCKED until they get the lock (td_store_retry_lock, td_store_rescan).
 *            Without permission to lock the folder, the change fails with FORBIDDEN.
 * Truncation A truncated mapped file reads as zeros. The store discards a version made from these
 *            zeros before publishing it. td_store_check reports the truncation to a caller that
 *            sends the data.
 * Damage     NAME.tensord has checksums. TD_VERIFY_START compares a file with them before serving
 *            its tensor, and TD_VERIFY_BACKGROUND while serving it (td_store_verify). A damaged
 *            file is handled like a truncated file: the tensor, and the results of updates and
 *            calls in flight that used it, are refused until the tensor is replaced or deleted or
 *            the file changes. If the header of NAME.tensord is damaged or malformed, NAME is not
 *            listed, and is refused unless another file or a PUT provides it.
 * Versions   Version numbers increase with every change of the store. ETags are strong. The ETag of
 *            a mapped or persisted tensor is derived from the checksums in its file, or from the
 *            size and modification time of a file without checksums. The ETag therefore survives a
 *            restart, and replicas that serve copies of the file return the same ETag. Other ETags
 *            are derived from the version and a random number chosen at startup.
 * Limits     Bytes that are not mapped count against the quota (RESOURCE_LIMIT, resident_bytes).
 *            There are at most TD_STORE_TENSORS names (RESOURCE_LIMIT, resident_tensors). Files
 *            written into the folder count against the disk quota (RESOURCE_LIMIT, disk_bytes).
 * Ownership  The caller's arena holds what td_store_get returns.
 * Threads    Any. Readers never wait for a copy or a disk. Writers of one name take turns
 *            (writer_queue.h). A change that persists or deletes can block on the disk, so do not
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
 * skipped, `tensor` is NULL and no number follows. `file` is NULL if the report does not concern a
 * single file. */
struct td_store_inspector {
    void (*skipped)(void *context, const char *file, const char *tensor, const char *why);
    void (*read)(void *context, const char *file, int tensors);
    /* Called for each file of keys. `table` is the file whose rows these keys identify. */
    void (*keys)(void *context, const char *file, const char *table);
    /* Called for a file that contains no tensors. */
    void (*ignored)(void *context, const char *file);
    void *context;
};

/* Maximum number of lines that a scan of the data folder logs about each of these: changed files,
 * skipped files and tensors, changed aliases, and tensors that are not models. */
enum { TD_SCAN_LINES = 100 };

struct td_store_options {
    /* Path of the data folder, or "" for none. */
    const char *dir;
    /* Maximum size in bytes of the tensors in memory. Mapped bytes do not count. */
    uint64_t quota;
    /* Maximum total size in bytes of the files that the store writes, or 0 for no limit. */
    uint64_t disk_quota;
    /* Maximum size in bytes of the compiled forms of programs. 0 keeps no form. */
    uint64_t compiled_limit;
    /* Number of versions to keep of each table, newest first, in addition to the versions that
     * aliases name. 0 keeps all versions. */
    int64_t keep_versions;
    /* When to verify the checksums of files. */
    enum td_verify verify;
    /* Allocator for the tensors that are not mapped. */
    struct td_memory *memory;
    const struct td_log *log;
    /* True to never lock the folder, so the store cannot change it. */
    bool read_only;
    /* Function that returns true to end the opening early, or NULL. The opening thread calls the
     * function before each file and before each MiB that it verifies. After an early end,
     * everything not yet loaded is missing from the store. */
    bool (*stop_requested)(void);
    /* Inspector, or NULL. With an inspector, the store loads the folder but changes nothing in it,
     * not even the lock, and reports to the inspector what it would otherwise log about files. */
    const struct td_store_inspector *inspector;
};

/* Opens a store. Returns NULL, and logs the reason, if the folder cannot be read. */
struct td_store *td_store_open(const struct td_store_options *options);
void td_store_free(struct td_store *store); /* NULL is allowed */

/* Returns the total size of the files that count against disk_quota, or 0 without a disk quota. */
uint64_t td_store_counted_bytes(struct td_store *store);

/* Sets *out to the current version. The strings and the tensor in *out live as long as the arena.
 * Returns TENSOR_NOT_FOUND, with the most similar adjacent name, or DEVICE_UNAVAILABLE if the file
 * was truncated. */
TD_MUST_CHECK td_status td_store_get(struct td_store *store, const char *name, size_t length,
                                     struct td_arena *arena, struct td_tensor_listing *out,
                                     struct td_error *err);

/* Returns false if td_store_get would return TENSOR_NOT_FOUND for this tensor or alias, or would
 * return DEVICE_UNAVAILABLE only because a refused folder might contain the tensor. Costs one
 * lookup, because it does not search for a similar name. */
bool td_store_knows(struct td_store *store, const char *name);

/* True if a tensor that has rows, or an alias, has this name, which has no version, or if there is
 * a version NAME@V that has rows. Considers only the names that `access` allows. An alias or a file
 * that cannot be served counts as well, because it might have rows. Costs two lookups. */
bool td_store_has_table(struct td_store *store, const char *name, const struct td_access *access);

/* Returns a counter of the changes of all names. If the counter is the same before the first of
 * several lookups and after the last, all of them saw the same state of the store. */
uint64_t td_store_changes(const struct td_store *store);

/* Looks up `count` names in one state of the store, and sets out[i] to the tensor of names[i].
 * Returns the errors of td_resolve. */
struct td_store_name {
    const char *text;
    size_t length;
};
TD_MUST_CHECK td_status td_store_resolve_all(struct td_store *store,
                                             const struct td_store_name *names, int count,
                                             struct td_arena *arena, struct td_tensor *out,
                                             struct td_error *err);

/* Returns DEVICE_UNAVAILABLE if the file of the listed version was truncated, or found damaged,
 * after td_store_get. */
TD_MUST_CHECK td_status td_store_check(const struct td_tensor_listing *listing,
                                       struct td_error *err);

/* True if the file of the version `owner`, or the file of its keys, has been truncated, cannot be
 * read, or is damaged. Call this function after reading the bytes. */
bool td_store_is_cut(struct td_buffer *owner);

/* True if the version `owner` has been replaced or deleted. Used by caches of tensors. */
bool td_store_is_replaced(struct td_buffer *owner);

/* True if the tensor is mapped from a file. The file can be truncated while it is read. */
bool td_store_is_mapped(const struct td_tensor *tensor);

/* Returns a pointer to the tensor's index in the metrics plus one. The value is 0 until an index is
 * assigned. A version inherits the value of its predecessor. Sets *name to the name of the tensor.
 * If the tensor is not resident, returns NULL and sets *name to NULL. */
atomic_int *td_store_place_of(const struct td_tensor *tensor, const char **name);

/* Returns the statistics stored with the version of a listed tensor, or NULL if none are stored.
 * The statistics live as long as the version. */
const struct td_statistics *td_store_statistics(const struct td_tensor *tensor);

/* Stores a copy of the statistics with the version, in the store's memory. All stored statistics
 * together take at most a sixteenth of the size of their tensors. Does nothing if the tensor is
 * small, if the version already has statistics, or if no memory is available. */
void td_store_keep_statistics(struct td_store *store, const struct td_tensor *tensor,
                              const struct td_statistics *statistics);

/* The compiled forms of programs, each kept with the version of a program's tensor. They do not
 * count against the quota, but together they never exceed compiled_limit. The store drops forms
 * that no caller uses, least recently used first, so a caller must be able to compile the text
 * again (compiled.h).
 *
 * td_store_compiled returns a new reference to the form of a version, or NULL if the store has no
 * form of it. td_store_keep_compiled takes over the reference to `form`, which takes `bytes` bytes
 * of memory, and returns a reference to the form to use. If the version already has a form, returns
 * that form and releases `form`. Otherwise returns `form`, and keeps it if the limit allows it. The
 * tensor must be resident.
 *
 * td_store_drop_compiled drops forms until they total at least `bytes` bytes. Returns false if no
 * form could be dropped. */
struct td_buffer *td_store_compiled(struct td_store *store, const struct td_tensor *tensor);
struct td_buffer *td_store_keep_compiled(struct td_store *store, const struct td_tensor *tensor,
                                         struct td_buffer *form, uint64_t bytes);
bool td_store_drop_compiled(struct td_store *store, uint64_t bytes);

/* Sets *name and *number to the name and the number of a resident tensor's version. The name lives
 * as long as the version. Returns false if the tensor is not resident. */
bool td_store_identity(const struct td_tensor *tensor, const char **name, uint64_t *number);

/* A range of sorted names: at most `limit` names of the kind that start with `prefix` and sort
 * after `after`. `after` need not exist. An empty `prefix` or `after` and a `limit` of 0 do not
 * restrict the range. */
typedef enum td_name_kind { TD_NAMES_ALL, TD_NAMES_TENSORS, TD_NAMES_PROGRAMS } td_name_kind;
struct td_name_range {
    const char *prefix, *after;
    int limit;
    td_name_kind kind;
};

/* List the current versions of all names, or of a range of names, sorted by name. */
TD_MUST_CHECK td_status td_store_list(struct td_store *store, struct td_arena *arena,
                                      struct td_tensor_listing **list, int *count,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_store_list_range(struct td_store *store,
                                            const struct td_name_range *range,
                                            struct td_arena *arena, struct td_tensor_listing **list,
                                            int *count, struct td_error *err);

/* True if the access allows the name of a tensor or of an alias. The name of a program,
 * NAME.program, is allowed if NAME is allowed. NULL allows all names. */
bool td_store_allows(const struct td_access *access, const char *name, size_t length);

/* Sets and returns TENSOR_NOT_FOUND, with the most similar adjacent name of the same kind that
 * `access` allows. NULL allows all names. For NAME.program, the error is about the program NAME. */
td_status td_store_not_found(struct td_store *store, const char *name, size_t length,
                             const struct td_access *access, struct td_error *err);

/* A requested change. */
struct td_store_write {
    const char *name;
    /* Precondition. If it does not hold, the change returns PRECONDITION_FAILED and sets err->etag
     * to the current ETag. */
    struct td_condition condition;
    /* True to write the tensor to the data folder. The change returns INVALID_ARGUMENT if the store
     * has no data folder. */
    bool persist;
    /* True if the change is a DELETE, possibly of an alias or a version. */
    bool removes;
    /* Names that the token allows, or NULL for all names. */
    const struct td_access *access;
    /* True if the tensor is the result of an op, which is stored in memory only. The change returns
     * CONFLICT if a file contains a tensor of the name, even if a client has replaced that tensor
     * in memory. */
    bool is_result;
    /* Seconds until td_store_expire removes the tensor, or 0 to keep it. */
    int64_t ttl_s;
    /* Writer that holds the lock on the name (td_store_plan_write). If it is NULL, the change
     * blocks its thread until the other writers of the name have finished. */
    struct td_writer *writer;
};

/* Sets *writer to the writer that the change needs, except for the deadline and ready(). Returns
 * true if the change might wait for a disk. */
bool td_store_plan_write(struct td_store *store, const struct td_store_write *write,
                         struct td_writer *writer);

/* Checks the name, the condition, and that a data folder exists if the write persists. For changes
 * that need no memory, called before the body arrives. The change itself checks again. */
TD_MUST_CHECK td_status td_store_check_change(struct td_store *store,
                                              const struct td_store_write *write,
                                              struct td_error *err);

/* Like td_store_check_change, and also checks that a tensor of `bytes` bytes fits now. Called
 * before the tensor is computed. td_store_put checks again. */
TD_MUST_CHECK td_status td_store_admit(struct td_store *store, const struct td_store_write *write,
                                       uint64_t bytes, struct td_error *err);

/* Like td_store_admit, but for each of several tensors that will be put into memory in this order.
 * The tensor must fit in addition to the tensors already admitted with the same `totals`. Set
 * `totals` to zero before the first call. */
struct td_store_totals {
    /* Sizes of the new tensors, and of the versions that they replace. */
    uint64_t bytes, replaced;
    int new_names;
};
TD_MUST_CHECK td_status td_store_admit_next(struct td_store *store,
                                            const struct td_store_write *write, uint64_t bytes,
                                            struct td_store_totals *totals, struct td_error *err);

/* Makes `tensor` the current version. If the tensor's owner is not much larger than the tensor, the
 * version keeps the owner. Otherwise, the data is copied. Data that has an owner must never change.
 * If the caller or a client might still write to the data, pass a tensor without an owner. */
TD_MUST_CHECK td_status td_store_put(struct td_store *store, const struct td_store_write *write,
                                     const struct td_tensor *tensor, struct td_arena *arena,
                                     struct td_tensor_listing *out, bool *created,
                                     struct td_error *err);

/* Like td_store_put, but with keys for the rows. `keys` is a vector as long as the table, or NULL.
 * Builds the index with `exec`. Returns CONFLICT if the lengths differ, INVALID_ARGUMENT with the
 * positions of two equal keys, or DEVICE_UNAVAILABLE if the keys come from another table whose file
 * was truncated. */
TD_MUST_CHECK td_status td_store_put_table(struct td_store *store,
                                           const struct td_store_write *write,
                                           const struct td_tensor *rows,
                                           const struct td_tensor *keys, struct td_exec *exec,
                                           struct td_arena *arena, struct td_tensor_listing *out,
                                           bool *created, struct td_error *err);

/* td_store_put_keys publishes a version with the same rows and these keys. td_store_admit_keys
 * checks whether that would succeed. Without `persist`, the rows remain where they are, and a
 * restart restores the keys in the file. *created is true if the table had no keys before. */
TD_MUST_CHECK td_status td_store_admit_keys(struct td_store *store,
                                            const struct td_store_write *write,
                                            const struct td_tensor *keys, struct td_error *err);
TD_MUST_CHECK td_status td_store_put_keys(struct td_store *store,
                                          const struct td_store_write *write,
                                          const struct td_tensor *keys, struct td_exec *exec,
                                          struct td_arena *arena, struct td_tensor_listing *out,
                                          bool *created, struct td_error *err);

/* Publishes a version with the same rows and without keys. Returns TENSOR_NOT_FOUND if the table
 * has no keys. */
TD_MUST_CHECK td_status td_store_delete_keys(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_arena *arena, struct td_tensor_listing *out,
                                             struct td_error *err);

/* Sets and returns the TENSOR_NOT_FOUND error for a table without keys. */
td_status td_store_no_keys(const char *table, struct td_error *err);

/* Deletes the tensor and removes all files that contain it, so neither a restart nor a rescan
 * brings it back. Returns FORBIDDEN if one of the files also contains other tensors. *persisted is
 * true if the data folder has changed. */
TD_MUST_CHECK td_status td_store_delete(struct td_store *store, const struct td_store_write *write,
                                        bool *persisted, struct td_error *err);

/* Private copy of the current version, for changing a few bytes of it. An update reuses the spare
 * copy of the previous version if it exists and no reader holds it. Only the slices that have
 * changed since then are copied, so the cost of the second and later changes depends only on the
 * size of the last change. An update never writes to the current version. Otherwise, readers would
 * have to wait for the writer, which might be a worker that runs a nested request for the same
 * tensor. Other writers of the name wait until the update ends. Strings are not copied and must not
 * be written to. */
struct td_store_update {
    /* Change this tensor in place, or replace it with a tensor in the arena. */
    struct td_tensor tensor;
    /* Number of the version that was copied. */
    uint64_t from;
    /* Set this flag before calling td_store_update_abort to keep the copy for the next update. */
    bool unchanged;
    /* The current version. It is read-only and lives until the update ends. */
    const struct td_tensor *before;
    /* New keys, one per row of `tensor`, or NULL to keep the keys of `before`. */
    const struct td_tensor *keys;
};
TD_MUST_CHECK td_status td_store_update_begin(struct td_store *store,
                                              const struct td_store_write *write,
                                              struct td_arena *arena, struct td_exec *exec,
                                              struct td_store_update **out, struct td_error *err);

/* The two steps of td_store_update_begin. `open` sets `before`, from which the caller can compute
 * the new number of rows. `copy` sets `tensor` to the first `rows` rows of `before`. If `rows` is
 * larger than the table, the values of the added rows are not set. Strings are never copied. `exec`
 * must not be NULL if the table has keys. */
TD_MUST_CHECK td_status td_store_update_open(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_arena *arena, struct td_exec *exec,
                                             struct td_store_update **out, struct td_error *err);
TD_MUST_CHECK td_status td_store_update_copy(struct td_store_update *update, int64_t rows,
                                             struct td_error *err);

/* Publishes the change. If the number of rows is unchanged, slice_bytes bytes were written at each
 * of the `count` offsets. A tensor that replaces update->tensor (strings) is published as a whole.
 * Also returns the errors of td_store_put_table about keys. Ends the update even on failure, in
 * which case the previous version remains current. */
TD_MUST_CHECK td_status td_store_update_commit(struct td_store_update *update,
                                               const uint64_t *offsets, int64_t count,
                                               size_t slice_bytes, struct td_arena *arena,
                                               struct td_tensor_listing *out, struct td_error *err);
void td_store_update_abort(struct td_store_update *update); /* NULL is allowed */

/* Scans the data folder for new, changed and removed files. Replaces the tensors of changed files.
 * A tensor stored by PUT is kept unless its file has changed after the PUT. If the path of the
 * folder now leads to another folder, the store uses that folder from then on. */
void td_store_rescan(struct td_store *store);

/* True, once, if a lookup has found a truncated index of keys. td_store_rescan builds it again. */
bool td_store_needs_scan(struct td_store *store);

/* td_store_is_locked_out is true if the folder cannot be changed because this process does not hold
 * its lock. td_store_retry_lock tries to take the lock, and then scans the folder. */
bool td_store_is_locked_out(struct td_store *store);
void td_store_retry_lock(struct td_store *store);

/* With TD_VERIFY_BACKGROUND, verifies the checksum of the next block. Returns false if no block is
 * left. Only one thread at a time can call this function. It can block on the disk. */
bool td_store_verify(struct td_store *store);
bool td_store_has_unverified(struct td_store *store); /* from any thread */

/* Makes a running scan skip the files that it has not loaded yet. Call this function before the
 * server stops. */
void td_store_stop(struct td_store *store);

/* Removes the tensors whose time to live has passed. Never waits for a writer, and leaves tensors
 * that are being written now to the next call. Only one thread at a time can call this function. */
void td_store_expire(struct td_store *store, int64_t now_ns);

/* Releases the spare copies that have not been used since `since_ns`. */
void td_store_trim(struct td_store *store, int64_t since_ns);

struct td_store_usage {
    int tensors;
    /* Number of tensors that are refused because of a checksum mismatch. */
    int damaged;
    /* Bytes of mapped files. */
    uint64_t mapped;
    /* Size in bytes of the tensors in memory, including spare copies; at most `quota`. */
    uint64_t held;
    /* Bytes of spare copies. */
    uint64_t spare;
    uint64_t quota;
    /* Bytes of the compiled forms of programs, which `held` does not include. */
    uint64_t compiled;
    /* Number of compiled forms that were dropped to make room. */
    uint64_t compiled_evicted;
};
struct td_store_usage td_store_usage(struct td_store *store);

/* Parts of the data folder that the last scan could read. */
struct td_store_reading {
    bool folder;
    /* True if aliases.json was read or does not exist. */
    bool aliases;
    /* Number of problems, including those that td_store_list_problems omits. */
    int problems;
};
struct td_store_reading td_store_reading(struct td_store *store);

/* Returns DEVICE_UNAVAILABLE if aliases.json could not be read at startup or since then, in which
 * case its aliases are missing. */
TD_MUST_CHECK td_status td_store_check_aliases(const struct td_store *store, struct td_error *err);

/* Returns the store as the API's resolver of refs. The store still owns it. */
struct td_resolver *td_store_resolver(struct td_store *store);

#endif
