/* foreign.h - recognises, for error messages, formats that tensord does not read: archives,
 * compressed data, and other tensor and table formats.
 *
 * The functions are called only after reading has failed, so they never reject a valid body.
 *
 * Cost       One comparison of the first bytes per format. A body in UTF-16 or UTF-32 is read to
 *            its end. */
#ifndef TD_API_FILES_FOREIGN_H
#define TD_API_FILES_FOREIGN_H

#include "api/message/message.h"
#include "kernels/status.h"

#include <stddef.h>

struct td_foreign {
    const char *name;    /* "a Parquet file" */
    const char *of_body; /* advice for the body of a request */
    const char *of_file; /* advice for a file in the data folder */
};

/* Returns the format of the bytes, or NULL if the format is unknown. */
const struct td_foreign *td_foreign_find(const void *bytes, size_t size);

/* Returns `status`. If it is MALFORMED_REQUEST and the body is not in the format that the client
 * stated, changes the error to name the real format and to tell the user what to do. */
td_status td_foreign_explain_body(td_status status, td_format sent, const void *bytes, size_t size,
                                  struct td_error *err);

/* Like td_foreign_explain_body, for a file in the data folder. */
td_status td_foreign_explain_file(td_status status, const void *bytes, size_t size,
                                  struct td_error *err);

#endif
