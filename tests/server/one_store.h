/* one_store.h - a fixture: the temporary data folder, and one store that serves it. */
#ifndef TD_TESTS_SERVER_ONE_STORE_H
#define TD_TESTS_SERVER_ONE_STORE_H

#include "tests/server/folder.h"

extern struct td_store *store; /* NULL at first */

void one_store_begin(void);
void one_store_end(void);

/* Closes the store; NULL is fine. */
void close_store(void);

/* Closes the store, and opens the folder. */
void restart(void);

#endif
