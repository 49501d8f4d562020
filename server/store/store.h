/* store.h - resident tensors: named, versioned, replaced atomically, on disk where asked for.
 *
 *     data folder ──map──► ┐
 *     PUT, store=  ──────► ├─ name ─► current version ──► requests, each holding the version it got
 *     scatter      ──────► ┘              │
 *                                         └─ persist ─► NAME.tensord in the data folder
 *
 * A version never changes once it can be seen. Replacing or deleting a name leaves the versions
 * that requests hold as they are; their memory goes with the last one.
 *
 * Files      `table.npy` becomes `table`; tensor `w` of `model.safetensors` becomes `model:w`; both
 *            are mapped, not read, and what mapping cannot give (another byte order, Fortran order)
 *            is converted in memory. `NAME.tensord`, a safetensors file of ours whose metadata tells
 *            dtype and shape, strings and complex128 included, becomes NAME and goes before the
 *            others. A file that cannot be read as what its name says, and a tensor whose name
 *            clients could not write, is logged and left out; the rest serves. Only headers are
 *            read, but for bool (bytes other than 0 and 1 are no values) and the offsets of strings
 *            (which must not lead out of the file).
 * Persisting Temporary file, fsync, rename, fsync of the folder: after a crash at any point the old
 *            version or the new one is there, whole. A temporary file left by a crash is removed at
 *            the next start. A PUT, an update or a DELETE that fails has changed neither memory nor
 *            folder, but for one error, which says so: the folder could not be fsynced and not be put
 *            back either, and both have changed. What PUT persists is mapped from its file
 *            afterwards, as it will be after a restart, and takes no quota but for the offsets of
 *            strings, which are in memory; what an update persists stays there as well, for the next
 *            update.
 * Cut short  What is read of a file that somebody cuts short meanwhile is zeros. A version made of
 *            it is refused before anybody sees it, td_store_check tells it to who sends it away.
 * Versions   Grow with every change of the store. An ETag is strong. Of a mapped or persisted tensor
 *            it is made of its file's inode, size, time of change and (NAME.tensord) version, so
 *            that a restart keeps it; otherwise of the version and a number drawn at start.
 * Bounds     Bytes that are not mapped count against the quota: more is RESOURCE_LIMIT
 *            (resident_bytes). TD_STORE_TENSORS names; more are RESOURCE_LIMIT
 *            (resident_tensors).
 * Ownership  What td_store_get hands out is held by the caller's arena.
 * Threads    Any. Readers never wait for a copy or a disk. Writers of one name wait for each other,
 *            but for a thread that is between begin and commit of an update and has taken up
 *            another request meanwhile: it gets QUEUE_FULL at once, since what it waits for could be
 *            itself. Writers may take long: they are not for I/O threads. */
#ifndef TD_SERVER_STORE_STORE_H
#define TD_SERVER_STORE_STORE_H

#include "api/describe.h"
#include "api/message/message.h"
#include "server/observe/log.h"
#include "server/store/etag.h"

struct td_store;

enum { TD_STORE_TENSORS = 65536 };

struct td_store_options {
    const char *dir;          /* "" for none */
    uint64_t quota;           /* bytes that are not mapped */
    struct td_memory *memory; /* where they come from */
    const struct td_log *log;
};

/* NULL (logged) when dir cannot be read. */
struct td_store *td_store_open(const struct td_store_options *options);
void td_store_free(struct td_store *store); /* NULL is fine */

/* The current version; its texts and the tensor live as long as the arena. TENSOR_NOT_FOUND with the
 * nearest of some names beside it in order, or DEVICE_UNAVAILABLE when its file was cut short. */
TD_MUST_CHECK td_status td_store_get(struct td_store *store, const char *name, size_t length,
                                     struct td_arena *arena, struct td_tensor_listing *out,
                                     struct td_error *err);

/* Was all of what get told there to be read, until now? DEVICE_UNAVAILABLE. */
TD_MUST_CHECK td_status td_store_check(const struct td_tensor_listing *listing,
                                       struct td_error *err);

/* Is it the owner of a tensor's version of which there is a later one, or none any more? For who
 * keeps tensors to use them again. */
