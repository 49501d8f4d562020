/* scan_report.h - what a scan of the data folder found: a log line for each file whose tensors
 * changed, one for each file or tensor that is skipped, and a summary.
 *
 *     info tables_changed file=model.safetensors added=2 replaced=1
 *     warn tables_changed file=users.npy replaced=1 unpersisted=1
 *     warn table_skipped file=broken.npy reason="..."
 *     info data_dir_scanned added=2 replaced=1 removed=0 unchanged=40 skipped=1 ignored=3
 *                           scan_ms=1.5
 *
 * Bounds   TD_SCAN_LINES lines of changes and as many of what is skipped; the summary has the
 *          number of others as not_logged.
 * Threads  Not synchronised: it belongs to the scan. */
#ifndef TD_SERVER_STORE_SCAN_REPORT_H
#define TD_SERVER_STORE_SCAN_REPORT_H

#include "server/observe/log.h"

#include <stdbool.h>

enum { TD_SCAN_LINES = 100 };

struct td_store_inspector;

struct td_scan_report {
    const struct td_store_inspector *inspector; /* told in place of the log; NULL for none */
    const struct td_log *log;
    int64_t begun_ns;
    int added, replaced, removed; /* tensors of the current file */
    int unpersisted; /* of those replaced, that were in memory alone, or had changes there */
    int total_added, total_replaced, total_removed; /* of the files before it */
    int unchanged;                                  /* tensors */
    int skipped;                                    /* files, and tensors of other files */
    int ignored; /* files without tensors, by their names and first bytes */
    int change_lines, skip_lines, not_logged;
};

/* inspector, log: NULL for none. */
void td_scan_report_begin(struct td_scan_report *report, const struct td_store_inspector *inspector,
                          const struct td_log *log);

/* file, tensor: NULL omits it. level: warn, unless that is usual. */
void td_scan_report_skip(struct td_scan_report *report, enum td_log_level level, const char *file,
                         const char *tensor, const char *why);

/* Ends the current file. */
void td_scan_report_file(struct td_scan_report *report, const char *file);

void td_scan_report_end(const struct td_scan_report *report);

/* Why a file of this name is not read, and what to do; NULL if its suffix is not one of tensors. */
const char *td_scan_other_reason(const char *name);

#endif
