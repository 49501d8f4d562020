/* replay.c - runs the inputs in the given files and folders, in builds without libFuzzer.
 *
 *   fuzz_json build/fuzz-seeds/json
 *
 * Prints the name of an input before it runs it, so that the last one is that of a failure. */
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static int n_inputs;

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    REQUIRE(file && fseek(file, 0, SEEK_END) == 0, "%s", path);
    const long size = ftell(file);
    REQUIRE(size >= 0, "%s", path);
    rewind(file);
    uint8_t *data = malloc((size_t)size + 1);
    REQUIRE(data && fread(data, 1, (size_t)size, file) == (size_t)size, "%s", path);
    fclose(file);
    puts(path);
    fflush(stdout);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    n_inputs++;
}

static void run_path(const char *path)
{
    struct stat info;
    struct dirent **entries;
    REQUIRE(stat(path, &info) == 0, "there is no %s", path);
    if (!S_ISDIR(info.st_mode)) {
        run_file(path);
        return;
    }
    const int n = scandir(path, &entries, NULL, alphasort);
    REQUIRE(n >= 0, "%s", path);
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            run_file(name);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    if (LLVMFuzzerInitialize)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    printf("%d inputs\n", n_inputs);
    return n_inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
