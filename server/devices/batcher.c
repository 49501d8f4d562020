#include "server/devices/batcher.h"

#include "server/devices/batch_queue.h"
#include "server/devices/mailbox.h"
#include "server/devices/session.h"
#include "server/devices/supervisor.h"
#include "server/devices/support.h"
#include "server/observe/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* DESIGN. One thread does all work in a loop: it opens or closes the device, receives items, starts
 * batches and polls the batches in flight. Another thread watches it (supervisor.h). Other threads
 * send items through the mailbox (mailbox.h), and get them back through `done`. batch_queue.h
 * orders and merges the waiting items.
 *
 *                    opened                        error of poll, wait or run, or hang_ms
 *     [no device] ──────────────► [device, 2 batches] ──────────────► [lost]
 *          ▲      every retry_ms                                         │ all staging is released
 *          └────────────────── [being closed, on a thread of its own] ◄──┘
 *
 * A call that opens or closes a device might not return, so separate threads make these calls
 * (session.h). A lost device is closed before it is opened again, because its memory is freed only
 * then.
 *
 * This file decides when to open, start, poll, give up and sleep. */

#define US ((int64_t)1000)
#define MS ((int64_t)1000000)

/* Maximum wait for the device: SHORT_WAIT while another batch could start, LONG_WAIT while no batch
 * could start, and UPLOAD_WAIT during an upload, because two of its pieces take 600 us at 50
 * GB/s. */
#define SHORT_WAIT   (100 * US)
#define LONG_WAIT    (1 * MS)
#define UPLOAD_WAIT  (300 * US)
#define IDLE_MS      5000
/* interval for dropping stale tables and reading the device's info */
#define HOUSEKEEPING (500 * MS)
/* time at shutdown for batches to end, and then for the device to close */
#define GRACE        (1000 * MS)
/* The next batch starts this long, plus the time to start a batch, before the expected end of the
 * batch in flight. An item that arrives later must wait for one more whole batch. */
#define LEAD         (50 * US)

struct td_batcher {
    struct td_batcher_options options;
    struct td_supervisor *supervisor;
    struct td_batch_mailbox mailbox; /* shared with other threads */

    /* Used only by the batcher's thread. If a call of that thread does not return, used from then
     * on only by the supervisor's thread. */
    const struct td_device_api *api;   /* functions of the device for this thread */
    struct td_device_session *session; /* open device; NULL: none */
    struct td_device_session *lost;    /* device that is being closed, or NULL */
    struct td_device_opener *opener;   /* opener of a device that is being opened, or NULL */
    int64_t open_ns;                   /* time of the next attempt to open a device */
    struct td_batch_queue queue;
    /* True if the next batch cannot start because a batch in flight uses the memory or table that
     * it needs. */
    bool blocked;
    int64_t last_end_ns;     /* end time of the last batch */
    int64_t start_ns;        /* moving average of the time to start a batch */
    int64_t housekeeping_ns; /* time of the next housekeeping */
    int64_t used_ns;         /* start time of the last batch */
    /* Deadline of the batches in flight, or TD_NEVER until the server drains. */
    int64_t give_up_ns;
    bool info_stale; /* the device's info might have changed since it was read */
    bool left;       /* a device was left open, or a call to it does not return */
};

/* ---- opening and losing ---------------------------------------------------------------------- */

static void refresh_info(struct td_batcher *batcher)
{
    struct td_device_info info;
    batcher->info_stale = false;
    if (!batcher->session) /* no device is open */
        return;
    batcher->api->info(batcher->session->device, &info);
    td_batch_mailbox_set_info(&batcher->mailbox, &info);
}

static void open_failed(struct td_batcher *batcher, td_status status, const char *why)
{
    batcher->open_ns = td_now_ns() + batcher->options.retry_ms * MS;
    /* A reason is logged only once, not at every attempt. */
    if (strncmp(batcher->mailbox.counts.why, why, TD_DEVICE_TEXT - 1) != 0)
        td_log(batcher->options.log, TD_LOG_WARN, "device_unavailable",
               TD_TEXT("kind", batcher->options.api->kind), TD_TEXT("reason", why));
    td_batch_mailbox_not_available(&batcher->mailbox, status == TD_INVALID_ARGUMENT, why);
}

