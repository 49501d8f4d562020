/* alias_flip.h - changes of aliases that requests make. Defines td_store_flip and
 * td_store_list_aliases of aliases.h. Private to server/store.
 *
 * Threads    As of td_store_flip. */
#ifndef TD_SERVER_STORE_ALIAS_FLIP_H
#define TD_SERVER_STORE_ALIAS_FLIP_H

#include "server/store/aliases/aliases.h"

/* DELETE of an alias. Its condition is compared with the ETag of the alias's target. *persisted is
 * true if aliases.json was changed. */
TD_MUST_CHECK td_status td_alias_delete(struct td_store *store, const struct td_store_write *write,
                                        bool *persisted, struct td_error *err);

/* Lists the aliases whose version is not served among the problems. Called after the files of the
 * data folder have been read. */
void td_alias_check_targets(struct td_store *store);

/* Frees the aliases; for td_store_free. */
void td_alias_free(struct td_store *store);

#endif
