/* call.h - one request, from its headers to the last byte of its reply.
 *
 *     headers, body ─► decode ─► admit ─► compute ─► change ─► encode ─► reply sent ─► td_call_free
 *     I/O thread       I/O thread, or a worker while the connection      I/O thread
 *                      is suspended; a change that may wait for a disk
 *                      is made by a thread for disks
 *
 * Ownership  One owner at a time: the I/O thread, then perhaps a worker, then the I/O thread.
 *            All that the request needs is in the call's arena and is freed with it. The memory of
 *            freed calls is kept and reused; a call holds nothing of the previous one.
 * Threads    None of its own; `finished` notifies the I/O side that a worker is done. */
#ifndef TD_SERVER_CALLS_CALL_H
#define TD_SERVER_CALLS_CALL_H

#include "api/message/message.h"
#include "server/auth/access.h"
#include "server/calls/sources.h"
#include "server/calls/tables.h"
#include "server/clients/sender.h"
#include "server/compression/deflate.h"
#include "server/memory/populate.h"
#include "server/observe/metrics.h"
#include "server/store/changes/writer_queue.h"
#include "server/workers/worker_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct td_client;
struct td_services;
struct MHD_Connection;

#define TD_REQUEST_ID_SIZE 129

struct td_call;
struct td_away;

/* Costs of a call, computed once, at admission. */
struct td_admission {
    /* By the task. */
    size_t output_bytes;  /* of an op's outputs */
    size_t encoded_bound; /* of the reply; strings count little */
    struct td_cost cost;  /* of compute */
    /* By the scheduler: estimates for a CPU. */
    uint64_t compute_ns, encode_ns;
};

/* Answers a request at once, without blocking, into call->reply. */
typedef td_status td_handler(struct td_call *call);

/* Where a call changes something. */
typedef enum td_effect { TD_EFFECT_NONE, TD_EFFECT_MEMORY, TD_EFFECT_DISK } td_effect;

/* The stages of a task, in this order. A call that changes nothing stays at TD_NEXT_CHANGE while it
 * is encoded. */
typedef enum td_stage {
    TD_NEXT_DECODE,
    TD_NEXT_ADMIT,
    TD_NEXT_COMPUTE,
    TD_NEXT_CHANGE,
    TD_NEXT_ENCODE
} td_stage;

/* What a request runs, as stages. The scheduler runs them in this order, on the I/O thread or on a
 * worker. Each requires the one before; NULL: nothing to do. On failure call->error is set. */
struct td_task {
    /* Before the body, on the I/O thread: checks path and headers. */
    td_status (*begin)(struct td_call *call);
    /* Then for each argument of the query; NULL: the query is ignored. */
    td_status (*argument)(struct td_call *call, const char *name, size_t length, const char *value,
                          size_t value_length);

    /* The body is already decompressed. May be called twice: what it adds to call->request is
     * undone in between. Resident tensors that the request refers to are looked up here only. */
    td_status (*decode)(struct td_call *call);
    /* Checks limits and fills in the task's part of td_admission. */
    td_status (*admit)(struct td_call *call, struct td_admission *admission);
    td_status (*compute)(struct td_call *call, struct td_worker *worker);
    /* What the call changes: describes the writer that it needs, except for its deadline and
     * ready(). NULL: nothing. */
    td_effect (*effect)(struct td_call *call, struct td_writer *writer);
    /* Makes the change, once the writer has entered. Of must_queue calls only. */
    td_status (*change)(struct td_call *call, struct td_worker *worker);
    /* The resident table to upload to the device before encode, or NULL. Of must_queue calls only.
     * The call is TD_AWAY_DONE then if it is there. */
    const struct td_tensor *(*upload)(const struct td_call *call);
    td_status (*encode)(struct td_call *call);

    bool on_device; /* may compute run on a device? Then request has the op's arguments */

    /* After decode: how many bytes admit reads. NULL: few. */
    uint64_t (*admit_bytes)(const struct td_call *call);
};

/* How errors are written. */
typedef enum td_style {
    TD_STYLE_PROBLEM, /* application/problem+json */
    TD_STYLE_OIP      /* the Open Inference Protocol's */
} td_style;

#define TD_PATH_ARGUMENTS 2

