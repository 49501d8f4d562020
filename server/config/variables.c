#include "server/config/variables.h"

#include "kernels/name.h"
#include "server/config/options.h"

#include <stdio.h>
#include <string.h>

/* True if Kubernetes sets the variable in every container because a Service has a name that starts
 * with tensord: TENSORD_SERVICE_HOST, TENSORD_SERVICE_PORT and TENSORD_SERVICE_PORT_HTTP, or, with
 * an address as the value, TENSORD_PORT, TENSORD_PORT_80_TCP and TENSORD_PORT_80_TCP_ADDR. */
static bool is_service_link(const char *name, size_t length, const char *value)
{
    char text[200];
    int used = 0;
    if (length >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    const char *at = strstr(text, "_SERVICE_");
    if (at && (strcmp(at + 9, "HOST") == 0 || strncmp(at + 9, "PORT", 4) == 0))
        return true;
    at = strstr(text, "_PORT");
    if (!at)
        return false;
    if (at[5] == '\0')
        return strstr(value, "://") != NULL;
    return sscanf(at, "_PORT_%*5[0-9]_%*4[A-Z]%n", &used) == 0 && used > 0;
}

/* True for variables that the scripts of deploy/ and CMake read. */
static bool is_of_scripts(const char *name, size_t length)
{
    return td_name_is("TENSORD_CACHE", name, length) ||
           strncmp(name, "TENSORD_MICROHTTPD_", 19) == 0;
}

static bool is_unknown(const char *name, size_t length, const char *value)
{
    return strncmp(name, TD_VARIABLE_PREFIX, sizeof TD_VARIABLE_PREFIX - 1) == 0 &&
           !td_option_of_variable(name, length) && !td_name_is("TENSORD_CONFIG", name, length) &&
           !is_of_scripts(name, length) && !is_service_link(name, length, value);
}

bool td_config_unknown_variable(char ***environment, struct td_unknown_variable *out)
{
    static const char *const others[] = { "config", NULL };
    enum { PREFIX = sizeof TD_VARIABLE_PREFIX - 1 };
    for (; **environment; ++*environment) {
        const char *name = **environment;
        const size_t length = strcspn(name, "=");
        if (!is_unknown(name, length, name + length))
            continue;
        const struct td_option_meant meant =
            td_option_meant(name + PREFIX, length - PREFIX, others);
        snprintf(out->name, sizeof out->name, "%.*s", (int)length, name);
        out->did_you_mean[0] = '\0';
        if (meant.name) {
            char variable[64];
            td_option_environment_name(meant.name, variable, sizeof variable);
            snprintf(out->did_you_mean, sizeof out->did_you_mean, "%s%s%s", variable,
                     meant.value[0] ? "=" : "", meant.value);
        }
        ++*environment;
        return true;
    }
    return false;
}
