/* setup.h - a server without HTTP, and calls without a connection.
 *
 * Errors     Any failure fails the test. */
#ifndef TD_TESTS_SERVER_CALLS_SETUP_H
#define TD_TESTS_SERVER_CALLS_SETUP_H

#include "server/calls/call.h"
#include "server/calls/services.h"
#include "tests/support/eventually.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- the server ------------------------------------------------------------------------------ */

extern struct td_services services;

#define OPTIONS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Opens the server with one worker and at most 4 options; NULL ends them. Closes the one before. */
void server_open(const char *const *options);

/* Frees the calls that the test has not freed, and checks that the server has no other call and no
 * memory in use. No effect if no server is open. server_end, of a fixture, first resets test_arena,
 * which may refer to tensors of the server. */
void server_close(void);
void server_end(void);

/* The option that makes the folder of folder.h the data folder. Until the next call. */
const char *data_dir_option(void);

/* Writes a .npy file into that folder, version 1.0, of n int32, all 0. Its data begins `shift`
 * bytes after an aligned address. */
void put_zeros(const char *name, int n, int shift);

/* A job that stops a worker at a gate. */
struct stopping_job {
    struct td_job job; /* first: it is cast back */
    struct gate gate;
};

/* Queues the job; gate_await returns when the worker has stopped. */
void stopping_job_submit(struct stopping_job *stopping);

/* Stops the only worker until release_worker; returns when it has stopped. */
void hold_worker(void);
void release_worker(void);

/* ---- calls ----------------------------------------------------------------------------------- */

/* A call whose body has arrived: of this op, of gather, and of gather by the client with this IPv4
 * address. */
struct td_call *call_of_bytes(const char *op, const void *body, size_t bytes);
struct td_call *call_of(const char *body);
struct td_call *call_from(const char *address, const char *body);

#define GATHER        "{\"params\":[10,20,30],\"indices\":[2,0]}"
#define GATHER_RESULT "[30,10]"

/* params float32[1,100] of zeros, n indices of 0: an output of 400 n bytes from a small body. In
 * test_arena. */
char *wide_gather(int n);

/* td_schedule, and if it queues the call: submits it and waits until a worker has finished it. */
void run_call(struct td_call *call);

/* The second half of run_call. */
void run_queued(struct td_call *call);

/* What calls have for `finished`; waits until workers have finished so many calls. */
void call_finished(struct td_call *call);
void await_calls(int n);

/* The body of the reply; the caller frees it. */
char *reply_text(const struct td_call *call);

/* The reply has this status, and this part in its body. */
void expect_reply(const struct td_call *call, int http_status, const char *part);

#endif
