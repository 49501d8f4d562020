#include "server/calls/credentials.h"

#include <time.h>

enum { SOON_S = 14 * 24 * 3600 };

static void log_tokens(const struct td_services *services)
{
    td_log(&services->log, TD_LOG_INFO, "tokens_read", TD_TEXT("file", services->config.token_file),
           TD_INT("count", td_tokens_count(services->tokens)));
    if (td_tokens_are_exposed(services->tokens))
        td_log(&services->log, TD_LOG_WARN, "token_file_exposed",
               TD_TEXT("file", services->config.token_file),
               TD_TEXT("reason", "users other than its owner and group can read or change it"));
}

static void print_time(int64_t time_s, char text[32])
{
    const time_t time = (time_t)time_s;
    struct tm parts;
    if (!gmtime_r(&time, &parts) || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
}

/* Logs the certificate. The server uses the certificate even if it is not valid now, because
 * clients decide whether to accept it. */
static void log_certificate(const struct td_services *services)
{
    const struct td_tls_state state = td_tls_state(services->tls);
    const int64_t now = (int64_t)time(NULL);
    const char *file = services->config.tls_certificate;
    char expires[32];
    print_time(state.expires_s, expires);
    td_log(&services->log, TD_LOG_INFO, "certificate_read", TD_TEXT("file", file),
           TD_TEXT("expires", expires),
           TD_TEXT("client_ca", state.asks_clients ? services->config.tls_client_ca : NULL));
    if (now < state.begins_s || now - state.expires_s > -SOON_S)
        td_log(&services->log, TD_LOG_WARN, "certificate_expires", TD_TEXT("file", file),
               TD_TEXT("expires", expires),
               TD_TEXT("reason", now < state.begins_s     ? "it is not valid yet"
                                 : now >= state.expires_s ? "it has expired"
                                                          : "it expires within two weeks"));
    if (state.key_is_exposed)
        td_log(&services->log, TD_LOG_WARN, "key_exposed",
               TD_TEXT("file", services->config.tls_key),
               TD_TEXT("reason", "users other than its owner and group can read or change it"));
}

bool td_credentials_open(struct td_services *services, char *message, size_t size)
{
    const struct td_config *config = &services->config;
    if (config->token_file[0]) {
        services->tokens = td_tokens_open(config->token_file, message, size);
        if (!services->tokens)
            return false;
        log_tokens(services);
    }
    if (config->tls_certificate[0] || config->tls_key[0] || config->tls_client_ca[0]) {
        services->tls = td_tls_open(
            &(struct td_tls_files){
                .certificate = config->tls_certificate,
                .key = config->tls_key,
                .client_ca = config->tls_client_ca,
            },
            message, size);
        if (!services->tls)
            return false;
        log_certificate(services);
    }
    return true;
}

void td_credentials_reload(struct td_services *services)
{
    char message[TD_CONFIG_MESSAGE];
    const bool tokens =
        !services->tokens || td_tokens_reload(services->tokens, message, sizeof message);
    if (!tokens)
        td_log(&services->log, TD_LOG_ERROR, "tokens_kept", TD_TEXT("reason", message));
    else if (services->tokens)
        log_tokens(services);
    const bool certificate =
        !services->tls || td_tls_reload(services->tls, message, sizeof message);
    if (!certificate)
        td_log(&services->log, TD_LOG_ERROR, "certificate_kept", TD_TEXT("reason", message));
    else if (services->tls)
        log_certificate(services);
    atomic_store(&services->tokens_kept, !tokens);
    atomic_store(&services->certificate_kept, !certificate);
}

void td_credentials_close(struct td_services *services)
{
    td_tokens_free(services->tokens);
    td_tls_free(services->tls);
    services->tokens = NULL;
    services->tls = NULL;
}
