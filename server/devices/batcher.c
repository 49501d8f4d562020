#include "server/devices/batcher.h"

#include "server/devices/batch_queue.h"
#include "server/devices/mailbox.h"
#include "server/devices/session.h"
#include "server/observe/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* DESIGN. One thread does all there is to do, in turns: open or close the device, take what came,
 * start batches, look after those in flight. Clients and it exchange messages (mailbox.h):
 * items come in and go back through `done`. What waits, and what goes along with what, is
 * batch_queue.h.
 *
 *                    open works                    poll, wait or run says so, or hang_ms
 *     [no device] ──────────────► [device, 2 batches] ──────────────► [lost]
 *          ▲      every retry_ms                                         │ all staging is back
 *          └────────────────── [being closed, on a thread of its own] ◄──┘
 *
 * Opening and closing a device may hang, hence the other threads; a lost device is closed before it
 * is opened again, as its memory goes with it only then (session.h).
 *
 * Here is what the thread decides: when to open, to start, to look, to give up and to sleep. */

#define US ((int64_t)1000)
#define MS ((int64_t)1000000)

/* How long a look at the device takes at most: while another batch could start, and while none
 * could. */
#define SHORT_LOOK (100 * US)
#define LONG_LOOK  (1 * MS)
#define IDLE_MS    5000
#define RARELY     (500 * MS)  /* tables that are gone, what the device says of itself */
#define GRACE      (1000 * MS) /* at the end: for batches, and then for the device to be closed */
/* A batch is begun so long before the one in front of it is thought to end, beside the time that
 * beginning takes: what comes later would have to wait for a whole batch more. */
#define LEAD       (50 * US)

struct td_batcher {
    struct td_batcher_options options;
    pthread_t thread;
    struct td_batch_mailbox mailbox; /* shared with others */

    /* The thread's own. */
    struct td_device_session *on;    /* NULL: there is no device */
    struct td_device_session *lost;  /* not closed yet; NULL: there is none */
    struct td_device_opener *opener; /* at work; NULL: there is none */
    int64_t open_ns;                 /* when to open a device, where there is none */
    struct td_batch_queue queue;
    bool blocked;        /* the next batch needs what one in flight holds */
    int64_t last_end_ns; /* when a batch ended last */
    int64_t start_ns;    /* what starting takes, a moving average */
    int64_t rare_ns;     /* when RARELY is over */
    int64_t used_ns;     /* when a batch was begun last */
    int64_t give_up_ns;  /* on what is in flight; TD_NEVER until the server drains */
    bool unseen;         /* something was done on the device that its info may tell */
};

/* ---- opening and losing ---------------------------------------------------------------------- */

static void see_device(struct td_batcher *batcher)
{
    struct td_device_info info;
    batcher->unseen = false;
    batcher->options.api->info(batcher->on->device, &info);
    td_batch_mailbox_saw(&batcher->mailbox, &info);
}

static void not_opened(struct td_batcher *batcher, td_status status, const char *why)
{
    batcher->open_ns = td_now_ns() + batcher->options.retry_ms * MS;
    /* Once, not at every try. */
    if (strncmp(batcher->mailbox.counts.why, why, TD_DEVICE_TEXT - 1) != 0)
        td_log(batcher->options.log, TD_LOG_WARN, "device_unavailable",
               TD_TEXT("kind", batcher->options.api->kind), TD_TEXT("reason", why));
    td_batch_mailbox_not_available(&batcher->mailbox, status == TD_INVALID_ARGUMENT, why);
}

static void opened(struct td_batcher *batcher)
{
    batcher->blocked = false;
    see_device(batcher);
    td_log(batcher->options.log, TD_LOG_INFO, "device_opened",
           TD_TEXT("kind", batcher->options.api->kind),
           TD_TEXT("name", batcher->mailbox.counts.device.name));
    td_batch_mailbox_opened(&batcher->mailbox, batcher->on);
}

/* A step towards a device. */
static void open_device(struct td_batcher *batcher)
{
    struct td_device_opener *opener = batcher->opener;
    struct td_error err;
    if (!opener) {
        batcher->opener = td_device_opener_new(&batcher->options, &err);
        if (!batcher->opener)
            not_opened(batcher, TD_MEMORY_EXHAUSTED, err.message);
        return;
    }
    if (!td_device_opener_is_done(opener))
        return;
    batcher->opener = NULL;
    const td_status status = td_device_session_open(opener, &batcher->options, &batcher->on, &err);
    if (status == TD_OK)
        opened(batcher);
    else
        not_opened(batcher, status, err.message);
}

/* Everything that is in flight or waits is given back, and nothing is asked of the device any more.
 */
