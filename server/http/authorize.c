#include "server/http/authorize.h"

#include "server/calls/services.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

/* Returns the text after "Bearer ", or NULL if the header is missing or uses another scheme. */
static const char *bearer(const struct td_call *call)
{
    static const char scheme[] = "Bearer ";
    const char *text = call->headers.authorization;
    if (!text || strncasecmp(text, scheme, sizeof scheme - 1) != 0)
        return NULL;
    text += sizeof scheme - 1;
    return text + strspn(text, " ");
}

/* Returns the client that holds the token. The key is the second half of the digest, because tokens
 * are sorted by the first half. */
static struct td_client *holder_of(struct td_clients *clients, const struct td_bearer *token)
{
    const struct td_client_key key =
        td_client_key_of_token(token->digest + sizeof token->digest / 2);
    return td_clients_find(clients, &key);
}

/* Returns the token of the call, and makes the token's holder the call's client. Returns NULL, with
 * the error set, if the token is missing or unknown. */
static const struct td_bearer *find_token(struct td_call *call, struct td_connection *record)
{
    struct td_services *services = call->services;
    const char *text = bearer(call);
    bool renewed;
    const struct td_bearer *token =
        text ? td_pass_check(&record->pass, services->tokens, text, strlen(text), &renewed) : NULL;
    if (!token) {
        td_error_set(&call->error, TD_UNAUTHENTICATED, "%s; expected Authorization: Bearer TOKEN",
                     text ? "the token is unknown" : "the request has no token");
        return NULL;
    }
    call->sender.token = token->name;
    if (renewed || !record->holder) {
        td_client_unref(record->holder);
        record->holder = holder_of(services->clients, token);
    }
    if (record->holder) { /* if allocation fails, the client remains the address or user */
        td_client_unref(call->client);
        call->client = td_client_ref(record->holder);
    }
    return token;
}

/* Checks the client's certificate if the server requires one. Unix sockets have no TLS: their file
 * permissions decide who can connect. */
static td_status check_certificate(struct td_call *call, struct td_connection *record)
{
    struct td_tls *tls = call->services->tls;
    if (!tls || record->is_unix)
        return TD_OK;
    return td_tls_check_client(
        tls,
        MHD_get_connection_info(call->http.connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)
            ->tls_session,
        &record->tls_checked, &call->error);
}

td_status td_authorize(struct td_call *call, struct td_connection *record)
{
    const struct td_services *services = call->services;
    struct td_access *access = &call->catalog.access;
    if (call->http.role == TD_ACCESS_NONE)
        return TD_OK;
    const td_status status = check_certificate(call, record);
    if (status != TD_OK)
        return status;
    *access = (struct td_access){ .role = TD_ACCESS_ADMIN };
    if (services->tokens) {
        const struct td_bearer *token = find_token(call, record);
        if (!token)
            return call->error.status;
        *access = token->access;
    }
    access->read_only = services->config.read_only;
    return td_access_need_role(access, call->http.role, &call->error);
}

const char *td_authorize_challenge(const struct td_call *call)
{
    return bearer(call) ? "Bearer realm=\"tensord\", error=\"invalid_token\""
                        : "Bearer realm=\"tensord\"";
}
