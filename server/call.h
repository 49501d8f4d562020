/* call.h - the life of one request, from its headers to the last byte of its answer.
 *
 *     headers, body ──► decode ─► admit ─► compute ─► encode ──► reply sent ──► td_call_free
 *     I/O thread        I/O thread, or a worker while the        I/O thread
 *                       connection sleeps
 *
 * Ownership  One owner at a time: the I/O thread, then perhaps a worker, then the I/O thread.
 *            Everything the request needs lives in the call's arena and goes with it; freed calls
 *            are kept and reused.
 * Threads    None of its own; `finished` tells the I/O side that a worker is done. */
#ifndef TD_SERVER_CALL_H
#define TD_SERVER_CALL_H

#include "api/message.h"
#include "server/worker_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct td_server;
struct MHD_Connection;

#define TD_REQUEST_ID_SIZE 129

struct td_call;

/* Answers a request that runs no op into call->reply. */
typedef td_status td_handler(struct td_call *call, const char *argument);

/* What the headers of a request said; texts live as long as the connection's request. */
struct td_headers {
    const char *content_type;
    const char *content_encoding;
    const char *accept;
    const char *traceparent;
    const char *timeout_ms;
    int64_t content_length; /* -1: chunked or none */
    bool chunked;
};

/* Where the time went, in nanoseconds. */
struct td_times {
    int64_t begun; /* clock readings: the headers were seen, */
    int64_t lap;   /* and the last stage ended; first of all, the body was complete */
    int64_t decode, queue, compute, encode; /* durations; admission counts as compute */
};

struct td_call {
    struct td_job job; /* first: the scheduler casts back */
    struct td_server *server;
    struct td_call *next_free;

    /* the connection, as far as a call needs to know it */
    struct MHD_Connection *connection;
    int socket;                             /* of a call that is queued; -1 otherwise */
    void (*finished)(struct td_call *call); /* after a worker is done: wakes the connection */

    /* the request */
    const char *method, *path;
    struct td_headers headers;
    char request_id[TD_REQUEST_ID_SIZE];
    const struct td_op *op; /* it is about; NULL for none */
    td_handler *handler;    /* answers when the body is there, in the place of the op; else NULL */
    size_t body_limit;      /* a handler's, below the server's; 0: the server's holds */
    td_format body_format, reply_format;
    bool encoded; /* the body came compressed */
    int64_t deadline_ns;
    const char *body; /* TD_JSON_PADDING readable bytes follow */
    size_t body_bytes, body_capacity;
    size_t discarded;              /* body bytes read after the request was refused */
    struct td_buffer *body_buffer; /* NULL while the body is in the arena */
    struct td_request request;

    /* the answer */
    bool accepted; /* counts in server->in_flight */
    bool answered; /* a worker has made the reply */
    bool sending;  /* counts in server->sending */
    bool close_connection;
    bool gone; /* the client hung up; nobody reads the answer */
    bool decoded, admitted;
    size_t encoded_bound; /* of the answer's bytes, as told at admission; strings count little */
    struct td_error error;
    struct td_reply reply;
    struct td_times times;

    struct td_arena arena;
    _Alignas(64) char first_block[32 << 10];
};

/* A call with an empty arena; NULL without memory. */
struct td_call *td_call_new(struct td_server *server);

/* Lets go of all it holds and keeps the shell for the next one. NULL is fine. */
void td_call_free(struct td_call *call);

/* Frees the shells that are kept. */
void td_call_free_shells(struct td_server *server);

/* Undoes the body's Content-Encoding; part of td_call_decode. */
TD_MUST_CHECK td_status td_call_expand(struct td_call *call);

/* Is there the device that the request asks for? Part of td_call_admit. */
TD_MUST_CHECK td_status td_call_check_device(struct td_call *call);

/* The stages of an op request; each needs the one before. On failure call->error says why. */
TD_MUST_CHECK td_status td_call_decode(struct td_call *call);
TD_MUST_CHECK td_status td_call_admit(struct td_call *call);
TD_MUST_CHECK td_status td_call_compute(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_call_encode(struct td_call *call);

/* The largest body that may arrive: --max-body, what the memory budget can hold at all, or the
 * handler's limit. */
size_t td_call_body_limit(const struct td_call *call);

/* Has the client hung up? poll sees what a peek at the socket would miss: an end behind pipelined
 * bytes, and a reset, which a peek would swallow. A client that only closed its sending side looks
 * the same, so one that does so while its request waits in the queue gets no answer. */
bool td_call_client_left(const struct td_call *call);

/* Turns call->error into the reply. */
void td_call_refuse(struct td_call *call);

/* One line in the log, at debug; at warn when the answer is a 5xx. */
void td_call_log(const struct td_call *call);

#endif
