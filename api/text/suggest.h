/* suggest.h - the known name that a client may have meant by one that is unknown.
 *
 * Of the names it is the nearest by edit distance (letters to insert, remove, replace or exchange
 * with their neighbour), the first of equally near ones. It is at most a third of the given name's
 * length away, or one edit. Names longer than 63 letters are not compared.
 * Cost       At most TD_SUGGEST_WORK steps of 3 to 5 ns, each a name or a letter of one: names are
 *            compared in their order until that is used up, so the likeliest should come first. */
#ifndef TD_API_TEXT_SUGGEST_H
#define TD_API_TEXT_SUGGEST_H

#include "kernels/status.h"

#include <stdint.h>

/* Some 40 us, and enough for 130 names of 63 letters at least. */
#define TD_SUGGEST_WORK 8192

/* NULL where none is near. *work is the steps it took; at most the letters of one name more than
 * TD_SUGGEST_WORK. */
const char *td_nearest_name(const char *name, size_t length, const char *const *names, int n_names,
                            uint32_t *work);

/* Notes it, where there is one, as did_you_mean of an error that td_error_set has begun. err may be
 * NULL. */
void td_suggest(struct td_error *err, const char *name, size_t length, const char *const *names,
                int n_names);

/* The refusal of a name in a path, with the nearest one of `names` in its message too: "there is no
 * op 'gathr' (did you mean 'gather'?); GET /v1/ops lists them". Returns `status`; err may be
 * NULL. */
td_status td_unknown_name(struct td_error *err, td_status status, const char *what,
                          const char *name, size_t length, const char *const *names, int n_names,
                          const char *listed_at);

#endif
