#include "server/store/entries.h"

#include "api/text/sorted_names.h"
#include "api/text/suggest.h"
#include "server/store/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char name[TD_TENSOR_NAME];
    struct version *current;
    struct spare spare;
};

/* ---- names ---------------------------------------------------------------------------------- */

static const char *name_at(const void *store, int i)
{
    return ((const struct td_store *)store)->entries[i]->name;
}

/* With the lock held: where the name stands, or would. */
static int place_of(const struct td_store *store, const char *name, size_t length, bool *there)
{
    return td_sorted_place(store, store->n_entries, name_at, name, length, there);
}

static struct entry *find(const struct td_store *store, const char *name, size_t length)
{
    bool there;
    const int place = place_of(store, name, length, &there);
    return there ? store->entries[place] : NULL;
}

td_status td_store_check_name(const char *name, struct td_error *err)
{
    if (td_name_valid(name))
        return TD_OK;
    return td_error_set(err, TD_INVALID_ARGUMENT,
                        "'%.140s' is no name of a tensor: 1 to %d of the characters A-Z, a-z, 0-9, "
                        "'.', '_', ':' and '-', the first of them not '.'",
                        name, TD_TENSOR_NAME - 1);
}

/* How many names there are, or will be, with one more. */
static td_status check_count(int count, struct td_error *err)
{
    return count < TD_STORE_TENSORS
               ? TD_OK
               : td_error_resource(err, "resident_tensors", (uint64_t)count + 1, TD_STORE_TENSORS,
                                   "the store with this tensor");
}

td_status td_store_check_count(struct td_store *store, struct td_error *err)
{
    pthread_rwlock_rdlock(&store->lock);
    const int count = store->n_entries + store->n_expected;
    pthread_rwlock_unlock(&store->lock);
    return check_count(count, err);
}

/* Copies of the names around a place, those before and after it by turns; with the lock held. */
static int copy_neighbours(const struct td_store *store, int place, int most,
                           char (*copies)[TD_TENSOR_NAME], const char **names)
{
    int before = place - 1, after = place, n = 0;
    for (; n < most && (before >= 0 || after < store->n_entries); n++) {
        const bool back = before >= 0 && (n % 2 == 0 || after >= store->n_entries);
        const struct entry *entry = store->entries[back ? before-- : after++];
        names[n] = memcpy(copies[n], entry->name, TD_TENSOR_NAME);
    }
    return n;
}

/* The nearest name is looked for among the neighbours in order only, the closest first since the
 * search is limited, and without the lock. */
td_status td_store_not_found(struct td_store *store, const char *name, size_t length,
                             struct td_error *err)
{
    enum { NEIGHBOURS = 512 };
    const char *names[NEIGHBOURS];
    bool there;
    char(*copies)[TD_TENSOR_NAME] = malloc(NEIGHBOURS * sizeof *copies);
    pthread_rwlock_rdlock(&store->lock);
    const int place = place_of(store, name, length, &there);
    const int n = copies ? copy_neighbours(store, place, NEIGHBOURS, copies, names) : 0;
    pthread_rwlock_unlock(&store->lock);
    td_unknown_name(err, TD_TENSOR_NOT_FOUND, "resident tensor", name, length, names, n,
                    "GET /v1/tensors");
    free(copies);
    return TD_TENSOR_NOT_FOUND;
}

/* ---- what is current ------------------------------------------------------------------------ */

struct version *td_store_current(struct td_store *store, const char *name, size_t length)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct entry *entry = find(store, name, length);
    struct version *version = entry ? entry->current : NULL;
    if (version)
        td_buffer_ref(&version->base);
    pthread_rwlock_unlock(&store->lock);
    return version;
}

