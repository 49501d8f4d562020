/* store.h - resident tensors: the tables of the data folder, mapped, under their names.
 *
 * `table.npy` becomes `table`; tensor `w` of `model.safetensors` becomes `model:w`. Files are
 * mapped, not read: the first lookup of a page brings it in, and the kernel may drop it again. A
 * file that cannot be read as what its name says, and a tensor whose name clients could not write,
 * is logged and left out; the rest serves.
 *
 * Ownership  Tensors live as long as the store. A resolved tensor holds a reference to its mapping
 *            through the caller's arena.
 * Threads    Read-only after td_store_open. */
#ifndef TD_SERVER_STORE_H
#define TD_SERVER_STORE_H

#include "api/describe.h"
#include "api/message.h"
#include "server/log.h"

struct td_store;

/* dir "" gives an empty store. NULL (logged) when dir cannot be read. */
struct td_store *td_store_open(const char *dir, const struct td_log *log);
void td_store_free(struct td_store *store); /* NULL is fine */

/* All tables in the order of their names. */
const struct td_tensor_listing *td_store_list(const struct td_store *store, int *count);

/* NULL, with TENSOR_NOT_FOUND and the nearest name in err, when there is none. */
const struct td_tensor_listing *td_store_find(const struct td_store *store, const char *name,
                                              size_t length, struct td_error *err);

uint64_t td_store_bytes(const struct td_store *store);

/* The store as the api's source of refs. Borrowed. */
struct td_resolver *td_store_resolver(struct td_store *store);

#endif
