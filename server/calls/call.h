/* call.h - one request, from its headers to the last byte of its reply.
 *
 *     headers, body ─► decode ─► admit ─► compute ─► change ─► encode ─► reply sent ─► td_call_free
 *     I/O thread       I/O thread, or a worker while the connection      I/O thread
 *                      is suspended; a change that might wait for a
 *                      disk is made by a thread for disks
 *
 * Ownership  One owner at a time: the I/O thread, then possibly a worker, then the I/O thread
 *            again. The call's arena holds everything the request needs and is freed with the call.
 *            The memory of freed calls is reused, and a call keeps nothing from the previous call.
 * Threads    A call has no thread of its own. `finished` tells the I/O thread that a worker is
 *            done. */
#ifndef TD_SERVER_CALLS_CALL_H
#define TD_SERVER_CALLS_CALL_H

#include "api/message/message.h"
#include "server/auth/access.h"
#include "server/calls/borrowed.h"
#include "server/calls/catalog.h"
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

/* Costs of a call, computed once at admission. */
struct td_admission {
    /* Set by the task. */
    size_t output_bytes; /* size of the op's outputs, and of their copies in another dtype */
    /* Maximum size of the reply. For strings, includes only a small part of their size. */
    size_t encoded_bound;
    struct td_cost cost; /* cost of computing the outputs */
    /* Estimated times on a CPU, set by the scheduler. */
    uint64_t compute_ns, encode_ns;
};

/* Answers a request without blocking. Writes the answer to call->reply. */
typedef td_status td_handler(struct td_call *call);

/* What a call changes: nothing, data in memory, or the data folder. */
typedef enum td_effect { TD_EFFECT_NONE, TD_EFFECT_MEMORY, TD_EFFECT_DISK } td_effect;

/* The stages of a task, in order. A call that changes nothing remains at TD_NEXT_CHANGE while its
 * reply is encoded. */
typedef enum td_stage {
    TD_NEXT_DECODE,
    TD_NEXT_ADMIT,
    TD_NEXT_COMPUTE,
    TD_NEXT_CHANGE,
    TD_NEXT_ENCODE
} td_stage;

/* Special values of a body limit. */
#define TD_BODY_NONE   ((size_t)0)    /* the server drops the body */
#define TD_BODY_ANY    SIZE_MAX       /* limited by --max-body */
#define TD_BODY_TENSOR (SIZE_MAX - 1) /* limited by --tensor-quota */
/* Large enough for any equation over sixteen shapes, but small enough to cause little work for an
 * I/O thread. */
#define TD_BODY_SMALL  ((size_t)64 << 10)

/* The stages of a request. The scheduler runs them in this order, on the I/O thread or on a worker.
 * Each stage requires the previous one. A NULL stage does nothing. On failure, a stage sets
 * call->error. */
struct td_task {
    /* Checks the path and the headers on the I/O thread, before the body arrives. */
    td_status (*begin)(struct td_call *call);
    /* Accepts one argument of the query. Called once for each argument, after the begin stage. If
     * NULL, the query is ignored. */
    td_status (*argument)(struct td_call *call, const char *name, size_t length, const char *value,
                          size_t value_length);

    /* Decodes the body, which is already decompressed. Can run twice. The first run's additions to
     * call->request are removed before the second run. Only this stage looks up resident
     * tensors. */
    td_status (*decode)(struct td_call *call);
    /* Checks limits and fills in the members of `admission` that the task provides. */
    td_status (*admit)(struct td_call *call, struct td_admission *admission);
    td_status (*compute)(struct td_call *call, struct td_worker *worker);
    /* Returns what the call changes, and fills in the writer that the change needs, except its
     * deadline and ready(). If NULL, the call changes nothing. */
    td_effect (*effect)(struct td_call *call, struct td_writer *writer);
    /* Makes the change. The call's writer then holds the locks on its names. Only for calls with
     * must_queue. */
    td_status (*change)(struct td_call *call, struct td_worker *worker);
    /* Returns the resident table to upload to the device before encode, or NULL. Only for calls
     * with must_queue. If the upload succeeds, the call's state becomes TD_AWAY_DONE. */
    const struct td_tensor *(*upload)(const struct td_call *call);
    td_status (*encode)(struct td_call *call);

    size_t body_limit; /* maximum bytes of the body, or TD_BODY_... */

    /* True if the compute stage can run on a device. In that case, the request contains the op's
     * arguments. */
    bool on_device;

    /* Returns the number of bytes that the admit stage reads. Called after the decode stage. If
     * NULL, the admit stage reads only a few bytes. */
    uint64_t (*admit_bytes)(const struct td_call *call);
};

