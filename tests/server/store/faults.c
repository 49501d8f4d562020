#include "tests/server/store/faults.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
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

/* Counts a call; returns whether it fails. */
static bool fails(const char *function, bool memory)
{
    if (!armed)
        return false;
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

/* WRAP(type of the result, function, parameters, arguments, result of a failure) */
#define WRAP_AS(memory, type, function, parameters, arguments, failure)                            \
    type __real_##function parameters;                                                             \
    type __wrap_##function parameters;                                                             \
    type __wrap_##function parameters                                                              \
    {                                                                                              \
        return fails(#function, memory) ? (failure) : __real_##function arguments;                 \
    }
#define WRAP(type, function, parameters, arguments)                                                \
    WRAP_AS(false, type, function, parameters, arguments, -1)

WRAP_AS(true, void *, malloc, (size_t size), (size), NULL)
WRAP_AS(true, void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP_AS(true, void *, realloc, (void *old, size_t size), (old, size), NULL)
WRAP_AS(true, int, posix_memalign, (void **out, size_t align, size_t size), (out, align, size),
        ENOMEM)
WRAP_AS(true, char *, strdup, (const char *text), (text), NULL)

WRAP_AS(false, DIR *, opendir, (const char *path), (path), NULL)
WRAP_AS(false, void *, mmap, (void *at, size_t size, int protect, int flags, int fd, off_t offset),
        (at, size, protect, flags, fd, offset), MAP_FAILED)
WRAP(int, scandirat,
     (int fd, const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
      int (*order)(const struct dirent **, const struct dirent **)),
     (fd, path, list, filter, order))
WRAP(int, fstat, (int fd, struct stat *info), (fd, info))
WRAP(int, fstatat, (int fd, const char *path, struct stat *info, int flags),
     (fd, path, info, flags))
WRAP(int, fstatvfs, (int fd, struct statvfs *info), (fd, info))
WRAP(int, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length))
WRAP(int, ftruncate, (int fd, off_t length), (fd, length))
WRAP(int, flock, (int fd, int operation), (fd, operation))
WRAP(int, linkat, (int fd, const char *path, int to_fd, const char *to, int flags),
     (fd, path, to_fd, to, flags))
WRAP(int, renameat, (int fd, const char *path, int to_fd, const char *to), (fd, path, to_fd, to))
WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (fails("write", false))
        return -1;
    return __real_write(fd, data, armed && size > FAULT_WRITE ? FAULT_WRITE : size);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return fails("fsync", false) ? -1 : 0;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const bool failing = fails("close", false);
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
    return fails("open", false) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return fails("openat", false) ? -1 : __real_openat(fd, path, flags, mode);
}
