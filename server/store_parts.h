/* store_parts.h - what the files of the store share: store.c (readers, writers, names),
 * store_update.c (changes in part), store_scan.c (the data folder).
 *
 *     entry ─► current version ─► bytes: a mapping, a body, a buffer
 *           └► spare: the version before, while updates may want its bytes
 *
 * A reader takes the lock for reading, finds the entry, refs its version and is done. A writer
 * enters the name first, so that no other changes it, prepares a version without any lock, and takes
 * the lock for writing only to put it in its place. */
#ifndef TD_SERVER_STORE_PARTS_H
#define TD_SERVER_STORE_PARTS_H

#include "server/data_dir.h"
#include "server/store.h"

#include <pthread.h>
#include <stdatomic.h>

/* What readers hold. Nothing in it changes once it is current, but for the atomics. */
struct version {
    struct td_buffer base;   /* first: release casts back; the owner of the tensor handed out */
    struct td_tensor tensor; /* owner: &base */
    struct td_buffer *bytes; /* what keeps the tensor's data (and offsets) alive; no version */
    uint64_t number;
    uint64_t held, mapped; /* bytes in memory, and mapped ones */
    uint64_t leaving;      /* until it is current: bytes held by the one that it replaces */
    int range;             /* of the fault guard; -1 where nothing is mapped */
    bool persisted;        /* `file` holds this very content */
    bool from_file;        /* and it is what is served */
    atomic_bool replaced;  /* it is not current any more */
    atomic_bool orphaned;  /* the file's name is another's by now, which cannot be read */
    char name[TD_TENSOR_NAME];
    char file[TD_FILE_NAME]; /* "" where no file is behind it */
    char etag[64];
};

/* A version that is not current any more, and what it lacks to be `behind`. */
struct spare {
    struct version *version; /* NULL: there is none */
    uint64_t behind;         /* version that the changes lead to */
    uint64_t *offsets;
    int64_t count;
    size_t slice_bytes;
    int64_t since_ns;
};

struct entry {
    char name[TD_TENSOR_NAME];
    struct version *current;
    struct spare spare;
};

/* A file whose tensors were loaded. */
struct known_file {
    struct td_data_file file;
    char (*names)[TD_TENSOR_NAME]; /* that it gives, whether it is they that are served or not */
    int n_names;
};

struct writer {
    struct writer *next;
    const char *name;
};

struct td_store {
    struct td_resolver resolver; /* first: resolve casts back */
    const struct td_log *log;
    struct td_memory *memory;
    struct td_data_dir *dir; /* NULL for none */
    uint64_t quota, seed;
    bool opened; /* the first scan is done */

    pthread_rwlock_t lock;  /* guards all below; held for nothing that takes long */
    struct entry **entries; /* sorted by name */
    int n_entries, capacity;
    int n_spares;
    uint64_t last_version;
    uint64_t held, mapped, spared; /* bytes: of what is current or about to be, and of spares */
    uint64_t leaving;              /* of those held, by what is about to be replaced */

    pthread_mutex_t writing; /* guards the writers */
    pthread_cond_t written;
    struct writer *writers; /* those who are at work, each on a name of its own */

    pthread_mutex_t files_mutex; /* guards the files */
    struct known_file **files;   /* sorted by name */
    int n_files, file_room;
    pthread_mutex_t scanning; /* held through a scan */
};

/* ---- writers ---- */

/* Keeps other writers from `name` until td_writer_leave. QUEUE_FULL where waiting could be forever:
 * see store.h. */
TD_MUST_CHECK td_status td_writer_enter(struct td_store *store, struct writer *writer,
                                        const char *name, struct td_error *err);
void td_writer_leave(struct td_store *store, struct writer *writer);

/* This thread begins and ends an update. */
void td_writer_begins_update(void);
void td_writer_ends_update(void);

/* What every writer asks for first: a good name, a folder if it is to be persisted. */
TD_MUST_CHECK td_status td_store_check_write(struct td_store *store,
                                             const struct td_store_write *write,
                                             struct td_error *err);

/* Is there room for a further name? */
TD_MUST_CHECK td_status td_store_check_count(struct td_store *store, struct td_error *err);

/* The current version, referenced, or NULL. */
struct version *td_store_current(struct td_store *store, const char *name, size_t length);

