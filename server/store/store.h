/* store.h - resident tensors: named, versioned, replaced atomically, persisted on request.
 *
 *     data folder ──map──► ┐
 *     PUT, store=  ──────► ├─ name ─► current version ──► requests, each holding a reference
 *     scatter      ──────► ┘              │
 *                                         └─ persist ─► NAME.tensord in the data folder
 *
 * A published version never changes. Replacing or deleting a name does not affect the versions that
 * requests hold; a version is freed with its last reference.
 *
 * Files      `table.npy` becomes `table`; tensor `w` of `model.safetensors` becomes `model:w`, of
 *            `model@v.safetensors` `model:w@v`; both
 *            are mapped, not read; another byte order and Fortran order are converted in memory.
 *            `NAME.tensord`, a safetensors file whose metadata holds dtype and shape, strings and
 *            complex128 included, becomes NAME and takes precedence over the others. A malformed
 *            file, and a tensor whose name is invalid, is logged and skipped; the rest is served.
 *            Only headers are read, except for bool (bytes other than 0 and 1 are invalid) and the
 *            offsets of strings (which must stay within the file).
 * Persisting Temporary file, fsync, rename, fsync of the folder: after a crash at any point the
 *            folder has the old version or the new one, complete. The next start removes a
 *            temporary file left by a crash. A PUT, an update or a DELETE that fails has changed
 *            neither memory nor folder, with one exception, which its error describes: the folder
 *            could neither be fsynced nor restored, and both have changed. A tensor persisted by
 *            PUT is mapped from its file afterwards, as after a restart, and counts against the
 *            quota only with the offsets of strings, which are in memory; a tensor persisted by an
 *            update stays in memory for the next update.
 * Lock       One process changes a data folder: the one that holds its lock. Others serve its
 *            files; a PUT, update or DELETE that would change it is DATA_DIR_LOCKED
 *            until they get the lock (td_store_retry_lock, td_store_rescan). Without
 *            permission to lock the folder such a change is FORBIDDEN.
 * Truncation A mapped file that is truncated reads as zeros. A version made from such data is
 *            discarded before it is published; td_store_check reports it to a caller that sends it.
 * Damage     NAME.tensord has checksums. With TD_VERIFY_START a file is compared with them before
 *            its tensor is served, with TD_VERIFY_BACKGROUND by td_store_verify while it is served.
 *            A damaged file is treated as a truncated one: its tensor is refused, and so is what an
 *            update or a call in flight made from it, until the tensor is replaced or deleted or
 *            the file changes. If the header of NAME.tensord is damaged or malformed, NAME is not
 *            listed, but refused likewise unless another file or a PUT provides it.
 * Versions   Increase with every change of the store. An ETag is strong. That of a mapped or
 *            persisted tensor is derived from the checksums in its file, or else the file's size
 *            and time of modification, so a restart keeps it and replicas that serve copies have
 *            the same; otherwise from the version and a random number drawn at start.
 * Bounds     Bytes that are not mapped count against the quota: more is RESOURCE_LIMIT
 *            (resident_bytes). TD_STORE_TENSORS names; more are RESOURCE_LIMIT
 *            (resident_tensors). Files written into the folder count against the disk quota: more
 *            is RESOURCE_LIMIT (disk_bytes).
 * Ownership  The caller's arena holds what td_store_get returns.
 * Threads    Any. Readers never wait for a copy or a disk. Writers of one name change it one after
 *            the other (writer_queue.h). A change that persists or deletes may block for as long as
 *            the disk takes, so it has no place on an I/O thread or a worker. */
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

/* Is told about each file of the folder, in the order in which they are loaded: about tensors that
 * are skipped, and then how many there are in the file, these included. `tensor` is NULL if the
 * whole file is skipped; then that is all. `file` is NULL if it is not about one file. */
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

/* NULL (logged) when dir cannot be read. */
struct td_store *td_store_open(const struct td_store_options *options);
void td_store_free(struct td_store *store); /* NULL is fine */

/* The bytes of the files that count against disk_quota; 0 if there is none. */
uint64_t td_store_counted_bytes(struct td_store *store);

