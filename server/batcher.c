#include "server/batcher.h"

#include "server/batch.h"
#include "server/buffer_pool.h"
#include "server/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DESIGN. One thread does all there is to do, in turns: open or close the device, take what came,
 * start batches, look after those in flight. Clients and it exchange messages: items go into
 * `inbox` and come back through `done`; tables to upload likewise, their senders waiting.
 *
 *                    open works                    poll, wait or run says so, or hang_ms
 *     [no device] ──────────────► [device, 2 batches] ──────────────► [lost]
 *          ▲      every retry_ms                                         │ all staging is back
 *          └────────────────── [being closed, on a thread of its own] ◄──┘
 *
 * Closing a device that hangs may hang as well, hence the other thread; a lost device is closed
 * before it is opened again, as its memory goes with it only then. */

enum { N_BATCHES = 2 };

#define US ((int64_t)1000)
#define MS ((int64_t)1000000)

/* How long a look at the device takes at most: while another batch could start, and while none
 * could. */
#define SHORT_LOOK (100 * US)
#define LONG_LOOK  (1 * MS)
#define IDLE       (5000 * MS) /* until memory for passing through goes back */
#define RARELY     (500 * MS)  /* tables that are gone, what the device says of itself */
#define GRACE      (1000 * MS) /* for a device to be closed, or staging to come back, at the end */
/* A batch is begun so long before the one in front of it is thought to end, beside the time that
 * beginning takes: what comes later would have to wait for a whole batch more. */
#define LEAD       (50 * US)

/* A device that is open, or lost and not closed yet. */
struct opened {
    struct td_device *device;
    struct td_staging *staging;
    struct td_device_tables *tables;
    struct td_batch *batches[N_BATCHES];
};

/* A table that somebody waits for. */
struct upload {
    struct upload *next;
    const struct td_tensor *table;
    struct td_error *err;
    td_status status;
    bool done;
};

struct upload_list {
    struct upload *first, **end;
};

struct item_list {
    struct td_batch_item *first, **end;
    int count;
};

/* The thread that closes a lost device; who is last to let go frees the struct. */
struct closer {
    const struct td_device_api *api;
    struct td_device *device;
    atomic_int state;
};
enum { CLOSING, CLOSED, LEFT_ALONE };

struct td_batcher {
    struct td_batcher_options options;
    pthread_t thread;

    /* The thread's own. */
    struct opened on;           /* device NULL: there is none */
    struct opened lost;         /* the same */
    struct closer *closer;      /* of lost.device; NULL until it is begun */
    int64_t open_ns;            /* when to open a device, where there is none */
    struct item_list waiting;   /* by age */
    struct upload_list uploads; /* that wait */
    struct upload *uploading[N_BATCHES];
    struct td_batch_item **picked; /* batch_limit of them */
    bool blocked;                  /* the next batch needs what one in flight holds */
    bool uploads_blocked;
    int64_t last_end_ns; /* when a batch ended last */
    int64_t start_ns;    /* what starting takes, a moving average */
    int64_t rare_ns;     /* when RARELY is over */
    int64_t used_ns;     /* when a batch was begun last */
    bool unseen;         /* since the device was looked at */

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t come;   /* to the thread: something is there */
    pthread_cond_t gone;   /* to others: an upload is done, a device was opened or not */
    struct item_list inbox;
    struct upload_list upload_inbox;
    bool stopping, draining, tried;
    bool refused;                    /* what the device was told to be is nonsense */
    struct td_device_tables *tables; /* on.tables, */
    struct td_staging *staging;      /* and on.staging */
    struct td_batcher_counts counts;
};

/* ---- lists ----------------------------------------------------------------------------------- */

static void list_init(struct item_list *list)
{
    *list = (struct item_list){ .end = &list->first };
}

static void list_add(struct item_list *list, struct td_batch_item *item)
{
    item->next = NULL;
    *list->end = item;
    list->end = &item->next;
    list->count++;
}

/* Takes *link off the list, which it is part of. */
static struct td_batch_item *list_take(struct item_list *list, struct td_batch_item **link)
{
    struct td_batch_item *item = *link;
    *link = item->next;
    if (list->end == &item->next)
        list->end = link;
    list->count--;
    return item;
}

/* Puts all of `from` behind `to`. */
static void list_move(struct item_list *to, struct item_list *from)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    to->count += from->count;
    list_init(from);
}

static void uploads_init(struct upload_list *list)
{
    *list = (struct upload_list){ .end = &list->first };
}

static void uploads_move(struct upload_list *to, struct upload_list *from)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    uploads_init(from);
}

static struct upload *uploads_take(struct upload_list *list)
{
    struct upload *upload = list->first;
    list->first = upload->next;
    if (!list->first)
        list->end = &list->first;
    return upload;
}

