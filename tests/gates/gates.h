/* gates.h - named places at which the test daemon stops until the test lets it continue.
 *
 * The folder TD_TEST_GATES holds a Unix socket for each closed gate, on which the test listens. A
 * thread that arrives at a gate connects, sends one line that says what arrived, and waits until
 * the test closes the connection. Where nothing listens the gate is open and the thread continues.
 * Without TD_TEST_GATES all gates are open.
 *
 * Threads  Any; each thread that arrives has a connection of its own. */
#ifndef TD_TESTS_GATES_GATES_H
#define TD_TESTS_GATES_GATES_H

#include <stdbool.h>
#include <stdint.h>

/* Waits while the gate is closed. `what` is one line without its line feed, or NULL. */
void td_gate(const char *name, const char *what);

/* A gate for code that must not block: it asks repeatedly. Initialise fd with -1. One thread at a
 * time. */
struct td_polled_gate {
    int fd; /* the connection while the gate is closed, else -1 */
};

/* True if the gate is open. Waits at most timeout_ns for that. */
bool td_gate_is_open(struct td_polled_gate *gate, const char *name, int64_t timeout_ns);

#endif
