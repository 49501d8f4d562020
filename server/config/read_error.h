/* read_error.h - why a file or folder cannot be read, with what the operator can do about it.
 *
 * Threads   Reentrant. */
#ifndef TD_SERVER_CONFIG_READ_ERROR_H
#define TD_SERVER_CONFIG_READ_ERROR_H

enum { TD_READ_ERROR = 320 };

/* Writes the text for the errno `reason` and returns `text`. If the user of the process lacks the
 * right to read, the text names that user. `path`: if a relative one leads nowhere, the text names
 * the working directory; NULL for a file of the data folder. */
const char *td_read_error(const char *path, int reason, char text[TD_READ_ERROR]);

#endif
