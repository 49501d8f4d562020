/* call.h - the life of one request, from its headers to the last byte of its answer.
 *
 *     headers, body ──► decode ─► admit ─► compute ─► encode ──► reply sent ──► td_call_free
 *     I/O thread        I/O thread, or a worker while the        I/O thread
 *                       connection sleeps
 *
 * Ownership  One owner at a time: the I/O thread, then perhaps a worker, then the I/O thread.
 *            Everything the request needs lives in the call's arena and goes with it. The memory of
 *            freed calls is kept and reused; a call begins with nothing of the one before.
 * Threads    None of its own; `finished` tells the I/O side that a worker is done. */
#ifndef TD_SERVER_CALLS_CALL_H
#define TD_SERVER_CALLS_CALL_H

#include "api/message/message.h"
#include "server/calls/sources.h"
#include "server/compression/deflate.h"
#include "server/memory/populate.h"
#include "server/observe/statistics.h"
#include "server/workers/worker_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct td_services;
struct MHD_Connection;

#define TD_REQUEST_ID_SIZE 129

struct td_call;
struct td_device_call;

/* What is found out at admission, once. */
struct td_admission {
    /* By the task. */
    size_t output_bytes;  /* of an op's outputs */
    size_t encoded_bound; /* of the answer's bytes; strings count little */
    struct td_cost cost;  /* of compute */
    /* By the scheduler: estimates for a CPU. */
    uint64_t compute_ns, encode_ns;
};

/* Answers a request at once, from memory, into call->reply. */
typedef td_status td_handler(struct td_call *call);

/* What a request that may take a while does: the scheduler runs the stages, in this order, on the
 * I/O thread or on a worker. Each needs the one before, and NULL is one with nothing to do. On
 * failure call->error says why. */
struct td_task {
    /* Before the body, on the I/O thread: what can be told from path and headers. */
    td_status (*begin)(struct td_call *call);
    /* Then for each argument of the query, which is ignored where this is NULL. */
    td_status (*argument)(struct td_call *call, const char *name, size_t length, const char *value,
                          size_t value_length);

    td_status (*decode)(struct td_call *call); /* the body is plain: Content-Encoding is undone */
    /* May it be computed, and what will that take? Fills in what td_admission says of a task. */
    td_status (*admit)(struct td_call *call, struct td_admission *admission);
    td_status (*compute)(struct td_call *call, struct td_worker *worker);
    /* A resident table that is to be on the device before the answer is written, or NULL: of calls
     * that are `queued`. Whether it came there, td_device_call_is_done tells encode. */
    const struct td_tensor *(*upload)(const struct td_call *call);
    td_status (*encode)(struct td_call *call);

    bool on_device; /* may compute be left to a device? Then request has the op's arguments */

    /* After decode: how many bytes admit reads. NULL: none to speak of. */
    uint64_t (*admit_bytes)(const struct td_call *call);

    /* Once the answer is known and before it is sent; call->error tells what it is. */
    void (*ended)(struct td_call *call);
};

/* How errors are written. */
typedef enum td_style {
    TD_STYLE_PROBLEM, /* application/problem+json */
    TD_STYLE_OIP      /* as the Open Inference Protocol has them */
} td_style;

#define TD_PATH_ARGUMENTS 2

/* What the headers of a request said; texts live as long as the connection's request, and are NULL
 * where the header is absent. */
struct td_headers {
    const char *content_type;
    const char *content_encoding;
    const char *accept;
    const char *accept_encoding;
    const char *if_match, *if_none_match; /* as they came: see etag.h */
    const char *range, *if_range;
    const char *expect; /* the client waits for leave to send the body */
    const char *traceparent;
    const char *timeout_ms;
    size_t inference_header; /* Inference-Header-Content-Length; TD_OIP_NO_HEADER when absent */
    int64_t content_length;  /* -1: chunked or none */
    bool chunked;
};

/* Limits on bodies that are no numbers of bytes. */
#define TD_BODY_NONE   ((size_t)0)    /* whatever comes is dropped */
#define TD_BODY_ANY    SIZE_MAX       /* --max-body */
#define TD_BODY_TENSOR (SIZE_MAX - 1) /* --tensor-quota */

struct td_call {
    struct td_job job; /* first: the scheduler casts back */
    struct td_services *services;

    /* the connection, as far as a call needs to know it */
    struct MHD_Connection *connection;
    int socket;                             /* of a call that is queued; -1 otherwise */
    uint32_t body_pieces;                   /* in which the body has come so far */
    void (*finished)(struct td_call *call); /* after a worker is done: wakes the connection */