/* The current version; its texts and the tensor live as long as the arena. TENSOR_NOT_FOUND with
 * the nearest of the adjacent names, or DEVICE_UNAVAILABLE if its file was truncated. */
TD_MUST_CHECK td_status td_store_get(struct td_store *store, const char *name, size_t length,
                                     struct td_arena *arena, struct td_tensor_listing *out,
                                     struct td_error *err);

/* False if td_store_get of the name of a tensor or alias would be TENSOR_NOT_FOUND, or
 * DEVICE_UNAVAILABLE only since a refused folder may have it. A name that is not there costs no
 * more than the look-up: no similar name is searched for. */
bool td_store_knows(struct td_store *store, const char *name);

/* Counts the changes of all names. If it is the same before the first and after the last of some
 * lookups, all of them found what there was at one moment. */
uint64_t td_store_changes(const struct td_store *store);

/* Looks up `count` names at one moment: out[i] and errors as of td_resolve. */
struct td_store_name {
    const char *text;
    size_t length;
};
TD_MUST_CHECK td_status td_store_resolve_all(struct td_store *store,
                                             const struct td_store_name *names, int count,
                                             struct td_arena *arena, struct td_tensor *out,
                                             struct td_error *err);

/* DEVICE_UNAVAILABLE if the file of the listing's version has been truncated since get. */
TD_MUST_CHECK td_status td_store_check(const struct td_tensor_listing *listing,
                                       struct td_error *err);

/* True if the file of the version `owner`, or that of its keys, has been cut, cannot be read or is
 * damaged. To be asked after its bytes have been read. */
bool td_store_is_cut(struct td_buffer *owner);

/* Whether `owner` is a version that has been replaced or deleted. For caches of tensors. */
bool td_store_is_replaced(struct td_buffer *owner);

/* Whether it is mapped from a file, which may be truncated while it is read. */
bool td_store_is_mapped(const struct td_tensor *tensor);

/* Where a resident tensor keeps its place in the metrics, plus one; 0 at first. A version takes
 * over that of the one it replaces. NULL if the tensor is not resident. */
atomic_int *td_store_place_of(const struct td_tensor *tensor, const char **name);

/* The statistics that the version of a resident tensor, which is that of a listing, keeps; NULL if
 * it has none. They live as long as the version. */
const struct td_statistics *td_store_statistics(const struct td_tensor *tensor);

/* Keeps a copy of them with the version, in the store's memory, of which all kept ones take a
 * sixteenth of their tensors at most; if there is none, others have been kept meanwhile, or the
 * tensor is small, it does nothing. */
void td_store_keep_statistics(struct td_store *store, const struct td_tensor *tensor,
                              const struct td_statistics *statistics);

/* The name and number of the version that a resident tensor is; false if it is not resident. They
 * live as long as the version. */
bool td_store_identity(const struct td_tensor *tensor, const char **name, uint64_t *number);

/* Some of the names, sorted: those that begin with `prefix` and come after the name `after`, which
 * need not exist; of these the first `limit`. "", "" and 0: all. */
struct td_name_range {
    const char *prefix, *after;
    int limit;
};

/* The current versions of all names, or of a range of them, sorted by name. */
TD_MUST_CHECK td_status td_store_list(struct td_store *store, struct td_arena *arena,
                                      struct td_tensor_listing **list, int *count,
                                      struct td_error *err);
TD_MUST_CHECK td_status td_store_list_range(struct td_store *store,
                                            const struct td_name_range *range,
                                            struct td_arena *arena, struct td_tensor_listing **list,
                                            int *count, struct td_error *err);

/* Sets TENSOR_NOT_FOUND with the nearest of the adjacent names, and returns it. `access`: as if
 * there were no other names than those that it has; NULL: all. */
td_status td_store_not_found(struct td_store *store, const char *name, size_t length,
                             const struct td_access *access, struct td_error *err);

/* INVALID_ARGUMENT unless the name is valid (table_name.h). */
TD_MUST_CHECK td_status td_store_check_name(const char *name, struct td_error *err);

