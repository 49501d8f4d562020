#include "server/config/sources.h"

#include "api/json/members.h"
#include "kernels/name.h"
#include "server/config/options.h"
#include "server/config/read_error.h"

#include <cjson/cJSON.h>
#include <sys/stat.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *named_by, const char *path, char message[TD_CONFIG_MESSAGE])
{
    enum { MAX_BYTES = 1 << 20 };
    char *text = NULL, reason[TD_READ_ERROR];
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(message, TD_CONFIG_MESSAGE, "%s: cannot open %.200s: %s", named_by, path,
                 td_read_error(path, errno, reason));
        return NULL;
    }
    text = malloc(MAX_BYTES + 1);
    size_t length = text ? fread(text, 1, MAX_BYTES + 1, file) : 0;
    if (!text || ferror(file) || length > MAX_BYTES) {
        snprintf(message, TD_CONFIG_MESSAGE, "%s: cannot read %.200s, or the file exceeds 1 MiB",
                 named_by, path);
        free(text);
        text = NULL;
    } else {
        text[length] = '\0';
    }
    fclose(file);
    return text;
}

static bool reject_json(const cJSON *item, const struct td_option *option,
                        const struct td_option_source *source, char message[TD_CONFIG_MESSAGE])
{
    char *given = cJSON_PrintUnformatted(item), expected[200];
    td_option_expected(option, expected, sizeof expected);
    td_option_reject(message, source, given ? given : "the value", expected);
    cJSON_free(given);
    return false;
}

static void note(struct td_config_origins *origins, const struct td_option *option,
                 const struct td_option_source *source)
{
    snprintf(origins->text[option - td_options], sizeof origins->text[0], "%s", source->text);
}

static bool set_list_from_json(struct td_config *config, const struct td_option *option,
                               const cJSON *array, struct td_option_source *source,
                               char message[TD_CONFIG_MESSAGE])
{
    /* An empty array is deliberate, but an empty string might come from an unset shell variable. */
    bool valid = array->child ||
                 td_option_set(config, option, "",
                               option->kind == KIND_LIST ? &td_option_built_in : source, message);
    for (const cJSON *item = array->child; valid && item; item = item->next) {
        if (!cJSON_IsString(item))
            return reject_json(item, option, source, message);
        valid = td_option_set(config, option, item->valuestring, source, message);
        source->repeated = true;
    }
    return valid;
}

static const char *const no_others[] = { NULL };

#define TD_ARGUMENT_NAME(action, name, ...) name,
static const char *const argument_others[] = { TD_ARGUMENTS(TD_ARGUMENT_NAME) NULL };
#undef TD_ARGUMENT_NAME

static bool is_argument(const char *name)
{
    for (int i = 0; i < TD_N_ARGUMENTS; i++)
        if (strcmp(td_arguments[i].name, name) == 0)
            return true;
    return false;
}

/* Writes "FAULT; did you mean --NAME VALUE? (see --help)". Uses JSON syntax for the suggestion if
 * the name is from the file. */
static bool reject_name(char message[TD_CONFIG_MESSAGE], const char *fault,
                        struct td_option_meant meant, bool in_file)
{
    char hint[140] = "";
    const bool has_value = meant.value[0];
    if (meant.name && has_value && in_file)
        snprintf(hint, sizeof hint, "; did you mean \"%s\": \"%s\"?", meant.name, meant.value);
    else if (meant.name)
        snprintf(hint, sizeof hint, "; did you mean %s%s%s%s?", in_file ? "" : "--", meant.name,
                 has_value ? " " : "", meant.value);
    snprintf(message, TD_CONFIG_MESSAGE, "%.350s%s (see --help)", fault, hint);
    return false;
}

