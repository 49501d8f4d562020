/* Jobs of the server itself, that no client waits for. */
#include "server/calls/services_open.h"
#include "server/observe/clock.h"
#include "tests/server/calls/setup.h"
#include "tests/server/folder.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

static void must_not_run(struct td_job *job, struct td_worker *worker)
{
    (void)job;
    (void)worker;
    ck_abort_msg("a job ran that was to be dropped");
}

static int drops;

static void count_drop(struct td_job *job, td_status why)
{
    (void)job;
    (void)why;
    drops++;
}

TD_TEST(a_scan_waits_for_a_free_place_in_the_queue)
{
    struct td_job_flow flow = { 0 };
    struct td_job jobs[3];
    server_open(OPTIONS("--queue-limit=3"));
    hold_worker();
    drops = 0;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct td_job){
            .flow = &flow, .deadline_ns = TD_NEVER, .run = must_not_run, .drop = count_drop
        };
        ck_assert(td_worker_pool_reserve(services.workers, &flow));
        td_worker_pool_submit(services.workers, &jobs[i]);
    }
    td_services_rescan(&services, true);
    ck_assert_int_eq(drops, 0); /* as a job of another client would: it has none */
    ck_assert(td_services_is_rescanning(&services));
    td_worker_pool_expire(services.workers, td_now_ns(), true);
    td_services_rescan(&services, false); /* the next tick */
    release_worker();
    EVENTUALLY(!td_services_is_rescanning(&services));
}

/* A server with a folder in which an earlier one has persisted `t`. */
static void open_server_with_tensor(void)
{
    static const float value = 1;
    const struct td_tensor t = { .dtype = TD_DTYPE_FLOAT32,
                                 .shape = { 0 },
                                 .numel = 1,
                                 .data = (void *)(uintptr_t)&value,
                                 .bytes = sizeof value };
    const struct td_store_write write = { .name = "t", .persist = true };
    struct td_tensor_listing listing;
    struct td_error err;
    bool created;
    folder_open();
    server_open(OPTIONS(data_dir_option()));
    ck_assert_int_eq(
        td_store_put(services.store, &write, &t, &test_arena, &listing, &created, &err), TD_OK);
    td_arena_reset(&test_arena); /* it holds the version */
    server_open(OPTIONS(data_dir_option()));
    ck_assert(td_store_has_unverified(services.store));
}

/* Goes on with it, as each tick does, until nothing is left. */
static bool has_verified(void)
{
    td_services_verify(&services);
    return !td_store_has_unverified(services.store);
}

TD_TEST(files_are_verified_by_idle_workers)
{
    open_server_with_tensor();
    hold_worker();
    td_services_verify(&services);
    ck_assert_int_gt(td_worker_pool_room(services.workers), 0); /* it takes no place */
    release_worker();
    EVENTUALLY(has_verified());
    server_close();
    folder_close();
}

TD_FIXTURE(NULL, server_end);
