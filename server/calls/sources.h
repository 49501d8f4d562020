/* sources.h - where the tensors of one call come from that its body only names: resident tensors and
 * shared memory.
 *
 * Both may lie in memory that somebody else can cut short (fault_guard.h). The call notes what it
 * was given, and asks at its end whether all of it was really there. Until then it may be zeros from
 * one look to the next, so what must not change under the ops is copied first.
 *
 * Ownership  Borrows the store, the registry and the arena of the call.
 * Threads    None of its own: it moves with the call.
 * Errors     INVALID_ARGUMENT for shared memory, DEVICE_UNAVAILABLE for a file, that was cut short. */
#ifndef TD_SERVER_CALLS_SOURCES_H
#define TD_SERVER_CALLS_SOURCES_H

#include "api/message/message.h"

struct td_loan;

struct td_sources {
    struct td_resolver resolver; /* for the decoders */
    struct td_regions regions;
    struct td_resolver *store;
    struct td_regions *shm;
    struct td_loan *loans; /* what was handed out */
    uint64_t faults;       /* of the process, before */
};

void td_sources_begin(struct td_sources *sources, struct td_resolver *store,
                      struct td_regions *shm);

/* Indices decide on addresses and lengths, and are looked at more than once: those of a file that
 * somebody may cut short meanwhile are copied, and the request is given the copies. Before it is
 * admitted; reads td_sources_bytes. */
TD_MUST_CHECK td_status td_sources_settle(struct td_request *request, struct td_arena *arena,
                                          struct td_error *err);
uint64_t td_sources_bytes(const struct td_request *request);

/* Is it a resident tensor as the store handed it out, whose owner names its version? */
bool td_sources_is_table(const struct td_sources *sources, const struct td_tensor *tensor);

/* Was all that was handed out there to be read, until now? */
TD_MUST_CHECK td_status td_sources_check(const struct td_sources *sources, struct td_error *err);

#endif
