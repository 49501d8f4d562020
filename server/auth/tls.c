#include "server/auth/tls.h"

#include "server/auth/secret_file.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct td_tls_identity {
    atomic_int references;
    uint64_t number; /* unique, starting at 1 */
    gnutls_certificate_credentials_t credentials;
    /* Authorities of the clients' certificates. NULL: clients are not asked for certificates. */
    gnutls_x509_trust_list_t clients;
    gnutls_datum_t ticket_key;
    struct td_tls_state state;
};

struct td_tls {
    struct td_tls_files files;
    pthread_mutex_t mutex; /* guards `identity` */
    struct td_tls_identity *identity;
    /* Number of the current identity, or 0 if clients need no certificate. */
    atomic_uint_fast64_t number;
    uint64_t last_number;
    atomic_uint_fast64_t completed, resumed, failed; /* handshakes */
};

/* Buffer for the message about a file that cannot be read or is invalid. */
struct report {
    char *message;
    size_t size;
};

static bool wrong(const struct report *report, const char *option, const char *path,
                  const char *what, int code)
{
    snprintf(report->message, report->size, "%s: %.300s %s: %s", option, path, what,
             gnutls_strerror(code));
    return false;
}

static gnutls_datum_t datum_of(const struct td_secret *file)
{
    return (gnutls_datum_t){ (unsigned char *)file->bytes, (unsigned)file->length };
}

/* ---- an identity ----------------------------------------------------------------------------- */

void td_tls_identity_unref(struct td_tls_identity *identity)
{
    if (!identity || atomic_fetch_sub(&identity->references, 1) > 1)
        return;
    if (identity->credentials)
        gnutls_certificate_free_credentials(identity->credentials);
    if (identity->clients)
        gnutls_x509_trust_list_deinit(identity->clients, 1);
    if (identity->ticket_key.data)
        gnutls_memset(identity->ticket_key.data, 0, identity->ticket_key.size);
    gnutls_free(identity->ticket_key.data);
    free(identity);
}

/* Reads the certificates and sets *n to their number. On failure, returns a negative error code of
 * GnuTLS and sets the message. */
static int read_certificates(const struct td_tls_files *files, gnutls_x509_crt_t **certificates,
                             unsigned *n, const struct report *report)
{
    struct td_secret file;
    if (!td_secret_read("tls-certificate", files->certificate, TD_TLS_FILE, &file, report->message,
                        report->size))
        return GNUTLS_E_FILE_ERROR;
    const gnutls_datum_t text = datum_of(&file);
    const int code = gnutls_x509_crt_list_import2(certificates, n, &text, GNUTLS_X509_FMT_PEM, 0);
    if (code < 0)
        (void)wrong(report, "tls-certificate", files->certificate, "has no PEM certificate", code);
    td_secret_free(&file);
    return code;
}

