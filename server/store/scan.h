/* scan.h - the data folder, at start and on request: which files are new, changed or gone, and
 * what that means for the tensors.
 *
 * Threads    Any; one scan at a time. For each name it is the writer (writers.h), so it waits
 *            for others, and must not run within an update. */
#ifndef TD_SERVER_STORE_SCAN_H
#define TD_SERVER_STORE_SCAN_H

#include <stdbool.h>

struct td_store;

/* What cannot be taken is logged and left out. False (logged) when the folder cannot be read. */
bool td_store_scan(struct td_store *store);

#endif