/* ---- counts and giving back ------------------------------------------------------------------ */

/* A moving average over some eight values. */
static void average(uint64_t *mean, int64_t value)
{
    const uint64_t now = value > 0 ? (uint64_t)value : 0;
    *mean = *mean == 0 ? now : *mean - *mean / 8 + now / 8;
}

/* The one place where items leave. Nothing of an item is looked at afterwards. */
static void give_back(void *context, struct td_batch_item *item, td_status status,
                      const struct td_error *err)
{
    struct td_batcher *batcher = context;
    pthread_mutex_lock(&batcher->mutex);
    if (item->begun_ns)
        batcher->counts.in_flight--;
    else
        batcher->counts.waiting--;
    batcher->counts.failed_items += status == TD_DEVICE_UNAVAILABLE;
    pthread_mutex_unlock(&batcher->mutex);
    item->done(item, status, status == TD_OK ? NULL : err);
}

static void end_upload(struct td_batcher *batcher, struct upload *upload, td_status status,
                       const struct td_error *err)
{
    batcher->unseen = true;
    if (status != TD_OK && upload->err) {
        *upload->err = *err;
        upload->err->status = status;
    }
    pthread_mutex_lock(&batcher->mutex);
    upload->status = status;
    upload->done = true;
    pthread_cond_broadcast(&batcher->gone);
    pthread_mutex_unlock(&batcher->mutex);
}

static void refuse_waiting(struct td_batcher *batcher, td_status status, const struct td_error *err)
{
    struct item_list refused; /* what is submitted meanwhile has its own turn */
    list_init(&refused);
    list_move(&refused, &batcher->waiting);
    while (refused.first)
        give_back(batcher, list_take(&refused, &refused.first), status, err);
    while (batcher->uploads.first)
        end_upload(batcher, uploads_take(&batcher->uploads), TD_DEVICE_UNAVAILABLE, err);
}

static void see_device(struct td_batcher *batcher)
{
    struct td_device_info info;
    batcher->unseen = false;
    batcher->options.api->info(batcher->on.device, &info);
    pthread_mutex_lock(&batcher->mutex);
    batcher->counts.device = info;
    pthread_mutex_unlock(&batcher->mutex);
}

static void set_available(struct td_batcher *batcher, bool available, const char *why)
{
    struct td_batcher_counts *counts = &batcher->counts;
    pthread_mutex_lock(&batcher->mutex);
    counts->available = available;
    counts->opens += available;
    batcher->tables = available ? batcher->on.tables : NULL;
    batcher->staging = available ? batcher->on.staging : NULL;
    snprintf(counts->why, sizeof counts->why, "%.*s", TD_DEVICE_TEXT - 1, why);
    batcher->tried = true;
    pthread_cond_broadcast(&batcher->gone);
    pthread_mutex_unlock(&batcher->mutex);
}

static void unavailable(struct td_batcher *batcher, struct td_error *err)
{
    char why[TD_DEVICE_TEXT];
    (void)td_batcher_available(batcher, why);
    td_error_set(err, TD_DEVICE_UNAVAILABLE, "the device is not available: %s", why);
}

/* ---- opening --------------------------------------------------------------------------------- */

static td_status open_parts(struct td_batcher *batcher, struct td_error *err)
{
    const struct td_batcher_options *options = &batcher->options;
    struct opened *on = &batcher->on;
    on->staging =
        td_staging_new(options->api, on->device, options->buffers, options->staging_bytes);
    on->tables = td_device_tables_new(options->api, on->device);
    if (!on->staging || !on->tables)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory to use a device with");
    const struct td_batch_device shared = {
        .api = options->api,
        .device = on->device,
        .staging = on->staging,
        .tables = on->tables,
        .memory = td_buffer_pool_memory(options->buffers),
        .batch_limit = options->batch_limit,
        .hang_ns = options->hang_ms * MS,
        .give_back = give_back,
        .context = batcher,
    };
    for (int i = 0; i < N_BATCHES; i++)
        if (!(on->batches[i] = td_batch_new(&shared, err)))
            return err->status;
    return TD_OK;
}

/* A device that answers, with nothing in flight and all of its staging back. */
static void close_opened(const struct td_device_api *api, struct opened *on)
{
    for (int i = 0; i < N_BATCHES; i++)
        td_batch_free(on->batches[i]);
    td_device_tables_free(on->tables);
    td_staging_free(on->staging);
    api->close(on->device);
    *on = (struct opened){ 0 };
}

