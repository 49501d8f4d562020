/* sources.h - the sources of options: JSON file, environment and arguments. Private to
 * server/config.
 *
 * Each function sets the options that its source contains. It stops at the first error and returns
 * false, with the message set. */
#ifndef TD_SERVER_CONFIG_SOURCES_H
#define TD_SERVER_CONFIG_SOURCES_H

#include "server/config/options.h"

/* Results of reading the command line, other than the options in the table. */
struct td_command_line {
    enum td_config_action action;
    const char *config_path;
    const char *config_from;  /* "--config" or "TENSORD_CONFIG" */
    bool given[TD_N_OPTIONS]; /* options set by an argument */
};

/* Source of each option's value as shown in messages, or "" for the default. */
struct td_config_origins {
    char text[TD_N_OPTIONS][sizeof(((struct td_option_source *)NULL)->text)];
};

/* Reads the JSON file. `named_by` is the option or variable that contains the path, and is quoted
 * in messages. */
bool td_config_read_file(struct td_config *config, const char *named_by, const char *path,
                         struct td_config_origins *origins, char message[TD_CONFIG_MESSAGE]);

bool td_config_read_environment(struct td_config *config, char **environment,
                                struct td_config_origins *origins, char message[TD_CONFIG_MESSAGE]);

/* Reads the command line. If `apply` is false, finds only --config and the action. */
bool td_config_read_arguments(struct td_config *config, int argc, char **argv, bool apply,
                              struct td_command_line *line, struct td_config_origins *origins,
                              char message[TD_CONFIG_MESSAGE]);

#endif
