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

/* What a byte has seen in a period: of one thread, and of all others, a bit for each kind. Small,
 * since every access has one for each of its bytes. */
struct cell {
    uint32_t period;
    uint32_t thread : 26; /* most_threads of each of 65536 blocks */
    uint32_t by_thread : 3, by_others : 3;
};

constexpr uint32_t forbidden_period = UINT32_MAX; /* of bytes that no kernel may touch */

char *shared_begin, *shared_end;
std::vector<cell> shared_cells;
std::vector<uint32_t> shared_writers; /* the number of the block that wrote a byte last */

cell *device_cells()
{
    static cell *const cells = [] {
        void *range = mmap(nullptr, device_bytes * sizeof(cell), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            fail("no room for notes of the accesses of device memory");
        return static_cast<cell *>(range);
    }();
    return cells;
}

[[noreturn]] void complain(access how, const void *address, size_t bytes, const void *caller,
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

/* Notes an access; true where it is a race with one before it. */
bool note(cell *at, access how, uint32_t period, uint32_t thread)
{
    constexpr uint32_t reads = 1 << static_cast<int>(access::read);
    constexpr uint32_t writes = 1 << static_cast<int>(access::write);
    constexpr uint32_t changes = 1 << static_cast<int>(access::atomic);
    constexpr uint32_t against[] = { writes | changes, reads | writes | changes, reads | writes };
    const uint32_t kind = 1u << static_cast<int>(how);
    if (at->period != period)
        *at = { period, thread & 0x3ffffff, 0, 0 };
    const bool known = at->thread == thread;
    const uint32_t others = at->by_others | (known ? 0 : at->by_thread);
    if (known)
        at->by_thread = (at->by_thread | kind) & 7;
    else
        at->by_others = (at->by_others | kind) & 7;
    return (others & against[static_cast<int>(how)]) != 0;
}

void look_at_device(access how, const void *address, size_t bytes, const void *caller)
{
    static block last; /* most accesses are where the one before was */
    static uint32_t last_kernel;
    const size_t at = static_cast<size_t>(static_cast<const char *>(address) - last.begin);
    if (last_kernel != kernel_number || at >= last.bytes || bytes > last.bytes - at) {
        const block *found = device_block(address);
        if (!found)
            complain(how, address, bytes, caller, "no allocation is there");
        if (!is_device_memory(address, bytes))
            complain(how, address, bytes, caller, "beyond the end of an allocation");
        last = *found;
        last_kernel = kernel_number;
    }
    const uint32_t thread = block_index().x * most_threads + thread_index().x;
    cell *cells = device_cells() + device_offset(address);
    for (size_t i = 0; i < bytes; i++) {
        if (cells[i].period == forbidden_period)
            complain(how, address, bytes, caller, "outside of what it was given");
        if (note(&cells[i], how, kernel_number, thread))
            complain(how, address, bytes, caller, "another thread does so as well in this kernel");
    }
}

void look_at_shared(access how, const void *address, size_t bytes, const void *caller)
{
    const size_t at = static_cast<size_t>(static_cast<const char *>(address) - shared_begin);
    for (size_t i = at; i < at + bytes; i++) {
        if (how == access::write)
            shared_writers[i] = block_number;
        if (shared_writers[i] != block_number)
            complain(how, address, bytes, caller, "shared memory that the block has not written");
        if (note(&shared_cells[i], how, period_number, thread_index().x))
            complain(how, address, bytes, caller,
                     "another thread does so as well, with no barrier between them");
    }
}

void look_at(access how, const void *address, size_t bytes, const void *caller)
{
    if (!kernel_name || bytes == 0 || on_stack(address))
        return;
    if (on_device(address))
        look_at_device(how, address, bytes, caller);
    else if (address >= shared_begin && address < shared_end)
        look_at_shared(how, address, bytes, caller);
    else if (!is_pinned_memory(address, bytes))
        complain(how, address, bytes, caller, "memory of the host that is not pinned");
}

} // namespace

void watch_shared_memory(char *begin, char *end)
{
    shared_begin = begin;
    shared_end = end;
    shared_cells.assign(static_cast<size_t>(end - begin), cell{});
    shared_writers.assign(static_cast<size_t>(end - begin), 0);
}

void note_atomic(const void *address, size_t bytes)
{
    if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
        complain(access::atomic, address, bytes, __builtin_return_address(0), "not aligned");
    look_at(access::atomic, address, bytes, __builtin_return_address(0));
}

void forbid(void *memory, size_t bytes, bool forbidden)
{
    if (!is_device_memory(memory, bytes))
        fail("%zu bytes at %p are to be forbidden, and are not one allocation's", bytes, memory);
    cell *cells = device_cells() + device_offset(memory);
    for (size_t i = 0; i < bytes; i++)
        cells[i] = { forbidden ? forbidden_period : 0, 0, 0, 0 };
}

} // namespace emulation

/* ---- What the compiler calls ------------------------------------------------------------- */

using emulation::access;
using emulation::look_at;

#define LOOK(name, how, bytes)                                                                     \
    void name(void *address)                                                                       \
    {                                                                                              \
        look_at(how, address, bytes, __builtin_return_address(0));                                 \
    }
#define LOOK_RANGE(name, how)                                                                      \
    void name(void *address, unsigned long bytes)                                                  \
    {                                                                                              \
        look_at(how, address, bytes, __builtin_return_address(0));                                 \
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
LOOK(__tsan_read1, access::read, 1)
LOOK(__tsan_read2, access::read, 2)
LOOK(__tsan_read4, access::read, 4)
LOOK(__tsan_read8, access::read, 8)
LOOK(__tsan_read16, access::read, 16)
LOOK(__tsan_write1, access::write, 1)
LOOK(__tsan_write2, access::write, 2)
LOOK(__tsan_write4, access::write, 4)
LOOK(__tsan_write8, access::write, 8)
LOOK(__tsan_write16, access::write, 16)
LOOK(__tsan_unaligned_read2, access::read, 2)
LOOK(__tsan_unaligned_read4, access::read, 4)
LOOK(__tsan_unaligned_read8, access::read, 8)
LOOK(__tsan_unaligned_read16, access::read, 16)
LOOK(__tsan_unaligned_write2, access::write, 2)
LOOK(__tsan_unaligned_write4, access::write, 4)
LOOK(__tsan_unaligned_write8, access::write, 8)
LOOK(__tsan_unaligned_write16, access::write, 16)
LOOK_RANGE(__tsan_read_range, access::read)
LOOK_RANGE(__tsan_write_range, access::write)
}
