#include "server/store/entries.h"

#include "api/text/sorted_names.h"
#include "kernels/name.h"
#include "server/auth/access.h"
#include "server/observe/clock.h"
#include "server/store/aliases/alias_list.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct td_entry {
    char name[TD_TENSOR_NAME];
    /* NULL while the entry is reserved. */
    struct td_version *current;
    struct td_spare spare;
    /* Next entry in the list of reserved entries. */
    struct td_entry *next;
    /* True while the name is being deleted. */
    bool leaving;
};

/* ---- names ---------------------------------------------------------------------------------- */

static const char *name_at(const void *store, int i)
{
    return ((const struct td_store *)store)->entries[i]->name;
}

/* Returns the index of the name, or the index at which the name would be inserted. Call with
 * store->lock held. */
static int place_of(const struct td_store *store, const char *name, size_t length, bool *found)
{
    return td_sorted_find(store, store->n_entries, name_at, name, length, found);
}

/* Like place_of, but faster for a name that is probably new. A scan adds most names in order. */
static int place_of_new(const struct td_store *store, const char *name, size_t length, bool *found)
{
    return td_sorted_find_at_end(store, store->n_entries, name_at, name, length, found);
}

static struct td_entry *find(const struct td_store *store, const char *name, size_t length)
{
    bool found;
    const int place = place_of(store, name, length, &found);
    return found ? store->entries[place] : NULL;
}

/* Returns RESOURCE_LIMIT if `count` names exceed the limit. */
static td_status check_count(int count, struct td_error *err)
{
    return count <= TD_STORE_TENSORS
               ? TD_OK
               : td_error_resource(err, "resident_tensors", (uint64_t)count, TD_STORE_TENSORS,
                                   "the store with this tensor");
}

td_status td_store_no_folder(struct td_error *err)
{
    td_error_set(err, TD_INVALID_ARGUMENT,
                 "persist needs a data folder, but the server was started without --data-dir");
    return td_error_at_attribute(err, TD_INVALID_ARGUMENT, "persist");
}

td_status td_store_check_count(struct td_store *store, int more, struct td_error *err)
{
    pthread_rwlock_rdlock(&store->lock);
    const int count = store->n_entries + store->n_reserved;
    pthread_rwlock_unlock(&store->lock);
    return check_count(count + more, err);
}

/* ---- current versions ------------------------------------------------------------------------ */

/* Returns the current version of the entry, with a reference for the caller, or NULL. Call with
 * store->lock held. */
static struct td_version *ref_current(const struct td_entry *entry)
{
    if (!entry)
        return NULL;
    td_buffer_ref(&entry->current->base);
    return entry->current;
}

struct td_version *td_store_current(struct td_store *store, const char *name, size_t length)
{
    pthread_rwlock_rdlock(&store->lock);
    bool found;
    const int place = place_of_new(store, name, length, &found);
    struct td_version *version = ref_current(found ? store->entries[place] : NULL);
    pthread_rwlock_unlock(&store->lock);
    return version;
}

/* Like find, but also resolves aliases. Call with store->lock held. */
static const struct td_entry *resolve(const struct td_store *store, const char *name, size_t length)
{
    const struct td_entry *entry = find(store, name, length);
    const struct td_alias *alias = entry ? NULL : td_alias_find_locked(store, name, length);
    return alias ? find(store, alias->target, strlen(alias->target)) : entry;
}

void td_store_resolve_names(struct td_store *store, const struct td_store_name *names, int count,
                            struct td_version **versions)
{
    pthread_rwlock_rdlock(&store->lock);
    for (int i = 0; i < count; i++)
        versions[i] = ref_current(resolve(store, names[i].text, names[i].length));
    pthread_rwlock_unlock(&store->lock);
}

/* True if the entry is a tensor that has rows. A scalar has no rows. */
static bool has_rows(const struct td_entry *entry)
{
    return entry->current->tensor.shape.rank > 0;
}

bool td_store_allows(const struct td_access *access, const char *name, size_t length)
{
    char program[TD_TENSOR_NAME];
    if (!access)
        return true;
    return td_table_of_program(name, length, program, &length)
               ? td_access_has_table(access, program, length)
               : td_access_has_table(access, name, length);
}

