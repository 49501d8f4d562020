#include "server/store/lookup_errors.h"

#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/op.h"
#include "kernels/shown_text.h"
#include "server/auth/access.h"
#include "server/store/aliases/alias_list.h"
#include "server/store/entries.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/problems.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a name names, as errors show it: "resident tensor" and "w", or "program" and "score" for
 * "score.program". */
struct subject {
    bool is_program;
    const char *kind, *name;
    size_t length;
    char program[TD_TENSOR_NAME];
};

static void set_subject(struct subject *subject, const char *name, size_t length)
{
    subject->is_program = td_table_of_program(name, length, subject->program, &subject->length);
    subject->kind = subject->is_program ? "program" : "resident tensor";
    subject->name = subject->is_program ? subject->program : name;
    if (!subject->is_program)
        subject->length = length;
}

/* ---- 404 ------------------------------------------------------------------------------------- */

/* Adds a hint to the error for a name such as "w@2.keys" or "w@2.scale", because the client
 * probably meant "w.keys@2" or "w.scale@2". */
static void hint_part_of_version(const char *name, size_t length, struct td_error *err)
{
    const char *version = memchr(name, '@', length);
    const size_t rest = version ? length - (size_t)(version - name) : 0;
    if (td_name_ends(".keys", version, rest))
        td_error_hint(err, "the keys of a version are named NAME.keys@VERSION");
    const char *part;
    for (int i = 0; (part = td_op_table_part(i)); i++) {
        char suffix[TD_TENSOR_NAME];
        snprintf(suffix, sizeof suffix, ".%s", part);
        if (td_name_ends(suffix, version, rest))
            td_error_hint(err, "the %s of a version is named NAME%s@VERSION", part, suffix);
    }
}

/* Suggests only adjacent names, nearest first, because the search for similar names is limited. The
 * search runs without the lock. */
td_status td_store_not_found(struct td_store *store, const char *name, size_t length,
                             const struct td_access *access, struct td_error *err)
{
    enum { NEIGHBOURS = 512 };
    const char *names[NEIGHBOURS];
    struct td_unicode_reason reason;
    struct subject wanted;
    set_subject(&wanted, name, length);
    const char *why = td_name_fault(wanted.name, wanted.length, &reason);
    if (why)
        return td_error_set(err, TD_TENSOR_NOT_FOUND, "there is no %s '%s': %s", wanted.kind,
                            TD_SHOWN(wanted.name, wanted.length), why);
    struct subject *known = malloc(NEIGHBOURS * sizeof *known);
    char(*copies)[TD_TENSOR_NAME] = malloc(NEIGHBOURS * sizeof *copies);
    const int n =
        known && copies ? td_store_neighbours(store, name, length, access, NEIGHBOURS, copies) : 0;
    for (int i = 0; i < n; i++) {
        set_subject(&known[i], copies[i], strlen(copies[i]));
        names[i] = known[i].name;
    }
    td_unknown_name(err, TD_TENSOR_NOT_FOUND, wanted.kind, wanted.name, wanted.length, names, n,
                    wanted.is_program ? "GET /v1/programs" : "GET /v1/tensors");
    free(copies);
    free(known);
    hint_part_of_version(name, length, err);
    return TD_TENSOR_NOT_FOUND;
}

td_status td_store_no_keys(const char *table, struct td_error *err)
{
    /* A version that an alias names cannot get keys, so the error suggests putting another
     * version. */
    if (td_table_version(table))
        return td_error_set(
            err, TD_TENSOR_NOT_FOUND,
            "'%s' has no keys; put another version with its keys, {\"tensor\": [...], "
            "\"keys\": [...]}",
            table);
    return td_error_set(err, TD_TENSOR_NOT_FOUND,
                        "'%s' has no keys; PUT /v1/tensors/%s/keys adds keys to its rows", table,
                        table);
}

/* ---- 503 ------------------------------------------------------------------------------------- */

/* Copies a name. Returns false if the name is too long for a tensor or contains a NUL. */
static bool copy_name(const char *name, size_t length, char copy[TD_TENSOR_NAME])
{
    if (length >= TD_TENSOR_NAME || memchr(name, '\0', length))
        return false;
    memcpy(copy, name, length);
    copy[length] = '\0';
    return true;
}

const char *td_store_explain_absence(struct td_store *store, const char *name, char *text,
                                     size_t size)
{
    struct td_refused_file refused;
    struct td_shown start;
    const char *version = td_table_version(name);
    const bool in_file = td_store_find_refused_file(store, name, &refused),
               in_folder = !in_file && version &&
                           td_store_find_refused_folder(store, version, refused.reason,
                                                        sizeof refused.reason);
    const size_t length = in_file || in_folder ? strlen(refused.reason) : 0;
    const char *reason = td_shown_text(refused.reason, length, &start),
               *cut = strlen(reason) < length ? "..." : "";
    if (in_file)
        snprintf(text, size,
                 refused.own ? "whose file %s %s%s" : "which might be in %s, which %s%s",
                 refused.file, reason, cut);
    else if (in_folder)
        snprintf(text, size, "which might be in the folder %s, which is refused: %s%s", version,
                 reason, cut);
    else
        snprintf(text, size, "which does not exist");
    return in_file || in_folder ? "repair that" : "put its file back";
}

/* Sets and returns the error for a name that might be an alias, while aliases.json cannot be
 * read. */
