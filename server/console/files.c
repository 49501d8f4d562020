#include "server/console/files.h"

#include <string.h>

/* FILE(symbol, name, media type, first half of its SHA-256, bytes) for each file: made by
 * server/CMakeLists.txt. */
#define FILES "console_files.def"

/* The assembler copies the file: as an array in C it would take the compiler a second. */
#define FILE(symbol, name, type, sum, size)                                                        \
    __asm__(".pushsection .rodata\n"                                                               \
            "td_console_" #symbol ":\n"                                                            \
            ".incbin \"" TD_CONSOLE_PAGE "/" name "\"\n"                                           \
            ".popsection\n");                                                                      \
    extern const char td_console_##symbol[] __attribute__((visibility("hidden")));
#include FILES
#undef FILE

static const struct td_console_file files[] = {
#define FILE(symbol, name, type, sum, size)                                                        \
    { name, type, "\"" sum "\"", td_console_##symbol, size },
#include FILES
#undef FILE
};

const struct td_console_file *td_console_file(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}
