#include "server/config/options.h"

#include "api/text/suggest.h"
#include "kernels/name.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct td_option td_options[] = {
#define OPTION(member, name, kind, default_text, least, most, value_name, help)                    \
    { name, KIND_##kind, default_text, least,                                                      \
      most, value_name,  help,         offsetof(struct td_config, member) },
    TD_OPTIONS(OPTION)
#undef OPTION
};
_Static_assert(sizeof td_options / sizeof *td_options == TD_N_OPTIONS, "one per row");

const struct td_argument td_arguments[] = {
#define ARGUMENT(action, name, letter, value_name, help)                                           \
    { TD_CONFIG_##action, name, letter, value_name, help },
    TD_ARGUMENTS(ARGUMENT)
#undef ARGUMENT
};

/* Words that each option of this kind accepts, in the order of the enum of its member. The option
 * gpu also accepts other text. td_isa_name provides the words of isa. */
static const char *const *const choice_names[TD_N_OPTIONS] = {
    [TD_OPTION_log_level] = (const char *const[]){ "error", "warn", "info", "debug", NULL },
    [TD_OPTION_log_format] = (const char *const[]){ "text", "json", NULL },
    [TD_OPTION_verify] = (const char *const[]){ "start", "background", "off", NULL },
    [TD_OPTION_console] = (const char *const[]){ "off", "read-only", "on", NULL },
    [TD_OPTION_gpu] = (const char *const[]){ "auto", "off", "cuda", "reference", NULL },
};
static const char *const switch_words[] = { "off", "on", "false", "true", "no", "yes", "0", "1" };
enum { N_SWITCH_WORDS = sizeof switch_words / sizeof *switch_words };

/* ---- values --------------------------------------------------------------------------------- */

enum { MOST_NAMES = TD_N_OPTIONS + 8, LONGEST_NAME = 63 };

/* Converts a name to the spelling of options: lower case, with '-' for '_'. Returns false if the
 * name is too long. */
static bool spell(const char *given, size_t length, char name[LONGEST_NAME])
{
    for (size_t i = 0; i < length && i < LONGEST_NAME; i++)
        name[i] = (char)(given[i] == '_' ? '-' : tolower((unsigned char)given[i]));
    return length <= LONGEST_NAME;
}

/* Returns the name in `names` that is nearest to `given`, or NULL if none is near. `names` are in
 * lower case with '-'; `given` can be in any case and can contain '_'. */
static const char *nearest_of(const char *given, size_t length, const char *const *names, int n)
{
    char name[LONGEST_NAME];
    uint32_t work;
    if (!spell(given, length, name))
        return NULL;
    for (int i = 0; i < n; i++)
        if (td_name_is(names[i], name, length))
            return names[i]; /* the same name in another spelling */
    return td_nearest_name(name, length, names, n, &work);
}

/* Names that other servers use for some options. */
static const struct {
    const char *name, *option;
} other_names[] = {
    { "port", "listen" },
    { "p", "listen" },
    { "host", "listen" },
    { "bind", "listen" },
    { "address", "listen" },
    { "addr", "listen" },
    { "data", "data-dir" },
    { "data-folder", "data-dir" },
    { "data-path", "data-dir" },
    { "folder", "data-dir" },
    { "dir", "data-dir" },
    { "tokens", "token-file" },
    { "token", "token-file" },
    { "cert", "tls-certificate" },
    { "certificate", "tls-certificate" },
    { "tls-cert", "tls-certificate" },
    { "ssl-certfile", "tls-certificate" },
    { "key", "tls-key" },
    { "ssl-keyfile", "tls-key" },
    { "ca", "tls-client-ca" },
    { "client-ca", "tls-client-ca" },
    { "threads", "workers" },
    { "memory", "memory-limit" },
    { "timeout", "default-timeout-ms" },
    { "timeout-ms", "default-timeout-ms" },
    { "log", "log-level" },
    { "verbose", "log-level" },
    { "cors", "allow-origin" },
    { "device", "gpu" },
    { "compression", "compress" },
};

static bool may_be_off(const struct td_option *option)
{
    const char *choices[TD_MOST_CHOICES];
    bool found = option->kind == KIND_SWITCH || option->kind == KIND_RATIO;
    for (int i = td_option_choices(option, choices); i-- > 0;)
        found = found || strcmp(choices[i], "off") == 0;
    return found;
}

/* Returns the option that corresponds to another server's name or to no-OPTION. */
static struct td_option_meant other_name(const char *given, size_t length)
{
    struct td_option_meant meant = { .name = NULL };
    char name[LONGEST_NAME];
    if (!spell(given, length, name))
        return meant;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (td_name_is(other_names[i].name, name, length))
            meant.name = other_names[i].option;
    if (meant.name) {
        const char *value = td_option_find(meant.name, strlen(meant.name))->value_name;
        snprintf(meant.value, sizeof meant.value, "%.*s", (int)strcspn(value, ","), value);
    } else if (length > 3 && memcmp(name, "no-", 3) == 0) {
        const struct td_option *option = td_option_find(name + 3, length - 3);
        if (option && may_be_off(option))
            meant = (struct td_option_meant){ option->name, "off" };
    }
    return meant;
}

struct td_option_meant td_option_meant(const char *name, size_t length, const char *const *others)
{
    const char *names[MOST_NAMES];
    int n = 0;
    struct td_option_meant meant = other_name(name, length);
    if (meant.name)
        return meant;
    for (; n < TD_N_OPTIONS; n++)
        names[n] = td_options[n].name;
    for (; *others && n < MOST_NAMES; n++)
        names[n] = *others++;
    meant.name = nearest_of(name, length, names, n);
    return meant;
}

bool td_option_reject(char message[TD_CONFIG_MESSAGE], const struct td_option_source *source,
                      const char *value, const char *expected)
{
    snprintf(message, TD_CONFIG_MESSAGE, "%s: '%.100s' is not %s", source->text, value, expected);
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

static bool parse_number(const struct td_option *option, const char *value, int64_t *out)
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
    /* 0 is always valid if it is the default. */
    bool zero_is_default = scaled == 0 && strcmp(option->default_text, "0") == 0;
    if (!zero_is_default && (scaled < option->least || scaled > option->most))
        return false;
    *out = scaled;
    return true;
}

/* Parses an octal number of three or four digits, such as 660 or 0660. */
static bool parse_mode(const struct td_option *option, const char *value, int64_t *out)
{
    const size_t digits = strspn(value, "01234567");
    if ((digits != 3 && digits != 4) || value[digits] != '\0')
        return false;
    *out = strtol(value, NULL, 8);
    return *out <= option->most;
}

static bool parse_name(const char *const *names, int n, const char *value, int *out)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], value) == 0) {
            *out = i;
            return true;
        }
    return false;
}

