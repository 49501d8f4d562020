#include "tests/server/one_store.h"

#include "server/memory/fault_guard.h"
#include "tests/support/tensors.h"

struct td_store *store;

void one_store_begin(void)
{
    td_guard_install();
    folder_open();
}

void close_store(void)
{
    td_arena_reset(&test_arena);
    td_store_free(store);
    store = NULL;
}

void one_store_end(void)
{
    close_store();
    folder_close();
}

void restart(void)
{
    close_store();
    store = open_folder();
}
