/* variables.h - finds environment variables that look like options but are not. */
#ifndef TD_SERVER_CONFIG_VARIABLES_H
#define TD_SERVER_CONFIG_VARIABLES_H

#include <stdbool.h>

/* An environment variable that starts with TENSORD_ but sets nothing. */
struct td_unknown_variable {
    char name[128]; /* truncated if longer */
    /* Suggested variable, possibly with "=VALUE", or "" if no variable is near. */
    char did_you_mean[100];
};

/* Finds the next unknown TENSORD_ variable from *environment on, and advances *environment past it.
 * Returns false if there is none. Skips variables of the scripts in deploy/, and variables that
 * Kubernetes sets for a Service named tensord. */
bool td_config_unknown_variable(char ***environment, struct td_unknown_variable *out);

#endif