static void open_device(struct td_batcher *batcher)
{
    const struct td_device_api *api = batcher->options.api;
    struct opened *on = &batcher->on;
    struct td_error err;
    td_status status = api->open(&batcher->options.device, &on->device, &err);
    if (status == TD_OK) {
        status = open_parts(batcher, &err);
        if (status != TD_OK)
            close_opened(api, on);
    }
    if (status != TD_OK) {
        on->device = NULL;
        batcher->refused = status == TD_INVALID_ARGUMENT;
        batcher->open_ns = td_now_ns() + batcher->options.retry_ms * MS;
        /* Once, not at every try. */
        if (strncmp(batcher->counts.why, err.message, sizeof batcher->counts.why - 1) != 0)
            td_log(batcher->options.log, TD_LOG_WARN, "device_unavailable",
                   TD_TEXT("kind", api->kind), TD_TEXT("reason", err.message));
        set_available(batcher, false, err.message);
        return;
    }
    batcher->blocked = batcher->uploads_blocked = false;
    see_device(batcher);
    td_log(batcher->options.log, TD_LOG_INFO, "device_opened", TD_TEXT("kind", api->kind),
           TD_TEXT("name", batcher->counts.device.name));
    set_available(batcher, true, "");
}

/* ---- losing ---------------------------------------------------------------------------------- */

/* Everything that is in flight or waits is given back, and nothing is asked of the device any more.
 */
static void lose(struct td_batcher *batcher, const struct td_error *reason)
{
    struct td_error err;
    td_log(batcher->options.log, TD_LOG_ERROR, "device_lost",
           TD_TEXT("kind", batcher->options.api->kind), TD_TEXT("reason", reason->message));
    set_available(batcher, false, reason->message);
    td_error_set(&err, TD_DEVICE_UNAVAILABLE, "the device was lost: %s", reason->message);
    batcher->lost = batcher->on;
    batcher->on = (struct opened){ 0 };
    batcher->open_ns = td_now_ns() + batcher->options.retry_ms * MS;
    for (int i = 0; i < N_BATCHES; i++) {
        td_batch_fail(batcher->lost.batches[i], &err);
        if (batcher->uploading[i])
            end_upload(batcher, batcher->uploading[i], TD_DEVICE_UNAVAILABLE, &err);
        batcher->uploading[i] = NULL;
    }
    refuse_waiting(batcher, TD_DEVICE_UNAVAILABLE, &err);
}

static void *run_closer(void *context)
{
    struct closer *closer = context;
    closer->api->close(closer->device);
    if (atomic_exchange(&closer->state, CLOSED) == LEFT_ALONE)
        free(closer);
    return NULL;
}

/* Without memory or threads it is tried again at the next turn. */
static void begin_closing(struct td_batcher *batcher)
{
    struct closer *closer = malloc(sizeof *closer);
    pthread_t thread;
    if (!closer)
        return;
    closer->api = batcher->options.api;
    closer->device = batcher->lost.device;
    atomic_init(&closer->state, CLOSING);
    if (pthread_create(&thread, NULL, run_closer, closer) != 0) {
        free(closer);
        return;
    }
    pthread_detach(thread);
    batcher->closer = closer;
}

/* What is left on the host of a lost device, closed or not. */
static void forget_lost(struct td_batcher *batcher, bool closed)
{
    struct opened *lost = &batcher->lost;
    for (int i = 0; i < N_BATCHES; i++)
        td_batch_abandon(lost->batches[i]);
    td_device_tables_abandon(lost->tables, closed);
    td_staging_abandon(lost->staging);
    *lost = (struct opened){ 0 };
}

static void close_lost(struct td_batcher *batcher)
{
    if (!batcher->closer) {
        if (td_staging_is_back(batcher->lost.staging))
            begin_closing(batcher);
    } else if (atomic_load(&batcher->closer->state) == CLOSED) {
        free(batcher->closer);
        batcher->closer = NULL;
        forget_lost(batcher, true);
    }
}

/* ---- starting -------------------------------------------------------------------------------- */

static int n_in_flight(const struct td_batcher *batcher)
{
    int n = 0;
    for (int i = 0; i < N_BATCHES; i++)
        n += batcher->on.batches[i] && td_batch_in_flight(batcher->on.batches[i]);
    return n;
}

/* A batch that can be started, or -1. */
static int free_batch(const struct td_batcher *batcher)
{
    for (int i = 0; i < N_BATCHES; i++)
        if (!td_batch_in_flight(batcher->on.batches[i]))
            return i;
    return -1;
}

/* That began first of those in flight. */
static int oldest_batch(const struct td_batcher *batcher)
{
    int oldest = -1;
    for (int i = 0; i < N_BATCHES; i++) {
        const struct td_batch *batch = batcher->on.batches[i];
        if (td_batch_in_flight(batch) &&
            (oldest < 0 ||
             td_batch_begun_ns(batch) < td_batch_begun_ns(batcher->on.batches[oldest])))
            oldest = i;
    }
    return oldest;
}

