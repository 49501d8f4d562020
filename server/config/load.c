#include "server/config/load.h"

#include "server/config/cgroup.h"
#include "server/config/options.h"
#include "server/config/read_error.h"
#include "server/config/sources.h"

#include <sys/socket.h>

#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the number of CPUs on which this process can run. Under taskset or in a container,
 * some online CPUs are excluded. `limit` is the limit set by control groups, or 0. */
static int64_t usable_cpus(int64_t limit)
{
    cpu_set_t set;
    int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        cpus = CPU_COUNT(&set);
    if (limit > 0 && limit < cpus)
        cpus = limit;
    return cpus > 0 ? cpus : 1;
}

/* Returns the size of the RAM, or `limit` if it is lower and not 0. `limit` is the limit set by
 * control groups. */
static int64_t usable_memory(int64_t limit)
{
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (memory <= 0)
        memory = (int64_t)2 << 30;
    return limit > 0 && limit < memory ? limit : memory;
}

/* Returns the default number of I/O threads. On two or more CPUs, the I/O threads, including the
 * thread for first connections, do not outnumber the CPUs, because a thread that waits for a time
 * slice answers late. */
static int64_t io_threads_for(int64_t cpus)
{
    return cpus <= 2 ? 1 : 2;
}

static void resolve_zeros(struct td_config *config)
{
    const struct td_cgroup_limits limits = td_cgroup_limits_read("");
    if (config->io_threads == 0)
        config->io_threads = io_threads_for(usable_cpus(limits.cpus));
    if (config->workers == 0)
        config->workers = usable_cpus(limits.cpus);
    if (config->memory_limit == 0)
        config->memory_limit = usable_memory(limits.memory_bytes) / 2;
    if (config->tensor_quota == 0)
        config->tensor_quota = config->memory_limit / 2;
    if (config->client_memory == 0)
        config->client_memory = config->memory_limit / 2;
}

/* Stores the path of the options file, from --config or else from TENSORD_CONFIG, and its origin.
 * Returns false, with the message set, if the path is empty. */
static bool find_config(struct td_command_line *line, char **environment,
                        char message[TD_CONFIG_MESSAGE])
{
    static const char variable[] = "TENSORD_CONFIG=";
    struct td_option_source source;
    line->config_from = "--config";
    for (char **entry = environment; *entry && !line->config_path; entry++)
        if (strncmp(*entry, variable, sizeof variable - 1) == 0) {
            line->config_from = "TENSORD_CONFIG";
            line->config_path = *entry + sizeof variable - 1;
        }
    snprintf(source.text, sizeof source.text, "%s", line->config_from);
    return !line->config_path || *line->config_path ||
           td_option_reject(message, &source, "", "a file; omit the option to use no file");
}

static enum td_config_action load(struct td_config *config, int argc, char **argv,
                                  char **environment, struct td_config_origins *origins,
                                  char message[TD_CONFIG_MESSAGE])
{
    struct td_command_line line = { .action = TD_CONFIG_RUN };
    memset(config, 0, sizeof *config);
    memset(origins, 0, sizeof *origins);
    message[0] = '\0';
    for (int at = 1; at < argc; at++) {
        const struct td_argument *asked = td_argument_find(argv[at]);
        if (asked && (asked->action == TD_CONFIG_HELP || asked->action == TD_CONFIG_VERSION))
            return asked->action;
    }
    for (int i = 0; i < TD_N_OPTIONS; i++)
        if (!td_option_set(config, &td_options[i], td_options[i].default_text, &td_option_built_in,
                           message))
            goto wrong;
    /* Read the command line twice: the first time only to find --config, because its file has a
     * lower precedence. */
    if (!td_config_read_arguments(config, argc, argv, false, &line, origins, message))
        goto wrong;
    if (!find_config(&line, environment, message))
        goto wrong;
    if (line.config_path &&
        !td_config_read_file(config, line.config_from, line.config_path, origins, message))
        goto wrong;
    if (!td_config_read_environment(config, environment, origins, message) ||
        !td_config_read_arguments(config, argc, argv, true, &line, origins, message))
        goto wrong;
    resolve_zeros(config);
    return line.action;
wrong:
    td_config_free(config);
    return TD_CONFIG_WRONG;
}