/* The format of errors. */
typedef enum td_style {
    TD_STYLE_PROBLEM, /* application/problem+json */
    TD_STYLE_OIP      /* format of the Open Inference Protocol */
} td_style;

#define TD_PATH_ARGUMENTS 2

/* The headers of a request. Texts live as long as the connection's request. The text of an absent
 * header is NULL. */
struct td_headers {
    const char *content_type;
    const char *authorization; /* never written to a log line or an error */
    const char *content_encoding;
    const char *accept;
    const char *accept_encoding;
    const char *if_match, *if_none_match; /* not parsed: see conditions.h */
    const char *range, *if_range;
    /* set if the client waits for 100 Continue before it sends the body */
    const char *expect;
    const char *forwarded_for; /* used only if a trusted proxy sends the header: see proxies.h */
    const char *traceparent;   /* not parsed: see trace_context.h; "" if the header is repeated */
    const char *timeout_ms;
    size_t inference_header; /* value of Inference-Header-Content-Length, or TD_OIP_NO_HEADER */
    int64_t content_length;  /* -1 if the body is chunked or absent */
    bool chunked;
};

/* The resident table that the path names, which is the first input of the op. */
struct td_path_table {
    const char *name;    /* name of the table, which lives as long as the call, or NULL */
    const char *model;   /* table that a path of /v2 names, or NULL if the model is an op */
    const char *version; /* version in a path of /v2, or NULL */
    bool known;          /* the model exists, and is a table */
    const char *found;   /* "NAME@VERSION" of the version that was read; NULL if not bound yet */
    int place;           /* the table's index in the metrics plus 1; 0 if not bound yet */
};

/* Members that only server/http uses. */
struct td_call_http {
    struct MHD_Connection *connection;
    const char *route;   /* pattern that the path matches, or NULL */
    td_access_role role; /* role that the route requires */
    const char *origin;  /* origin of the page if --allow-origin names it, or NULL */
    bool preflight;      /* the request is a CORS preflight */

    uint32_t body_chunks;            /* number of body chunks so far */
    size_t discarded;                /* body bytes read after the request was refused */
    struct td_populate_job populate; /* last populated range of a large body's memory */

    bool accepted; /* the call is counted in services->in_flight */
    bool answered; /* a worker has written the reply */
    bool lingers;  /* the client might still be sending when the reply has been sent */
    bool replied;  /* the reply was passed to the HTTP library */
    bool close_connection;
};

/* Members that the scheduler uses for its decisions. */
struct td_call_schedule {
    td_stage next; /* the next stage of the task */
    /* True if a worker must run the call because it changes something or copies shared memory. */
    bool must_queue;
    int64_t deadline_ns;
    /* Time after which the call is not started, even if its deadline is later: the parameter
     * `timeout` under /v2. TD_NEVER: only the deadline applies. */
    int64_t start_by_ns;

    struct td_admission admission; /* set by the scheduler when it admits the call */
    struct td_away *away;          /* where the call is computed, or NULL for this CPU (away.h) */
    struct td_pass_call *pass;     /* set if the call leads a pass (passes.h) */
    td_effect effect;              /* set when the call is about to make its change */
    struct td_writer writer;       /* writer that makes the change */
    struct td_refusal refusal;
    int64_t refusal_due_ns; /* time at which a delayed refusal is sent; 0: no delay */
};

/* Members for client_limits.h. */
struct td_call_limits {
    bool counted;   /* the call is counted in client->requests */
    size_t charged; /* bytes of client->memory_bytes charged for this call */
};

struct td_call {
    struct td_job job; /* must be first, because the scheduler casts back */
    struct td_services *services;
    struct td_call_http http;
    struct td_call_schedule schedule;

    /* the client */
    struct td_sender sender;  /* sender of the request, for logs and spans */
    struct td_client *client; /* client whose limits and turns apply to the call */
    struct td_call_limits limits;
    int socket;                             /* set while the call is queued; otherwise -1 */
    void (*finished)(struct td_call *call); /* wakes the connection when a worker is done */
    bool gone;                              /* the client has disconnected and gets no reply */
    int64_t looked_ns; /* when td_call_stopped last found the client connected */

