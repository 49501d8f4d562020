/* file_name.h - the names of the files in the data folder: which files are read, which tensor each
 * of them holds, and which file is served if several hold the same name.
 *
 *     NAME.tensord        holds the tensor NAME, and was written by the server
 *     NAME.program.json   holds the text of the program NAME: the tensor NAME.program, or
 *                         BASE.program@VERSION for BASE@VERSION.program.json; written by the server
 *                         or by hand. No other file can hold a program.
 *     STEM.npy            holds the tensor STEM
 *     X.keys.npy          holds the keys of the rows in X.npy;
 *                         X.keys@V.npy holds the keys of the rows in X@V.npy
 *     .X.keys.npy.index.tensord
 *                         holds the index of the keys in X.keys.npy, and was written by the server
 *     STEM.safetensors    holds the tensor STEM:w for each tensor w in the file;
 *                         BASE@VERSION.safetensors holds BASE:w@VERSION
 *
 * Other hidden files are ignored.
 *
 * Threads    Pure functions. */
#ifndef TD_SERVER_STORE_FILES_FILE_NAME_H
#define TD_SERVER_STORE_FILES_FILE_NAME_H

#include "server/store/table_name.h"

#include <stdbool.h>
#include <string.h>

#define TD_FILE_NAME 256

#define TD_OWN_SUFFIX         ".tensord"
#define TD_NPY_SUFFIX         ".npy"
#define TD_SAFETENSORS_SUFFIX ".safetensors"
#define TD_PROGRAM_SUFFIX     ".program.json"
#define TD_INDEX_SUFFIX       ".index.tensord"
#define TD_TEMPORARY_PREFIX   ".tensord-tmp-"
#define TD_LOCK_FILE          ".tensord.lock"
#define TD_ALIASES_FILE       "aliases.json"

/* True if the file name ends with the suffix, after at least one other character. Inline, because a
 * constant suffix makes it fast, and a scan calls it several times for each file. */
static inline bool td_data_file_is(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && memcmp(name + length - tail, suffix, tail) == 0;
}

/* True if the server loads files with this name, judging by the suffix. */
bool td_data_file_wanted(const char *name);

/* Returns the suffix of a file that td_data_file_wanted accepts, such as ".npy". */
const char *td_data_file_suffix(const char *file);

/* True for the kinds of file that the server writes for a name: NAME.tensord and NAME.program.json.
 * Hidden files are not included. */
bool td_data_file_is_own(const char *file);

/* Writes the name of the file that the server writes for a name: "t@v.tensord" for the tensor
 * "t@v", and "score@v.program.json" for the program's tensor "score.program@v". */
void td_data_own_file(const char *name, char file[TD_FILE_NAME]);

/* Writes the name of the .npy file that holds a tensor. Returns false for the name of a program. */
bool td_data_npy_file(const char *name, char file[TD_FILE_NAME]);

/* Writes the name of the only tensor that a file can hold. Returns false if the name is not valid,
 * or if the file can hold several tensors. */
bool td_data_only_name(const char *file, char name[TD_TENSOR_NAME]);

/* Returns INVALID_ARGUMENT if the name is not valid, or if it is the name of a program but the file
 * is not a file of a program. */
TD_MUST_CHECK td_status td_data_check_name(const char *file, const char *name,
                                           struct td_error *err);

/* td_data_keys_file writes the name of the file that holds the keys of a table: "m.keys@v.npy" for
 * "m@v.npy". It returns false if the file of the table is not a .npy file.
 * td_data_table_of_keys_file does the reverse: it writes the name of the table's file, and returns
 * false if the file is not a file of keys. */
bool td_data_keys_file(const char *file, char keys[TD_FILE_NAME]);
bool td_data_table_of_keys_file(const char *file, char table[TD_FILE_NAME]);

/* td_data_index_file writes the name of the file that holds the index of a file of keys.
 * td_data_keys_file_of_index does the reverse, and returns false if the file does not hold an
 * index. */
void td_data_index_file(const char *keys_file, char index[TD_FILE_NAME]);
bool td_data_keys_file_of_index(const char *file, char keys[TD_FILE_NAME]);

/* Writes the name of the tensor `tensor` of STEM.safetensors: "m:w" for the stem "m", and "m:w@v"
 * for the stem "m@v". If the name does not fit, the truncated name is too long to be valid. */
enum { TD_NAME_IN_FILE = 3 * TD_TENSOR_NAME };
void td_data_name_in_file(const char *stem, const char *tensor, char name[TD_NAME_IN_FILE]);

/* Writes to `file` the name of the next file that can hold the tensor: the server's own file, then
 * the .npy file, then each .safetensors file. Returns false after the last file. *place must be 0
 * before the first call. A program has only the server's own file. */
bool td_data_next_file(const char *name, int *place, char file[TD_FILE_NAME]);

/* Compares two file names, with a result like strcmp. If two files hold the same name, the earlier
 * file is served. The server's own files come before the other files, and each group is sorted by
 * name. */
int td_data_file_order(const char *file, const char *other);

#endif
