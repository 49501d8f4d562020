/* files.h - the files of the console, as they were in page/ when the program was built. */
#ifndef TD_SERVER_CONSOLE_FILES_H
#define TD_SERVER_CONSOLE_FILES_H

#include <stddef.h>

struct td_console_file {
    const char *name; /* "try.js" */
    const char *media_type;
    const char *etag; /* of the bytes, with its quotes */
    const char *bytes;
    size_t size;
};

/* NULL: there is none of this name. */
const struct td_console_file *td_console_file(const char *name);

#endif
