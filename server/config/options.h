/* options.h - the table of options and the parser of their values; private to server/config. */
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
    KIND_SWITCH,
    KIND_ISA,
    KIND_LEVEL,
    KIND_FORMAT,
    KIND_VERIFY,
    KIND_CONSOLE,
    KIND_RATIO
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

/* The one that an element of argv names, "--version" or "-v"; NULL for none. A value may follow
 * the name: "--config=FILE". */
const struct td_argument *td_argument_find(const char *given);

/* The source of a value, for messages: "--workers", "TENSORD_WORKERS", "workers in
 * /etc/tensord.json". */
struct td_option_source {
    char text[300];
    bool repeated; /* a later value of the same source: appended to a list */
};

extern const struct td_option_source td_option_built_in; /* of defaults */

/* Sets the message "SOURCE: 'VALUE' is not EXPECTED" and returns false. */
bool td_option_reject(char message[TD_CONFIG_MESSAGE], const struct td_option_source *source,
                      const char *value, const char *expected);

/* Parses the value and sets the option's member. False, with the message set, for an invalid
 * one. */
bool td_option_set(struct td_config *config, const struct td_option *option, const char *value,
                   const struct td_option_source *source, char message[TD_CONFIG_MESSAGE]);

/* What follows "is not" in messages about its values: "one of text, json". */
void td_option_expected(const struct td_option *option, char *text, size_t size);

/* Has it comma-separated values, so that an array may hold them and arguments repeat it? */
bool td_option_is_list(const struct td_option *option);

bool td_option_parse_switch(const char *value, bool *out);

/* At most so many values has an option of which only some are possible. */
enum { TD_MOST_CHOICES = 8 };

/* The values of such an option, or those that one of KIND_DEVICE has names for: returns their
 * number, 0 for other options. */
int td_option_choices(const struct td_option *option, const char *choices[TD_MOST_CHOICES]);

/* The value that an option has, as it may be given, into `text`. Without the secrets in it: the
 * values of headers, and what precedes the host of a URL. */
void td_option_print(const struct td_config *config, const struct td_option *option, char *text,
                     size_t size);

/* The heading of the section that begins with this option; NULL if none does. */
const char *td_option_section(const struct td_option *option);

/* NULL for an unknown name. */
const struct td_option *td_option_find(const char *name, size_t length);

/* What an unknown name is probably meant to be. */
struct td_option_meant {
    const char *name; /* of an option or one of the other names; NULL if none is near */
    char value[32];   /* "HOST:PORT" for port, "off" for no-compress; "" for a misspelt name */
};

/* The other names end with NULL. Case, and '_' instead of '-', make no difference. */
struct td_option_meant td_option_meant(const char *name, size_t length, const char *const *others);

#define TD_VARIABLE_PREFIX "TENSORD_"

/* TENSORD_MAX_BODY for max-body. */
void td_option_environment_name(const char *option, char *name, size_t size);

/* The option that a variable of the environment sets; NULL if it sets none. */
const struct td_option *td_option_of_variable(const char *variable, size_t length);

#endif
