/* Which requests have a line in the log, and why. */
#include "server/calls/services.h"
#include "server/http/request_log.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sys/mman.h>

#include <string.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static struct td_services services;
static struct td_call call;

static void begin(void)
{
    memset(&services, 0, sizeof services);
    memset(&call, 0, sizeof call);
    services.log.level = TD_LOG_WARN;
    services.log.fd = memfd_create("log", 0);
    ck_assert_int_ge(services.log.fd, 0);
    services.config.slow_ms = 100;
    call.services = &services;
    call.method = "GET";
    call.path = "/";
    call.times.begun = MS;
}

static void end(void)
{
    close(services.log.fd);
}

/* What was logged since begin. */
static const char *logged(void)
{
    static char text[4096];
    const ssize_t length = pread(services.log.fd, text, sizeof text - 1, 0);
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    return text;
}

static const struct {
    const char *case_name;
    int http_status;
    td_status status;
    unsigned retry_after_s;
    bool probe, gone;
    bool failed;
} replies[] = {
    { "an error of the server", 500, TD_INTERNAL, 0, false, false, true },
    { "too little memory", 503, TD_MEMORY_EXHAUSTED, 1, false, false, true },
    { "an error of the client", 499, TD_MALFORMED_REQUEST, 0, false, false, false },
    { "a reply without an error", 200, TD_OK, 0, false, false, false },
    { "a call that a drain refuses", 503, TD_DRAINING, 0, false, false, true },
    { "a readiness probe during a drain", 503, TD_DRAINING, 0, true, false, false },
    { "a method that no route has", 501, TD_NOT_SUPPORTED, 0, false, false, false },
    { "a deadline that passed during the computation", 504, TD_DEADLINE_EXCEEDED, 0, false, false,
      true },
    { "a deadline that the queue would exceed", 504, TD_DEADLINE_EXCEEDED, 3, false, false, false },
    { "a client that has left", 504, TD_DEADLINE_EXCEEDED, 0, false, true, false },
};

TD_TEST_EACH(faults_of_the_server_are_logged_and_errors_that_any_client_can_cause_are_not, replies)
{
    call.reply.http_status = replies[_i].http_status;
    call.error.status = replies[_i].status;
    call.error.retry_after_s = replies[_i].retry_after_s;
    call.operation = replies[_i].probe ? TD_OPERATION_HEALTH : td_operation_of(call.op);
    call.gone = replies[_i].gone;
    td_request_log(&call, true);
    if (replies[_i].failed)
        ck_assert_msg(strstr(logged(), " warn request why=failed "), "%s: %s",
                      replies[_i].case_name, logged());
    else
        ck_assert_msg(logged()[0] == '\0', "%s: %s", replies[_i].case_name, logged());
}

static const struct {
    const char *case_name;
    int64_t begun, arrived, stage_end;
    bool slow;
} durations[] = {
    { "exactly --slow-ms", MS, 0, 101 * MS, false },
    { "a nanosecond more", MS, 0, 101 * MS + 1, true },
    { "a body that arrived slowly", MS, 500 * MS, 600 * MS, false },
    { "a slow reply to a body that arrived slowly", MS, 500 * MS, 600 * MS + 1, true },
};

TD_TEST_EACH(a_request_is_slow_if_its_reply_takes_longer_than_slow_ms, durations)
{
    call.reply.http_status = 200;
    call.times.begun = durations[_i].begun;
    call.times.arrived = durations[_i].arrived;
    call.times.stage_end = durations[_i].stage_end;
    td_request_log(&call, true);
    ck_assert_msg((strstr(logged(), " warn request why=slow ") != NULL) == durations[_i].slow,
                  "%s: %s", durations[_i].case_name, logged());
}

TD_FIXTURE(begin, end);
