/* memory.h - device memory of the emulation, and pinned host memory.
 *
 * Device memory is one address range, which is accessible only while device work runs: an access by
 * host code faults, as on a GPU. Fresh memory has a fill pattern. Freeing does not wait for work,
 * so that work which runs later and uses the memory is an error.
 *
 * Bounds  Exact: an allocation ends at its last byte, and is followed by a gap. */
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

size_t device_bytes(); /* of all device memory: 1 GiB, or TD_EMULATION_GIB */

void *device_allocate(size_t bytes); /* nullptr if it is full */
bool device_free(void *memory);      /* false: not an allocation */
size_t device_used();

void *host_allocate(size_t bytes);
bool host_free(void *memory);

size_t allocation_count(); /* of both kinds */
void free_all();

bool on_device(const void *address); /* in the range, allocated or not */
size_t device_offset(const void *address);

/* The allocation that contains the address; nullptr if none does. */
const block *device_block(const void *address);
const block *host_block(const void *address);

/* Are all of these bytes in one allocation? */
bool is_device_memory(const void *address, size_t bytes);
bool is_pinned_memory(const void *address, size_t bytes);

/* Device memory is accessible while an object of this class exists. */
class device_access
{
  public:
    device_access();
    ~device_access();
    device_access(const device_access &) = delete;
    device_access &operator=(const device_access &) = delete;
};

/* Prints the message and aborts. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A random number below n, from a generator seeded by TD_EMULATION_SEED. */
uint64_t random_below(uint64_t n);

} // namespace emulation

#endif
