/* console.h - the web console: one page and its style and scripts, in the program itself.
 *
 * The page needs no token: it holds no data, and its requests are those of any client, with the
 * token that its user types. All replies have an ETag, so that a browser keeps them and asks only
 * whether they are new, and a Content-Security-Policy that lets the page load and request nothing
 * from elsewhere.
 *
 * Threads  Any; from memory, on the I/O thread.
 * Errors   NOT_FOUND: no such file, or --console off. */
#ifndef TD_SERVER_CONSOLE_CONSOLE_H
#define TD_SERVER_CONSOLE_CONSOLE_H

#include "server/calls/call.h"

td_handler td_get_console_page; /* of / and /docs: the script shows what the path says */
td_handler td_get_console_file; /* named by the call's first argument */

#endif
