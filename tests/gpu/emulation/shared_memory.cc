/* shared_memory.cc - inside the emulated plugin: where the shared memory of its kernels is. They are
 * static variables, which no section keeps apart, so it is where all such variables of the plugin
 * are. */
#include "tests/gpu/emulation/accesses.h"

/* Of the linker, for each shared object. */
extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];

static const bool watched = (emulation::watch_shared_memory(__bss_start, _end), true);
