/* borrowed.h - resident tensors and shared memory to which the body of a call refers by name.
 *
 * Both can be in mapped memory that another process can truncate (fault_guard.h). The call records
 * what it borrows, and checks at the end that all of it was readable. Until then, any part can turn
 * into zeros, so values that must not change while an op runs are copied first.
 *
 * Ownership  Borrows the store, the registry and the arena of the call.
 * Threads    The thread that owns the call.
 * Errors     For truncated memory: INVALID_ARGUMENT (shared memory) or DEVICE_UNAVAILABLE (a
 *            file). */
#ifndef TD_SERVER_CALLS_BORROWED_H
#define TD_SERVER_CALLS_BORROWED_H

#include "api/message/message.h"

struct td_borrowed_range;

struct td_borrowed {
    struct td_resolver resolver; /* for the decoders */
    struct td_regions regions;
    struct td_resolver *store;
    struct td_regions *shm;
    struct td_borrowed_range *ranges; /* memory in use by the call */
    uint64_t faults;                  /* fault count of the process at td_borrowed_begin */
};

void td_borrowed_begin(struct td_borrowed *borrowed, struct td_resolver *store,
                       struct td_regions *shm);

/* Replaces indices in mapped files, also in the constants of a program, with copies, whose total
 * size is td_borrowed_index_bytes. Called before admission. Indices determine addresses and lengths
 * and are read more than once, and the file might be truncated between two reads. */
TD_MUST_CHECK td_status td_borrowed_copy_indices(struct td_request *request, struct td_arena *arena,
                                                 struct td_error *err);
uint64_t td_borrowed_index_bytes(const struct td_request *request);

/* True if the tensor is a resident tensor as returned by the store. Its owner identifies its
 * version. */
bool td_borrowed_is_table(const struct td_borrowed *borrowed, const struct td_tensor *tensor);

/* Checks that all borrowed memory has been readable so far. */
TD_MUST_CHECK td_status td_borrowed_check(const struct td_borrowed *borrowed, struct td_error *err);

#endif
