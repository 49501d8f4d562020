/* fault_guard.h - surviving files and shared memory that somebody else cuts short.
 *
 * Reading a mapped page behind the end of its file raises SIGBUS, and so does one that a failing
 * disk, or a full tmpfs under shared memory with holes, cannot give; what holds for the end of a file
 * holds for these. Within a guarded range the
 * handler puts a page of zeros there, marks the range, counts the fault and lets the read go on; a
 * fault anywhere else ends the process as it would without us.
 *
 *     who maps       guards the range, and refuses to hand it out once it is marked
 *     who computes   looks at td_guard_faults() before and after: a change means that what was read
 *                    may be zeros that nobody wrote
 *
 * Threads    Any; ranges stand in a table of fixed size that the handler reads without a lock.
 * Errors     A full table (TD_GUARD_RANGES) refuses further ranges. */
#ifndef TD_SERVER_MEMORY_FAULT_GUARD_H
#define TD_SERVER_MEMORY_FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_GUARD_RANGES = 65536 };

/* Installs the handler; once, before the first thread. */
void td_guard_install(void);

/* [begin, begin + size), page-aligned begin. -1 when the table is full. */
int td_guard_add(const void *begin, size_t size);
void td_guard_remove(int range); /* before it is unmapped; -1 is fine */

/* Was something behind the end of this range's file read? */
bool td_guard_marked(int range);

/* Faults there have been, of all ranges. */
uint64_t td_guard_faults(void);

/* Does the address lie in a range that is marked? For who learnt from td_guard_faults that there was
 * a fault somewhere: takes a while. */
bool td_guard_marked_at(const void *address);

#endif
