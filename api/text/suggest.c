#include "api/text/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Names are short; longer ones are not near anything. */
enum { LONGEST = 40 };

static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST + 1]; /* of the prefixes of a with i - 2, i - 1 and i letters */
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (exchanged && earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[a_length % 3][b_length];
}

static const char *nearest_name(const char *name, size_t length, const char *const *names,
                                int n_names)
{
    const char *nearest = NULL;
    size_t most = length < 6 ? 1 : length / 3, least = most + 1;
    if (length < 2 || length > LONGEST)
        return NULL;
    for (int i = 0; i < n_names; i++) {
        size_t other = strlen(names[i]);
        if (other > LONGEST)
            continue;
        size_t distance = edit_distance(name, length, names[i], other);
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

static void note(struct td_error *err, const char *nearest)
{
    if (err && nearest)
        snprintf(err->did_you_mean, sizeof err->did_you_mean, "%s", nearest);
}

void td_suggest(struct td_error *err, const char *name, size_t length, const char *const *names,
                int n_names)
{
    note(err, nearest_name(name, length, names, n_names));
}

td_status td_unknown_name(struct td_error *err, td_status status, const char *what,
                          const char *name, size_t length, const char *const *names, int n_names,
                          const char *listed_at)
{
    enum { SHOWN = 128 };
    const char *nearest = nearest_name(name, length, names, n_names);
    td_error_set(err, status, "there is no %s '%.*s'%s%s%s; %s lists them", what,
                 (int)(length < SHOWN ? length : SHOWN), name, nearest ? " (did you mean '" : "",
                 nearest ? nearest : "", nearest ? "'?)" : "", listed_at);
    note(err, nearest);
    return status;
}