static bool allows(const struct td_access *access, const char *name)
{
    return td_store_allows(access, name, strlen(name));
}

static bool is_program(const struct td_entry *entry)
{
    return td_is_program_name(entry->name, strlen(entry->name));
}

/* True if the name, or the target of the alias of this name, has rows. The rows of a missing target
 * are unknown. Call with store->lock held. */
static bool name_has_rows(const struct td_store *store, const char *name)
{
    const size_t length = strlen(name);
    const struct td_entry *entry = resolve(store, name, length);
    return entry ? has_rows(entry) : td_alias_find_locked(store, name, length) != NULL;
}

/* True if a version of the name has rows. Call with store->lock held. */
static bool version_has_rows(const struct td_store *store, const char *name,
                             const struct td_access *access)
{
    char prefix[TD_TENSOR_NAME + 1];
    const size_t length = strlen(name) + 1;
    bool found;
    if (length > TD_TENSOR_NAME)
        return false;
    memcpy(prefix, name, length - 1);
    prefix[length - 1] = '@';
    for (int i = place_of(store, prefix, length, &found); i < store->n_entries; i++) {
        const struct td_entry *entry = store->entries[i];
        if (strncmp(entry->name, prefix, length) != 0)
            return false;
        if (has_rows(entry) && allows(access, entry->name))
            return true;
    }
    return false;
}

bool td_store_has_rows(struct td_store *store, const char *name, const struct td_access *access)
{
    pthread_rwlock_rdlock(&store->lock);
    const bool found = (allows(access, name) && name_has_rows(store, name)) ||
                       version_has_rows(store, name, access);
    pthread_rwlock_unlock(&store->lock);
    return found;
}

enum td_name_use td_store_use_locked(const struct td_store *store, const char *name,
                                     const struct td_version **current)
{
    const struct td_entry *entry = find(store, name, strlen(name));
    *current = entry ? entry->current : NULL;
    if (entry)
        return entry->leaving ? TD_NAME_LEAVING : TD_NAME_CURRENT;
    for (entry = store->reserved; entry; entry = entry->next)
        if (strcmp(entry->name, name) == 0)
            return TD_NAME_RESERVED;
    return TD_NAME_FREE;
}

void td_store_set_leaving_locked(struct td_store *store, const char *name, bool leaving)
{
    struct td_entry *entry = find(store, name, strlen(name));
    if (entry)
        entry->leaving = leaving;
}

int td_store_neighbours(struct td_store *store, const char *name, size_t length,
                        const struct td_access *access, int most, char (*names)[TD_TENSOR_NAME])
{
    const bool of_program = td_is_program_name(name, length);
    bool found;
    pthread_rwlock_rdlock(&store->lock);
    const int place = place_of(store, name, length, &found);
    int before = place - 1, after = place, n = 0;
    while (n < most && (before >= 0 || after < store->n_entries)) {
        const bool back = before >= 0 && (n % 2 == 0 || after >= store->n_entries);
        const struct td_entry *neighbour = store->entries[back ? before-- : after++];
        if (is_program(neighbour) == of_program && allows(access, neighbour->name))
            memcpy(names[n++], neighbour->name, TD_TENSOR_NAME);
    }
    pthread_rwlock_unlock(&store->lock);
    return n;
}

uint64_t td_store_changes(const struct td_store *store)
{
    return atomic_load(&store->changes);
}

static bool is_in(const struct td_name_range *range, const struct td_entry *entry)
{
    return td_name_begins(range->prefix, entry->name, strlen(entry->name));
}

static bool is_of_kind(const struct td_name_range *range, const struct td_entry *entry)
{
    return range->kind == TD_NAMES_ALL || is_program(entry) == (range->kind == TD_NAMES_PROGRAMS);
}

/* Sets `found`, unless it is NULL, to the current versions of a range of names, which starts at the
 * entry `first`. Returns the number of names. Call with store->lock held. */
static int select_range(const struct td_store *store, const struct td_name_range *range, int first,
                        struct td_version **found)
{
    const int limit = range->limit ? range->limit : store->n_entries;
    int n = 0;
    for (int i = first; n < limit && i < store->n_entries && is_in(range, store->entries[i]); i++) {
        if (!is_of_kind(range, store->entries[i]))
            continue;
        if (found)
            found[n] = ref_current(store->entries[i]);
        n++;
    }
    return n;
}

