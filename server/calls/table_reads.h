/* table_reads.h - counts lookups of resident tensors, and what they read: calls of an op that looks
 * rows up, whose params are one. A row is what one index or query selects. The versions of a name,
 * movies@1 and movies@2, are counted together.
 *
 * Cost     Of a request without a resident table a few comparisons. The first read of a version
 *          looks its name up, under a mutex; the version keeps its place.
 * Threads  The thread of the shard. */
#ifndef TD_SERVER_CALLS_TABLE_READS_H
#define TD_SERVER_CALLS_TABLE_READS_H

#include "server/calls/call.h"

/* The place of a resident tensor in the metrics, plus one. */
int td_table_reads_place(struct td_metrics *metrics, const struct td_tensor *tensor);

/* A call that has ended, while it has its inputs. One that failed before it had them is counted if
 * its path names the table. */
void td_table_reads_count(const struct td_call *call, int shard, bool succeeded);

/* The lookups of a resident tensor. */
void td_table_reads_totals(struct td_metrics *metrics, const struct td_tensor *tensor,
                           struct td_inference_totals *out);

#endif
