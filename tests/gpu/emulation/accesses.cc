#include "tests/gpu/emulation/accesses.h"

#include "tests/gpu/emulation/memory.h"
#include "tests/gpu/emulation/threads.h"

#include <sys/mman.h>

#include <cstdint>
#include <dlfcn.h>
#include <vector>

namespace emulation
{
namespace
{

enum class access { read, write, atomic };

const char *const verbs[] = { "reads", "writes", "changes" };

/* Shadow of a byte: its accesses in an interval, by one thread and by all others, a bit for each
 * kind. Small, since every byte of device memory has one. */
struct shadow {
    uint32_t interval;
    uint32_t thread : 26; /* max_threads of each of 65536 blocks */
    uint32_t by_thread : 3, by_others : 3;
};

constexpr uint32_t poisoned_interval = UINT32_MAX; /* of poisoned bytes */

char *shared_begin, *shared_end;
std::vector<shadow> shared_shadows;
std::vector<uint32_t> shared_writers; /* the number of the block that wrote a byte last */

shadow *device_shadows()
{
    static shadow *const shadows = [] {
        void *range = mmap(nullptr, device_bytes() * sizeof(shadow), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            fail("no address space for the shadow of device memory");
        return static_cast<shadow *>(range);
    }();
    return shadows;
}

[[noreturn]] void report(access how, const void *address, size_t bytes, const void *caller,
                         const char *what)
{
    Dl_info where = {};
    (void)dladdr(caller, &where);
    fail("kernel %s, thread %u of block %u %s %zu bytes at %p: %s (code at %#tx of %s)",
         kernel_name, thread_index().x, block_index().x, verbs[static_cast<int>(how)], bytes,
         address, what,
         static_cast<const char *>(caller) - static_cast<const char *>(where.dli_fbase),
         where.dli_fname ? where.dli_fname : "?");
}

/* Records an access; true if it is a race with an earlier one. */
bool record(shadow *at, access how, uint32_t interval, uint32_t thread)
{
    constexpr uint32_t reads = 1 << static_cast<int>(access::read);
    constexpr uint32_t writes = 1 << static_cast<int>(access::write);
    constexpr uint32_t changes = 1 << static_cast<int>(access::atomic);
    constexpr uint32_t conflicts[] = { writes | changes, reads | writes | changes, reads | writes };
    const uint32_t kind = 1u << static_cast<int>(how);
    if (at->interval != interval)
        *at = { interval, thread & 0x3ffffff, 0, 0 };
    const bool same_thread = at->thread == thread;
    const uint32_t others = at->by_others | (same_thread ? 0 : at->by_thread);
    if (same_thread)
        at->by_thread = (at->by_thread | kind) & 7;
    else
        at->by_others = (at->by_others | kind) & 7;
    return (others & conflicts[static_cast<int>(how)]) != 0;
}

void check_device(access how, const void *address, size_t bytes, const void *caller)
{
    static block last; /* most accesses are to the allocation of the one before */
    static uint32_t last_kernel;
    const size_t at = static_cast<size_t>(static_cast<const char *>(address) - last.begin);
    if (last_kernel != kernel_number || at >= last.bytes || bytes > last.bytes - at) {
        const block *found = device_block(address);
        if (!found)
            report(how, address, bytes, caller, "not in an allocation");
        if (!is_device_memory(address, bytes))
            report(how, address, bytes, caller, "beyond the end of an allocation");
        last = *found;
        last_kernel = kernel_number;
    }
    const uint32_t thread = block_index().x * max_threads + thread_index().x;
    shadow *shadows = device_shadows() + device_offset(address);
    for (size_t i = 0; i < bytes; i++) {
        if (shadows[i].interval == poisoned_interval)
            report(how, address, bytes, caller, "outside of its tensors and workspace");
        if (record(&shadows[i], how, kernel_number, thread))
            report(how, address, bytes, caller, "a race with another thread of this kernel");
    }
}

void check_shared(access how, const void *address, size_t bytes, const void *caller)
{
    const size_t at = static_cast<size_t>(static_cast<const char *>(address) - shared_begin);
    for (size_t i = at; i < at + bytes; i++) {
        if (how == access::write)
            shared_writers[i] = block_number;
        if (shared_writers[i] != block_number)
            report(how, address, bytes, caller, "shared memory that the block has not written");
        if (record(&shared_shadows[i], how, interval_number, thread_index().x))
            report(how, address, bytes, caller,
                   "a race with another thread, without a barrier between them");
    }
}

void check_access(access how, const void *address, size_t bytes, const void *caller)
{
    if (!kernel_name || bytes == 0 || on_stack(address))
        return;
    if (on_device(address))
        check_device(how, address, bytes, caller);
    else if (address >= shared_begin && address < shared_end)
        check_shared(how, address, bytes, caller);
    else if (!is_pinned_memory(address, bytes))
        report(how, address, bytes, caller, "pageable host memory");
}

} // namespace

void set_shared_memory(char *begin, char *end)
{
    shared_begin = begin;
    shared_end = end;
    shared_shadows.assign(static_cast<size_t>(end - begin), shadow{});
    shared_writers.assign(static_cast<size_t>(end - begin), 0);
}

void check_atomic(const void *address, size_t bytes)
{
    if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
        report(access::atomic, address, bytes, __builtin_return_address(0), "not aligned");
    check_access(access::atomic, address, bytes, __builtin_return_address(0));
}

void poison(void *memory, size_t bytes, bool poisoned)
{
    if (!is_device_memory(memory, bytes))
        fail("cannot poison %zu bytes at %p: they are not in one allocation", bytes, memory);
    shadow *shadows = device_shadows() + device_offset(memory);
    for (size_t i = 0; i < bytes; i++)
        shadows[i] = { poisoned ? poisoned_interval : 0, 0, 0, 0 };
}

} // namespace emulation

/* ---- Called by instrumented code --------------------------------------------------------- */

using emulation::access;
using emulation::check_access;

#define CHECK(name, how, bytes)                                                                    \
    void name(void *address)                                                                       \
    {                                                                                              \
        check_access(how, address, bytes, __builtin_return_address(0));                            \
    }
#define CHECK_RANGE(name, how)                                                                     \
    void name(void *address, unsigned long bytes)                                                  \
    {                                                                                              \
        check_access(how, address, bytes, __builtin_return_address(0));                            \
    }

extern "C" {
void __tsan_init();
void __tsan_func_entry(void *);
void __tsan_func_exit();
void __tsan_init()
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}
CHECK(__tsan_read1, access::read, 1)
CHECK(__tsan_read2, access::read, 2)
CHECK(__tsan_read4, access::read, 4)
CHECK(__tsan_read8, access::read, 8)
CHECK(__tsan_read16, access::read, 16)
CHECK(__tsan_write1, access::write, 1)
CHECK(__tsan_write2, access::write, 2)
CHECK(__tsan_write4, access::write, 4)
CHECK(__tsan_write8, access::write, 8)
CHECK(__tsan_write16, access::write, 16)
CHECK(__tsan_unaligned_read2, access::read, 2)
CHECK(__tsan_unaligned_read4, access::read, 4)
CHECK(__tsan_unaligned_read8, access::read, 8)
CHECK(__tsan_unaligned_read16, access::read, 16)
CHECK(__tsan_unaligned_write2, access::write, 2)
CHECK(__tsan_unaligned_write4, access::write, 4)
CHECK(__tsan_unaligned_write8, access::write, 8)
CHECK(__tsan_unaligned_write16, access::write, 16)
CHECK_RANGE(__tsan_read_range, access::read)
CHECK_RANGE(__tsan_write_range, access::write)
}
