/* alias_file.h - the text of aliases.json.
 *
 *     {"aliases":{
 *     "movies":"movies@20261122"},
 *     "checksum":"xxh3-64:f00d5c2f1b2a3c4d"}
 *
 * The checksum, of the bytes before `"checksum"`, is the last member. A file that a person wrote may
 * have none.
 *
 * Errors  MALFORMED_REQUEST for a text that is no such document, has another checksum, or names what
 *         cannot be an alias or a version. */
#ifndef TD_SERVER_STORE_ALIAS_FILE_H
#define TD_SERVER_STORE_ALIAS_FILE_H

#include "api/json/string_map.h"
#include "server/store/alias_table.h"

/* Into the arena. TD_JSON_PADDING readable bytes need not follow the text. */
TD_MUST_CHECK td_status td_alias_file_read(const char *text, size_t bytes, struct td_arena *arena,
                                           struct td_string_map *aliases, struct td_error *err);

/* The stored aliases of a table as text, malloc'ed; NULL without memory. */
char *td_alias_file_text(const struct td_alias_table *table, size_t *bytes);

/* INVALID_ARGUMENT unless `name` can be an alias and `target`, unless NULL, a version. */
TD_MUST_CHECK td_status td_alias_check(const char *name, const char *target, struct td_error *err);

#endif
