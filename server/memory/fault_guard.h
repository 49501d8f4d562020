/* fault_guard.h - keeps the process alive when mapped files or shared memory are truncated.
 *
 * Reading a mapped page raises SIGBUS if the page is beyond the end of its file, if a failing disk
 * cannot read it, or if a full tmpfs cannot allocate it. Within a guarded range, the handler maps
 * zeros there, marks the range, counts the fault and lets the read continue. A fault anywhere else
 * ends the process, as it would without the handler.
 *
 * A truncated file has zeros up to the end of its last page, which raise no signal. The last byte
 * that was not zero reveals the truncation, because a read of this byte now returns zero or faults.
 *
 *     the owner of a mapping  guards the range, and does not return the mapping after it is marked
 *     a reader                checks the ends of the files that it has read, and compares
 *                             td_guard_faults() before and after; a change means that it might have
 *                             read zeros that are not in the file
 *
 * Threads    Any thread. The handler reads the table of ranges, which has a fixed size, without a
 *            lock.
 * Errors     A full table (TD_GUARD_RANGES) refuses more ranges. */
#ifndef TD_SERVER_MEMORY_FAULT_GUARD_H
#define TD_SERVER_MEMORY_FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_GUARD_RANGES = 65536 };

/* Installs the signal handler. Call once, before the first thread starts. */
void td_guard_install(void);

/* Guards [begin, begin + size), where `begin` is page-aligned. Returns the number of the range, or
 * -1 if the table is full. */
int td_guard_add(const void *begin, size_t size);
void td_guard_remove(int range); /* call before munmap; accepts -1 */

/* Reads the last page to record the end of the range's file. Call before other threads know the
 * range. */
void td_guard_watch_end(int range);

/* Marks the range if its file was truncated after td_guard_watch_end. Call after reading and before
 * td_guard_marked. Costs one load. Has no effect on -1 or a range that is not watched. */
void td_guard_look_at_end(int range);

/* Returns the number of guarded ranges: mapped files and regions of shared memory. */
int td_guard_ranges(void);

/* Marks a range, as a fault in it would, without changing its memory. Used for data that is known
 * to be damaged. */
void td_guard_mark(int range);

/* True if a fault occurred in this range, or if the range was marked. */
bool td_guard_marked(int range);

/* Returns the number of faults so far in all ranges. */
uint64_t td_guard_faults(void);

/* True if the address is in a marked range. Call only after td_guard_faults has changed, because
 * the function searches the table. */
bool td_guard_marked_at(const void *address);

#endif