static void opened(struct td_batcher *batcher)
{
    batcher->blocked = false;
    refresh_info(batcher);
    td_log(batcher->options.log, TD_LOG_INFO, "device_opened",
           TD_TEXT("kind", batcher->options.api->kind),
           TD_TEXT("name", batcher->mailbox.counts.device.name));
    td_batch_mailbox_opened(&batcher->mailbox, batcher->session);
}

/* Does one step of opening a device. */
static void open_device(struct td_batcher *batcher)
{
    struct td_device_opener *opener = batcher->opener;
    struct td_error err;
    if (!opener) {
        batcher->opener = td_device_opener_new(&batcher->options, &err);
        if (!batcher->opener)
            open_failed(batcher, TD_MEMORY_EXHAUSTED, err.message);
        return;
    }
    if (!td_device_opener_is_done(opener))
        return;
    batcher->opener = NULL;
    const td_status status =
        td_device_session_open(opener, &batcher->options, batcher->api, &batcher->session, &err);
    if (status == TD_OK)
        opened(batcher);
    else
        open_failed(batcher, status, err.message);
}

/* Gives back all items: items in flight with `give_back`, then waiting items. Returns the session,
 * which the batcher no longer uses, or NULL if no device was open. */
static struct td_device_session *
lose_device(struct td_batcher *batcher, const struct td_error *reason,
            void (*give_back)(struct td_batch *batch, const struct td_error *err))
{
    struct td_device_session *session = batcher->session;
    struct td_error err;
    td_log(batcher->options.log, TD_LOG_ERROR, "device_lost",
           TD_TEXT("kind", batcher->options.api->kind), TD_TEXT("reason", reason->message));
    batcher->open_ns = td_now_ns() + batcher->options.retry_ms * MS;
    td_batch_mailbox_not_available(&batcher->mailbox, false, reason->message);
    td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device was lost: %s", reason->message);
    batcher->session = NULL;
    for (int i = 0; session && i < TD_SESSION_BATCHES; i++)
        give_back(session->batches[i], &err);
    td_batch_queue_refuse(&batcher->queue, TD_DEVICE_UNAVAILABLE, &err);
    return session;
}

/* Marks the device as lost. Afterwards, the device is called only to close it. */
static void mark_lost(struct td_batcher *batcher, const struct td_error *reason)
{
    batcher->lost = lose_device(batcher, reason, td_batch_fail);
}

/* Returns the time limit of a call to the device. It is at least one second, because the calling
 * thread can be late on a busy machine, and an abandoned device keeps its memory. */
static int64_t call_limit_ns(const struct td_batcher_options *options)
{
    const int64_t least = 1000 * MS, ns = options->hang_ms * MS;
    return ns > least ? ns : least;
}

/* Takes over from the batcher's thread, which is stuck in a call that does not return. Runs on the
 * supervisor's thread. The session is left to the stuck thread. */
static void *take_over(void *context)
{
    struct td_batcher *batcher = context;
    struct td_error reason;
    td_error_set(&reason, TD_DEVICE_UNAVAILABLE,
                 "a call to the device has not returned after %lld ms",
                 (long long)(call_limit_ns(&batcher->options) / MS));
    batcher->left = true;
    return lose_device(batcher, &reason, td_batch_leave);
}

static void close_lost(struct td_batcher *batcher)
{
    if (td_device_session_close_lost(batcher->lost))
        batcher->lost = NULL;
}

/* ---- times ----------------------------------------------------------------------------------- */

static bool is_draining(const struct td_batcher *batcher)
{
    return batcher->give_up_ns != TD_NEVER;
}

/* Estimates when the device started its current batch. */
static int64_t busy_since_ns(const struct td_batcher *batcher, const struct td_batch *batch)
{
    const int64_t begun_ns = td_batch_begun_ns(batch);
    return begun_ns > batcher->last_end_ns ? begun_ns : batcher->last_end_ns;
}

