/* transport_errors.h - problem documents for requests that have no call: requests that the library
 * refuses, and requests that were not complete in time.
 *
 * Threads  Any thread can call td_transport_refuse and td_transport_refuse_plain. The I/O thread
 *          calls the other functions. */
#ifndef TD_SERVER_HTTP_TRANSPORT_ERRORS_H
#define TD_SERVER_HTTP_TRANSPORT_ERRORS_H

struct MHD_Connection;
struct td_services;

/* Gives the library's own error replies on this thread request IDs and log lines of these services.
 * Call at the start of a connection. The replies are counted in the shard as MALFORMED_REQUEST with
 * status 400, because the library does not report their status. */
void td_transport_use(struct td_services *services, int shard);

/* Value of MHD_OPTION_URI_LOG_CALLBACK. Records whether the request being read belongs to /v1 or
 * /v2. */
void *td_transport_record_path(void *context, const char *path, struct MHD_Connection *connection);

/* Services and shard that count the errors of a thread. */
struct td_transport_errors {
    struct td_services *services;
    int shard; /* shard of the metrics */
};

/* Sends REQUEST_TIMEOUT with the sentence directly to the socket, because the library accepts no
 * reply before a request is complete. Used by td_progress_limits; `context` is a struct
 * td_transport_errors. */
void td_transport_refuse(void *context, int socket, const char *sentence);

/* Sends MALFORMED_REQUEST to a client that speaks HTTP where TLS is expected. */
void td_transport_refuse_plain(struct td_services *services, int socket);

#endif
