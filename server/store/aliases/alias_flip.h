/* alias_flip.h - changes of aliases by requests. Defines td_store_flip and
 * td_store_list_aliases of aliases.h. Private to server/store.
 *
 * Threads    Same as for td_store_flip. */
#ifndef TD_SERVER_STORE_ALIAS_FLIP_H
#define TD_SERVER_STORE_ALIAS_FLIP_H

#include "server/store/aliases/aliases.h"

/* Deletes an alias. The condition is compared with the ETag of the alias's target. Sets *persisted
 * to true if aliases.json was changed. */
TD_MUST_CHECK td_status td_alias_delete(struct td_store *store, const struct td_store_write *write,
                                        bool *persisted, struct td_error *err);

/* Adds to the list of problems the aliases whose versions are not served. Called after the files of
 * the data folder have been read. */
void td_alias_check_targets(struct td_store *store);

/* Frees the aliases. Called by td_store_free. */
void td_alias_free(struct td_store *store);

#endif
