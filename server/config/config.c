#include "server/config/config.h"

#include "kernels/name.h"

#include <cjson/cJSON.h>
#include <sys/socket.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind {
    KIND_ADDRESS,
    KIND_TEXT,
    KIND_LIST,
    KIND_DEVICE,
    KIND_COUNT,
    KIND_BYTES,
    KIND_SWITCH,
    KIND_ISA,
    KIND_LEVEL,
    KIND_FORMAT
};

struct option {
    const char *name;
    enum kind kind;
    const char *default_text;
    int64_t least, most;
    const char *value_name;
    const char *help;
    size_t offset;
};

static const struct option options[] = {
#define OPTION(member, name, kind, default_text, least, most, value_name, help)                    \
    { name, KIND_##kind, default_text, least,                                                      \
      most, value_name,  help,         offsetof(struct td_config, member) },
    TD_OPTIONS(OPTION)
#undef OPTION
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static const char *const level_names[] = { "error", "warn", "info", "debug", NULL };
static const char *const format_names[] = { "text", "json", NULL };

/* Where a value stood, for messages: "--workers", "TENSORD_WORKERS", "workers in
 * /etc/tensord.json". */
struct origin {
    char text[300];
    bool again; /* it named the option before: a list grows */
};

static bool complain(char message[TD_CONFIG_MESSAGE], const struct origin *origin,
                     const char *value, const char *expected)
{
    snprintf(message, TD_CONFIG_MESSAGE, "%s: '%.100s' is not %s", origin->text, value, expected);
    return false;
}

static int64_t suffix_factor(const char *suffix)
{
    static const struct {
        const char *suffix;
        int64_t factor;
    } known[] = {
        { "", 1 }, { "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 }, { "T", (int64_t)1 << 40 }
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(suffix, known[i].suffix) == 0)
            return known[i].factor;
    return 0;
}

static bool parse_number(const struct option *option, const char *value, int64_t *out)
{
    if (!isdigit((unsigned char)value[0]))
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    int64_t factor = option->kind == KIND_BYTES ? suffix_factor(end) : *end == '\0';
    int64_t scaled;
    if (errno || factor == 0 || __builtin_mul_overflow((int64_t)number, factor, &scaled))
        return false;
    /* 0 stands for "choose" or "none" where the default says so or the range begins there. */
    bool zero_is_default = scaled == 0 && strcmp(option->default_text, "0") == 0;
    if (!zero_is_default && (scaled < option->least || scaled > option->most))
        return false;
    *out = scaled;
    return true;
}

static bool parse_name(const char *const *names, const char *value, int *out)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], value) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool parse_switch(const char *value, bool *out)
{
    static const char *const words[] = {
        "off", "on", "false", "true", "no", "yes", "0", "1", NULL
    };
    int word;
    if (!parse_name(words, value, &word))
        return false;
    *out = word % 2;
    return true;
}

static bool parse_isa(const char *value, td_isa *out)
{
    for (int i = 0; i < TD_ISA_COUNT; i++)
        if (strcmp(td_isa_name((td_isa)i), value) == 0) {
            *out = (td_isa)i;
            return true;
        }
    return false;
}

/* auto and off are words without a device that could be told anything. */
static bool is_device(const char *value)
{
    return strcspn(value, ":") > 0 && strncmp(value, "auto:", 5) != 0 &&
           strncmp(value, "off:", 4) != 0;
}

static bool set_text(char **member, const char *value, char message[TD_CONFIG_MESSAGE])
{
    char *copy = strdup(value);
    if (!copy) {
        snprintf(message, TD_CONFIG_MESSAGE, "no memory for the configuration");
        return false;
    }
    free(*member);
    *member = copy;
    return true;
}

/* Appends to a list of values with commas. */
static bool add_text(char **member, const char *value, char message[TD_CONFIG_MESSAGE])
{
    const size_t before = strlen(*member), more = strlen(value) + 1;
    char *longer = realloc(*member, before + 1 + more);
    if (!longer) {
        snprintf(message, TD_CONFIG_MESSAGE, "no memory for the configuration");
        return false;
    }
    longer[before] = ',';
    memcpy(longer + before + 1, value, more);
    *member = longer;
    return true;
}

