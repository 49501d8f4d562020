#include "server/observe/process.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000, NS_PER_US = 1000 };

static uint64_t cpu_ns(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_usec * NS_PER_US;
}

/* Reads the text of a small file, or "" if the file cannot be read. */
static void read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    const size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file)
        fclose(file);
}

/* Returns the number in field `index` of a text, counting from 0, or 0 if there is no such
 * field. */
static uint64_t field_of(const char *text, int index)
{
    for (; index > 0 && *text; index--) {
        text += strspn(text, " ");
        text += strcspn(text, " ");
    }
    return strtoull(text, NULL, 10);
}

/* Reads the number of threads (field 20), and the ticks between the start of the system and the
 * start of the process (field 22). The second field is the process's name, which can contain spaces
 * and parentheses. */
static void read_stat(uint64_t *threads, uint64_t *start_ticks)
{
    char text[1024];
    read_file("/proc/self/stat", text, sizeof text);
    const char *after_name = strrchr(text, ')');
    if (!after_name)
        return;
    *threads = field_of(after_name + 1, 17);
    *start_ticks = field_of(after_name + 1, 19);
}

/* Returns the number of open files. Since Linux 6.2, this number is the size of the folder. On
 * older kernels, counts the entries, which takes milliseconds for thousands of files. */
static uint64_t count_files(void)
{
    static const char path[] = "/proc/self/fd";
    struct stat of_folder;
    uint64_t n = 0;
    if (stat(path, &of_folder) == 0 && of_folder.st_size > 0)
        return (uint64_t)of_folder.st_size;
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n > 0 ? n - 1 : 0; /* excludes the folder's own descriptor */
}

/* Returns the time at which the system started, in milliseconds since the epoch. */
static int64_t boot_ms(void)
{
    struct timespec now, since_boot;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    return (now.tv_sec - since_boot.tv_sec) * 1000 +
           (now.tv_nsec - since_boot.tv_nsec) / (NS_PER_S / 1000);
}

struct td_process td_process_read(void)
{
    struct td_process process = { .open_files = count_files() };
    struct rusage usage;
    struct rlimit files;
    char statm[128];
    uint64_t start_ticks = 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        process.cpu_ns = cpu_ns(&usage.ru_utime) + cpu_ns(&usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        process.most_files = files.rlim_cur;
    read_file("/proc/self/statm", statm, sizeof statm);
    process.virtual_bytes = field_of(statm, 0) * page;
    process.resident_bytes = field_of(statm, 1) * page;
    read_stat(&process.threads, &start_ticks);
    if (start_ticks > 0)
        process.start_ms =
            (uint64_t)boot_ms() + start_ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return process;
}
