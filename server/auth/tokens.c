#include "server/auth/tokens.h"

#include "server/auth/token_file.h"

#include <nettle/memops.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_tokens {
    char *path;
    struct td_token_key key; /* never changes, because a token's digest identifies its client */
    bool exposed;
    /* Held while taking a reference to the table and while replacing the table. */
    pthread_mutex_t mutex;
    _Atomic(struct td_token_table *) table;
};

static struct td_token_table *take_table(struct td_tokens *tokens)
{
    pthread_mutex_lock(&tokens->mutex);
    struct td_token_table *table = td_token_table_ref(atomic_load(&tokens->table));
    pthread_mutex_unlock(&tokens->mutex);
    return table;
}

struct td_tokens *td_tokens_open(const char *path, char *message, size_t size)
{
    struct td_tokens *tokens = calloc(1, sizeof *tokens);
    snprintf(message, size, "token-file: no memory or no random bytes available");
    if (!tokens)
        return NULL;
    pthread_mutex_init(&tokens->mutex, NULL);
    tokens->path = strdup(path);
    if (tokens->path && td_token_key_make(&tokens->key) && td_tokens_reload(tokens, message, size))
        return tokens;
    td_tokens_free(tokens);
    return NULL;
}

void td_tokens_free(struct td_tokens *tokens)
{
    if (!tokens)
        return;
    td_token_table_unref(atomic_load(&tokens->table));
    pthread_mutex_destroy(&tokens->mutex);
    free(tokens->path);
    explicit_bzero(tokens, sizeof *tokens);
    free(tokens);
}

bool td_tokens_reload(struct td_tokens *tokens, char *message, size_t size)
{
    struct td_token_table *table =
        td_token_file_read(&tokens->key, tokens->path, &tokens->exposed, message, size);
    if (!table)
        return false;
    pthread_mutex_lock(&tokens->mutex);
    struct td_token_table *before = atomic_exchange(&tokens->table, table);
    pthread_mutex_unlock(&tokens->mutex);
    td_token_table_unref(before);
    return true;
}

int td_tokens_count(const struct td_tokens *tokens)
{
    return td_token_table_count(atomic_load(&tokens->table));
}

const struct td_bearer *td_tokens_after(const struct td_tokens *tokens, int line)
{
    return td_token_table_after(atomic_load(&tokens->table), line);
}

bool td_tokens_are_exposed(const struct td_tokens *tokens)
{
    return tokens->exposed;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* True if the text is the token of the last check. The pass holds a reference to its table, so no
 * other table can have the same address. */
static bool is_current(const struct td_pass *pass, struct td_tokens *tokens, const char *text,
                       size_t length)
{
    return pass->text && pass->length == length &&
           pass->table == atomic_load_explicit(&tokens->table, memory_order_acquire) &&
           memeql_sec(pass->text, text, length);
}

const struct td_bearer *td_pass_check(struct td_pass *pass, struct td_tokens *tokens,
                                      const char *text, size_t length, bool *renewed)
{
    *renewed = !is_current(pass, tokens, text, length);
    if (!*renewed)
        return pass->token;
    td_pass_end(pass);
    if (!td_token_is_valid(text, length))
        return NULL;
    struct td_token_table *table = take_table(tokens);
    const struct td_bearer *token = td_token_table_find(table, text, length);
    if (!token) {
        td_token_table_unref(table);
        return NULL;
    }
    char *copy = malloc(length); /* if allocation fails, every check looks the token up */
    if (copy)
        memcpy(copy, text, length);
    *pass = (struct td_pass){ table, token, copy, copy ? length : 0 };
    return token;
}

void td_pass_end(struct td_pass *pass)
{
    if (pass->text)
        explicit_bzero(pass->text, pass->length);
    free(pass->text);
    td_token_table_unref(pass->table);
    *pass = (struct td_pass){ 0 };
}
