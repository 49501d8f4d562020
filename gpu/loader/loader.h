/* loader.h - loads a device by its name: the built-in reference device, or a plugin.
 *
 * Errors  DEVICE_UNAVAILABLE: the plugin does not exist, is not a plugin, or has another ABI. The
 *         message names the file and what was expected. */
#ifndef TD_GPU_LOADER_LOADER_H
#define TD_GPU_LOADER_LOADER_H

#include "gpu/device.h"

struct td_device_library {
    const struct td_device_api *api;
    void *handle; /* handle of the shared object; NULL for the reference device */
};

/* Loads a device library. `name` is "reference", a plugin's name, or a path with a slash. For the
 * name "cuda", searches for tensord-gpu-cuda.so in the program's folder, in ../lib/tensord relative
 * to that folder, and in the dynamic linker's path. A plugin must not be unloaded while one of its
 * devices is open. */
TD_MUST_CHECK td_status td_device_load(const char *name, struct td_device_library *out,
                                       struct td_error *err);
void td_device_unload(struct td_device_library *library); /* accepts a library whose api is NULL */

/* Checks td_device_options.text without opening a device, because opening can take seconds and much
 * of the device's memory. Checks only the options of the reference device, and accepts any options
 * for a plugin, whose open function checks them. Returns INVALID_ARGUMENT for an invalid option. */
TD_MUST_CHECK td_status td_device_check_options(const struct td_device_library *library,
                                                const char *text, struct td_error *err);

#endif
