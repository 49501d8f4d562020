#include "gpu/loader/loader.h"

#include "gpu/reference/options.h"
#include "gpu/reference/reference.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* RTLD_NODELETE keeps the plugin's code in memory, because a thread might still be running its
 * close function if a device does not respond. */
#define DLOPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/* ---- validation of a vtable ------------------------------------------------------------------ */

/* Lists all functions of the vtable. */
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
    X(copy_to_device)                                                                              \
    X(copy_to_host)                                                                                \
    X(supports)                                                                                    \
    X(workspace_bytes)                                                                             \
    X(run)                                                                                         \
    X(poll)                                                                                        \
    X(wait)

/* Fails to compile if the list lacks a function of the vtable. */
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

/* Checks abi first, because the offsets of the other members can differ in another version of the
 * ABI. */
static td_status check_api(const struct td_device_api *api, const char *where, struct td_error *err)
{
    if (!api)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s is not a device plugin: its function " TD_DEVICE_PLUGIN_NAME
                            " returns NULL; expected a struct td_device_api",
                            where);
    if (api->abi != TD_DEVICE_ABI)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s was built for version %u of the device interface; expected %d",
                            where, api->abi, TD_DEVICE_ABI);
    if (api->args_size != sizeof(struct td_op_args))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s was built with a struct td_op_args of %u bytes; expected %zu "
                            "bytes",
                            where, api->args_size, sizeof(struct td_op_args));
    const char *missing = api->kind ? missing_function(api) : "kind";
    if (missing)
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "%s is not a device plugin: its %s is NULL; expected every member of "
                            "struct td_device_api to be set",
                            where, missing);
    return TD_OK;
}

/* ---- search ---------------------------------------------------------------------------------- */

/* Folders to search, relative to the program's folder. */
static const char *const search_folders[] = { "", "../lib/tensord/" };
#define N_SEARCH_FOLDERS ((int)(sizeof(search_folders) / sizeof(search_folders[0])))

/* Writes the folder of the running program with a trailing slash, or "" if it cannot be
 * determined. */
static void program_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    while (length > 0 && folder[length - 1] != '/')
        length--;
    folder[length > 0 ? length : 0] = '\0';
}

/* Opens the first plugin file found. If a file exists but cannot be loaded, returns NULL without
 * searching further. Sets *path to the last path tried. */
static void *open_named(const char *name, const char *folder, char *path, size_t size)
{
    for (int i = 0; i < N_SEARCH_FOLDERS && folder[0]; i++) {
        int length = snprintf(path, size, "%s%stensord-gpu-%s.so", folder, search_folders[i], name);
        if (length > 0 && (size_t)length < size && access(path, F_OK) == 0)
            return dlopen(path, DLOPEN_FLAGS);
    }
    snprintf(path, size, "tensord-gpu-%s.so", name);
    return dlopen(path, DLOPEN_FLAGS);
}

static td_status open_plugin(const char *name, void **handle, char *path, size_t size,
                             struct td_error *err)
{
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        *handle = dlopen(name, DLOPEN_FLAGS);
        if (!*handle)
            return td_error_set(err, TD_DEVICE_UNAVAILABLE, "cannot load the device plugin: %s",
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
        return td_error_set(err, TD_DEVICE_UNAVAILABLE, "cannot load the device plugin: %s", why);
    return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                        "%s is neither in %s, nor in %s%s, nor in the dynamic linker's path: %s",
                        path, folder, folder, search_folders[1], why);
}

/* ---- loading --------------------------------------------------------------------------------- */

static td_status load_plugin(const char *name, struct td_device_library *out, struct td_error *err)
{
    char path[PATH_MAX];
    void *handle = NULL;
    td_status status = open_plugin(name, &handle, path, sizeof(path), err);
    if (status != TD_OK)
        return status;
    td_device_plugin_fn *plugin = NULL;
    void *symbol = dlsym(handle, TD_DEVICE_PLUGIN_NAME);
    memcpy(&plugin, &symbol, sizeof(plugin)); /* ISO C forbids a cast here */
    const struct td_device_api *api = NULL;
    if (plugin) {
        api = plugin();
        status = check_api(api, path, err);
    } else {
        status = td_error_set(
            err, TD_DEVICE_UNAVAILABLE,
            "%s is not a device plugin: it does not export " TD_DEVICE_PLUGIN_NAME, path);
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
                            "the name of the device is empty; expected cuda, reference or the path "
                            "of a plugin");
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

td_status td_device_check_options(const struct td_device_library *library, const char *text,
                                  struct td_error *err)
{
    struct td_reference_options unused;
    return library->api == td_device_reference() ? td_reference_options_parse(text, &unused, err)
                                                 : TD_OK;
}