/* Returns when the next batch should start. If the returned time is not after now_ns, the batch
 * starts at once. On a busy device, the next batch starts shortly before the expected end of the
 * current batch, to let as many items as possible merge. If no batch has been timed yet, it starts
 * when the device is idle. A batch that cannot grow does not wait. */
static int64_t time_to_start_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    const struct td_batch_item *lead = batcher->queue.waiting.first;
    const int oldest = td_device_session_oldest_batch(batcher->session);
    if (oldest < 0 && batcher->options.batch_wait_us == 0)
        return now_ns;
    if (lead->key == 0 ||
        td_batch_queue_count_mergeable(&batcher->queue) >= batcher->options.batch_limit)
        return now_ns;
    if (oldest < 0)
        return lead->submitted_ns + batcher->options.batch_wait_us * US;
    if (td_batch_is_upload(batcher->session->batches[oldest]))
        return now_ns;
    if (batcher->mailbox.counts.batch_ns == 0)
        return TD_NEVER;
    return busy_since_ns(batcher, batcher->session->batches[oldest]) +
           (int64_t)batcher->mailbox.counts.batch_ns - 2 * batcher->start_ns - LEAD;
}

/* Returns how long to wait for the device before other work is due. */
static int64_t wait_limit_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    int64_t until_ns = now_ns + LONG_WAIT;
    if (td_device_session_free_batch(batcher->session) >= 0) {
        until_ns = now_ns + SHORT_WAIT;
        if (batcher->queue.waiting.first && !batcher->blocked) {
            const int64_t start_ns = time_to_start_ns(batcher, now_ns);
            until_ns = start_ns < until_ns ? start_ns : until_ns;
        }
    }
    for (int i = 0; i < TD_SESSION_BATCHES; i++) {
        const struct td_batch *batch = batcher->session->batches[i];
        const int64_t deadline_ns = td_batch_deadline_ns(batch);
        if (td_batch_in_flight(batch) && td_batch_is_upload(batch) &&
            until_ns > now_ns + UPLOAD_WAIT)
            until_ns = now_ns + UPLOAD_WAIT;
        until_ns = deadline_ns < until_ns ? deadline_ns : until_ns;
    }
    return until_ns > now_ns + US ? until_ns - now_ns : US;
}

/* Returns the time at which the thread has work even if no item or request arrives. */
static int64_t wake_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    if (batcher->opener)
        return now_ns + MS; /* time to poll the opener */
    if (batcher->lost)
        return now_ns + 5 * MS; /* time to poll the lost device's staging memory, then its closer */
    if (!batcher->session)
        return is_draining(batcher) ? TD_NEVER : batcher->open_ns;
    int64_t until_ns = TD_NEVER;
    if (td_staging_bytes(batcher->session->staging) > 0 ||
        td_table_cache_count(batcher->session->table_cache).tables > 0)
        until_ns = batcher->housekeeping_ns;
    if (batcher->queue.waiting.first) {
        const int64_t start_ns = time_to_start_ns(batcher, now_ns);
        until_ns = start_ns < until_ns ? start_ns : until_ns;
    }
    const int64_t late_ns = td_batch_queue_late_ns(&batcher->queue);
    return late_ns < until_ns ? late_ns + 1 : until_ns;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Handles picked items that could not start together. Returns how many of them to try next, or 0. A
 * single item that cannot start is refused. */
static int after_refusal(struct td_batcher *batcher, int n, bool *trimmed, struct td_error *err)
{
    const bool short_of_room =
        err->status == TD_MEMORY_EXHAUSTED || err->status == TD_RESOURCE_LIMIT;
    if (err->status == TD_MEMORY_EXHAUSTED && td_device_session_in_flight(batcher->session) > 0) {
        batcher->blocked = true; /* blocked until a batch releases its memory */
        return 0;
    }
    if (err->status == TD_MEMORY_EXHAUSTED && !*trimmed) {
        /* Trims only once, because a failed start itself leaves memory to trim. Frees only scratch
         * memory, because a start that failed for lack of staging memory has already released all
         * free staging memory. */
        *trimmed = true;
        if (td_device_session_trim_scratch(batcher->session))
            return n;
    }
    if (n > 1)
        return short_of_room ? n / 2 : 1;
    td_batch_queue_take(&batcher->queue, 1);
    td_batch_item_give_back(batcher->queue.picked[0], err->status, err);
    return 0;
}