static td_status may_be_alias(const char *name, size_t length, struct td_error *err)
{
    struct subject subject;
    set_subject(&subject, name, length);
    return td_error_set(
        err, TD_DEVICE_UNAVAILABLE,
        "there is no %s '%s', but it might be an alias: %s in the data folder could "
        "not be read at startup; repair the file, or restore it from a backup, and send SIGHUP",
        subject.kind, TD_SHOWN(subject.name, subject.length), TD_ALIASES_FILE);
}

/* True if aliases.json cannot be read, so the name might be an alias. An alias never has the name
 * of a version. */
static bool is_alias_unread(const struct td_store *store, const char *name, size_t length)
{
    return !memchr(name, '@', length) && td_store_check_aliases(store, TD_IGNORED) != TD_OK;
}

/* Returns DEVICE_UNAVAILABLE if a refused file contains, or might contain, a tensor of this
 * name. */
static td_status check_file(struct td_store *store, const char *name, struct td_error *err)
{
    struct td_refused_file refused;
    struct subject subject;
    if (!td_store_find_refused_file(store, name, &refused))
        return TD_OK;
    set_subject(&subject, name, strlen(name));
    return refused.own
               ? td_error_set(err, TD_DEVICE_UNAVAILABLE,
                              "the file %s of %s %s; put the %s with ?persist=1, or replace "
                              "the file and send "
                              "SIGHUP",
                              refused.file, TD_NAMED(name), refused.reason, td_named_kind(name))
               : td_error_set(err, TD_DEVICE_UNAVAILABLE,
                              "there is no %s '%s', but it might be in %s, which %s; "
                              "repair or remove that file and send SIGHUP",
                              subject.kind, subject.name, refused.file, refused.reason);
}

/* Returns DEVICE_UNAVAILABLE for NAME@V if the version folder V is refused, because the names in
 * that folder are not known for certain. The error does not say why the folder is refused, because
 * the reason might mention tensors that the request is not allowed to know. The list of problems
 * contains the reason. */
static td_status check_folder(struct td_store *store, const char *name, struct td_error *err)
{
    const char *version = td_name_valid(name) ? td_table_version(name) : NULL;
    if (!version || !td_store_find_refused_folder(store, version, NULL, 0))
        return TD_OK;
    struct subject subject;
    set_subject(&subject, name, strlen(name));
    return td_error_set(
        err, TD_DEVICE_UNAVAILABLE,
        "there is no %s '%s', but it might be in the folder %s, which is refused; "
        "'problems' of GET /v1/aliases says why. Repair or remove that folder and send SIGHUP",
        subject.kind, subject.name, version);
}

td_status td_store_check_refused(struct td_store *store, const char *name, struct td_error *err)
{
    const td_status status = check_file(store, name, err);
    return status == TD_OK ? check_folder(store, name, err) : status;
}

/* ---- lookups --------------------------------------------------------------------------------- */

td_status td_store_missing(struct td_store *store, const char *name, size_t length,
                           struct td_error *err)
{
    char target[TD_TENSOR_NAME], copy[TD_TENSOR_NAME], absence[TD_ABSENCE];
    if (td_alias_target(store, name, length, target)) {
        const char *way_out = td_store_explain_absence(store, target, absence, sizeof absence);
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "the alias '%.*s' names '%s', %s; %s and send SIGHUP, or let the alias "
                            "name another version",
                            (int)length, name, target, absence, way_out);
    }
    if (copy_name(name, length, copy) && td_store_check_refused(store, copy, err) != TD_OK)
        return TD_DEVICE_UNAVAILABLE;
    const td_status status = td_store_not_found(store, name, length, NULL, err);
    return is_alias_unread(store, name, length) ? may_be_alias(name, length, err) : status;
}

bool td_store_knows(struct td_store *store, const char *name)
{
    const size_t length = strlen(name);
    const struct td_version *current;
    pthread_rwlock_rdlock(&store->lock);
    (void)td_store_use_locked(store, name, &current);
    const bool found = current || td_alias_find_locked(store, name, length);
    pthread_rwlock_unlock(&store->lock);
    struct td_refused_file refused;
    return found || td_store_find_refused_file(store, name, &refused) ||
           is_alias_unread(store, name, length);
}

bool td_store_has_table(struct td_store *store, const char *name, const struct td_access *access)
{
    struct td_refused_file refused;
    if (td_store_has_rows(store, name, access))
        return true;
    return td_access_has_table(access, name, strlen(name)) &&
           td_store_find_refused_file(store, name, &refused);
}

td_status td_store_check_found(struct td_store *store, const char *name, size_t length,
                               const struct td_version *version, struct td_error *err)
{
    if (!version)
        return td_store_missing(store, name, length, err);
    const td_status status = td_version_check(version, err);
    /* One scan is enough: if it cannot build the index, the next scan probably cannot either. */
    if (status != TD_OK && td_version_index_is_cut(version) &&
        !atomic_exchange(&version->keys->index_lost, true))
        atomic_store(&store->needs_scan, true);
    return status;
}

td_status td_store_need(struct td_store *store, const char *name, size_t length,
                        struct td_version **out, struct td_error *err)
{
    td_store_resolve_names(store, &(struct td_store_name){ name, length }, 1, out);
    const td_status status = td_store_check_found(store, name, length, *out, err);
    if (status != TD_OK) {
        td_buffer_unref(*out ? &(*out)->base : NULL);
        *out = NULL;
    }
    return status;
}
