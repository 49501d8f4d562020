/* process.h - reads data about this process from the operating system.
 *
 * Source   proc(5): /proc/self/stat, /proc/self/statm, /proc/self/fd. */
#ifndef TD_SERVER_OBSERVE_PROCESS_H
#define TD_SERVER_OBSERVE_PROCESS_H

#include <stdint.h>

/* Data about the process. A member is 0 if it cannot be read. */
struct td_process {
    uint64_t cpu_ns; /* user and system time */
    uint64_t resident_bytes, virtual_bytes;
    uint64_t start_ms; /* milliseconds since the epoch */
    uint64_t open_files, most_files;
    uint64_t threads;
};

struct td_process td_process_read(void);

#endif
