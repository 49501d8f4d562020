/* fuzz_cgroup.c - the files of control groups.
 *
 * Input    Texts that end in a NUL: /proc/self/cgroup, /proc/self/mountinfo, cpu.max,
 *          cpu.cfs_quota_us, cpu.cfs_period_us, memory.max, memory.limit_in_bytes. */
#include "server/config/cgroup.h"
#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[] = "/tmp/tensord-fuzz-XXXXXX";
static const char *const folders[] = { "/cg/g", "/cg", "/proc/self", "/proc", "" };
static const char *const files[] = {
    "/proc/self/cgroup",        "/proc/self/mountinfo",    "/cg/g/cpu.max",
    "/cg/g/cpu.cfs_quota_us",   "/cg/g/cpu.cfs_period_us", "/cg/g/memory.max",
    "/cg/memory.limit_in_bytes"
};
enum { FILES = sizeof files / sizeof *files, FOLDERS = sizeof folders / sizeof *folders };

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    return path;
}

static void remove_folders(void)
{
    for (int i = 0; i < FILES; i++)
        unlink(path_of(files[i]));
    for (int i = 0; i < FOLDERS; i++)
        rmdir(path_of(folders[i]));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    REQUIRE(mkdtemp(root), "no folder");
    for (int i = FOLDERS - 2; i >= 0; i--)
        REQUIRE(mkdir(path_of(folders[i]), 0700) == 0, "%s", folders[i]);
    atexit(remove_folders);
    return 0;
}

static void write_file(const char *name, const char *text, size_t size)
{
    const int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && write(fd, text, size) == (ssize_t)size, "%s", name);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int i = 0; i < FILES; i++) {
        const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
        const size_t length = end ? (size_t)(end - data) : size;
        write_file(files[i], (const char *)data, length);
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
    const struct td_cgroup_limits limits = td_cgroup_limits_read(root);
    REQUIRE(limits.cpus >= 0 && limits.memory_bytes >= 0, "%lld, %lld", (long long)limits.cpus,
            (long long)limits.memory_bytes);
    return 0;
}
