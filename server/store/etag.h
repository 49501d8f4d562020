/* etag.h - ETags of versions: derived from the number of a version in memory, or from the content
 * of a file, with a suffix for each format.
 *
 * A version has one tag, for example "abc". Because a strong tag identifies exact bytes, each
 * format in which the version is sent has its own form of the tag: "abc" for JSON, "abc-npy",
 * "abc-safetensors".
 *
 * Source  RFC 9110, sections 8.8.1 (strong tags) and 8.8.3 (ETag). */
#ifndef TD_SERVER_STORE_ETAG_H
#define TD_SERVER_STORE_ETAG_H

#include "api/message/message.h"

struct td_data_tensor;
struct td_file_id;
struct td_store;
struct td_version;

/* td_etag_from_number derives the ETag from the version's number and a seed that each process
 * chooses. td_etag_from_file derives it from the tensor's name and the checksums of the file.
 * Without checksums, it uses the size, the modification time, and the first and the last page of
 * the file. All processes that serve the file or a copy of it derive the same ETag. */
void td_etag_from_number(const struct td_store *store, struct td_version *version);
void td_etag_from_file(struct td_version *version, const struct td_file_id *id,
                       const struct td_data_tensor *stored);

/* Writes the tag of a version in the given format to `text`. `etag` is the version's own tag. */
enum { TD_ETAG_SIZE = 96, TD_ETAG_FORMATS = TD_FORMAT_NPY + 1 };
void td_etag_of_format(const char *etag, td_format format, char text[TD_ETAG_SIZE]);

#endif
