/* The tests of the index again, with row numbers of 64 bits, which only tables of 2^32 rows have
 * otherwise. */
#define TD_KEY_INDEX_NARROW_KEYS (-1)
#define td_key_index_bytes       wide_key_index_bytes
#define td_key_index_build       wide_key_index_build
#define td_key_index_open        wide_key_index_open
#define td_key_index_find        wide_key_index_find

#include "kernels/key_index/key_index.c"
#include "tests/kernels/key_index/test_key_index.c"
