#include "server/devices/devices.h"

#include "api/message/document.h"
#include "api/text/suggest.h"
#include "gpu/loader/loader.h"
#include "server/devices/copiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_devices {
    struct td_device_library library;
    struct td_copiers *copiers;
    struct td_batcher *batcher;
    char why[256]; /* reason that there is no device */
};

/* ---- start and stop -------------------------------------------------------------------------- */

/* True for "auto", with which the device can be absent or become available later. */
static bool is_auto(const struct td_config *config)
{
    return strcmp(config->gpu, "auto") == 0;
}

/* Splits a text such as "reference:launch_us=1000" at the first colon after the name's folder. The
 * device's options follow the colon. */
static void split_name(const char *text, char *name, size_t size, const char **options)
{
    const char *slash = strrchr(text, '/'), *colon = strchr(slash ? slash : text, ':');
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    snprintf(name, size, "%.*s", (int)(length < size ? length : size - 1), text);
    *options = colon ? colon + 1 : "";
}

/* Appends the valid names to the message, because an unknown name might be a typing error. */
static void add_valid_names(const char *name, char message[TD_CONFIG_MESSAGE])
{
    static const char *const names[] = { "auto", "off", "cuda", "reference" };
    uint32_t work;
    const size_t used = strlen(message);
    if (strchr(name, '/') || strcmp(name, "cuda") == 0)
        return;
    const char *nearest =
        td_nearest_name(name, strlen(name), names, (int)(sizeof names / sizeof *names), &work);
    snprintf(message + used, TD_CONFIG_MESSAGE - used,
             "; expected auto, off, cuda, reference or a path with a slash in it%s%s%s",
             nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

bool td_devices_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    struct td_device_library library;
    struct td_error err;
    char name[4096];
    const char *text;
    if (is_auto(config) || strcmp(config->gpu, "off") == 0)
        return true;
    split_name(config->gpu, name, sizeof name, &text);
    if (td_device_load(name, &library, &err) != TD_OK) {
        snprintf(message, TD_CONFIG_MESSAGE, "gpu: %s", err.message);
        add_valid_names(name, message);
        return false;
    }
    const bool valid = td_device_check_options(&library, text, &err) == TD_OK;
    td_device_unload(&library);
    if (!valid)
        snprintf(message, TD_CONFIG_MESSAGE, "gpu: '%.100s': %s", config->gpu, err.message);
    return valid;
}

/* Returns the number of copying threads. Four threads saturate the memory bandwidth of a host or
 * its bus, and leave most processors to the workers. */
static int n_copiers(const struct td_config *config)
{
    const int64_t share = config->workers / 4;
    return share < 1 ? 1 : share > 4 ? 4 : (int)share;
}

static bool start(struct td_devices *devices, const struct td_config *config, const char *text,
                  struct td_buffer_pool *buffers, const struct td_log *log)
{
    devices->copiers = td_copiers_new(n_copiers(config));
    if (!devices->copiers)
        return false;
    devices->batcher = td_batcher_new(&(struct td_batcher_options){
        .api = devices->library.api,
        .device = { .memory = (uint64_t)config->gpu_memory,
                    .tf32 = config->gpu_tf32,
                    .text = text },
        .buffers = buffers,
        .copiers = devices->copiers,
        .log = log,
        .batch_limit = (int)config->batch_limit,
        .batch_wait_us = config->batch_wait_us,
        .staging_bytes = (uint64_t)config->gpu_staging,
        .hang_ms = config->gpu_hang_ms,
        .retry_ms = config->gpu_retry_ms,
        /* A driver might take seconds to start, or never return. */
        .in_background = is_auto(config),
    });
    return devices->batcher != NULL;
}

static bool open_device(struct td_devices *devices, const struct td_config *config,
                        struct td_buffer_pool *buffers, const struct td_log *log)
{
    const bool automatic = is_auto(config);
    char name[4096];
    const char *text;
    struct td_error err;
    if (strcmp(config->gpu, "off") == 0) {
        snprintf(devices->why, sizeof devices->why, "this server was started with --gpu off");
        return true;
    }
    split_name(automatic ? "cuda" : config->gpu, name, sizeof name, &text);
    if (td_device_load(name, &devices->library, &err) != TD_OK) {
        /* Clients read this text. The log names the file that could not be loaded. */
        snprintf(devices->why, sizeof devices->why,
                 "this server has no GPU plugin that it can load");
        td_log(log, automatic ? TD_LOG_DEBUG : TD_LOG_ERROR, automatic ? "no_gpu" : "start_failed",
               TD_TEXT("part", "device"), TD_TEXT("reason", err.message));
        return automatic;
    }
    if (start(devices, config, text, buffers, log))
        return true;
    td_log(log, TD_LOG_ERROR, "start_failed", TD_TEXT("part", "batcher"),
           TD_TEXT("gpu", config->gpu));
    return false;
}

struct td_devices *td_devices_open(const struct td_config *config, struct td_buffer_pool *buffers,
                                   const struct td_log *log)
{
    struct td_devices *devices = calloc(1, sizeof *devices);
    if (devices && open_device(devices, config, buffers, log))
        return devices;
    (void)td_devices_close(devices);
    return NULL;
}

bool td_devices_close(struct td_devices *devices)
{
    if (!devices)
        return true;
    const bool closed = td_batcher_free(devices->batcher);
    td_copiers_free(devices->copiers);
    td_device_unload(&devices->library);
    free(devices);
    return closed;
}

void td_devices_trim(struct td_devices *devices)
{
    if (devices->batcher)
        td_batcher_trim(devices->batcher);
}

void td_devices_drain(struct td_devices *devices)
{
    if (devices->batcher)
        td_batcher_drain(devices->batcher);
}

int td_devices_copying_threads(const struct td_devices *devices)
{
    return devices->copiers ? td_copiers_count(devices->copiers) : 1;
}

struct td_batcher *td_devices_batcher(struct td_devices *devices)
{
    return devices->batcher;
}

td_status td_devices_check(struct td_devices *devices, td_device_choice choice,
                           struct td_error *err)
{
    char why[TD_DEVICE_TEXT];
    if (choice != TD_DEVICE_GPU)
        return TD_OK;
    if (!devices->batcher)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "device is 'gpu', but %s; expected 'auto' or 'cpu'", devices->why);
    if (!td_batcher_available(devices->batcher, why))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "device is 'gpu', but it is not available: %s", why);
    return TD_OK;
}

