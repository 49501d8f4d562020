/* console.h - the web console: one page with its style sheet and scripts, embedded in the program.
 *
 * The page needs no token, because it holds no data. Its requests are ordinary requests of a
 * client, with the token that the user types. All replies have an ETag, so browsers can cache them
 * and only revalidate them. A Content-Security-Policy prevents the page from loading or requesting
 * anything from other sites.
 *
 * Threads  Any. The handlers run on the I/O thread, because they reply from memory.
 * Errors   NOT_FOUND if the file does not exist or --console is off. */
#ifndef TD_SERVER_CONSOLE_CONSOLE_H
#define TD_SERVER_CONSOLE_CONSOLE_H

#include "server/calls/call.h"

td_handler td_get_console_page; /* handles / and /docs; the script shows the view for the path */
td_handler td_get_console_file; /* the call's first argument names the file */

#endif
