/* transport_errors.c - errors of requests that have no call yet, as application/problem+json or in
 * the format of /v2.
 *
 * Requests with errors such as invalid framing or oversized headers never reach tensord's code,
 * because the library replies with a fixed HTML page and closes the connection. The library makes
 * this page with MHD_create_response_from_buffer_static, which no other code here calls. The
 * linker's --wrap therefore lets this file replace the page with a problem document. With a shared
 * library, --wrap has no effect, and the HTML is sent.
 *
 * The library does not say which request the page is for. This file assumes the request whose
 * request line the thread read last, which is wrong only if another request line was read in
 * between. Therefore, each of the two formats also contains the members of the other.
 *
 * Threads  Any. The library or the kernel copies the text. */
#include "server/http/transport_errors.h"

#include "api/message/problem.h"
#include "server/calls/call.h"
#include "server/calls/services.h"
#include "server/http/request_log.h"
#include "server/http/routes.h"
#include "server/http/target.h"

#include <sys/socket.h>

#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* --wrap prescribes these names. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
struct MHD_Response *__real_MHD_create_response_from_buffer_static(size_t size, const void *buffer);
struct MHD_Response *__wrap_MHD_create_response_from_buffer_static(size_t size, const void *buffer);
/* NOLINTEND(bugprone-reserved-identifier) */

/* A document contains the sentence twice. Each byte takes at most six bytes when it is escaped. */
enum { SENTENCE_SIZE = 512, DOCUMENT_SIZE = 16 * SENTENCE_SIZE, HEAD_SIZE = 512 };

/* State of an I/O thread. */
static _Thread_local struct td_services *used; /* NULL before the thread's first connection */
static _Thread_local int used_shard;
static _Thread_local td_style style = TD_STYLE_PROBLEM; /* style of the last path that was read */

void td_transport_use(struct td_services *services, int shard)
{
    used = services;
    used_shard = shard;
}

void *td_transport_record_path(void *context, const char *path, struct MHD_Connection *connection)
{
    (void)context;
    (void)connection;
    style = td_route_style(td_target_path(path));
    return NULL;
}

/* Copies the text between two tags as plain text. Tags become spaces. Entities become apostrophes,
 * because the library's pages only use entities for quotes. */
static void text_between(const char *page, size_t size, const char *open, const char *close,
                         char *text)
{
    const char *begin = memmem(page, size, open, strlen(open));
    const char *end =
        begin ? memmem(begin, size - (size_t)(begin - page), close, strlen(close)) : NULL;
    size_t length = 0;
    char within = 0; /* character that ends the tag or entity being skipped */
    if (end)
        for (const char *at = begin + strlen(open); at < end && length < SENTENCE_SIZE - 1; at++) {
            if (within) {
                if (*at == within)
                    within = 0;
            } else if (*at == '<' || *at == '&') {
                within = *at == '<' ? '>' : ';';
                text[length++] = *at == '<' ? ' ' : '\'';
            } else if (*at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\') {
                text[length++] = *at;
            }
        }
    text[length] = '\0';
}

/* Counts and logs a request that has no call. */
static void report(struct td_services *services, int shard, int code, const char *request_id,
                   int socket, const struct td_error *err)
{
    static const struct td_times unknown;
    td_metrics_count(services->metrics, shard,
                     &(struct td_request_record){ .operation = TD_OPERATION_NONE,
                                                  .transport = TD_TRANSPORT_NONE,
                                                  .code = code,
                                                  .error = err->status,
                                                  .times = &unknown });
    td_request_log_refused(services, request_id, socket, err);
}

struct MHD_Response *__wrap_MHD_create_response_from_buffer_static(size_t size, const void *buffer)
{
    char title[SENTENCE_SIZE] = "", detail[SENTENCE_SIZE] = "", body[DOCUMENT_SIZE];
    char request_id[TD_REQUEST_ID_SIZE] = "";
    struct td_error err;
    if (size > 0)
        text_between(buffer, size, "<title>", "</title>", title);
    if (size > 0)
        text_between(buffer, size, "<body>", "</body>", detail);
    td_error_set(&err, TD_MALFORMED_REQUEST, "%s",
                 detail[0] ? detail : "the request is not well-formed HTTP");
    if (used) {
        td_request_id_make(used, request_id);
        report(used, used_shard, td_problem_of(err.status)->http_status, request_id, -1, &err);
    }
    const size_t length = td_problem_print(&err, title[0] ? title : "Malformed request", request_id,
                                           body, sizeof body);
    struct MHD_Response *response =
        length ? MHD_create_response_from_buffer(length, body, MHD_RESPMEM_MUST_COPY) : NULL;
    if (!response)
        return __real_MHD_create_response_from_buffer_static(size, buffer);
    /* If this header cannot be allocated, the document has no type, but its status is
     * sufficient. */
    (void)MHD_add_response_header(response, "Content-Type",
                                  style == TD_STYLE_OIP ? "application/json"
                                                        : "application/problem+json");
    if (request_id[0])
        (void)MHD_add_response_header(response, "X-Request-Id", request_id);
    return response;
}

/* Writes the value of a Date header. */
static void print_date(char *text, size_t size)
{
    const time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(text, size, "%a, %d %b %Y %H:%M:%S GMT", &parts) == 0)
        text[0] = '\0';
}

/* Counts and logs the error. Unless `is_silent`, also sends it as plain text. */
static void refuse(const struct td_transport_errors *errors, int socket, td_status status,
                   const char *sentence, bool is_silent)
{
    const struct td_problem *problem = td_problem_of(status);
    char request_id[TD_REQUEST_ID_SIZE], date[64], body[DOCUMENT_SIZE];
    char reply[HEAD_SIZE + DOCUMENT_SIZE];
    struct td_error err;
    td_error_set(&err, status, "%s", sentence);
    td_request_id_make(errors->services, request_id);
    report(errors->services, errors->shard, problem->http_status, request_id, socket, &err);
    if (is_silent)
        return;
    print_date(date, sizeof date);
    const size_t length = td_problem_print(&err, NULL, request_id, body, sizeof body);
    const int bytes =
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n"
                 "Content-Type: application/problem+json\r\nX-Request-Id: %s\r\n"
                 "Content-Length: %zu\r\n\r\n%.*s",
                 problem->http_status, problem->title, date, request_id, length, (int)length, body);
    if (bytes > 0 && (size_t)bytes < sizeof reply)
        (void)send(socket, reply, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void td_transport_refuse(void *context, int socket, const char *sentence)
{
    const struct td_transport_errors *errors = context;
    const struct td_services *services = errors->services;
    /* Plain text would break a TLS session, so the connection ends without a reply. */
    const bool is_silent =
        services->tls && !td_connections_find(services->connections, socket)->is_unix;
    refuse(errors, socket, TD_REQUEST_TIMEOUT, sentence, is_silent);
}

/* Drops up to 64 KiB of input. If the input remained unread, the kernel would reset the connection,
 * and the client might lose the reply. */
static void drop_input(int socket)
{
    char dropped[4096];
    for (int i = 0; i < 16 && recv(socket, dropped, sizeof dropped, MSG_DONTWAIT) > 0; i++)
        continue;
}

void td_transport_refuse_plain(struct td_services *services, int socket)
{
    const struct td_transport_errors errors = { .services = services, .shard = 0 };
    refuse(&errors, socket, TD_MALFORMED_REQUEST,
           "this is a port for HTTPS, and the request is HTTP; write https:// in the URL", false);
    drop_input(socket);
}