/* It is not launched after that. */
static int64_t start_by(const struct td_batch_item *item)
{
    return item->start_by_ns > 0 && item->start_by_ns < item->deadline_ns ? item->start_by_ns
                                                                          : item->deadline_ns;
}

static bool is_wanted(struct td_batch_item *item, int64_t now_ns, struct td_error *err)
{
    if (now_ns > start_by(item))
        td_error_set(err, TD_DEADLINE_EXCEEDED, "the deadline passed while %s was waiting",
                     item->op->name);
    else if (item->gone && item->gone(item))
        td_error_set(err, TD_DEADLINE_EXCEEDED, "the client left while %s was waiting",
                     item->op->name);
    else
        return true;
    return false;
}

/* What an item takes of staging memory, roughly. */
static uint64_t staging_of(const struct td_batch_item *item)
{
    const struct td_op_args *args = item->args;
    uint64_t bytes = 0;
    for (int i = 0, number = 0; i < item->op->n_inputs; i++)
        for (int j = 0; j < args->inputs[i].count; j++, number++)
            if (number >= 32 || !(item->resident >> number & 1))
                bytes += args->inputs[i].tensors[j].bytes;
    for (int i = 0; i < args->n_outputs; i++)
        bytes += args->outputs[i].bytes;
    return bytes;
}

static bool goes_along(const struct td_batch_item *lead, const struct td_batch_item *item)
{
    return lead->key != 0 && item->key == lead->key && item->op == lead->op &&
           item->resident == lead->resident &&
           td_merge_fits(lead->op, lead->args, item->args, td_batch_item_shared(lead));
}

/* The oldest that is wanted and what goes along with it, in their order, without taking them off
 * the queue; what is not wanted any more is given back. A quarter of the staging memory for a batch
 * leaves room for another one in flight and for answers that clients have not read yet. */
static int pick(struct td_batcher *batcher, int64_t now_ns)
{
    struct td_batch_item **picked = batcher->picked, **link = &batcher->waiting.first;
    uint64_t bytes = 0;
    int n = 0;
    while (*link && n < batcher->options.batch_limit) {
        struct td_batch_item *item = *link;
        struct td_error err;
        if (n > 0 && !goes_along(picked[0], item)) {
            link = &item->next;
        } else if (!is_wanted(item, now_ns, &err)) {
            give_back(batcher, list_take(&batcher->waiting, link), TD_DEADLINE_EXCEEDED, &err);
        } else {
            bytes += staging_of(item);
            if (n > 0 && bytes > batcher->options.staging_bytes / 4)
                break;
            picked[n++] = item;
            link = &item->next;
            if (picked[0]->key == 0)
                break;
        }
    }
    return n;
}

/* Takes the first n that were picked off the queue. */
static void take_picked(struct td_batcher *batcher, int n)
{
    struct td_batch_item **link = &batcher->waiting.first;
    for (int i = 0; i < n;) {
        if (*link == batcher->picked[i]) {
            (void)list_take(&batcher->waiting, link);
            i++;
        } else {
            link = &(*link)->next;
        }
    }
}

static void count_start(struct td_batcher *batcher, int n, int64_t begun_ns)
{
    struct td_batcher_counts *counts = &batcher->counts;
    batcher->used_ns = begun_ns;
    batcher->unseen = true;
    pthread_mutex_lock(&batcher->mutex);
    counts->waiting -= (uint64_t)n;
    counts->in_flight += (uint64_t)n;
    counts->batches++;
    counts->items += (uint64_t)n;
    for (int i = 0; i < n; i++)
        average(&counts->wait_ns, begun_ns - batcher->picked[i]->submitted_ns);
    pthread_mutex_unlock(&batcher->mutex);
}

/* Memory that a batch without work keeps on the device. */
static bool trim_others(struct td_batcher *batcher)
{
    bool trimmed = false;
    for (int i = 0; i < N_BATCHES; i++)
        trimmed |= td_batch_trim(batcher->on.batches[i]);
    return trimmed;
}

/* What was picked does not start. Fewer of them may; alone, or at last, the first is refused. Returns
 * how many to try again, 0 for none. */
static int after_refusal(struct td_batcher *batcher, int n, struct td_error *err)
{
    const bool short_of_room =
        err->status == TD_MEMORY_EXHAUSTED || err->status == TD_RESOURCE_LIMIT;
    if (err->status == TD_MEMORY_EXHAUSTED && n_in_flight(batcher) > 0) {
        batcher->blocked = true; /* what it holds comes back at its end */
        return 0;
    }
    if (err->status == TD_MEMORY_EXHAUSTED && trim_others(batcher))
        return n;
    if (n > 1)
        return short_of_room ? n / 2 : 1;
    if (short_of_room)
        err->status = TD_MEMORY_EXHAUSTED;
    take_picked(batcher, 1);
    give_back(batcher, batcher->picked[0], err->status, err);
    return 0;
}