struct td_version **td_store_all_current(struct td_store *store, const struct td_name_range *range,
                                         int *count)
{
    bool found;
    pthread_rwlock_rdlock(&store->lock);
    const int begin = place_of(store, range->prefix, strlen(range->prefix), &found);
    const int after = place_of(store, range->after, strlen(range->after), &found) + found;
    const int first = after > begin ? after : begin;
    const int n = select_range(store, range, first, NULL);
    struct td_version **versions = malloc(((size_t)n + 1) * sizeof *versions);
    *count = versions ? select_range(store, range, first, versions) : 0;
    pthread_rwlock_unlock(&store->lock);
    return versions;
}

struct td_version *td_store_next_pending(struct td_store *store, int *place)
{
    struct td_version *found = NULL;
    pthread_rwlock_rdlock(&store->lock);
    const int n = store->n_entries, first = *place < n ? *place : 0;
    for (int i = 0; i < n && !found; i++) {
        const int at = first + i < n ? first + i : first + i - n;
        struct td_version *version = store->entries[at]->current;
        if (atomic_load(&version->integrity) == TD_INTEGRITY_PENDING) {
            td_buffer_ref(&version->base);
            found = version;
            *place = at + 1;
        }
    }
    pthread_rwlock_unlock(&store->lock);
    return found;
}

struct td_version **td_store_expired(struct td_store *store, int64_t now_ns, int *count)
{
    struct td_version **expired = NULL;
    int64_t next_ns = TD_NEVER;
    int n = 0;
    *count = 0;
    pthread_rwlock_wrlock(&store->lock);
    if (store->next_expiry_ns <= now_ns)
        expired = malloc((size_t)store->n_entries * sizeof(struct td_version *));
    for (int i = 0; i < store->n_entries && expired; i++) {
        struct td_version *version = store->entries[i]->current;
        if (version->expires_ns > now_ns) {
            next_ns = version->expires_ns < next_ns ? version->expires_ns : next_ns;
            continue;
        }
        td_buffer_ref(&version->base);
        expired[n++] = version;
    }
    if (expired)
        store->next_expiry_ns = next_ns;
    pthread_rwlock_unlock(&store->lock);
    *count = n;
    return expired;
}

void td_store_expire_again(struct td_store *store, int64_t now_ns)
{
    pthread_rwlock_wrlock(&store->lock);
    store->next_expiry_ns = now_ns;
    pthread_rwlock_unlock(&store->lock);
}

/* Returns the number of damaged tensors. Searches the entries only if damage has been found. Call
 * with store->lock held. */
static int count_damaged(const struct td_store *store)
{
    int damaged = 0;
    if (!atomic_load(&store->damage_found))
        return 0;
    for (int i = 0; i < store->n_entries; i++) {
        const struct td_version *version = store->entries[i]->current;
        damaged += version && atomic_load(&version->integrity) == TD_INTEGRITY_DAMAGED;
    }
    return damaged;
}

struct td_store_usage td_store_usage(struct td_store *store)
{
    const struct td_compiled_count compiled = td_compiled_cache_count(&store->compiled);
    pthread_rwlock_rdlock(&store->lock);
    const struct td_store_usage usage = { .tensors = store->n_entries,
                                          .damaged = count_damaged(store),
                                          .mapped = store->mapped,
                                          .held = store->held + store->spare_bytes,
                                          .spare = store->spare_bytes,
                                          .quota = store->quota,
                                          .compiled = compiled.bytes,
                                          .compiled_evicted = compiled.evicted };
    pthread_rwlock_unlock(&store->lock);
    return usage;
}

/* ---- numbers --------------------------------------------------------------------------------- */

uint64_t td_store_next_number(struct td_store *store, uint64_t given)
{
    pthread_rwlock_wrlock(&store->lock);
    const uint64_t number = given ? given : store->last_version + 1;
    if (number > store->last_version)
        store->last_version = number;
    pthread_rwlock_unlock(&store->lock);
    return number;
}

