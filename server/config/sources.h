/* sources.h - the sources of options: JSON file, environment, arguments; private to server/config.
 *
 * Each sets the options that it has and returns false, with the message set, at the first error. */
#ifndef TD_SERVER_CONFIG_SOURCES_H
#define TD_SERVER_CONFIG_SOURCES_H

#include "server/config/options.h"

/* Results of the command line beside the options of the table. */
struct td_command_line {
    enum td_config_action action;
    const char *config_path;
    const char *config_from;  /* "--config" or "TENSORD_CONFIG" */
    bool given[TD_N_OPTIONS]; /* options that an argument has set */
};

/* The source of each value, in the words of messages; "" for the default. */
struct td_config_origins {
    char text[TD_N_OPTIONS][sizeof(((struct td_option_source *)NULL)->text)];
};

/* `named_by` is what has the path, for messages. */
bool td_config_read_file(struct td_config *config, const char *named_by, const char *path,
                         struct td_config_origins *origins, char message[TD_CONFIG_MESSAGE]);

bool td_config_read_environment(struct td_config *config, char **environment,
                                struct td_config_origins *origins, char message[TD_CONFIG_MESSAGE]);

/* Without `apply`, only looks for --config and what to do. */
bool td_config_read_arguments(struct td_config *config, int argc, char **argv, bool apply,
                              struct td_command_line *line, struct td_config_origins *origins,
                              char message[TD_CONFIG_MESSAGE]);

#endif
