/* load.h - the configuration as the daemon starts: sources read, defaults resolved, checked.
 *
 * Ownership  The caller frees a loaded configuration with td_config_free. */
#ifndef TD_SERVER_CONFIG_LOAD_H
#define TD_SERVER_CONFIG_LOAD_H

#include "server/config/config.h"

#include <stdio.h>

/* Reads all sources. Zeros ("one per CPU", "half of the RAM") are resolved to numbers. After
 * TD_CONFIG_WRONG there is nothing to free. */
enum td_config_action td_config_load(struct td_config *config, int argc, char **argv,
                                     char **environment, char message[TD_CONFIG_MESSAGE]);

/* Checks against the system: the data folder exists, the address resolves, and the processor has
 * the instruction set. */
bool td_config_check_system(const struct td_config *config, char message[TD_CONFIG_MESSAGE]);

/* Puts the source of the option in place of its name, with which the message of a check begins:
 * "data-dir: ..." becomes "data-dir in tensord.json: ...". */
void td_config_name_source(int argc, char **argv, char **environment,
                           char message[TD_CONFIG_MESSAGE]);

/* Prints the value of each option and where it is from, a line each: name, value, source. The
 * values of headers, which may be secret, are left out. False, with the message, if an option is
 * wrong. */
bool td_config_print(FILE *out, int argc, char **argv, char **environment,
                     char message[TD_CONFIG_MESSAGE]);

/* Prints every option with its default, in lines of at most `columns` characters. */
void td_config_help(FILE *out, int columns);

#endif