uint64_t td_store_last_number(struct td_store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    const uint64_t number = store->last_version;
    pthread_rwlock_unlock(&store->lock);
    return number;
}

/* ---- spare copies --------------------------------------------------------------------------- */

void td_spare_free(struct td_spare *spare)
{
    free(spare->offsets);
    td_buffer_unref(spare->version ? &spare->version->base : NULL);
    *spare = (struct td_spare){ 0 };
}

/* Detaches the spare copy from its entry. Call with store->lock held. */
static struct td_spare detach_spare(struct td_store *store, struct td_entry *entry)
{
    const struct td_spare spare = entry->spare;
    entry->spare = (struct td_spare){ 0 };
    if (spare.version) {
        store->n_spares--;
        store->spare_bytes -= spare.held;
    }
    return spare;
}

struct td_spare td_spare_take(struct td_store *store, const char *name)
{
    pthread_rwlock_wrlock(&store->lock);
    struct td_entry *entry = find(store, name, strlen(name));
    const struct td_spare spare = entry ? detach_spare(store, entry) : (struct td_spare){ 0 };
    pthread_rwlock_unlock(&store->lock);
    return spare;
}

void td_spare_keep(struct td_store *store, const char *name, struct td_spare *spare)
{
    struct td_spare gone = *spare;
    const uint64_t bytes = spare->held;
    pthread_rwlock_wrlock(&store->lock);
    struct td_entry *entry = find(store, name, strlen(name));
    const uint64_t used = store->held + store->spare_bytes;
    if (entry && used <= store->quota && bytes <= store->quota - used) {
        gone = detach_spare(store, entry);
        entry->spare = *spare;
        store->n_spares++;
        store->spare_bytes += bytes;
    }
    pthread_rwlock_unlock(&store->lock);
    td_spare_free(&gone);
}

void td_store_trim(struct td_store *store, int64_t since_ns)
{
    pthread_rwlock_wrlock(&store->lock);
    struct td_spare *old = store->n_spares ? calloc((size_t)store->n_spares, sizeof *old) : NULL;
    int n_old = 0;
    for (int i = 0; i < store->n_entries && old; i++)
        if (store->entries[i]->spare.version && store->entries[i]->spare.since_ns < since_ns)
            old[n_old++] = detach_spare(store, store->entries[i]);
    pthread_rwlock_unlock(&store->lock);
    for (int i = 0; i < n_old; i++)
        td_spare_free(&old[i]);
    free(old);
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Makes room for one entry in addition to the current and the reserved entries. Call with
 * store->lock held. */
static bool make_room(struct td_store *store)
{
    if (store->n_entries + store->n_reserved < store->capacity)
        return true;
    const int capacity = store->capacity ? store->capacity * 2 : 16;
    struct td_entry **entries = realloc(store->entries, (size_t)capacity * sizeof *entries);
    if (!entries)
        return false;
    store->entries = entries;
    store->capacity = capacity;
    return true;
}

/* Adds an entry to the reserved entries. Call with store->lock held. The list holds only names that
 * could become aliases. It omits names of versions, because they cannot become aliases and a folder
 * can have many of them. */
static void begin_reservation(struct td_store *store, struct td_entry *entry)
{
    store->n_reserved++;
    if (td_table_version(entry->name))
        return;
    entry->next = store->reserved;
    store->reserved = entry;
}

static void end_reservation(struct td_store *store, struct td_entry *entry)
{
    struct td_entry **link = &store->reserved;
    store->n_reserved--;
    if (td_table_version(entry->name))
        return;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
}

td_status td_store_reserve_name(struct td_store *store, struct td_version *version,
                                struct td_error *err)
{
    struct td_entry *entry = calloc(1, sizeof *entry);
    bool found;
    pthread_rwlock_wrlock(&store->lock);
    const int count = store->n_entries + store->n_reserved;
    /* Only the writer that has locked a name adds or removes it. */
    (void)place_of_new(store, version->name, strlen(version->name), &found);
    const bool claimed = td_alias_claims_locked(store, version->name);
    const bool reserved =
        !found && !claimed && entry && count < TD_STORE_TENSORS && make_room(store);
    if (reserved) {
        snprintf(entry->name, sizeof entry->name, "%s", version->name);
        begin_reservation(store, entry);
        version->entry = entry;
    }
    pthread_rwlock_unlock(&store->lock);
    if (reserved)
        return TD_OK;
    free(entry);
    if (claimed)
        return td_alias_conflict(version->name, err);
    const td_status status = found ? TD_OK : check_count(count + 1, err);
    return found || status != TD_OK
               ? status
               : td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the name of %s",
                              TD_NAMED(version->name));
}