/* Starts what comes next. False when nothing is to be started now. */
static bool start_items(struct td_batcher *batcher, struct td_batch *batch)
{
    const int64_t now_ns = td_now_ns();
    int n = pick(batcher, now_ns);
    if (n > 0 && td_batch_must_wait(batch, batcher->picked[0])) {
        batcher->blocked = true;
        return false;
    }
    while (n > 0) {
        struct td_error err;
        const td_status status = td_batch_start(batch, batcher->picked, n, &err);
        if (status == TD_OK)
            break;
        if (td_batch_is_lost(status)) {
            lose(batcher, &err);
            return false;
        }
        err.status = status;
        n = after_refusal(batcher, n, &err);
    }
    if (n == 0)
        return !batcher->blocked;
    const int64_t begun_ns = td_batch_begun_ns(batch);
    take_picked(batcher, n);
    count_start(batcher, n, begun_ns);
    batcher->start_ns += (begun_ns - now_ns - batcher->start_ns) / 8;
    return true;
}

static bool start_upload(struct td_batcher *batcher, int i)
{
    struct upload *upload = batcher->uploads.first;
    struct td_error err;
    if (td_device_tables_elsewhere(batcher->on.tables, upload->table, NULL)) {
        batcher->uploads_blocked = true;
        return false;
    }
    td_status status;
    do
        status = td_batch_upload(batcher->on.batches[i], upload->table, &err);
    while (status == TD_MEMORY_EXHAUSTED && trim_others(batcher));
    if (td_batch_is_lost(status)) {
        lose(batcher, &err);
        return false;
    }
    if (status == TD_MEMORY_EXHAUSTED && n_in_flight(batcher) > 0) {
        batcher->uploads_blocked = true;
        return false;
    }
    (void)uploads_take(&batcher->uploads);
    if (status == TD_OK)
        batcher->uploading[i] = upload;
    else
        end_upload(batcher, upload, status, &err);
    return true;
}

/* How many of those that wait would go into one batch; no more than the limit. */
static int count_along(const struct td_batcher *batcher)
{
    const struct td_batch_item *lead = batcher->waiting.first;
    int n = 0;
    for (const struct td_batch_item *item = lead; item && n < batcher->options.batch_limit;
         item = item->next)
        n += item == lead || item->key == lead->key;
    return n;
}

/* When the device began with what it does now, as far as one can tell from here. */
static int64_t busy_since_ns(const struct td_batcher *batcher, const struct td_batch *batch)
{
    const int64_t begun_ns = td_batch_begun_ns(batch);
    return begun_ns > batcher->last_end_ns ? begun_ns : batcher->last_end_ns;
}

/* Who takes longer hangs: beside the time for the bytes that it moves. */
static int64_t hang_ns(const struct td_batcher *batcher, const struct td_batch *batch)
{
    const uint64_t rate = batcher->counts.device.copy_bytes_per_us;
    const double moving = rate ? (double)td_batch_bytes(batch) * 1e3 / (double)rate : 0;
    return batcher->options.hang_ms * MS + (int64_t)(2 * moving);
}

/* When the next batch should start: now or earlier for at once. While the device is busy that is
 * just before it will be free (as long as nobody knows when, that is when it is free), so that as
 * many as possible go along; a batch that cannot grow does not wait. */
static int64_t time_to_start_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    const struct td_batch_item *lead = batcher->waiting.first;
    const int oldest = oldest_batch(batcher);
    if (oldest < 0 && batcher->options.batch_wait_us == 0)
        return now_ns;
    if (lead->key == 0 || count_along(batcher) >= batcher->options.batch_limit)
        return now_ns;
    if (oldest < 0)
        return lead->submitted_ns + batcher->options.batch_wait_us * US;
    if (batcher->uploading[oldest])
        return now_ns;
    if (batcher->counts.batch_ns == 0)
        return TD_NEVER;
    return busy_since_ns(batcher, batcher->on.batches[oldest]) + (int64_t)batcher->counts.batch_ns -
           2 * batcher->start_ns - LEAD;
}

static bool start_one(struct td_batcher *batcher)
{
    const int i = free_batch(batcher);
    if (i < 0)
        return false;
    if (batcher->uploads.first && !batcher->uploads_blocked)
        return start_upload(batcher, i);
    if (!batcher->waiting.first || batcher->blocked)
        return false;
    const int64_t now_ns = td_now_ns();
    return time_to_start_ns(batcher, now_ns) <= now_ns &&
           start_items(batcher, batcher->on.batches[i]);
}

