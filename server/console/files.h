/* files.h - the files of the console, which the build embeds in the program from page/. */
#ifndef TD_SERVER_CONSOLE_FILES_H
#define TD_SERVER_CONSOLE_FILES_H

#include <stddef.h>

struct td_console_file {
    const char *name; /* name of the file, such as "try.js" */
    const char *media_type;
    const char *etag; /* ETag of the bytes, including its quotes */
    const char *bytes;
    size_t size;
};

/* Returns the file with this name, or NULL if there is none. */
const struct td_console_file *td_console_file(const char *name);

#endif