enum td_config_action td_config_load(struct td_config *config, int argc, char **argv,
                                     char **environment, char message[TD_CONFIG_MESSAGE])
{
    struct td_config_origins origins;
    return load(config, argc, argv, environment, &origins, message);
}

void td_config_name_source(int argc, char **argv, char **environment,
                           char message[TD_CONFIG_MESSAGE])
{
    struct td_config config;
    struct td_config_origins origins;
    char text[TD_CONFIG_MESSAGE], unused[TD_CONFIG_MESSAGE];
    const size_t length = strcspn(message, ":");
    const struct td_option *option = td_option_find(message, length);
    if (!option || load(&config, argc, argv, environment, &origins, unused) == TD_CONFIG_WRONG)
        return;
    const char *origin = origins.text[option - td_options];
    snprintf(text, sizeof text, "%s", message);
    if (origin[0])
        snprintf(message, TD_CONFIG_MESSAGE, "%s%s", origin, text + length);
    td_config_free(&config);
}

bool td_config_print(FILE *out, int argc, char **argv, char **environment,
                     char message[TD_CONFIG_MESSAGE])
{
    struct td_config config;
    struct td_config_origins origins;
    char value[1024];
    if (load(&config, argc, argv, environment, &origins, message) == TD_CONFIG_WRONG)
        return false;
    for (int i = 0; i < TD_N_OPTIONS; i++) {
        const char *origin = origins.text[i];
        td_option_print(&config, &td_options[i], value, sizeof value);
        fprintf(out, "%-22s %-30s %s\n", td_options[i].name, value[0] ? value : "none",
                origin[0] ? origin : "default");
    }
    td_config_free(&config);
    return true;
}

/* Checks that the address resolves. The syntax was checked when the option was parsed. An empty
 * address means no address and is valid. Unix sockets need no resolver. */
static bool check_address(const char *option, const char *address, char message[TD_CONFIG_MESSAGE])
{
    char host[256];
    uint16_t port;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    if (!*address || td_config_socket_path(address))
        return true;
    (void)td_config_split_address(address, host, &port);
    const int code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0) {
        snprintf(message, TD_CONFIG_MESSAGE, "%s: '%.255s' is not the address of a host: %s",
                 option, host, gai_strerror(code));
        return false;
    }
    freeaddrinfo(found);
    return true;
}

static bool check_addresses(const char *addresses, char message[TD_CONFIG_MESSAGE])
{
    char address[TD_ADDRESS_SIZE];
    while (td_config_next_address(&addresses, address))
        if (!check_address("listen", address, message))
            return false;
    return true;
}

bool td_config_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    char reason[TD_READ_ERROR];
    DIR *dir = config->data_dir[0] ? opendir(config->data_dir) : NULL;
    if (config->data_dir[0] && !dir) {
        snprintf(message, TD_CONFIG_MESSAGE, "data-dir: cannot read the folder '%.300s': %s",
                 config->data_dir, td_read_error(config->data_dir, errno, reason));
        return false;
    }
    if (dir)
        closedir(dir);
    if (!td_isa_supported(config->isa)) {
        snprintf(message, TD_CONFIG_MESSAGE,
                 "isa: this processor cannot run %s; auto would choose %s",
                 td_isa_name(config->isa), td_isa_name(td_isa_resolve(TD_ISA_AUTO)));
        return false;
    }
    return check_addresses(config->listen, message) &&
           check_address("metrics-listen", config->metrics_listen, message);
}

/* ---- --help --------------------------------------------------------------------------------- */

enum { INDENT = 32, NARROW = 64 };

/* Layout of a help text that is `columns` wide. */
struct page {
    FILE *out;
    /* Column at which the next word starts. */
    int columns, indent, column;
};

