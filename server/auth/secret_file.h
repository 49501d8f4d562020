/* secret_file.h - reads a file with secret content, such as tokens or keys.
 *
 * Bounds     The file must be a regular file of at most `most` bytes. Opening it does not block.
 * Ownership  td_secret_free wipes the bytes before it frees them.
 * Threads    Any.
 * Errors     The message is "OPTION: cannot read PATH: reason". */
#ifndef TD_SERVER_AUTH_SECRET_FILE_H
#define TD_SERVER_AUTH_SECRET_FILE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

struct td_secret {
    char *bytes; /* the content, followed by a NUL */
    size_t length;
    /* True if users other than the file's owner and group can read or change it. */
    bool exposed;
};

TD_MUST_CHECK bool td_secret_read(const char *option, const char *path, size_t most,
                                  struct td_secret *secret, char *message, size_t size);

/* Wipes and frees the bytes. A zeroed struct is allowed. */
void td_secret_free(struct td_secret *secret);

#endif
