/* token_list.h - the tokens read from a token file.
 *
 * Stores a digest of each token, computed with HMAC-SHA-256 and a random key. One thread fills a
 * list and seals it. A sealed list does not change.
 *
 * Ownership  Lists are shared and reference-counted. Freeing a list wipes its content.
 * Threads    A sealed list can be used by any thread.
 * Cost       td_token_list_find: two blocks of SHA-256 and a binary search. */
#ifndef TD_SERVER_AUTH_TOKEN_LIST_H
#define TD_SERVER_AUTH_TOKEN_LIST_H

#include "server/auth/access.h"

#include <nettle/hmac.h>

struct td_token_list;

struct td_token_key {
    struct hmac_sha256_ctx hmac; /* HMAC context that already holds the key */
};

struct td_bearer {
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct td_access access;
    int line;         /* line number in the file */
    const char *name; /* name for logs; lives as long as the list */
};

/* Generates a random key. Returns false if no random bytes are available. */
TD_MUST_CHECK bool td_token_key_make(struct td_token_key *key);

/* Makes a list for at most `tokens` tokens, `prefixes` prefixes and `text_bytes` bytes of names
 * and prefixes. `text_bytes` includes a NUL for each name. Copies the key. Returns NULL if no
 * memory is available. */
struct td_token_list *td_token_list_new(const struct td_token_key *key, int tokens, int prefixes,
                                        size_t text_bytes);
struct td_token_list *td_token_list_ref(struct td_token_list *list);
void td_token_list_unref(struct td_token_list *list); /* NULL is allowed */

/* td_token_list_add adds a token. The functions below then add its name and its prefixes. */
void td_token_list_add(struct td_token_list *list, td_access_role role, int line, const char *token,
                       size_t length);
void td_token_list_set_name(struct td_token_list *list, const char *text, size_t length);
void td_token_list_add_prefix(struct td_token_list *list, const char *text, size_t length);

/* Sorts the tokens. If two tokens are equal, stores their line numbers and returns false. */
TD_MUST_CHECK bool td_token_list_seal(struct td_token_list *list, int *first, int *second);

int td_token_list_count(const struct td_token_list *list);

/* Returns the first token on a line after `line`, or NULL if there is none. Scans all tokens. */
const struct td_bearer *td_token_list_after(const struct td_token_list *list, int line);

/* Returns the entry of the token, or NULL if the list does not contain it. The entry lives as long
 * as the list. */
const struct td_bearer *td_token_list_find(const struct td_token_list *list, const char *token,
                                           size_t length);

#endif
