/* tls.h - the server's certificate, and the authority that signs the clients' certificates.
 *
 * An identity is the content of the files. Reloading the files makes a new identity, which later
 * handshakes use.
 *
 * With TLS 1.3, a client gets tickets, with which it can resume its session on a new connection
 * without the certificate. The identity has the key of the tickets, so a reload makes them
 * useless. GnuTLS derives from this key the keys that encrypt tickets, and changes them every few
 * hours. A resumed session has the client's certificate of the first session.
 *
 * A client is asked for a certificate but can connect without one, so health probes need no
 * certificate. td_tls_check_client decides whether the client's requests are accepted.
 *
 * Ownership  Identities are reference-counted. Releasing the last reference wipes the key.
 * Threads    One thread calls open, reload and free. Any thread can call the other functions.
 * Errors     One sentence that names the option and the file.
 * Source     RFC 8446 and RFC 5246, as implemented by GnuTLS. */
#ifndef TD_SERVER_AUTH_TLS_H
#define TD_SERVER_AUTH_TLS_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gnutls_session_int; /* of gnutls_session_t */

enum {
    TD_TLS_FILE = 1 << 20,       /* maximum size of each file in bytes */
    TD_TLS_CHAIN = 8,            /* maximum number of certificates in a client's chain */
    TD_TLS_SESSION_BYTES = 24576 /* memory in bytes that TLS adds to a connection */
};

/* GnuTLS priority string: TLS 1.3, and TLS 1.2 with forward secrecy, with authenticated ciphers.
 * The fastest come first: X25519, and AES-128, whose handshakes use SHA-256. Many processors have
 * instructions for SHA-256, but not for the SHA-384 of AES-256. TLS 1.2 has no tickets, for two
 * reasons: a stolen ticket key could decrypt recorded connections, and the client sends the last
 * message of a resumed handshake, after which the HTTP library would start another handshake. */
#define TD_TLS_PRIORITIES                                                                          \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA:"                                 \
    "-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305:+AES-256-GCM:"                                    \
    "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+GROUP-SECP521R1:"                 \
    "%SERVER_PRECEDENCE:%NO_TICKETS_TLS12"

/* Paths of PEM files, or "" for none. `certificate` and `key` must be set together. */
struct td_tls_files {
    const char *certificate; /* followed in the file by its intermediate certificates, in order */
    const char *key;         /* unencrypted private key of the certificate */
    const char *client_ca;
};

struct td_tls;
struct td_tls_identity;

/* Reads the files. Returns NULL, with the message set, if a file cannot be read or is invalid.
 * Borrows the paths. */
struct td_tls *td_tls_open(const struct td_tls_files *files, char *message, size_t size);
void td_tls_free(struct td_tls *tls); /* NULL is allowed */

/* Reads the files again. If a file is invalid, returns false with the message set, and keeps the
 * current identity. */
TD_MUST_CHECK bool td_tls_reload(struct td_tls *tls, char *message, size_t size);

/* State of the current identity, and counts of handshakes. */
struct td_tls_state {
    int64_t begins_s, expires_s; /* seconds since 1970 */
    bool asks_clients;           /* clients are asked for a certificate */
    bool key_is_exposed; /* users other than the key file's owner and group can read or change it */
    uint64_t completed, resumed, failed; /* handshakes; `completed` includes `resumed` */
};
struct td_tls_state td_tls_state(struct td_tls *tls);

/* Sets up a new connection's session with the current identity, and returns the identity. The
 * caller must hold the identity until the handshake is complete. */
struct td_tls_identity *td_tls_session_begin(struct td_tls *tls,
                                             struct gnutls_session_int *session);

/* Counts a handshake. */
void td_tls_count_complete(struct td_tls *tls, struct gnutls_session_int *session);
void td_tls_count_failed(struct td_tls *tls);

void td_tls_identity_unref(struct td_tls_identity *identity); /* NULL is allowed */

/* Returns FORBIDDEN unless the session's client has a certificate that the current authority
 * signed. Always returns OK if clients need no certificate. *checked, initially 0, is the number of
 * the identity that last accepted the client. The certificate is checked again only after a
 * reload. */
TD_MUST_CHECK td_status td_tls_check_client(struct td_tls *tls, struct gnutls_session_int *session,
                                            uint64_t *checked, struct td_error *err);

#endif