/* What a writer requests. */
struct td_store_write {
    const char *name;
    struct td_condition condition;  /* PRECONDITION_FAILED, with the current ETag in err->etag */
    bool persist;                   /* INVALID_ARGUMENT without a data folder */
    bool removes;                   /* a DELETE: of an alias or a version, too */
    const struct td_access *access; /* names that its token is for; NULL: all */
    /* The result of an op, in memory alone: CONFLICT if a file has a tensor of the name, also while
     * a client has put another one over it. */
    bool is_result;
    int64_t ttl_s; /* seconds after which td_store_expire removes it; 0: it stays */
    /* That has entered with the name, as td_store_plan_write describes it; NULL: the change waits
     * for other writers of the name, and blocks its thread meanwhile. */
    struct td_writer *writer;
};

/* Describes the writer that the change needs, except for its deadline and ready(). True if the
 * change may wait for a disk. */
bool td_store_plan_write(struct td_store *store, const struct td_store_write *write,
                         struct td_writer *writer);

/* Whether the name is valid, its condition holds and there is a folder to persist it in. For
 * changes that need no room, before their body; the change checks again. */
TD_MUST_CHECK td_status td_store_check_change(struct td_store *store,
                                              const struct td_store_write *write,
                                              struct td_error *err);

/* Whether also a tensor of `bytes` bytes fits now. Called before it is computed; put checks
 * again. */
TD_MUST_CHECK td_status td_store_admit(struct td_store *store, const struct td_store_write *write,
                                       uint64_t bytes, struct td_error *err);

/* The same for one of several tensors that will be put in this order, in memory: it must fit beside
 * those admitted before with the same `totals`, which begin at zero. */
struct td_store_totals {
    uint64_t bytes, replaced; /* of the new tensors, and of the versions that they replace */
    int new_names;
};
TD_MUST_CHECK td_status td_store_admit_next(struct td_store *store,
                                            const struct td_store_write *write, uint64_t bytes,
                                            struct td_store_totals *totals, struct td_error *err);

/* Makes `tensor` the current version. Its owner is kept, not copied, if it is not much larger
 * than the tensor; otherwise the data is copied. No one may write to bytes that have an owner; a
 * tensor that its caller or a client may still write to is passed without one. */
TD_MUST_CHECK td_status td_store_put(struct td_store *store, const struct td_store_write *write,
                                     const struct td_tensor *tensor, struct td_arena *arena,
                                     struct td_tensor_listing *out, bool *created,
                                     struct td_error *err);

/* As td_store_put, with keys for the rows: a vector as long as the table, or NULL. Their index is
 * built with `exec`. CONFLICT if the lengths differ, INVALID_ARGUMENT with the positions of equal
 * keys, DEVICE_UNAVAILABLE if they are those of another table whose file was truncated. */
TD_MUST_CHECK td_status td_store_put_table(struct td_store *store,
                                           const struct td_store_write *write,
                                           const struct td_tensor *rows,
                                           const struct td_tensor *keys, struct td_exec *exec,
                                           struct td_arena *arena, struct td_tensor_listing *out,
                                           bool *created, struct td_error *err);

/* A version with the same rows and these keys. Without persist the rows stay where they are, and a
 * restart brings back the keys that the file has. *created: there were none. */
TD_MUST_CHECK td_status td_store_admit_keys(struct td_store *store,
                                            const struct td_store_write *write,
                                            const struct td_tensor *keys, struct td_error *err);
TD_MUST_CHECK td_status td_store_put_keys(struct td_store *store,
                                          const struct td_store_write *write,
                                          const struct td_tensor *keys, struct td_exec *exec,
                                          struct td_arena *arena, struct td_tensor_listing *out,
                                          bool *created, struct td_error *err);

/* A version with the same rows and without keys. TENSOR_NOT_FOUND if it has none. */
TD_MUST_CHECK td_status td_store_delete_keys(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_arena *arena, struct td_tensor_listing *out,
                                             struct td_error *err);

/* TENSOR_NOT_FOUND: the table has no keys. */
td_status td_store_no_keys(const char *table, struct td_error *err);

