#include "server/config/cgroup.h"
#include "server/config/load.h"
#include "server/config/variables.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ARGUMENTS 10

/* The result of the last load. The fixture frees it. */
static struct {
    enum td_config_action action;
    struct td_config config;
    char message[TD_CONFIG_MESSAGE];
} loaded;

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Loads from arguments and an environment, arrays that end with NULL. */
static enum td_config_action load(const char *const *arguments, const char *const *environment)
{
    char *argv[MAX_ARGUMENTS + 2] = { (char *)(uintptr_t) "tensord" };
    char *none[1] = { NULL };
    int argc = 1;
    for (; arguments && arguments[argc - 1]; argc++) {
        ck_assert_int_le(argc, MAX_ARGUMENTS);
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
    }
    td_config_free(&loaded.config);
    return loaded.action =
               td_config_load(&loaded.config, argc, argv,
                              environment ? (char **)(uintptr_t)environment : none, loaded.message);
}

static void load_good(const char *const *arguments, const char *const *environment)
{
    ck_assert_msg(load(arguments, environment) == TD_CONFIG_RUN, "%s", loaded.message);
}

/* A temporary configuration file. */
static char file_path[] = "/tmp/tensord-test-config-XXXXXX";

static void file_open(void)
{
    const int fd = mkstemp(file_path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void file_close(void)
{
    td_config_free(&loaded.config);
    unlink(file_path);
    strcpy(file_path + strlen(file_path) - 6, "XXXXXX");
}

static void file_write(const char *text)
{
    FILE *file = fopen(file_path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Loads from the file alone. */
static enum td_config_action load_file(const char *text)
{
    file_write(text);
    return load(WORDS("--config", file_path), NULL);
}

static void load_good_file(const char *text)
{
    ck_assert_msg(load_file(text) == TD_CONFIG_RUN, "%s", loaded.message);
}

/* ---- defaults -------------------------------------------------------------------------------- */

static int64_t least_of(int64_t all, int64_t limit)
{
    return limit > 0 && limit < all ? limit : all;
}

/* The processors that this process may use, which may be fewer than the machine has. */
static int64_t cpus_here(void)
{
    cpu_set_t set;
    const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
    return least_of(known ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN),
                    td_cgroup_limits_read("").cpus);
}

static int64_t memory_here(void)
{
    return least_of((int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
                    td_cgroup_limits_read("").memory_bytes);
}

TD_TEST(unset_options_have_their_defaults)
{
    load_good(NULL, NULL);
    const struct td_config *config = &loaded.config;
    ck_assert_str_eq(config->listen, "127.0.0.1:8080");
    ck_assert_str_eq(config->data_dir, "");
    ck_assert_str_eq(config->allow_host, "");
    ck_assert_str_eq(config->allow_origin, "");
    ck_assert_int_eq(config->io_threads, cpus_here() <= 2 ? 1 : 2);
    ck_assert_int_eq(config->workers, cpus_here());
    ck_assert_int_eq(config->queue_limit, 1024);
    ck_assert_int_eq(config->memory_limit, memory_here() / 2);
    ck_assert_int_eq(config->tensor_quota, config->memory_limit / 2);
    ck_assert_int_eq(config->client_requests, 0);
    ck_assert_int_eq(config->client_memory, config->memory_limit / 2);
    ck_assert_int_eq(config->disk_quota, 0);
    ck_assert_int_eq(config->verify, TD_VERIFY_BACKGROUND);
    ck_assert_int_eq(config->pool_limit, 268435456);
    ck_assert_int_eq(config->max_body, 268435456);
    ck_assert_int_eq(config->max_output, 1073741824);
    ck_assert_int_eq(config->max_flops, 10000000000000);
    ck_assert_int_eq(config->isa, TD_ISA_AUTO);
    ck_assert_str_eq(config->gpu, "auto");
    ck_assert_int_eq(config->default_timeout_ms, 30000);
    ck_assert_int_eq(config->idle_timeout_ms, 60000);
    ck_assert_int_eq(config->drain_timeout_ms, 30000);
    ck_assert_int_eq(config->connection_limit, 10000);
    ck_assert_int_eq(config->connection_memory, 32768);
    ck_assert_int_eq(config->inline_limit_us, 20);
    ck_assert_int_eq(config->log_level, TD_LOG_INFO);
    ck_assert_int_eq(config->log_format, TD_LOG_TEXT);
    ck_assert_double_eq(config->access_log, 0);
    ck_assert_int_eq(config->slow_ms, 0);
}

/* ---- sources --------------------------------------------------------------------------------- */

TD_TEST(every_source_sets_every_kind_of_option)
{
    static const char json[] =
        "{\"listen\": \"[::1]:9\", \"data-dir\": \"/data\", \"io-threads\": "
        "3, \"max-body\": \"64M\","
        " \"log-level\": \"warn\", \"log-format\": \"json\", "
        "\"isa\": \"generic\", \"verify\": \"off\", \"max-flops\": 9007199254740991}";
    for (int source = 0; source < 3; source++) {
        if (source == 0)
            load_good(WORDS("--listen=[::1]:9", "--data-dir=/data", "--io-threads=3",
                            "--max-body=64M", "--log-level=warn", "--log-format=json",
                            "--isa=generic", "--verify=off", "--max-flops=9007199254740991"),
                      NULL);
        else if (source == 1)
            load_good(NULL, WORDS("TENSORD_LISTEN=[::1]:9", "TENSORD_DATA_DIR=/data",
                                  "TENSORD_IO_THREADS=3", "TENSORD_MAX_BODY=64M",
                                  "TENSORD_LOG_LEVEL=warn", "TENSORD_LOG_FORMAT=json",
                                  "TENSORD_ISA=generic", "TENSORD_VERIFY=off",
                                  "TENSORD_MAX_FLOPS=9007199254740991"));
        else
            load_good_file(json);
        const struct td_config *config = &loaded.config;
        ck_assert_str_eq(config->listen, "[::1]:9");
        ck_assert_str_eq(config->data_dir, "/data");
        ck_assert_int_eq(config->io_threads, 3);
        ck_assert_int_eq(config->max_body, 64 << 20);
        ck_assert_int_eq(config->log_level, TD_LOG_WARN);
        ck_assert_int_eq(config->log_format, TD_LOG_JSON);
        ck_assert_int_eq(config->isa, TD_ISA_GENERIC);
        ck_assert_int_eq(config->verify, TD_VERIFY_OFF);
        ck_assert_int_eq(config->max_flops, 9007199254740991);
        ck_assert_int_eq(config->queue_limit, 1024);
    }
}

static const struct {
    const char *description, *argument, *environment, *file;
    int64_t queue_limit;
} precedences[] = {
    { "the file alone", NULL, NULL, "{\"queue-limit\": 3}", 3 },
    { "the environment alone", NULL, "TENSORD_QUEUE_LIMIT=2", "{}", 2 },
    { "the command line alone", "--queue-limit=1", NULL, "{}", 1 },
    { "the environment wins over the file", NULL, "TENSORD_QUEUE_LIMIT=2", "{\"queue-limit\": 3}",
      2 },
    { "the command line wins over the file", "--queue-limit=1", NULL, "{\"queue-limit\": 3}", 1 },
    { "the command line wins over all", "--queue-limit=1", "TENSORD_QUEUE_LIMIT=2",
      "{\"queue-limit\": 3}", 1 },
};

TD_TEST_EACH(the_command_line_wins_over_the_environment_over_the_file, precedences)
{
    const char *arguments[] = { "--config", file_path, precedences[_i].argument, NULL };
    const char *environment[] = { "HOME=/", precedences[_i].environment, NULL };
    file_write(precedences[_i].file);
    load_good(arguments, environment);
    ck_assert_msg(loaded.config.queue_limit == precedences[_i].queue_limit, "%s: %lld",
                  precedences[_i].description, (long long)loaded.config.queue_limit);
}

TD_TEST(the_file_can_be_named_by_the_environment)
{
    char variable[100];
    file_write("{\"workers\": 7}");
    snprintf(variable, sizeof variable, "TENSORD_CONFIG=%s", file_path);
    load_good(NULL, WORDS(variable));
    ck_assert_int_eq(loaded.config.workers, 7);
    /* --config on the command line wins. */
    load_good(WORDS("--config", file_path), WORDS("TENSORD_CONFIG=/no/such/file"));
    ck_assert_int_eq(loaded.config.workers, 7);
}

TD_TEST(unknown_environment_variables_set_nothing)
{
    load_good(NULL,
              WORDS("WORKERS=3", "TENSORD_WORKERSX=4", "TENSORD_CACHE=/cache", "XTENSORD_WORKERS=5",
                    "TENSORD_QUEUE-LIMIT=6", "tensord_workers=7", "TENSORD_"));
    ck_assert_int_eq(loaded.config.workers, cpus_here());
    ck_assert_int_eq(loaded.config.queue_limit, 1024);
}

TD_TEST(a_value_follows_an_equals_sign_or_a_space)
{
    load_good(WORDS("--data-dir=a=b", "--listen", "h:1", "--log-level", "debug"), NULL);
    ck_assert_str_eq(loaded.config.data_dir, "a=b");
    ck_assert_str_eq(loaded.config.listen, "h:1");
    ck_assert_int_eq(loaded.config.log_level, TD_LOG_DEBUG);
}

static const struct {
    const char *argument;
    enum td_config_action action;
} actions[] = {
    { "--check-config", TD_CONFIG_CHECK },
    { "--check-health", TD_CONFIG_CHECK_HEALTH },
    { "--print-config", TD_CONFIG_PRINT },
    { "--help", TD_CONFIG_HELP },
    { "-h", TD_CONFIG_HELP },
    { "--version", TD_CONFIG_VERSION },
    { "-v", TD_CONFIG_VERSION },
    { "--workers=1", TD_CONFIG_RUN },
};

TD_TEST_EACH(an_action_is_recognised, actions)
{
    load(WORDS("--queue-limit=5", actions[_i].argument), NULL);
    ck_assert_int_eq(loaded.action, actions[_i].action);
    if (loaded.action != TD_CONFIG_HELP && loaded.action != TD_CONFIG_VERSION)
        ck_assert_int_eq(loaded.config.queue_limit, 5);
}

TD_TEST(help_ignores_other_errors_and_check_config_reports_them)
{
    ck_assert_int_eq(load(WORDS("--nonsense", "--help"), NULL), TD_CONFIG_HELP);
    ck_assert_int_eq(load(WORDS("--version"), WORDS("TENSORD_WORKERS=x")), TD_CONFIG_VERSION);
    ck_assert_int_eq(load(WORDS("--check-config", "--workers=x"), NULL), TD_CONFIG_WRONG);
    ck_assert_int_eq(load(WORDS("--check-config"), WORDS("TENSORD_WORKERS=x")), TD_CONFIG_WRONG);
}

/* ---- switches -------------------------------------------------------------------------------- */

static const struct {
    const char *argument, *next; /* next: NULL for none */
    bool on;
} switches[] = {
    { "--compress", NULL, true },        { "--compress=on", NULL, true },
    { "--compress=true", NULL, true },   { "--compress=1", NULL, true },
    { "--compress=yes", NULL, true },    { "--compress=off", NULL, false },
    { "--compress=false", NULL, false }, { "--compress=0", NULL, false },
    { "--compress=no", NULL, false },    { "--compress", "on", true },
    { "--compress", "off", false },      { "--compress", "--workers=2", true },
};

TD_TEST_EACH(a_switch_takes_an_optional_value, switches)
{
    load_good(WORDS(switches[_i].argument, switches[_i].next), NULL);
    ck_assert_msg(loaded.config.compress == switches[_i].on, "%s", switches[_i].argument);
    ck_assert(!loaded.config.system_shared_memory);
}

TD_TEST(a_switch_can_come_from_the_environment_and_the_file)
{
    load_good(NULL, WORDS("TENSORD_SYSTEM_SHARED_MEMORY=1"));
    ck_assert(loaded.config.system_shared_memory);
    load_good_file("{\"compress\": true, \"system-shared-memory\": \"on\"}");
    ck_assert(loaded.config.compress && loaded.config.system_shared_memory);
    load_good(WORDS("--config", file_path, "--compress=off"), NULL);
    ck_assert(!loaded.config.compress);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const struct {
    const char *description, *arguments[4], *environment, *file;
    const char *list;
} lists[] = {
    { "not given", { NULL }, NULL, "{}", "" },
    { "one value", { "--allow-host=a" }, NULL, "{}", "a" },
    { "values with commas", { "--allow-host", "a,b" }, NULL, "{}", "a,b" },
    { "the option repeated", { "--allow-host=a", "--allow-host", "b,c" }, NULL, "{}", "a,b,c" },
    { "the environment", { NULL }, "TENSORD_ALLOW_HOST=a,b", "{}", "a,b" },
    { "the file", { NULL }, NULL, "{\"allow-host\": \"a,b\"}", "a,b" },
    { "an array in the file", { NULL }, NULL, "{\"allow-host\": [\"a\", \"b\"]}", "a,b" },
    { "an empty array", { NULL }, NULL, "{\"allow-host\": []}", "" },
    { "a source of higher precedence replaces the list",
      { "--allow-host=a" },
      "TENSORD_ALLOW_HOST=b",
      "{\"allow-host\": [\"c\"]}",
      "a" },
    { "lists of different options are independent",
      { "--allow-host=a", "--allow-origin=b" },
      NULL,
      "{\"allow-host\": [\"c\"]}",
      "a" },
};

TD_TEST_EACH(a_list_is_comma_separated_or_repeated, lists)
{
    const char *const environment[] = { lists[_i].environment, NULL };
    file_write(lists[_i].file);
    load_good(WORDS("--config", file_path, lists[_i].arguments[0], lists[_i].arguments[1],
                    lists[_i].arguments[2]),
              environment);
    ck_assert_msg(strcmp(loaded.config.allow_host, lists[_i].list) == 0, "%s: %s",
                  lists[_i].description, loaded.config.allow_host);
}

TD_TEST(an_array_of_a_list_holds_strings)
{
    static const char json[] = "{\"allow-host\": [\"a\", 1]}";
    load_file(json);
    ck_assert_int_eq(loaded.action, TD_CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(loaded.message, "'1' is not a string or an array of strings"));
    ck_assert_ptr_nonnull(strstr(loaded.message, "allow-host in"));
}

/* ---- addresses to listen on ------------------------------------------------------------------ */

static const struct {
    const char *description;
    const char *const arguments[3];
    const char *environment, *file;
    const char *addresses[3];
} listens[] = {
    { "not given", { NULL }, NULL, "{}", { "127.0.0.1:8080" } },
    { "one", { "--listen=[::1]:0" }, NULL, "{}", { "[::1]:0" } },
    { "the option repeated", { "--listen=a:1", "--listen", "b:1" }, NULL, "{}", { "a:1", "b:1" } },
    { "commas, with blanks", { "--listen", "a:1 , [::]:2" }, NULL, "{}", { "a:1", "[::]:2" } },
    { "Unix sockets, beside an address",
      { "--listen=unix:/a b.sock,a:1", "--listen", "unix:///c:1" },
      NULL,
      "{}",
      { "unix:/a b.sock", "a:1", "unix:///c:1" } },
    { "both", { "--listen=a:1,b:1", "--listen=a:2" }, NULL, "{}", { "a:1", "b:1", "a:2" } },
    { "the environment", { NULL }, "TENSORD_LISTEN=a:1,a:2", "{}", { "a:1", "a:2" } },
    { "the file", { NULL }, NULL, "{\"listen\": \"a:1,a:2\"}", { "a:1", "a:2" } },
    { "an array", { NULL }, NULL, "{\"listen\": [\"a:1\", \"a:2\"]}", { "a:1", "a:2" } },
    { "a source of higher precedence replaces all",
      { "--listen=a:1" },
      "TENSORD_LISTEN=b:1,c:1",
      "{\"listen\": [\"d:1\", \"e:1\"]}",
      { "a:1" } },
    { "port 0 is another one each time",
      { "--listen=a:0", "--listen=a:0" },
      NULL,
      "{}",
      { "a:0", "a:0" } },
};

TD_TEST_EACH(it_listens_on_each_address_of_the_list, listens)
{
    const char *const environment[] = { listens[_i].environment, NULL };
    const char *const *expected = listens[_i].addresses;
    char address[TD_ADDRESS_SIZE];
    size_t n = 0;
    file_write(listens[_i].file);
    load_good(WORDS("--config", file_path, listens[_i].arguments[0], listens[_i].arguments[1],
                    listens[_i].arguments[2]),
              environment);
    for (const char *rest = loaded.config.listen; td_config_next_address(&rest, address); n++)
        ck_assert_msg(n < COUNT_OF(listens[_i].addresses) && expected[n] &&
                          strcmp(address, expected[n]) == 0,
                      "%s: %s", listens[_i].description, address);
    ck_assert_msg(n == COUNT_OF(listens[_i].addresses) || !expected[n], "%s: only %zu",
                  listens[_i].description, n);
}

TD_TEST(it_listens_on_a_limited_number_of_addresses)
{
    char text[16 * (TD_MOST_ADDRESSES + 1)] = "--listen=h:1", address[TD_ADDRESS_SIZE];
    int n = 0;
    for (int i = 2; i <= TD_MOST_ADDRESSES; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",h:%d", i);
    load_good(WORDS(text), NULL);
    for (const char *rest = loaded.config.listen; td_config_next_address(&rest, address);)
        n++;
    ck_assert_int_eq(n, TD_MOST_ADDRESSES);
    load(WORDS(text, "--listen=h:99"), NULL);
    ck_assert_int_eq(loaded.action, TD_CONFIG_WRONG);
    ck_assert_str_eq(loaded.message,
                     "--listen: 'h:99' is one address too many; expected at most 16");
}

/* ---- devices --------------------------------------------------------------------------------- */

static const char *const devices[] = { "auto",
                                       "off",
                                       "cuda",
                                       "cuda:x",
                                       "reference",
                                       "reference:",
                                       "reference:launch_us=1,lose_at=2",
                                       "/plugin.so:x=1",
                                       "./off:x",
                                       "/a:b/plugin.so",
                                       "offside:x" };

TD_TEST_EACH(a_device_may_have_options_after_a_colon, devices)
{
    load_good(WORDS("--gpu", devices[_i]), NULL);
    ck_assert_str_eq(loaded.config.gpu, devices[_i]);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    int64_t bytes;
} byte_values[] = {
    { "0", 0 },
    { "1", 1 },
    { "007", 7 },
    { "1000", 1000 },
    { "1K", 1024 },
    { "3K", 3072 },
    { "256M", 268435456 },
    { "2G", 2147483648 },
    { "1T", 1099511627776 },
    { "8388607T", 9223370937343148032 },
    { "9223372036854775807", INT64_MAX },
    { "9007199254740991K", 9223372036854774784 },
};

TD_TEST_EACH(bytes_take_the_suffixes_k_m_g_t, byte_values)
{
    load_good(WORDS("--pool-limit", byte_values[_i].text), NULL);
    ck_assert_int_eq(loaded.config.pool_limit, byte_values[_i].bytes);
}

TD_TEST(ranges_are_inclusive)
{
    load_good(
        WORDS("--io-threads=1", "--max-body=1024", "--connection-memory=16M", "--workers=1024"),
        NULL);
    ck_assert_int_eq(loaded.config.io_threads, 1);
    ck_assert_int_eq(loaded.config.max_body, 1024);
    ck_assert_int_eq(loaded.config.connection_memory, 16777216);
    ck_assert_int_eq(loaded.config.workers, 1024);
}

TD_TEST(zero_chooses_workers_and_memory)
{
    load_good(WORDS("--workers=0", "--memory-limit=0"), NULL);
    ck_assert_int_ge(loaded.config.workers, 1);
    ck_assert_int_gt(loaded.config.memory_limit, 1 << 20);
}

TD_TEST(max_flops_is_unlimited_or_up_to_63_bits)
{
    load_good(WORDS("--max-flops=0"), NULL);
    ck_assert_int_eq(loaded.config.max_flops, 0);
    load_good(WORDS("--max-flops=9223372036854775807"), NULL);
    ck_assert_int_eq(loaded.config.max_flops, INT64_MAX);
}

TD_TEST(each_instruction_set_is_chosen_by_name)
{
    static const char *const names[TD_ISA_COUNT] = { "auto", "generic", "avx2", "avx512",
                                                     "avx512_bf16" };
    for (int i = 0; i < TD_ISA_COUNT; i++) {
        load_good(WORDS("--isa", names[i]), NULL);
        ck_assert_int_eq(loaded.config.isa, i);
    }
}

TD_TEST(an_unsupported_instruction_set_is_rejected_by_name)
{
    for (int i = 0; i < TD_ISA_COUNT; i++) {
        char message[TD_CONFIG_MESSAGE] = "";
        load_good(WORDS("--isa", td_isa_name((td_isa)i)), NULL);
        const bool good = td_config_check_system(&loaded.config, message);
        ck_assert_int_eq(good, td_isa_supported((td_isa)i));
        if (!good) {
            ck_assert_ptr_nonnull(strstr(message, "isa: "));
            ck_assert_ptr_nonnull(strstr(message, td_isa_name((td_isa)i)));
        }
    }
}

TD_TEST(numbers_in_a_file_keep_every_digit)
{
    static const char json[] = "{\"pool-limit\": 9007199254740991, \"max-body\": 1048577,"
                               " \"default-timeout-ms\": 0, \"queue-limit\": \"12\"}";
    load_good_file(json);
    ck_assert_int_eq(loaded.config.pool_limit, 9007199254740991);
    ck_assert_int_eq(loaded.config.max_body, 1048577);
    ck_assert_int_eq(loaded.config.default_timeout_ms, 0);
    ck_assert_int_eq(loaded.config.queue_limit, 12);
}

/* ---- invalid
 * values----------------------------------------------------------------------------- */

/* `where` is the source of the value, `what` the invalid value, `expected` a valid form. */
static void expect_refusal(const char *where, const char *what, const char *expected)
{
    const char *message = loaded.message;
    ck_assert_msg(loaded.action == TD_CONFIG_WRONG, "%s %s was taken", where, what);
    ck_assert_msg(strncmp(message, where, strlen(where)) == 0, "'%s' does not begin with '%s'",
                  message, where);
    ck_assert_msg(strstr(message, what) != NULL, "'%s' does not name '%s'", message, what);
    ck_assert_msg(strstr(message, expected) != NULL, "'%s' does not contain '%s'", message,
                  expected);
    ck_assert_ptr_null(strchr(message, '\n'));
    ck_assert_ptr_null(loaded.config.listen); /* nothing is left to free */
    ck_assert_ptr_null(loaded.config.data_dir);
}

static const struct {
    const char *option, *value, *expected;
} wrong_values[] = {
    { "data-dir", "", "a value; omit the option to leave it unset" },
    { "metrics-listen", "", "a value; omit the option to leave it unset" },
    { "allow-host", "", "a value; omit the option to leave it unset" },
    { "allow-origin", "", "a value; omit the option to leave it unset" },
    { "trusted-proxy", "", "a value; omit the option to leave it unset" },
    { "otlp-endpoint", "", "a value; omit the option to leave it unset" },
    { "otlp-header", "", "a value; omit the option to leave it unset" },
    { "token-file", "", "a value; omit the option to leave it unset" },
    { "workers", "x", "a whole number from 0 to 1024" },
    { "workers", "", "a whole number from 0 to 1024" },
    { "workers", "-1", "a whole number from 0 to 1024" },
    { "workers", "+1", "a whole number" },
    { "workers", " 1", "a whole number" },
    { "workers", "1 ", "a whole number" },
    { "workers", "1.5", "a whole number" },
    { "workers", "0x10", "a whole number" },
    { "workers", "1e3", "a whole number" },
    { "workers", "1K", "a whole number" }, /* suffixes are for bytes */
    { "workers", "1025", "a whole number from 0 to 1024" },
    { "workers", "9223372036854775808", "a whole number" },
    { "workers", "99999999999999999999999999", "a whole number" },
    { "io-threads", "257", "a whole number from 0 to 256" },
    { "queue-limit", "0", "a whole number from 1 to 1000000" },
    { "max-body", "0", "a number of bytes, optionally with K, M, G or T, from 1024" },
    { "max-body", "1023", "a number of bytes" },
    { "max-body", "64m", "K, M, G or T" },
    { "max-body", "64MB", "K, M, G or T" },
    { "max-body", "64MiB", "K, M, G or T" },
    { "max-body", "64 M", "K, M, G or T" },
    { "max-body", "M", "a number of bytes" },
    { "max-body", "1P", "a number of bytes" },
    { "max-body", "-1K", "a number of bytes" },
    { "pool-limit", "9223372036854775808", "a number of bytes" },
    { "pool-limit", "8388608T", "a number of bytes" },          /* 2^63: one too many */
    { "pool-limit", "9007199254740992K", "a number of bytes" }, /* likewise */
    { "pool-limit", "16777216T", "a number of bytes" },         /* 2^64 wraps round to 0 */
    { "memory-limit", "1023K", "a number of bytes" },
    { "connection-memory", "17M", "from 4096 to 16777216" },
    { "max-flops", "-1", "a whole number from 0 to 9223372036854775807" },
    { "max-flops", "1e12", "a whole number" },
    { "max-flops", "10T", "a whole number" },
    { "isa", "AVX2", "one of auto, generic, avx2, avx512, avx512_bf16" },
    { "isa", "", "one of auto, generic, avx2, avx512, avx512_bf16" },
    { "isa", "sse", "one of auto, generic, avx2, avx512, avx512_bf16" },
    { "log-level", "INFO", "one of error, warn, info, debug" },
    { "log-level", "", "one of error, warn, info, debug" },
    { "log-format", "xml", "one of text, json" },
    { "access-log", "", "on, off, or a number from 0 to 1" },
    { "access-log", "1.01", "on, off, or a number from 0 to 1" },
    { "access-log", "-0.5", "on, off, or a number from 0 to 1" },
    { "access-log", "-0", "on, off, or a number from 0 to 1" },
    { "access-log", "0.5x", "on, off, or a number from 0 to 1" },
    { "access-log", "0x1", "on, off, or a number from 0 to 1" },
    { "access-log", " 0.5", "on, off, or a number from 0 to 1" },
    { "access-log", "nan", "on, off, or a number from 0 to 1" },
    { "access-log", "inf", "on, off, or a number from 0 to 1" },
    { "access-log", "ON", "on, off, or a number from 0 to 1" },
    { "slow-ms", "-1", "a whole number" },
    { "slow-ms", "0.5", "a whole number" },
    { "verify", "on", "one of start, background, off" },
    { "gpu", "auto:x", "one of auto, off, cuda[:OPTIONS], reference[:OPTIONS], PATH[:OPTIONS]" },
    { "gpu", "off:launch_us=1", "one of auto, off, cuda[:OPTIONS]" },
    { "gpu", "auto:", "one of auto, off," },
    { "gpu", "", "one of auto, off," },
    { "gpu", ":launch_us=1", "one of auto, off," },
    { "listen", "8080", "an address like 127.0.0.1:8080 or [::1]:8080" },
    { "listen", "::1:8080", "an address like" },
    { "listen", "host:65536", "an address like" },
    { "listen", "host:000080", "an address like" },
    { "listen", "", "an address like" },
    { "listen", "h:1;h:2", "an address like" },
    { "listen", "unix:80",
      "or a Unix socket like unix:/run/tensord/tensord.sock, with an "
      "absolute path of at most 107 bytes" },
    { "listen", "unix:", "an address like" },
    { "listen", "unix:a.sock", "an address like" },
    { "listen", "unix:@a", "an address like" }, /* an abstract socket has no permissions */
    { "listen", "/a.sock", "an address like" },
    { "metrics-listen", "unix:/a.sock", "an address like 127.0.0.1:8080 or [::1]:8080" },
    { "socket-mode", "", "an octal number from 0000 to 0777, such as 0660" },
    { "socket-mode", "66", "an octal number" },
    { "socket-mode", "0680", "an octal number" },
    { "socket-mode", "1660", "an octal number" },
    { "socket-mode", "00660", "an octal number" },
    { "socket-mode", "0x1b0", "an octal number" },
    { "socket-mode", " 660", "an octal number" },
    { "socket-mode", "u=rw", "an octal number" },
};

static const struct {
    const char *value;
    double fraction;
} fractions[] = { { "off", 0 }, { "on", 1 },      { "0", 0 },      { "1", 1 },
                  { "1.0", 1 }, { "0.25", 0.25 }, { "1e-2", 0.01 } };

TD_TEST_EACH(a_fraction_is_a_number_from_0_to_1_or_a_word, fractions)
{
    char argument[64];
    snprintf(argument, sizeof argument, "--access-log=%s", fractions[_i].value);
    load_good(WORDS(argument), NULL);
    ck_assert_double_eq(loaded.config.access_log, fractions[_i].fraction);
}

static const struct {
    const char *json;
    double fraction;
} json_fractions[] = { { "{\"access-log\": 0.25}", 0.25 },
                       { "{\"access-log\": \"0.25\"}", 0.25 },
                       { "{\"access-log\": true}", 1 },
                       { "{\"access-log\": false}", 0 },
                       { "{\"access-log\": 1e-3}", 0.001 } };

TD_TEST_EACH(a_fraction_in_the_file_is_a_number_a_text_or_a_truth, json_fractions)
{
    load_good_file(json_fractions[_i].json);
    ck_assert_double_eq(loaded.config.access_log, json_fractions[_i].fraction);
}

TD_TEST(a_switch_is_on_or_off)
{
    load(WORDS("--compress=maybe"), NULL);
    expect_refusal("--compress: ", "'maybe'", "one of on, off");
    load(NULL, WORDS("TENSORD_COMPRESS="));
    expect_refusal("TENSORD_COMPRESS: ", "''", "one of on, off");
}

TD_TEST(an_empty_name_of_the_file_is_rejected)
{
    load(WORDS("--config="), NULL);
    expect_refusal("--config: ", "''", "a file; omit the option to use no file");
    load(NULL, WORDS("TENSORD_CONFIG="));
    expect_refusal("TENSORD_CONFIG: ", "''", "a file; omit the option to use no file");
}

TD_TEST_EACH(an_invalid_value_is_rejected_from_every_source, wrong_values)
{
    const char *option = wrong_values[_i].option, *value = wrong_values[_i].value;
    const char *expected = wrong_values[_i].expected;
    char where[400], quoted[100], argument[200], variable[200], json[200];
    snprintf(quoted, sizeof quoted, "'%s'", value);

    snprintf(where, sizeof where, "--%s: ", option);
    snprintf(argument, sizeof argument, "--%s=%s", option, value);
    load(WORDS(argument), NULL);
    expect_refusal(where, quoted, expected);
    snprintf(argument, sizeof argument, "--%s", option);
    load(WORDS(argument, value), NULL);
    expect_refusal(where, quoted, expected);

    snprintf(where, sizeof where, "TENSORD_%s", option);
    for (char *at = where; *at; at++)
        *at = *at == '-' ? '_' : (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    snprintf(variable, sizeof variable, "%.100s=%s", where, value);
    load(NULL, WORDS(variable));
    expect_refusal(where, quoted, expected);

    snprintf(where, sizeof where, "%s in %s: ", option, file_path);
    snprintf(json, sizeof json, "{\"%s\": \"%s\"}", option, value);
    load_file(json);
    expect_refusal(where, quoted, expected);
}

static const struct {
    const char *json, *option, *what, *expected;
} wrong_json_values[] = {
    { "{\"workers\": -1}", "workers", "-1", "a whole number from 0 to 1024" },
    { "{\"workers\": true}", "workers", "true", "a whole number from 0 to 1024" },
    { "{\"workers\": null}", "workers", "null", "a whole number from 0 to 1024" },
    { "{\"workers\": [1]}", "workers", "[1]", "a whole number from 0 to 1024" },
    { "{\"workers\": {\"n\":1}}", "workers", "{\"n\":1}", "a whole number from 0 to 1024" },
    { "{\"workers\": 1.5}", "workers", "1.5", "a whole number from 0 to 1024" },
    { "{\"workers\": 2000}", "workers", "2000", "a whole number from 0 to 1024" },
    { "{\"workers\": 1e300}", "workers", "1e", "a" },
    { "{\"console\": false}", "console", "false", "one of off, read-only, on" },
    { "{\"console\": null}", "console", "null", "one of off, read-only, on" },
    { "{\"verify\": [\"off\"]}", "verify", "[\"off\"]", "one of start, background, off" },
    { "{\"log-level\": 3}", "log-level", "3", "one of error, warn, info, debug" },
    { "{\"isa\": false}", "isa", "false", "one of auto, generic, avx2, " },
    { "{\"gpu\": false}", "gpu", "false", "one of auto, off, cuda" },
    { "{\"compress\": null}", "compress", "null", "one of on, off" },
    { "{\"access-log\": []}", "access-log", "[]", "on, off, or a number from 0 to 1" },
    { "{\"max-body\": -1}", "max-body", "-1",
      "a number of bytes, optionally with K, M, G or T, from" },
    { "{\"data-dir\": false}", "data-dir", "false", "a string" },
    { "{\"allow-host\": {}}", "allow-host", "{}", "a string or an array of strings" },
    { "{\"listen\": 8080}", "listen", "8080", "an address like" },
    { "{\"socket-mode\": 1777}", "socket-mode", "1777", "an octal number" },
    { "{\"listen\": [\"h:1\", {}]}", "listen", "'{}' is not", "an address like" },
    { "{\"listen\": []}", "listen", "''", "an address like" },
    { "{\"listen\": [\"h:1\", 8080]}", "listen", "8080", "an address like" },
    { "{\"listen\": [\"h:1\", \"h:1\"]}", "listen", "'h:1'", "is given twice" },
    { "{\"listen\": \"h:1\", \"workers\": \"many\"}", "workers", "many", "a whole number" },
};

TD_TEST_EACH(an_invalid_value_in_a_file_is_rejected, wrong_json_values)
{
    load_file(wrong_json_values[_i].json);
    char where[100];
    snprintf(where, sizeof where, "%s in %s: ", wrong_json_values[_i].option, file_path);
    expect_refusal(where, wrong_json_values[_i].what, wrong_json_values[_i].expected);
}

static const struct {
    const char *const *arguments;
    const char *where, *what, *expected;
} wrong_arguments[] = {
    { WORDS("--wrokers", "3"), "--wrokers: ", "", "unknown option" },
    { WORDS("--wrokers=3"), "--wrokers: ", "", "unknown option" },
    { WORDS("--worker", "3"), "--worker: ", "", "unknown option" }, /* no abbreviations */
    { WORDS("--workers-", "3"), "--workers-: ", "", "unknown option" },
    { WORDS("--Workers", "3"), "--Workers: ", "", "unknown option" },
    { WORDS("--=3"), "--: ", "", "unknown option" },
    { WORDS("--check-config=yes"), "--check-config: ", "", "unknown option" },
    { WORDS("--workers"), "--workers: ", "", "a value is required" },
    { WORDS("--queue-limit", "3", "--data-dir"), "--data-dir: ", "", "a value is required" },
    { WORDS("--config"), "--config: ", "", "a value is required" },
    { WORDS("serve"), "'serve'", "", "is not an option" },
    { WORDS("-w", "3"), "'-w'", "", "is not an option" },
    { WORDS("--"), "'--'", "", "is not an option" },
    { WORDS(""), "''", "", "is not an option" },
    { WORDS("--workers", "3", "4"), "'4'", "", "is not an option" },
    /* none of two values wins silently */
    { WORDS("--workers", "3", "--workers=3"), "--workers: ", "a second value, '3'", "only one" },
    { WORDS("--listen=h:1", "--listen", "h:1"), "--listen: ", "'h:1'", "is given twice" },
    { WORDS("--listen=h:1,h:2,h:1"), "--listen: ", "'h:1'", "is given twice" },
    { WORDS("--listen=h:1,h"), "--listen: ", "'h'", "an address like" },
    { WORDS("--listen=h:1,"), "--listen: ", "''", "an address like" },
    { WORDS("--listen=h:1, ,h:2"), "--listen: ", "''", "an address like" },
    { WORDS("--metrics-listen=h:1", "--metrics-listen=h:2"), "--metrics-listen: ", "",
      "expected only one" },
    { WORDS("--compress", "--compress=off"), "--compress: ", "'off'", "expected only one" },
    { WORDS("--config=a", "--config=b"), "--config: ", "'b'", "expected only one" },
    { WORDS("--check-config", "--check-health"), "--check-health: ", "",
      "cannot be combined with --check-config" },
    /* what other servers call it, and what looks like a folder of tables */
    { WORDS("--port", "80"), "--port: ", "did you mean --listen HOST:PORT?", "unknown option" },
    { WORDS("--host=::"), "--host: ", "did you mean --listen HOST:PORT?", "unknown option" },
    { WORDS("-p", "80"), "'-p'", "did you mean --listen HOST:PORT?", "is not an option" },
    { WORDS("/tmp"), "'/tmp'", "did you mean --data-dir /tmp?", "is not an option" },
    { WORDS("/no/such/folder"), "'/no/such/folder'", "(see --help)", "is not an option" },
};

TD_TEST_EACH(an_unknown_argument_is_rejected, wrong_arguments)
{
    load(wrong_arguments[_i].arguments, NULL);
    expect_refusal(wrong_arguments[_i].where, wrong_arguments[_i].what,
                   wrong_arguments[_i].expected);
}

/* ---- suggestions ----------------------------------------------------------------------------- */

static const struct {
    const char *argument, *suggestion; /* NULL: none */
} misspelt[] = {
    { "--wrokers=3", "--wrokers: unknown option; did you mean --workers? (see --help)" },
    { "--max_body=3", "did you mean --max-body?" },
    { "--MAX-BODY=3", "did you mean --max-body?" },
    { "--data-dri=/", "did you mean --data-dir?" },
    { "--check-confg", "did you mean --check-config?" },
    { "--confg=x", "did you mean --config?" },
    { "--versoin", "did you mean --version?" },
    { "-workers=3", "'-workers=3' is not an option; did you mean --workers? (see --help)" },
    { "workers", "'workers' is not an option; did you mean --workers?" },
    /* names that other servers have, and options that are switched off */
    { "--data-folder=/", "--data-folder: unknown option; did you mean --data-dir DIR? (see" },
    { "--tokens=t", "did you mean --token-file FILE?" },
    { "-p=80", "did you mean --listen HOST:PORT?" },
    { "--no-compress", "--no-compress: unknown option; did you mean --compress off? (see" },
    { "--no_access_log", "did you mean --access-log off?" },
    { "--no-console", "did you mean --console off?" },
    { "--no-gpu", "did you mean --gpu off?" },
    { "--no-listen", "did you mean --listen?" },
    { "--no-workers-", NULL },
    { "--nonsense", NULL },
    { "-w", NULL },
    { "--", NULL },
    { "--log-level=inof", "is not one of error, warn, info, debug; did you mean info?" },
    { "--log-level=DEBUG", "did you mean debug?" },
    { "--log-level=loud", NULL },
    { "--log-format=jsno", "did you mean json?" },
    { "--verify=backgroud", "is not one of start, background, off; did you mean background?" },
    { "--isa=avx512-bf16", "did you mean avx512_bf16?" },
    { "--isa=avx51", "did you mean avx512?" },
    { "--compress=ture", "is not one of on, off; did you mean true?" },
    { "--compress=maybe", NULL },
};

TD_TEST_EACH(a_misspelt_argument_gets_a_suggestion, misspelt)
{
    load(WORDS(misspelt[_i].argument), NULL);
    expect_refusal("", "", misspelt[_i].suggestion ? misspelt[_i].suggestion : "");
    if (!misspelt[_i].suggestion)
        ck_assert_msg(strstr(loaded.message, "did you mean") == NULL, "%s", loaded.message);
}

TD_TEST(a_misspelt_member_of_a_file_gets_a_suggestion)
{
    load_file("{\"max_body\": 1}");
    expect_refusal("max_body in ", file_path, "unknown option; did you mean max-body?");
    load_file("{\"verify\": \"strat\"}");
    expect_refusal("verify in ", file_path, "did you mean start?");
    load(NULL, WORDS("TENSORD_LOG_LEVEL=wran"));
    expect_refusal("TENSORD_LOG_LEVEL: ", "'wran'", "did you mean warn?");
}

static const struct {
    const char *text, *suggestion;
} other_members[] = {
    { "{\"port\": 80}", "unknown option; did you mean \"listen\": \"HOST:PORT\"? (see --help)" },
    { "{\"data_folder\": \"/\"}", "did you mean \"data-dir\": \"DIR\"?" },
    { "{\"tokens\": \"t\"}", "did you mean \"token-file\": \"FILE\"?" },
    { "{\"no-compress\": true}", "did you mean \"compress\": \"off\"?" },
};

TD_TEST_EACH(a_member_that_other_servers_have_leads_to_the_option, other_members)
{
    load_file(other_members[_i].text);
    expect_refusal("", file_path, other_members[_i].suggestion);
}

static const struct {
    const char *variable, *name, *did_you_mean; /* name NULL: not reported */
} variables[] = {
    { "TENSORD_WROKERS=3", "TENSORD_WROKERS", "TENSORD_WORKERS" },
    { "TENSORD_MAXBODY=3", "TENSORD_MAXBODY", "TENSORD_MAX_BODY" },
    { "TENSORD_max_body=3", "TENSORD_max_body", "TENSORD_MAX_BODY" },
    { "TENSORD_QUEUE-LIMIT=3", "TENSORD_QUEUE-LIMIT", "TENSORD_QUEUE_LIMIT" },
    { "TENSORD_CONFG=x", "TENSORD_CONFG", "TENSORD_CONFIG" },
    { "TENSORD_NONSENSE=x", "TENSORD_NONSENSE", "" },
    { "TENSORD_", "TENSORD_", "" },
    /* meant for tensord: no address */
    { "TENSORD_PORT=9000", "TENSORD_PORT", "TENSORD_LISTEN=HOST:PORT" },
    { "TENSORD_DATA_FOLDER=/d", "TENSORD_DATA_FOLDER", "TENSORD_DATA_DIR=DIR" },
    { "TENSORD_NO_COMPRESS=1", "TENSORD_NO_COMPRESS", "TENSORD_COMPRESS=off" },
    { "TENSORD_EXPORTER=1", "TENSORD_EXPORTER", "" },
    { "TENSORD_WORKERS=3", NULL, NULL },
    { "TENSORD_CONFIG=x", NULL, NULL },
    { "XTENSORD_WROKERS=3", NULL, NULL },
    { "tensord_wrokers=3", NULL, NULL },
    /* the environment of a container in Kubernetes */
    { "TENSORD_SERVICE_HOST=10.0.0.1", NULL, NULL },
    { "TENSORD_SERVICE_PORT=80", NULL, NULL },
    { "TENSORD_SERVICE_PORT_HTTP=80", NULL, NULL },
    { "TENSORD_PORT=tcp://10.0.0.1:80", NULL, NULL },
    { "TENSORD_PORT_80_TCP=tcp://10.0.0.1:80", NULL, NULL },
    { "TENSORD_PORT_80_TCP_PROTO=tcp", NULL, NULL },
    { "TENSORD_PORT_80_TCP_PORT=80", NULL, NULL },
    { "TENSORD_PORT_80_TCP_ADDR=10.0.0.1", NULL, NULL },
    { "TENSORD_GPU_SERVICE_HOST=10.0.0.1", NULL, NULL },
    { "TENSORD_GPU_PORT_80_UDP_ADDR=10.0.0.1", NULL, NULL },
    /* of the scripts */
    { "TENSORD_CACHE=/cache", NULL, NULL },
    { "TENSORD_MICROHTTPD_PREFIX=/usr/local", NULL, NULL },
    { "TENSORD_MICROHTTPD_TARBALL=x.tar.gz", NULL, NULL },
};

TD_TEST_EACH(an_unknown_variable_is_reported_with_a_suggestion, variables)
{
    const char *const environment[] = { "HOME=/", variables[_i].variable, "TENSORD_ISA=auto",
                                        NULL };
    char **at = (char **)(uintptr_t)environment;
    struct td_unknown_variable unknown;
    const bool found = td_config_unknown_variable(&at, &unknown);
    ck_assert_msg(found == (variables[_i].name != NULL), "%s", variables[_i].variable);
    if (!found)
        return;
    ck_assert_str_eq(unknown.name, variables[_i].name);
    ck_assert_str_eq(unknown.did_you_mean, variables[_i].did_you_mean);
    ck_assert(!td_config_unknown_variable(&at, &unknown));
}

TD_TEST(a_long_unknown_variable_is_truncated)
{
    char variable[1000];
    memset(variable, 'X', sizeof variable);
    memcpy(variable, "TENSORD_", 8);
    strcpy(variable + sizeof variable - 3, "=1");
    const char *const environment[] = { variable, NULL };
    char **at = (char **)(uintptr_t)environment;
    struct td_unknown_variable unknown;
    ck_assert(td_config_unknown_variable(&at, &unknown));
    ck_assert_uint_eq(strlen(unknown.name), sizeof unknown.name - 1);
    ck_assert_str_eq(unknown.did_you_mean, "");
}

static const struct {
    const char *text;
    const char *part; /* of the message */
} wrong_files[] = {
    { "", "line 1, column 1: expected a value at byte 0, but the JSON text ends there" },
    { "{", "line 1, column 2: expected a member name in quotes" },
    { "[]", "expected an object of options, {\"OPTION\": VALUE, ...}, not a list" },
    { "3", "expected an object of options, {\"OPTION\": VALUE, ...}, not a number" },
    { "{\"workers\": 3} {}", "line 1, column 16: expected the end of the file" },
    { "{\"workers\": 3,}",
      "line 1, column 15: the ',' before '}' has no member after it; remove the ','" },
    { "{\n \"workers\": 3,\n}\n",
      "line 3, column 1: the ',' before '}' has no member after it; remove the ','" },
    { "{\"allow-host\": [\"a\", ]}",
      "column 22: the ',' before ']' has no element after it; remove the ','" },
    { "{\n  // workers\n}", "line 2, column 3: '/' is unexpected: JSON has no comments" },
    { "{\n  # workers\n}", "line 2, column 3: '#' is unexpected: JSON has no comments" },
    { "{\"workers\": 3 \"max-body\": 1}", "column 15: expected ',' or '}'" },
    { "{\"w\\u006frkers\": 3 \"max-body\": 1}", "column 20: expected ',' or '}'" },
    { "{'workers': 3}", "line 1, column 2: expected a member name in quotes" },
    { "{\"wrokers\": 3}", "wrokers in /tmp/" },
    { "{\"wrokers\": 3}", "unknown option" },
    /* files do not include files, as nothing of the command line's own */
    { "{\"config\": \"other.json\"}",
      "cannot be set in the file; use --config on the command line" },
    { "{\"help\": true}", "cannot be set in the file; use --help on the command line" },
    { "{\"check-config\": true}", "it cannot be set in the file" },
    { "{\"print-config\": true}", "it cannot be set in the file" },
    { "{\"workers\": 3, \"max_body\": 1}", "max_body in " },
};

TD_TEST_EACH(a_file_that_is_not_an_object_of_options_is_rejected, wrong_files)
{
    load_file(wrong_files[_i].text);
    expect_refusal("", file_path, wrong_files[_i].part);
}

TD_TEST(an_unreadable_file_is_rejected)
{
    load(WORDS("--config", "/no/such/file"), NULL);
    expect_refusal("--config: ", "/no/such/file", "No such file");
    load(WORDS("--config", "/"), NULL);
    expect_refusal("--config: ", "/", "cannot read");
    load(NULL, WORDS("TENSORD_CONFIG=/no/such/file"));
    expect_refusal("TENSORD_CONFIG: ", "/no/such/file", "No such file");
    load(NULL, WORDS("TENSORD_CONFIG=/"));
    expect_refusal("TENSORD_CONFIG: ", "/", "cannot read");
    for (const char *const *text = (const char *const[]){ "[]", "{,}", NULL }; *text; text++) {
        char variable[200];
        file_write(*text);
        snprintf(variable, sizeof variable, "TENSORD_CONFIG=%s", file_path);
        load(NULL, WORDS(variable));
        expect_refusal("TENSORD_CONFIG: ", file_path, "expected");
    }
}

TD_TEST(a_relative_path_that_leads_nowhere_is_rejected_with_the_working_directory)
{
    char folder[200], part[256];
    ck_assert_ptr_nonnull(getcwd(folder, sizeof folder));
    snprintf(part, sizeof part, "No such file or directory; the path is relative to %s", folder);
    load(WORDS("--config", "no/such/file"), NULL);
    expect_refusal("--config: ", "no/such/file", part);
    load_good(WORDS("--data-dir", "no/such/folder"), NULL);
    ck_assert(!td_config_check_system(&loaded.config, loaded.message));
    ck_assert_ptr_nonnull(strstr(loaded.message, part));
}

TD_TEST(a_message_of_a_check_names_the_source_of_its_option)
{
    static const char json[] = "{\"data-dir\": \"/no/folder\"}";
    static const char *const environments[][2] = { { NULL }, { "TENSORD_TLS_KEY=key" } };
    static const struct {
        int environment;
        const char *before, *after;
    } rows[] = {
        { 1, "tls-key: cannot read key", "TENSORD_TLS_KEY: cannot read key" },
        { 0, "tls-key: cannot read key", "tls-key: cannot read key" },
        { 0, "no memory", "no memory" },
        { 0, "workers: too many", "--workers: too many" },
        { 0, "data-dir: a: b", "data-dir in FILE: a: b" },
    };
    char *argv[] = { (char[]){ "tensord" }, (char[]){ "--workers=3" }, (char[]){ "--config" },
                     file_path, NULL };
    file_write(json);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char message[TD_CONFIG_MESSAGE], wanted[TD_CONFIG_MESSAGE];
        const char *file = strstr(rows[i].after, "FILE");
        snprintf(message, sizeof message, "%s", rows[i].before);
        snprintf(wanted, sizeof wanted, "%.*s%s%s",
                 (int)(file ? file - rows[i].after : (int)strlen(rows[i].after)), rows[i].after,
                 file ? file_path : "", file ? file + 4 : "");
        td_config_name_source(4, argv, (char **)(uintptr_t)environments[rows[i].environment],
                              message);
        ck_assert_str_eq(message, wanted);
    }
}

TD_TEST(a_file_larger_than_1_mib_is_rejected)
{
    const size_t size = (1 << 20) + 1;
    char *text = calloc(1, size + 1);
    memset(text, ' ', size);
    text[0] = '{';
    text[size - 1] = '}';
    load_file(text);
    expect_refusal("--config: ", file_path, "exceeds 1 MiB");
    text[size - 2] = '}';
    text[size - 1] = '\0';
    load_good_file(text);
    free(text);
}

TD_TEST(a_message_that_is_too_long_is_truncated)
{
    char *argument = malloc(100000), *name = malloc(100000);
    memset(argument, 'x', 99999);
    argument[99999] = '\0';
    memcpy(argument, "--workers=", 10);
    load(WORDS(argument), NULL);
    expect_refusal("--workers: ", "'xxxx", "a whole number");
    memset(name, 'y', 99999);
    name[99999] = '\0';
    memcpy(name, "--", 2);
    load(WORDS(name), NULL);
    expect_refusal("--yyyy", "", "unknown option");
    load(WORDS(name + 2), NULL);
    expect_refusal("'yyyy", "", "is not an option");
    memcpy(name, "--config=", 9);
    load(WORDS(name), NULL);
    expect_refusal("--config: ", "yyyy", "cannot open");
    free(argument);
    free(name);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static const struct {
    const char *address, *host; /* NULL: rejected */
    int port;
} addresses[] = {
    { "127.0.0.1:8080", "127.0.0.1", 8080 },
    { "localhost:80", "localhost", 80 },
    { "0.0.0.0:0", "0.0.0.0", 0 },
    { "h:65535", "h", 65535 },
    { "h:00080", "h", 80 },
    { "[::1]:80", "::1", 80 },
    { "[::]:8080", "::", 8080 },
    { "[fe80::1%eth0]:80", "fe80::1%eth0", 80 },
    { "h:65536", NULL, 0 },
    { "h:99999999999999999999", NULL, 0 },
    { "h:18446744073709551696", NULL, 0 }, /* 2^64 + 80 */
    { "h:-1", NULL, 0 },
    { "h:+80", NULL, 0 },
    { "h: 80", NULL, 0 },
    { "h:80 ", NULL, 0 },
    { "h:80x", NULL, 0 },
    { "h:0x50", NULL, 0 },
    { "h:http", NULL, 0 },
    { "h:", NULL, 0 },
    { "h", NULL, 0 },
    { "8080", NULL, 0 },
    { "", NULL, 0 },
    { ":", NULL, 0 },
    { ":8080", NULL, 0 },
    { "[]:80", NULL, 0 },
    { "[::1]", NULL, 0 },
    { "[::1]80", NULL, 0 },
    { "[::1:80", NULL, 0 },
    { "::1]:80", NULL, 0 },
    { "::1", NULL, 0 },
    { "::1:80", NULL, 0 }, /* ambiguous: a port, or the last group */
    { "fe80::1", NULL, 0 },
    { "a:b:80", NULL, 0 },
};

TD_TEST_EACH(an_address_is_a_host_and_a_port, addresses)
{
    char host[256] = "untouched";
    uint16_t port = 1;
    const bool good = td_config_split_address(addresses[_i].address, host, &port);
    ck_assert_msg(good == (addresses[_i].host != NULL), "'%s'", addresses[_i].address);
    if (good) {
        ck_assert_str_eq(host, addresses[_i].host);
        ck_assert_int_eq(port, addresses[_i].port);
    }
}

TD_TEST(a_host_has_at_most_255_bytes)
{
    char address[300], host[256];
    uint16_t port;
    memset(address, 'h', sizeof address);
    strcpy(address + 255, ":80");
    ck_assert(td_config_split_address(address, host, &port));
    ck_assert_uint_eq(strlen(host), 255);
    address[255] = 'h';
    strcpy(address + 256, ":80");
    ck_assert(!td_config_split_address(address, host, &port));
}

TD_TEST(the_path_of_a_unix_socket_has_at_most_107_bytes)
{
    char address[] = "unix:/" /* and 106 bytes, one byte more */
                     "0123456789012345678901234567890123456789012345678901234567890123456789"
                     "0123456789012345678901234567890123456";
    ck_assert(!td_config_is_address(address));
    address[strlen(address) - 1] = '\0';
    ck_assert(td_config_is_address(address));
    ck_assert_uint_eq(strlen(td_config_socket_path(address)), TD_SOCKET_PATH);
}

TD_TEST(the_mode_of_unix_sockets_is_octal)
{
    load_good(NULL, NULL);
    ck_assert_int_eq(loaded.config.socket_mode, 0660);
    load_good(WORDS("--socket-mode=600"), NULL);
    ck_assert_int_eq(loaded.config.socket_mode, 0600);
    load_good(WORDS("--socket-mode", "0777"), NULL);
    ck_assert_int_eq(loaded.config.socket_mode, 0777);
}

/* ---- help ------------------------------------------------------------------------------------ */

TD_TEST(help_lists_each_option_with_value_and_default)
{
#define HELP_ROW(member, name, kind, default_text, least, most, value_name, help)                  \
    { "--" name " " value_name, help, "default: " default_text },
    static const struct {
        const char *option, *help, *default_text;
    } rows[] = { TD_OPTIONS(HELP_ROW) };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    td_config_help(out, 100000);
    fclose(out);
    const char *at = text;
    for (size_t i = 0; i < COUNT_OF(rows); i++) { /* in the table's order */
        at = strstr(at, rows[i].option);
        ck_assert_msg(at != NULL, "%s", rows[i].option);
        at = strstr(at, rows[i].help);
        ck_assert_msg(at != NULL, "%s", rows[i].help);
        at = strstr(at, rows[i].default_text);
        ck_assert_msg(at != NULL, "%s of %s", rows[i].default_text, rows[i].option);
    }
    ck_assert_ptr_nonnull(strstr(text, "--config FILE"));
    ck_assert_ptr_nonnull(strstr(text, "--check-config"));
    ck_assert_ptr_nonnull(strstr(text, "--version"));
    ck_assert_ptr_nonnull(strstr(text, "--help"));
    ck_assert_ptr_nonnull(strstr(text, "TENSORD_MAX_BODY"));
    ck_assert_ptr_nonnull(strstr(text, "/v1"));
    ck_assert_ptr_nonnull(strstr(text, "/v2"));
    free(text);
}

TD_TEST(help_has_sections_and_fits_the_terminal)
{
    static const int widths[] = { 40, 60, 80, 132 };
    for (size_t i = 0; i < COUNT_OF(widths); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        td_config_help(out, widths[i]);
        fclose(out);
        ck_assert_ptr_nonnull(strstr(text, "\n\nMemory:\n  --memory-limit BYTES"));
        for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1)
            ck_assert_msg(end - at <= widths[i] || !memchr(at + 8, ' ', (size_t)(end - at - 8)),
                          "%d: %.*s", widths[i], (int)(end - at), at);
        free(text);
    }
}

TD_TEST(help_says_what_a_default_is_on_this_machine)
{
    char *text = NULL, wanted[64];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    td_config_help(out, 100000);
    fclose(out);
    snprintf(wanted, sizeof wanted, "default: 0, here %lld\n", (long long)cpus_here());
    ck_assert_ptr_nonnull(strstr(strstr(text, "--workers N"), wanted));
    const double gib = (double)(memory_here() / 2) / (1 << 30);
    snprintf(wanted, sizeof wanted, "default: 0, here %.1f %s\n", gib < 1 ? gib * 1024 : gib,
             gib < 1 ? "MiB" : "GiB");
    ck_assert_ptr_nonnull(strstr(strstr(text, "--memory-limit BYTES"), wanted));
    free(text);
}

/* ---- --print-config -------------------------------------------------------------------------- */

#define OPTION_NAME(member, name, ...) "\n" name " ",
static const char *const option_names[] = { TD_OPTIONS(OPTION_NAME) };
#undef OPTION_NAME

/* The lines, each with single blanks between its columns. */
static const char *printed(const char *const *arguments, const char *const *environment)
{
    static char squeezed[16384];
    char *argv[MAX_ARGUMENTS + 2] = { (char *)(uintptr_t) "tensord" }, *text = NULL, *to = squeezed;
    char message[TD_CONFIG_MESSAGE];
    size_t size = 0;
    int argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
    FILE *out = open_memstream(&text, &size);
    ck_assert(td_config_print(out, argc, argv, (char **)(uintptr_t)environment, message));
    fclose(out);
    for (const char *at = text; *at; at++)
        if (*at != ' ' || at[1] != ' ')
            *to++ = *at;
    *to = '\0';
    free(text);
    return squeezed;
}

TD_TEST(print_config_has_each_value_and_its_source)
{
    static const char json[] = "{\"max-body\": \"64M\", \"queue-limit\": 3}";
    char file_line[200];
    file_write(json);
    snprintf(file_line, sizeof file_line, "\nmax-body 64M max-body in %s\n", file_path);
    const char *text =
        printed(WORDS("--config", file_path, "--print-config", "--workers=3", "--compress",
                      "--socket-mode=600"),
                WORDS("TENSORD_QUEUE_LIMIT=5", "TENSORD_ALLOW_HOST=a,b", "TENSORD_LOG_LEVEL=warn"));
    ck_assert_ptr_nonnull(strstr(text, "listen 127.0.0.1:8080 default\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nsocket-mode 0600 --socket-mode\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nworkers 3 --workers\n"));
    ck_assert_ptr_nonnull(strstr(text, "\ncompress on --compress\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nqueue-limit 5 TENSORD_QUEUE_LIMIT\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nallow-host a,b TENSORD_ALLOW_HOST\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nlog-level warn TENSORD_LOG_LEVEL\n"));
    ck_assert_ptr_nonnull(strstr(text, "\ndata-dir none default\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nmax-output 1G default\n"));
    ck_assert_ptr_nonnull(strstr(text, file_line));
    for (size_t i = 1; i < COUNT_OF(option_names); i++) /* the first one begins the text */
        ck_assert_msg(strstr(text, option_names[i]) != NULL, "%s", option_names[i]);
}

TD_TEST(print_config_has_no_secret)
{
    const char *text = printed(WORDS("--print-config", "--otlp-header=api-key=s3cret,other=s3cret2",
                                     "--otlp-endpoint=http://me:s3cret@host:4318"),
                               WORDS("HOME=/"));
    ck_assert_ptr_null(strstr(text, "s3cret"));
    ck_assert_ptr_nonnull(strstr(text, "\notlp-header api-key=***,other=*** --otlp-header\n"));
    ck_assert_ptr_nonnull(strstr(text, "\notlp-endpoint http://***@host:4318 --otlp-endpoint\n"));
}

TD_FIXTURE(file_open, file_close);
