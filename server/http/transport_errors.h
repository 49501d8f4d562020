/* transport_errors.h - the problem documents of requests that have no call: those that the library
 * refuses, and those that were not complete in time.
 *
 * Threads  td_transport_refuse and td_transport_refuse_plain on any thread, the others on the I/O
 *          thread. */
#ifndef TD_SERVER_HTTP_TRANSPORT_ERRORS_H
#define TD_SERVER_HTTP_TRANSPORT_ERRORS_H

struct MHD_Connection;
struct td_services;

/* At the start of a connection: the library's own error replies on this thread get ids of these
 * services, and log lines, and are counted in the shard as MALFORMED_REQUEST with status 400, since
 * the library does not tell the status. */
void td_transport_use(struct td_services *services, int shard);

/* For MHD_OPTION_URI_LOG_CALLBACK: records whether the request being read is one of /v1 or /v2. */
void *td_transport_record_path(void *context, const char *path, struct MHD_Connection *connection);

/* Where a thread counts the errors that it sends. */
struct td_transport_errors {
    struct td_services *services;
    int shard; /* of the metrics */
};

/* Sends a REQUEST_TIMEOUT with the sentence, past the library, which takes no reply before a
 * request is complete. For td_progress_limits; the context is a struct td_transport_errors. */
void td_transport_refuse(void *context, int socket, const char *sentence);

/* Sends a MALFORMED_REQUEST to a client that speaks HTTP where TLS is expected. */
void td_transport_refuse_plain(struct td_services *services, int socket);

#endif
