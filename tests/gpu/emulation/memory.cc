#include "tests/gpu/emulation/memory.h"

#include <sys/mman.h>

#include <algorithm>
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
constexpr int fill_pattern = 0xab;
constexpr size_t filled = size_t{ 256 } << 20; /* of an allocation; the rest is never touched */

using blocks = std::map<uintptr_t, block>; /* by address */

blocks device_blocks, host_blocks;

char *device_base()
{
    static char *const base = [] {
        void *range = mmap(nullptr, device_bytes(), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            fail("no address space for device memory");
        (void)madvise(range, device_bytes(), MADV_HUGEPAGE); /* makes mprotect fast */
        return static_cast<char *>(range);
    }();
    return base;
}

void protect(int protection)
{
    if (mprotect(device_base(), device_bytes(), protection) != 0)
        fail("mprotect of device memory failed");
}

const block *find(const blocks &among, const void *address)
{
    const uintptr_t begin = reinterpret_cast<uintptr_t>(address);
    auto after = among.upper_bound(begin);
    if (after == among.begin())
        return nullptr;
    const block &candidate = std::prev(after)->second;
    return begin - reinterpret_cast<uintptr_t>(candidate.begin) < candidate.bytes ? &candidate
                                                                                  : nullptr;
}

bool contains(const block *in, const void *address, size_t bytes)
{
    if (!in)
        return false;
    const size_t at = static_cast<size_t>(static_cast<const char *>(address) - in->begin);
    return bytes <= in->bytes - at;
}

int n_accesses; /* device_access objects */

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

size_t device_bytes()
{
    static const size_t bytes = [] {
        const char *gib = std::getenv("TD_EMULATION_GIB");
        return (gib ? std::strtoull(gib, nullptr, 10) : 1) << 30;
    }();
    return bytes;
}

bool on_device(const void *address)
{
    return device_offset(address) < device_bytes();
}

size_t device_offset(const void *address)
{
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(device_base());
}

/* First fit; leaves a gap after the allocation. */
void *device_allocate(size_t bytes)
{
    if (bytes > device_bytes())
        return nullptr;
    const size_t needed = (bytes + alignment - 1) / alignment * alignment + alignment;
    size_t at = 0;
    for (const auto &[address, there] : device_blocks) {
        if (device_offset(there.begin) - at >= needed)
            break;
        at = device_offset(there.begin) + (there.bytes + alignment - 1) / alignment * alignment +
             alignment;
    }
    if (at > device_bytes() || needed > device_bytes() - at)
        return nullptr;
    char *memory = device_base() + at;
    device_blocks[reinterpret_cast<uintptr_t>(memory)] = { memory, bytes };
    device_access opened;
    std::memset(memory, fill_pattern, std::min(bytes, filled));
    return memory;
}

bool device_free(void *memory)
{
    return device_blocks.erase(reinterpret_cast<uintptr_t>(memory)) == 1;
}

size_t device_used()
{
    size_t used = 0;
    for (const auto &[address, there] : device_blocks)
        used += there.bytes;
    return used;
}

void *host_allocate(size_t bytes)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return nullptr;
    std::memset(memory, fill_pattern, bytes);
    host_blocks[reinterpret_cast<uintptr_t>(memory)] = { static_cast<char *>(memory), bytes };
    return memory;
}

bool host_free(void *memory)
{
    if (host_blocks.erase(reinterpret_cast<uintptr_t>(memory)) == 0)
        return false;
    std::free(memory);
    return true;
}

size_t allocation_count()
{
    return device_blocks.size() + host_blocks.size();
}

void free_all()
{
    device_blocks.clear();
    while (!host_blocks.empty())
        (void)host_free(host_blocks.begin()->second.begin);
}

const block *device_block(const void *address)
{
    return find(device_blocks, address);
}

const block *host_block(const void *address)
{
    return find(host_blocks, address);
}

bool is_device_memory(const void *address, size_t bytes)
{
    return contains(device_block(address), address, bytes);
}

bool is_pinned_memory(const void *address, size_t bytes)
{
    return contains(host_block(address), address, bytes);
}

device_access::device_access()
{
    if (n_accesses++ == 0)
        protect(PROT_READ | PROT_WRITE);
}

device_access::~device_access()
{
    if (--n_accesses == 0)
        protect(PROT_NONE);
}

} // namespace emulation