static bool read_key(const struct td_tls_files *files, gnutls_x509_privkey_t key, bool *exposed,
                     const struct report *report)
{
    struct td_secret file;
    if (!td_secret_read("tls-key", files->key, TD_TLS_FILE, &file, report->message, report->size))
        return false;
    *exposed = file.exposed;
    const gnutls_datum_t text = datum_of(&file);
    const int code = gnutls_x509_privkey_import2(key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    td_secret_free(&file);
    return code >= 0 || wrong(report, "tls-key", files->key, "has no unencrypted PEM key", code);
}

/* Reads the certificates and their key, and adds them to the identity's credentials. */
static bool read_pair(struct td_tls_identity *identity, const struct td_tls_files *files,
                      const struct report *report)
{
    gnutls_x509_crt_t *certificates = NULL;
    gnutls_x509_privkey_t key = NULL;
    unsigned n = 0;
    bool done = false;
    if (read_certificates(files, &certificates, &n, report) < 0)
        return false;
    if (gnutls_x509_privkey_init(&key) < 0 ||
        !read_key(files, key, &identity->state.key_is_exposed, report))
        goto done;
    identity->state.begins_s = gnutls_x509_crt_get_activation_time(certificates[0]);
    identity->state.expires_s = gnutls_x509_crt_get_expiration_time(certificates[0]);
    const int code =
        gnutls_certificate_set_x509_key(identity->credentials, certificates, (int)n, key);
    done = code >= 0 ||
           wrong(report, "tls-key", files->key, "is not the key of --tls-certificate", code);
done:
    for (unsigned i = 0; i < n; i++)
        gnutls_x509_crt_deinit(certificates[i]);
    gnutls_free(certificates);
    if (key)
        gnutls_x509_privkey_deinit(key);
    return done;
}

static bool read_authority(struct td_tls_identity *identity, const struct td_tls_files *files,
                           const struct report *report)
{
    struct td_secret file;
    if (!files->client_ca[0])
        return true;
    if (!td_secret_read("tls-client-ca", files->client_ca, TD_TLS_FILE, &file, report->message,
                        report->size))
        return false;
    const gnutls_datum_t text = datum_of(&file);
    int code = gnutls_x509_trust_list_init(&identity->clients, 0);
    if (code >= 0)
        code = gnutls_x509_trust_list_add_trust_mem(identity->clients, &text, NULL,
                                                    GNUTLS_X509_FMT_PEM, 0, 0);
    td_secret_free(&file);
    identity->state.asks_clients = true;
    if (code > 0)
        return true;
    return wrong(report, "tls-client-ca", files->client_ca, "has no PEM certificate",
                 code < 0 ? code : GNUTLS_E_NO_CERTIFICATE_FOUND);
}

static struct td_tls_identity *read_identity(const struct td_tls_files *files, uint64_t number,
                                             const struct report *report)
{
    struct td_tls_identity *identity = calloc(1, sizeof *identity);
    if (!identity)
        return NULL;
    atomic_init(&identity->references, 1);
    identity->number = number;
    if (gnutls_certificate_allocate_credentials(&identity->credentials) >= 0 &&
        gnutls_session_ticket_key_generate(&identity->ticket_key) >= 0 &&
        read_pair(identity, files, report) && read_authority(identity, files, report))
        return identity;
    td_tls_identity_unref(identity);
    return NULL;
}

/* ---- the current identity -------------------------------------------------------------------- */

static bool check_files(const struct td_tls_files *files, const struct report *report)
{
    const bool certificate = files->certificate[0], key = files->key[0];
    if (certificate && key)
        return true;
    snprintf(report->message, report->size, "%s: it is given, but %s missing; HTTPS needs both",
             certificate ? "tls-certificate"
             : key       ? "tls-key"
                         : "tls-client-ca",
             certificate ? "--tls-key is"
             : key       ? "--tls-certificate is"
                         : "--tls-certificate and --tls-key are");
    return false;
}

struct td_tls *td_tls_open(const struct td_tls_files *files, char *message, size_t size)
{
    const struct report report = { message, size };
    if (!check_files(files, &report))
        return NULL;
    snprintf(message, size, "tls-certificate: no memory");
    struct td_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    tls->files = *files;
    pthread_mutex_init(&tls->mutex, NULL);
    /* Only checks the string. The HTTP library sets the priorities of its sessions. */
    gnutls_priority_t unused;
    const int code = gnutls_priority_init(&unused, TD_TLS_PRIORITIES, NULL);
    if (code >= 0)
        gnutls_priority_deinit(unused);
    if (code < 0)
        snprintf(message, size, "tls-certificate: GnuTLS does not accept %s: %s", TD_TLS_PRIORITIES,
                 gnutls_strerror(code));
    else if (td_tls_reload(tls, message, size))
        return tls;
    td_tls_free(tls);
    return NULL;
}

bool td_tls_reload(struct td_tls *tls, char *message, size_t size)
{
    const struct report report = { message, size };
    snprintf(message, size, "tls-certificate: no memory");
    struct td_tls_identity *next = read_identity(&tls->files, tls->last_number + 1, &report);
    if (!next)
        return false;
    tls->last_number++;
    pthread_mutex_lock(&tls->mutex);
    struct td_tls_identity *before = tls->identity;
    tls->identity = next;
    atomic_store(&tls->number, next->clients ? next->number : 0);
    pthread_mutex_unlock(&tls->mutex);
    td_tls_identity_unref(before);
    return true;
}

void td_tls_free(struct td_tls *tls)
{
    if (!tls)
        return;
    td_tls_identity_unref(tls->identity);
    pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

static struct td_tls_identity *in_force(struct td_tls *tls)
{
    pthread_mutex_lock(&tls->mutex);
    struct td_tls_identity *identity = tls->identity;
    atomic_fetch_add(&identity->references, 1);
    pthread_mutex_unlock(&tls->mutex);
    return identity;
}

struct td_tls_state td_tls_state(struct td_tls *tls)
{
    struct td_tls_identity *identity = in_force(tls);
    struct td_tls_state state = identity->state;
    td_tls_identity_unref(identity);
    state.completed = atomic_load_explicit(&tls->completed, memory_order_relaxed);
    state.resumed = atomic_load_explicit(&tls->resumed, memory_order_relaxed);
    state.failed = atomic_load_explicit(&tls->failed, memory_order_relaxed);
    return state;
}

/* ---- sessions -------------------------------------------------------------------------------- */

struct td_tls_identity *td_tls_session_begin(struct td_tls *tls, struct gnutls_session_int *session)
{
    struct td_tls_identity *identity = in_force(tls);
    /* If allocation fails here, the handshake fails later. */
    (void)gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, identity->credentials);
    /* Without memory for the key, the session has no tickets. */
    (void)gnutls_session_ticket_enable_server(session, &identity->ticket_key);
    if (identity->clients) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
        /* Sends no names of authorities, because some clients would otherwise send no certificate
         * after a reload. */
        gnutls_certificate_send_x509_rdn_sequence(session, 1);
    }
    return identity;
}

