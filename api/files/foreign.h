/* foreign.h - names what tensord does not read by its first bytes, for errors: archives, compressed
 * data, other formats of tensors and tables.
 *
 * It is asked after reading has failed: bytes that are valid in some format are never looked at.
 *
 * Cost       A comparison for each format; a body of UTF-16 or UTF-32 is read to its end. */
#ifndef TD_API_FILES_FOREIGN_H
#define TD_API_FILES_FOREIGN_H

#include "api/message/message.h"
#include "kernels/status.h"

#include <stddef.h>

struct td_foreign {
    const char *name;    /* "a Parquet file" */
    const char *of_body; /* what to do with it as a body of a request, */
    const char *of_file; /* and as a file of the data folder */
};

/* NULL if the bytes are of no known format. */
const struct td_foreign *td_foreign_find(const void *bytes, size_t size);

/* Returns `status`. If that is MALFORMED_REQUEST and the body is not of the format that it was sent
 * as, the error names its format and says what to do. */
td_status td_foreign_explain_body(td_status status, td_format sent, const void *bytes, size_t size,
                                  struct td_error *err);

/* The same for a file. */
td_status td_foreign_explain_file(td_status status, const void *bytes, size_t size,
                                  struct td_error *err);

#endif
