#include "server/clients/refusals.h"

#include "server/observe/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* Interval at which refusals are sent. */
#define TICK_NS     5000000
#define SHORTEST_NS TICK_NS
#define LONGEST_NS  1000000000

struct td_refusals {
    struct td_worker_pool *workers;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards the following members */
    pthread_cond_t changed;
    struct td_heap waiting; /* refusals ordered by due time */
    int n_waiting;
    bool closed, stopping;
};

int64_t td_refusals_record(struct td_refused *client, int64_t now_ns, unsigned retry_after_s)
{
    /* Relaxed order is enough. Concurrent refusals of a client might see each other's times late,
     * which changes a delay only slightly. */
    const int64_t retry_at = atomic_exchange_explicit(
        &client->retry_at_ns, now_ns + retry_after_s * INT64_C(1000000000), memory_order_relaxed);
    if (now_ns >= retry_at) {
        atomic_store_explicit(&client->since_ns, now_ns, memory_order_relaxed);
        return 0;
    }
    const int64_t lasted = now_ns - atomic_load_explicit(&client->since_ns, memory_order_relaxed);
    return lasted < SHORTEST_NS ? SHORTEST_NS : lasted < LONGEST_NS ? lasted : LONGEST_NS;
}

/* Returns the number of refusals that can be sent before they are due. */
static int64_t early(struct td_refusals *refusals)
{
    return refusals->closed ? INT64_MAX : td_worker_pool_room(refusals->workers);
}

/* Removes and returns the refusal to send next, or returns NULL. The caller holds the mutex. */
static struct td_refusal *take(struct td_refusals *refusals, int64_t now_ns, int64_t *n_early)
{
    struct td_heap_node *first = refusals->waiting.root;
    if (!first || (first->key > (uint64_t)now_ns && (*n_early)-- <= 0))
        return NULL;
    td_heap_remove(&refusals->waiting, first);
    refusals->n_waiting--;
    return (struct td_refusal *)(void *)first;
}

/* Waits for a tick, or for the first refusal if none is waiting. The mutex is held on entry and on
 * return. */
static void wait_for_tick(struct td_refusals *refusals)
{
    const struct timespec tick = { .tv_nsec = TICK_NS };
    if (!refusals->waiting.root && !refusals->stopping) {
        pthread_cond_wait(&refusals->changed, &refusals->mutex);
        return;
    }
    pthread_mutex_unlock(&refusals->mutex);
    nanosleep(&tick, NULL);
    pthread_mutex_lock(&refusals->mutex);
}

static void *send_refusals(void *argument)
{
    struct td_refusals *refusals = argument;
    (void)pthread_setname_np(pthread_self(), "refusals");
    pthread_mutex_lock(&refusals->mutex);
    while (!refusals->stopping || refusals->waiting.root) {
        const int64_t now = td_now_ns();
        int64_t n_early = early(refusals);
        for (struct td_refusal *refusal; (refusal = take(refusals, now, &n_early));) {
            pthread_mutex_unlock(&refusals->mutex);
            refusal->end(refusal);
            pthread_mutex_lock(&refusals->mutex);
        }
        wait_for_tick(refusals);
    }
    pthread_mutex_unlock(&refusals->mutex);
    return NULL;
}

struct td_refusals *td_refusals_new(struct td_worker_pool *workers)
{
    struct td_refusals *refusals = calloc(1, sizeof *refusals);
    if (!refusals)
        return NULL;
    refusals->workers = workers;
    pthread_mutex_init(&refusals->mutex, NULL);
    pthread_cond_init(&refusals->changed, NULL);
    if (pthread_create(&refusals->thread, NULL, send_refusals, refusals) == 0)
        return refusals;
    pthread_cond_destroy(&refusals->changed);
    pthread_mutex_destroy(&refusals->mutex);
    free(refusals);
    return NULL;
}

void td_refusals_close(struct td_refusals *refusals)
{
    pthread_mutex_lock(&refusals->mutex);
    refusals->closed = true;
    pthread_cond_signal(&refusals->changed);
    pthread_mutex_unlock(&refusals->mutex);
}

void td_refusals_free(struct td_refusals *refusals)
{
    if (!refusals)
        return;
    pthread_mutex_lock(&refusals->mutex);
    refusals->closed = refusals->stopping = true;
    pthread_cond_signal(&refusals->changed);
    pthread_mutex_unlock(&refusals->mutex);
    pthread_join(refusals->thread, NULL);
    pthread_cond_destroy(&refusals->changed);
    pthread_mutex_destroy(&refusals->mutex);
    free(refusals);
}

bool td_refusals_delay(struct td_refusals *refusals, struct td_refusal *refusal, int64_t due_ns)
{
    pthread_mutex_lock(&refusals->mutex);
    const bool delayed = !refusals->closed && refusals->n_waiting < TD_REFUSALS_MOST;
    if (delayed) {
        if (!refusals->waiting.root)
            pthread_cond_signal(&refusals->changed);
        td_heap_insert(&refusals->waiting, &refusal->due, (uint64_t)due_ns);
        refusals->n_waiting++;
    }
    pthread_mutex_unlock(&refusals->mutex);
    return delayed;
}
