/* scan.h - loads new, changed and removed files of the data folder, at startup and on a rescan.
 *
 * Threads    Any, but only one scan at a time. A scan locks each name that it changes
 *            (writer_queue.h), so its thread might wait for writers. */
#ifndef TD_SERVER_STORE_SCAN_H
#define TD_SERVER_STORE_SCAN_H

#include <stdbool.h>

struct td_store;

/* Scans the folder. A file or tensor that cannot be loaded is logged and skipped. Returns false,
 * and logs the reason, if the folder cannot be read. */
bool td_store_scan(struct td_store *store);

/* Reopens the folder if it was replaced, and tries to take its lock. Then scans the folder if it
 * was replaced, if the lock was taken, or if `always` is true. */
void td_store_scan_again(struct td_store *store, bool always);

#endif