static bool set_from_json(struct td_config *config, const cJSON *item, const char *path,
                          struct td_config_origins *origins, char message[TD_CONFIG_MESSAGE])
{
    struct td_option_source source = { .repeated = false };
    snprintf(source.text, sizeof source.text, "%.60s in %.200s", item->string, path);
    const struct td_option *option = td_option_find(item->string, strlen(item->string));
    if (!option && is_argument(item->string)) {
        snprintf(message, TD_CONFIG_MESSAGE,
                 "%.300s: it cannot be set in the file; use --%s on the command line", source.text,
                 item->string);
        return false;
    }
    if (!option) {
        char fault[sizeof source.text + 20];
        snprintf(fault, sizeof fault, "%s: unknown option", source.text);
        return reject_name(message, fault,
                           td_option_meant(item->string, strlen(item->string), no_others), true);
    }
    note(origins, option, &source);
    if (cJSON_IsString(item))
        return td_option_set(config, option, item->valuestring, &source, message);
    if (cJSON_IsBool(item) && option->kind == KIND_RATIO)
        return td_option_set(config, option, cJSON_IsTrue(item) ? "on" : "off", &source, message);
    if (cJSON_IsBool(item) && option->kind == KIND_SWITCH)
        return td_option_set(config, option, cJSON_IsTrue(item) ? "true" : "false", &source,
                             message);
    if (cJSON_IsArray(item) && td_option_is_list(option))
        return set_list_from_json(config, option, item, &source, message);
    char number[32];
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 9007199254740992.0)
        return reject_json(item, option, &source, message);
    snprintf(number, sizeof number, "%.17g", item->valuedouble);
    return td_option_set(config, option, number, &source, message);
}

static bool check_unique(const cJSON *root, const cJSON *item, const char *path,
                         char message[TD_CONFIG_MESSAGE])
{
    if (cJSON_GetObjectItemCaseSensitive(root, item->string) == item)
        return true; /* first member with this name */
    snprintf(message, TD_CONFIG_MESSAGE, "%.60s in %.200s: duplicate option", item->string, path);
    return false;
}

/* Describes the error in a text that is not a JSON object. */
static void describe_fault(const struct td_json_scan *scan, const struct td_error *err,
                           char text[300])
{
    const char *at = scan->begin + err->offset, *before = at;
    while (before > scan->begin && td_json_is_space(before[-1]))
        before--;
    const bool closes = at < scan->end && (*at == '}' || *at == ']');
    if (closes && before > scan->begin && before[-1] == ',')
        snprintf(text, 300, "the ',' before '%c' has no %s after it; remove the ','", *at,
                 *at == '}' ? "member" : "element");
    else if (at < scan->end && (*at == '/' || *at == '#'))
        snprintf(text, 300, "'%c' is unexpected: JSON has no comments", *at);
    else
        snprintf(text, 300, "%.290s", err->message);
}

static bool reject_text(const char *named_by, const char *path, const char *text,
                        char message[TD_CONFIG_MESSAGE])
{
    struct td_json_scan scan = { .begin = text, .at = text, .end = text + strlen(text) };
    struct td_error err = { .offset = -1 };
    struct td_arena arena;
    char what[300];
    const char first = td_json_peek(&scan);
    td_arena_init(&arena, NULL, 0, td_memory_heap());
    td_status status = td_json_skip(&scan, 0, &arena, &err);
    if (status == TD_OK && td_json_peek(&scan) != '\0')
        status = td_json_syntax(&scan, scan.at, &err, "expected the end of the file");
    td_arena_reset(&arena);
    if (status == TD_OK || err.offset < 0) {
        const char *kind = td_json_kind(first);
        snprintf(message, TD_CONFIG_MESSAGE,
                 "%s: %.200s: expected an object of options, {\"OPTION\": VALUE, ...}, not %.300s",
                 named_by, path,
                 status != TD_OK        ? err.message
                 : first != '{' && kind ? kind
                                        : "this text");
        return false;
    }
    int line = 1, column = 1;
    for (const char *at = text; at < text + err.offset; at++, column++)
        if (*at == '\n')
            line++, column = 0;
    describe_fault(&scan, &err, what);
    snprintf(message, TD_CONFIG_MESSAGE, "%s: %.200s line %d, column %d: %s", named_by, path, line,
             column, what);
    return false;
}

bool td_config_read_file(struct td_config *config, const char *named_by, const char *path,
                         struct td_config_origins *origins, char message[TD_CONFIG_MESSAGE])
{
    char *text = read_file(named_by, path, message);
    if (!text)
        return false;
    cJSON *root = cJSON_ParseWithOpts(text, NULL, true);
    bool valid = cJSON_IsObject(root) || reject_text(named_by, path, text, message);
    for (const cJSON *item = valid ? root->child : NULL; valid && item; item = item->next)
        valid = check_unique(root, item, path, message) &&
                set_from_json(config, item, path, origins, message);
    cJSON_Delete(root);
    free(text);
    return valid;
}

