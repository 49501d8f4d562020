/* fuzz_config.c - the configuration file, the command line, and the environment.
 *
 * Input    The file; after a NUL arguments, each ended by a NUL; after an empty argument variables
 *          in the same form. */
#include "server/config/load.h"
#include "server/config/options.h"
#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 8 };

/* Splits the text at its NULs, up to an empty word. Returns the number of words. */
static int split(char **at, const char *end, char *words[], int n)
{
    while (*at < end && n < MOST_WORDS) {
        char *word = *at;
        *at += strlen(word) + 1;
        if (!*word)
            break;
        words[n++] = word;
    }
    words[n] = NULL;
    return n;
}

static void expect_message(const char *message)
{
    REQUIRE(strnlen(message, TD_CONFIG_MESSAGE) < TD_CONFIG_MESSAGE, "no end");
    REQUIRE(strlen(message) > 8, "'%s'", message);
}

/* Requires each number within its limits, and that each value as it is printed is accepted. */
static void expect_valid(const struct td_config *config)
{
    char message[TD_CONFIG_MESSAGE], text[1 << 13];
    for (int i = 0; i < TD_N_OPTIONS; i++) {
        const struct td_option *option = &td_options[i];
        struct td_config copy = { 0 };
        if (option->kind == KIND_COUNT || option->kind == KIND_BYTES) {
            int64_t value;
            memcpy(&value, (const char *)config + option->offset, sizeof value);
            REQUIRE((value >= option->least && value <= option->most) || value == 0, "%s: %lld",
                    option->name, (long long)value);
        }
        td_option_print(config, option, text, sizeof text);
        if (*text && strlen(text) + 1 < sizeof text && !strchr(text, '*'))
            REQUIRE(td_option_set(&copy, option, text, &td_option_built_in, message), "%s",
                    message);
        td_config_free(&copy);
    }
}

static char *write_file(const char *text, size_t size, char path[32], int *fd)
{
    *fd = memfd_create("config", MFD_CLOEXEC);
    REQUIRE(*fd >= 0 && write(*fd, text, size) == (ssize_t)size, "no file");
    snprintf(path, 32, "/proc/self/fd/%d", *fd);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[TD_CONFIG_MESSAGE] = "", path[32];
    char *arguments[MOST_WORDS + 4] = { "tensord", "--config", path };
    char *environment[MOST_WORDS + 1] = { NULL };
    struct td_config config;
    int fd;
    char *text = fuzz_copy(data, size, 1), *at = text, *end = text + size;
    *end = '\0';
    write_file(text, strlen(text), path, &fd);
    at += strlen(text) + 1;
    const int n = split(&at, end, arguments, 3);
    (void)split(&at, end, environment, 0);
    const enum td_config_action action =
        td_config_load(&config, n, arguments, environment, message);
    if (action == TD_CONFIG_WRONG)
        expect_message(message);
    if (action == TD_CONFIG_RUN)
        expect_valid(&config);
    if (action != TD_CONFIG_WRONG)
        td_config_free(&config);
    close(fd);
    free(text);
    return 0;
}
