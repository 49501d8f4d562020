#include "server/store/state.h"
#include "server/store/version.h"

#include <assert.h>

struct td_buffer *td_store_compiled(const struct td_tensor *tensor)
{
    const struct td_version *version = td_version_of(tensor);
    return version ? atomic_load(&version->compiled) : NULL;
}

struct td_buffer *td_store_keep_compiled(const struct td_tensor *tensor, struct td_buffer *compiled)
{
    /* Readers share the version and change only this member. */
    struct td_version *version = (struct td_version *)(uintptr_t)td_version_of(tensor);
    struct td_buffer *kept = NULL;
    assert(version);
    if (atomic_compare_exchange_strong(&version->compiled, &kept, compiled))
        return compiled;
    td_buffer_unref(compiled);
    return kept;
}