_Static_assert((int)TD_ISA_COUNT <= (int)TD_MOST_CHOICES, "all are choices");

int td_option_choices(const struct td_option *option, const char *choices[TD_MOST_CHOICES])
{
    int n = 0;
    const char *const *names = choice_names[option - td_options];
    while (names && names[n] && n < TD_MOST_CHOICES) {
        choices[n] = names[n];
        n++;
    }
    for (; option == &td_options[TD_OPTION_isa] && n < TD_ISA_COUNT; n++)
        choices[n] = td_isa_name((td_isa)n);
    return n;
}

void td_option_expected(const struct td_option *option, char *text, size_t size)
{
    const char *choices[TD_MOST_CHOICES];
    char names[160];
    switch (option->kind) {
    case KIND_ADDRESS:
        snprintf(text, size, "an address like 127.0.0.1:8080 or [::1]:8080");
        break;
    case KIND_ADDRESSES:
        snprintf(text, size,
                 "an address like 127.0.0.1:8080 or [::1]:8080, or a Unix socket like "
                 "unix:/run/tensord/tensord.sock, with an absolute path of at most %d bytes",
                 TD_SOCKET_PATH);
        break;
    case KIND_DEVICE:
        snprintf(text, size,
                 "one of auto, off, cuda[:OPTIONS], reference[:OPTIONS], PATH[:OPTIONS]");
        break;
    case KIND_TEXT:
        snprintf(text, size, "a string");
        break;
    case KIND_LIST:
        snprintf(text, size, "a string or an array of strings");
        break;
    case KIND_COUNT:
    case KIND_BYTES:
        snprintf(text, size, "%s from %lld to %lld",
                 option->kind == KIND_BYTES ? "a number of bytes, optionally with K, M, G or T,"
                                            : "a whole number",
                 (long long)option->least, (long long)option->most);
        break;
    case KIND_MODE:
        snprintf(text, size, "an octal number from 0000 to 0777, such as 0660");
        break;
    case KIND_SWITCH:
        snprintf(text, size, "one of on, off");
        break;
    case KIND_RATIO:
        snprintf(text, size, "on, off, or a number from 0 to 1");
        break;
    case KIND_CHOICE:
        td_names_text(choices, td_option_choices(option, choices), names, sizeof names);
        snprintf(text, size, "one of %s", names);
        break;
    }
}

