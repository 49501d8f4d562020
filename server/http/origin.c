#include "server/http/origin.h"

#include "server/calls/call.h"

#include <arpa/inet.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /* Maximum length of a host name, without a trailing dot. */
    LONGEST_NAME = 253,
    /* Maximum length of an IPv6 address, without the brackets. */
    LONGEST_ADDRESS = 45,
    /* Maximum length of a value in a message. */
    LONGEST_SHOWN = 100,
    NO_PORT = -1
};

/* Parsed host[:port], as in Host and in an origin. The members point into the parsed text. */
struct authority {
    enum { NAME, IPV4, IPV6 } kind;
    struct td_field name;
    unsigned char address[16]; /* IPv4 or IPv6 address, in network order */
    int port;
};

/* An origin: scheme://authority. */
struct origin {
    struct td_field scheme;
    struct authority authority;
};

struct td_origins {
    int n_origins, n_hosts;
    struct origin *origins;  /* point into `text` */
    struct authority *hosts; /* point into `text` */
    char *text;
};

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_equal(struct td_field a, struct td_field b)
{
    return a.length == b.length && strncasecmp(a.text, b.text, a.length) == 0;
}

static bool is_word(struct td_field field, const char *word)
{
    return is_equal(field, (struct td_field){ word, strlen(word) });
}

/* Reads a port: "", ":", or ":" and a number. */
static bool read_port(const char *text, size_t length, int *port)
{
    *port = NO_PORT;
    if (length == 0)
        return true;
    if (text[0] != ':' || length > 6)
        return false;
    int number = 0;
    for (size_t i = 1; i < length; i++) {
        if (!is_digit(text[i]))
            return false;
        number = number * 10 + (text[i] - '0');
    }
    if (length > 1)
        *port = number;
    return number <= 65535;
}

/* Reads an IPv4 address: four decimal numbers. Refuses leading zeros, because some parsers read
 * them as octal. */
static bool read_ipv4(const char *text, size_t length, unsigned char address[16])
{
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        size_t digits = 0;
        int number = 0;
        for (; at < length && is_digit(text[at]) && digits < 3; at++, digits++)
            number = number * 10 + (text[at] - '0');
        if (digits == 0 || number > 255 || (digits > 1 && text[at - digits] == '0'))
            return false;
        address[i] = (unsigned char)number;
        if (i < 3 && (at == length || text[at++] != '.'))
            return false;
    }
    return at == length;
}

/* True for labels of letters, digits, '-' and '_', optionally with a trailing dot. The last label
 * must not be a number, because the name would then be an IPv4 address in an unusual form. */
static bool is_host_name(const char *text, size_t length)
{
    const size_t end = length > 0 && text[length - 1] == '.' ? length - 1 : length;
    size_t label = 0; /* start of the label */
    bool numeric = true;
    if (end == 0 || end > LONGEST_NAME)
        return false;
    for (size_t i = 0; i < end; i++) {
        const char c = text[i];
        if (c == '.') {
            if (i == label)
                return false;
            label = i + 1;
            numeric = true;
        } else if (!is_digit(c)) {
            numeric = false;
            if (!is_letter(c) && c != '-' && c != '_')
                return false;
        }
    }
    return label < end && !numeric;
}

static bool read_ipv6(const char *text, size_t length, unsigned char address[16])
{
    char copy[LONGEST_ADDRESS + 1];
    if (length > LONGEST_ADDRESS || memchr(text, '\0', length))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return inet_pton(AF_INET6, copy, address) == 1; /* inet_pton refuses zones */
}

static bool read_authority(const char *text, size_t length, struct authority *out)
{
    const bool bracketed = length > 0 && text[0] == '[';
    const char *end = memchr(text, bracketed ? ']' : ':', length);
    if (bracketed && !end)
        return false;
    const size_t host = end ? (size_t)(end - text) + bracketed : length;
    out->name = (struct td_field){ text, host };
    if (bracketed) {
        out->kind = IPV6;
        if (!read_ipv6(text + 1, host - 2, out->address))
            return false;
    } else if (read_ipv4(text, host, out->address)) {
        out->kind = IPV4;
    } else {
        out->kind = NAME;
        if (!is_host_name(text, host))
            return false;
    }
    return read_port(text + host, length - host, &out->port);
}

bool td_origin_is_authority(struct td_field text)
{
    struct authority authority;
    return read_authority(text.text, text.length, &authority);
}