td_status td_store_need(struct td_store *store, const char *name, size_t length,
                        struct version **out, struct td_error *err)
{
    *out = td_store_current(store, name, length);
    if (!*out)
        return td_store_not_found(store, name, length, err);
    const td_status status = td_version_check(*out, err);
    if (status != TD_OK) {
        td_buffer_unref(&(*out)->base);
        *out = NULL;
    }
    return status;
}

struct version **td_store_all_current(struct td_store *store, int *count)
{
    pthread_rwlock_rdlock(&store->lock);
    struct version **versions = malloc(((size_t)store->n_entries + 1) * sizeof *versions);
    *count = versions ? store->n_entries : 0;
    for (int i = 0; i < *count && versions; i++) {
        versions[i] = store->entries[i]->current;
        td_buffer_ref(&versions[i]->base);
    }
    pthread_rwlock_unlock(&store->lock);
    return versions;
}

struct td_store_stats td_store_stats(struct td_store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct td_store_stats stats = { .tensors = store->n_entries,
                                          .mapped = store->mapped,
                                          .held = store->held + store->spared,
                                          .quota = store->quota };
    pthread_rwlock_unlock(&store->lock);
    return stats;
}

/* ---- counting ------------------------------------------------------------------------------- */

uint64_t td_store_next_number(struct td_store *store, uint64_t given)
{
    pthread_rwlock_wrlock(&store->lock);
    const uint64_t number = given ? given : store->last_version + 1;
    if (number > store->last_version)
        store->last_version = number;
    pthread_rwlock_unlock(&store->lock);
    return number;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

td_status td_store_reserve(struct td_store *store, const struct version *replaced, uint64_t bytes,
                           uint64_t *leaving, struct td_error *err)
{
    pthread_rwlock_wrlock(&store->lock);
    *leaving = replaced ? replaced->held : 0;
    /* Who only asks whether there is room is no writer of the name, which may be gone meanwhile. */
    const uint64_t others = minus(store->held, store->leaving + *leaving);
    const bool fits = bytes <= store->quota && others <= store->quota - bytes;
    if (fits) {
        store->held += bytes;
        store->leaving += *leaving;
    }
    const bool crowded = others + bytes + store->spared > store->quota;
    pthread_rwlock_unlock(&store->lock);
    if (crowded)
        td_store_trim(store, INT64_MAX);
    if (fits)
        return TD_OK;
    *leaving = 0;
    return td_error_resource(err, "resident_bytes",
                             bytes < UINT64_MAX - others ? others + bytes : UINT64_MAX,
                             store->quota, "the resident tensors with this one");
}

void td_store_unreserve(struct td_store *store, uint64_t bytes, uint64_t leaving)
{
    pthread_rwlock_wrlock(&store->lock);
    store->held -= bytes;
    store->leaving -= leaving;
    pthread_rwlock_unlock(&store->lock);
}

/* ---- spares --------------------------------------------------------------------------------- */

void td_spare_free(struct spare *spare)
{
    free(spare->offsets);
    td_buffer_unref(spare->version ? &spare->version->base : NULL);
    *spare = (struct spare){ 0 };
}

/* With the lock held. */
static struct spare detach_spare(struct td_store *store, struct entry *entry)
{
    const struct spare spare = entry->spare;
    entry->spare = (struct spare){ 0 };
    if (spare.version) {
        store->n_spares--;
        store->spared -= spare.version->held;
    }
    return spare;
}

struct spare td_spare_take(struct td_store *store, const char *name)
{
    pthread_rwlock_wrlock(&store->lock);
    struct entry *entry = find(store, name, strlen(name));
    const struct spare spare = entry ? detach_spare(store, entry) : (struct spare){ 0 };
    pthread_rwlock_unlock(&store->lock);
    return spare;
}

void td_spare_keep(struct td_store *store, const char *name, struct spare *spare)
{
    struct spare gone = *spare;
    const uint64_t bytes = spare->version->held;
    pthread_rwlock_wrlock(&store->lock);
    struct entry *entry = find(store, name, strlen(name));
    const uint64_t used = store->held + store->spared;
    if (entry && used <= store->quota && bytes <= store->quota - used) {
        gone = detach_spare(store, entry);
        entry->spare = *spare;
        store->n_spares++;
        store->spared += bytes;
    }
    pthread_rwlock_unlock(&store->lock);
    td_spare_free(&gone);
}

void td_store_trim(struct td_store *store, int64_t since_ns)
{
    pthread_rwlock_wrlock(&store->lock);
    struct spare *old = store->n_spares ? calloc((size_t)store->n_spares, sizeof *old) : NULL;
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

/* With the lock held: room for one more entry than there are and are expected. */
static bool make_room(struct td_store *store)
{
    if (store->n_entries + store->n_expected < store->capacity)
        return true;
    const int capacity = store->capacity ? store->capacity * 2 : 16;
    struct entry **entries = realloc(store->entries, (size_t)capacity * sizeof *entries);
    if (!entries)
        return false;
    store->entries = entries;
    store->capacity = capacity;
    return true;
}

td_status td_store_expect(struct td_store *store, struct version *version, struct td_error *err)
{
    struct entry *entry = calloc(1, sizeof *entry);
    pthread_rwlock_wrlock(&store->lock);
    const int count = store->n_entries + store->n_expected;
    /* Only the writer of the name adds or removes it. */
    const bool there = find(store, version->name, strlen(version->name)) != NULL;
    const bool expected = !there && entry && count < TD_STORE_TENSORS && make_room(store);
    store->n_expected += expected;
    pthread_rwlock_unlock(&store->lock);
    if (expected) {
        snprintf(entry->name, sizeof entry->name, "%s", version->name);
        version->entry = entry;
        return TD_OK;
    }
    free(entry);
    const td_status status = there ? TD_OK : check_count(count, err);
    return there || status != TD_OK
               ? status
               : td_error_set(err, TD_MEMORY_EXHAUSTED, "there is no memory for the name '%s'",
                              version->name);
}

void td_store_unexpect(struct td_store *store, struct version *version)
{
    if (!version->entry)
        return;
    pthread_rwlock_wrlock(&store->lock);
    store->n_expected--;
    pthread_rwlock_unlock(&store->lock);
    free(version->entry);
    version->entry = NULL;
}

/* With the lock held. */
static void add_entry(struct td_store *store, int place, struct entry *entry)
{
    struct entry **at = &store->entries[place];
    memmove(at + 1, at, (size_t)(store->n_entries - place) * sizeof *at);
    *at = entry;
    store->n_entries++;
    store->n_expected--;
}

struct version *td_store_publish(struct td_store *store, struct version *version)
{
    bool there;
    pthread_rwlock_wrlock(&store->lock);
    const int place = place_of(store, version->name, strlen(version->name), &there);
    if (!there)
        add_entry(store, place, version->entry);
    struct entry *entry = store->entries[place];
    struct version *replaced = entry->current;
    entry->current = version;
    if (replaced)
        atomic_store(&replaced->replaced, true);
    store->held -= replaced ? replaced->held : 0;
    store->mapped += version->mapped;
    store->mapped -= replaced ? replaced->mapped : 0;
    store->leaving -= version->leaving;
    version->leaving = 0;
    version->entry = NULL;
    pthread_rwlock_unlock(&store->lock);
    return replaced;
}

void td_store_drop(struct td_store *store, const char *name)
{
    bool there;
    struct entry *entry = NULL;
    pthread_rwlock_wrlock(&store->lock);
    const int place = place_of(store, name, strlen(name), &there);
    if (there) {
        struct entry **at = &store->entries[place];
        entry = *at;
        store->n_entries--;
        memmove(at, at + 1, (size_t)(store->n_entries - place) * sizeof *at);
        store->held -= entry->current->held;
        store->mapped -= entry->current->mapped;
        entry->spare = detach_spare(store, entry);
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
