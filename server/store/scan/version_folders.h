/* version_folders.h - version folders: a sub-folder V of the data folder with a manifest.json is
 * loaded as a whole or not at all.
 *
 *     V/manifest.json ─► read ─► files mapped, sizes and SHA-256 compared ─► versions made, not yet
 *     published ─► aliases checked and persisted ─► versions and aliases published at once
 *
 * Each tensor NAME in the files of the folder becomes NAME@V. A refused folder changes nothing. The
 * reason is logged and listed with the aliases, and the next scan tries again.
 *
 * A folder is refused if a file in the data folder itself certainly holds one of its names. Each
 * scan checks this again, because a restart would refuse the folder. A damaged file that only might
 * hold the name does not cause a refusal, because the content of the folder is certain: its files
 * match the digests in the manifest.
 *
 * The aliases of a folder are set once. aliases.json lists the folders whose aliases have been set,
 * so a restart does not undo later flips. aliases.json also has the digest of each manifest. At
 * startup, the server therefore compares only the sizes of a listed folder's files, unless it
 * verifies all files at startup. When a folder is removed, its versions are dropped.
 *
 * Threads    As in scan.h, with `scanning` held. The scan locks all names NAME@V of a folder V
 *            before it makes the versions. */
#ifndef TD_SERVER_STORE_VERSION_FOLDERS_H
#define TD_SERVER_STORE_VERSION_FOLDERS_H

#include "server/store/files/file_name.h"
#include "server/store/scan/scan_report.h"

#include <stdbool.h>

struct td_store;
struct td_version;

/* Finds the folders that have been removed. Called before the files are scanned, so a file can take
 * over the name of a version in a removed folder. The name then has a version at all times. */
void td_version_folders_find_gone(struct td_store *store);

/* True if the version is from a folder that td_version_folders_find_gone found to have been
 * removed. */
bool td_version_folder_has_gone(const struct td_store *store, const struct td_version *version);

/* Loads new folders, in natural order of their names, and drops the versions of removed folders.
 * `names` are the entries of the data folder that can be folders, and are sorted. */
void td_version_folders_scan(struct td_store *store, struct td_scan_report *report,
                             char (*names)[TD_FILE_NAME], int count);

/* True if the folder of this name is a known version folder, so a scan does not report it. */
bool td_version_folder_is_known(const struct td_store *store, const char *name);

/* Frees all folders. Called by td_store_free. */
void td_version_folders_free(struct td_store *store);

#endif
