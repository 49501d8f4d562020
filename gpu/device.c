#include "gpu/device.h"

#include "gpu/reference.h"
#include "gpu/reference_options.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Its code stays: a thread may be left behind in the close of a device that hangs. */
#define FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/* ---- is it what it should be? ---------------------------------------------------------------- */

/* Every function of the vtable. */
#define FUNCTIONS(X)                                                                               \
    X(open)                                                                                        \
    X(close)                                                                                       \
    X(info)                                                                                        \
    X(alloc)                                                                                       \
    X(free)                                                                                        \
    X(host_alloc)                                                                                  \
    X(host_free)                                                                                   \
    X(stream_open)                                                                                 \
    X(stream_close)                                                                                \
    X(copy_in)                                                                                     \
    X(copy_out)                                                                                    \
    X(supports)                                                                                    \
    X(workspace_bytes)                                                                             \
    X(run)                                                                                         \
    X(poll)                                                                                        \
    X(wait)

/* One that is added to the vtable and not to the list makes this fail. */
enum {
#define NUMBER(name) FUNCTION_##name,
    FUNCTIONS(NUMBER)
#undef NUMBER
        N_FUNCTIONS
};
_Static_assert(N_FUNCTIONS * sizeof(void (*)(void)) ==
                   sizeof(struct td_device_api) - offsetof(struct td_device_api, open),
               "FUNCTIONS lists all functions of struct td_device_api");

static const char *missing_function(const struct td_device_api *api)
{
#define CHECK(name)                                                                                \
    if (!api->name)                                                                                \
        return #name;
    FUNCTIONS(CHECK)
#undef CHECK
    return NULL;
}

/* abi first: with another one nothing else need be where we expect it. */
static td_status check_api(const struct td_device_api *api, const char *where, struct td_error *err)
{
    if (!api)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s is no device plugin: its function " TD_DEVICE_PLUGIN_NAME
                            " gives NULL; a struct td_device_api is expected",
                            where);
    if (api->abi != TD_DEVICE_ABI)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s was built for version %u of the device interface; %d is expected",
                            where, api->abi, TD_DEVICE_ABI);
    if (api->args_size != sizeof(struct td_op_args))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s was built with another struct td_op_args, of %u bytes; %zu are "
                            "expected",
                            where, api->args_size, sizeof(struct td_op_args));
    const char *missing = api->kind ? missing_function(api) : "kind";
    if (missing)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s is no device plugin: its %s is NULL; all of struct td_device_api "
                            "is expected",
                            where, missing);
    return TD_OK;
}

/* ---- where is it? ---------------------------------------------------------------------------- */

/* Places beside the program where a plugin may lie. */
static const char *const places[] = { "", "../lib/tensord/" };
#define N_PLACES ((int)(sizeof(places) / sizeof(places[0])))

/* The folder of the program, with a slash at its end; "" when nobody knows. */
static void program_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    while (length > 0 && folder[length - 1] != '/')
        length--;
    folder[length > 0 ? length : 0] = '\0';
}

/* Opens the first that is there. One that is there and cannot be loaded is an error, and no reason
 * to look for another. *path is what was opened, or tried last. */
static void *open_named(const char *name, const char *folder, char *path, size_t size)
{
    for (int i = 0; i < N_PLACES && folder[0]; i++) {
        int length = snprintf(path, size, "%s%stensord-gpu-%s.so", folder, places[i], name);
        if (length > 0 && (size_t)length < size && access(path, F_OK) == 0)
            return dlopen(path, FLAGS);
    }
    snprintf(path, size, "tensord-gpu-%s.so", name);
    return dlopen(path, FLAGS);
}

static td_status open_plugin(const char *name, void **handle, char *path, size_t size,
                             struct td_error *err)
{
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        *handle = dlopen(name, FLAGS);
        if (!*handle)
            return td_error_set(err, TD_DEVICE_UNAVAILABLE, "a device plugin was not loaded: %s",
                                dlerror());
        return TD_OK;
    }
    char folder[PATH_MAX];
    program_folder(folder, sizeof(folder));
    *handle = open_named(name, folder, path, size);
    if (*handle)
        return TD_OK;
    const char *why = dlerror();
    if (strchr(path, '/'))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, "a device plugin was not loaded: %s", why);
    return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                        "%s is neither in %s, nor in %s%s, nor where the system looks: %s", path,
                        folder, folder, places[1], why);
}

/* ---- both ------------------------------------------------------------------------------------ */

static td_status load_plugin(const char *name, struct td_device_library *out, struct td_error *err)
{
    char path[PATH_MAX];
    void *handle = NULL;
    td_status status = open_plugin(name, &handle, path, sizeof(path), err);
    if (status != TD_OK)
        return status;
    td_device_plugin_fn *plugin = NULL;
    void *symbol = dlsym(handle, TD_DEVICE_PLUGIN_NAME);
    memcpy(&plugin, &symbol, sizeof(plugin)); /* C has no conversion between the two */
    const struct td_device_api *api = NULL;
    if (plugin) {
        api = plugin();
        status = check_api(api, path, err);
    } else {
        status = td_error_set(
            err, TD_DEVICE_UNAVAILABLE,
            "%s is no device plugin: a function " TD_DEVICE_PLUGIN_NAME " is expected in it", path);
    }
    if (status != TD_OK) {
        dlclose(handle);
        return status;
    }
    *out = (struct td_device_library){ .api = api, .handle = handle };
    return TD_OK;
}

td_status td_device_load(const char *name, struct td_device_library *out, struct td_error *err)
{
    *out = (struct td_device_library){ .api = NULL };
    if (name[0] == '\0')
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "a device has no name; cuda, reference or the path of a plugin is "
                            "expected");
    if (strcmp(name, "reference") != 0)
        return load_plugin(name, out, err);
    out->api = td_device_reference();
    return TD_OK;
}

void td_device_unload(struct td_device_library *library)
{
    if (library->handle)
        dlclose(library->handle);
    *library = (struct td_device_library){ .api = NULL };
}

td_status td_device_check_text(const struct td_device_library *library, const char *text,
                               struct td_error *err)
{
    struct td_reference_options ignored;
    return library->api == td_device_reference() ? td_reference_options_read(text, &ignored, err)
                                                 : TD_OK;
}
