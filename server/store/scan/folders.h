/* folders.h - folders of versions: the sub-folder V of the data folder with a manifest.json is
 * taken whole or not at all.
 *
 *     V/manifest.json ─► read ─► files mapped, sizes and SHA-256 compared ─► versions made, not yet
 *     published ─► aliases checked and persisted ─► versions and aliases published at once
 *
 * Each tensor NAME of its files becomes NAME@V. A folder that is refused changes nothing; the
 * reason is logged and listed with the aliases, and the next scan tries again. No file beside the
 * folder may have one of its names for certain; each scan looks at that again, since a restart
 * would refuse the folder. A damaged file that only may have the name is no reason: the folder,
 * whose files have the digests of its manifest, is certain. The aliases of a folder are set once:
 * aliases.json says for which ones that is done, so a restart does not undo later flips. It has the
 * digest of the manifest, too: of a folder that was taken before, a start compares sizes only,
 * unless files are verified at the start. A folder that is removed takes its versions with it.
 *
 * Threads    Those of the scan, with `scanning` held. It enters as the writer of all names of a
 *            version before it makes versions. */
#ifndef TD_SERVER_STORE_FOLDERS_H
#define TD_SERVER_STORE_FOLDERS_H

#include "server/store/scan/scan_report.h"

#include <stdbool.h>

struct td_store;
struct td_version;

/* Before the files are scanned: finds the folders that are gone, so that a file takes the name of a
 * version of such a folder without a moment in which there is none. */
void td_folders_find_gone(struct td_store *store);

/* Whether the version is from a folder that was found gone. */
bool td_folder_has_gone(const struct td_store *store, const struct td_version *version);

/* Takes new folders, in natural order of their names, and drops what those that are gone held. */
void td_folders_scan(struct td_store *store, struct td_scan_report *report);

/* Whether the folder of this name is one of a version, so that a scan need not mention it. */
bool td_folder_is_known(const struct td_store *store, const char *name);

/* For td_store_free. */
void td_folders_free(struct td_store *store);

#endif
