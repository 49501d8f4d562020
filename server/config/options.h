/* options.h - the table of options and the parser of their values. Private to server/config. */
#ifndef TD_SERVER_CONFIG_OPTIONS_H
#define TD_SERVER_CONFIG_OPTIONS_H

#include "server/config/config.h"

#include <stddef.h>

enum td_option_kind {
    KIND_ADDRESS,
    KIND_ADDRESSES,
    KIND_TEXT,
    KIND_LIST,
    KIND_DEVICE,
    KIND_COUNT,
    KIND_BYTES,
    KIND_MODE,
    KIND_SWITCH,
    KIND_RATIO,
    /* One word from a list. The options of this kind differ only in the C type of their member. */
    KIND_CHOICE,
    KIND_ISA = KIND_CHOICE,
    KIND_LEVEL = KIND_CHOICE,
    KIND_FORMAT = KIND_CHOICE,
    KIND_VERIFY = KIND_CHOICE,
    KIND_CONSOLE = KIND_CHOICE
};

struct td_option {
    const char *name;
    enum td_option_kind kind;
    const char *default_text;
    int64_t least, most;
    const char *value_name;
    const char *help;
    size_t offset;
};

#define TD_OPTION_INDEX(member, ...) TD_OPTION_##member,
enum { TD_OPTIONS(TD_OPTION_INDEX) TD_N_OPTIONS };
#undef TD_OPTION_INDEX
extern const struct td_option td_options[TD_N_OPTIONS];

struct td_argument {
    enum td_config_action action;
    const char *name, *letter, *value_name, *help;
};

#define TD_ARGUMENT_INDEX(action, ...) TD_ARGUMENT_##action,
enum { TD_ARGUMENTS(TD_ARGUMENT_INDEX) TD_N_ARGUMENTS };
#undef TD_ARGUMENT_INDEX
extern const struct td_argument td_arguments[TD_N_ARGUMENTS];

/* Returns the argument that an element of argv specifies, such as "--version", "-v" or
 * "--config=FILE", or NULL if it specifies none. */
const struct td_argument *td_argument_find(const char *given);

/* Source of a value as shown in messages: "--workers", "TENSORD_WORKERS", "workers in
 * /etc/tensord.json". */
struct td_option_source {
    char text[300];
    /* True if the same source has already set the option, so the value is appended to the list. */
    bool repeated;
};

/* Source of all default values. */
extern const struct td_option_source td_option_built_in;

/* Sets the message "SOURCE: 'VALUE' is not EXPECTED" and returns false. */
bool td_option_reject(char message[TD_CONFIG_MESSAGE], const struct td_option_source *source,
                      const char *value, const char *expected);

/* Parses the value and sets the option's member. Returns false, with the message set, if the value
 * is invalid. */
bool td_option_set(struct td_config *config, const struct td_option *option, const char *value,
                   const struct td_option_source *source, char message[TD_CONFIG_MESSAGE]);

/* Writes the description of the valid values, such as "one of text, json", which follows "is not"
 * in messages. */
void td_option_expected(const struct td_option *option, char *text, size_t size);

/* True if the value is a comma-separated list. A JSON array can hold its values, and the command
 * line can repeat the option. */
bool td_option_is_list(const struct td_option *option);

bool td_option_parse_switch(const char *value, bool *out);

/* Maximum number of choices of one option. */
enum { TD_MOST_CHOICES = 8 };

/* Stores the names of the values that the option accepts. Returns their number, or 0 if the option
 * accepts arbitrary values. For KIND_DEVICE, stores only the values that have names. */
int td_option_choices(const struct td_option *option, const char *choices[TD_MOST_CHOICES]);

/* Writes the current value of the option to `text`, in the form in which it can be set. Secrets are
 * masked: the values of headers, and everything before the host in a URL. */
void td_option_print(const struct td_config *config, const struct td_option *option, char *text,
                     size_t size);

/* Returns the heading of the section whose first option is `option`, or NULL if the option is not
 * the first option of a section. */
const char *td_option_section(const struct td_option *option);

/* Returns the option with this name, or NULL if the name is unknown. */
const struct td_option *td_option_find(const char *name, size_t length);

/* Suggestion for an unknown name. */
struct td_option_meant {
    /* Suggested option name or element of `others`, or NULL if no name is near. */
    const char *name;
    /* Suggested value: "HOST:PORT" for port, "off" for no-compress, or "" for a misspelt name. */
    char value[32];
};

/* Returns the suggestion for an unknown name. `others` lists more valid names and ends with NULL.
 * The comparison ignores case and treats '_' as '-'. */
struct td_option_meant td_option_meant(const char *name, size_t length, const char *const *others);

#define TD_VARIABLE_PREFIX "TENSORD_"

/* Writes the name of the environment variable for an option: TENSORD_MAX_BODY for max-body. */
void td_option_environment_name(const char *option, char *name, size_t size);

/* Returns the option that an environment variable sets, or NULL if the variable sets none. */
const struct td_option *td_option_of_variable(const char *variable, size_t length);

#endif
