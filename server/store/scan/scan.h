/* scan.h - loads the data folder, at start and on rescan: new, changed and removed files.
 *
 * Threads    Any; one scan at a time. It enters as the writer of each name (writer_queue.h), so its
 *            thread waits for other writers. */
#ifndef TD_SERVER_STORE_SCAN_H
#define TD_SERVER_STORE_SCAN_H

#include <stdbool.h>

struct td_store;

/* A file or tensor that cannot be loaded is logged and skipped. False (logged) if the folder
 * cannot be read. */
bool td_store_scan(struct td_store *store);

/* Opens the folder again if it was replaced, tries for its lock, and scans it: if the folder was
 * replaced or the lock was taken, else only if `always`. */
void td_store_scan_again(struct td_store *store, bool always);

#endif
