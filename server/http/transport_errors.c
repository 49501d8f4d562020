/* transport_errors.c - rewrites libmicrohttpd's own error replies as application/problem+json, or
 * in the form of /v2.
 *
 * Invalid framing, oversized headers and the like never reach tensord's code: the library replies
 * with a fixed HTML page and closes the connection. It makes that page with
 * MHD_create_response_from_buffer_static, which nothing else here calls, so the linker's --wrap
 * lets this file put the page's text into a problem instead. With a shared library the option has
 * no effect and the HTML is sent.
 *
 * The library does not say which request the page is for. It is taken to be the one whose request
 * line this thread read last, which is wrong only if another one was read in between. Therefore
 * each of the two formats also has the members of the other.
 *
 * Threads  Any; the text is copied by the library. */
#include "server/http/transport_errors.h"

#include "server/http/routes.h"
#include "server/http/target.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The names are --wrap's. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
struct MHD_Response *__real_MHD_create_response_from_buffer_static(size_t size, const void *buffer);
struct MHD_Response *__wrap_MHD_create_response_from_buffer_static(size_t size, const void *buffer);
/* NOLINTEND(bugprone-reserved-identifier) */

enum { SENTENCE_SIZE = 512 };

static _Thread_local td_style style = TD_STYLE_PROBLEM; /* of the last path that was read */

void *td_transport_record_path(void *context, const char *path, struct MHD_Connection *connection)
{
    (void)context;
    (void)connection;
    style = td_route_style(td_target_path(path));
    return NULL;
}

/* Copies the text between two tags as plain text: tags become spaces, and entities, which are all
 * quotes, apostrophes. */
static void text_between(const char *page, size_t size, const char *open, const char *close,
                         char *text)
{
    const char *begin = memmem(page, size, open, strlen(open));
    const char *end =
        begin ? memmem(begin, size - (size_t)(begin - page), close, strlen(close)) : NULL;
    size_t length = 0;
    char within = 0; /* the end of the tag or entity being skipped */
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

struct MHD_Response *__wrap_MHD_create_response_from_buffer_static(size_t size, const void *buffer)
{
    char title[SENTENCE_SIZE] = "", detail[SENTENCE_SIZE] = "", body[4 * SENTENCE_SIZE];
    if (size > 0)
        text_between(buffer, size, "<title>", "</title>", title);
    if (size > 0)
        text_between(buffer, size, "<body>", "</body>", detail);
    const char *sentence = detail[0] ? detail : "the request is not well-formed HTTP";
    const int length =
        snprintf(body, sizeof body,
                 "{\"error\":\"%s\",\"type\":\"/problems/malformed-request\",\"title\":\"%s\","
                 "\"detail\":\"%s\",\"code\":\"MALFORMED_REQUEST\"}\n",
                 sentence, title[0] ? title : "Malformed request", sentence);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)length, body, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return __real_MHD_create_response_from_buffer_static(size, buffer);
    /* Without memory for it the text has no type: its status says enough. */
    (void)MHD_add_response_header(response, "Content-Type",
                                  style == TD_STYLE_OIP ? "application/json"
                                                        : "application/problem+json");
    return response;
}
