/* alias_file.h - the text of aliases.json.
 *
 *     {"aliases":{
 *     "movies":"movies@20261122"},
 *     "taken":{
 *     "20261122":"9f86d081…"},
 *     "checksum":"xxh3-64:f00d5c2f1b2a3c4d"}
 *
 * "taken", which is optional, lists the version folders whose aliases have been set, with the
 * SHA-256 of their manifests. "checksum" is the last member and covers all bytes before its name.
 * It can be missing from a file written by hand.
 *
 * Errors  MALFORMED_REQUEST if the text does not have this form, does not match its checksum, or
 *         has a name that cannot be an alias or a version. */
#ifndef TD_SERVER_STORE_ALIAS_FILE_H
#define TD_SERVER_STORE_ALIAS_FILE_H

#include "api/json/string_map.h"
#include "server/store/aliases/alias_list.h"

enum { TD_MANIFEST_DIGEST = 65 }; /* with its NUL */

struct td_taken_folder {
    char name[TD_TABLE_VERSION];
    char digest[TD_MANIFEST_DIGEST];
    bool stored; /* aliases.json lists the folder */
};

struct td_alias_file {
    struct td_string_map aliases, taken;
};

/* Parses the text into the arena. */
TD_MUST_CHECK td_status td_alias_file_read(const char *text, size_t bytes, struct td_arena *arena,
                                           struct td_alias_file *out, struct td_error *err);

/* Returns the text of aliases.json with these aliases and `n` taken folders, or NULL if no memory
 * is available. The caller frees the text. */
char *td_alias_file_text(const struct td_alias_list *list, const struct td_taken_folder *taken,
                         int n, size_t *bytes);

/* Returns INVALID_ARGUMENT if only one of the two valid names is the name of a program. */
TD_MUST_CHECK td_status td_alias_check_kind(const char *name, const char *target,
                                            struct td_error *err);

/* Returns INVALID_ARGUMENT unless `name` can be an alias and `target` is a version or NULL. */
TD_MUST_CHECK td_status td_alias_check(const char *name, const char *target, struct td_error *err);

#endif
