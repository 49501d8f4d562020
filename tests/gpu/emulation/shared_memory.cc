/* shared_memory.cc - linked into the emulated plugin: registers the shared memory of its kernels.
 * It is made of static variables, which have no section of their own, so the range is the plugin's
 * whole .bss. */
#include "tests/gpu/emulation/accesses.h"

/* Defined by the linker for each shared object. */
extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];

static const bool registered = (emulation::set_shared_memory(__bss_start, _end), true);
