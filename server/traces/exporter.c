#include "server/traces/exporter.h"

#include "server/observe/clock.h"
#include "server/traces/otlp.h"

#include <sys/eventfd.h>
#include <sys/random.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Size of a body. A request with its stages takes 1 to 2 KB of JSON. */
enum { BODY_BYTES = 1 << 20 };

#define BATCH_NS       INT64_C(1000000000)
/* Delay before the second attempt. Each later delay is twice as long as the previous delay. */
#define FIRST_DELAY_NS INT64_C(1000000000)
#define MOST_DELAY_NS  INT64_C(30000000000) /* maximum delay, even if the collector requests more */

_Static_assert((int)BODY_BYTES > (int)TD_OTLP_LEAST, "a span fits");

struct td_exporter {
    const struct td_log *log;
    struct td_sampler sampler;
    struct td_otlp_resource resource;

    /* Used by all threads. */
    _Atomic(struct td_span *) given; /* newest span first */
    atomic_int queued;               /* number of requests whose spans are not yet sent or lost */
    atomic_uint_fast64_t exported, dropped, failed;
    atomic_int_fast64_t stop_by_ns; /* TD_NEVER until the exporter stops */
    /* eventfd that is signalled for a full batch and at the end. */
    int wake;

    /* Used only by the exporter's thread. */
    pthread_t thread;
    bool started;
    struct td_collector *collector;
    /* Spans in the order in which they were given. */
    struct td_span *pending, **pending_end;
    bool failing; /* the collector did not accept the last batch */
    /* The exporter is stopping, and the collector does not respond. */
    bool given_up;
    char body[BODY_BYTES];
};

/* ---- given by I/O threads -------------------------------------------------------------------- */

void td_exporter_give(struct td_exporter *exporter, struct td_span *span)
{
    static const uint64_t one = 1;
    const int queued = span ? atomic_fetch_add(&exporter->queued, 1) + 1 : 0;
    if (!span || queued > TD_EXPORTER_QUEUE) {
        if (span)
            atomic_fetch_sub(&exporter->queued, 1);
        atomic_fetch_add(&exporter->dropped, span ? (uint64_t)td_span_count(span) : 1);
        td_span_free(span);
        return;
    }
    /* Comparing the head's address is sufficient, because no other thread removes single spans. */
    struct td_span *head = atomic_load_explicit(&exporter->given, memory_order_relaxed);
    do
        span->next = head;
    while (!atomic_compare_exchange_weak_explicit(&exporter->given, &head, span,
                                                  memory_order_release, memory_order_relaxed));
    if (queued % TD_EXPORTER_BATCH == 0)
        /* The write fails only if the counter is full, which means that the thread has been
         * woken. */
        (void)!write(exporter->wake, &one, sizeof one);
}

const struct td_sampler *td_exporter_sampler(const struct td_exporter *exporter)
{
    return &exporter->sampler;
}

struct td_exporter_counts td_exporter_counts(struct td_exporter *exporter)
{
    return (struct td_exporter_counts){ .exported = atomic_load(&exporter->exported),
                                        .dropped = atomic_load(&exporter->dropped),
                                        .failed = atomic_load(&exporter->failed) };
}

/* ---- its thread ------------------------------------------------------------------------------ */

static bool is_stopping(struct td_exporter *exporter)
{
    return atomic_load(&exporter->stop_by_ns) != TD_NEVER;
}

/* Waits for a batch or the end, but at most `ns` nanoseconds. */
static void wait_for(struct td_exporter *exporter, int64_t ns)
{
    struct pollfd poller = { .fd = exporter->wake, .events = POLLIN };
    uint64_t wakes;
    if (poll(&poller, 1, (int)(ns / 1000000)) > 0)
        (void)!read(exporter->wake, &wakes, sizeof wakes);
}

/* Waits until the given time or the end. Batches that become full do not end the wait. */
static void pause_until(struct td_exporter *exporter, int64_t until_ns)
{
    for (int64_t now = td_now_ns(); now < until_ns && !is_stopping(exporter); now = td_now_ns())
        wait_for(exporter, until_ns - now + 999999);
}

/* Appends the given spans, oldest first, to the pending spans. */
static void take_given(struct td_exporter *exporter)
{
    struct td_span *newest = atomic_exchange_explicit(&exporter->given, NULL, memory_order_acquire);
    struct td_span **const end = exporter->pending_end;
    if (newest)
        exporter->pending_end = &newest->next;
    for (struct td_span *span = newest, *next; span; span = next) {
        next = span->next;
        span->next = span == newest ? NULL : *end;
        *end = span;
    }
}

/* Removes the first n pending spans. Returns their number, including their stages. */
static int64_t remove_pending(struct td_exporter *exporter, int n)
{
    int64_t spans = 0;
    for (int i = 0; i < n; i++) {
        struct td_span *span = exporter->pending;
        exporter->pending = span->next;
        spans += td_span_count(span);
        td_span_free(span);
    }
    if (!exporter->pending)
        exporter->pending_end = &exporter->pending;
    atomic_fetch_sub(&exporter->queued, n);
    return spans;
}

/* Logs one line when batches start to fail, and one line when they succeed again. */
static void log_change(struct td_exporter *exporter, bool failing, const char *reason)
{
    if (failing && !exporter->failing)
        td_log(exporter->log, TD_LOG_WARN, "traces_not_exported",
               TD_TEXT("url", td_collector_url(exporter->collector)), TD_TEXT("reason", reason));
    else if (!failing && exporter->failing)
        td_log(exporter->log, TD_LOG_INFO, "traces_exported_again",
               TD_INT("failed", atomic_load(&exporter->failed)),
               TD_INT("dropped", atomic_load(&exporter->dropped)));
    exporter->failing = failing;
}

