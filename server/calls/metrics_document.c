#include "server/calls/metrics_document.h"

#include "api/media_type.h"
#include "server/calls/services_open.h"
#include "server/calls/table_reads.h"
#include "server/observe/clock.h"
#include "server/observe/exposition.h"
#include "server/observe/process.h"

#include <stdio.h>
#include <string.h>

/* Totals of all operations and tables. */
struct totals {
    struct td_operation_totals operations[TD_OPERATION_COUNT];
    struct td_table_totals tables[TD_METRICS_TABLES + 1];
    int n_tables;
};

/* Writes one sample of a family whose samples differ in one label. */
static void labelled(struct td_exposition *e, const char *label, const char *value, uint64_t n)
{
    td_label(e, label, value);
    td_sample_uint(e, "", n);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void write_requests(struct td_exposition *e, const struct totals *totals)
{
    td_family(e, "tensord_requests", TD_COUNTER,
              "requests by operation, HTTP status (499: the client disconnected) and body format");
    for (int operation = 0; operation < TD_OPERATION_COUNT; operation++)
        for (int code = 0; code < TD_CODE_COUNT; code++)
            for (int transport = 0; transport < TD_TRANSPORT_COUNT; transport++) {
                const uint64_t n = totals->operations[operation].requests[code][transport];
                char text[8];
                if (n == 0)
                    continue;
                snprintf(text, sizeof text, "%d", td_counted_codes[code]);
                td_label(e, "op", td_operation_name(operation));
                td_label(e, "code", text);
                td_label(e, "transport", td_transport_name((td_transport)transport));
                td_sample_uint(e, "", n);
            }
}

static void write_errors(struct td_exposition *e, const struct totals *totals)
{
    td_family(e, "tensord_errors", TD_COUNTER, "requests refused or failed, by error code");
    for (int operation = 0; operation < TD_OPERATION_COUNT; operation++)
        for (int status = TD_OK + 1; status < TD_STATUS_COUNT; status++) {
            const uint64_t n = totals->operations[operation].errors[status];
            if (n == 0)
                continue;
            td_label(e, "op", td_operation_name(operation));
            td_label(e, "error", td_status_name((td_status)status));
            td_sample_uint(e, "", n);
        }
}

/* True if the operation has had a request. Other operations are left out, because all ops together
 * would have thousands of series. */
static bool is_in_use(const struct td_operation_totals *of)
{
    for (int i = 0; i <= TD_DURATION_BUCKETS; i++)
        if (of->buckets[i] > 0)
            return true;
    return false;
}

static void write_durations(struct td_exposition *e, const struct totals *totals)
{
    td_family(e, "tensord_request_duration_seconds", TD_HISTOGRAM,
              "time from the headers of a request until its reply is ready to send");
    for (int operation = 0; operation < TD_OPERATION_COUNT; operation++) {
        const struct td_operation_totals *of = &totals->operations[operation];
        if (!is_in_use(of))
            continue;
        td_label(e, "op", td_operation_name(operation));
        td_sample_histogram(e, td_duration_bounds, of->buckets, TD_DURATION_BUCKETS,
                            of->duration_ns);
    }
}

/* True if the operation has stage samples. Checks only one stage, because every request is counted
 * in all stages. */
static bool has_stages(const struct td_operation_totals *of)
{
    for (int i = 0; i <= TD_STAGE_BUCKETS; i++)
        if (of->stage_buckets[0][i] > 0)
            return true;
    return false;
}

static void write_stages(struct td_exposition *e, const struct totals *totals)
{
    td_family(e, "tensord_stage_duration_seconds", TD_HISTOGRAM,
              "time of each stage of successful requests");
    for (int operation = 0; operation < TD_OPERATION_COUNT; operation++) {
        const struct td_operation_totals *of = &totals->operations[operation];
        for (int stage = 0; has_stages(of) && stage < TD_STAGE_COUNT; stage++) {
            td_label(e, "op", td_operation_name(operation));
            td_label(e, "stage", td_stage_name(stage));
            td_sample_histogram(e, td_stage_bounds, of->stage_buckets[stage], TD_STAGE_BUCKETS,
                                of->inferences.stage_ns[stage]);
        }
    }
}

static void write_bytes(struct td_exposition *e, const struct totals *totals)
{
    td_family(e, "tensord_request_bytes", TD_COUNTER, "bytes of request bodies, decompressed");
    for (int i = 0; i < TD_OPERATION_COUNT; i++)
        if (is_in_use(&totals->operations[i]))
            labelled(e, "op", td_operation_name(i), totals->operations[i].bytes_in);
    td_family(e, "tensord_reply_bytes", TD_COUNTER, "bytes of reply bodies");
    for (int i = 0; i < TD_OPERATION_COUNT; i++)
        if (is_in_use(&totals->operations[i]))
            labelled(e, "op", td_operation_name(i), totals->operations[i].bytes_out);
}

static void write_lookups(struct td_exposition *e, const char *table, const char *result,
                          uint64_t count)
{
    td_label(e, "table", table);
    labelled(e, "result", result, count);
}

/* Writes the counters of the tables that have been looked up. */
static void write_tables(struct td_exposition *e, const struct td_table_totals *tables, int count)
{
    td_family(e, "tensord_table_lookups", TD_COUNTER, "lookups of resident tensors");
    for (int i = 0; i < count; i++) {
        write_lookups(e, tables[i].name, "succeeded", tables[i].succeeded);
        write_lookups(e, tables[i].name, "failed", tables[i].failed);
    }
    td_family(e, "tensord_table_rows_read", TD_COUNTER, "rows read by lookups");
    for (int i = 0; i < count; i++)
        labelled(e, "table", tables[i].name, tables[i].rows);
    td_family(e, "tensord_table_bytes_read", TD_COUNTER, "bytes of the rows read by lookups");
    for (int i = 0; i < count; i++)
        labelled(e, "table", tables[i].name, tables[i].bytes);
}

/* ---- resources of the daemon ---------------------------------------------------------------- */

static void gauge(struct td_exposition *e, const char *name, const char *help, uint64_t value)
{
    td_family(e, name, TD_GAUGE, help);
    td_sample_uint(e, "", value);
}

static void write_queue(struct td_exposition *e, struct td_services *services,
                        const struct td_services_holdings *held)
{
    const int64_t now = td_now_ns();
    const struct td_queue_state queue = td_worker_pool_queue(services->workers, now);
    const struct td_queue_state disk = td_worker_pool_queue(services->disk_threads, now);
    gauge(e, "tensord_requests_in_flight", "requests accepted and not yet answered",
          (uint64_t)held->requests);
    gauge(e, "tensord_workers", "compute threads", (uint64_t)services->config.workers);
    gauge(e, "tensord_queue_jobs", "jobs that wait for a worker: requests and checks of files",
          (uint64_t)queue.jobs);
    gauge(e, "tensord_disk_queue_jobs",
          "jobs that wait for a disk thread: changes and scans of the data folder",
          (uint64_t)disk.jobs);
    gauge(e, "tensord_changes_waiting",
          "requests that wait for another change of the same tensor or of the aliases",
          (uint64_t)td_writers_waiting(services->store));
    gauge(e, "tensord_pass_waiting", "requests that wait to join a pass over their table",
          (uint64_t)atomic_load(&services->passes.waiting));
    td_family(e, "tensord_pass_members", TD_COUNTER,
              "requests computed in a pass over a table that another request led");
    td_sample_uint(e, "", atomic_load(&services->passes.members));
    gauge(e, "tensord_queue_limit", "--queue-limit", (uint64_t)services->config.queue_limit);
    td_family(e, "tensord_queue_oldest_seconds", TD_GAUGE,
              "waiting time of the request that has waited longest");
    td_sample_seconds(e, "", (uint64_t)queue.oldest_ns);
    td_family(e, "tensord_queue_work_seconds", TD_GAUGE,
              "estimated processor time of the waiting requests");
    td_sample_seconds(e, "", queue.cost_ns);
}

static void write_memory(struct td_exposition *e, const struct td_services_holdings *held)
{
    gauge(e, "tensord_memory_limit_bytes", "--memory-limit", held->buffers.limit);
    td_family(e, "tensord_memory_bytes", TD_GAUGE,
              "memory by use: requests, connections and resident tensors count against the limit");
    labelled(e, "use", "requests_and_tensors", held->buffers.in_use);
    labelled(e, "use", "connections", held->connections.memory_bytes);
    labelled(e, "use", "warm", held->buffers.warm);
    labelled(e, "use", "calls", held->calls);
    gauge(e, "tensord_tensors", "resident tensors", (uint64_t)held->store.tensors);
    gauge(e, "tensord_tensors_damaged", "tensors refused because a checksum does not match",
          (uint64_t)held->store.damaged);
    td_family(e, "tensord_tensor_bytes", TD_GAUGE, "bytes of resident tensors by place");
    labelled(e, "place", "mapped", held->store.mapped);
    labelled(e, "place", "memory", held->store.held - held->store.spare);
    labelled(e, "place", "spare", held->store.spare);
    gauge(e, "tensord_compiled_program_bytes",
          "bytes of compiled programs, kept for the next calls", held->store.compiled);
    td_family(e, "tensord_compiled_programs_evicted", TD_COUNTER,
              "compiled programs dropped to make room");
    td_sample_uint(e, "", held->store.compiled_evicted);
    gauge(e, "tensord_shared_memory_regions", "registered regions", (uint64_t)held->regions);
}

static void write_connections(struct td_exposition *e, const struct td_services *services,
                              const struct td_connection_counts *counts)
{
    td_family(e, "tensord_connections", TD_GAUGE, "open connections by phase");
    labelled(e, "phase", "waiting", (uint64_t)counts->waiting);
    labelled(e, "phase", "receiving", (uint64_t)counts->receiving);
    labelled(e, "phase", "working", (uint64_t)counts->working);
    labelled(e, "phase", "sending", (uint64_t)counts->sending);
    gauge(e, "tensord_connections_restricted",
          "connections above a limit, restricted to health checks", (uint64_t)counts->restricted);
    gauge(e, "tensord_connections_limit", "--connection-limit, or the limit that open files allow",
          (uint64_t)services->connection_limits.open);
}

static void write_tls(struct td_exposition *e, const struct td_services *services)
{
    if (!services->tls)
        return;
    const struct td_tls_state state = td_tls_state(services->tls);
    gauge(e, "tensord_tls_certificate_expires_seconds",
          "expiry time of the certificate, in seconds since 1970", (uint64_t)state.expires_s);
    td_family(e, "tensord_tls_handshakes", TD_COUNTER, "handshakes of new connections");
    labelled(e, "result", "complete", state.completed);
    labelled(e, "result", "failed", state.failed);
    td_family(e, "tensord_tls_resumed", TD_COUNTER,
              "complete handshakes that resumed an earlier session");
    td_sample_uint(e, "", state.resumed);
}

/* Writes, for each file and folder in use, whether it was last read successfully. */
static void write_reloads(struct td_exposition *e, struct td_services *services)
{
    const bool folder = services->config.data_dir[0];
    const struct td_store_reading reading = td_store_reading(services->store);
    td_family(e, "tensord_last_reload_successful", TD_GAUGE,
              "1 if the last read, at startup or after SIGHUP, succeeded");
    if (services->tokens)
        labelled(e, "what", "tokens", !atomic_load(&services->tokens_kept));
    if (services->tls)
        labelled(e, "what", "certificate", !atomic_load(&services->certificate_kept));
    if (folder) {
        labelled(e, "what", "data_dir", reading.folder);
        labelled(e, "what", "aliases", reading.aliases);
    }
    gauge(e, "tensord_data_dir_problems",
          "problems in the data folder; GET /v1/aliases lists at most 64",
          (uint64_t)reading.problems);
}

static void write_device(struct td_exposition *e, const struct td_services *services)
{
    struct td_batcher_counts counts = { .available = false };
    struct td_batcher *batcher = td_devices_batcher(services->devices);
    if (!batcher)
        return;
    td_batcher_counts(batcher, &counts);
    gauge(e, "tensord_device_available", "1 while the device can be used", counts.available);
    td_family(e, "tensord_device_batches", TD_COUNTER, "batches launched on the device");
    td_sample_uint(e, "", counts.batches);
    td_family(e, "tensord_device_calls", TD_COUNTER, "calls in those batches");
    td_sample_uint(e, "", counts.items);
    td_family(e, "tensord_device_failed_calls", TD_COUNTER, "calls that the device did not answer");
    td_sample_uint(e, "", counts.failed_items);
    td_family(e, "tensord_device_queue_calls", TD_GAUGE, "calls given to the device");
    labelled(e, "phase", "waiting", counts.waiting);
    labelled(e, "phase", "in_flight", counts.in_flight);
    gauge(e, "tensord_device_table_bytes", "bytes of resident tensors copied to the device",
          counts.table_bytes);
}

static void write_log(struct td_exposition *e, const struct td_services *services)
{
    td_family(e, "tensord_slow_requests", TD_COUNTER, "requests slower than --slow-ms");
    td_sample_uint(e, "", atomic_load(&services->slow.events));
    td_family(e, "tensord_log_lines_dropped", TD_COUNTER,
              "log lines that could not be written immediately");
    td_sample_uint(e, "", atomic_load(&services->log_state.dropped));
}

static void write_spans(struct td_exposition *e, struct td_services *services)
{
    if (!services->exporter)
        return;
    const struct td_exporter_counts counts = td_exporter_counts(services->exporter);
    td_family(e, "tensord_spans", TD_COUNTER, "spans of traced requests by result");
    labelled(e, "result", "exported", counts.exported);
    labelled(e, "result", "dropped", counts.dropped);
    labelled(e, "result", "failed", counts.failed);
}

/* Writes the process metrics under their standard Prometheus names. */
static void write_process(struct td_exposition *e)
{
    const struct td_process process = td_process_read();
    td_family(e, "process_cpu_seconds", TD_COUNTER, "user and system time");
    td_sample_seconds(e, "", process.cpu_ns);
    gauge(e, "process_resident_memory_bytes", "resident memory", process.resident_bytes);
    gauge(e, "process_virtual_memory_bytes", "address space in use", process.virtual_bytes);
    gauge(e, "process_open_fds", "open files", process.open_files);
    gauge(e, "process_max_fds", "open files allowed", process.most_files);
    gauge(e, "process_threads", "threads", process.threads);
    td_family(e, "process_start_time_seconds", TD_GAUGE, "start, since the epoch");
    td_sample_seconds(e, "", process.start_ms * 1000000);
}

static void write_build(struct td_exposition *e)
{
    td_family(e, "tensord_build_info", TD_GAUGE, "1, labelled with the version");
    labelled(e, "version", TD_VERSION, 1);
}

/* ---- the reply ------------------------------------------------------------------------------- */

/* True if the client prefers OpenMetrics to the older text format. */
static bool wants_openmetrics(const char *accept)
{
    struct td_preference preference;
    int openmetrics = 0, text = 0;
    const char *end = accept ? accept + strlen(accept) : NULL;
    while (accept && td_preference_next(&accept, end, &preference)) {
        if (td_token_is(preference.name, "application/openmetrics-text"))
            openmetrics = preference.weight;
        else if (td_token_is(preference.name, "text/plain"))
            text = preference.weight;
    }
    return openmetrics > text;
}

static void write_all(struct td_exposition *e, struct td_services *services,
                      const struct totals *totals)
{
    const struct td_services_holdings held = td_services_holdings(services);
    write_build(e);
    write_requests(e, totals);
    write_errors(e, totals);
    write_durations(e, totals);
    write_stages(e, totals);
    write_bytes(e, totals);
    write_tables(e, totals->tables, totals->n_tables);
    write_queue(e, services, &held);
    write_memory(e, &held);
    write_connections(e, services, &held.connections);
    write_tls(e, services);
    write_reloads(e, services);
    write_device(e, services);
    write_log(e, services);
    write_spans(e, services);
    write_process(e);
}

/* Returns the size of the document's buffer: enough for ten digits in every counter, a hundred long
 * names of tables, and each operation in use with every stage, code and transport. */
static size_t size_of(const struct totals *totals)
{
    enum { BASE = 256 << 10, PER_OPERATION = 28 << 10 };
    _Static_assert(BASE + TD_OPERATION_COUNT * PER_OPERATION <= TD_RESERVE_BYTES,
                   "the reserve is large enough for all operations");
    size_t size = BASE;
    for (int i = 0; i < TD_OPERATION_COUNT; i++)
        size += is_in_use(&totals->operations[i]) ? PER_OPERATION : 0;
    return size;
}

td_status td_get_metrics(struct td_call *call)
{
    const bool openmetrics = wants_openmetrics(call->headers.accept);
    /* Uses the reserve, because operators need the metrics when memory is full. */
    call->arena.memory = &call->services->reserve.base;
    struct totals *totals = td_arena_alloc(&call->arena, 1, sizeof *totals, &call->error);
    if (!totals)
        return TD_MEMORY_EXHAUSTED;
    for (int i = 0; i < TD_OPERATION_COUNT; i++)
        td_metrics_read(call->services->metrics, i, &totals->operations[i]);
    const size_t size = size_of(totals);
    char *body = td_arena_alloc(&call->arena, size, 1, &call->error);
    if (!body)
        return TD_MEMORY_EXHAUSTED;
    struct td_text text = { .at = body, .end = body + size };
    struct td_exposition exposition;
    totals->n_tables =
        td_table_reads_known_to(&call->catalog.access, call->services->metrics, totals->tables);
    td_exposition_begin(&exposition, &text, openmetrics);
    write_all(&exposition, call->services, totals);
    td_exposition_end(&exposition);
    if (text.full)
        return td_error_set(&call->error, TD_INTERNAL, "the metrics are longer than %zu bytes",
                            size);
    td_reply_set(&call->reply, 200,
                 openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                             : "text/plain; version=0.0.4; charset=utf-8",
                 body, (size_t)(text.at - body));
    return TD_OK;
}
