/* version_folder_load.h - the steps in which a version folder is loaded: read and compare its
 * files, make the versions of its tensors, and publish them with its aliases.
 *
 * Ownership  The arena of the load holds the manifest, the contents and the tensors. Each load ends
 *            with td_folder_release, even after an error.
 * Threads    As in scan.h, with `scanning` held. */
#ifndef TD_SERVER_STORE_VERSION_FOLDER_LOAD_H
#define TD_SERVER_STORE_VERSION_FOLDER_LOAD_H

#include "server/store/aliases/alias_file.h"
#include "server/store/changes/writers.h"
#include "server/store/scan/manifest.h"

/* Tensor of the folder that is being loaded. */
struct td_folder_tensor {
    const struct td_data_tensor *found;
    const struct td_manifest_file *file;
    /* Identity of the file, including the file of keys. */
    const struct td_file_id *id;
    struct td_version *version;
};

/* A load of the version folder V. */
struct td_folder_load {
    struct td_store *store;
    const char *name; /* V */
    int folder;       /* descriptor of the folder */
    struct td_arena arena;
    char digest[TD_MANIFEST_DIGEST]; /* digest of the manifest */
    /* True if the folder has already set its aliases with this manifest. */
    bool known;
    /* True if the versions exist and are being made again. */
    bool again;
    struct td_manifest manifest;
    struct td_data_content *contents; /* contents of the files */
    struct td_folder_tensor *tensors;
    int n_tensors;
    /* Writer for all names of the folder. Its `version` is NULL until it has locked them. */
    struct td_writer writer;
};

/* Reads the manifest and maps the files of the folder, compares their sizes and, unless the
 * manifest is known, their SHA-256, and lists their tensors. */
TD_MUST_CHECK td_status td_folder_read(struct td_folder_load *load, struct td_error *err);

/* Locks the names of the folder and makes their versions. Returns CONFLICT if a name already has a
 * version, or is certainly in a file of the data folder itself. */
TD_MUST_CHECK td_status td_folder_make_versions(struct td_folder_load *load, struct td_error *err);

/* Publishes the versions and the aliases, or changes nothing on failure. */
TD_MUST_CHECK td_status td_folder_publish(struct td_folder_load *load, struct td_error *err);

/* Abandons the versions that are not published, unlocks the names, and frees the arena. */
void td_folder_release(struct td_folder_load *load);

/* True if the version is from the folder. */
bool td_folder_has_version(const struct td_version *version, const char *folder);

#endif
