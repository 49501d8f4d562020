/* suggest.h - finds the known name that a client probably meant by an unknown name.
 *
 * The suggestion is the name with the smallest edit distance (insertions, deletions, substitutions
 * and transpositions of neighbours), or the first of several names with the same distance. The
 * distance must not exceed a third of the length of the given name, or 1 for names shorter than 6
 * characters. Longer names that contain the given name as a complete part, such as users:rows,
 * users@2 or users.values for users, are nearer than all others. The given name itself is never
 * suggested. Names longer than 63 characters are not compared.
 *
 * Cost       At most TD_SUGGEST_WORK steps of 3 to 5 ns. A step is one name, or one character of a
 *            name. Names are compared in order until the steps are used up, so the likeliest names
 *            should come first. */
#ifndef TD_API_TEXT_SUGGEST_H
#define TD_API_TEXT_SUGGEST_H

#include "kernels/dtype.h"
#include "kernels/status.h"

#include <stdint.h>

/* Maximum number of steps, which take about 40 us and are enough for at least 130 names of 63
 * characters. */
#define TD_SUGGEST_WORK 8192

/* Returns the nearest name, or NULL if no name is near enough. Sets *work to the number of steps
 * taken, which exceeds TD_SUGGEST_WORK by at most the length of one name. */
const char *td_nearest_name(const char *name, size_t length, const char *const *names, int n_names,
                            uint32_t *work);

/* Sets did_you_mean of an error to the nearest name, if there is one. Must run after
 * td_error_set. */
void td_suggest(struct td_error *err, const char *name, size_t length, const char *const *names,
                int n_names);

/* Like td_suggest, for the dtypes in `accepted`. Also recognises the names that other libraries and
 * formats use for a dtype. */
void td_suggest_dtype(struct td_error *err, const char *name, size_t length, td_dtype_set accepted);

/* Sets the error for an unknown name in a path and returns `status`. The message suggests the
 * nearest of `names`: "there is no op 'gathr' (did you mean 'gather'?); GET /v1/ops lists them". */
td_status td_unknown_name(struct td_error *err, td_status status, const char *what,
                          const char *name, size_t length, const char *const *names, int n_names,
                          const char *listed_at);

#endif
