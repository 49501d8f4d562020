/* shared_memory.h - registered regions of POSIX shared memory, as defined by the system shared
 * memory extension of the Open Inference Protocol.
 *
 * A region is mapped until it is unregistered and the last request that uses it has ended. Clients
 * can truncate their object at any time. Therefore, ranges are guarded (fault_guard.h), the size is
 * checked at every use, and a truncated region is refused from then on. After reading a region, the
 * reader checks td_guard_marked_at (server/calls/borrowed.h).
 *
 * A key is one name under /dev/shm, with any number of leading slashes. It must name a regular
 * file; symbolic links are not followed. Registering a region does not read its content.
 *
 * Bounds     At most TD_SHM_REGIONS regions at a time. Each has a file descriptor.
 * Threads    Any thread.
 * Errors     INVALID_ARGUMENT (an invalid key, size or offset; a registered name; an object that
 *            cannot be opened, without revealing whether it exists; a truncated region), NOT_FOUND
 *            (an unknown region), RESOURCE_LIMIT. */
#ifndef TD_SERVER_MEMORY_SHARED_MEMORY_H
#define TD_SERVER_MEMORY_SHARED_MEMORY_H

#include "api/oip/oip.h"

enum { TD_SHM_REGIONS = 1024 };

struct td_shm;

struct td_shm *td_shm_new(void);      /* returns NULL if allocation fails */
void td_shm_free(struct td_shm *shm); /* NULL is allowed */

TD_MUST_CHECK td_status td_shm_register(struct td_shm *shm, const char *name, const char *key,
                                        uint64_t offset, uint64_t bytes, struct td_error *err);
/* Unregisters a region, or all regions if `name` is NULL. An unknown name is not an error. */
void td_shm_unregister(struct td_shm *shm, const char *name);

/* Lists one region, or all regions sorted by name if `name` is NULL. The strings are in the arena.
 * Keys are listed as the client sent them. */
TD_MUST_CHECK td_status td_shm_list(struct td_shm *shm, const char *name, struct td_arena *arena,
                                    struct td_oip_region **list, int *count, struct td_error *err);

/* Returns the number of registered regions. */
int td_shm_count(struct td_shm *shm);

/* Returns the registry as the API's resolver of regions. The registry still owns it. */
struct td_regions *td_shm_regions(struct td_shm *shm);

#endif
