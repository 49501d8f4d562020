/* batcher_setup.h - a batcher on the reference device, and calls for it: set-up shared by the tests
 * of the batcher.
 *
 * Threads  The test's; `done` is called on the batcher's thread. */
#ifndef TD_TESTS_SERVER_DEVICES_BATCHER_SETUP_H
#define TD_TESTS_SERVER_DEVICES_BATCHER_SETUP_H

#include "gpu/reference/reference.h"
#include "kernels/einsum/einsum.h"
#include "kernels/gather/gather.h"
#include "server/devices/batcher.h"
#include "server/devices/copiers.h"
#include "server/memory/buffer_pool.h"
#include "server/observe/clock.h"
#include "tests/gates/clock.h"
#include "tests/support/eventually.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <pthread.h>
#include <semaphore.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define MS  ((int64_t)1000000)

/* Longer than a test may take: such a time passes only if the test advances the clock. */
enum { HOUR_MS = 3600000 };

struct setup {
    struct td_batcher *batcher;
    struct td_buffer_pool *buffers;
    struct td_copiers *copiers;
    struct td_batcher_options options;
    struct td_tensor table; /* table_of(10, 0) */
};

/* `device` as in reference.h; options that are zero get defaults: hang_ms is an hour, and so is
 * retry_ms. */
void setup_open(struct setup *setup, const char *device);
/* Ends the calls that the test has not ended, frees its tables, and checks that no memory of the
 * device or the pool is in use. */
void setup_close(struct setup *setup);
struct td_batcher_counts counts_of(struct setup *setup);
uint64_t launches(void);

/* Lets retry_ms pass, and waits until the device is open again. */
void reopen(struct setup *setup);

/* Threads that the batcher has started since the start of the test, and those that have not
 * ended. */
enum { THREADS = 4 }; /* two that copy, the batcher's and its supervisor */
int threads_started(void);
int threads_running(void);

/* ---- calls ----------------------------------------------------------------------------------- */

/* A table of `rows` rows of COLS floats, row r holding base + 1000 * r + 0, 1, 2, ... It has the
 * reference that setup_close or drop_table releases. */
enum { COLS = 4 };
struct td_tensor table_of(int64_t rows, float base);
void drop_table(const struct td_tensor *table);

/* An item, its arguments and its result. */
struct batch_call {
    struct td_batch_item item; /* first: done and gone cast back */
    struct td_op_args args;
    struct td_tensor inputs[2];
    struct td_arena arena;
    sem_t finished;
    atomic_int n_done;
    td_status status;
    struct td_error err;
    pthread_t done_on;
    int64_t done_ns;
    bool disconnected;    /* the client has disconnected */
    bool holds_launch;    /* its launch does not end before release_launch */
    atomic_int *sequence; /* counter of ended calls, which gives `order`; NULL: none */
    int order;
    void (*on_end)(struct batch_call *call); /* called at the end of done; NULL: posts `finished` */
    struct batch_call *next;                 /* in the list of calls that have not been ended */
};

/* A call of an op; the test sets inputs and attributes before batch_call_infer. batch_call_end or
 * setup_close frees the call. */
void batch_call_begin(struct batch_call *call, const struct td_op *op);
void batch_call_infer(struct batch_call *call, const struct td_op *op, uint32_t resident);
void batch_call_end(struct batch_call *call);

/* A lookup of n rows, or of one. The call holds the indices. */
void batch_call_rows(struct batch_call *call, const struct td_tensor *table, td_bounds bounds,
                     const int64_t *indices, int64_t n);
void batch_call_row(struct batch_call *call, const struct td_tensor *table, int64_t index);
void batch_call_einsum(struct batch_call *call, const char *equation, struct td_tensor a,
                       struct td_tensor b, uint32_t resident);
/* An upload of a table. */
void batch_call_upload(struct batch_call *call, const struct td_tensor *table);

void submit(struct setup *setup, struct batch_call *call);
void submit_row(struct setup *setup, struct batch_call *call, const struct td_tensor *table,
                int64_t index);

/* The next launch does not end before release_launch of a call that holds_launch. */
void hold_next_launch(void);

/* Lets the held launch of `call` end, and holds the next one, of what waits, until release_launch
 * of `next`. */
void hold_launch_after(struct batch_call *call, struct batch_call *next);

/* Lets a held launch end. */
void release_launch(struct batch_call *call);

/* How often the batcher has looked whether work in flight has ended. After LOOKS more it has acted
 * on what was so before. */
enum { LOOKS = 4 };
int looks(void);

/* Advances the clock while a batch is in flight. Returns when the batcher has noticed, or the call
 * has ended. */
void pass_time(const struct batch_call *call, int64_t ns);

/* Advances the clock in steps until the call has ended. Returns by how much. */
int64_t pass_time_until_end(const struct batch_call *call, int64_t step_ns);

/* Waits for it and checks its status. */
void expect_status(struct batch_call *call, td_status status);
/* Checks the rows of a lookup with valid indices: now, or after waiting for it. */
void expect_rows_now(const struct batch_call *call);
void expect_rows(struct batch_call *call);

/* Uploads a table and checks the status. */
void upload(struct setup *setup, const struct td_tensor *table, td_status status);

/* Keeps the device busy with one call, whose launch takes launch_us and lasts until
 * release_launch, which expect_status and expect_rows call. */
void keep_busy(struct setup *setup, struct batch_call *call, const struct td_tensor *table);

#endif
