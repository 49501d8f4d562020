/* peers.h - what other libraries make of the same bytes. */
#ifndef TD_TESTS_API_PEERS_H
#define TD_TESTS_API_PEERS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Does simdjson's DOM parser read it? 1 yes, 0 no, -1 it cannot tell: a number beyond its types, or
 * deeper than it goes. */
int peer_reads_json(const char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
