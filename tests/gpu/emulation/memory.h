/* memory.h - memory of the emulated device, and pinned memory of the host.
 *
 * Device memory is one range of addresses, which the process can read and write while work of the
 * device is done and at no other time: a host that touches it faults, as on a GPU. What is allocated
 * is full of rubbish. Freeing waits for nothing, so that work that comes later finds it gone.
 *
 * Bounds  Exact: an allocation ends at its last byte, and there is a gap behind it. */
#ifndef TD_TESTS_GPU_EMULATION_MEMORY_H
#define TD_TESTS_GPU_EMULATION_MEMORY_H

#include <cstddef>
#include <cstdint>

namespace emulation
{

struct block {
    char *begin;
    size_t bytes;
};

constexpr size_t device_bytes = size_t{ 1 } << 30;

void *device_allocate(size_t bytes); /* nullptr when it is full */
bool device_free(void *memory);      /* false: nobody was given it */
size_t device_used();

void *host_allocate(size_t bytes);
bool host_free(void *memory);

size_t memory_left(); /* allocations of both */
void memory_forget(); /* frees all of it */

bool on_device(const void *address); /* in the range, allocated or not */
size_t device_offset(const void *address);

/* The allocation that has the address; nullptr where there is none. */
const block *device_block(const void *address);
const block *host_block(const void *address);

/* Are all of these bytes in one allocation? */
bool is_device_memory(const void *address, size_t bytes);
bool is_pinned_memory(const void *address, size_t bytes);

/* While one lives, device memory can be touched. */
class device_access
{
  public:
    device_access();
    ~device_access();
    device_access(const device_access &) = delete;
    device_access &operator=(const device_access &) = delete;
};

/* Says what is wrong, and ends the process. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The next of a sequence that TD_EMULATION_SEED decides; below n. */
uint64_t random_below(uint64_t n);

} // namespace emulation

#endif
