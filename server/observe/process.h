/* process.h - what the operating system knows of this process.
 *
 * Source   proc(5): /proc/self/stat, /proc/self/statm, /proc/self/fd. */
#ifndef TD_SERVER_OBSERVE_PROCESS_H
#define TD_SERVER_OBSERVE_PROCESS_H

#include <stdint.h>

/* Members are 0 if they cannot be read. */
struct td_process {
    uint64_t cpu_ns; /* user and system time */
    uint64_t resident_bytes, virtual_bytes;
    uint64_t start_ms; /* since the epoch */
    uint64_t open_files, most_files;
    uint64_t threads;
};

struct td_process td_process_read(void);

#endif
