/* alias_flip.h - changes of the aliases of a store. Defines td_store_flip and td_store_list_aliases of
 * aliases.h. Private to server/store.
 *
 * Threads    As of td_store_flip; load as of a scan. */
#ifndef TD_SERVER_STORE_ALIAS_FLIP_H
#define TD_SERVER_STORE_ALIAS_FLIP_H

#include "server/store/aliases.h"

/* DELETE of an alias: also in aliases.json. Its condition is that of its target's ETag. */
TD_MUST_CHECK td_status td_alias_delete(struct td_store *store, const struct td_store_write *write,
                                        struct td_error *err);

/* Reads aliases.json if it is not as it was read or written last. An alias gets its target there if
 * that has changed. Damage is logged and listed; then no alias changes. */
void td_alias_load(struct td_store *store);

/* Frees the aliases; for td_store_free. */
void td_alias_free(struct td_store *store);

#endif
