/* tokens.h - the current tokens, and the token that each connection last presented.
 *
 * Ownership  A struct td_pass holds a reference to its list, and a copy of the token's text. The
 *            copy is wiped after use.
 * Threads    One thread calls open, reload and free. Any thread can call the other functions, but
 *            only one thread at a time can use a pass. */
#ifndef TD_SERVER_AUTH_TOKENS_H
#define TD_SERVER_AUTH_TOKENS_H

#include "server/auth/token_list.h"

struct td_tokens;

/* Reads the token file. Returns NULL, with the message set, if the file cannot be read or is
 * invalid. */
struct td_tokens *td_tokens_open(const char *path, char *message, size_t size);
/* Frees the tokens. Call after the last check. NULL is allowed. */
void td_tokens_free(struct td_tokens *tokens);

/* Reads the file again. If the file is invalid, returns false with the message set, and keeps the
 * current tokens. */
TD_MUST_CHECK bool td_tokens_reload(struct td_tokens *tokens, char *message, size_t size);

/* Return properties of the file when it was last read. */
int td_tokens_count(const struct td_tokens *tokens);
const struct td_bearer *td_tokens_after(const struct td_tokens *tokens, int line);
/* True if users other than the file's owner and group can read or change it. */
bool td_tokens_are_exposed(const struct td_tokens *tokens);

/* The token that a connection last presented. All zero if the connection has presented none. */
struct td_pass {
    /* List that contains the token. */
    struct td_token_list *list;
    const struct td_bearer *token;
    /* Copy of the token's text, or NULL if no memory was available for it. */
    char *text;
    size_t length;
};

/* Returns the current token with this text, or NULL if no token matches. The result is valid until
 * the next check or the end of the pass. Sets *renewed if the token was looked up again, which can
 * give another result than the last check. */
const struct td_bearer *td_pass_check(struct td_pass *pass, struct td_tokens *tokens,
                                      const char *text, size_t length, bool *renewed);
void td_pass_end(struct td_pass *pass);

#endif
