#include "tests/server/faults.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A signal does not interrupt forever: write succeeds eventually. */
enum { MOST_CALLS = 4000, MOST_INTERRUPTS = 50 };

static struct fault fault;
static bool armed;
static int calls, interrupts;
static struct call {
    const char *function;
    bool memory;
} seen[MOST_CALLS];

void faults_begin(const struct fault *wanted)
{
    fault = *wanted;
    calls = interrupts = 0;
    armed = true;
}

void faults_end(void)
{
    armed = false;
}

int faults_calls(void)
{
    return calls;
}

const char *faults_function(int call, bool *memory)
{
    *memory = seen[call - 1].memory;
    return seen[call - 1].function;
}

/* What a call is about: a path, or the file behind a descriptor. */
struct subject {
    const char *path; /* NULL: the descriptor says it */
    int fd;           /* -1: nothing */
};

static void call_before(const char *function, struct subject subject)
{
    char link[64], target[4096] = "";
    if (!subject.path && subject.fd >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", subject.fd);
        const ssize_t length = readlink(link, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
    }
    const char *path = subject.path ? subject.path : target, *slash = strrchr(path, '/');
    armed = false;
    fault.before(function, slash ? slash + 1 : path);
    armed = true;
}

/* Counts a call; returns whether it fails. */
static bool fails(const char *function, bool memory, struct subject subject)
{
    if (!armed)
        return false;
    if (fault.before && !memory)
        call_before(function, subject);
    if (calls == MOST_CALLS)
        abort();
    seen[calls++] = (struct call){ function, memory };
    if (fault.always && strcmp(fault.always, function) == 0) {
        errno = EPERM;
        return true;
    }
    if (fault.at == 0 || calls < fault.at)
        return false;
    const char *first = seen[fault.at - 1].function;
    bool failing = calls == fault.at || fault.span == FAULT_ALL ||
                   (fault.span == FAULT_SAME && strcmp(function, first) == 0);
    if (failing && fault.reason == EINTR)
        failing = interrupts++ < MOST_INTERRUPTS;
    if (failing)
        errno = memory ? ENOMEM : fault.reason;
    return failing;
}

#define NOTHING     ((struct subject){ NULL, -1 })
#define FILE_OF(fd) ((struct subject){ NULL, (fd) })
#define AT(path)    ((struct subject){ (path), -1 })

/* WRAP(type of the result, function, parameters, arguments, what it is about) */
#define WRAP_AS(memory, type, function, parameters, arguments, subject, failure)                   \
    type __real_##function parameters;                                                             \
    type __wrap_##function parameters;                                                             \
    type __wrap_##function parameters                                                              \
    {                                                                                              \
        return fails(#function, memory, subject) ? (failure) : __real_##function arguments;        \
    }
#define WRAP(type, function, parameters, arguments, subject)                                       \
    WRAP_AS(false, type, function, parameters, arguments, subject, -1)

#define WRAP_MEMORY(type, function, parameters, arguments, failure)                                \
    WRAP_AS(true, type, function, parameters, arguments, NOTHING, failure)

WRAP_MEMORY(void *, malloc, (size_t size), (size), NULL)
WRAP_MEMORY(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP_MEMORY(void *, realloc, (void *old, size_t size), (old, size), NULL)
WRAP_MEMORY(int, posix_memalign, (void **out, size_t align, size_t size), (out, align, size),
            ENOMEM)
WRAP_MEMORY(char *, strdup, (const char *text), (text), NULL)

WRAP_AS(false, DIR *, opendir, (const char *path), (path), AT(path), NULL)
WRAP(int, scandirat,
     (int fd, const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
      int (*order)(const struct dirent **, const struct dirent **)),
     (fd, path, list, filter, order), FILE_OF(fd))
WRAP(int, fstat, (int fd, struct stat *info), (fd, info), FILE_OF(fd))
WRAP(int, fstatat, (int fd, const char *path, struct stat *info, int flags),
     (fd, path, info, flags), AT(path))
WRAP(int, fstatvfs, (int fd, struct statvfs *info), (fd, info), FILE_OF(fd))
WRAP(int, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length),
     FILE_OF(fd))
WRAP(int, ftruncate, (int fd, off_t length), (fd, length), FILE_OF(fd))
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), FILE_OF(fd))
WRAP(int, flock, (int fd, int operation), (fd, operation), FILE_OF(fd))
WRAP(int, linkat, (int fd, const char *path, int to_fd, const char *to, int flags),
     (fd, path, to_fd, to, flags), AT(path))
WRAP(int, renameat, (int fd, const char *path, int to_fd, const char *to), (fd, path, to_fd, to),
     AT(to))
WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), AT(path))
WRAP(int, shm_open, (const char *path, int flags, mode_t mode), (path, flags, mode), AT(path))

static int mappings;

void *__real_mmap(void *at, size_t size, int protect, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protect, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int protect, int flags, int fd, off_t offset)
{
    if (fails("mmap", false, FILE_OF(fd)))
        return MAP_FAILED;
    void *place = __real_mmap(at, size, protect, flags, fd, offset);
    mappings += place != MAP_FAILED;
    return place;
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
    const int result = __real_munmap(at, size);
    mappings -= result == 0;
    return result;
}

int faults_mappings(void)
{
    return mappings;
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (fails("write", false, FILE_OF(fd)))
        return -1;
    return __real_write(fd, data, armed && size > FAULT_WRITE ? FAULT_WRITE : size);
}

WRAP(ssize_t, pread, (int fd, void *data, size_t size, off_t offset), (fd, data, size, offset),
     FILE_OF(fd))
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t offset),
     (fd, data, size, offset), FILE_OF(fd))

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return fails("fsync", false, FILE_OF(fd)) ? -1 : 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const bool failing = fails("close", false, FILE_OF(fd));
    const int reason = errno;
    const int result = __real_close(fd);
    if (!failing)
        return result;
    errno = reason;
    return -1;
}

static mode_t mode_of(int flags, va_list rest)
{
    return flags & O_CREAT ? va_arg(rest, mode_t) : 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return fails("open", false, AT(path)) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return fails("openat", false, AT(path)) ? -1 : __real_openat(fd, path, flags, mode);
}

int faults_descriptors(void)
{
    DIR *list = __real_opendir("/proc/self/fd");
    int n = 0;
    while (readdir(list))
        n++;
    closedir(list);
    return n - 3; /* the folder's own, and two names that are none */
}
