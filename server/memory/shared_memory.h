/* shared_memory.h - regions of POSIX shared memory that clients have registered, as the Open Inference
 * Protocol's system shared memory extension tells.
 *
 * A registered region is mapped until it is unregistered and the last request that uses it has
 * ended. Clients may cut their object short at any time: ranges are guarded (fault_guard.h), the
 * size is looked at again at every use, and a region that was cut short is refused from then on.
 * Whoever reads a region looks at td_guard_marked_at when it is done: server/calls/sources.h.
 *
 * A key is one name under /dev/shm, whatever slashes it begins with. What it names has to be a
 * regular file: no symbolic link is followed, and nothing is read while a region is registered.
 *
 * Bounds     At most TD_SHM_REGIONS at a time; each keeps a file descriptor.
 * Threads    Any.
 * Errors     INVALID_ARGUMENT (a bad key, size or offset; a name that is taken; cannot be opened,
 *            without telling whether the object exists; a region cut short), NOT_FOUND (a region
 *            nobody registered), RESOURCE_LIMIT. */
#ifndef TD_SERVER_MEMORY_SHARED_MEMORY_H
#define TD_SERVER_MEMORY_SHARED_MEMORY_H

#include "api/oip/oip.h"

enum { TD_SHM_REGIONS = 1024 };

struct td_shm;

struct td_shm *td_shm_new(void);      /* NULL without memory */
void td_shm_free(struct td_shm *shm); /* NULL is fine */

TD_MUST_CHECK td_status td_shm_register(struct td_shm *shm, const char *name, const char *key,
                                        uint64_t offset, uint64_t bytes, struct td_error *err);
/* NULL name: all. A name that is not there is fine. */
void td_shm_unregister(struct td_shm *shm, const char *name);

/* One region, or with NULL all of them in the order of their names. Their texts lie in the arena,
 * keys as they were given. */
TD_MUST_CHECK td_status td_shm_list(struct td_shm *shm, const char *name, struct td_arena *arena,
                                    struct td_oip_region **list, int *count, struct td_error *err);

/* The registry as the api's source of regions. Borrowed. */
struct td_regions *td_shm_regions(struct td_shm *shm);

#endif
