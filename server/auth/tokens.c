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
    /* Held while taking a reference to the list and while replacing the list. */
    pthread_mutex_t mutex;
    _Atomic(struct td_token_list *) list;
};

static struct td_token_list *take_list(struct td_tokens *tokens)
{
    pthread_mutex_lock(&tokens->mutex);
    struct td_token_list *list = td_token_list_ref(atomic_load(&tokens->list));
    pthread_mutex_unlock(&tokens->mutex);
    return list;
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
    td_token_list_unref(atomic_load(&tokens->list));
    pthread_mutex_destroy(&tokens->mutex);
    free(tokens->path);
    explicit_bzero(tokens, sizeof *tokens);
    free(tokens);
}

bool td_tokens_reload(struct td_tokens *tokens, char *message, size_t size)
{
    struct td_token_list *list =
        td_token_file_read(&tokens->key, tokens->path, &tokens->exposed, message, size);
    if (!list)
        return false;
    pthread_mutex_lock(&tokens->mutex);
    struct td_token_list *before = atomic_exchange(&tokens->list, list);
    pthread_mutex_unlock(&tokens->mutex);
    td_token_list_unref(before);
    return true;
}

int td_tokens_count(const struct td_tokens *tokens)
{
    return td_token_list_count(atomic_load(&tokens->list));
}

const struct td_bearer *td_tokens_after(const struct td_tokens *tokens, int line)
{
    return td_token_list_after(atomic_load(&tokens->list), line);
}

bool td_tokens_are_exposed(const struct td_tokens *tokens)
{
    return tokens->exposed;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* True if the text is the token of the last check. The pass holds a reference to its list, so no
 * other list can have the same address. */
static bool is_current(const struct td_pass *pass, struct td_tokens *tokens, const char *text,
                       size_t length)
{
    return pass->text && pass->length == length &&
           pass->list == atomic_load_explicit(&tokens->list, memory_order_acquire) &&
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
    struct td_token_list *list = take_list(tokens);
    const struct td_bearer *token = td_token_list_find(list, text, length);
    if (!token) {
        td_token_list_unref(list);
        return NULL;
    }
    char *copy = malloc(length); /* if allocation fails, every check looks the token up */
    if (copy)
        memcpy(copy, text, length);
    *pass = (struct td_pass){ list, token, copy, copy ? length : 0 };
    return token;
}

void td_pass_end(struct td_pass *pass)
{
    if (pass->text)
        explicit_bzero(pass->text, pass->length);
    free(pass->text);
    td_token_list_unref(pass->list);
    *pass = (struct td_pass){ 0 };
}