bool td_store_is_replaced(struct td_buffer *owner);

/* May it be cut short while it is read? */
bool td_store_is_mapped(const struct td_tensor *tensor);

/* All current versions in the order of their names. */
TD_MUST_CHECK td_status td_store_list(struct td_store *store, struct td_arena *arena,
                                      struct td_tensor_listing **list, int *count,
                                      struct td_error *err);

/* May this be a name? INVALID_ARGUMENT says what names are: [A-Za-z0-9._:-]{1,128}, no dot first. */
TD_MUST_CHECK td_status td_store_check_name(const char *name, struct td_error *err);

/* What a writer may ask for. */
struct td_store_write {
    const char *name;
    struct td_condition condition; /* PRECONDITION_FAILED, with the current ETag in err->etag */
    bool persist;                  /* INVALID_ARGUMENT without a data folder */
};

/* Would a tensor of so many bytes be accepted now? Before it is computed; put decides for good. */
TD_MUST_CHECK td_status td_store_admit(struct td_store *store, const struct td_store_write *write,
                                       uint64_t bytes, struct td_error *err);

/* Makes `tensor` the current version. Its owner is kept, not copied, where it has one that is not
 * much larger than the tensor; otherwise the data is copied. An owner means that nobody writes these
 * bytes any more: what somebody else may still write comes without. */
TD_MUST_CHECK td_status td_store_put(struct td_store *store, const struct td_store_write *write,
                                     const struct td_tensor *tensor, struct td_arena *arena,
                                     struct td_tensor_listing *out, bool *created,
                                     struct td_error *err);

/* Afterwards neither a restart nor a rescan brings it back; FORBIDDEN where that cannot be, since a
 * file holds other tensors as well. */
TD_MUST_CHECK td_status td_store_delete(struct td_store *store, const struct td_store_write *write,
                                        struct td_error *err);

/* A version in the making, for changes of few bytes of a tensor: it begins as a copy of the current
 * one. Where the version before that is at hand and nobody holds it any more, only what changed
 * since is copied; so the second of two changes costs what the first one changed. (The current one
 * itself is never written to: its readers would have to wait for the writer, who may be a worker
 * that has taken up another request for the same tensor.) Other writers of the name wait until it
 * ends. Commit or abort on the thread that began. Strings are not copied, and not to be written to.
 */
struct td_store_update {
    struct td_tensor tensor; /* to be changed, or replaced by another of the arena */
    uint64_t from;           /* version it began as */
    bool unchanged;          /* say so before abort, and the copy is kept for the next update */
};
struct td_exec;
TD_MUST_CHECK td_status td_store_update_begin(struct td_store *store,
                                              const struct td_store_write *write,
                                              struct td_arena *arena, struct td_exec *exec,
                                              struct td_store_update **out, struct td_error *err);

/* Readers see all of the change from here on. offsets[i], `count` of them, are where slice_bytes
 * bytes each were written. A tensor that update->tensor was replaced by (strings) is taken whole.
 * Ends the update, also where it fails; then the version before stays. */
TD_MUST_CHECK td_status td_store_update_commit(struct td_store_update *update,
                                               const uint64_t *offsets, int64_t count,
                                               size_t slice_bytes, struct td_arena *arena,
                                               struct td_tensor_listing *out, struct td_error *err);
void td_store_update_abort(struct td_store_update *update); /* NULL is fine */

/* Looks at the data folder again: new files, changed ones, and those that are gone. What a file
 * gave is replaced when the file changed; what came by PUT stays unless its file changed since. */
void td_store_rescan(struct td_store *store);

/* Lets go of what is kept for further updates only and was not used since `since_ns`. */
void td_store_trim(struct td_store *store, int64_t since_ns);

struct td_store_stats {
    int tensors;
    uint64_t mapped; /* bytes of mapped files */
    uint64_t held;   /* bytes in memory, against */
    uint64_t quota;
};
struct td_store_stats td_store_stats(struct td_store *store);

/* The store as the api's source of refs. Borrowed. */
struct td_resolver *td_store_resolver(struct td_store *store);

#endif
