#include "server/config/load.h"

#include "server/config/cgroup.h"
#include "server/config/options.h"
#include "server/config/sources.h"

#include <sys/socket.h>

#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CPUs that this process may run on: fewer than online under taskset or in a container. `limit` is
 * that of its control groups, or 0. */
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

/* RAM, or the limit of its control groups if that is lower and not 0. */
static int64_t usable_memory(int64_t limit)
{
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (memory <= 0)
        memory = (int64_t)2 << 30;
    return limit > 0 && limit < memory ? limit : memory;
}

/* With the one for first connections no more than CPUs: threads that wait for each other's time
 * slices answer late. */
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

enum td_config_action td_config_load(struct td_config *config, int argc, char **argv,
                                     char **environment, char message[TD_CONFIG_MESSAGE])
{
    static const struct td_option_source built_in = { .text = "built-in default" };
    struct td_command_line line = { .action = TD_CONFIG_RUN };
    memset(config, 0, sizeof *config);
    message[0] = '\0';
    for (int at = 1; at < argc; at++) {
        const struct td_argument *asked = td_argument_find(argv[at]);
        if (asked && (asked->action == TD_CONFIG_HELP || asked->action == TD_CONFIG_VERSION))
            return asked->action;
    }
    for (int i = 0; i < TD_N_OPTIONS; i++)
        if (!td_option_set(config, &td_options[i], td_options[i].default_text, &built_in, message))
            goto wrong;
    /* The command line is read twice: first for --config, whose file has a lower precedence. */
    if (!td_config_read_arguments(config, argc, argv, false, &line, message))
        goto wrong;
    for (char **entry = environment; *entry && !line.config_path; entry++)
        if (strncmp(*entry, "TENSORD_CONFIG=", 15) == 0 && (*entry)[15])
            line.config_path = *entry + 15;
    if (line.config_path && !td_config_read_file(config, line.config_path, message))
        goto wrong;
    if (!td_config_read_environment(config, environment, message) ||
        !td_config_read_arguments(config, argc, argv, true, &line, message))
        goto wrong;
    resolve_zeros(config);
    return line.action;
wrong:
    td_config_free(config);
    return TD_CONFIG_WRONG;
}

/* Is it the address of a host? It was checked when it was parsed; "" is none, and fine. */
static bool check_address(const char *option, const char *address, char message[TD_CONFIG_MESSAGE])
{
    char host[256];
    uint16_t port;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    if (!*address)
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

bool td_config_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    DIR *dir = config->data_dir[0] ? opendir(config->data_dir) : NULL;
    if (config->data_dir[0] && !dir) {
        snprintf(message, TD_CONFIG_MESSAGE, "data-dir: cannot read the folder '%.300s': %s",
                 config->data_dir, strerror(errno));
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
    return check_address("listen", config->listen, message) &&
           check_address("metrics-listen", config->metrics_listen, message);
}

/* "  --version, -v      print the version and exit". */
static void print_help(FILE *out, const char *name, const char *letter, const char *value_name,
                       const char *help)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s%s%s", name, letter[0] ? ", -" : "", letter,
             value_name[0] ? " " : "", value_name);
    fprintf(out, "  %-30s %s\n", left, help);
}

void td_config_help(FILE *out)
{
    fputs(
        "tensord - tensor ops over HTTP: gather, stitch, partition, einsum, and resident tensors, "
        "as "
        "JSON,\n"
        "safetensors and npy (/v1), or with the Open Inference Protocol (/v2)\n\n"
        "usage: tensord [--option value]...\n\n"
        "Every option can also be set in the environment (--max-body as TENSORD_MAX_BODY) or in "
        "the JSON\n"
        "object in the file of --config ({\"max-body\": \"64M\"}). The command line wins over the "
        "environment,\n"
        "the environment over the file.\n\n",
        out);
    for (int i = 0; i < TD_N_OPTIONS; i++) {
        const char *value = td_options[i].default_text;
        print_help(out, td_options[i].name, "", td_options[i].value_name, td_options[i].help);
        fprintf(out, "  %-30s default: %s\n", "", value[0] ? value : "none");
    }
    for (int i = 0; i < TD_N_ARGUMENTS; i++)
        print_help(out, td_arguments[i].name, td_arguments[i].letter, td_arguments[i].value_name,
                   td_arguments[i].help);
}