/* ---- in flight ------------------------------------------------------------------------------- */

static void end_batch(struct td_batcher *batcher, int i)
{
    struct td_batch *batch = batcher->on.batches[i];
    const int64_t now_ns = td_now_ns();
    const int64_t took_ns = now_ns - busy_since_ns(batcher, batch);
    struct upload *upload = batcher->uploading[i];
    batcher->uploading[i] = NULL;
    batcher->last_end_ns = now_ns;
    batcher->blocked = batcher->uploads_blocked = false;
    if (!upload) {
        pthread_mutex_lock(&batcher->mutex);
        average(&batcher->counts.batch_ns, took_ns);
        pthread_mutex_unlock(&batcher->mutex);
    }
    td_batch_end(batch);
    if (upload)
        end_upload(batcher, upload, TD_OK, NULL);
}

/* How long the device may be looked at before something else is to be done. */
static int64_t look_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    int64_t until_ns = now_ns + LONG_LOOK;
    if (free_batch(batcher) >= 0) {
        until_ns = now_ns + SHORT_LOOK;
        if (batcher->waiting.first && !batcher->blocked) {
            const int64_t start_ns = time_to_start_ns(batcher, now_ns);
            until_ns = start_ns < until_ns ? start_ns : until_ns;
        }
    }
    for (int i = 0; i < N_BATCHES; i++) {
        const int64_t deadline_ns = td_batch_deadline_ns(batcher->on.batches[i]);
        until_ns = deadline_ns < until_ns ? deadline_ns : until_ns;
    }
    return until_ns > now_ns + US ? until_ns - now_ns : US;
}

/* Looks for what has ended, for a while. */
static void look_after(struct td_batcher *batcher)
{
    const int oldest = oldest_batch(batcher);
    struct td_error err;
    int64_t now_ns = td_now_ns();
    int64_t timeout_ns = look_ns(batcher, now_ns);
    for (int k = 0; k < N_BATCHES; k++) {
        const int i = (oldest + k) % N_BATCHES;
        struct td_batch *batch = batcher->on.batches[i];
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
        } else if (now_ns - busy_since_ns(batcher, batch) > hang_ns(batcher, batch)) {
            td_error_set(&err, TD_DEVICE_UNAVAILABLE, "a batch has not ended after %lld ms",
                         (long long)batcher->options.hang_ms);
            lose(batcher, &err);
            return;
        }
    }
    for (int i = 0; i < N_BATCHES; i++)
        td_batch_expire(batcher->on.batches[i], now_ns);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool take_new(struct td_batcher *batcher)
{
    pthread_mutex_lock(&batcher->mutex);
    list_move(&batcher->waiting, &batcher->inbox);
    uploads_move(&batcher->uploads, &batcher->upload_inbox);
    const bool stopping = batcher->stopping;
    pthread_mutex_unlock(&batcher->mutex);
    return stopping;
}

static void drop_late(struct td_batcher *batcher, int64_t now_ns)
{
    struct td_batch_item **link = &batcher->waiting.first;
    while (*link) {
        struct td_batch_item *item = *link;
        if (now_ns <= start_by(item)) {
            link = &item->next;
            continue;
        }
        struct td_error err;
        td_error_set(&err, TD_DEADLINE_EXCEEDED, "the deadline passed while %s was waiting",
                     item->op->name);
        give_back(batcher, list_take(&batcher->waiting, link), TD_DEADLINE_EXCEEDED, &err);
    }
}

static void now_and_then(struct td_batcher *batcher, int64_t now_ns)
{
    if (now_ns < batcher->rare_ns)
        return;
    batcher->rare_ns = now_ns + RARELY;
    td_device_tables_drop_gone(batcher->on.tables);
    if (n_in_flight(batcher) == 0 && now_ns - batcher->used_ns > IDLE) {
        (void)trim_others(batcher);
        td_staging_trim(batcher->on.staging);
    }
    see_device(batcher);
}

/* When the thread has something to do though nobody comes. */
static int64_t wake_ns(const struct td_batcher *batcher, int64_t now_ns)
{
    if (batcher->lost.device)
        return now_ns + 5 * MS; /* its staging comes back, it has been closed */
    if (!batcher->on.device)
        return batcher->open_ns;
    int64_t until_ns = TD_NEVER;
    if (batcher->unseen || td_staging_bytes(batcher->on.staging) > 0 ||
        td_device_tables_count(batcher->on.tables).tables > 0)
        until_ns = batcher->rare_ns;
    if (batcher->waiting.first) {
        const int64_t start_ns = time_to_start_ns(batcher, now_ns);
        until_ns = start_ns < until_ns ? start_ns : until_ns;
    }
    for (const struct td_batch_item *item = batcher->waiting.first; item; item = item->next)
        until_ns = start_by(item) < until_ns ? start_by(item) + 1 : until_ns;
    return until_ns;
}