static bool reject_value(const struct td_option *option, const char *value,
                         const struct td_option_source *source, char message[TD_CONFIG_MESSAGE])
{
    char expected[200];
    td_option_expected(option, expected, sizeof expected);
    return td_option_reject(message, source, value, expected);
}

/* Rejects the value as reject_value does, and appends "; did you mean info?" if a name is near. */
static bool reject_choice(const struct td_option *option, const char *value,
                          const char *const *names, int n, const struct td_option_source *source,
                          char message[TD_CONFIG_MESSAGE])
{
    const char *nearest = nearest_of(value, strlen(value), names, n);
    (void)reject_value(option, value, source, message);
    const size_t used = strlen(message);
    if (nearest)
        snprintf(message + used, TD_CONFIG_MESSAGE - used, "; did you mean %s?", nearest);
    return false;
}

/* Stores the index of the value among the option's choices in *out. */
static bool choose(const struct td_option *option, const char *value,
                   const struct td_option_source *source, char message[TD_CONFIG_MESSAGE], int *out)
{
    const char *choices[TD_MOST_CHOICES];
    const int n = td_option_choices(option, choices);
    return parse_name(choices, n, value, out) ||
           reject_choice(option, value, choices, n, source, message);
}

bool td_option_is_list(const struct td_option *option)
{
    return option->kind == KIND_LIST || option->kind == KIND_ADDRESSES;
}

bool td_option_parse_switch(const char *value, bool *out)
{
    int word;
    if (!parse_name(switch_words, N_SWITCH_WORDS, value, &word))
        return false;
    *out = word % 2;
    return true;
}

/* Parses "off", "on" or a decimal number from 0 to 1. */
static bool parse_fraction(const char *value, double *out)
{
    static const char *const words[] = { "off", "on" };
    char *end;
    int word;
    if (parse_name(words, 2, value, &word)) {
        *out = word;
        return true;
    }
    *out = strtod(value, &end);
    return strspn(value, "0123456789.e-") == strlen(value) && isdigit((unsigned char)value[0]) &&
           *end == '\0' && *out >= 0 && *out <= 1;
}

/* True if the value can name a device. "auto" and "off" are not followed by device options. */
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

/* Appends a value to a comma-separated list. */
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

/* True if the port is 0. The address can then be repeated, because each occurrence gets its own
 * free port. */
static bool is_any_port(const char *address)
{
    char host[256];
    uint16_t port;
    return td_config_split_address(address, host, &port) && port == 0;
}

/* Checks that the address can be appended: it is not a duplicate, and the list has room. */
static bool check_following(const char *list, const char *address,
                            const struct td_option_source *source, char message[TD_CONFIG_MESSAGE])
{
    char before[TD_ADDRESS_SIZE];
    int n = 0;
    for (; td_config_next_address(&list, before); n++)
        if (strcmp(before, address) == 0 && !is_any_port(address)) {
            snprintf(message, TD_CONFIG_MESSAGE,
                     "%s: '%.100s' is given twice; expected each address once", source->text,
                     address);
            return false;
        }
    if (n < TD_MOST_ADDRESSES)
        return true;
    snprintf(message, TD_CONFIG_MESSAGE,
             "%s: '%.100s' is one address too many; expected at most %d", source->text, address,
             TD_MOST_ADDRESSES);
    return false;
}