void td_tls_count_complete(struct td_tls *tls, struct gnutls_session_int *session)
{
    atomic_fetch_add_explicit(&tls->completed, 1, memory_order_relaxed);
    if (gnutls_session_is_resumed(session))
        atomic_fetch_add_explicit(&tls->resumed, 1, memory_order_relaxed);
}

void td_tls_count_failed(struct td_tls *tls)
{
    atomic_fetch_add_explicit(&tls->failed, 1, memory_order_relaxed);
}

/* Reads the client's certificates. Returns their number, which is 0 if the client sent none, or a
 * negative error code of GnuTLS. */
static int client_chain(gnutls_session_t session, gnutls_x509_crt_t chain[TD_TLS_CHAIN])
{
    unsigned n = 0;
    const gnutls_datum_t *given = gnutls_certificate_get_peers(session, &n);
    int code = 0;
    if (!given)
        n = 0;
    if (n > TD_TLS_CHAIN)
        return GNUTLS_E_CERTIFICATE_LIST_UNSORTED;
    for (unsigned i = 0; i < n; i++) {
        code = gnutls_x509_crt_init(&chain[i]);
        if (code >= 0)
            code = gnutls_x509_crt_import(chain[i], &given[i], GNUTLS_X509_FMT_DER);
        if (code < 0)
            return code;
    }
    return (int)n;
}

/* Returns FORBIDDEN, with the reason, if the chain is not trusted. */
static td_status check_chain(gnutls_x509_trust_list_t clients, gnutls_x509_crt_t *chain, int n,
                             struct td_error *err)
{
    gnutls_typed_vdata_st purpose = {
        .type = GNUTLS_DT_KEY_PURPOSE_OID,
        .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT,
    };
    gnutls_datum_t reason = { NULL, 0 };
    unsigned status = GNUTLS_CERT_INVALID;
    const int code = gnutls_x509_trust_list_verify_crt2(clients, chain, (unsigned)n, &purpose, 1, 0,
                                                        &status, NULL);
    if (code >= 0 && status == 0)
        return TD_OK;
    if (code >= 0)
        (void)gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &reason, 0);
    td_error_set(err, TD_FORBIDDEN, "the client's certificate is refused: %.200s",
                 code < 0      ? gnutls_strerror(code)
                 : reason.data ? (const char *)reason.data
                               : "it is not trusted");
    gnutls_free(reason.data);
    return err->status;
}

td_status td_tls_check_client(struct td_tls *tls, struct gnutls_session_int *session,
                              uint64_t *checked, struct td_error *err)
{
    gnutls_x509_crt_t chain[TD_TLS_CHAIN] = { NULL };
    const uint64_t number = atomic_load_explicit(&tls->number, memory_order_acquire);
    if (number == 0 || *checked == number)
        return TD_OK;
    struct td_tls_identity *identity = in_force(tls);
    td_status status = TD_OK;
    const int n = identity->clients ? client_chain(session, chain) : 0;
    if (identity->clients && n > 0)
        status = check_chain(identity->clients, chain, n, err);
    else if (identity->clients)
        status = td_error_set(err, TD_FORBIDDEN,
                              n == 0 ? "the client has no certificate; this server needs one"
                                     : "the client's certificates cannot be read");
    if (status == TD_OK)
        *checked = identity->number;
    for (int i = 0; i < TD_TLS_CHAIN; i++)
        if (chain[i])
            gnutls_x509_crt_deinit(chain[i]);
    td_tls_identity_unref(identity);
    return status;
}
