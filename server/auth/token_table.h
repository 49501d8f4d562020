/* token_table.h - the tokens of one state of the file.
 *
 * Holds digests, not tokens: HMAC-SHA-256 with a random key. A table is filled by one thread, then
 * sealed; it does not change after that.
 *
 * Ownership  Shared, by references. What it held is wiped when it is freed.
 * Threads    A sealed table: any.
 * Cost       find: two blocks of SHA-256 and a binary search. */
#ifndef TD_SERVER_AUTH_TOKEN_TABLE_H
#define TD_SERVER_AUTH_TOKEN_TABLE_H

#include "server/auth/access.h"

#include <nettle/hmac.h>

struct td_token_table;

struct td_token_key {
    struct hmac_sha256_ctx hmac; /* with the key set */
};

struct td_bearer {
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct td_access access;
    int line;         /* of the file */
    const char *name; /* for logs: that of the file, or "#LINE"; lives as long as the table */
};

/* False without random bytes. */
TD_MUST_CHECK bool td_token_key_make(struct td_token_key *key);

/* With room for so many tokens and prefixes and for `text_bytes` bytes of names and prefixes, each
 * name with its NUL; NULL without memory. The key is copied. */
struct td_token_table *td_token_table_new(const struct td_token_key *key, int tokens, int prefixes,
                                          size_t text_bytes);
struct td_token_table *td_token_table_ref(struct td_token_table *table);
void td_token_table_unref(struct td_token_table *table); /* NULL is fine */

/* Adds a token, then its name, if it has one, and its prefixes. */
void td_token_table_add(struct td_token_table *table, td_access_role role, int line,
                        const char *token, size_t length);
void td_token_table_set_name(struct td_token_table *table, const char *text, size_t length);
void td_token_table_add_prefix(struct td_token_table *table, const char *text, size_t length);

/* Sorts the tokens. False if two are equal: then *first and *second are their lines. */
TD_MUST_CHECK bool td_token_table_seal(struct td_token_table *table, int *first, int *second);

int td_token_table_count(const struct td_token_table *table);

/* The token of the first line after `line`; NULL: none. Looks at all tokens. */
const struct td_bearer *td_token_table_after(const struct td_token_table *table, int line);

/* NULL: none. Lives as long as the table. */
const struct td_bearer *td_token_table_find(const struct td_token_table *table, const char *token,
                                            size_t length);

#endif
