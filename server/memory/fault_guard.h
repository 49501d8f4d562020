/* fault_guard.h - survives the truncation of mapped files and shared memory.
 *
 * Reading a mapped page after the end of its file raises SIGBUS, and so does a page that a failing
 * disk cannot read or a full tmpfs cannot allocate. Within a guarded range the handler maps zeros
 * there, marks the range, counts the fault and lets the read continue; a fault anywhere else ends
 * the process as it would without the handler.
 *
 * A file that is cut has zeros up to the end of its last page, which raise no signal. The last byte
 * of the file that was not zero tells: it is zero then, or faults.
 *
 *     the owner of a mapping  guards the range, and refuses to return it once it is marked
 *     a reader                looks at the ends of the files that it has read, and compares
 *                             td_guard_faults() before and after: a change means that it may have
 *                             read zeros that are not in the file
 *
 * Threads    Any; ranges are in a table of fixed size that the handler reads without a lock.
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
void td_guard_remove(int range); /* before munmap; -1 is fine */

/* Remembers how the file of a range ends, before other threads know the range. Reads its last
 * page. */
void td_guard_watch_end(int range);

/* Marks the range if its file has been cut since then: to be called after reading, before the range
 * is asked whether it is marked. One load; nothing for a range that is not watched, or -1. */
void td_guard_look_at_end(int range);

/* The number of guarded ranges: mapped files and regions of shared memory. */
int td_guard_ranges(void);

/* Marks a range as a fault in it would, but leaves its memory as it is: for data that is known to
 * be damaged. */
void td_guard_mark(int range);

/* Whether a fault occurred in this range, or it was marked. */
bool td_guard_marked(int range);

/* The number of faults so far, in all ranges. */
uint64_t td_guard_faults(void);

/* Whether the address is in a marked range. For use after td_guard_faults has changed: searches
 * the table. */
bool td_guard_marked_at(const void *address);

#endif