static bool read_origin(const char *text, size_t length, struct origin *out)
{
    const char *colon = memchr(text, ':', length);
    const size_t scheme = colon ? (size_t)(colon - text) : 0;
    if (scheme == 0 || length - scheme < 3 || memcmp(colon, "://", 3) != 0 || !is_letter(text[0]))
        return false;
    for (size_t i = 1; i < scheme; i++)
        if (!is_letter(text[i]) && !is_digit(text[i]) && text[i] != '+' && text[i] != '-' &&
            text[i] != '.')
            return false;
    out->scheme = (struct td_field){ text, scheme };
    return read_authority(text + scheme + 3, length - scheme - 3, &out->authority);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool is_same_host(const struct authority *a, const struct authority *b)
{
    if (a->kind != b->kind)
        return false;
    return a->kind == NAME ? is_equal(a->name, b->name)
                           : memcmp(a->address, b->address, a->kind == IPV4 ? 4 : 16) == 0;
}

/* Returns the default port of http or https, or NO_PORT for other schemes. */
static int default_port(struct td_field scheme)
{
    return is_word(scheme, "http") ? 80 : is_word(scheme, "https") ? 443 : NO_PORT;
}

static bool is_same_authority(const struct authority *a, const struct authority *b, int port)
{
    const int first = a->port == NO_PORT ? port : a->port;
    const int second = b->port == NO_PORT ? port : b->port;
    return first == second && is_same_host(a, b);
}

/* True if the origin's authority equals Host, so the page is this server's own. */
static bool is_own_page(const struct origin *origin, struct td_field host)
{
    struct authority authority;
    const int port = default_port(origin->scheme);
    return port != NO_PORT && host.text && read_authority(host.text, host.length, &authority) &&
           is_same_authority(&origin->authority, &authority, port);
}

static bool is_listed(const struct td_origins *origins, const struct origin *origin)
{
    for (int i = 0; i < origins->n_origins; i++) {
        const struct origin *listed = &origins->origins[i];
        if (is_equal(listed->scheme, origin->scheme) &&
            is_same_authority(&listed->authority, &origin->authority, default_port(origin->scheme)))
            return true;
    }
    return false;
}

/* Returns the name without the trailing dot that fully qualified names can have. */
static struct td_field without_dot(struct td_field name)
{
    return (struct td_field){ name.text, name.length - (name.text[name.length - 1] == '.') };
}

static bool is_loopback(const struct authority *host)
{
    static const unsigned char ipv6_loopback[16] = { [15] = 1 };
    static const char local[] = ".localhost";
    const size_t length = sizeof local - 1;
    if (host->kind == IPV4)
        return host->address[0] == 127;
    if (host->kind == IPV6)
        return memcmp(host->address, ipv6_loopback, sizeof ipv6_loopback) == 0;
    const struct td_field name = without_dot(host->name);
    return is_word(name, local + 1) ||
           (name.length > length &&
            strncasecmp(name.text + name.length - length, local, length) == 0);
}

static bool is_allowed_host(const struct td_origins *origins, struct td_field text)
{
    struct authority host;
    if (!read_authority(text.text, text.length, &host))
        return false;
    if (is_loopback(&host))
        return true;
    if (host.kind == NAME)
        host.name = without_dot(host.name);
    for (int i = 0; i < origins->n_hosts; i++)
        if (is_same_host(&host, &origins->hosts[i]))
            return true;
    return false;
}

/* ---- requests -------------------------------------------------------------------------------- */

static int shown(struct td_field field)
{
    return field.length < LONGEST_SHOWN ? (int)field.length : LONGEST_SHOWN;
}

static td_status refuse_host(struct td_field host, struct td_error *err)
{
    td_error_set(err, TD_FORBIDDEN,
                 "Host is '%.*s'; expected localhost, a name under it, an address in 127.0.0.0/8, "
                 "[::1], or a host that --allow-host names",
                 shown(host), host.text);
    return td_error_at_attribute(err, TD_FORBIDDEN, "Host");
}

static td_status refuse_origin(const struct td_origin_request *request, struct td_error *err)
{
    const struct td_field host = request->host.text ? request->host : (struct td_field){ "", 0 };
    if (is_word(request->origin, "null")) /* --allow-origin cannot name "null" */
        td_error_set(err, TD_FORBIDDEN,
                     "Origin is 'null', as sent by pages opened from a file or in a sandbox; "
                     "serve the page over HTTP and add its origin to --allow-origin");
    else
        td_error_set(err, TD_FORBIDDEN,
                     "Origin is '%.*s', but this server is '%.*s'; expected the server's own "
                     "origin or one that --allow-origin names",
                     shown(request->origin), request->origin.text, shown(host), host.text);
    return td_error_at_attribute(err, TD_FORBIDDEN, "Origin");
}

static td_status refuse_site(struct td_field site, struct td_error *err)
{
    td_error_set(err, TD_FORBIDDEN,
                 "Sec-Fetch-Site is '%.*s', so a web page of another site sent this request; "
                 "expected an Origin that --allow-origin names",
                 shown(site), site.text);
    return td_error_at_attribute(err, TD_FORBIDDEN, "Sec-Fetch-Site");
}

bool td_origin_is_page(const char *method, const char *path)
{
    const size_t length = strcspn(path, "?");
    return (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) &&
           ((length == 1 && path[0] == '/') || (length == 5 && memcmp(path, "/docs", 5) == 0));
}

td_status td_origin_check(const struct td_origins *origins, const struct td_origin_request *request,
                          bool *listed, struct td_error *err)
{
    const struct td_field site = request->sec_fetch_site;
    struct origin origin;
    const bool well_formed =
        request->origin.text && read_origin(request->origin.text, request->origin.length, &origin);
    *listed = well_formed && is_listed(origins, &origin);
    const bool checks_host = request->loopback || origins->n_hosts > 0;
    if (checks_host && request->host.text && !is_allowed_host(origins, request->host))
        return refuse_host(request->host, err);
    if (*listed || request->page)
        return TD_OK;
    if (site.text && (is_word(site, "cross-site") || is_word(site, "same-site")))
        return refuse_site(site, err);
    if (request->origin.text && !(well_formed && is_own_page(&origin, request->host)))
        return refuse_origin(request, err);
    return TD_OK;
}

td_status td_origin_preflight(struct td_call *call)
{
    struct td_reply *reply = &call->reply;
    reply->http_status = 204;
    td_reply_header(reply, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
    td_reply_header(reply, "Access-Control-Allow-Headers",
                    "Accept, Authorization, Content-Encoding, Content-Type, If-Match, "
                    "If-None-Match, If-Range, Inference-Header-Content-Length, Range, traceparent, "
                    "tracestate, X-Request-Id, X-Request-Timeout-Ms");
    /* Long enough to cover many requests of a page, but short enough for configuration changes to
     * take effect. */
    td_reply_header(reply, "Access-Control-Max-Age", "600");
    return TD_OK;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Returns the next value of a comma-separated list, without surrounding blanks. Returns false after
 * the last value. An empty list has no values. */
static bool next_value(const char **list, struct td_field *value)
{
    if (!*list || !**list)
        return false;
    const size_t length = strcspn(*list, ",");
    *value = (struct td_field){ *list, length };
    *list = (*list)[length] == ',' ? *list + length + 1 : NULL;
    while (value->length > 0 && value->text[0] == ' ')
        *value = (struct td_field){ value->text + 1, value->length - 1 };
    while (value->length > 0 && value->text[value->length - 1] == ' ')
        value->length--;
    return true;
}

struct rejection {
    char *text;
    size_t size;
};

static bool reject(struct rejection rejection, const char *option, struct td_field value,
                   const char *expected)
{
    snprintf(rejection.text, rejection.size, "%s: '%.*s' is not %s", option, shown(value),
             value.text, expected);
    return false;
}

static bool add_origin(struct td_origins *origins, struct td_field value,
                       struct rejection rejection)
{
    const char *expected = "an origin like https://example.com or http://localhost:3000: a scheme, "
                           "a host and an optional port, without a path";
    if (is_word(value, "*"))
        expected = "a single origin, and would let pages of any site write to this server; name "
                   "each origin, such as https://example.com";
    else if (is_word(value, "null"))
        expected = "a single origin, because pages of any site can send it; name each origin, such "
                   "as https://example.com";
    else if (read_origin(value.text, value.length, &origins->origins[origins->n_origins]))
        return ++origins->n_origins, true;
    return reject(rejection, "allow-origin", value, expected);
}

static bool add_host(struct td_origins *origins, struct td_field value, struct rejection rejection)
{
    struct authority *host = &origins->hosts[origins->n_hosts];
    const bool good = read_authority(value.text, value.length, host);
    if (!good || host->name.length != value.length)
        return reject(rejection, "allow-host", value,
                      "a host like tensors.example.com, 192.0.2.1 or [2001:db8::1], without a "
                      "port");
    if (host->kind == NAME)
        host->name = without_dot(host->name);
    return ++origins->n_hosts, true;
}

static size_t count_values(const char *list)
{
    struct td_field value;
    size_t n = 0;
    while (next_value(&list, &value))
        n++;
    return n;
}

static bool add_values(struct td_origins *origins, const char *allow_origin, const char *allow_host,
                       struct rejection rejection)
{
    struct td_field value;
    while (next_value(&allow_origin, &value))
        if (!add_origin(origins, value, rejection))
            return false;
    while (next_value(&allow_host, &value))
        if (!add_host(origins, value, rejection))
            return false;
    return true;
}

struct td_origins *td_origins_new(const char *allow_origin, const char *allow_host, char *message,
                                  size_t size)
{
    const size_t origins_size = strlen(allow_origin) + 1, hosts_size = strlen(allow_host) + 1;
    struct td_origins *origins = calloc(1, sizeof *origins);
    snprintf(message, size, "no memory for allow-origin and allow-host");
    if (!origins)
        return NULL;
    origins->origins = calloc(count_values(allow_origin) + 1, sizeof *origins->origins);
    origins->hosts = calloc(count_values(allow_host) + 1, sizeof *origins->hosts);
    origins->text = malloc(origins_size + hosts_size);
    if (!origins->origins || !origins->hosts || !origins->text)
        goto wrong;
    memcpy(origins->text, allow_origin, origins_size);
    memcpy(origins->text + origins_size, allow_host, hosts_size);
    if (add_values(origins, origins->text, origins->text + origins_size,
                   (struct rejection){ message, size }))
        return origins;
wrong:
    td_origins_free(origins);
    return NULL;
}

void td_origins_free(struct td_origins *origins)
{
    if (!origins)
        return;
    free(origins->text);
    free(origins->hosts);
    free(origins->origins);
    free(origins);
}