bool td_config_read_environment(struct td_config *config, char **environment,
                                struct td_config_origins *origins, char message[TD_CONFIG_MESSAGE])
{
    for (char **entry = environment; *entry; entry++) {
        struct td_option_source source = { .repeated = false };
        const size_t length = strcspn(*entry, "=");
        const struct td_option *option =
            (*entry)[length] == '=' ? td_option_of_variable(*entry, length) : NULL;
        if (!option)
            continue;
        td_option_environment_name(option->name, source.text, sizeof source.text);
        note(origins, option, &source);
        if (!td_option_set(config, option, *entry + length + 1, &source, message))
            return false;
    }
    return true;
}

static bool is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Rejects an argument that is not an option, and suggests what was probably meant. */
static bool reject_argument(const char *argument, char message[TD_CONFIG_MESSAGE])
{
    const char *name = argument + strspn(argument, "-");
    char fault[130];
    if (is_folder(argument)) {
        snprintf(message, TD_CONFIG_MESSAGE,
                 "'%.100s' is not an option; did you mean --data-dir %.100s? (see --help)",
                 argument, argument);
        return false;
    }
    snprintf(fault, sizeof fault, "'%.100s' is not an option", argument);
    return reject_name(message, fault, td_option_meant(name, strcspn(name, "="), argument_others),
                       false);
}

static bool reject_second(const char *name, const char *value, char message[TD_CONFIG_MESSAGE])
{
    snprintf(message, TD_CONFIG_MESSAGE, "--%s: it has a second value, '%.100s'; expected only one",
             name, value);
    return false;
}

/* Stores the action that an argument requests. Rejects a second, different action. */
static bool set_action(const struct td_argument *asked, struct td_command_line *line,
                       char message[TD_CONFIG_MESSAGE])
{
    const struct td_argument *before = td_arguments;
    while (before->action != line->action)
        before++;
    if (line->action != TD_CONFIG_RUN && asked != before) {
        snprintf(message, TD_CONFIG_MESSAGE,
                 "--%s: cannot be combined with --%s; expected one of the two", asked->name,
                 before->name);
        return false;
    }
    line->action = asked->action;
    return true;
}

/* Reads one argument and its value, "--name=value" or "--name value". */
static bool read_argument(struct td_config *config, int argc, char **argv, int *at, bool apply,
                          struct td_command_line *line, struct td_config_origins *origins,
                          char message[TD_CONFIG_MESSAGE])
{
    const char *argument = argv[*at];
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0')
        return reject_argument(argument, message);
    const char *name = argument + 2;
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct td_argument *asked = td_argument_find(argument);
    if (asked && !asked->value_name[0])
        return set_action(asked, line, message);
    const bool is_config = asked != NULL;
    const struct td_option *option = td_option_find(name, length);
    if (!is_config && !option) {
        char fault[130];
        snprintf(fault, sizeof fault, "--%.*s: unknown option", (int)(length < 100 ? length : 100),
                 name);
        return reject_name(message, fault, td_option_meant(name, length, argument_others), false);
    }
    bool ignored;
    const bool is_switch = option && option->kind == KIND_SWITCH;
    const bool has_no_value = *at + 1 >= argc || !td_option_parse_switch(argv[*at + 1], &ignored);
    if (!value && is_switch && has_no_value)
        value = "on";
    if (!value && ++*at >= argc) {
        snprintf(message, TD_CONFIG_MESSAGE, "--%.*s: a value is required", (int)length, name);
        return false;
    }
    if (!value)
        value = argv[*at];
    if (is_config && !apply && line->config_path)
        return reject_second("config", value, message);
    if (is_config)
        return line->config_path = value, true;
    if (!apply)
        return true;
    struct td_option_source source = { .repeated = line->given[option - td_options] };
    if (source.repeated && !td_option_is_list(option))
        return reject_second(option->name, value, message);
    snprintf(source.text, sizeof source.text, "--%s", option->name);
    line->given[option - td_options] = true;
    note(origins, option, &source);
    return td_option_set(config, option, value, &source, message);
}

bool td_config_read_arguments(struct td_config *config, int argc, char **argv, bool apply,
                              struct td_command_line *line, struct td_config_origins *origins,
                              char message[TD_CONFIG_MESSAGE])
{
    for (int at = 1; at < argc; at++)
        if (!read_argument(config, argc, argv, &at, apply, line, origins, message))
            return false;
    return true;
}