    /* the request */
    const char *method, *path;
    struct td_headers headers;
    const char *origin; /* of the page that sent it, where --allow-origin names it; else NULL */
    bool preflight;     /* the browser asks whether that page may send another request */
    char request_id[TD_REQUEST_ID_SIZE];
    td_style style;
    const char *arguments[TD_PATH_ARGUMENTS]; /* of the path, in the arena */
    const struct td_op *op;                   /* it is about; NULL for none */
    td_handler *handler;                      /* what is done: one of these two */
    const struct td_task *task;
    void *state;       /* the task's own, in the arena */
    size_t body_limit; /* of the route; may be one of TD_BODY_... */
    td_format body_format, reply_format;
    td_encoding encoding; /* which the answer may have, as the client likes, */
    bool negotiated;      /* where he was asked */
    bool encoded;         /* the body came compressed */
    bool queued; /* for a worker only: it may wait for a disk or another writer, or copies what is
                    shared */
    int64_t deadline_ns;
    int64_t start_by_ns; /* who still waits for a worker then is not begun; at most deadline_ns */
    const char *body;    /* TD_JSON_PADDING readable bytes follow */
    size_t body_bytes, body_capacity;
    size_t discarded;              /* body bytes read after the request was refused */
    struct td_buffer *body_buffer; /* NULL while the body is in the arena */
    struct td_pages_job pages;     /* the part of a large body's memory that was made last */
    struct td_sources sources;     /* of tensors that the body only names */
    struct td_admission admission; /* of an admitted call; written by the scheduler only */
    struct td_device_call *device; /* in the arena, for a call that goes to a device; else NULL */
    struct td_request request;

    /* the answer */
    bool accepted; /* counts in services->in_flight */
    bool answered; /* a worker has made the reply */
    bool lingers;  /* the answer comes before the body */
    bool sending;  /* counts in services->sending */
    bool close_connection;
    bool gone; /* the client hung up; nobody reads the answer */
    bool decoded, admitted, computed;
    struct td_error error;
    struct td_reply reply;
    struct td_times times;

    struct td_arena arena; /* its first block is that of the shell */
};

/* A call in the memory that it lives in. What is small lies in the block, which is not cleared from
 * call to call. */
enum { TD_CALL_BLOCK = 32 << 10 };
struct td_call_shell {
    struct td_call call; /* first: td_call_free casts back */
    struct td_call_shell *next_free;
    _Alignas(64) char block[TD_CALL_BLOCK];
};

/* A call with an empty arena; NULL without memory. */
struct td_call *td_call_new(struct td_services *services);

/* Lets go of all it holds and keeps the shell for the next one. NULL is fine. */
void td_call_free(struct td_call *call);

/* Frees the shells that are kept. */
void td_call_free_shells(struct td_services *services);

/* The stages of a call's task; each needs the one before. On failure call->error says why. */
TD_MUST_CHECK td_status td_call_decode(struct td_call *call);
TD_MUST_CHECK td_status td_call_admit(struct td_call *call, struct td_admission *admission);
TD_MUST_CHECK td_status td_call_compute(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_call_encode(struct td_call *call);

/* For admission: would so many bytes beside what the call holds already fit into the memory budget?
 */
TD_MUST_CHECK td_status td_call_admit_memory(struct td_call *call, size_t bytes);

/* Before a tensor is changed: memory for the short answer that tells of it, so that there is no error
 * for a change that has happened. */
TD_MUST_CHECK td_status td_call_reserve_answer(struct td_call *call);

/* Asked between the parts of a long computation: DEADLINE_EXCEEDED when the deadline has passed or
 * the client has left. context is the call. */
td_status td_call_stopped(void *context, struct td_error *err);

/* DEADLINE_EXCEEDED "the deadline passed <when>" where it had by the end of the last stage. */
TD_MUST_CHECK td_status td_call_late(struct td_call *call, const char *when);

/* What is being done, for messages: the op's name, or "the request". */
const char *td_call_subject(const struct td_call *call);

/* The largest body that may arrive: the route's limit, or less where the memory budget could never
 * hold so much. */
size_t td_call_body_limit(const struct td_call *call);

/* Has the client hung up? poll sees what a peek at the socket would miss: an end behind pipelined
 * bytes, and a reset, which a peek would swallow. A client that only closed its sending side looks
 * the same, so one that does so while its request waits in the queue gets no answer. */
bool td_call_client_left(const struct td_call *call);

/* Turns call->error into the reply, in the call's style. */
void td_call_refuse(struct td_call *call);

/* One line in the log, at debug; at warn when the answer is a 5xx. */
void td_call_log(const struct td_call *call);

#endif