/* Prints the words, wrapped to the width of the page and indented by page->indent. */
static void print_words(struct page *page, const char *text)
{
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (page->column > page->indent && page->column + 1 + length > page->columns) {
            fputc('\n', page->out);
            page->column = 0;
        }
        if (page->column < page->indent)
            fprintf(page->out, "%*s", page->indent - page->column, "");
        else if (page->column > page->indent)
            fputc(' ', page->out);
        page->column = (page->column < page->indent ? page->indent : page->column) +
                       (page->column > page->indent) + length;
        fprintf(page->out, "%.*s", length, text);
        text += length + (text[length] == ' ');
    }
}

static void end_line(struct page *page)
{
    fputc('\n', page->out);
    page->column = 0;
}

/* Prints one option or argument: " --version, -v print the version and exit". */
static void print_help(struct page *page, const char *name, const char *letter,
                       const char *value_name, const char *help)
{
    page->column = fprintf(page->out, "  --%s%s%s%s%s", name, letter[0] ? ", -" : "", letter,
                           value_name[0] ? " " : "", value_name);
    if (page->column + 2 > page->indent)
        end_line(page);
    print_words(page, help);
    end_line(page);
}

/* Writes the size in MiB or GiB, such as "11.8 GiB". */
static void print_size(int64_t bytes, char *text, size_t size)
{
    const bool large = bytes >= 1 << 30;
    snprintf(text, size, "%.1f %s", (double)bytes / (large ? 1 << 30 : 1 << 20),
             large ? "GiB" : "MiB");
}

/* Prints the default. A 0 that is resolved on this machine is shown with its value: "default: 0,
 * here 11.8 GiB". */
static void print_default(struct page *page, const struct td_config *here,
                          const struct td_option *option)
{
    char value[64], text[160];
    const char *given = option->default_text;
    td_option_print(here, option, value, sizeof value);
    const bool is_resolved = strcmp(given, "0") == 0 && strcmp(value, "0") != 0;
    if (is_resolved && option->kind == KIND_BYTES)
        print_size(*(const int64_t *)(const void *)((const char *)here + option->offset), value,
                   sizeof value);
    snprintf(text, sizeof text, "default: %s%s%s", given[0] ? given : "none",
             is_resolved ? ", here " : "", is_resolved ? value : "");
    print_words(page, text);
    end_line(page);
}

void td_config_help(FILE *out, int columns)
{
    struct page page = { .out = out, .columns = columns };
    struct td_config here;
    struct td_config_origins origins;
    char *none[] = { (char[]){ "tensord" }, NULL }, message[TD_CONFIG_MESSAGE];
    if (load(&here, 1, none, none + 1, &origins, message) == TD_CONFIG_WRONG)
        return;
    print_words(&page, "tensord - tensor ops over HTTP: gather, stitch, partition, einsum, and "
                       "resident tensors, as JSON, safetensors and npy (/v1), or with the Open "
                       "Inference Protocol (/v2)");
    fputs("\n\nusage: tensord [--option value]...\n\n", out);
    page.column = 0;
    print_words(
        &page,
        "Every option can also be set in the environment (--max-body as "
        "TENSORD_MAX_BODY) or in a JSON file named by --config "
        "({\"max-body\": \"64M\"}). The command line overrides the environment, the "
        "environment overrides the file. A number of bytes can have the suffix K, M, G or T.");
    end_line(&page);
    page.indent = columns < NARROW ? 6 : INDENT;
    for (int i = 0; i < TD_N_OPTIONS; i++) {
        const struct td_option *option = &td_options[i];
        const char *heading = td_option_section(option);
        if (heading)
            fprintf(out, "\n%s:\n", heading);
        print_help(&page, option->name, "", option->value_name, option->help);
        print_default(&page, &here, option);
    }
    fputs("\nOn the command line only:\n", out);
    for (int i = 0; i < TD_N_ARGUMENTS; i++)
        print_help(&page, td_arguments[i].name, td_arguments[i].letter, td_arguments[i].value_name,
                   td_arguments[i].help);
    td_config_free(&here);
}
