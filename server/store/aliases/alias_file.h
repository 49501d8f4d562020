/* alias_file.h - the text of aliases.json.
 *
 *     {"aliases":{
 *     "movies":"movies@20261122"},
 *     "taken":{
 *     "20261122":"9f86d081…"},
 *     "checksum":"xxh3-64:f00d5c2f1b2a3c4d"}
 *
 * "taken" has the folders of versions whose aliases have been set, and the SHA-256 of their
 * manifests; it may be absent. The checksum, of the bytes before `"checksum"`, is the last member.
 * A file that a person wrote may have none.
 *
 * Errors  MALFORMED_REQUEST for a text that is no such document, has another checksum, or names
 *         what cannot be an alias or a version. */
#ifndef TD_SERVER_STORE_ALIAS_FILE_H
#define TD_SERVER_STORE_ALIAS_FILE_H

#include "api/json/string_map.h"
#include "server/store/aliases/alias_table.h"

enum { TD_MANIFEST_DIGEST = 65 }; /* with its NUL */

struct td_taken_folder {
    char name[TD_TABLE_VERSION];
    char digest[TD_MANIFEST_DIGEST];
    bool stored; /* aliases.json has had it since this process has read or written that */
};

struct td_alias_file {
    struct td_string_map aliases, taken;
};

/* Into the arena. */
TD_MUST_CHECK td_status td_alias_file_read(const char *text, size_t bytes, struct td_arena *arena,
                                           struct td_alias_file *out, struct td_error *err);

/* The stored aliases of a table and `n` taken folders as text, malloc'ed; NULL without memory. */
char *td_alias_file_text(const struct td_alias_table *table, const struct td_taken_folder *taken,
                         int n, size_t *bytes);

/* INVALID_ARGUMENT unless `name` can be an alias and `target`, unless NULL, a version. */
TD_MUST_CHECK td_status td_alias_check(const char *name, const char *target, struct td_error *err);

#endif