static void lose(struct td_batcher *batcher, const struct td_error *reason)
{
    struct td_error err;
    td_log(batcher->options.log, TD_LOG_ERROR, "device_lost",
           TD_TEXT("kind", batcher->options.api->kind), TD_TEXT("reason", reason->message));
    td_batch_mailbox_not_available(&batcher->mailbox, false, reason->message);
    td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device was lost: %s", reason->message);
    batcher->lost = batcher->on;
    batcher->on = NULL;
    batcher->open_ns = td_now_ns() + batcher->options.retry_ms * MS;
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        td_batch_fail(batcher->lost->batches[i], &err);
    td_batch_queue_refuse(&batcher->queue, TD_DEVICE_UNAVAILABLE, &err);
}

static void close_lost(struct td_batcher *batcher)
{
    if (td_device_session_close_lost(batcher->lost))
        batcher->lost = NULL;
}

/* ---- when ------------------------------------------------------------------------------------ */

static bool is_draining(const struct td_batcher *batcher)
{
    return batcher->give_up_ns != TD_NEVER;
}

/* When the device began with what it does now, as far as one can tell from here. */
static int64_t busy_since_ns(const struct td_batcher *batcher, const struct td_batch *batch)
{
    const int64_t begun_ns = td_batch_begun_ns(batch);
    return begun_ns > batcher->last_end_ns ? begun_ns : batcher->last_end_ns;
}

/* When the next batch should start: now or earlier for at once. While the device is busy that is
 * just before it will be free (as long as nobody knows when, that is when it is free), so that as
 * many as possible go along; a batch that cannot grow does not wait. */
static int64_t time_to_start_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    const struct td_batch_item *lead = batcher->queue.waiting.first;
    const int oldest = td_device_session_oldest_batch(batcher->on);
    if (oldest < 0 && batcher->options.batch_wait_us == 0)
        return now_ns;
    if (lead->key == 0 ||
        td_batch_queue_count_along(&batcher->queue) >= batcher->options.batch_limit)
        return now_ns;
    if (oldest < 0)
        return lead->submitted_ns + batcher->options.batch_wait_us * US;
    if (td_batch_is_upload(batcher->on->batches[oldest]))
        return now_ns;
    if (batcher->mailbox.counts.batch_ns == 0)
        return TD_NEVER;
    return busy_since_ns(batcher, batcher->on->batches[oldest]) +
           (int64_t)batcher->mailbox.counts.batch_ns - 2 * batcher->start_ns - LEAD;
}

/* How long the device may be looked at before something else is to be done. */
static int64_t look_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    int64_t until_ns = now_ns + LONG_LOOK;
    if (td_device_session_free_batch(batcher->on) >= 0) {
        until_ns = now_ns + SHORT_LOOK;
        if (batcher->queue.waiting.first && !batcher->blocked) {
            const int64_t start_ns = time_to_start_ns(batcher, now_ns);
            until_ns = start_ns < until_ns ? start_ns : until_ns;
        }
    }
    for (int i = 0; i < TD_SESSION_BATCHES; i++) {
        const int64_t deadline_ns = td_batch_deadline_ns(batcher->on->batches[i]);
        until_ns = deadline_ns < until_ns ? deadline_ns : until_ns;
    }
    return until_ns > now_ns + US ? until_ns - now_ns : US;
}

/* When the thread has something to do though nobody comes. */
static int64_t wake_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    if (batcher->opener)
        return now_ns + MS; /* it is done */
    if (batcher->lost)
        return now_ns + 5 * MS; /* its staging comes back, it has been closed */
    if (!batcher->on)
        return is_draining(batcher) ? TD_NEVER : batcher->open_ns;
    int64_t until_ns = TD_NEVER;
    if (td_staging_bytes(batcher->on->staging) > 0 ||
        td_device_tables_count(batcher->on->tables).tables > 0)
        until_ns = batcher->rare_ns;
    if (batcher->queue.waiting.first) {
        const int64_t start_ns = time_to_start_ns(batcher, now_ns);
        until_ns = start_ns < until_ns ? start_ns : until_ns;
    }
    const int64_t late_ns = td_batch_queue_late_ns(&batcher->queue);
    return late_ns < until_ns ? late_ns + 1 : until_ns;
}

/* ---- starting -------------------------------------------------------------------------------- */

/* What was picked does not start. Fewer of them may; alone, or at last, the first is refused. Returns
 * how many to try again, 0 for none. */
