/* tls.h - the server's certificate, and the authority that signs its clients'.
 *
 * What the files say is an identity. Files that were replaced make another one, for the handshakes
 * that begin then.
 *
 * A client is asked for a certificate but may connect without one, so that probes of the server's
 * health need none; td_tls_check_client decides about its requests.
 *
 * Ownership  An identity is shared, by references. Keys are wiped with the last one.
 * Threads    open, reload, free: one thread. The rest: any.
 * Errors     One sentence with the option and the file.
 * Source     RFC 8446, RFC 5246; by GnuTLS. */
#ifndef TD_SERVER_AUTH_TLS_H
#define TD_SERVER_AUTH_TLS_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gnutls_session_int; /* of gnutls_session_t */

enum {
    TD_TLS_FILE = 1 << 20, /* bytes of each file at most */
    TD_TLS_CHAIN = 8,      /* certificates of a client and those that sign it, at most */
    TD_TLS_SESSION_BYTES =
        24576 /* of memory that a connection takes, beside what it takes without TLS */
};

/* TLS 1.3, and 1.2 with forward secrecy, as a priority string of GnuTLS. */
#define TD_TLS_PRIORITIES                                                                          \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA:%SERVER_PRECEDENCE"

/* Paths, "" for none; PEM. The first two need each other. */
struct td_tls_files {
    const char *certificate; /* with those between it and the root, in this order */
    const char *key;         /* of the certificate, without a password */
    const char *client_ca;
};

struct td_tls;
struct td_tls_identity;

/* NULL with the message if a file cannot be read or is wrong. The paths are borrowed. */
struct td_tls *td_tls_open(const struct td_tls_files *files, char *message, size_t size);
void td_tls_free(struct td_tls *tls); /* NULL is fine */

/* Reads the files again. False with the message, and the identity stays, if one is wrong. */
TD_MUST_CHECK bool td_tls_reload(struct td_tls *tls, char *message, size_t size);

/* Of the identity in force. */
struct td_tls_state {
    int64_t begins_s, expires_s; /* seconds since 1970 */
    bool asks_clients;           /* for a certificate */
    bool key_is_exposed; /* others than its owner and its group can read or change its file */
    uint64_t completed, failed; /* handshakes */
};
struct td_tls_state td_tls_state(struct td_tls *tls);

/* Gives the session of a new connection the identity in force. The caller keeps the identity until
 * the handshake is complete. */
struct td_tls_identity *td_tls_session_begin(struct td_tls *tls,
                                             struct gnutls_session_int *session);

/* Counts a handshake. */
void td_tls_count(struct td_tls *tls, bool complete);

void td_tls_identity_unref(struct td_tls_identity *identity); /* NULL is fine */

/* Has the session's client a certificate that the authority in force has signed? FORBIDDEN if not.
 * *checked: the identity for which it had one; 0 at first. It is not asked for again before a
 * reload. Always OK if clients need none. */
TD_MUST_CHECK td_status td_tls_check_client(struct td_tls *tls, struct gnutls_session_int *session,
                                            uint64_t *checked, struct td_error *err);

#endif