/* Neither a restart nor a rescan brings the tensor back: all files that hold it are removed.
 * FORBIDDEN if one of them holds other tensors as well. *persisted: the data folder has changed, so
 * that the deletion changes what a restart finds. */
TD_MUST_CHECK td_status td_store_delete(struct td_store *store, const struct td_store_write *write,
                                        bool *persisted, struct td_error *err);

/* A private copy of the current version, to change a few bytes of it. If the version before is
 * kept as the spare copy and no reader holds it, only the slices that changed since are copied,
 * so the second of two changes costs as much as the first one changed. The current version is
 * never written to: its readers would have to wait for the writer, which may be a worker that
 * runs a nested request for the same tensor. Other writers of the name wait until the update
 * ends. Strings are not copied and must not be written to. */
struct td_store_update {
    struct td_tensor tensor; /* to be changed in place, or replaced by another of the arena */
    uint64_t from;           /* number of the version that was copied */
    bool unchanged;          /* set before abort to keep the copy for the next update */
    /* The current version, to be read only; it lives until the update ends. */
    const struct td_tensor *before;
    /* New keys of the rows, as many as `tensor` has; NULL: those of before. */
    const struct td_tensor *keys;
};
TD_MUST_CHECK td_status td_store_update_begin(struct td_store *store,
                                              const struct td_store_write *write,
                                              struct td_arena *arena, struct td_exec *exec,
                                              struct td_store_update **out, struct td_error *err);

/* As begin, in two steps: open gives `before`, which may decide how many rows there will be; copy
 * gives `tensor`, with the first `rows` rows of before, or with all of them and room for others
 * behind, whose values are not set. Of strings there is no copy, whatever `rows` is. With keys exec
 * is not NULL. */
TD_MUST_CHECK td_status td_store_update_open(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_arena *arena, struct td_exec *exec,
                                             struct td_store_update **out, struct td_error *err);
TD_MUST_CHECK td_status td_store_update_copy(struct td_store_update *update, int64_t rows,
                                             struct td_error *err);

/* Publishes the change. offsets[i], `count` of them, are where slice_bytes bytes each were
 * written, if the number of rows is the same. A tensor that replaced update->tensor (strings) is
 * taken as a whole. Also errors of td_store_put_table about keys. Ends the update even if it fails;
 * then the version before stays current. */
TD_MUST_CHECK td_status td_store_update_commit(struct td_store_update *update,
                                               const uint64_t *offsets, int64_t count,
                                               size_t slice_bytes, struct td_arena *arena,
                                               struct td_tensor_listing *out, struct td_error *err);
void td_store_update_abort(struct td_store_update *update); /* NULL is fine */

/* Compares the data folder with the loaded files: new, changed and removed ones. A tensor of a
 * changed file is replaced; a tensor that was PUT stays unless its file changed since. If the path
 * of the folder leads to another one by now, that is the data folder from then on. */
void td_store_rescan(struct td_store *store);

/* Whether the folder cannot be changed because this process does not hold its lock; retry tries to
 * take it and, if it succeeds, scans the folder. */
bool td_store_is_locked_out(struct td_store *store);
void td_store_retry_lock(struct td_store *store);

/* With TD_VERIFY_BACKGROUND: compares one block of a file that was not compared yet with its
 * checksum; false if there is none. One thread at a time, which may block on the disk. */
bool td_store_verify(struct td_store *store);
bool td_store_has_unverified(struct td_store *store); /* from any thread */

/* Before the server stops: a scan leaves out the files that it has not loaded yet, so that it ends
 * soon. */
void td_store_stop(struct td_store *store);

/* Removes the tensors whose time to live has passed, except tensors that are being written, which
 * the next call removes. One thread at a time. Never waits for a writer. */
void td_store_expire(struct td_store *store, int64_t now_ns);

/* Releases the spare copies that were not used since `since_ns`. */
void td_store_trim(struct td_store *store, int64_t since_ns);

struct td_store_stats {
    int tensors;
    int damaged;     /* those that are refused since a checksum does not match */
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