static int after_refusal(struct td_batcher *batcher, int n, bool *trimmed, struct td_error *err)
{
    const bool short_of_room =
        err->status == TD_MEMORY_EXHAUSTED || err->status == TD_RESOURCE_LIMIT;
    if (err->status == TD_MEMORY_EXHAUSTED && td_device_session_in_flight(batcher->on) > 0) {
        batcher->blocked = true; /* what it holds comes back at its end */
        return 0;
    }
    if (err->status == TD_MEMORY_EXHAUSTED && !*trimmed) {
        *trimmed = true; /* once: a try that fails leaves something to trim itself */
        if (td_device_session_trim(batcher->on))
            return n;
    }
    if (n > 1)
        return short_of_room ? n / 2 : 1;
    td_batch_queue_take(&batcher->queue, 1);
    td_batch_item_give_back(batcher->queue.picked[0], err->status, err);
    return 0;
}

/* Starts what comes next. False when nothing is to be started now. */
static bool start_items(struct td_batcher *batcher, struct td_batch *batch)
{
    const int64_t now_ns = td_now_ns();
    int n = td_batch_queue_pick(&batcher->queue, now_ns);
    bool trimmed = false;
    if (n > 0 && td_batch_must_wait(batch, batcher->queue.picked[0])) {
        batcher->blocked = true;
        return false;
    }
    while (n > 0) {
        struct td_error err;
        const td_status status = td_batch_start(batch, batcher->queue.picked, n, &err);
        if (status == TD_OK)
            break;
        if (td_batch_is_lost(status)) {
            lose(batcher, &err);
            return false;
        }
        err.status = status;
        n = after_refusal(batcher, n, &trimmed, &err);
    }
    if (n == 0)
        return !batcher->blocked;
    const int64_t begun_ns = td_batch_begun_ns(batch);
    td_batch_queue_take(&batcher->queue, n);
    if (!td_batch_is_upload(batch))
        td_batch_mailbox_began(&batcher->mailbox, batcher->queue.picked, n);
    batcher->used_ns = begun_ns;
    batcher->unseen = true;
    batcher->start_ns += (begun_ns - now_ns - batcher->start_ns) / 8;
    return true;
}

static bool start_one(struct td_batcher *batcher)
{
    const int i = td_device_session_free_batch(batcher->on);
    if (i < 0 || !batcher->queue.waiting.first || batcher->blocked)
        return false;
    const int64_t now_ns = td_now_ns();
    return time_to_start_ns(batcher, now_ns) <= now_ns &&
           start_items(batcher, batcher->on->batches[i]);
}

/* ---- in flight ------------------------------------------------------------------------------- */

static void end_batch(struct td_batcher *batcher, int i)
{
    struct td_batch *batch = batcher->on->batches[i];
    const int64_t now_ns = td_now_ns();
    const int64_t took_ns = now_ns - busy_since_ns(batcher, batch);
    batcher->last_end_ns = now_ns;
    batcher->blocked = false;
    batcher->unseen = true;
    if (!td_batch_is_upload(batch))
        td_batch_mailbox_ended(&batcher->mailbox, took_ns);
    td_batch_end(batch);
}

/* Has it gone on for longer than it may? */
static bool is_given_up(const struct td_batcher *batcher, const struct td_batch *batch,
                        int64_t now_ns, struct td_error *err)
{
    if (now_ns > batcher->give_up_ns)
        td_error_set(err, TD_DEVICE_UNAVAILABLE,
                     "a batch was still in flight when the server stopped");
    else if (now_ns - busy_since_ns(batcher, batch) > td_batch_time_limit_ns(&batcher->on->shared))
        td_error_set(err, TD_DEVICE_UNAVAILABLE, "a batch has not ended after %lld ms",
                     (long long)batcher->options.hang_ms);
    else
        return false;
    return true;
}

/* Which of those in flight is waited for: the oldest, but for an upload, which nobody computes with
 * yet and which may take long. */
static int next_to_end(const struct td_batcher *batcher)
{
    const int oldest = td_device_session_oldest_batch(batcher->on);
    const int other = (oldest + 1) % TD_SESSION_BATCHES;
    return td_batch_is_upload(batcher->on->batches[oldest]) &&
                   td_batch_in_flight(batcher->on->batches[other])
               ? other
               : oldest;
}