/* Replaces the list with the values. If the same source has already set the list, appends the
 * values instead. */
static bool set_addresses(const struct td_option *option, char **member, const char *values,
                          const struct td_option_source *source, char message[TD_CONFIG_MESSAGE])
{
    bool valid = true, appends = source->repeated;
    for (const char *at = values; valid && at; appends = true) {
        const size_t all = strcspn(at, ","), blanks = strspn(at, " ");
        size_t length = all;
        while (length > blanks && at[length - 1] == ' ')
            length--;
        char *address = strndup(at + blanks, length > blanks ? length - blanks : 0);
        if (!address)
            snprintf(message, TD_CONFIG_MESSAGE, "no memory for the configuration");
        valid = address &&
                (td_config_is_address(address) || reject_value(option, address, source, message)) &&
                (!appends || check_following(*member, address, source, message)) &&
                (appends ? add_text : set_text)(member, address, message);
        free(address);
        at = at[all] == ',' ? at + all + 1 : NULL;
    }
    return valid;
}

const struct td_option_source td_option_built_in = { .text = "built-in default" };

bool td_option_set(struct td_config *config, const struct td_option *option, const char *value,
                   const struct td_option_source *source, char message[TD_CONFIG_MESSAGE])
{
    char *member = (char *)config + option->offset;
    char host[256];
    uint16_t port;
    /* Reject empty values. An unset shell variable, as in --token-file "$TOKENS", would otherwise
     * disable protection or override the value of a source with lower precedence. */
    if (!*value && !*option->default_text)
        return source == &td_option_built_in
                   ? set_text((char **)(void *)member, value, message)
                   : td_option_reject(message, source, value,
                                      "a value; omit the option to leave it unset");
    switch (option->kind) {
    case KIND_ADDRESS:
        if (!td_config_split_address(value, host, &port))
            return reject_value(option, value, source, message);
        return set_text((char **)(void *)member, value, message);
    case KIND_ADDRESSES:
        return set_addresses(option, (char **)(void *)member, value, source, message);
    case KIND_DEVICE:
        if (!is_device(value))
            return reject_value(option, value, source, message);
        return set_text((char **)(void *)member, value, message);
    case KIND_TEXT:
        return set_text((char **)(void *)member, value, message);
    case KIND_LIST:
        return (source->repeated ? add_text : set_text)((char **)(void *)member, value, message);
    case KIND_COUNT:
    case KIND_BYTES:
        return parse_number(option, value, (int64_t *)(void *)member) ||
               reject_value(option, value, source, message);
    case KIND_MODE:
        return parse_mode(option, value, (int64_t *)(void *)member) ||
               reject_value(option, value, source, message);
    case KIND_SWITCH:
        return td_option_parse_switch(value, (bool *)(void *)member) ||
               reject_choice(option, value, switch_words, N_SWITCH_WORDS, source, message);
    case KIND_CHOICE:
        return choose(option, value, source, message, (int *)(void *)member);
    case KIND_RATIO:
        return parse_fraction(value, (double *)(void *)member) ||
               reject_value(option, value, source, message);
    }
    return false;
}

/* ---- printing ------------------------------------------------------------------------------- */

/* Writes the exact number of bytes with the largest suffix that divides the number. */
static void print_bytes(int64_t bytes, char *text, size_t size)
{
    static const char suffixes[] = "KMGT";
    int n = 0;
    while (bytes > 0 && bytes % 1024 == 0 && suffixes[n]) {
        bytes /= 1024;
        n++;
    }
    snprintf(text, size, "%lld%.*s", (long long)bytes, n > 0, &suffixes[n > 0 ? n - 1 : 0]);
}