/* The headers of a request. Texts live as long as the connection's request; NULL: absent. */
struct td_headers {
    const char *content_type;
    const char *authorization; /* never logged, nor in an error */
    const char *content_encoding;
    const char *accept;
    const char *accept_encoding;
    const char *if_match, *if_none_match; /* not parsed: see precondition.h */
    const char *range, *if_range;
    const char *expect;        /* the client waits for 100 Continue before the body */
    const char *forwarded_for; /* believed from trusted proxies only: see proxies.h */
    const char *traceparent;   /* not parsed: see trace_context.h; "" if there are several */
    const char *timeout_ms;
    size_t inference_header; /* Inference-Header-Content-Length; TD_OIP_NO_HEADER when absent */
    int64_t content_length;  /* -1: chunked or none */
    bool chunked;
};

/* Special limits on bodies. */
#define TD_BODY_NONE   ((size_t)0)    /* a body is dropped */
#define TD_BODY_ANY    SIZE_MAX       /* --max-body */
#define TD_BODY_TENSOR (SIZE_MAX - 1) /* --tensor-quota */

/* A resident table that the path names: the first input of the op. */
struct td_path_table {
    const char *name;    /* in the arena; NULL: the path names none */
    const char *model;   /* of a path of /v2, which names a model: the name and, if it has one, */
    const char *version; /* the version in it; NULL otherwise */
    bool known;          /* the model has been found */
    const char *found;   /* "NAME@VERSION" of what the name was; NULL: not bound yet */
    int place;           /* in the metrics, plus one; 0: not bound yet */
};

/* What only server/http uses. */
struct td_call_http {
    struct MHD_Connection *connection;
    const char *route;   /* the pattern that the path matches; NULL: none */
    td_access_role role; /* that the route needs */
    const char *origin;  /* of the page that sent it, if --allow-origin names it; else NULL */
    bool preflight;      /* a CORS preflight */

    uint32_t body_chunks;            /* in which the body has arrived so far */
    size_t discarded;                /* body bytes read after the request was refused */
    struct td_populate_job populate; /* the range of a large body's memory populated last */

    bool accepted; /* counts in services->in_flight */
    bool answered; /* a worker has made the reply */
    bool lingers;  /* the reply is sent before the body has arrived */
    bool replied;  /* the reply was passed to the HTTP library */
    bool close_connection;
};

/* What the scheduler decides by. */
struct td_call_schedule {
    td_stage next;   /* the stage of the task that is to come */
    bool must_queue; /* for a worker only: it changes something, or copies shared memory */
    int64_t deadline_ns;
    int64_t start_by_ns; /* not begun by a worker after this, nor after the deadline */

    struct td_admission admission; /* of an admitted call; set by the scheduler only */
    struct td_away *away;          /* of a call placed elsewhere (away.h); else NULL */
    td_effect effect;              /* of its change, once that is about to be made */
    struct td_writer writer;       /* of its change */
    struct td_refusal refusal;
    int64_t refusal_due_ns; /* of a refused call whose reply is delayed; 0 otherwise */
};

/* What client_limits.h counts. */
struct td_call_limits {
    bool counted;   /* in client->requests */
    size_t charged; /* of client->memory_bytes */
};

struct td_call {
    struct td_job job; /* first: the scheduler casts back */
    struct td_services *services;
    struct td_call_http http;
    struct td_call_schedule schedule;

    /* the client */
    struct td_sender sender;  /* for logs and spans */
    struct td_client *client; /* that limits and turns count the call for */
    struct td_call_limits limits;
    int socket;                             /* of a call that is queued; -1 otherwise */
    void (*finished)(struct td_call *call); /* after a worker is done: wakes the connection */
    bool gone;                              /* the client has disconnected; no reply is sent */

    /* the request */
    const char *method, *path;
    struct td_headers headers;
    struct td_tables tables; /* that it may use, and the role that it has */
    char request_id[TD_REQUEST_ID_SIZE];
    td_style style;
    const char *arguments[TD_PATH_ARGUMENTS]; /* of the path, in the arena */
    struct td_path_table table;
    const struct td_op *op; /* NULL: none */
    td_handler *handler;    /* one of handler and task is set */
    const struct td_task *task;
    void *state;       /* the task's own, in the arena */
    size_t body_limit; /* of the route; may be one of TD_BODY_... */
    int operation;     /* enum td_operation, for metrics */
    td_format body_format, reply_format;
    td_encoding encoding; /* of the reply, as the client prefers, */
    bool negotiated;      /* if it is negotiated */
    bool encoded;         /* the body arrived compressed */
    const char *body;     /* TD_JSON_PADDING readable bytes follow */
    size_t body_bytes, body_capacity;
    struct td_buffer *body_buffer; /* NULL while the body is in the arena */
    struct td_sources sources;     /* tensors that the body only names */
    struct td_request request;

