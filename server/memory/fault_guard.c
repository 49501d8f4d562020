#include "server/memory/fault_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* Table of ranges. `begin` is written before `end` and cleared after it, so a range that is being
 * added or removed is empty. A reader that sees the same `begin` before and after reading `end` has
 * a consistent pair. */
static struct {
    atomic_uintptr_t begin, end;
    atomic_bool marked;
    /* Last byte of the last page that is not zero, or the page's last byte if all bytes are
     * zero. */
    const volatile char *last;
    /* The last page contains only zeros, so a truncation within it changes no byte. */
    bool ends_in_zeros;
} ranges[TD_GUARD_RANGES];

static atomic_int used; /* number of ranges that have ever been used */
static atomic_uint_fast64_t faults;
static struct sigaction previous;
static uintptr_t page_size = 4096;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the following variables */
static int freed[TD_GUARD_RANGES]; /* stack of the unused ranges before `used` */
static int n_freed;

static int find(uintptr_t address, uintptr_t *end)
{
    const int n = atomic_load(&used);
    for (int i = 0; i < n; i++) {
        uintptr_t begin;
        do {
            begin = atomic_load(&ranges[i].begin);
            *end = atomic_load(&ranges[i].end);
        } while (begin != atomic_load(&ranges[i].begin));
        if (address >= begin && address < *end)
            return i;
    }
    return -1;
}

/* Maps zeros from the faulting page to the end of the range. All pages beyond the end of a file
 * fault, and one mmap for all of them is cheaper than one for each page. After a read error, later
 * pages could be valid, but the range is marked and never used for a new request. */
static bool map_zeros(uintptr_t address, uintptr_t end)
{
    const uintptr_t page = address & ~(page_size - 1);
    void *place = (void *)page;
    /* Avoids the C library's mmap, because a sanitizer intercepts it and treats these pages as
     * written by this thread. */
    return syscall(SYS_mmap, place, end - page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == (long)page;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    uintptr_t end = 0;
    (void)context;
    /* A signal sent by kill() contains no address. */
    const int range = info->si_code > 0 ? find((uintptr_t)info->si_addr, &end) : -1;
    if (range >= 0) {
        /* Marks the range before mapping the zeros, because other threads can read mapped zeros
         * without a fault. */
        atomic_store(&ranges[range].marked, true);
        atomic_fetch_add(&faults, 1);
    }
    if (range < 0 || !map_zeros((uintptr_t)info->si_addr, end)) {
        /* The read is retried, and then faults under the previous action. */
        sigaction(number, &previous, NULL);
        if (info->si_code <= 0)
            raise(number);
    }
    errno = saved;
}

void td_guard_install(void)
{
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART };
    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, &action, &previous);
}

int td_guard_add(const void *begin, size_t size)
{
    const uintptr_t address = (uintptr_t)begin;
    int range = -1;
    pthread_mutex_lock(&mutex);
    if (n_freed > 0)
        range = freed[--n_freed];
    else if (atomic_load(&used) < TD_GUARD_RANGES)
        range = atomic_fetch_add(&used, 1);
    pthread_mutex_unlock(&mutex);
    if (range < 0)
        return -1;
    ranges[range].last = NULL;
    atomic_store(&ranges[range].marked, false);
    atomic_store(&ranges[range].begin, address);
    atomic_store(&ranges[range].end, address + size);
    return range;
}

void td_guard_remove(int range)
{
    if (range < 0)
        return;
    atomic_store(&ranges[range].end, 0);
    atomic_store(&ranges[range].begin, UINTPTR_MAX);
    pthread_mutex_lock(&mutex);
    freed[n_freed++] = range;
    pthread_mutex_unlock(&mutex);
}

void td_guard_watch_end(int range)
{
    if (range < 0)
        return;
    const uintptr_t begin = atomic_load(&ranges[range].begin),
                    end = atomic_load(&ranges[range].end);
    const volatile char *const last = (const volatile char *)end - 1;
    const volatile char *at = last;
    const uintptr_t page = (uintptr_t)last & ~(page_size - 1);
    while ((uintptr_t)at > page && (uintptr_t)at > begin && *at == 0)
        at--;
    ranges[range].ends_in_zeros = *at == 0;
    ranges[range].last = *at == 0 ? last : at;
}

void td_guard_look_at_end(int range)
{
    if (range < 0 || !ranges[range].last)
        return;
    if (*ranges[range].last == 0 && !ranges[range].ends_in_zeros && !td_guard_marked(range))
        td_guard_mark(range);
}

void td_guard_mark(int range)
{
    if (range < 0)
        return;
    atomic_store(&ranges[range].marked, true);
    atomic_fetch_add(&faults, 1);
}

int td_guard_ranges(void)
{
    pthread_mutex_lock(&mutex);
    const int n = atomic_load(&used) - n_freed;
    pthread_mutex_unlock(&mutex);
    return n;
}

bool td_guard_marked(int range)
{
    return range >= 0 && atomic_load_explicit(&ranges[range].marked, memory_order_relaxed);
}

uint64_t td_guard_faults(void)
{
    return atomic_load_explicit(&faults, memory_order_relaxed);
}

bool td_guard_marked_at(const void *address)
{
    uintptr_t end;
    return td_guard_marked(find((uintptr_t)address, &end));
}
