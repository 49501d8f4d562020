/* tls_output.h - gathers the TLS records of a reply, so that several are sent with one system call.
 *
 * The HTTP library encrypts the headers and each 16 KB of a body as separate records, and GnuTLS
 * passes each record to the transport on its own. Between two records of one reply there is no need
 * to send, because the library is about to encrypt more.
 *
 * A record is held only if more bytes of the reply follow it. The output knows the size of the body
 * but not the sizes of the records before encryption, which are smaller than the records. It counts
 * the larger sizes, so it stops holding records before the end of the body, never after it.
 *
 * Held records are charged to the memory budget. If it has no room, each record is sent at once.
 *
 * Ownership  The caller closes the socket, after the output was freed. Borrows the budget.
 * Threads    One at a time: the thread that performs the handshake, then the I/O thread.
 * Errors     A record that the socket does not accept fails with EAGAIN. GnuTLS passes it again.
 *            If the library ends the connection before the end of the reply, held records are
 *            lost, as bytes in the kernel's buffer can be. */
#ifndef TD_SERVER_HTTP_TLS_OUTPUT_H
#define TD_SERVER_HTTP_TLS_OUTPUT_H

#include <gnutls/gnutls.h>

#include <stddef.h>

struct td_buffer_pool;
struct td_tls_output;

enum { TD_TLS_HELD = 96 << 10 }; /* maximum number of held bytes */

/* Returns NULL if no memory is available. */
struct td_tls_output *td_tls_output_new(int socket, struct td_buffer_pool *budget);
void td_tls_output_free(struct td_tls_output *output); /* NULL is allowed */

/* Announces that the library will next send a reply with headers and a body of `size` bytes.
 * `output` can be NULL. */
void td_tls_output_expect(struct td_tls_output *output, size_t size);

/* The function for gnutls_transport_set_vec_push_function. The transport pointer is the output. */
ssize_t td_tls_output_push(gnutls_transport_ptr_t output, const giovec_t *parts, int n);

#endif
