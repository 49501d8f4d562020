/* secret_file.h - reads a file whose content nobody else should see: tokens, keys.
 *
 * Bounds     A regular file of at most `most` bytes. Opening it does not block.
 * Ownership  td_secret_free wipes the bytes before it frees them.
 * Threads    Any.
 * Errors     One sentence: "OPTION: cannot read PATH: reason". */
#ifndef TD_SERVER_AUTH_SECRET_FILE_H
#define TD_SERVER_AUTH_SECRET_FILE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

struct td_secret {
    char *bytes; /* followed by a NUL */
    size_t length;
    bool exposed; /* others than its owner and its group can read or change the file */
};

TD_MUST_CHECK bool td_secret_read(const char *option, const char *path, size_t most,
                                  struct td_secret *secret, char *message, size_t size);

/* Zeros are fine. */
void td_secret_free(struct td_secret *secret);

#endif
