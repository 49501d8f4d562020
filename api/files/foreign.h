/* foreign.h - recognises, by their first bytes, formats that tensord does not read, for error
 * messages: archives, compressed data, other formats of tensors and tables.
 *
 * The functions are called only after reading has failed, so bytes that are valid in some format
 * are never examined.
 *
 * Cost       One comparison per format. A body of UTF-16 or UTF-32 is read to its end. */
#ifndef TD_API_FILES_FOREIGN_H
#define TD_API_FILES_FOREIGN_H

#include "api/message/message.h"
#include "kernels/status.h"

#include <stddef.h>

struct td_foreign {
    const char *name;    /* "a Parquet file" */
    const char *of_body; /* advice for the body of a request */
    const char *of_file; /* advice for a file of the data folder */
};

/* Returns the format of the bytes, or NULL if it is not known. */
const struct td_foreign *td_foreign_find(const void *bytes, size_t size);

/* Returns `status`. If it is MALFORMED_REQUEST and the body does not have the format that it was
 * sent as, the error names the real format and says what to do. */
td_status td_foreign_explain_body(td_status status, td_format sent, const void *bytes, size_t size,
                                  struct td_error *err);

/* Same as td_foreign_explain_body, for a file of the data folder. */
td_status td_foreign_explain_file(td_status status, const void *bytes, size_t size,
                                  struct td_error *err);

#endif
