/* loader.h - loads a device by its name: the reference device, which is linked in, or a plugin.
 *
 * Errors  DEVICE_UNAVAILABLE: no such plugin, not a plugin, or another ABI; the message names the
 *         file and what was expected. */
#ifndef TD_GPU_LOADER_LOADER_H
#define TD_GPU_LOADER_LOADER_H

#include "gpu/device.h"

struct td_device_library {
    const struct td_device_api *api;
    void *handle; /* of the shared object; NULL for the reference device */
};

/* `name` is "reference", a plugin's name, or a path with a slash. "cuda" is tensord-gpu-cuda.so,
 * searched for in the program's folder, in ../lib/tensord from there, and in the dynamic linker's
 * path. A plugin must not be unloaded while one of its devices is open. */
TD_MUST_CHECK td_status td_device_load(const char *name, struct td_device_library *out,
                                       struct td_error *err);
void td_device_unload(struct td_device_library *library); /* a library without api is fine */

/* Checks td_device_options.text without opening a device, which may take seconds and much of the
 * device's memory. Only the reference device's options can be checked so; those of a plugin are
 * accepted here and checked by open. INVALID_ARGUMENT. */
TD_MUST_CHECK td_status td_device_check_options(const struct td_device_library *library,
                                                const char *text, struct td_error *err);

#endif
