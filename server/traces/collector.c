#include "server/traces/collector.h"

#include "kernels/name.h"
#include "server/observe/clock.h"
#include "server/traces/otlp.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACES_PATH "/v1/traces"

enum { POLL_MS = 50, CONNECT_TIMEOUT_MS = 5000, MOST_HEADERS = 32, LONGEST_URL = 2048 };

/* ---- the library ----------------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                               \
    X(curl_global_init)                                                                            \
    X(curl_global_cleanup)                                                                         \
    X(curl_easy_init)                                                                              \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_easy_cleanup)                                                                           \
    X(curl_multi_init)                                                                             \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_cleanup)                                                                          \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)

/* The library's functions by name. */
struct library {
#define MEMBER(name) __typeof__(name) *(name);
    FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Loads libcurl. Both variants of the library have the same functions. Other packages also use the
 * GnuTLS variant. The library is never unloaded, because the libraries that it uses might have
 * threads and handlers. */
static bool load(struct library *library)
{
    static const char *const names[] = { "libcurl-gnutls.so.4", "libcurl.so.4" };
    void *loaded = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !loaded; i++)
        loaded = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!loaded)
        return false;
#define LOAD(name)                                                                                 \
    if (!(*(void **)(void *)&library->name = dlsym(loaded, #name)))                                \
        return false;
    FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

/* ---- options --------------------------------------------------------------------------------- */

/* True if the text is the base address of a collector, with or without the protocol's path. */
static bool is_endpoint(const char *text)
{
    const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
                       : strncmp(text, "https://", 8) == 0 ? text + 8
                                                           : "";
    const size_t length = strlen(text);
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("?#\"<>\\^`{|}", text[i]))
            return false;
    return host[0] && host[0] != '/' && host[0] != ':' && !strchr(host, '@') &&
           length + sizeof TRACES_PATH <= LONGEST_URL;
}

static bool is_header(const char *text, size_t length)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789!#$%&'*+-.^_`|~";
    const size_t name_length = strspn(text, name);
    if (name_length == 0 || name_length >= length || text[name_length] != '=')
        return false;
    for (size_t i = name_length + 1; i < length; i++)
        if ((text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return false;
    return name_length + 1 < length;
}

/* Checks the list of headers. The message contains no header, because the values can be secret. */
static bool check_headers(const char *list, char message[TD_CONFIG_MESSAGE])
{
    int n = 0;
    for (const char *at = list; *at; n++) {
        const size_t length = strcspn(at, ",");
        if (!is_header(at, length)) {
            snprintf(message, TD_CONFIG_MESSAGE,
                     "otlp-header: header %d is not NAME=VALUE, such as api-key=1234", n + 1);
            return false;
        }
        at += length + (at[length] == ',');
    }
    if (n <= MOST_HEADERS)
        return true;
    snprintf(message, TD_CONFIG_MESSAGE, "otlp-header: there are %d headers; expected at most %d",
             n, MOST_HEADERS);
    return false;
}

bool td_collector_check(const struct td_config *config, char message[TD_CONFIG_MESSAGE])
{
    struct library library;
    if (!check_headers(config->otlp_header, message))
        return false;
    if (!config->otlp_endpoint[0])
        return true;
    if (!is_endpoint(config->otlp_endpoint)) {
        snprintf(message, TD_CONFIG_MESSAGE,
                 "otlp-endpoint: '%.255s' is not the address of a collector; expected a URL such "
                 "as http://localhost:4318, with no user, query or fragment",
                 config->otlp_endpoint);
        return false;
    }
    if (load(&library))
        return true;
    snprintf(message, TD_CONFIG_MESSAGE,
             "otlp-endpoint: libcurl is required but cannot be loaded; install libcurl4 or "
             "libcurl3-gnutls");
    return false;
}

/* ---- the collector --------------------------------------------------------------------------- */

struct td_collector {
    struct library curl;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    bool initialized;
    char url[LONGEST_URL];
    size_t reply_bytes;
    char reply[TD_COLLECTOR_REPLY];
};

/* Receives part of the reply. If the reply is too long, returns 0, which ends the transfer, because
 * the rest is not needed. */
static size_t receive(char *data, size_t size, size_t n, void *context)
{
    struct td_collector *collector = context;
    const size_t bytes = size * n, left = sizeof collector->reply - collector->reply_bytes;
    if (bytes > left)
        return 0;
    memcpy(collector->reply + collector->reply_bytes, data, bytes);
    collector->reply_bytes += bytes;
    return bytes;
}

static bool add_header(struct td_collector *collector, const char *header)
{
    struct curl_slist *headers = collector->curl.curl_slist_append(collector->headers, header);
    collector->headers = headers ? headers : collector->headers;
    return headers != NULL;
}

/* Adds the headers in a list of the form "name=value,..." to each request. */
static bool add_headers(struct td_collector *collector, const char *list)
{
    bool added = add_header(collector, "Content-Type: application/json") &&
                 add_header(collector, "Expect:"); /* disables 100-continue */
    for (const char *at = list; *at && added;) {
        const int name = (int)strcspn(at, "="), whole = (int)strcspn(at, ",");
        char *header = NULL;
        added = asprintf(&header, "%.*s: %.*s", name, at, whole - name - 1, at + name + 1) >= 0;
        if (!added)
            return false;
        added = add_header(collector, header);
        free(header);
        at += whole + (at[whole] == ',');
    }
    return added;
}

/* Sets the URL. Some OpenTelemetry settings include the protocol's path, and others do not. */
static void set_url(struct td_collector *collector, const char *endpoint)
{
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    if (td_name_ends(TRACES_PATH, endpoint, length))
        length -= sizeof TRACES_PATH - 1;
    snprintf(collector->url, sizeof collector->url, "%.*s" TRACES_PATH, (int)length, endpoint);
}

static bool set_options(struct td_collector *collector)
{
    __typeof__(curl_easy_setopt) *const set = collector->curl.curl_easy_setopt;
    CURL *easy = collector->easy;
    return set(easy, CURLOPT_URL, collector->url) == CURLE_OK &&
           set(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           set(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           set(easy, CURLOPT_HTTPHEADER, collector->headers) == CURLE_OK &&
           set(easy, CURLOPT_USERAGENT, "tensord/" TD_VERSION) == CURLE_OK &&
           set(easy, CURLOPT_WRITEFUNCTION, receive) == CURLE_OK &&
           set(easy, CURLOPT_WRITEDATA, collector) == CURLE_OK &&
           set(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           /* Do not wait at the end for a resolver that does not respond. */
           set(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK &&
           set(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS) == CURLE_OK &&
           set(easy, CURLOPT_TIMEOUT_MS, (long)(TD_COLLECTOR_TIMEOUT_NS / 1000000)) == CURLE_OK;
}

struct td_collector *td_collector_new(const struct td_config *config)
{
    struct td_collector *collector = calloc(1, sizeof *collector);
    if (!collector || !load(&collector->curl))
        goto failed;
    collector->initialized = collector->curl.curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK;
    if (!collector->initialized)
        goto failed;
    collector->multi = collector->curl.curl_multi_init();
    collector->easy = collector->curl.curl_easy_init();
    set_url(collector, config->otlp_endpoint);
    if (collector->multi && collector->easy && add_headers(collector, config->otlp_header) &&
        set_options(collector))
        return collector;
failed:
    td_collector_free(collector);
    return NULL;
}

const char *td_collector_url(const struct td_collector *collector)
{
    return collector->url;
}

void td_collector_free(struct td_collector *collector)
{
    if (collector && collector->initialized) {
        const struct library *curl = &collector->curl;
        if (collector->easy)
            curl->curl_easy_cleanup(collector->easy);
        if (collector->multi)
            curl->curl_multi_cleanup(collector->multi);
        curl->curl_slist_free_all(collector->headers);
        curl->curl_global_cleanup();
    }
    free(collector);
}

/* ---- a request ------------------------------------------------------------------------------- */

/* Runs the transfer to its end. Returns false if the time limit is reached first. */
static bool transfer(struct td_collector *collector, const atomic_int_fast64_t *stop_by_ns,
                     CURLcode *result)
{
    const struct library *curl = &collector->curl;
    int running = 1, left;
    *result = CURLE_FAILED_INIT;
    while (running > 0 && td_now_ns() < atomic_load(stop_by_ns)) {
        if (curl->curl_multi_perform(collector->multi, &running) != CURLM_OK)
            return true;
        if (running > 0)
            (void)curl->curl_multi_poll(collector->multi, NULL, 0, POLL_MS, NULL);
    }
    const CURLMsg *message = curl->curl_multi_info_read(collector->multi, &left);
    if (message && message->msg == CURLMSG_DONE)
        *result = message->data.result;
    return running == 0;
}

static bool is_for_later(long status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static void read_status(struct td_collector *collector, long status,
                        struct td_collector_reply *reply)
{
    curl_off_t retry_after_s = 0;
    if (status >= 200 && status < 300) {
        reply->outcome = TD_COLLECTOR_ACCEPTED;
        reply->rejected = td_otlp_rejected(collector->reply, collector->reply_bytes);
        if (reply->rejected > 0)
            snprintf(reply->reason, sizeof reply->reason, "the collector rejected %lld spans",
                     (long long)reply->rejected);
        return;
    }
    reply->outcome = is_for_later(status) ? TD_COLLECTOR_BUSY : TD_COLLECTOR_REFUSED;
    snprintf(reply->reason, sizeof reply->reason, "status %ld", status);
    if (collector->curl.curl_easy_getinfo(collector->easy, CURLINFO_RETRY_AFTER, &retry_after_s) ==
            CURLE_OK &&
        retry_after_s > 0 && retry_after_s < INT32_MAX)
        reply->retry_after_ns = (int64_t)retry_after_s * 1000000000;
}

void td_collector_post(struct td_collector *collector, const char *body, size_t bytes,
                       const atomic_int_fast64_t *stop_by_ns, struct td_collector_reply *reply)
{
    const struct library *curl = &collector->curl;
    long status = 0;
    CURLcode result;
    *reply = (struct td_collector_reply){ .outcome = TD_COLLECTOR_BUSY };
    collector->reply_bytes = 0;
    (void)curl->curl_easy_setopt(collector->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
    (void)curl->curl_easy_setopt(collector->easy, CURLOPT_POSTFIELDS, body);
    if (curl->curl_multi_add_handle(collector->multi, collector->easy) != CURLM_OK) {
        snprintf(reply->reason, sizeof reply->reason, "no memory");
        return;
    }
    const bool ended = transfer(collector, stop_by_ns, &result);
    (void)curl->curl_easy_getinfo(collector->easy, CURLINFO_RESPONSE_CODE, &status);
    /* A reply that is too long still has a valid status. */
    if (ended && (result == CURLE_OK || result == CURLE_WRITE_ERROR) && status > 0)
        read_status(collector, status, reply);
    else
        snprintf(reply->reason, sizeof reply->reason, "%s",
                 ended ? curl->curl_easy_strerror(result)
                       : "not completed before the end of the drain");
    curl->curl_multi_remove_handle(collector->multi, collector->easy);
}
