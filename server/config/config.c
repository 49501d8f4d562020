#include "server/config/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The loop frees every string in the table, so new options need no change here. */
void td_config_free(struct td_config *config)
{
#define FREE_TEXT(member, ...)                                                                     \
    free(_Generic(config->member, char * : config->member, default : NULL));
    TD_OPTIONS(FREE_TEXT)
#undef FREE_TEXT
    memset(config, 0, sizeof *config);
}

bool td_config_identifies_clients(const struct td_config *config)
{
    return config->token_file[0] || config->tls_client_ca[0];
}

bool td_config_split_address(const char *address, char host[256], uint16_t *port)
{
    enum { MOST_DIGITS = 5 };
    const char *colon = strrchr(address, ':');
    if (!colon || !isdigit((unsigned char)colon[1]) || strlen(colon + 1) > MOST_DIGITS)
        return false;
    char *end;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || number > 65535)
        return false;
    const char *begin = address;
    size_t length = (size_t)(colon - address);
    bool bracketed = length >= 2 && begin[0] == '[' && begin[length - 1] == ']';
    if (bracketed) {
        begin++;
        length -= 2;
    } else if (memchr(begin, ':', length)) {
        return false; /* a bare IPv6 address, whose last group could be taken for a port */
    }
    if (length == 0 || length > 255)
        return false;
    memcpy(host, begin, length);
    host[length] = '\0';
    *port = (uint16_t)number;
    return true;
}

const char *td_config_socket_path(const char *address)
{
    static const char prefix[] = "unix:";
    const size_t length = sizeof prefix - 1;
    return strncmp(address, prefix, length) == 0 ? address + length : NULL;
}

bool td_config_is_address(const char *text)
{
    char host[256];
    uint16_t port;
    const char *path = td_config_socket_path(text);
    return path ? path[0] == '/' && strlen(path) <= TD_SOCKET_PATH
                : td_config_split_address(text, host, &port);
}

bool td_config_next_address(const char **rest, char address[TD_ADDRESS_SIZE])
{
    const size_t length = strcspn(*rest, ",");
    if (length == 0 || length >= TD_ADDRESS_SIZE)
        return false;
    memcpy(address, *rest, length);
    address[length] = '\0';
    *rest += length + ((*rest)[length] == ',');
    return true;
}
