#include "server/http/acceptor.h"
#include "server/http/capacity.h"
#include "server/http/linger.h"
#include "server/http/metrics_listener.h"
#include "tests/support/suite.h"

#include <sys/resource.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GIB (INT64_C(1) << 30)

static struct td_config config;
static struct td_log capacity_log;
static int logs[2];
static char no_text[] = "", no_address[] = "", an_address[] = "127.0.0.1:0";

static void set_up(void)
{
    memset(&config, 0, sizeof config);
    ck_assert_int_eq(pipe(logs), 0);
    capacity_log.fd = logs[1];
    capacity_log.level = TD_LOG_WARN;
    config.io_threads = 1;
    config.connection_memory = 30 << 10;
    config.memory_limit = GIB;
    config.connection_limit = 10000;
    config.metrics_listen = no_address;
    config.tls_certificate = no_text;
}

/* Lowers the limits on open files of this process, which is the test's own. */
static void allow_files(int64_t now, int64_t most)
{
    const struct rlimit files = { .rlim_cur = (rlim_t)now, .rlim_max = (rlim_t)most };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* Files beside those of connections: 64 for the process, and for lingering, restricted and ending
 * connections, and two for each I/O thread. */
enum {
    SPARE = 64,
    RESERVED = SPARE + TD_LINGER_SOCKETS + TD_RESTRICTED_CONNECTIONS + TD_ENDING + 2 * (1 + 1)
};

static struct td_capacity capacity_found(void)
{
    struct td_capacity capacity;
    ck_assert(td_capacity_find(&config, &capacity));
    td_capacity_log(&capacity, true, &config, &capacity_log);
    return capacity;
}

static const char *logged(void)
{
    static char text[1024];
    close(logs[1]);
    const ssize_t n = read(logs[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

TD_TEST(connections_are_what_the_files_leave)
{
    allow_files(700, 700);
    const struct td_capacity capacity = capacity_found();
    ck_assert_int_eq(capacity.limits.open, 700 - RESERVED);
    ck_assert_ptr_nonnull(strstr(logged(), "the limit on open files"));
}

TD_TEST(the_limit_on_files_is_raised_to_what_the_system_allows)
{
    struct rlimit files;
    allow_files(100, 900);
    ck_assert_int_eq(capacity_found().limits.open, 900 - RESERVED);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    ck_assert_int_eq((int64_t)files.rlim_cur, 900);
}

TD_TEST(each_io_thread_takes_two_files)
{
    allow_files(900, 900);
    config.io_threads = 11;
    ck_assert_int_eq(capacity_found().limits.open, 900 - RESERVED - 20);
}

TD_TEST(another_address_for_metrics_takes_as_many_as_it_has_connections_and_two)
{
    allow_files(900, 900);
    config.metrics_listen = an_address;
    ck_assert_int_eq(capacity_found().limits.open, 900 - RESERVED - TD_METRICS_CONNECTIONS - 2);
}

TD_TEST(each_region_of_shared_memory_takes_a_file)
{
    allow_files(2000, 2000);
    config.system_shared_memory = true;
    ck_assert_int_eq(capacity_found().limits.open, 2000 - RESERVED - TD_SHM_REGIONS);
}

TD_TEST(no_more_connections_than_wanted)
{
    allow_files(900, 900);
    config.connection_limit = 900 - RESERVED;
    ck_assert_int_eq(capacity_found().limits.open, 900 - RESERVED);
    ck_assert_str_eq(logged(), "");
}

static const struct {
    int64_t wanted;
    int room; /* files beside the reserved ones */
    bool enough;
} fewest[] = {
    { 10000, 64, true }, { 10000, 63, false }, { 65, 64, true },
    { 65, 63, false },   { 10, 10, true },     { 10, 9, false },
};

TD_TEST_EACH(at_least_64_connections_or_as_many_as_wanted_must_be_possible, fewest)
{
    struct td_capacity capacity;
    char needed[32];
    allow_files(RESERVED + fewest[_i].room, RESERVED + fewest[_i].room);
    config.connection_limit = fewest[_i].wanted;
    const bool found = td_capacity_find(&config, &capacity);
    td_capacity_log(&capacity, found, &config, &capacity_log);
    ck_assert_int_eq(found, fewest[_i].enough);
    if (fewest[_i].enough)
        ck_assert_int_eq(capacity.limits.open, fewest[_i].room);
    snprintf(needed, sizeof needed, "needed=%d ", RESERVED + fewest[_i].room + 1);
    ck_assert_int_eq(strstr(logged(), needed) != NULL, !fewest[_i].enough);
}

TD_TEST(connections_take_a_quarter_of_the_memory_but_sixteen_are_allowed)
{
    static const struct {
        int64_t memory;
        int open;
    } rows[] = { { 4 * 100 * (32 << 10), 100 }, { 4 * 101 * (32 << 10) - 1, 100 },
                 { 4 * 17 * (32 << 10), 17 },   { 4 * 16 * (32 << 10), 16 },
                 { 4 * 15 * (32 << 10), 16 },   { 1, 16 } };
    allow_files(2000, 2000);
    ck_assert_uint_eq(td_capacity_connection_bytes(&config), 32 << 10);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        config.memory_limit = rows[i].memory;
        ck_assert_int_eq(capacity_found().limits.open, rows[i].open);
    }
    ck_assert_ptr_nonnull(strstr(logged(), "a quarter of --memory-limit"));
}

TD_TEST(a_client_has_half_of_the_connections_or_as_many_as_the_option_says)
{
    static const struct {
        int64_t wanted, option;
        int per_client;
    } rows[] = { { 100, 0, 50 }, { 101, 0, 51 },    { 1, 0, 1 },
                 { 100, 7, 7 },  { 100, 100, 100 }, { 100, 101, 100 } };
    allow_files(2000, 2000);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        config.connection_limit = rows[i].wanted;
        config.client_connections = rows[i].option;
        ck_assert_int_eq(capacity_found().limits.per_client, rows[i].per_client);
    }
}

TD_TEST(the_table_of_sockets_has_room_for_all_files)
{
    allow_files(2000, 2000);
    ck_assert_int_ge(capacity_found().n_sockets, 2000);
}

TD_FIXTURE(set_up, NULL);