static bool set_option(struct td_config *config, const struct option *option, const char *value,
                       const struct origin *origin, char message[TD_CONFIG_MESSAGE])
{
    char *member = (char *)config + option->offset;
    char host[256], expected[160];
    uint16_t port;
    int choice;
    switch (option->kind) {
    case KIND_ADDRESS:
        if (!td_config_split_address(value, host, &port))
            return complain(message, origin, value, "an address like 127.0.0.1:8080 or [::1]:8080");
        return set_text((char **)(void *)member, value, message);
    case KIND_DEVICE:
        if (!is_device(value))
            return complain(message, origin, value,
                            "one of auto, off, cuda[:OPTIONS], reference[:OPTIONS], "
                            "PATH[:OPTIONS]");
        return set_text((char **)(void *)member, value, message);
    case KIND_TEXT:
        return set_text((char **)(void *)member, value, message);
    case KIND_LIST:
        return (origin->again ? add_text : set_text)((char **)(void *)member, value, message);
    case KIND_COUNT:
    case KIND_BYTES:
        if (parse_number(option, value, (int64_t *)(void *)member))
            return true;
        snprintf(expected, sizeof expected, "%s from %lld to %lld",
                 option->kind == KIND_BYTES ? "a number of bytes (K, M, G or T may follow)"
                                            : "a whole number",
                 (long long)option->least, (long long)option->most);
        return complain(message, origin, value, expected);
    case KIND_SWITCH:
        if (!parse_switch(value, (bool *)(void *)member))
            return complain(message, origin, value, "one of on, off");
        return true;
    case KIND_ISA:
        if (!parse_isa(value, (td_isa *)(void *)member))
            return complain(message, origin, value,
                            "one of auto, generic, avx2, avx512, avx512_bf16");
        return true;
    case KIND_LEVEL:
        if (!parse_name(level_names, value, &choice))
            return complain(message, origin, value, "one of error, warn, info, debug");
        *(enum td_log_level *)(void *)member = (enum td_log_level)choice;
        return true;
    case KIND_FORMAT:
        if (!parse_name(format_names, value, &choice))
            return complain(message, origin, value, "one of text, json");
        *(enum td_log_format *)(void *)member = (enum td_log_format)choice;
        return true;
    }
    return false;
}

static const struct option *find_option(const char *name, size_t length)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (td_name_is(options[i].name, name, length))
            return &options[i];
    return NULL;
}

static void environment_name(const struct option *option, char *name, size_t size)
{
    int length = snprintf(name, size, "TENSORD_%s", option->name);
    for (int i = 0; i < length; i++)
        name[i] = (char)(name[i] == '-' ? '_' : toupper((unsigned char)name[i]));
}

/* ---- the three sources, weakest first ------------------------------------------------------- */

static char *read_file(const char *path, char message[TD_CONFIG_MESSAGE])
{
    enum { LARGEST = 1 << 20 };
    char *text = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(message, TD_CONFIG_MESSAGE, "--config: cannot open %.200s: %s", path,
                 strerror(errno));
        return NULL;
    }
    text = malloc(LARGEST + 1);
    size_t length = text ? fread(text, 1, LARGEST + 1, file) : 0;
    if (!text || ferror(file) || length > LARGEST) {
        snprintf(message, TD_CONFIG_MESSAGE, "--config: cannot read %.200s, or it exceeds 1 MiB",
                 path);
        free(text);
        text = NULL;
    } else {
        text[length] = '\0';
    }
    fclose(file);
    return text;
}

static bool complain_about(const cJSON *item, const struct origin *origin, const char *expected,
                           char message[TD_CONFIG_MESSAGE])
{
    char *given = cJSON_PrintUnformatted(item);
    complain(message, origin, given ? given : "the value", expected);
    cJSON_free(given);
    return false;
}

static bool set_list_from_json(struct td_config *config, const struct option *option,
                               const cJSON *array, struct origin *origin,
                               char message[TD_CONFIG_MESSAGE])
{
    bool good = set_option(config, option, "", origin, message);
    for (const cJSON *item = array->child; good && item; item = item->next) {
        if (!cJSON_IsString(item))
            return complain_about(array, origin, "an array of strings", message);
        good = set_option(config, option, item->valuestring, origin, message);
        origin->again = true;
    }
    return good;
}

static bool set_from_json(struct td_config *config, const cJSON *item, const char *path,
                          char message[TD_CONFIG_MESSAGE])
{
    struct origin origin = { .again = false };
    snprintf(origin.text, sizeof origin.text, "%.60s in %.200s", item->string, path);
    const struct option *option = find_option(item->string, strlen(item->string));
    if (!option) {
        snprintf(message, TD_CONFIG_MESSAGE, "%s: there is no such option (see --help)",
                 origin.text);
        return false;
    }
    if (cJSON_IsString(item))
        return set_option(config, option, item->valuestring, &origin, message);
    if (cJSON_IsBool(item) && option->kind == KIND_SWITCH)
        return set_option(config, option, cJSON_IsTrue(item) ? "true" : "false", &origin, message);
    if (cJSON_IsArray(item) && option->kind == KIND_LIST)
        return set_list_from_json(config, option, item, &origin, message);
    char number[32];
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 9007199254740992.0)
        return complain_about(item, &origin, "a string or a non-negative number", message);
    snprintf(number, sizeof number, "%.17g", item->valuedouble);
    return set_option(config, option, number, &origin, message);
}