/* Returns the delay before the next attempt. Adds a random delay of up to a quarter, so many
 * daemons do not retry at the same time. */
static int64_t delay_of(int attempt, const struct td_collector_reply *reply, uint64_t random)
{
    int64_t delay = FIRST_DELAY_NS << attempt;
    if (reply->retry_after_ns > delay)
        delay = reply->retry_after_ns;
    if (delay > MOST_DELAY_NS)
        delay = MOST_DELAY_NS;
    return delay + (int64_t)(random % (uint64_t)(delay / 4));
}

/* Sends the body, several times if necessary. While the exporter is stopping, the first failed
 * attempt is the last attempt. */
static void post(struct td_exporter *exporter, size_t bytes, struct td_collector_reply *reply)
{
    for (int attempt = 0;; attempt++) {
        const bool stopping = is_stopping(exporter);
        td_collector_post(exporter->collector, exporter->body, bytes, &exporter->stop_by_ns, reply);
        if (reply->outcome != TD_COLLECTOR_BUSY)
            return;
        exporter->given_up = stopping;
        if (stopping || attempt + 1 == TD_EXPORTER_ATTEMPTS)
            return;
        log_change(exporter, true, reply->reason);
        const int64_t now = td_now_ns();
        pause_until(exporter, now + delay_of(attempt, reply, (uint64_t)now));
    }
}

static void send_batch(struct td_exporter *exporter)
{
    struct td_text text = { .at = exporter->body, .end = exporter->body + sizeof exporter->body };
    struct td_collector_reply reply;
    const int n = td_otlp_write(&exporter->resource, exporter->pending, &text);
    post(exporter, (size_t)(text.at - exporter->body), &reply);
    const int64_t spans = remove_pending(exporter, n);
    const bool accepted = reply.outcome == TD_COLLECTOR_ACCEPTED;
    int64_t lost = accepted ? reply.rejected : spans;
    if (lost > spans)
        lost = spans;
    atomic_fetch_add(&exporter->exported, (uint64_t)(spans - lost));
    atomic_fetch_add(&exporter->failed, (uint64_t)lost);
    log_change(exporter, lost > 0, reply.reason);
}

static bool has_time(struct td_exporter *exporter)
{
    return !exporter->given_up && td_now_ns() < atomic_load(&exporter->stop_by_ns);
}

static void *run(void *context)
{
    struct td_exporter *exporter = context;
    bool stopping;
    do {
        /* A pause between two attempts might have consumed the wakeup. */
        if (!is_stopping(exporter))
            wait_for(exporter, BATCH_NS);
        /* Read this first, because no span is given after the stop. */
        stopping = is_stopping(exporter);
        take_given(exporter);
        while (exporter->pending && has_time(exporter))
            send_batch(exporter);
    } while (!stopping);
    return NULL;
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* Writes a random UUID, version 4. */
static void make_instance_id(const uint8_t random[16], char text[37])
{
    static const char digits[] = "0123456789abcdef";
    char *at = text;
    for (int i = 0; i < 16; i++) {
        const uint8_t byte = (uint8_t)(i == 6   ? 0x40 | (random[i] & 0x0f)
                                       : i == 8 ? 0x80 | (random[i] & 0x3f)
                                                : random[i]);
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    }
    *at = '\0';
}

static bool make_ids(struct td_exporter *exporter)
{
    uint8_t instance[16];
    if (getrandom(exporter->sampler.seed, sizeof exporter->sampler.seed, 0) !=
            (ssize_t)sizeof exporter->sampler.seed ||
        getrandom(instance, sizeof instance, 0) != (ssize_t)sizeof instance)
        return false;
    make_instance_id(instance, exporter->resource.instance_id);
    return true;
}

struct td_exporter *td_exporter_start(const struct td_config *config, const struct td_log *log)
{
    struct td_exporter *exporter = malloc(sizeof *exporter);
    if (exporter) {
        memset(exporter, 0, offsetof(struct td_exporter, body));
        exporter->log = log;
        exporter->sampler.fraction = config->trace_sample;
        exporter->resource.version = TD_VERSION;
        exporter->pending_end = &exporter->pending;
        atomic_init(&exporter->stop_by_ns, TD_NEVER);
        exporter->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        exporter->collector = td_collector_new(config);
    }
    if (exporter && exporter->wake >= 0 && exporter->collector && make_ids(exporter))
        exporter->started = pthread_create(&exporter->thread, NULL, run, exporter) == 0;
    if (exporter && exporter->started)
        return exporter;
    td_log(log, TD_LOG_ERROR, "start_failed", TD_TEXT("part", "traces"));
    td_exporter_stop(exporter, 0);
    return NULL;
}

void td_exporter_stop(struct td_exporter *exporter, int64_t for_ns)
{
    static const uint64_t one = 1;
    if (!exporter)
        return;
    if (exporter->started) {
        atomic_store(&exporter->stop_by_ns, td_now_ns() + for_ns);
        (void)!write(exporter->wake, &one, sizeof one);
        pthread_join(exporter->thread, NULL);
    }
    int64_t unsent = 0;
    while (exporter->pending)
        unsent += remove_pending(exporter, 1);
    atomic_fetch_add(&exporter->failed, (uint64_t)unsent);
    const struct td_exporter_counts counts = td_exporter_counts(exporter);
    if (counts.failed + counts.dropped > 0)
        td_log(exporter->log, TD_LOG_WARN, "spans_lost", TD_INT("exported", counts.exported),
               TD_INT("dropped", counts.dropped), TD_INT("failed", counts.failed));
    td_collector_free(exporter->collector);
    if (exporter->wake >= 0)
        close(exporter->wake);
    free(exporter);
}
