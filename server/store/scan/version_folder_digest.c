#include "server/store/scan/version_folder_digest.h"

#include "server/memory/fault_guard.h"
#include "server/store/scan/verify.h"

#include <nettle/sha2.h>
#include <nettle/version.h>

#include <stdio.h>
#include <string.h>

static void finish_digest(struct sha256_ctx *context, unsigned char digest[TD_SHA256_BYTES])
{
#if NETTLE_VERSION_MAJOR >= 4
    sha256_digest(context, digest);
#else
    sha256_digest(context, TD_SHA256_BYTES, digest);
#endif
}

static void print_hex(const unsigned char digest[TD_SHA256_BYTES], char text[TD_MANIFEST_DIGEST])
{
    for (size_t i = 0; i < TD_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

void td_folder_digest(const char *text, size_t bytes, char digest[TD_MANIFEST_DIGEST])
{
    struct sha256_ctx context;
    unsigned char raw[TD_SHA256_BYTES];
    sha256_init(&context);
    sha256_update(&context, bytes, (const uint8_t *)text);
    finish_digest(&context, raw);
    print_hex(raw, digest);
}

td_status td_folder_check_digest(const struct td_store *store,
                                 const unsigned char wanted_digest[TD_SHA256_BYTES],
                                 const struct td_mapped_bytes *bytes, struct td_error *err)
{
    enum { STEP = 4 << 20 };
    struct sha256_ctx context;
    unsigned char digest[TD_SHA256_BYTES];
    char found[TD_MANIFEST_DIGEST], wanted[TD_MANIFEST_DIGEST];
    sha256_init(&context);
    for (size_t at = 0; at < bytes->size; at += STEP) {
        if (td_store_must_stop(store))
            return td_error_set(err, TD_DRAINING, "the server stops");
        const size_t rest = bytes->size - at;
        sha256_update(&context, rest < STEP ? rest : STEP, (const uint8_t *)bytes->data + at);
    }
    finish_digest(&context, digest);
    if (td_guard_marked(bytes->range))
        return td_error_set(err, TD_DEVICE_UNAVAILABLE,
                            "it was truncated while it was read, or cannot be read");
    if (memcmp(digest, wanted_digest, TD_SHA256_BYTES) == 0)
        return TD_OK;
    print_hex(digest, found);
    print_hex(wanted_digest, wanted);
    return td_error_set(err, TD_MALFORMED_REQUEST, "its SHA-256 is %s; the manifest says %s", found,
                        wanted);
}
