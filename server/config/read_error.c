#include "server/config/read_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *td_read_error(const char *path, int reason, char text[TD_READ_ERROR])
{
    const int length = snprintf(text, TD_READ_ERROR, "%s", strerror(reason));
    char *end = text + length, folder[TD_READ_ERROR - 80];
    const size_t room = TD_READ_ERROR - (size_t)length;
    if (reason == EACCES || reason == EPERM)
        snprintf(end, room,
                 ": user ID %u cannot read it; change the owner or mode (chown, chmod) of the "
                 "path or its parent folder",
                 (unsigned)geteuid());
    else if (reason == ENOENT && path && path[0] != '/' && getcwd(folder, sizeof folder))
        snprintf(end, room, "; the path is relative to %s", folder);
    return text;
}