static void sleep_until(struct td_batcher *batcher, int64_t until_ns)
{
    const struct timespec until = { .tv_sec = until_ns / 1000000000,
                                    .tv_nsec = until_ns % 1000000000 };
    pthread_mutex_lock(&batcher->mutex);
    while (!batcher->inbox.first && !batcher->upload_inbox.first && !batcher->stopping)
        if (until_ns == TD_NEVER)
            pthread_cond_wait(&batcher->come, &batcher->mutex);
        else if (pthread_cond_timedwait(&batcher->come, &batcher->mutex, &until) != 0)
            break;
    pthread_mutex_unlock(&batcher->mutex);
}

static bool is_draining(struct td_batcher *batcher)
{
    pthread_mutex_lock(&batcher->mutex);
    const bool draining = batcher->draining;
    pthread_mutex_unlock(&batcher->mutex);
    return draining;
}

/* One turn with a device. */
static void serve(struct td_batcher *batcher, bool stopping)
{
    struct td_error err;
    drop_late(batcher, td_now_ns());
    if (stopping || is_draining(batcher)) {
        td_error_set(&err, TD_DRAINING, "the server is shutting down");
        refuse_waiting(batcher, TD_DRAINING, &err);
    }
    while (batcher->on.device && start_one(batcher))
        ;
    if (!batcher->on.device)
        return; /* lost */
    now_and_then(batcher, td_now_ns());
    if (n_in_flight(batcher) > 0)
        look_after(batcher);
    else if (!stopping)
        sleep_until(batcher, wake_ns(batcher, td_now_ns()));
}

/* One turn without. */
static void wait_for_device(struct td_batcher *batcher, bool stopping)
{
    struct td_error err;
    if (batcher->waiting.first || batcher->uploads.first) {
        unavailable(batcher, &err);
        refuse_waiting(batcher, TD_DEVICE_UNAVAILABLE, &err);
    }
    if (stopping)
        return;
    if (batcher->lost.device)
        close_lost(batcher);
    if (!batcher->lost.device && td_now_ns() >= batcher->open_ns)
        open_device(batcher);
    if (!batcher->on.device)
        sleep_until(batcher, wake_ns(batcher, td_now_ns()));
}

/* Everything has been given back. Answers that clients have not read yet lie in staging memory, and
 * closing a device that hangs may never end: both have a second. After that the device stays open,
 * with what it holds: its own memory, its pinned memory, and the version of a table that it may
 * still be reading. */
static void finish(struct td_batcher *batcher)
{
    const int64_t until_ns = td_now_ns() + GRACE;
    const struct timespec moment = { .tv_nsec = 2 * MS };
    while (batcher->lost.device && td_now_ns() < until_ns) {
        close_lost(batcher);
        if (batcher->lost.device)
            nanosleep(&moment, NULL);
    }
    if (batcher->closer && atomic_exchange(&batcher->closer->state, LEFT_ALONE) == CLOSED)
        free(batcher->closer);
    if (batcher->lost.device)
        forget_lost(batcher, false);
    while (batcher->on.device && !td_staging_is_back(batcher->on.staging) && td_now_ns() < until_ns)
        nanosleep(&moment, NULL);
    if (!batcher->on.device)
        return;
    set_available(batcher, false, "the server is shutting down");
    if (td_staging_is_back(batcher->on.staging)) {
        close_opened(batcher->options.api, &batcher->on);
    } else {
        batcher->lost = batcher->on;
        forget_lost(batcher, true); /* nothing is being uploaded */
    }
}

static void *run(void *context)
{
    struct td_batcher *batcher = context;
    for (;;) {
        const bool stopping = take_new(batcher);
        if (stopping && !batcher->waiting.first && !batcher->uploads.first &&
            (!batcher->on.device || n_in_flight(batcher) == 0))
            break;
        if (batcher->on.device)
            serve(batcher, stopping);
        else
            wait_for_device(batcher, stopping);
    }
    finish(batcher);
    return NULL;
}

/* ---- from other threads ---------------------------------------------------------------------- */

