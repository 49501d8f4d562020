/* variables.h - variables of the environment that look like options but are none. */
#ifndef TD_SERVER_CONFIG_VARIABLES_H
#define TD_SERVER_CONFIG_VARIABLES_H

#include <stdbool.h>

/* A variable of the environment that begins with TENSORD_ but sets nothing. */
struct td_unknown_variable {
    char name[128];         /* truncated */
    char did_you_mean[100]; /* a variable that sets an option, perhaps "=VALUE"; "" for none */
};

/* The next one from *environment on, which is advanced; false if there is none. Variables that
 * Kubernetes sets for a Service named tensord, and those of the scripts in deploy/, are not
 * reported. */
bool td_config_unknown_variable(char ***environment, struct td_unknown_variable *out);

#endif
