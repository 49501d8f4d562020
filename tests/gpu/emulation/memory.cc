#include "tests/gpu/emulation/memory.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace emulation
{
namespace
{

constexpr size_t alignment = 256; /* of cudaMalloc */
constexpr int rubbish = 0xab;

using blocks = std::map<uintptr_t, block>; /* by address */

blocks on_the_device, on_the_host;

char *device_base()
{
    static char *const base = [] {
        void *range = mmap(nullptr, device_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            fail("no room for the memory of a device");
        (void)madvise(range, device_bytes, MADV_HUGEPAGE); /* protecting it is quick then */
        return static_cast<char *>(range);
    }();
    return base;
}

void protect(int protection)
{
    if (mprotect(device_base(), device_bytes, protection) != 0)
        fail("memory of the device cannot be opened and closed");
}

const block *find(const blocks &among, const void *address)
{
    const uintptr_t place = reinterpret_cast<uintptr_t>(address);
    auto behind = among.upper_bound(place);
    if (behind == among.begin())
        return nullptr;
    const block &candidate = std::prev(behind)->second;
    return place - reinterpret_cast<uintptr_t>(candidate.begin) < candidate.bytes ? &candidate
                                                                                  : nullptr;
}

bool holds(const block *in, const void *address, size_t bytes)
{
    if (!in)
        return false;
    const size_t at = static_cast<size_t>(static_cast<const char *>(address) - in->begin);
    return bytes <= in->bytes - at;
}

int accesses; /* device_access objects */

} // namespace

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fflush(stdout);
    (void)fprintf(stderr, "emulation: ");
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n");
    va_end(arguments);
    std::abort();
}

uint64_t random_below(uint64_t n) /* splitmix64 */
{
    static uint64_t state = [] {
        const char *seed = std::getenv("TD_EMULATION_SEED");
        return seed ? std::strtoull(seed, nullptr, 10) : 1;
    }();
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

bool on_device(const void *address)
{
    return device_offset(address) < device_bytes;
}

size_t device_offset(const void *address)
{
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(device_base());
}

/* The first gap that is large enough, with a gap of its own behind it. */
void *device_allocate(size_t bytes)
{
    if (bytes > device_bytes)
        return nullptr;
    const size_t needed = (bytes + alignment - 1) / alignment * alignment + alignment;
    size_t at = 0;
    for (const auto &[address, there] : on_the_device) {
        if (device_offset(there.begin) - at >= needed)
            break;
        at = device_offset(there.begin) + (there.bytes + alignment - 1) / alignment * alignment +
             alignment;
    }
    if (at > device_bytes || needed > device_bytes - at)
        return nullptr;
    char *memory = device_base() + at;
    on_the_device[reinterpret_cast<uintptr_t>(memory)] = { memory, bytes };
    device_access opened;
    std::memset(memory, rubbish, bytes);
    return memory;
}

bool device_free(void *memory)
{
    return on_the_device.erase(reinterpret_cast<uintptr_t>(memory)) == 1;
}

size_t device_used()
{
    size_t used = 0;
    for (const auto &[address, there] : on_the_device)
        used += there.bytes;
    return used;
}

void *host_allocate(size_t bytes)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return nullptr;
    std::memset(memory, rubbish, bytes);
    on_the_host[reinterpret_cast<uintptr_t>(memory)] = { static_cast<char *>(memory), bytes };
    return memory;
}

bool host_free(void *memory)
{
    if (on_the_host.erase(reinterpret_cast<uintptr_t>(memory)) == 0)
        return false;
    std::free(memory);
    return true;
}

size_t memory_left()
{
    return on_the_device.size() + on_the_host.size();
}

void memory_forget()
{
    on_the_device.clear();
    while (!on_the_host.empty())
        (void)host_free(on_the_host.begin()->second.begin);
}

const block *device_block(const void *address)
{
    return find(on_the_device, address);
}

const block *host_block(const void *address)
{
    return find(on_the_host, address);
}

bool is_device_memory(const void *address, size_t bytes)
{
    return holds(device_block(address), address, bytes);
}

bool is_pinned_memory(const void *address, size_t bytes)
{
    return holds(host_block(address), address, bytes);
}

device_access::device_access()
{
    if (accesses++ == 0)
        protect(PROT_READ | PROT_WRITE);
}

device_access::~device_access()
{
    if (--accesses == 0)
        protect(PROT_NONE);
}

} // namespace emulation
