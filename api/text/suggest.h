/* suggest.h - for an unknown name, the known name that the client probably meant.
 *
 * That is the name with the smallest edit distance (insertions, deletions, substitutions and
 * transpositions of neighbours), the first one if several have the same distance. The distance is
 * at most a third of the length of the given name, or one. A name that has the given one as a whole
 * part, users:rows, users@2 or users.values for users, is nearer than all others. The given name
 * itself is never suggested. Names longer than 63 characters are not compared.
 * Cost       At most TD_SUGGEST_WORK steps of 3 to 5 ns; a step is one name, or one character of a
 *            name. Names are compared in order until the steps are used up, so the likeliest names
 *            should come first. */
#ifndef TD_API_TEXT_SUGGEST_H
#define TD_API_TEXT_SUGGEST_H

#include "kernels/dtype.h"
#include "kernels/status.h"

#include <stdint.h>

/* About 40 us; enough for at least 130 names of 63 characters. */
#define TD_SUGGEST_WORK 8192

/* The nearest name, NULL if none is near enough. *work is the number of steps; it exceeds
 * TD_SUGGEST_WORK by at most the length of one name. */
const char *td_nearest_name(const char *name, size_t length, const char *const *names, int n_names,
                            uint32_t *work);

/* Sets did_you_mean of an error, after td_error_set, to the nearest name if there is one. */
void td_suggest(struct td_error *err, const char *name, size_t length, const char *const *names,
                int n_names);

/* As td_suggest, for the name of a dtype of this set, which may be the name that another library or
 * format has for it. */
void td_suggest_dtype(struct td_error *err, const char *name, size_t length, td_dtype_set accepted);

/* Sets the error for an unknown name in a path; the message has the nearest of `names`: "there is
 * no op 'gathr' (did you mean 'gather'?); GET /v1/ops lists them". Returns `status`. */
td_status td_unknown_name(struct td_error *err, td_status status, const char *what,
                          const char *name, size_t length, const char *const *names, int n_names,
                          const char *listed_at);

#endif