static bool is_only_one(const cJSON *root, const cJSON *item, const char *path,
                        char message[TD_CONFIG_MESSAGE])
{
    if (cJSON_GetObjectItemCaseSensitive(root, item->string) == item)
        return true; /* the first of its name */
    snprintf(message, TD_CONFIG_MESSAGE, "%.60s in %.200s: it stands there twice", item->string,
             path);
    return false;
}

static bool load_file(struct td_config *config, const char *path, char message[TD_CONFIG_MESSAGE])
{
    char *text = read_file(path, message);
    if (!text)
        return false;
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithOpts(text, &end, true);
    bool good = cJSON_IsObject(root);
    if (!good)
        snprintf(message, TD_CONFIG_MESSAGE, "--config: %.200s is not a JSON object (byte %ld)",
                 path, end ? (long)(end - text) : 0L);
    for (const cJSON *item = good ? root->child : NULL; good && item; item = item->next)
        good = is_only_one(root, item, path, message) && set_from_json(config, item, path, message);
    cJSON_Delete(root);
    free(text);
    return good;
}

static bool load_environment(struct td_config *config, char **environment,
                             char message[TD_CONFIG_MESSAGE])
{
    for (char **entry = environment; *entry; entry++) {
        if (strncmp(*entry, "TENSORD_", 8) != 0)
            continue;
        for (int i = 0; i < N_OPTIONS; i++) {
            struct origin origin = { .again = false };
            environment_name(&options[i], origin.text, sizeof origin.text);
            size_t length = strlen(origin.text);
            if (strncmp(*entry, origin.text, length) == 0 && (*entry)[length] == '=' &&
                !set_option(config, &options[i], *entry + length + 1, &origin, message))
                return false;
        }
    }
    return true;
}

/* What the command line says beside the options of the table. */
struct command_line {
    enum td_config_action action;
    const char *config_path;
    bool given[N_OPTIONS]; /* options that were set */
};

/* One argument and its value, "--name=value" or "--name value". */
static bool take_argument(struct td_config *config, int argc, char **argv, int *at, bool apply,
                          struct command_line *line, char message[TD_CONFIG_MESSAGE])
{
    const char *argument = argv[*at];
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        snprintf(message, TD_CONFIG_MESSAGE, "'%.100s' is not an option (see --help)", argument);
        return false;
    }
    const char *name = argument + 2;
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (!value && strcmp(name, "check-config") == 0)
        return line->action = TD_CONFIG_CHECK, true;
    bool is_config = td_name_is("config", name, length);
    const struct option *option = find_option(name, length);
    if (!is_config && !option) {
        snprintf(message, TD_CONFIG_MESSAGE, "--%.*s: there is no such option (see --help)",
                 (int)(length < 100 ? length : 100), name);
        return false;
    }
    bool ignored;
    const bool is_switch = option && option->kind == KIND_SWITCH;
    const bool alone = *at + 1 >= argc || !parse_switch(argv[*at + 1], &ignored);
    if (!value && is_switch && alone)
        value = "on";
    if (!value && ++*at >= argc) {
        snprintf(message, TD_CONFIG_MESSAGE, "--%.*s: a value is expected after it", (int)length,
                 name);
        return false;
    }
    if (!value)
        value = argv[*at];
    if (is_config)
        return line->config_path = value, true;
    if (!apply)
        return true;
    struct origin origin = { .again = line->given[option - options] };
    snprintf(origin.text, sizeof origin.text, "--%s", option->name);
    line->given[option - options] = true;
    return set_option(config, option, value, &origin, message);
}

static bool read_command_line(struct td_config *config, int argc, char **argv, bool apply,
                              struct command_line *line, char message[TD_CONFIG_MESSAGE])
{
    for (int at = 1; at < argc; at++)
        if (!take_argument(config, argc, argv, &at, apply, line, message))
            return false;
    return true;
}

/* CPUs this process may run on: fewer than there are, under taskset or in a container. */
static int64_t usable_cpus(void)
{
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return online > 0 ? online : 1;
}

