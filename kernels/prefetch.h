/* prefetch.h - prefetches random rows of a large table into the caches before they are read.
 *
 * All lines of a row shorter than 4 KiB are prefetched into the L2 cache. The L1 cache supports
 * about twenty lines in flight, and when all are in use, a load that misses waits for one of them
 * to arrive. Loads from the L2 cache take 14 cycles, during which other loads can run. Copying
 * random rows of a 1 GiB table on one thread of Zen 4 reached these GB/s, by the number of rows
 * ahead:
 *
 *     row      first line, to L1      all lines, to L2
 *              8     16    32         8     16    32    48
 *     16 B     1.7   1.8   1.8        1.8   2.1   2.8   2.8
 *     64 B     6.2   6.5   6.5        6.5   8.3   9.6   9.8
 *    128 B     7.0   7.1   6.0        8.7  11.3  14.9  12.8
 *    256 B     7.5   7.3   5.4        9.1   9.5   9.5   9.1
 *      1 K     7.8   7.7   7.5       11.4  11.3   9.4   9.7
 *      4 K    10.8   8.1  10.5       12.2  11.6  11.7  11.3 */
#ifndef TD_KERNELS_PREFETCH_H
#define TD_KERNELS_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    TD_PREFETCH_LINE = 64,
    TD_PREFETCH_LINES = 96, /* approximate number of lines in flight */
    TD_PREFETCH_LEAST = 8,  /* minimum distance in rows */
    TD_PREFETCH_MOST = 48,
    /* Minimum size in bytes of a long row. The processor itself prefetches every line of a long row
     * except the first. */
    TD_PREFETCH_LONG = 4096,
    TD_PREFETCH_TABLE = 512 * 1024 /* bytes; smaller tables fit into the L2 cache */
};

/* Returns the number of rows between the row being read and the row being prefetched, or 0 if
 * prefetching is not worthwhile. */
static inline int64_t td_prefetch_ahead(size_t table_bytes, size_t row_bytes)
{
    if (table_bytes <= TD_PREFETCH_TABLE)
        return 0;
    const size_t rows = (size_t)TD_PREFETCH_LINES * TD_PREFETCH_LINE / (row_bytes + 1);
    return rows < TD_PREFETCH_LEAST  ? TD_PREFETCH_LEAST
           : rows > TD_PREFETCH_MOST ? TD_PREFETCH_MOST
                                     : (int64_t)rows;
}

/* Prefetches one line. */
static inline __attribute__((always_inline)) void td_prefetch(const void *place)
{
    __builtin_prefetch(place, 0, 2);
}

/* Prefetches the row that starts at `place`. The address is an integer because it can be outside
 * the table, where a prefetch has no effect. */
static inline __attribute__((always_inline)) void td_prefetch_row(uintptr_t place, size_t bytes)
{
    const size_t reach = bytes < TD_PREFETCH_LONG ? bytes : TD_PREFETCH_LINE;
    for (size_t offset = 0; offset < reach; offset += TD_PREFETCH_LINE)
        td_prefetch((const void *)(place + offset));
}

#endif
