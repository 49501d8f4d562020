#include "server/http/proxies.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_SHOWN = 100,                        /* maximum length of a value in a message */
    LONGEST_ADDRESS = INET6_ADDRSTRLEN + 2 + 6, /* maximum length with brackets and a port */
    MAPPED_BITS = 96 /* number of bits before an IPv4 address that is mapped to IPv6 */
};

struct prefix {
    struct td_address address;
    int bits;
};

/* A value of the list: a prefix or a user. */
struct proxy {
    bool is_user;
    uid_t user;
    struct prefix prefix;
};

struct td_proxies {
    int n;
    struct proxy all[];
};

/* ---- addresses ------------------------------------------------------------------------------- */

/* Parses an address. Sets *bits to its length in bits, 32 or 128. */
static bool parse_address(const char *text, struct td_address *address, int *bits)
{
    struct in_addr ipv4;
    *bits = 32;
    if (inet_pton(AF_INET, text, &ipv4) == 1) {
        *address = td_address_map_ipv4(&ipv4);
        return true;
    }
    *bits = 128;
    return inet_pton(AF_INET6, text, address->bytes) == 1;
}

static bool is_within(const struct prefix *prefix, const struct td_address *address)
{
    const size_t bytes = (size_t)prefix->bits / 8;
    const unsigned rest = (unsigned)prefix->bits % 8;
    if (memcmp(prefix->address.bytes, address->bytes, bytes) != 0)
        return false;
    const unsigned difference =
        rest > 0 ? (unsigned)(prefix->address.bytes[bytes] ^ address->bytes[bytes]) : 0;
    return difference >> (8 - rest) == 0;
}

static bool is_trusted(const struct td_proxies *proxies, const struct td_address *address)
{
    for (int i = 0; i < proxies->n; i++)
        if (!proxies->all[i].is_user && is_within(&proxies->all[i].prefix, address))
            return true;
    return false;
}

static bool is_trusted_user(const struct td_proxies *proxies, uid_t user)
{
    for (int i = 0; i < proxies->n; i++)
        if (proxies->all[i].is_user && proxies->all[i].user == user)
            return true;
    return false;
}

bool td_proxies_trust(const struct td_proxies *proxies, const struct td_peer *peer)
{
    return (peer->kind == TD_PEER_ADDRESS && is_trusted(proxies, &peer->address)) ||
           (peer->kind == TD_PEER_USER && is_trusted_user(proxies, peer->user));
}

/* ---- --trusted-proxy ------------------------------------------------------------------------- */

/* True if bits after the prefix are set. The value might have been meant as a single host, but
 * would trust a whole network. */
static bool has_host_bits(const struct prefix *prefix)
{
    for (int bit = prefix->bits; bit < 128; bit++)
        if (prefix->address.bytes[bit / 8] >> (7 - bit % 8) & 1)
            return true;
    return false;
}

/* Parses "10.0.0.0/8" or "2001:db8::1". Overwrites the slash. */
static bool parse_prefix(char *text, struct prefix *prefix)
{
    char *slash = strchr(text, '/'), *end = NULL;
    int most;
    if (slash)
        *slash = '\0';
    if (!parse_address(text, &prefix->address, &most))
        return false;
    prefix->bits = 128;
    if (!slash)
        return true;
    const long bits = slash[1] >= '0' && slash[1] <= '9' ? strtol(slash + 1, &end, 10) : -1;
    if (bits < 0 || bits > most || *end)
        return false;
    prefix->bits = 128 - most + (int)bits;
    return !has_host_bits(prefix);
}

/* Parses "33", the N of "uid:N". */
static bool parse_user(const char *text, uid_t *user)
{
    enum { MOST_DIGITS = 10 };
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS || text[digits])
        return false;
    const unsigned long long number = strtoull(text, NULL, 10);
    *user = (uid_t)number;
    return number < (uid_t)-1; /* which stands for no user */
}

/* Parses one value of the list. */
static bool add_proxy(struct td_proxies *proxies, const char *value, size_t length)
{
    static const char user[] = "uid:";
    struct proxy *proxy = &proxies->all[proxies->n++];
    char text[LONGEST_SHOWN];
    if (length >= sizeof text)
        return false;
    memcpy(text, value, length);
    text[length] = '\0';
    proxy->is_user = strncmp(text, user, sizeof user - 1) == 0;
    return proxy->is_user ? parse_user(text + sizeof user - 1, &proxy->user)
                          : parse_prefix(text, &proxy->prefix);
}

/* Returns the next value of a comma-separated list, without surrounding spaces. */
static size_t next_value(const char **value, const char **rest)
{
    const char *begin = *rest + strspn(*rest, " \t");
    size_t length = strcspn(begin, ",");
    *rest = begin + length + (begin[length] == ',');
    while (length > 0 && (begin[length - 1] == ' ' || begin[length - 1] == '\t'))
        length--;
    *value = begin;
    return length;
}

struct td_proxies *td_proxies_new(const char *trusted, char *message, size_t size)
{
    size_t most = 1;
    for (const char *at = trusted; *at; at++)
        most += *at == ',';
    struct td_proxies *proxies = calloc(1, sizeof *proxies + most * sizeof(struct proxy));
    snprintf(message, size, "no memory for --trusted-proxy");
    for (const char *rest = trusted, *value; proxies && *rest;) {
        const size_t length = next_value(&value, &rest);
        if (length == 0 || add_proxy(proxies, value, length))
            continue;
        snprintf(message, size,
                 "trusted-proxy: '%.*s' is not an address or prefix like 192.0.2.1, 10.0.0.0/8 "
                 "or 2001:db8::/32; the bits after a prefix must be 0. A user of a Unix socket is "
                 "written as uid:33",
                 (int)(length < LONGEST_SHOWN ? length : LONGEST_SHOWN), value);
        td_proxies_free(proxies);
        return NULL;
    }
    return proxies;
}

void td_proxies_free(struct td_proxies *proxies)
{
    free(proxies);
}

/* ---- X-Forwarded-For ------------------------------------------------------------------------- */

/* Parses an entry: "192.0.2.1", "192.0.2.1:8080", "2001:db8::1" or "[2001:db8::1]:8080". */
static bool parse_forwarded(const char *value, size_t length, struct td_address *address)
{
    char text[LONGEST_ADDRESS];
    int bits;
    if (length >= sizeof text)
        return false;
    memcpy(text, value, length);
    text[length] = '\0';
    char *begin = text, *end = strchr(text, ':');
    if (text[0] == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        if (!end)
            return false;
    } else if (end && strchr(end + 1, ':')) {
        end = NULL; /* without brackets, an IPv6 address has no port */
    }
    if (end)
        *end = '\0';
    return parse_address(begin, address, &bits);
}

bool td_proxies_client(const struct td_proxies *proxies, const char *forwarded_for,
                       struct td_forwarded *client)
{
    *client = (struct td_forwarded){ .known = false };
    /* Read from the right, so entries sent by the client itself are never trusted. */
    for (const char *end = forwarded_for + strlen(forwarded_for); end > forwarded_for;) {
        const char *begin = end, *value, *rest;
        struct td_address address;
        while (begin > forwarded_for && begin[-1] != ',')
            begin--;
        rest = begin;
        const size_t length = next_value(&value, &rest);
        if (!parse_forwarded(value, length, &address))
            return false;
        if (!is_trusted(proxies, &address)) {
            *client = (struct td_forwarded){ .known = true, .address = address };
            return true;
        }
        end = begin > forwarded_for ? begin - 1 : begin;
    }
    return false;
}
