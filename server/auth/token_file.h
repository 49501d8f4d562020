/* token_file.h - reads and checks the lines of --token-file.
 *
 *     # a comment
 *     ROLE TOKEN [name=NAME] [PREFIX...]
 *
 * ROLE is read, write or admin. TOKEN consists of the characters of RFC 6750's b64token. NAME
 * identifies the token in logs; several tokens can have the same name, such as the old and the new
 * token of one user. A token without a name has the name #LINE in logs. A token with prefixes is
 * valid only for tables whose names start with one of its prefixes. Words are separated by blanks
 * and tabs. Lines end with LF or CR LF. A byte order mark at the start is ignored.
 *
 * Bounds     A token has TD_TOKEN_LEAST to TD_TOKEN_MOST characters, a line at most TD_TOKEN_LINE
 *            bytes. The file must be a regular file with at most TD_TOKENS tokens and TD_TOKEN_FILE
 *            bytes. A file without a token is an error, because another process might still be
 *            writing it.
 * Errors     Each message names the file and the line, and contains no part of a token. */
#ifndef TD_SERVER_AUTH_TOKEN_FILE_H
#define TD_SERVER_AUTH_TOKEN_FILE_H

#include "server/auth/token_list.h"

enum {
    TD_TOKEN_LEAST = 16,
    TD_TOKEN_MOST = 512,
    TD_TOKENS = 10000,
    TD_TOKEN_NAME = 64,    /* maximum length of a token's name */
    TD_TOKEN_PREFIX = 128, /* maximum size of a prefix in bytes, the same as for a tensor's name */
    TD_TOKEN_LINE = 4096,
    TD_TOKEN_FILE = 16 << 20
};

/* True if the text is a token that a token file can contain. */
bool td_token_is_valid(const char *text, size_t length);

/* Parses the text of a token file. `name` is the file's name in error messages. Returns NULL, with
 * the message set, if the text is invalid. */
struct td_token_list *td_token_file_parse(const struct td_token_key *key, const char *name,
                                          const char *text, size_t bytes, char *message,
                                          size_t size);

/* Reads and parses a token file. Returns NULL, with the message set, on failure. Sets *exposed if
 * users other than the file's owner and group can read or change it. */
struct td_token_list *td_token_file_read(const struct td_token_key *key, const char *path,
                                         bool *exposed, char *message, size_t size);

#endif
