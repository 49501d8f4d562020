/* no_device.h - is a device that does not open a failure of a test, or has the machine no GPU? */
#ifndef TD_TESTS_GPU_NO_DEVICE_H
#define TD_TESTS_GPU_NO_DEVICE_H

#include "gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files of NVIDIA's driver, and of the one in WSL, that exist where there is a GPU. */
static inline bool machine_has_gpu(void)
{
    static const char *const files[] = { "/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg" };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], F_OK) == 0)
            return true;
    return false;
}

/* Prints why the device does not open; returns the exit status. 77: a CUDA plugin on a machine
 * without a GPU, unless TD_TEST_DEVICE_EXPECTED is 1. */
static inline int not_opened(const struct td_device_api *api, td_status status, const char *why)
{
    const char *expected = getenv("TD_TEST_DEVICE_EXPECTED");
    const bool skips = status == TD_DEVICE_UNAVAILABLE && strcmp(api->kind, "cuda") == 0 &&
                       !(expected && strcmp(expected, "1") == 0) && !machine_has_gpu();
    printf("%s: %s\n", skips ? "skipped" : "FAILED", why);
    return skips ? 77 : 1;
}

#endif