/* As td_store_current, for one who needs it. */
TD_MUST_CHECK td_status td_store_need(struct td_store *store, const char *name, size_t length,
                                      struct version **out, struct td_error *err);

/* ---- making a version ---- */

/* Bytes in memory that a mapped tensor takes: the offsets of strings. */
uint64_t td_store_mapped_held(const struct td_tensor *tensor);

/* One reference; without tensor and number. NULL (err filled) without memory. */
struct version *td_version_new(const char *name, struct td_error *err);

/* Counts bytes against the quota: those of a version that takes the place of `replaced` (NULL for
 * none), whose own do not count any more then. *leaving is how many these are, for the version or
 * to be given back. RESOURCE_LIMIT. */
TD_MUST_CHECK td_status td_store_reserve(struct td_store *store, const struct version *replaced,
                                         uint64_t bytes, uint64_t *leaving, struct td_error *err);
void td_store_unreserve(struct td_store *store, uint64_t bytes, uint64_t leaving);

/* The number of a new version; one that was `given` to it before the start, not 0, stays. */
uint64_t td_store_next_number(struct td_store *store, uint64_t given);

/* A copy in the store's memory, strings from offset 0 on. */
TD_MUST_CHECK td_status td_version_copy(struct td_store *store, struct version *version,
                                        const struct td_tensor *tensor, struct td_error *err);

/* Was all of it there to be read, until now? DEVICE_UNAVAILABLE; to be asked once what was read is
 * copied, and before anybody sees it. */
TD_MUST_CHECK td_status td_version_check(const struct version *version, struct td_error *err);

/* The version that a tensor is of; NULL where it is of none. */
const struct version *td_version_of(const struct td_tensor *tensor);

/* Makes version->tensor what `tensor` tells, its bytes kept by `bytes`, whose reference it takes. */
void td_version_set(struct version *version, const struct td_tensor *tensor,
                    struct td_buffer *bytes);

/* Makes it one of the tensor of a file, whose reference it takes, within the guarded range. */
void td_version_map(struct version *version, const struct td_tensor *tensor, int range);

/* Writes the tensor into the folder and makes the file the one behind the version; where `serve`,
 * what is served is the mapped file. */
TD_MUST_CHECK td_status td_version_persist(struct td_store *store, struct version *version,
                                           const struct td_tensor *tensor, bool serve,
                                           struct td_error *err);

/* The ETag that a file gives, or the one of its number. */
void td_version_tag(const struct td_store *store, struct version *version,
                    const struct td_file_id *id, uint64_t stored_number);

/* Makes it current, takes over the reference, and gives back what it replaces, whose reference is
 * the caller's then; NULL for nothing. Its bytes were reserved. False (err filled) without memory. */
bool td_store_publish(struct td_store *store, struct version *version, struct version **replaced,
                      struct td_error *err);

/* The two halves of a put, for a writer of the name: numbers the version, gives it the tensor's
 * bytes, reserved, and its tag; then tells of it and makes it current. The second takes the
 * version's reference in any case. */
TD_MUST_CHECK td_status td_version_fill(struct td_store *store, struct version *version,
                                        const struct version *before,
                                        const struct td_tensor *tensor, bool persist,
                                        struct td_error *err);
TD_MUST_CHECK td_status td_version_reveal(struct td_store *store, struct version *version,
                                          struct td_arena *arena, struct td_tensor_listing *out,
                                          struct version **replaced, struct td_error *err);

/* Forgets a name. */
void td_store_drop(struct td_store *store, const char *name);

/* Fills what callers are told; the version is the arena's from then on. */
TD_MUST_CHECK td_status td_store_tell(struct version *version, struct td_arena *arena,
                                      struct td_tensor_listing *out, struct td_error *err);

/* Takes the spare of a name from its entry, or makes one its own if quota and entry are there for
 * it; and lets go of one. */
struct spare td_spare_take(struct td_store *store, const char *name);
void td_spare_keep(struct td_store *store, const char *name, struct spare *spare);
void td_spare_free(struct spare *spare);

/* ---- files ---- */

/* The scan at start and every later one. False (logged) when the folder cannot be read. */
bool td_store_scan(struct td_store *store);

/* The store itself has written, or removed, the files behind a name. */
void td_store_wrote_file(struct td_store *store, const char *name, const char *file,
                         const struct td_file_id *id);
void td_store_removed_files(struct td_store *store, const char *name);

void td_store_free_files(struct td_store *store);

#endif