/* Starts the next batch. Returns false if nothing can start now. */
static bool start_items(struct td_batcher *batcher, struct td_batch *batch)
{
    const int64_t now_ns = td_now_ns();
    int n = td_batch_queue_pick(&batcher->queue, now_ns);
    bool trimmed = false, prepares = false;
    if (n > 0 && td_batch_must_wait(batch, batcher->queue.picked[0])) {
        batcher->blocked = true;
        return false;
    }
    while (n > 0) {
        struct td_error err;
        const td_status status = td_batch_start(batch, batcher->queue.picked, n, &prepares, &err);
        if (status == TD_OK)
            break;
        if (td_batch_is_lost(status)) {
            mark_lost(batcher, &err);
            return false;
        }
        err.status = status;
        n = after_refusal(batcher, n, &trimmed, &err);
    }
    if (n == 0)
        return !batcher->blocked;
    const int64_t begun_ns = td_batch_begun_ns(batch);
    batcher->used_ns = begun_ns;
    batcher->info_stale = true;
    if (prepares)
        return true; /* the items wait for the upload */
    td_batch_queue_take(&batcher->queue, n);
    if (!td_batch_is_upload(batch))
        td_batch_mailbox_began(&batcher->mailbox, batcher->queue.picked, n);
    batcher->start_ns += (begun_ns - now_ns - batcher->start_ns) / 8;
    return true;
}

static bool start_one(struct td_batcher *batcher)
{
    const int i = td_device_session_free_batch(batcher->session);
    if (i < 0 || !batcher->queue.waiting.first || batcher->blocked)
        return false;
    const int64_t now_ns = td_now_ns();
    return time_to_start_ns(batcher, now_ns) <= now_ns &&
           start_items(batcher, batcher->session->batches[i]);
}

/* ---- in flight ------------------------------------------------------------------------------- */

static void end_batch(struct td_batcher *batcher, int i)
{
    struct td_batch *batch = batcher->session->batches[i];
    const int64_t now_ns = td_now_ns();
    const int64_t took_ns = now_ns - busy_since_ns(batcher, batch);
    batcher->last_end_ns = now_ns;
    batcher->blocked = false;
    batcher->info_stale = true;
    if (!td_batch_is_upload(batch))
        td_batch_mailbox_ended(&batcher->mailbox, took_ns);
    td_batch_end(batch);
}

/* True if the batch has exceeded its time limit. */
static bool is_given_up(const struct td_batcher *batcher, const struct td_batch *batch,
                        int64_t now_ns, struct td_error *err)
{
    if (now_ns > batcher->give_up_ns)
        td_error_set(err, TD_DEVICE_UNAVAILABLE,
                     "a batch was still in flight when the server stopped");
    else if (now_ns - busy_since_ns(batcher, batch) >
             td_batch_time_limit_ns(&batcher->session->shared))
        td_error_set(err, TD_DEVICE_UNAVAILABLE, "a batch has not ended after %lld ms",
                     (long long)batcher->options.hang_ms);
    else
        return false;
    return true;
}

/* Returns the batch in flight to wait for, which is the oldest. If the oldest batch is an upload
 * and another batch is in flight, returns the other batch, because no computation depends on the
 * upload yet and the upload can take long. */
static int next_to_end(const struct td_batcher *batcher)
{
    const int oldest = td_device_session_oldest_batch(batcher->session);
    const int other = (oldest + 1) % TD_SESSION_BATCHES;
    return td_batch_is_upload(batcher->session->batches[oldest]) &&
                   td_batch_in_flight(batcher->session->batches[other])
               ? other
               : oldest;
}

