#include "server/check/check.h"

#include "kernels/name.h"
#include "server/auth/token_file.h"
#include "server/config/read_error.h"
#include "server/http/capacity.h"
#include "server/http/listener.h"
#include "server/memory/buffer_pool.h"
#include "server/memory/fault_guard.h"
#include "server/store/aliases/aliases.h"
#include "server/store/files/data_dir.h"
#include "server/store/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum level { OK, WARNING, ERROR };

struct check {
    const struct td_config *config;
    const struct td_log *log;
    FILE *out;
    int errors;
    /* Number of tensors skipped so far in the file being read. */
    int skipped;
};

/* Prints a line. Replaces control characters with '?', because names can contain any bytes. */
__attribute__((format(printf, 3, 4))) static void say(struct check *check, enum level level,
                                                      const char *format, ...)
{
    static const char *const names[] = { [OK] = "ok", [WARNING] = "warning", [ERROR] = "error" };
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f')
            *at = '?';
    fprintf(check->out, "%-8s %s\n", names[level], text);
    check->errors += level == ERROR;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static void say_unbound(struct check *check, const char *option, const char *address,
                        const char *why)
{
    if (strcmp(why, strerror(EADDRINUSE)) == 0)
        say(check, ERROR,
            "%s %s: %s; if a running daemon uses it, check with --%s 127.0.0.1:0 instead", option,
            address, why, option);
    else
        say(check, ERROR, "%s %s: %s%s", option, address, why,
            strcmp(why, strerror(EADDRNOTAVAIL)) == 0
                ? "; no interface of this machine has that address. Use 0.0.0.0 or [::] for all"
                : "");
}

/* Checks an address of --listen and keeps it bound. */
static void check_address(struct check *check, struct td_listeners *held, const char *address)
{
    const char *why;
    if (!td_listeners_add(held, address, td_listener_reserve, &why))
        say_unbound(check, "listen", address, why);
    else if (!td_listener_is_local(&held->all[held->n - 1].bound) &&
             !td_config_identifies_clients(check->config))
        say(check, WARNING,
            "listen %s: can be bound, but without --token-file every client that reaches the "
            "address can use every tensor",
            address);
    else
        say(check, OK, "listen %s: can be bound", address);
}

static void check_metrics_address(struct check *check, const struct td_listeners *others,
                                  const char *address)
{
    const char *why;
    const int fd = td_listeners_open_beside(others, address, td_listener_reserve, &why);
    if (fd < 0)
        say_unbound(check, "metrics-listen", address, why);
    else
        say(check, OK, "metrics-listen %s: can be bound", address);
    if (fd >= 0)
        close(fd);
}

/* Keep each address bound while the next addresses are checked, because addresses can exclude each
 * other. */
static void check_listen(struct check *check)
{
    const char *rest = check->config->listen;
    struct td_listeners held = { .n = 0 }, passed = { .n = 0 };
    char address[TD_ADDRESS_SIZE], message[TD_CONFIG_MESSAGE];
    if (!td_listeners_inherit(&passed, message))
        say(check, ERROR, "listen: %s", message);
    else if (passed.n > 0)
        say(check, OK, "listen: the %s passed by the service manager %s used",
            passed.n == 1 ? "socket" : "sockets", passed.n == 1 ? "is" : "are");
    else
        while (td_config_next_address(&rest, address))
            check_address(check, &held, address);
    if (check->config->metrics_listen[0])
        check_metrics_address(check, passed.n > 0 ? &passed : &held, check->config->metrics_listen);
    td_listeners_close(&held);
}

/* ---- open files and connections ------------------------------------------------------------- */

static void check_capacity(struct check *check)
{
    struct td_capacity capacity;
    if (!td_capacity_find(check->config, &capacity))
        say(check, ERROR,
            "open files: the limit is %lld, but %lld are needed for %lld connections. Raise the "
            "limit with ulimit -n, or LimitNOFILE= in a systemd unit",
            (long long)capacity.files, (long long)capacity.needed, (long long)capacity.fewest);
    else if (capacity.lowered_by)
        say(check, WARNING,
            "connection-limit %lld: only %d connections are possible, because of %s",
            (long long)check->config->connection_limit, capacity.limits.open, capacity.lowered_by);
    else
        say(check, OK, "connection-limit %lld: this number of connections is possible",
            (long long)check->config->connection_limit);
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Warns about options whose values exceed another limit. */
static void check_limits(struct check *check)
{
    const struct td_config *config = check->config;
    const struct {
        const char *option;
        int64_t value;
        const char *limit;
        int64_t most;
    } pairs[] = {
        { "memory-limit", config->memory_limit, "the memory of this machine",
          (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) },
        { "tensor-quota", config->tensor_quota, "--memory-limit", config->memory_limit },
        { "client-connections", config->client_connections, "--connection-limit",
          config->connection_limit },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].value > pairs[i].most && pairs[i].most > 0)
            say(check, WARNING, "%s %lld: exceeds %s, %lld, and cannot be reached", pairs[i].option,
                (long long)pairs[i].value, pairs[i].limit, (long long)pairs[i].most);
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Lists the prefixes of each token. A blank inside a name shows up as an additional prefix. */
static void report_tokens(struct check *check, const struct td_tokens *tokens)
{
    char tables[1024];
    for (const struct td_bearer *token = td_tokens_after(tokens, 0); token;
         token = td_tokens_after(tokens, token->line))
        say(check, OK, "token-file %s line %d: %s has the role %s for %s",
            check->config->token_file, token->line, token->name,
            td_access_role_name(token->access.role),
            td_access_tables_text(&token->access, tables, sizeof tables));
    if (td_tokens_are_exposed(tokens))
        say(check, WARNING,
            "token-file %s: users other than its owner and group can read or change it",
            check->config->token_file);
}

/* ---- the data folder ------------------------------------------------------------------------ */

/* Reports a folder that cannot be changed only because another daemon holds the lock. */
static void say_locked(struct check *check, long process)
{
    char holder[48] = "another process";
    if (process > 0)
        snprintf(holder, sizeof holder, "process %ld", process);
    say(check, WARNING,
        "data-dir %s: can be read; locked by %s, and can be changed after that process ends",
        check->config->data_dir, holder);
}

/* Checks whether the data folder can be read and changed. Returns false if it cannot be read. If
 * permission to change the folder is missing, prints a warning with --disk-quota, which shows that
 * changes are intended, and otherwise reports the folder as ok. */
static bool check_access(struct check *check, bool *can_change)
{
    const char *dir = check->config->data_dir;
    const enum level read_only = check->config->disk_quota > 0 ? WARNING : OK;
    struct td_data_access access;
    char text[TD_READ_ERROR];
    const int reason = td_data_dir_probe(dir, &access);
    *can_change = reason == 0 && access.denied == 0 && !access.only_lock;
    if (reason != 0)
        say(check, ERROR, "data-dir %s: %s", dir, td_read_error(dir, reason, text));
    else if (access.only_lock)
        say(check, WARNING,
            "data-dir %s: can be read, but not changed by persist=1: .tensord.lock: "
            "%s; " TD_LOCK_WAY_OUT,
            dir, strerror(access.denied));
    else if (access.denied != 0)
        say(check, read_only, "data-dir %s: can be read, but not changed by persist=1: %s", dir,
            strerror(access.denied));
    else if (access.locked)
        say_locked(check, access.holder);
    else
        say(check, OK, "data-dir %s: can be read and changed", dir);
    return reason == 0;
}

static void note_skipped(void *context, const char *file, const char *tensor, const char *why)
{
    struct check *check = context;
    if (tensor)
        say(check, WARNING, "%s: tensor %s is skipped: %s", file, tensor, why);
    else
        say(check, WARNING, "%s: skipped: %s", file ? file : "data-dir", why);
    check->skipped += tensor != NULL;
}

static void note_read(void *context, const char *file, int tensors)
{
    struct check *check = context;
    const int taken = tensors - check->skipped;
    if (taken > 0 && td_data_file_is(file, TD_PROGRAM_SUFFIX))
        say(check, OK, "%s: a program", file);
    else if (taken > 0 || tensors == 0)
        say(check, OK, "%s: %d tensor%s", file, taken, taken == 1 ? "" : "s");
    check->skipped = 0;
}

static void note_keys(void *context, const char *file, const char *table)
{
    say(context, OK, "%s: the keys of %s", file, table);
}

static void note_ignored(void *context, const char *file)
{
    say(context, OK, "%s: ignored; not a tensor file", file);
}

/* True if the name of a tensor or an alias starts with the prefix, or if the names cannot be
 * listed. */
static bool begins_a_name(struct td_store *store, const char *prefix, struct td_arena *arena)
{
    struct td_tensor_listing *tensors;
    struct td_alias_change *aliases;
    int n_tensors, n_aliases;
    struct td_error err;
    const struct td_name_range range = { .prefix = prefix, .after = "", .limit = 1 };
    if (td_store_list_range(store, &range, arena, &tensors, &n_tensors, &err) != TD_OK ||
        td_store_list_aliases(store, arena, &aliases, &n_aliases, &err) != TD_OK)
        return true;
    for (int i = 0; i < n_aliases && n_tensors == 0; i++)
        n_tensors += td_name_begins(prefix, aliases[i].name, strlen(aliases[i].name));
    return n_tensors > 0;
}

/* Warns about prefixes that match no name. A prefix for future tensors is valid, but the warning
 * reveals typing errors and prefixes that include a file's suffix. */
static void check_prefixes(struct check *check, struct td_store *store,
                           const struct td_tokens *tokens)
{
    struct td_arena arena;
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    const bool has_names = begins_a_name(store, "", &arena);
    for (const struct td_bearer *token = td_tokens_after(tokens, 0); token && has_names;
         token = td_tokens_after(tokens, token->line))
        for (int i = 0; i < token->access.n_prefixes; i++) {
            char prefix[TD_TOKEN_PREFIX + 1];
            snprintf(prefix, sizeof prefix, "%.*s", (int)token->access.prefixes[i].length,
                     token->access.prefixes[i].text);
            if (!begins_a_name(store, prefix, &arena))
                say(check, WARNING,
                    "token-file %s line %d: no tensor or alias in the data folder has a name that "
                    "starts with '%s'",
                    check->config->token_file, token->line, prefix);
            td_arena_reset(&arena);
        }
    td_arena_reset(&arena);
}

/* Reports problems of the folder as a whole. */
static void check_store(struct check *check, struct td_store *store)
{
    const struct td_config *config = check->config;
    const uint64_t quota = (uint64_t)config->disk_quota, bytes = td_store_counted_bytes(store);
    if (bytes > quota && !config->read_only)
        say(check, WARNING,
            "disk-quota %llu: the .tensord and .program.json files in the data folder have %llu "
            "bytes. Until some are deleted, a write succeeds only if it replaces a file that is at "
            "least as large",
            (unsigned long long)quota, (unsigned long long)bytes);
    if (!td_store_reading(store).aliases)
        say(check, WARNING,
            "aliases.json: cannot be read. A daemon would start but not become ready (/readyz is "
            "503). Repair the file, or restore it from a backup, and send SIGHUP");
}

/* Loads the files as the daemon would. With --verify start, compares all data with its
 * checksums. */
static void check_files(struct check *check, const struct td_tokens *tokens, bool can_change)
{
    const struct td_config *config = check->config;
    const struct td_store_inspector inspector = {
        .skipped = note_skipped,
        .read = note_read,
        .keys = note_keys,
        .ignored = note_ignored,
        .context = check,
    };
    struct td_store *store = NULL;
    struct td_buffer_pool *buffers =
        td_buffer_pool_new((uint64_t)config->memory_limit, (uint64_t)config->pool_limit);
    if (buffers)
        store = td_store_open(&(struct td_store_options){
            .dir = config->data_dir,
            .quota = (uint64_t)config->tensor_quota,
            .disk_quota = (uint64_t)config->disk_quota,
            .verify = config->verify,
            .memory = td_buffer_pool_memory(buffers),
            .log = check->log,
            .read_only = true,
            .keep_versions = config->read_only || !can_change ? 0 : config->keep_versions,
            .inspector = &inspector,
        });
    if (!store)
        say(check, ERROR, "data-dir %s: cannot be loaded", config->data_dir);
    else
        check_store(check, store);
    if (store && tokens)
        check_prefixes(check, store, tokens);
    td_store_free(store);
    td_buffer_pool_free(buffers);
}

bool td_check_start(const struct td_config *config, const struct td_tokens *tokens,
                    const struct td_log *log, FILE *out)
{
    struct check check = { .config = config, .log = log, .out = out };
    td_guard_install(); /* a file can be truncated while it is read */
    check_listen(&check);
    check_capacity(&check);
    check_limits(&check);
    if (tokens)
        report_tokens(&check, tokens);
    bool can_change;
    if (config->data_dir[0] && check_access(&check, &can_change))
        check_files(&check, tokens, can_change);
    return check.errors == 0;
}