void td_store_unreserve_name(struct td_store *store, struct td_version *version)
{
    if (!version->entry)
        return;
    pthread_rwlock_wrlock(&store->lock);
    end_reservation(store, version->entry);
    pthread_rwlock_unlock(&store->lock);
    free(version->entry);
    version->entry = NULL;
}

/* Makes the version the current version of the entry, and returns the version that it replaces.
 * Call with store->lock held. */
static struct td_version *set_current(struct td_store *store, struct td_entry *entry,
                                      struct td_version *version)
{
    struct td_version *replaced = entry->current;
    entry->current = version;
    if (replaced) {
        atomic_store(&version->place, atomic_load(&replaced->place));
        atomic_store(&replaced->replaced, true);
    }
    store->held -= replaced ? replaced->held : 0;
    store->mapped += td_version_mapped(version);
    store->mapped -= replaced ? td_version_mapped(replaced) : 0;
    store->outgoing -= version->outgoing;
    version->outgoing = 0;
    version->entry = NULL;
    if (atomic_load(&version->integrity) == TD_INTEGRITY_PENDING)
        atomic_store(&store->unverified, true);
    if (version->expires_ns < store->next_expiry_ns)
        store->next_expiry_ns = version->expires_ns;
    atomic_fetch_add(&store->changes, 1);
    return replaced;
}

/* Merges two sorted arrays from the end. Entries between two new names are moved together, because
 * publishing a file of 65535 tensors adds each name separately. */
void td_store_publish_new_locked(struct td_store *store, struct td_version **versions, int count)
{
    struct td_entry **entries = store->entries;
    int unmoved = store->n_entries;
    store->n_entries += count;
    for (int i = count - 1; i >= 0; i--) {
        const char *name = versions[i]->name;
        bool found;
        const int place =
            td_sorted_find_at_end(store, unmoved, name_at, name, strlen(name), &found);
        memmove(entries + place + i + 1, entries + place,
                (size_t)(unmoved - place) * sizeof *entries);
        entries[place + i] = versions[i]->entry;
        end_reservation(store, entries[place + i]);
        (void)set_current(store, entries[place + i], versions[i]);
        unmoved = place;
    }
}

struct td_version *td_store_publish(struct td_store *store, struct td_version *version)
{
    bool found;
    pthread_rwlock_wrlock(&store->lock);
    const int place = place_of_new(store, version->name, strlen(version->name), &found);
    struct td_version *replaced = found ? set_current(store, store->entries[place], version) : NULL;
    if (!found)
        td_store_publish_new_locked(store, &version, 1);
    pthread_rwlock_unlock(&store->lock);
    return replaced;
}

void td_store_drop(struct td_store *store, const char *name)
{
    bool found;
    struct td_entry *entry = NULL;
    pthread_rwlock_wrlock(&store->lock);
    const int place = place_of(store, name, strlen(name), &found);
    if (found) {
        struct td_entry **at = &store->entries[place];
        entry = *at;
        store->n_entries--;
        memmove(at, at + 1, (size_t)(store->n_entries - place) * sizeof *at);
        store->held -= entry->current->held;
        store->mapped -= td_version_mapped(entry->current);
        entry->spare = detach_spare(store, entry);
        atomic_fetch_add(&store->changes, 1);
    }
    pthread_rwlock_unlock(&store->lock);
    if (!entry)
        return;
    td_spare_free(&entry->spare);
    atomic_store(&entry->current->replaced, true);
    td_buffer_unref(&entry->current->base);
    free(entry);
}

void td_store_free_entries(struct td_store *store)
{
    for (int i = 0; i < store->n_entries; i++) {
        td_spare_free(&store->entries[i]->spare);
        td_buffer_unref(&store->entries[i]->current->base);
        free(store->entries[i]);
    }
    free(store->entries);
}