static void init_sync(struct td_batcher *batcher)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&batcher->mutex, NULL);
    pthread_cond_init(&batcher->come, &monotonic);
    pthread_cond_init(&batcher->gone, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void destroy(struct td_batcher *batcher)
{
    pthread_cond_destroy(&batcher->gone);
    pthread_cond_destroy(&batcher->come);
    pthread_mutex_destroy(&batcher->mutex);
    free(batcher->picked);
    free(batcher);
}

struct td_batcher *td_batcher_new(const struct td_batcher_options *options)
{
    struct td_batcher *batcher = calloc(1, sizeof *batcher);
    if (!batcher)
        return NULL;
    batcher->options = *options;
    batcher->picked = calloc((size_t)options->batch_limit, sizeof(struct td_batch_item *));
    list_init(&batcher->waiting);
    list_init(&batcher->inbox);
    uploads_init(&batcher->uploads);
    uploads_init(&batcher->upload_inbox);
    init_sync(batcher);
    if (!batcher->picked || pthread_create(&batcher->thread, NULL, run, batcher) != 0) {
        destroy(batcher);
        return NULL;
    }
    /* Until it is known whether there is a device. */
    pthread_mutex_lock(&batcher->mutex);
    while (!batcher->tried)
        pthread_cond_wait(&batcher->gone, &batcher->mutex);
    const bool refused = batcher->refused;
    pthread_mutex_unlock(&batcher->mutex);
    if (!refused)
        return batcher;
    td_batcher_free(batcher);
    return NULL;
}

void td_batcher_drain(struct td_batcher *batcher)
{
    pthread_mutex_lock(&batcher->mutex);
    batcher->draining = true;
    pthread_mutex_unlock(&batcher->mutex);
}

void td_batcher_free(struct td_batcher *batcher)
{
    if (!batcher)
        return;
    pthread_mutex_lock(&batcher->mutex);
    batcher->stopping = true;
    pthread_cond_signal(&batcher->come);
    pthread_mutex_unlock(&batcher->mutex);
    pthread_join(batcher->thread, NULL);
    destroy(batcher);
}

bool td_batcher_available(struct td_batcher *batcher, char *why)
{
    pthread_mutex_lock(&batcher->mutex);
    const bool available = batcher->counts.available;
    memcpy(why, batcher->counts.why, TD_DEVICE_TEXT);
    pthread_mutex_unlock(&batcher->mutex);
    return available;
}

bool td_batcher_supports(struct td_batcher *batcher, const struct td_op *op,
                         const struct td_op_args *args)
{
    return batcher->options.api->supports(op, args);
}

/* Tables that name no version (because they were copied to be aligned, say) are inputs as any other.
 */
static void check_residents(struct td_batch_item *item)
{
    for (int i = 0, number = 0; i < item->op->n_inputs; i++)
        for (int j = 0; j < item->args->inputs[i].count && number < 32; j++, number++)
            if (!item->args->inputs[i].tensors[j].owner)
                item->resident &= ~((uint32_t)1 << number);
}

void td_batcher_submit(struct td_batcher *batcher, struct td_batch_item *item)
{
    check_residents(item);
    const uint32_t shared = td_batch_item_shared(item);
    item->begun_ns = 0;
    item->key = 0; /* goes alone */
    if (td_merge_kind_of(item->op, item->args, shared) != TD_MERGE_NONE)
        item->key = td_merge_key(item->op, item->args, shared) | 1;
    pthread_mutex_lock(&batcher->mutex);
    item->submitted_ns = td_now_ns();
    const bool first = !batcher->inbox.first;
    list_add(&batcher->inbox, item);
    batcher->counts.waiting++;
    if (first)
        pthread_cond_signal(&batcher->come);
    pthread_mutex_unlock(&batcher->mutex);
}

td_status td_batcher_upload(struct td_batcher *batcher, const struct td_tensor *table,
                            struct td_error *err)
{
    struct upload upload = { .table = table, .err = err };
    pthread_mutex_lock(&batcher->mutex);
    *batcher->upload_inbox.end = &upload;
    batcher->upload_inbox.end = &upload.next;
    pthread_cond_signal(&batcher->come);
    while (!upload.done)
        pthread_cond_wait(&batcher->gone, &batcher->mutex);
    pthread_mutex_unlock(&batcher->mutex);
    return upload.status;
}

bool td_batcher_has_table(struct td_batcher *batcher, const struct td_tensor *table)
{
    pthread_mutex_lock(&batcher->mutex);
    const bool there = batcher->tables && td_device_tables_has(batcher->tables, table);
    pthread_mutex_unlock(&batcher->mutex);
    return there;
}

void td_batcher_counts(struct td_batcher *batcher, struct td_batcher_counts *out)
{
    pthread_mutex_lock(&batcher->mutex);
    *out = batcher->counts;
    if (batcher->tables) {
        const struct td_device_tables_count count = td_device_tables_count(batcher->tables);
        out->tables = count.tables;
        out->table_bytes = count.bytes;
        out->evicted = count.evicted;
        out->staging_bytes = td_staging_bytes(batcher->staging);
    }
    pthread_mutex_unlock(&batcher->mutex);
}
