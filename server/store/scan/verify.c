#include "server/store/scan/verify.h"

#include "server/memory/fault_guard.h"
#include "server/store/entries.h"
#include "server/store/scan/known_files.h"
#include "server/store/scan/problems.h"
#include "server/store/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

td_status td_store_verify_header(const struct td_store *store,
                                 const struct td_data_content *content, struct td_error *err)
{
    for (int i = 0; i < content->count && store->verify != TD_VERIFY_OFF; i++) {
        const struct td_checksums *checksums = &content->tensors[i].checksums;
        if (checksums->digests && !td_checksums_match_header(checksums))
            return td_error_set(err, TD_MALFORMED_REQUEST,
                                "its header, bytes 0 to %" PRIu64 ", does not match its checksum",
                                checksums->offset - 1);
    }
    return TD_OK;
}

static void list_damage(struct td_store *store, const struct td_version *version)
{
    char reason[TD_TENSOR_NAME + 120];
    snprintf(reason, sizeof reason,
             "%s: its bytes %" PRIu64 " to %" PRIu64 " do not match their checksum", version->name,
             version->damage_begin, version->damage_end - 1);
    td_store_file_damaged(store, version->file, reason);
    td_store_note_file_problem(store, version->file, reason);
}

void td_store_note_damaged(struct td_store *store)
{
    int count = 0;
    struct td_version **versions =
        atomic_load(&store->damage_found)
            ? td_store_all_current(store, &(struct td_name_range){ .prefix = "", .after = "" },
                                   &count)
            : NULL;
    for (int i = 0; i < count; i++) {
        if (atomic_load(&versions[i]->integrity) == TD_INTEGRITY_DAMAGED)
            list_damage(store, versions[i]);
        td_buffer_unref(&versions[i]->base);
    }
    free(versions);
    td_store_note_damaged_files(store);
}

/* Refuses the version from now on, even in calls in flight that have not replied yet. The fault
 * guard treats the version as if reading it had failed. */
static void note_damage(struct td_store *store, struct td_version *version, uint64_t block)
{
    td_checksums_range(&version->checksums, block, &version->damage_begin, &version->damage_end);
    atomic_store(&version->integrity, TD_INTEGRITY_DAMAGED);
    atomic_store(&store->damage_found, true);
    td_guard_mark(version->range);
    list_damage(store, version);
    td_log(store->log, TD_LOG_ERROR, "tensor_damaged", TD_TEXT("tensor", version->name),
           TD_TEXT("file", version->file), TD_INT("first_byte", (int64_t)version->damage_begin),
           TD_INT("last_byte", (int64_t)version->damage_end - 1));
    if (store->inspector)
        store->inspector->skipped(store->inspector->context, version->file, version->name,
                                  "its bytes do not match their checksums; restore the file from "
                                  "a backup");
}

/* Verifies a block. Returns false if no more blocks need to be verified. A fault, from a truncated
 * file or a failing disk, has already marked the version. */
static bool verify_block(struct td_store *store, struct td_version *version, uint64_t block)
{
    const bool matches = td_checksums_match(&version->checksums, block);
    if (td_guard_marked(version->range))
        atomic_store(&version->integrity, TD_INTEGRITY_NONE);
    else if (!matches)
        note_damage(store, version, block);
    else
        return true;
    return false;
}

bool td_store_must_stop(const struct td_store *store)
{
    return atomic_load(&store->stopping) ||
           (!store->opened && store->stop_requested && store->stop_requested());
}

/* Verifies all blocks of the version. */
static td_status verify_now(struct td_store *store, struct td_version *version,
                            struct td_error *err)
{
    const uint64_t blocks = td_checksums_blocks(&version->checksums);
    for (uint64_t block = 0; block < blocks; block++) {
        if (td_store_must_stop(store))
            return td_error_set(err, TD_DRAINING,
                                "the server stopped before the file was verified");
        if (!verify_block(store, version, block))
            return TD_OK;
    }
    atomic_store(&version->integrity, TD_INTEGRITY_VERIFIED);
    return TD_OK;
}

td_status td_store_verify_new(struct td_store *store, struct td_version *version,
                              struct td_error *err)
{
    if (!version->checksums.digests || store->verify == TD_VERIFY_OFF)
        return TD_OK;
    atomic_store(&version->integrity, TD_INTEGRITY_PENDING);
    return store->verify == TD_VERIFY_START ? verify_now(store, version, err) : TD_OK;
}

/* Starts verifying the next pending version. Returns false if no version is pending. */
static bool choose_version(struct td_store *store)
{
    /* Clear the flag before the search. A version that becomes current during the search sets the
     * flag again, under the store's lock. */
    if (!atomic_exchange(&store->unverified, false))
        return false;
    store->verifying = td_store_next_pending(store, &store->verify_place);
    store->verified_blocks = 0;
    if (store->verifying)
        atomic_store(&store->unverified, true);
    return store->verifying != NULL;
}

bool td_store_verify(struct td_store *store)
{
    if (!store->verifying && !choose_version(store))
        return false;
    struct td_version *version = store->verifying;
    const uint64_t blocks = td_checksums_blocks(&version->checksums);
    bool more = !atomic_load(&version->replaced);
    if (more && store->verified_blocks < blocks) {
        td_checksums_prefetch(&version->checksums, store->verified_blocks + 1);
        more = verify_block(store, version, store->verified_blocks++);
    }
    if (more && store->verified_blocks < blocks)
        return true;
    if (more)
        atomic_store(&version->integrity, TD_INTEGRITY_VERIFIED);
    store->verifying = NULL;
    td_buffer_unref(&version->base);
    return true;
}

bool td_store_has_unverified(struct td_store *store)
{
    return atomic_load(&store->unverified);
}

void td_store_stop(struct td_store *store)
{
    atomic_store(&store->stopping, true);
}