    /* the request */
    const char *method, *path;
    struct td_headers headers;
    struct td_catalog catalog; /* tables that the token allows, and the token's role */
    char request_id[TD_REQUEST_ID_SIZE];
    td_style style;
    const char *arguments[TD_PATH_ARGUMENTS]; /* arguments in the path, allocated in the arena */
    struct td_path_table table;
    const struct td_op *op; /* NULL: none */
    /* Stored program that the path names, NAME or NAME@VERSION, or NULL. The decode stage sets `op`
     * to it. */
    const char *program;
    const char *program_version; /* version in replies of /v2 */
    td_handler *handler;         /* either handler or task is set */
    const struct td_task *task;
    void *state;       /* private to the task, in the arena */
    size_t body_limit; /* from the task; TD_BODY_NONE for a handler */
    int operation;     /* enum td_operation, for metrics */
    td_format body_format, reply_format;
    bool negotiated;      /* the encoding of the reply is negotiated */
    td_encoding encoding; /* encoding that the client prefers, if negotiated */
    bool encoded;         /* the body arrived compressed */
    const char *body;     /* TD_JSON_PADDING readable bytes follow */
    size_t body_bytes, body_capacity;
    struct td_buffer *body_buffer; /* NULL while the body is in the arena */
    struct td_borrowed borrowed;   /* tensors that the body refers to by name */
    struct td_request request;

    /* the reply */
    bool unsent; /* the call is counted in services->unsent */
    struct td_reply reply;
    struct td_times times;

    struct td_arena arena; /* the first block is in the td_call_shell */

    /* Must be last, because a new call clears only the members before it. Without an error, only
     * the status is set. */
    struct td_error error;
};

/* Memory of a call. Small allocations use the block, which is not cleared between calls. */
enum { TD_CALL_BLOCK = 32 << 10 };
struct td_call_shell {
    struct td_call call; /* must be first, because td_call_free casts back */
    struct td_call_shell *next_free;
    _Alignas(64) char block[TD_CALL_BLOCK];
};

/* Returns a call with an empty arena, or NULL if allocation fails. */
struct td_call *td_call_new(struct td_services *services);

/* Generates an ID for a request that has none. */
void td_request_id_make(struct td_services *services, char id[TD_REQUEST_ID_SIZE]);

/* Releases everything the call holds, and keeps its memory for the next call. Accepts NULL. */
void td_call_free(struct td_call *call);

/* Frees the shells kept for later calls. */
void td_call_free_shells(struct td_services *services);

/* Run the stages of a call's task. Each stage requires the previous one. On failure, a stage sets
 * call->error. */
TD_MUST_CHECK td_status td_call_decode(struct td_call *call);
TD_MUST_CHECK td_status td_call_admit(struct td_call *call, struct td_admission *admission);
TD_MUST_CHECK td_status td_call_compute(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_call_change(struct td_call *call, struct td_worker *worker);
TD_MUST_CHECK td_status td_call_encode(struct td_call *call);

/* Checks, at admission, that the memory budget has room for `bytes` more than the call already
 * holds. */
TD_MUST_CHECK td_status td_call_admit_memory(struct td_call *call, size_t bytes);

/* Replies with status 200 and a JSON text, which must outlive the call. */
void td_call_reply_json(struct td_call *call, const char *text);

/* Allocates memory for the short reply before a tensor is changed, so an allocation failure cannot
 * turn a change that was made into an error. */
TD_MUST_CHECK td_status td_call_reserve_reply(struct td_call *call);

/* Implements arena.stop, which long work calls between chunks. Returns DRAINING if the server's
 * time for draining is over, and DEADLINE_EXCEEDED if the deadline has passed or the client has
 * disconnected. `context` is the call. */
td_status td_call_stopped(void *context, struct td_error *err);

/* Returns DEADLINE_EXCEEDED "the deadline passed <when>" if the deadline passed before the last
 * stage ended. */
TD_MUST_CHECK td_status td_call_late(struct td_call *call, const char *when);

/* Returns the op's name or "the request", for messages. */
static inline const char *td_call_subject(const struct td_call *call)
{
    return call->op ? call->op->name : "the request";
}

/* Returns the maximum size of a body, which is the route's limit, or less if the memory budget
 * could never hold a body of that size. */
size_t td_call_body_limit(const struct td_call *call);

/* True if the client has disconnected. poll() reports what MSG_PEEK would miss: a FIN after
 * pipelined bytes, and a reset, which MSG_PEEK would consume. A half-closed connection looks the
 * same. Therefore, a client that closes its sending side while its request is queued gets no
 * reply. */
bool td_call_client_left(const struct td_call *call);

/* Counts the call as unsent until it is freed. Called when the request has arrived or its reply has
 * been made, whichever comes first. Later calls have no effect. */
void td_call_count_unsent(struct td_call *call);

/* Writes the reply for call->error in the call's error format. */
void td_call_refuse(struct td_call *call);

/* Returns the number of bytes of the reply's body: 0 for HEAD, or if the client disconnected. */
size_t td_call_reply_bytes(const struct td_call *call);

/* Counts the call in the metrics. Runs on the shard's thread, after the reply was made or the
 * client disconnected. */
void td_call_count(const struct td_call *call, int shard);

/* Returns the format in which the call's tensors are sent. */
td_transport td_call_transport(const struct td_call *call);

#endif