/* ---- GET /v1/devices ------------------------------------------------------------------------- */

static bool add_count(cJSON *object, const char *name, uint64_t value)
{
    return td_document_add(object, name, td_document_count(value));
}

static bool add_cpu(cJSON *list, const struct td_config *config)
{
    cJSON *item = cJSON_CreateObject();
    return td_document_append(list, item) && td_document_text(item, "device", "cpu") &&
           td_document_text(item, "state", "ready") &&
           add_count(item, "workers", (uint64_t)config->workers) &&
           td_document_text(item, "isa", td_isa_name(td_isa_resolve(config->isa)));
}

static bool add_memory(cJSON *item, const struct td_batcher_counts *counts)
{
    cJSON *memory = cJSON_AddObjectToObject(item, "memory");
    return add_count(memory, "limit", counts->device.memory) &&
           add_count(memory, "in_use", counts->device.memory_used) &&
           add_count(memory, "tables", counts->tables) &&
           add_count(memory, "table_bytes", counts->table_bytes) &&
           add_count(memory, "tables_evicted", counts->evicted) &&
           add_count(memory, "staging", counts->staging_bytes);
}

static bool add_queue(cJSON *item, const struct td_batcher_counts *counts)
{
    cJSON *queue = cJSON_AddObjectToObject(item, "queue");
    return add_count(queue, "waiting", counts->waiting) &&
           add_count(queue, "in_flight", counts->in_flight);
}

static bool add_batches(cJSON *item, const struct td_batcher_counts *counts)
{
    const double mean = counts->batches > 0 ? (double)counts->items / (double)counts->batches : 0;
    return add_count(item, "batches", counts->batches) &&
           add_count(item, "requests", counts->items) &&
           td_document_add(item, "mean_batch_size", cJSON_CreateNumber(mean)) &&
           add_count(item, "requests_given_back", counts->failed_items) &&
           add_count(item, "times_opened", counts->opens);
}

static bool add_gpu(cJSON *list, struct td_devices *devices)
{
    cJSON *item = cJSON_CreateObject();
    struct td_batcher_counts counts = { .available = false };
    if (!td_document_append(list, item) || !td_document_text(item, "device", "gpu"))
        return false;
    if (!devices->batcher)
        return td_document_text(item, "state", "absent") &&
               td_document_text(item, "reason", devices->why);
    td_batcher_counts(devices->batcher, &counts);
    return td_document_text(item, "state", counts.available ? "ready" : "unavailable") &&
           (counts.available || td_document_text(item, "reason", counts.why)) &&
           td_document_text(item, "kind", devices->library.api->kind) &&
           td_document_text(item, "name", counts.device.name) && add_memory(item, &counts) &&
           add_queue(item, &counts) && add_batches(item, &counts);
}

td_status td_devices_describe(struct td_devices *devices, const struct td_config *config,
                              struct td_arena *arena, struct td_reply *reply, struct td_error *err)
{
    cJSON *document = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(document, "devices");
    const bool complete = list && add_cpu(list, config) && add_gpu(list, devices);
    return td_document_reply(document, complete, arena, reply, err);
}
