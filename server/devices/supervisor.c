#include "server/devices/supervisor.h"

#include "server/devices/hang_guard.h"
#include "server/observe/clock.h"

#include <pthread.h>
#include <stdlib.h>

#define MS ((int64_t)1000000)

/* Maximum interval between checks of the device's thread. An idle daemon must not wake more than
 * once a second. */
#define MOST_LOOK (1000 * MS)

struct td_supervisor {
    struct td_supervised supervised;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the members below */
    pthread_cond_t changed;
    bool hurried;
    bool served; /* serve has returned */
};

/* Data that a device's thread uses. If the thread does not return, the data is left to it. */
struct service {
    struct td_supervisor *supervisor;
    struct td_hang_guard guard;
    /* Data left to a call that was given up. This pointer keeps the data reachable. */
    void *left;
};

/* ---- the device's thread --------------------------------------------------------------------- */

static void note_served(struct td_supervisor *supervisor)
{
    pthread_mutex_lock(&supervisor->mutex);
    supervisor->served = true;
    pthread_cond_signal(&supervisor->changed);
    pthread_mutex_unlock(&supervisor->mutex);
}

static void *serve(void *context)
{
    struct service *service = context;
    struct td_supervisor *supervisor = service->supervisor;
    const struct td_supervised *supervised = &supervisor->supervised;
    (void)pthread_setname_np(pthread_self(), "batcher");
    td_hang_guard_attach(&service->guard, supervised->device, supervised->limit_ns);
    supervised->serve(supervised->context, &service->guard.api);
    note_served(supervisor);
    return NULL;
}

/* Starts a device's thread. Returns NULL if allocation fails or no thread can be started. */
static struct service *start_service(struct td_supervisor *supervisor, pthread_t *thread)
{
    struct service *service = calloc(1, sizeof *service);
    if (!service)
        return NULL;
    service->supervisor = supervisor;
    if (pthread_create(thread, NULL, serve, service) == 0)
        return service;
    free(service);
    return NULL;
}

/* ---- the supervisor's ------------------------------------------------------------------------ */

static int64_t look_ns(const struct td_supervisor *supervisor)
{
    const struct td_supervised *supervised = &supervisor->supervised;
    const int64_t ns = (supervisor->hurried ? supervised->hurry_ns : supervised->limit_ns) / 4;
    return ns < MOST_LOOK ? ns : MOST_LOOK;
}

/* Watches the device's thread. Returns true when serve has returned, or false if a call was given
 * up. */
static bool watch(struct td_supervisor *supervisor, struct td_hang_guard *guard)
{
    bool given_up = false;
    pthread_mutex_lock(&supervisor->mutex);
    while (!supervisor->served && !given_up) {
        (void)td_clock_wait(&supervisor->changed, &supervisor->mutex,
                            td_now_ns() + look_ns(supervisor));
        given_up = !supervisor->served &&
                   td_hang_guard_give_up(
                       guard, supervisor->hurried ? supervisor->supervised.hurry_ns : INT64_MAX);
    }
    pthread_mutex_unlock(&supervisor->mutex);
    return !given_up;
}

/* Serves on the supervisor's thread if no second thread could be started. No thread then notices a
 * call that does not return. */
static void serve_here(struct td_supervisor *supervisor)
{
    supervisor->supervised.serve(supervisor->supervised.context, supervisor->supervised.device);
    note_served(supervisor);
}

static void *supervise(void *context)
{
    struct td_supervisor *supervisor = context;
    (void)pthread_setname_np(pthread_self(), "batcher-guard");
    while (!supervisor->served) {
        pthread_t thread;
        struct service *service = start_service(supervisor, &thread);
        if (!service) {
            serve_here(supervisor);
        } else if (watch(supervisor, &service->guard)) {
            (void)pthread_join(thread, NULL);
            free(service);
        } else {
            (void)pthread_detach(thread);
            service->left = supervisor->supervised.take_over(supervisor->supervised.context);
        }
    }
    return NULL;
}

/* ---- from other threads ---------------------------------------------------------------------- */

static void destroy(struct td_supervisor *supervisor)
{
    pthread_cond_destroy(&supervisor->changed);
    pthread_mutex_destroy(&supervisor->mutex);
    free(supervisor);
}

struct td_supervisor *td_supervisor_new(const struct td_supervised *supervised)
{
    struct td_supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (!supervisor)
        return NULL;
    supervisor->supervised = *supervised;
    pthread_mutex_init(&supervisor->mutex, NULL);
    td_clock_cond_init(&supervisor->changed);
    if (pthread_create(&supervisor->thread, NULL, supervise, supervisor) == 0)
        return supervisor;
    destroy(supervisor);
    return NULL;
}

void td_supervisor_hurry(struct td_supervisor *supervisor)
{
    pthread_mutex_lock(&supervisor->mutex);
    supervisor->hurried = true;
    pthread_cond_signal(&supervisor->changed);
    pthread_mutex_unlock(&supervisor->mutex);
}

void td_supervisor_free(struct td_supervisor *supervisor)
{
    if (!supervisor)
        return;
    td_supervisor_hurry(supervisor);
    (void)pthread_join(supervisor->thread, NULL);
    destroy(supervisor);
}
