/* quantum.h - makes threads yield the processor after short quanta.
 *
 * The kernel lets a thread run for 1 to 4 ms before it switches to a woken thread. Without quanta,
 * a client with few connections would wait that long whenever a worker or an I/O thread is busy
 * with another client's requests. Threads with long work therefore yield after a quantum.
 *
 * A quantum belongs to one thread. */
#ifndef TD_SERVER_WORKERS_QUANTUM_H
#define TD_SERVER_WORKERS_QUANTUM_H

#include <stdint.h>

/* How long a thread works before it yields the processor. */
#define TD_QUANTUM_NS INT64_C(20000)

struct td_quantum {
    int64_t began_ns;
};

/* Gives the calling thread time slices of this length, or of the kernel's usual length if it is 0.
 * The kernel counts a yielded slice as used, so yielding then costs at most the rest of a short
 * slice. A woken thread with shorter slices than the running thread gets the processor at once.
 * Linux before 6.12 ignores this setting. Keeps the thread's policy and priority. */
#define TD_SLICE_NS       UINT64_C(200000)
#define TD_FIRST_SLICE_NS UINT64_C(100000) /* for the first I/O thread; the kernel's minimum */
void td_quantum_set_slice(uint64_t slice_ns);

/* Starts a quantum, after the thread has slept. */
void td_quantum_begin(struct td_quantum *quantum);

/* Yields if the quantum has lasted for TD_QUANTUM_NS, and starts the next quantum. */
void td_quantum_check(struct td_quantum *quantum);

#endif
