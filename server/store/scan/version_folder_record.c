#include "server/store/scan/version_folder_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

td_status td_folder_record(struct td_folder_load *load, struct td_version_folder *folder,
                           struct td_error *err)
{
    const int n_files = load->manifest.n_files, n_tensors = load->n_tensors;
    folder->files = calloc((size_t)n_files + 1, sizeof *folder->files);
    folder->tensors = calloc((size_t)n_tensors + 1, sizeof *folder->tensors);
    if (!folder->files || !folder->tensors)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory for the names of its files");
    for (int i = 0; i < n_files; i++) {
        snprintf(folder->files[i].name, TD_FILE_NAME, "%s", load->manifest.files[i].name);
        folder->files[i].id = load->contents[i].id;
        memcpy(folder->files[i].sha256, load->manifest.files[i].sha256, TD_SHA256_BYTES);
        /* A file of keys has its own record. */
        td_file_id_set_keys(&folder->files[i].id, &td_file_id_unknown);
    }
    for (int i = 0; i < n_tensors; i++)
        snprintf(folder->tensors[i], TD_TENSOR_NAME, "%s", load->tensors[i].found->name);
    folder->n_files = n_files;
    folder->n_tensors = n_tensors;
    memcpy(folder->digest, load->digest, sizeof folder->digest);
    return TD_OK;
}

void td_folder_forget(struct td_version_folder *folder)
{
    free(folder->files);
    free(folder->tensors);
    folder->files = NULL;
    folder->tensors = NULL;
    folder->n_files = folder->n_tensors = 0;
}

void td_folder_count_unreadable(const struct td_folder_load *load, struct td_version_folder *folder)
{
    folder->n_unreadable = 0;
    for (int i = 0; i < load->manifest.n_files; i++) {
        const struct td_data_content *content = &load->contents[i];
        if (folder->n_unreadable == 0 && content->n_unreadable > 0)
            snprintf(folder->unreadable, sizeof folder->unreadable, "%.100s: %.128s: %.250s",
                     load->manifest.files[i].name, content->unreadable[0].name,
                     content->unreadable[0].why);
        folder->n_unreadable += content->n_unreadable;
    }
}

bool td_folder_lists(const struct td_version_folder *folder, const char *file)
{
    for (int i = 0; i < folder->n_files; i++)
        if (strcmp(folder->files[i].name, file) == 0)
            return true;
    return false;
}

void td_folder_free(struct td_version_folder *folder)
{
    free(folder->files);
    free(folder->tensors);
    free(folder);
}