/* Writes the headers without their values: "api-key=***,other=***". */
static void print_headers(const char *headers, char *text, size_t size)
{
    size_t length = 0;
    for (const char *at = headers; *at && length < size;) {
        const size_t name = strcspn(at, "=,"), all = strcspn(at, ",");
        length += (size_t)snprintf(text + length, size - length, "%.*s%s%s", (int)name, at,
                                   name < all ? "=***" : "", at[all] ? "," : "");
        at += all + (at[all] == ',');
    }
}

static void print_text(const char *value, char *text, size_t size)
{
    const char *host = strstr(value, "://"), *at = host ? strrchr(host, '@') : NULL;
    if (at)
        snprintf(text, size, "%.*s***%s", (int)(host + 3 - value), value, at);
    else
        snprintf(text, size, "%s", value);
}

void td_option_print(const struct td_config *config, const struct td_option *option, char *text,
                     size_t size)
{
    const void *member = (const char *)config + option->offset;
    const char *choices[TD_MOST_CHOICES];
    text[0] = '\0';
    switch (option->kind) {
    case KIND_ADDRESS:
    case KIND_ADDRESSES:
    case KIND_TEXT:
    case KIND_LIST:
    case KIND_DEVICE:
        if (option == &td_options[TD_OPTION_otlp_header])
            print_headers(*(char *const *)member, text, size);
        else
            print_text(*(char *const *)member, text, size);
        break;
    case KIND_COUNT:
        snprintf(text, size, "%lld", (long long)*(const int64_t *)member);
        break;
    case KIND_BYTES:
        print_bytes(*(const int64_t *)member, text, size);
        break;
    case KIND_MODE:
        snprintf(text, size, "%04llo", (unsigned long long)*(const int64_t *)member);
        break;
    case KIND_SWITCH:
        snprintf(text, size, "%s", *(const bool *)member ? "on" : "off");
        break;
    case KIND_RATIO:
        snprintf(text, size, "%g", *(const double *)member);
        break;
    case KIND_CHOICE:
        (void)td_option_choices(option, choices);
        snprintf(text, size, "%s", choices[*(const int *)member]);
        break;
    }
}

const char *td_option_section(const struct td_option *option)
{
#define SECTION(member, heading) { TD_OPTION_##member, heading },
    static const struct {
        int first;
        const char *heading;
    } sections[] = { TD_OPTION_SECTIONS(SECTION) };
#undef SECTION
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (option == &td_options[sections[i].first])
            return sections[i].heading;
    return NULL;
}

/* ---- names ---------------------------------------------------------------------------------- */

const struct td_option *td_option_find(const char *name, size_t length)
{
    for (int i = 0; i < TD_N_OPTIONS; i++)
        if (td_name_is(td_options[i].name, name, length))
            return &td_options[i];
    return NULL;
}

const struct td_argument *td_argument_find(const char *given)
{
    for (int i = 0; i < TD_N_ARGUMENTS; i++) {
        const struct td_argument *argument = &td_arguments[i];
        if (given[0] == '-' && given[1] && strcmp(given + 1, argument->letter) == 0)
            return argument;
        if (strncmp(given, "--", 2) != 0)
            continue;
        const size_t length = argument->value_name[0] ? strcspn(given, "=") : strlen(given);
        if (td_name_is(argument->name, given + 2, length - 2))
            return argument;
    }
    return NULL;
}

const struct td_option *td_option_of_variable(const char *variable, size_t length)
{
    for (int i = 0; i < TD_N_OPTIONS; i++) {
        char name[100];
        td_option_environment_name(td_options[i].name, name, sizeof name);
        if (td_name_is(name, variable, length))
            return &td_options[i];
    }
    return NULL;
}

void td_option_environment_name(const char *option, char *name, size_t size)
{
    int length = snprintf(name, size, TD_VARIABLE_PREFIX "%s", option);
    for (int i = 0; i < length; i++)
        name[i] = (char)(name[i] == '-' ? '_' : toupper((unsigned char)name[i]));
}
