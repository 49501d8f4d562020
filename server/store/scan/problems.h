/* problems.h - the list of problems of the data folder: a damaged aliases.json, a refused alias or
 * version folder, or a file that cannot be served completely. Private to server/store.
 *
 * "Refused" means that the store does not serve the source. A folder with a problem is not refused
 * if it is served until a restart.
 *
 * td_store_list_problems of aliases.h returns the list, which clients see with the aliases. A
 * problem is logged when it is reported, and listed until it is solved.
 *
 * Cost       Binary search, because there can be a problem for each alias, and problems are
 *            reported and solved one by one.
 *
 * Threads    Any. The functions take store->lock. */
#ifndef TD_SERVER_STORE_PROBLEMS_H
#define TD_SERVER_STORE_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

struct td_store;

enum { TD_PROBLEMS_LISTED = 64 }; /* maximum number of problems in the list of a client */

/* Logs and lists a problem. `source` is aliases.json or a folder of the data folder. A new reason
 * replaces the old reason of the same source. If no memory is available, the problem is only
 * logged. */
void td_store_report_problem(struct td_store *store, const char *source, const char *reason);

/* Like td_store_report_problem and td_store_solve_problem, for an alias. An alias can have the name
 * of a folder. */
void td_store_report_alias(struct td_store *store, const char *alias, const char *reason);
void td_store_solve_alias(struct td_store *store, const char *alias);

/* Like td_store_report_problem, for a folder. `served` is true if the folder is served until a
 * restart. */
void td_store_report_folder(struct td_store *store, const char *folder, bool served,
                            const char *reason);

/* Lists a problem without logging it. The caller logs the problem. */
void td_store_note_problem(struct td_store *store, const char *source, const char *reason);

void td_store_solve_problem(struct td_store *store, const char *source);

/* A scan of the files calls these functions. td_store_note_file_problem lists a file without
 * logging it. td_store_end_file_problems removes the problems of files that have not been noted
 * again since td_store_begin_file_problems. */
void td_store_begin_file_problems(struct td_store *store);
void td_store_note_file_problem(struct td_store *store, const char *file, const char *reason);
void td_store_end_file_problems(struct td_store *store);

/* Copies the reason that the version folder V is refused to `reason`. Returns false if the folder
 * is not refused. Also returns false if the folder is still served, because all its names are then
 * known. */
bool td_store_find_refused_folder(struct td_store *store, const char *folder, char *reason,
                                  size_t size);

/* Frees the list. Called by td_store_free. */
void td_store_free_problems(struct td_store *store);

#endif