/* Waits a short time for batches to end. */
static void poll_batches(struct td_batcher *batcher)
{
    const int first = next_to_end(batcher);
    struct td_error err;
    int64_t now_ns = td_now_ns();
    int64_t timeout_ns = wait_limit_ns(batcher, now_ns);
    for (int k = 0; k < TD_SESSION_BATCHES; k++) {
        const int i = (first + k) % TD_SESSION_BATCHES;
        struct td_batch *batch = batcher->session->batches[i];
        bool done;
        if (!td_batch_in_flight(batch))
            continue;
        if (td_batch_wait(batch, timeout_ns, &done, &err) != TD_OK) {
            mark_lost(batcher, &err);
            return;
        }
        timeout_ns = 0; /* the first wait was long enough for the other batches */
        now_ns = td_now_ns();
        if (done) {
            end_batch(batcher, i);
        } else if (is_given_up(batcher, batch, now_ns, &err)) {
            mark_lost(batcher, &err);
            return;
        }
    }
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        td_batch_expire(batcher->session->batches[i], now_ns);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void housekeep(struct td_batcher *batcher, int64_t now_ns)
{
    if (now_ns < batcher->housekeeping_ns)
        return;
    batcher->housekeeping_ns = now_ns + HOUSEKEEPING;
    td_table_cache_drop_stale(batcher->session->table_cache);
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        td_batch_settle(batcher->session->batches[i]);
    if (td_device_session_in_flight(batcher->session) == 0 &&
        now_ns - batcher->used_ns > batcher->options.idle_ms * MS)
        (void)td_device_session_trim(batcher->session);
    batcher->info_stale = true;
}

static void refuse_if_draining(struct td_batcher *batcher, struct td_batch_orders orders)
{
    struct td_error err;
    if (!orders.drain)
        return;
    if (!is_draining(batcher))
        batcher->give_up_ns = td_now_ns() + GRACE;
    td_error_set(&err, TD_DRAINING, "the server is shutting down");
    td_batch_queue_refuse(&batcher->queue, TD_DRAINING, &err);
}

/* Runs one round of the loop with a device. */
static void serve(struct td_batcher *batcher, struct td_batch_orders orders)
{
    td_batch_queue_drop_late(&batcher->queue, td_now_ns());
    refuse_if_draining(batcher, orders);
    while (batcher->session && start_one(batcher))
        ;
    if (!batcher->session)
        return; /* the device was lost */
    housekeep(batcher, td_now_ns());
    if (orders.trim)
        (void)td_device_session_trim(batcher->session);
    if (batcher->info_stale)
        refresh_info(batcher);
    if (td_device_session_in_flight(batcher->session) > 0)
        poll_batches(batcher);
    else if (!orders.stop)
        td_batch_mailbox_sleep(&batcher->mailbox, wake_ns(batcher, td_now_ns()));
}

/* Runs one round of the loop without a device. */
static void wait_for_device(struct td_batcher *batcher, struct td_batch_orders orders)
{
    struct td_error err;
    refuse_if_draining(batcher, orders);
    if (batcher->queue.waiting.first) {
        td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device is not available: %s",
                     batcher->mailbox.counts.why);
        td_batch_queue_refuse(&batcher->queue, TD_DEVICE_UNAVAILABLE, &err);
    }
    if (orders.stop)
        return;
    if (batcher->lost)
        close_lost(batcher);
    if (!batcher->lost && !is_draining(batcher) && td_now_ns() >= batcher->open_ns)
        open_device(batcher);
    if (!batcher->session)
        td_batch_mailbox_sleep(&batcher->mailbox, wake_ns(batcher, td_now_ns()));
}

/* Closes the device after all items have been given back. Allows one second in all, because unread
 * replies can hold staging memory, and closing a device that does not respond might never return.
 * After that, leaves the device open. */
static void finish(struct td_batcher *batcher)
{
    const int64_t until_ns = td_now_ns() + GRACE;
    const struct timespec moment = { .tv_nsec = 2 * MS };
    if (!td_device_opener_abandon(batcher->opener))
        batcher->left = true;
    while (batcher->lost && td_now_ns() < until_ns) {
        close_lost(batcher);
        if (batcher->lost)
            nanosleep(&moment, NULL);
    }
    if (batcher->lost) {
        td_device_session_abandon(batcher->lost);
        batcher->left = true;
    }
    struct td_device_session *session = batcher->session;
    if (!session)
        return;
    while (!td_staging_all_returned(session->staging) && td_now_ns() < until_ns)
        nanosleep(&moment, NULL);
    td_batch_mailbox_not_available(&batcher->mailbox, false, "the server is shutting down");
    batcher->session = NULL; /* no work of the session is in flight after this line */
    if (td_staging_all_returned(session->staging)) {
        td_device_session_close(session);
    } else {
        td_device_session_abandon(session);
        batcher->left = true;
    }
}

