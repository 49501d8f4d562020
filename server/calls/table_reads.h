/* table_reads.h - counts what lookups read of resident tensors: lookup, embedding_bag, or an op of the
 * gather family, whose params are one. A row is what one index or query selects.
 *
 * Cost     Of a request without a resident table a few comparisons. The first read of a version looks its
 *          name up, under a mutex; the version keeps its place.
 * Threads  The thread of the shard. */
#ifndef TD_SERVER_CALLS_TABLE_READS_H
#define TD_SERVER_CALLS_TABLE_READS_H

#include "server/calls/call.h"

/* A call that has succeeded, while it has its inputs. */
void td_table_reads_count(const struct td_call *call, int shard);

#endif
