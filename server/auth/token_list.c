#include "server/auth/token_list.h"

#include <nettle/memops.h>
#include <nettle/version.h>
#include <sys/random.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct td_token_list {
    atomic_int references;
    struct td_token_key key;
    int n_tokens, n_prefixes;
    size_t n_text;
    size_t tokens_bytes;
    struct td_bearer *tokens;
    struct td_prefix *prefixes;
    /* Text of the prefixes and names. */
    char *text;
};

bool td_token_key_make(struct td_token_key *key)
{
    uint8_t bytes[SHA256_DIGEST_SIZE];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    hmac_sha256_set_key(&key->hmac, sizeof bytes, bytes);
    explicit_bzero(bytes, sizeof bytes);
    return true;
}

static void make_digest(const struct td_token_key *key, const char *token, size_t length,
                        uint8_t digest[SHA256_DIGEST_SIZE])
{
    struct hmac_sha256_ctx hmac = key->hmac;
    hmac_sha256_update(&hmac, length, (const uint8_t *)token);
#if NETTLE_VERSION_MAJOR >= 4
    hmac_sha256_digest(&hmac, digest);
#else
    hmac_sha256_digest(&hmac, SHA256_DIGEST_SIZE, digest);
#endif
    explicit_bzero(&hmac, sizeof hmac); /* the context contains a block of the token, so wipe it */
}

struct td_token_list *td_token_list_new(const struct td_token_key *key, int tokens, int prefixes,
                                        size_t text_bytes)
{
    struct td_token_list *list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    atomic_init(&list->references, 1);
    list->key = *key;
    list->tokens_bytes = (size_t)(tokens + 1) * sizeof *list->tokens;
    list->tokens = calloc(1, list->tokens_bytes);
    list->prefixes = calloc((size_t)prefixes + 1, sizeof *list->prefixes);
    list->text = malloc(text_bytes + 1);
    if (list->tokens && list->prefixes && list->text)
        return list;
    td_token_list_unref(list);
    return NULL;
}

struct td_token_list *td_token_list_ref(struct td_token_list *list)
{
    atomic_fetch_add_explicit(&list->references, 1, memory_order_relaxed);
    return list;
}

/* Acquire-release order lets the thread that frees the list see what other threads did with it. */
void td_token_list_unref(struct td_token_list *list)
{
    if (!list || atomic_fetch_sub_explicit(&list->references, 1, memory_order_acq_rel) > 1)
        return;
    if (list->tokens)
        explicit_bzero(list->tokens, list->tokens_bytes);
    free(list->tokens);
    free(list->prefixes);
    free(list->text);
    explicit_bzero(list, sizeof *list);
    free(list);
}

void td_token_list_add(struct td_token_list *list, td_access_role role, int line, const char *token,
                       size_t length)
{
    struct td_bearer *added = &list->tokens[list->n_tokens++];
    make_digest(&list->key, token, length, added->digest);
    added->access =
        (struct td_access){ .role = role, .prefixes = &list->prefixes[list->n_prefixes] };
    added->line = line;
    added->name = "";
}

void td_token_list_set_name(struct td_token_list *list, const char *text, size_t length)
{
    char *name = list->text + list->n_text;
    memcpy(name, text, length);
    name[length] = '\0';
    list->n_text += length + 1;
    list->tokens[list->n_tokens - 1].name = name;
}

void td_token_list_add_prefix(struct td_token_list *list, const char *text, size_t length)
{
    char *copy = list->text + list->n_text;
    memcpy(copy, text, length);
    list->n_text += length;
    list->prefixes[list->n_prefixes++] = (struct td_prefix){ copy, length };
    list->tokens[list->n_tokens - 1].access.n_prefixes++;
}

static int by_digest(const void *a, const void *b)
{
    const struct td_bearer *left = a, *right = b;
    const int order = memcmp(left->digest, right->digest, sizeof left->digest);
    return order ? order : left->line - right->line;
}

bool td_token_list_seal(struct td_token_list *list, int *first, int *second)
{
    qsort(list->tokens, (size_t)list->n_tokens, sizeof *list->tokens, by_digest);
    for (int i = 1; i < list->n_tokens; i++) {
        const struct td_bearer *before = &list->tokens[i - 1], *token = &list->tokens[i];
        if (memcmp(before->digest, token->digest, sizeof token->digest) != 0)
            continue;
        *first = before->line;
        *second = token->line;
        return false;
    }
    return true;
}

int td_token_list_count(const struct td_token_list *list)
{
    return list->n_tokens;
}

const struct td_bearer *td_token_list_after(const struct td_token_list *list, int line)
{
    const struct td_bearer *first = NULL;
    for (int i = 0; i < list->n_tokens; i++) {
        const struct td_bearer *token = &list->tokens[i];
        if (token->line > line && (!first || token->line < first->line))
            first = token;
    }
    return first;
}

/* The duration of the search can depend on the digest, which clients cannot predict. */
const struct td_bearer *td_token_list_find(const struct td_token_list *list, const char *token,
                                           size_t length)
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    /* The index of the first digest that is not less than `digest` is in [low, high]. */
    int low = 0, high = list->n_tokens;
    make_digest(&list->key, token, length, digest);
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (memcmp(list->tokens[middle].digest, digest, sizeof(uint64_t)) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct td_bearer *found = NULL;
    for (; low < list->n_tokens && !found; low++) {
        const struct td_bearer *candidate = &list->tokens[low];
        if (memeql_sec(candidate->digest, digest, sizeof digest))
            found = candidate;
        else if (memcmp(candidate->digest, digest, sizeof(uint64_t)) != 0)
            break;
    }
    explicit_bzero(digest, sizeof digest);
    return found;
}
