/* tokens.h - the tokens in force, and the one that a connection presented last.
 *
 * Ownership  A pass holds a reference to its table and the text of a token, which is wiped.
 * Threads    open, reload, free: one thread. The rest: any, each pass one at a time. */
#ifndef TD_SERVER_AUTH_TOKENS_H
#define TD_SERVER_AUTH_TOKENS_H

#include "server/auth/token_table.h"

struct td_tokens;

/* NULL with the message if the file cannot be read or is wrong. */
struct td_tokens *td_tokens_open(const char *path, char *message, size_t size);
void td_tokens_free(struct td_tokens *tokens); /* after the last check; NULL is fine */

/* Reads the file again. False with the message, and the tokens stay, if it is wrong. */
TD_MUST_CHECK bool td_tokens_reload(struct td_tokens *tokens, char *message, size_t size);

/* As they were read last. */
int td_tokens_count(const struct td_tokens *tokens);
const struct td_bearer *td_tokens_after(const struct td_tokens *tokens, int line);
bool td_tokens_are_exposed(const struct td_tokens *tokens); /* others can read the file */

/* The token that a connection presented last. Zeros: none. */
struct td_pass {
    struct td_token_table *table; /* in which it was found */
    const struct td_bearer *token;
    char *text; /* NULL: not remembered, for want of memory */
    size_t length;
};

/* The token with this text that is in force, until the next check or the end of the pass; NULL:
 * none. *renewed: it was looked up, and the last check may have had another. */
const struct td_bearer *td_pass_check(struct td_pass *pass, struct td_tokens *tokens,
                                      const char *text, size_t length, bool *renewed);
void td_pass_end(struct td_pass *pass);

#endif
