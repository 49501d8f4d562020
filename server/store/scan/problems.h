/* problems.h - what in the data folder is not served and must be told to those who look at the
 * aliases: a damaged aliases.json, an alias or a folder of versions that was refused, a file of
 * which something cannot be served. Private to server/store; td_store_list_problems of aliases.h
 * lists them.
 *
 * A problem is logged when it is reported, and listed until it is solved.
 *
 * Cost       Binary search: there may be one for each alias, and they are reported and solved one
 *            by one.
 *
 * Threads    Any; they take store->lock. */
#ifndef TD_SERVER_STORE_PROBLEMS_H
#define TD_SERVER_STORE_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

struct td_store;

/* `source`: aliases.json or a folder of the data folder. Reported again, the new reason replaces
 * the old one; without memory it is only logged. */
void td_store_report_problem(struct td_store *store, const char *source, const char *reason);

/* The same of an alias, which may have the name of a folder. */
void td_store_report_alias(struct td_store *store, const char *alias, const char *reason);
void td_store_solve_alias(struct td_store *store, const char *alias);

/* The same of a folder; `served`: it is, until a restart. */
void td_store_refuse_folder(struct td_store *store, const char *folder, bool served,
                            const char *reason);

/* Lists the problem and logs nothing: the caller does. */
void td_store_note_problem(struct td_store *store, const char *source, const char *reason);

void td_store_solve_problem(struct td_store *store, const char *source);

/* For a scan of the files: note lists a file and logs nothing; end solves the problems of files
 * that the scan has not noted again. */
void td_store_begin_file_problems(struct td_store *store);
void td_store_note_file_problem(struct td_store *store, const char *file, const char *reason);
void td_store_end_file_problems(struct td_store *store);

/* Copies why the folder of versions V is refused; false if it is not, or is served: all its names
 * are known then. */
bool td_store_folder_problem(struct td_store *store, const char *folder, char *reason, size_t size);

/* For td_store_free. */
void td_store_free_problems(struct td_store *store);

#endif
