#include "server/devices/session.h"

#include "server/memory/buffer_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MS ((int64_t)1000000)

/* State of an opener or closer, whose thread might never end. It has two users, and the last user
 * frees it. */
enum { AT_WORK, DONE, ABANDONED };

struct td_device_closer {
    const struct td_device_api *api;
    struct td_device *device;
    atomic_int state;
};

struct td_device_opener {
    const struct td_device_api *api;
    struct td_device_options options;
    struct td_device *device; /* NULL if the device could not be opened */
    td_status status;
    struct td_error err;
    atomic_int state;
    /* Text of the options. It is a copy, because the original might be freed before the opener is
     * done. */
    char text[];
};

static bool start_thread(void *(*run)(void *), void *context)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, context) != 0)
        return false;
    pthread_detach(thread);
    return true;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void free_opener(struct td_device_opener *opener)
{
    if (opener->device)
        opener->api->close(opener->device);
    free(opener);
}

static void *run_opener(void *context)
{
    struct td_device_opener *opener = context;
    opener->status = opener->api->open(&opener->options, &opener->device, &opener->err);
    if (opener->status != TD_OK)
        opener->device = NULL;
    if (atomic_exchange(&opener->state, DONE) == ABANDONED)
        free_opener(opener);
    return NULL;
}

struct td_device_opener *td_device_opener_new(const struct td_batcher_options *options,
                                              struct td_error *err)
{
    const size_t length = strlen(options->device.text);
    struct td_device_opener *opener = calloc(1, sizeof *opener + length + 1);
    if (!opener) {
        td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory is left to open a device");
        return NULL;
    }
    opener->api = options->api;
    opener->options = options->device;
    memcpy(opener->text, options->device.text, length);
    opener->options.text = opener->text;
    atomic_init(&opener->state, AT_WORK);
    if (start_thread(run_opener, opener))
        return opener;
    free(opener);
    td_error_set(err, TD_MEMORY_EXHAUSTED, "no thread could be started to open a device");
    return NULL;
}

bool td_device_opener_is_done(const struct td_device_opener *opener)
{
    return atomic_load(&opener->state) == DONE;
}

bool td_device_opener_abandon(struct td_device_opener *opener)
{
    const bool done = !opener || atomic_exchange(&opener->state, ABANDONED) == DONE;
    if (opener && done)
        free_opener(opener);
    return done;
}

static td_status open_parts(struct td_device_session *session,
                            const struct td_batcher_options *options, struct td_error *err)
{
    session->staging =
        td_staging_new(session->api, session->device, options->buffers, options->staging_bytes);
    session->table_cache = td_table_cache_new(session->api, session->device);
    if (!session->staging || !session->table_cache)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "there is not enough memory to use a device");
    struct td_device_info info;
    session->api->info(session->device, &info);
    session->shared = (struct td_batch_device){
        .api = session->api,
        .device = session->device,
        .staging = session->staging,
        .table_cache = session->table_cache,
        .copiers = options->copiers,
        .memory = td_buffer_pool_memory(options->buffers),
        .batch_limit = options->batch_limit,
        .hang_ns = options->hang_ms * MS,
        .copy_bytes_per_us = info.copy_bytes_per_us,
        .direct_bytes = info.direct_bytes,
    };
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        if (!(session->batches[i] = td_batch_new(&session->shared, err)))
            return err->status;
    return TD_OK;
}

td_status td_device_session_open(struct td_device_opener *opener,
                                 const struct td_batcher_options *options,
                                 const struct td_device_api *api, struct td_device_session **out,
                                 struct td_error *err)
{
    td_status status = opener->status;
    *err = opener->err;
    struct td_device_session *session = status == TD_OK ? calloc(1, sizeof *session) : NULL;
    if (!session) {
        (void)td_device_opener_abandon(opener);
        return status != TD_OK ? status
                               : td_error_set(err, TD_MEMORY_EXHAUSTED,
                                              "there is not enough memory to use a device");
    }
    session->api = api;
    session->own_api = options->api;
    session->device = opener->device;
    free(opener);
    status = open_parts(session, options, err);
    if (status != TD_OK) {
        td_device_session_close(session);
        return status;
    }
    *out = session;
    return TD_OK;
}

void td_device_session_close(struct td_device_session *session)
{
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        td_batch_free(session->batches[i]);
    td_table_cache_free(session->table_cache);
    td_staging_free(session->staging);
    session->api->close(session->device);
    free(session);
}

/* ---- batches --------------------------------------------------------------------------------- */

int td_device_session_in_flight(const struct td_device_session *session)
{
    int n = 0;
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        n += td_batch_in_flight(session->batches[i]);
    return n;
}

int td_device_session_free_batch(const struct td_device_session *session)
{
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        if (!td_batch_in_flight(session->batches[i]))
            return i;
    return -1;
}

int td_device_session_oldest_batch(const struct td_device_session *session)
{
    int oldest = -1;
    for (int i = 0; i < TD_SESSION_BATCHES; i++) {
        const struct td_batch *batch = session->batches[i];
        if (td_batch_in_flight(batch) &&
            (oldest < 0 || td_batch_begun_ns(batch) < td_batch_begun_ns(session->batches[oldest])))
            oldest = i;
    }
    return oldest;
}

bool td_device_session_trim_scratch(struct td_device_session *session)
{
    bool trimmed = false;
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        trimmed |= td_batch_trim(session->batches[i]);
    return trimmed;
}

bool td_device_session_trim(struct td_device_session *session)
{
    const bool trimmed = td_device_session_trim_scratch(session);
    return td_staging_trim(session->staging) || trimmed;
}

/* ---- a lost or abandoned device -------------------------------------------------------------- */

static void *run_closer(void *context)
{
    struct td_device_closer *closer = context;
    closer->api->close(closer->device);
    if (atomic_exchange(&closer->state, DONE) == ABANDONED)
        free(closer);
    return NULL;
}

/* Starts to close a lost device. Leaves session->closer NULL if allocation fails or no thread can
 * be started. */
static void begin_closing(struct td_device_session *session)
{
    struct td_device_closer *closer = malloc(sizeof *closer);
    if (!closer)
        return;
    closer->api = session->own_api;
    closer->device = session->device;
    atomic_init(&closer->state, AT_WORK);
    if (start_thread(run_closer, closer))
        session->closer = closer;
    else
        free(closer);
}

/* Frees the host side of a device without calling the device, whether or not it is closed. */
static void free_host_side(struct td_device_session *session, bool closed)
{
    for (int i = 0; i < TD_SESSION_BATCHES; i++)
        td_batch_abandon(session->batches[i]);
    td_table_cache_abandon(session->table_cache, closed);
    td_staging_abandon(session->staging);
    free(session);
}

bool td_device_session_close_lost(struct td_device_session *session)
{
    if (!session->closer) {
        if (td_staging_all_returned(session->staging))
            begin_closing(session);
        return false;
    }
    if (atomic_load(&session->closer->state) != DONE)
        return false;
    free(session->closer);
    free_host_side(session, true);
    return true;
}

void td_device_session_abandon(struct td_device_session *session)
{
    if (session->closer && atomic_exchange(&session->closer->state, ABANDONED) == DONE)
        free(session->closer);
    free_host_side(session, false);
}
