/* suggest.h - the known name that a client may have meant by one that nobody knows.
 *
 * Of the names it is the nearest by edit distance (letters to insert, remove, replace or exchange
 * with their neighbour), at most a third of the given name's length away, or one edit.
 * Cost       Names longer than 40 letters are not looked at. */
#ifndef TD_API_TEXT_SUGGEST_H
#define TD_API_TEXT_SUGGEST_H

#include "kernels/status.h"

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