    /* the reply */
    bool unsent; /* counts in services->unsent */
    struct td_error error;
    struct td_reply reply;
    struct td_times times;

    struct td_arena arena; /* its first block is in the shell */
};

/* The memory of a call. Small allocations are in the block, which is not cleared between calls. */
enum { TD_CALL_BLOCK = 32 << 10 };
struct td_call_shell {
    struct td_call call; /* first: td_call_free casts back */
    struct td_call_shell *next_free;
    _Alignas(64) char block[TD_CALL_BLOCK];
};

/* A call with an empty arena; NULL: out of memory. */
struct td_call *td_call_new(struct td_services *services);

/* Makes an id for a request that has none. */
void td_request_id_make(struct td_services *services, char id[TD_REQUEST_ID_SIZE]);

/* Releases all it holds and keeps the shell for the next call. NULL is fine. */
void td_call_free(struct td_call *call);

/* Frees the kept shells. */
void td_call_free_shells(struct td_services *services);

/* The stages of a call's task; each requires the one before. On failure call->error is set. */
TD_MUST_CHECK td_status td_call_decode(struct td_call *call);
TD_MUST_CHECK td_status td_call_admit(struct td_call *call, struct td_admission *admission);
TD_MUST_CHECK td_status td_call_compute(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_call_change(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_call_encode(struct td_call *call);

/* For admission: would so many bytes fit the memory budget beside what the call holds? */
TD_MUST_CHECK td_status td_call_admit_memory(struct td_call *call, size_t bytes);

/* Before a tensor is changed: allocates memory for the short reply, so that a change that has
 * happened is not answered with an error. */
TD_MUST_CHECK td_status td_call_reserve_reply(struct td_call *call);

/* The check of arena.stop, between the chunks of long work: DRAINING if the time to stop the server
 * is over, DEADLINE_EXCEEDED if the deadline has passed or the client has disconnected. context is
 * the call. */
td_status td_call_stopped(void *context, struct td_error *err);

/* DEADLINE_EXCEEDED "the deadline passed <when>" if it had at the end of the last stage. */
TD_MUST_CHECK td_status td_call_late(struct td_call *call, const char *when);

/* Returns `status`, that of an error of the call: if it is about this limit, the error names the
 * option that sets it. */
td_status td_call_limited_by(struct td_call *call, td_status status, uint64_t limit,
                             const char *option);

/* Refuses If-Match and If-None-Match for a call that would ignore them. `why` follows the header's
 * name in the message. */
TD_MUST_CHECK td_status td_call_refuse_conditions(struct td_call *call, const char *why);
#define TD_CHANGES_NOTHING                                                                         \
    "is about the tensor that a call replaces, as one with \"store\" does; this one changes "      \
    "nothing: leave the header out"

/* The op's name or "the request", for messages. */
static inline const char *td_call_subject(const struct td_call *call)
{
    return call->op ? call->op->name : "the request";
}

/* The largest body accepted: the route's limit, or less if the memory budget could never hold
 * it. */
size_t td_call_body_limit(const struct td_call *call);

/* Has the client disconnected? poll reports what MSG_PEEK would miss: a FIN after pipelined bytes,
 * and a reset, which MSG_PEEK would consume. A half-closed connection looks the same, so a client
 * that closes its sending side while its request is queued gets no reply. */
bool td_call_client_left(const struct td_call *call);

/* Counts the call as unsent: its request has arrived, or its reply is made before that. Until it is
 * freed; again has no effect. */
void td_call_count_unsent(struct td_call *call);

/* Makes the reply from call->error, in the call's style. */
void td_call_refuse(struct td_call *call);

/* Counts the call in the metrics, on the thread of the shard; its reply is made, or never will
 * be. */
void td_call_count(const struct td_call *call, int shard);

/* How the tensors of the call are sent. */
td_transport td_call_transport(const struct td_call *call);

#endif