/* RAM, or what the container's control group (version 2, else 1) leaves of it. */
static int64_t usable_memory(void)
{
    static const char *const limits[] = { "/sys/fs/cgroup/memory.max",
                                          "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (memory <= 0)
        memory = (int64_t)2 << 30;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char text[32] = "";
        FILE *file = fopen(limits[i], "r");
        if (!file)
            continue;
        const bool read = fgets(text, sizeof text, file) != NULL;
        fclose(file);
        const int64_t limit = read ? strtoll(text, NULL, 10) : 0; /* "max" is 0 */
        if (limit > 0 && limit < memory)
            memory = limit;
    }
    return memory;
}

static void resolve_zeros(struct td_config *config)
{
    if (config->workers == 0)
        config->workers = usable_cpus();
    if (config->memory_limit == 0)
        config->memory_limit = usable_memory() / 2;
    if (config->tensor_quota == 0)
        config->tensor_quota = config->memory_limit / 2;
}

enum td_config_action td_config_load(struct td_config *config, int argc, char **argv,
                                     char **environment, char message[TD_CONFIG_MESSAGE])
{
    static const struct origin built_in = { .text = "built-in default" };
    struct command_line line = { .action = TD_CONFIG_RUN };
    memset(config, 0, sizeof *config);
    message[0] = '\0';
    for (int at = 1; at < argc; at++) {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0)
            return TD_CONFIG_HELP;
        if (strcmp(argv[at], "--version") == 0)
            return TD_CONFIG_VERSION;
    }
    for (int i = 0; i < N_OPTIONS; i++)
        if (!set_option(config, &options[i], options[i].default_text, &built_in, message))
            goto wrong;
    /* The command line is read twice: first for --config, which is weaker than the rest of it. */
    if (!read_command_line(config, argc, argv, false, &line, message))
        goto wrong;
    for (char **entry = environment; *entry && !line.config_path; entry++)
        if (strncmp(*entry, "TENSORD_CONFIG=", 15) == 0 && (*entry)[15])
            line.config_path = *entry + 15;
    if (line.config_path && !load_file(config, line.config_path, message))
        goto wrong;
    if (!load_environment(config, environment, message) ||
        !read_command_line(config, argc, argv, true, &line, message))
        goto wrong;
    resolve_zeros(config);
    return line.action;
wrong:
    td_config_free(config);
    return TD_CONFIG_WRONG;
}

void td_config_free(struct td_config *config)
{
    free(config->listen);
    free(config->allow_host);
    free(config->allow_origin);
    free(config->data_dir);
    free(config->gpu);
    memset(config, 0, sizeof *config);
}

void td_config_help(FILE *out)
{
    fputs(
        "tensord - tensors over HTTP: gather, stitch, partition, einsum, and tensors that stay, on "
        "JSON,\n"
        "safetensors and npy (/v1), or by the Open Inference Protocol (/v2)\n\n"
        "usage: tensord [--option value]...\n\n"
        "Every option can also stand in the environment (--max-body as TENSORD_MAX_BODY) or in "
        "the JSON\n"
        "object that --config names ({\"max-body\": \"64M\"}). The command line wins over the "
        "environment,\n"
        "the environment over the file.\n\n",
        out);
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[64];
        const char *value = options[i].default_text;
        snprintf(left, sizeof left, "--%s%s%s", options[i].name,
                 options[i].value_name[0] ? " " : "", options[i].value_name);
        fprintf(out, "  %-30s %s\n  %-30s default: %s\n", left, options[i].help, "",
                value[0] ? value : "none");
    }
    fputs("  --config FILE                  JSON file with options\n"
          "                                 default: none\n"
          "  --check-config                 check the configuration, say so, and stop\n"
          "  --version                      print the version and stop\n"
          "  --help                         print this and stop\n",
          out);
}

bool td_config_split_address(const char *address, char host[256], uint16_t *port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || !isdigit((unsigned char)colon[1]))
        return false;
    char *end;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || number > 65535)
        return false;
    const char *begin = address;
    size_t length = (size_t)(colon - address);
    bool bracketed = length >= 2 && begin[0] == '[' && begin[length - 1] == ']';
    if (bracketed) {
        begin++;
        length -= 2;
    } else if (memchr(begin, ':', length)) {
        return false; /* a bare IPv6 address, whose last group would pass for a port */
    }
    if (length == 0 || length > 255)
        return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    *port = (uint16_t)number;
    return true;
}

bool td_config_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    char host[256];
    uint16_t port;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
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
    (void)td_config_split_address(config->listen, host, &port); /* checked when it was read */
    const int code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0) {
        snprintf(message, TD_CONFIG_MESSAGE, "listen: '%.255s' is no address of a host: %s", host,
                 gai_strerror(code));
        return false;
    }
    freeaddrinfo(found);
    return true;
}