/* Looks for what has ended, for a while. */
static void look_after(struct td_batcher *batcher)
{
    const int first = next_to_end(batcher);
    struct td_error err;
    int64_t now_ns = td_now_ns();
    int64_t timeout_ns = look_ns(batcher, now_ns);
    for (int k = 0; k < TD_SESSION_BATCHES; k++) {
        const int i = (first + k) % TD_SESSION_BATCHES;
        struct td_batch *batch = batcher->on->batches[i];
        bool done;
        if (!td_batch_in_flight(batch))
            continue;
        if (td_batch_wait(batch, timeout_ns, &done, &err) != TD_OK) {
            lose(batcher, &err);
            return;
        }
        timeout_ns = 0; /* the others have been waited for as well */
        now_ns = td_now_ns();
        if (done) {
            end_batch(batcher, i);
        } else if (is_given_up(batcher, batch, now_ns, &err)) {
            lose(batcher, &err);
            return;
        }
    }
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        td_batch_expire(batcher->on->batches[i], now_ns);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void now_and_then(struct td_batcher *batcher, int64_t now_ns)
{
    if (now_ns < batcher->rare_ns)
        return;
    batcher->rare_ns = now_ns + RARELY;
    td_device_tables_drop_gone(batcher->on->tables);
    if (td_device_session_in_flight(batcher->on) == 0 &&
        now_ns - batcher->used_ns > batcher->options.idle_ms * MS)
        (void)td_device_session_trim(batcher->on);
    batcher->unseen = true;
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

/* One turn with a device. */
static void serve(struct td_batcher *batcher, struct td_batch_orders orders)
{
    td_batch_queue_drop_late(&batcher->queue, td_now_ns());
    refuse_if_draining(batcher, orders);
    while (batcher->on && start_one(batcher))
        ;
    if (!batcher->on)
        return; /* lost */
    now_and_then(batcher, td_now_ns());
    if (orders.trim)
        (void)td_device_session_trim(batcher->on);
    if (batcher->unseen)
        see_device(batcher);
    if (td_device_session_in_flight(batcher->on) > 0)
        look_after(batcher);
    else if (!orders.stop)
        td_batch_mailbox_sleep(&batcher->mailbox, wake_ns(batcher, td_now_ns()));
}

/* One turn without. */
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
    if (!batcher->on)
        td_batch_mailbox_sleep(&batcher->mailbox, wake_ns(batcher, td_now_ns()));
}

/* Everything has been given back. Answers that clients have not read yet lie in staging memory, and
 * closing a device that hangs may never end: both have a second. After that the device is left open.
 */
static void finish(struct td_batcher *batcher)
{
    const int64_t until_ns = td_now_ns() + GRACE;
    const struct timespec moment = { .tv_nsec = 2 * MS };
    td_device_opener_leave(batcher->opener);
    while (batcher->lost && td_now_ns() < until_ns) {
        close_lost(batcher);
        if (batcher->lost)
            nanosleep(&moment, NULL);
    }
    if (batcher->lost)
        td_device_session_leave(batcher->lost);
    if (!batcher->on)
        return;
    while (!td_staging_is_back(batcher->on->staging) && td_now_ns() < until_ns)
        nanosleep(&moment, NULL);
    td_batch_mailbox_not_available(&batcher->mailbox, false, "the server is shutting down");
    if (td_staging_is_back(batcher->on->staging))
        td_device_session_close(batcher->on);
    else
        td_device_session_leave(batcher->on);
}

static void *run(void *context)
{
    struct td_batcher *batcher = context;
    (void)pthread_setname_np(pthread_self(), "batcher");
    for (;;) {
        const struct td_batch_orders orders =
            td_batch_mailbox_take(&batcher->mailbox, &batcher->queue.waiting);
        if (orders.stop && !batcher->queue.waiting.first &&
            (!batcher->on || td_device_session_in_flight(batcher->on) == 0))
            break;
        if (batcher->on)
            serve(batcher, orders);
        else
            wait_for_device(batcher, orders);
    }
    finish(batcher);
    return NULL;
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
    /* A quarter of the staging memory for a batch leaves room for another one in flight and for
     * answers that clients have not read yet. */
    if (!td_batch_queue_init(&batcher->queue, options->batch_limit, options->staging_bytes / 4) ||
        pthread_create(&batcher->thread, NULL, run, batcher) != 0) {
        destroy(batcher);
        return NULL;
    }
    if (options->in_background || td_batch_mailbox_wait_until_tried(&batcher->mailbox))
        return batcher;
    td_batcher_free(batcher);
    return NULL;
}

void td_batcher_trim(struct td_batcher *batcher)
{
    td_batch_mailbox_want_trim(&batcher->mailbox);
}

void td_batcher_drain(struct td_batcher *batcher)
{
    td_batch_mailbox_drain(&batcher->mailbox);
}

void td_batcher_free(struct td_batcher *batcher)
{
    if (!batcher)
        return;
    td_batch_mailbox_stop(&batcher->mailbox);
    pthread_join(batcher->thread, NULL);
    destroy(batcher);
}

bool td_batcher_available(struct td_batcher *batcher, char *why)
{
    return td_batch_mailbox_available(&batcher->mailbox, why);
}

td_status td_batcher_check_kernel(struct td_batcher *batcher, const struct td_op *op,
                                  const struct td_op_args *args, struct td_error *err)
{
    return td_launch_check_kernel(batcher->options.api, op, args, err);
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
