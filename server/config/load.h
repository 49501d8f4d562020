/* load.h - loads the configuration at startup: reads the sources, resolves defaults and checks
 * values.
 *
 * Ownership  The caller frees a loaded configuration with td_config_free. */
#ifndef TD_SERVER_CONFIG_LOAD_H
#define TD_SERVER_CONFIG_LOAD_H

#include "server/config/config.h"

#include <stdio.h>

/* Loads the configuration from all sources. Replaces zeros that mean "one per CPU" or "half of the
 * RAM" with numbers. After TD_CONFIG_WRONG, the caller has nothing to free. */
enum td_config_action td_config_load(struct td_config *config, int argc, char **argv,
                                     char **environment, char message[TD_CONFIG_MESSAGE]);

/* Checks the configuration against the system: the data folder exists, the addresses resolve, and
 * the processor supports the instruction set. */
bool td_config_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE]);

/* Replaces the option name at the start of a check's message with the source of the option:
 * "data-dir: ..." becomes "data-dir in tensord.json: ...". */
void td_config_name_source(int argc, char **argv, char **environment,
                           char message[TD_CONFIG_MESSAGE]);

/* Prints the name, value and source of each option, one line each. Omits the values of headers,
 * which can be secret. Returns false, with the message set, if an option is invalid. */
bool td_config_print(FILE *out, int argc, char **argv, char **environment,
                     char message[TD_CONFIG_MESSAGE]);

/* Prints all options with their defaults, in lines of at most `columns` characters. */
void td_config_help(FILE *out, int columns);

#endif
