/* read_error.h - explains why a file or folder cannot be read and what the operator can do about
 * it.
 *
 * Threads   Reentrant. */
#ifndef TD_SERVER_CONFIG_READ_ERROR_H
#define TD_SERVER_CONFIG_READ_ERROR_H

enum { TD_READ_ERROR = 320 };

/* Writes an explanation of the errno value `reason` and returns `text`. If permission is missing,
 * the text names the user of the process. If `path` is relative and does not exist, the text names
 * the working directory. `path` is NULL for a file in the data folder. */
const char *td_read_error(const char *path, int reason, char text[TD_READ_ERROR]);

#endif