static void serve_all(void *context, const struct td_device_api *api)
{
    struct td_batcher *batcher = context;
    batcher->api = api;
    for (;;) {
        const struct td_batch_orders orders =
            td_batch_mailbox_take(&batcher->mailbox, &batcher->queue.waiting);
        if (orders.stop && !batcher->queue.waiting.first &&
            (!batcher->session || td_device_session_in_flight(batcher->session) == 0))
            break;
        if (batcher->session)
            serve(batcher, orders);
        else
            wait_for_device(batcher, orders);
    }
    finish(batcher);
}

/* ---- from other threads ---------------------------------------------------------------------- */

static void destroy(struct td_batcher *batcher)
{
    td_batch_mailbox_destroy(&batcher->mailbox);
    td_batch_queue_destroy(&batcher->queue);
    free(batcher);
}

struct td_batcher *td_batcher_new(const struct td_batcher_options *options)
{
    struct td_batcher *batcher = calloc(1, sizeof *batcher);
    if (!batcher)
        return NULL;
    batcher->options = *options;
    batcher->options.idle_ms = options->idle_ms > 0 ? options->idle_ms : IDLE_MS;
    batcher->give_up_ns = TD_NEVER;
    td_batch_mailbox_init(&batcher->mailbox);
    /* A batch can use a quarter of the staging memory. This leaves room for a second batch in
     * flight and for unread replies. */
    if (td_batch_queue_init(&batcher->queue, options->batch_limit, options->staging_bytes / 4))
        batcher->supervisor =
            td_supervisor_new(&(struct td_supervised){ .device = options->api,
                                                       .serve = serve_all,
                                                       .take_over = take_over,
                                                       .context = batcher,
                                                       .limit_ns = call_limit_ns(options),
                                                       .hurry_ns = GRACE });
    if (!batcher->supervisor) {
        destroy(batcher);
        return NULL;
    }
    if (options->in_background || td_batch_mailbox_wait_until_tried(&batcher->mailbox))
        return batcher;
    (void)td_batcher_free(batcher);
    return NULL;
}

void td_batcher_trim(struct td_batcher *batcher)
{
    td_batch_mailbox_want_trim(&batcher->mailbox);
}

void td_batcher_drain(struct td_batcher *batcher)
{
    td_batch_mailbox_drain(&batcher->mailbox);
    td_supervisor_hurry(batcher->supervisor);
}

bool td_batcher_free(struct td_batcher *batcher)
{
    if (!batcher)
        return true;
    td_batch_mailbox_stop(&batcher->mailbox);
    td_supervisor_free(batcher->supervisor);
    const bool closed = !batcher->left;
    destroy(batcher);
    return closed;
}

bool td_batcher_available(struct td_batcher *batcher, char *why)
{
    return td_batch_mailbox_available(&batcher->mailbox, why);
}

td_status td_batcher_check_kernel(struct td_batcher *batcher, const struct td_op *op,
                                  const struct td_op_args *args, struct td_error *err)
{
    return td_support_check(batcher->options.api, op, args, err);
}

void td_batcher_submit(struct td_batcher *batcher, struct td_batch_item *item)
{
    td_batch_queue_prepare(item);
    td_batch_mailbox_submit(&batcher->mailbox, item);
}

bool td_batcher_has_table(struct td_batcher *batcher, const struct td_tensor *table)
{
    return td_batch_mailbox_has_table(&batcher->mailbox, table);
}

void td_batcher_counts(struct td_batcher *batcher, struct td_batcher_counts *out)
{
    td_batch_mailbox_counts(&batcher->mailbox, out);
}
