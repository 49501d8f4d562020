/* radix_sort.h - replaces <cub/device/device_radix_sort.cuh>, as far as the plugin uses it. */
#ifndef TD_TESTS_GPU_EMULATION_RADIX_SORT_H
#define TD_TESTS_GPU_EMULATION_RADIX_SORT_H

#include "tests/gpu/emulation/memory.h"
#include "tests/gpu/emulation/runtime.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace cub
{

struct DeviceRadixSort {
    /* A stable sort by bits [begin, end) of the keys. If memory is NULL, sets bytes to its size. */
    template <typename Key, typename Value>
    static cudaError_t SortPairs(void *memory, size_t &bytes, const Key *keys_in, Key *keys_out,
                                 const Value *values_in, Value *values_out, int n, int begin,
                                 int end, cudaStream_t stream)
    {
        const size_t needed = static_cast<size_t>(n) * (sizeof(Key) + sizeof(Value)) + 1;
        if (n < 0 || begin < 0 || end <= begin || end > static_cast<int>(8 * sizeof(Key)))
            return cudaErrorInvalidValue;
        if (!memory) {
            bytes = needed;
            return cudaSuccess;
        }
        if (bytes < needed)
            return cudaErrorInvalidValue;
        const size_t count = static_cast<size_t>(n);
        emulation::submit(stream, [=] {
            for (const void *keys : { (const void *)keys_in, (const void *)keys_out })
                require(keys, count * sizeof(Key));
            for (const void *values : { (const void *)values_in, (const void *)values_out })
                require(values, count * sizeof(Value));
            require(memory, needed);
            std::memset(memory, 0x5a, needed);
            const uint64_t mask = (~uint64_t{ 0 } >> (64 - (end - begin))) << begin;
            std::vector<size_t> order(count);
            std::iota(order.begin(), order.end(), size_t{ 0 });
            std::stable_sort(order.begin(), order.end(), [=](size_t a, size_t b) {
                return (keys_in[a] & mask) < (keys_in[b] & mask);
            });
            for (size_t i = 0; i < count; i++) {
                keys_out[i] = keys_in[order[i]];
                values_out[i] = values_in[order[i]];
            }
        });
        return cudaSuccess;
    }

  private:
    static void require(const void *memory, size_t bytes)
    {
        if (!emulation::is_device_memory(memory, bytes))
            emulation::fail("SortPairs: %zu bytes at %p are not in one allocation of the device",
                            bytes, memory);
    }
};

} // namespace cub

#endif
