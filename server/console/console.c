#include "server/console/console.h"

#include "server/calls/services.h"
#include "server/calls/static_reply.h"
#include "server/console/files.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The page cannot load or request anything from other sites, run scripts other than its own files,
 * or be shown in a frame. */
static const char policy[] = "default-src 'self'; base-uri 'none'; form-action 'none'; "
                             "frame-ancestors 'none'; object-src 'none'";

static td_status not_here(struct td_call *call)
{
    return td_error_set(&call->error, TD_NOT_FOUND, "there is nothing at %.200s%s", call->path,
                        call->services->config.console == TD_CONSOLE_OFF
                            ? " because --console is off"
                            : "; the console is at /");
}

/* Compresses the reply, and adds the headers common to all replies of the console. */
static td_status finish(struct td_call *call, const char *etag)
{
    struct td_reply *reply = &call->reply;
    const td_status status = td_static_reply(call, etag);
    if (status != TD_OK)
        return status;
    td_reply_header(reply, "Content-Security-Policy", policy);
    td_reply_header(reply, "X-Content-Type-Options", "nosniff");
    td_reply_header(reply, "Referrer-Policy", "no-referrer");
    /* If another site opens the page in a window, do not give the site a handle to the window. With
     * a handle, the site could wait until the user types a token, and then navigate the window to a
     * request of the site's choice. */
    td_reply_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
    return TD_OK;
}

td_status td_get_console_file(struct td_call *call)
{
    const bool off = call->services->config.console == TD_CONSOLE_OFF;
    const struct td_console_file *file = off ? NULL : td_console_file(call->arguments[0]);
    if (!file)
        return not_here(call);
    td_reply_set(&call->reply, 200, file->media_type, file->bytes, file->size);
    return finish(call, file->etag);
}

/* Returns the page with the console's mode inserted. The script reads the mode before it shows
 * anything. */
td_status td_get_console_page(struct td_call *call)
{
    static const char place[] = "data-console=\"";
    static const char *const modes[] = {
        [TD_CONSOLE_READ_ONLY] = "read-only", [TD_CONSOLE_ON] = "on"
    };
    enum { ETAG_SIZE = 64 };
    if (call->services->config.console == TD_CONSOLE_OFF)
        return not_here(call);
    const struct td_console_file *file = td_console_file("index.html");
    const char *mode = modes[call->services->config.console];
    const char *found = memmem(file->bytes, file->size, place, sizeof place - 1);
    assert(found);
    const size_t before = (size_t)(found - file->bytes) + sizeof place - 1;
    char *etag = td_arena_alloc(&call->arena, ETAG_SIZE, 1, &call->error);
    if (!etag)
        return TD_MEMORY_EXHAUSTED;
    snprintf(etag, ETAG_SIZE, "\"%s-%.*s", mode, (int)strlen(file->etag) - 1, file->etag + 1);
    td_reply_set(&call->reply, 200, file->media_type, file->bytes, before);
    call->reply.chunks[1] = (struct td_chunk){ mode, strlen(mode) };
    call->reply.chunks[2] = (struct td_chunk){ file->bytes + before, file->size - before };
    call->reply.n_chunks = 3;
    return finish(call, etag);
}
