/* faults.c - preloaded into a daemon, makes system calls and allocations fail on request.
 *
 * TD_FAULTS names a file with a struct control, which the trial (faults.py) changes while the
 * daemon runs. Without it nothing fails.
 *
 * Only failures that a kernel reports are produced: reads and writes of files fail, not those of
 * eventfds; sockets are reset, and run out of memory.
 *
 * Threads    Any: the members of the control are atomic. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* X(function, errors...): in the order of faults.py. */
#define FUNCTIONS(X)                                                                               \
    X(openat, EMFILE, EACCES, EIO, ENOSPC)                                                         \
    X(read, EIO, EINTR)                                                                            \
    X(write, ENOSPC, EIO, EDQUOT)                                                                  \
    X(fsync, EIO, ENOSPC)                                                                          \
    X(mmap, ENOMEM)                                                                                \
    X(ftruncate, EIO, ENOSPC)                                                                      \
    X(fallocate, ENOSPC, EIO)                                                                      \
    X(renameat, EIO, ENOSPC)                                                                       \
    X(linkat, EIO, EMLINK, EPERM)                                                                  \
    X(unlinkat, EIO, EBUSY)                                                                        \
    X(fstat, EIO)                                                                                  \
    X(fstatat, EIO, ENOMEM)                                                                        \
    X(accept4, EMFILE, ENFILE, ECONNABORTED, ENOMEM)                                               \
    X(epoll_ctl, ENOMEM, ENOSPC)                                                                   \
    X(recv, ECONNRESET, EINTR, ENOMEM)                                                             \
    X(send, ECONNRESET, EINTR, ENOBUFS)                                                            \
    X(sendmsg, ECONNRESET, EINTR, ENOBUFS)                                                         \
    X(malloc, ENOMEM)                                                                              \
    X(calloc, ENOMEM)                                                                              \
    X(realloc, ENOMEM)                                                                             \
    X(posix_memalign, ENOMEM)                                                                      \
    X(pthread_create, EAGAIN)                                                                      \
    X(eventfd, EMFILE)                                                                             \
    X(socket, EMFILE)

enum function {
#define NUMBER(function, ...) F_##function,
    FUNCTIONS(NUMBER)
#undef NUMBER
        N_FUNCTIONS
};

struct control {
    _Atomic uint32_t enabled;     /* bit i: function i */
    _Atomic uint32_t per_million; /* calls that fail */
    _Atomic uint64_t seed;
    _Atomic uint64_t countdown; /* the call that fails once, from 1; 0: none */
    _Atomic uint64_t calls;
    _Atomic uint64_t failures[N_FUNCTIONS];
};

static struct control *_Atomic control;
static _Thread_local int within; /* calls of this file's own */

/* With system calls and not through the functions below. */
__attribute__((constructor)) static void open_control(void)
{
    const char *path = getenv("TD_FAULTS");
    if (!path)
        return;
    const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    const long at =
        syscall(SYS_mmap, NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at > 0)
        control = (struct control *)at;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Whether this call fails, with errno set. */
static int fails(enum function function, const int *errors, int n)
{
    struct control *c = control;
    if (!c || within || !(atomic_load(&c->enabled) >> function & 1))
        return 0;
    const uint64_t call = atomic_fetch_add(&c->calls, 1) + 1;
    const uint64_t draw = mix(atomic_load(&c->seed) + call * UINT64_C(0x9e3779b97f4a7c15));
    uint64_t last = call;
    const int once = atomic_compare_exchange_strong(&c->countdown, &last, 0);
    if (!once && draw % 1000000 >= atomic_load(&c->per_million))
        return 0;
    atomic_fetch_add(&c->failures[function], 1);
    errno = errors[(draw >> 32) % (uint64_t)n];
    return 1;
}

#define COUNT_OF(array)       ((int)(sizeof(array) / sizeof((array)[0])))
#define ERRORS(function, ...) static const int errors_##function[] = { __VA_ARGS__ };
FUNCTIONS(ERRORS)
#undef ERRORS
#define FAILS(function) fails(F_##function, errors_##function, COUNT_OF(errors_##function))

static void *next(const char *name)
{
    within++; /* dlsym may allocate */
    void *found = dlsym(RTLD_NEXT, name);
    within--;
    return found;
}

/* WRAP(type, function, failure, parameters, arguments) */
#define WRAP(type, function, failure, parameters, arguments)                                       \
    type function parameters                                                                       \
    {                                                                                              \
        static type(*_Atomic real) parameters;                                                     \
        if (!real)                                                                                 \
            *(void **)&real = next(#function);                                                     \
        return FAILS(function) ? (failure) : real arguments;                                       \
    }

static int is_file(int fd)
{
    struct stat info;
    const int error = errno;
    const int is = syscall(SYS_fstat, fd, &info) == 0 && S_ISREG(info.st_mode);
    errno = error;
    return is;
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return FAILS(openat) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

ssize_t read(int fd, void *to, size_t size)
{
    static ssize_t (*_Atomic real)(int, void *, size_t);
    if (!real)
        *(void **)&real = next("read");
    return is_file(fd) && FAILS(read) ? -1 : real(fd, to, size);
}

ssize_t write(int fd, const void *from, size_t size)
{
    static ssize_t (*_Atomic real)(int, const void *, size_t);
    if (!real)
        *(void **)&real = next("write");
    return is_file(fd) && FAILS(write) ? -1 : real(fd, from, size);
}

/* Removing a descriptor does not fail for lack of memory. */
int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    return what == EPOLL_CTL_ADD && FAILS(epoll_ctl)
               ? -1
               : (int)syscall(SYS_epoll_ctl, epoll, what, fd, event);
}

WRAP(int, fsync, -1, (int fd), (fd))
WRAP(void *, mmap, MAP_FAILED, (void *at, size_t size, int how, int flags, int fd, off_t offset),
     (at, size, how, flags, fd, offset))
WRAP(int, ftruncate, -1, (int fd, off_t size), (fd, size))
WRAP(int, fallocate, -1, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size))
WRAP(int, renameat, -1, (int from, const char *old, int to, const char *new), (from, old, to, new))
WRAP(int, linkat, -1, (int from, const char *old, int to, const char *new, int flags),
     (from, old, to, new, flags))
WRAP(int, unlinkat, -1, (int folder, const char *path, int flags), (folder, path, flags))
WRAP(int, fstat, -1, (int fd, struct stat *info), (fd, info))
WRAP(int, fstatat, -1, (int folder, const char *path, struct stat *info, int flags),
     (folder, path, info, flags))
WRAP(int, accept4, -1, (int fd, struct sockaddr *from, socklen_t *size, int flags),
     (fd, from, size, flags))
WRAP(ssize_t, recv, -1, (int fd, void *to, size_t size, int flags), (fd, to, size, flags))
WRAP(ssize_t, send, -1, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags))
WRAP(ssize_t, sendmsg, -1, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(int, eventfd, -1, (unsigned start, int flags), (start, flags))
WRAP(int, socket, -1, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, pthread_create, EAGAIN,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context),
     (thread, attributes, run, context))

/* The allocator's own names, since dlsym allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    return FAILS(malloc) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return FAILS(calloc) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return FAILS(realloc) ? NULL : __libc_realloc(old, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    const int error = errno;
    *out = FAILS(posix_memalign) ? NULL : __libc_memalign(align, size);
    errno = error;
    return *out ? 0 : ENOMEM;
}
