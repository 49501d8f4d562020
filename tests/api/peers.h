/* peers.h - parses JSON with other libraries, for comparison. */
#ifndef TD_TESTS_API_PEERS_H
#define TD_TESTS_API_PEERS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Does simdjson's DOM parser accept the text? 1 yes, 0 no, -1 unknown: a number beyond its types,
 * or a value deeper than its limit. */
int peer_reads_json(const char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
