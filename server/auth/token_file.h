/* token_file.h - reads and checks the lines of --token-file.
 *
 *     # a comment
 *     ROLE TOKEN [name=NAME] [PREFIX...]
 *
 * ROLE is read, write or admin, TOKEN the characters of RFC 6750's b64token. NAME is what logs call
 * the token; several may have the same, such as the old and the new one of a holder. With prefixes
 * the token is for tables whose names begin with one of them. Words are separated by blanks and
 * tabs, lines end with LF or CR LF; a byte order mark at the start is ignored.
 *
 * Bounds     TD_TOKEN_LEAST to TD_TOKEN_MOST characters, TD_TOKENS tokens, TD_TOKEN_LINE bytes of a
 *            line, TD_TOKEN_FILE of a file, which must be a regular one. A file without a token is
 *            an error: it may be one that is being written.
 * Errors     One sentence with the file and the line, and no part of a token. */
#ifndef TD_SERVER_AUTH_TOKEN_FILE_H
#define TD_SERVER_AUTH_TOKEN_FILE_H

#include "server/auth/token_table.h"

enum {
    TD_TOKEN_LEAST = 16,
    TD_TOKEN_MOST = 512,
    TD_TOKENS = 10000,
    TD_TOKEN_NAME = 64,    /* characters of a name of a token */
    TD_TOKEN_PREFIX = 128, /* bytes of a prefix, as of a name of a tensor */
    TD_TOKEN_LINE = 4096,
    TD_TOKEN_FILE = 16 << 20
};

/* Is it one that the file may have? */
bool td_token_is_valid(const char *text, size_t length);

/* The table of the text of a file, which is called `name` in errors; NULL with the message. */
struct td_token_table *td_token_file_parse(const struct td_token_key *key, const char *name,
                                           const char *text, size_t bytes, char *message,
                                           size_t size);

/* The table of a file; NULL with the message. *exposed: others than its owner and its group can
 * read or change it. */
struct td_token_table *td_token_file_read(const struct td_token_key *key, const char *path,
                                          bool *exposed, char *message, size_t size);

#endif
