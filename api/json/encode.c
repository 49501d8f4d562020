#include "api/json/encode.h"

#include "api/json/print_scalars.h"
#include "api/json/print_strings.h"
#include "api/message/raw.h"
#include "api/text/base64.h"
#include "api/text/text.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- a tensor ---- */

/* Upper bound for the text of a tensor without its data: member names, dtype, 16 dimensions and
 * brackets. */
#define ENVELOPE 512

/* Returns the nesting depth of the lists in `data`. A dimension of size 0 contains no lists. */
static int nested_rank(const struct td_tensor *tensor, td_layout layout)
{
    if (layout == TD_LAYOUT_FLAT)
        return 1;
    int rank = 0;
    while (rank < tensor->shape.rank && (rank == 0 || tensor->shape.dim[rank - 1] != 0))
        rank++;
    return rank;
}

/* Computes an upper bound for the length of the text of elements and lists. Does not need the data,
 * which might not be computed yet. */
static bool data_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes)
{
    size_t lists = 1, brackets;
    if (!td_json_elements_bound(tensor, bytes))
        return false;
    int rank = nested_rank(tensor, layout);
    for (int i = 0; i < rank - 1; i++) {
        /* Adds two brackets and a comma for each list of the next level. */
        if (!td_size_mul(lists, (size_t)tensor->shape.dim[i], &lists) ||
            !td_size_mul(lists, 3, &brackets) || !td_size_add(*bytes, brackets, bytes))
            return false;
    }
    return true;
}

static bool base64_bound(const struct td_tensor *tensor, size_t *bytes)
{
    size_t lengths;
    *bytes = tensor->bytes;
    if (tensor->dtype == TD_DTYPE_STRING &&
        (!td_size_mul((size_t)tensor->numel, sizeof(uint32_t), &lengths) ||
         !td_size_add(tensor->bytes, lengths, bytes)))
        return false;
    return td_base64_encoded_size(*bytes, bytes);
}

static bool tensor_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes)
{
    bool fits = layout == TD_LAYOUT_BASE64 ? base64_bound(tensor, bytes)
                                           : data_bound(tensor, layout, bytes);
    return fits && td_size_add(*bytes, ENVELOPE, bytes);
}

/* Form in which a computed tensor is written. */
struct form {
    td_layout layout;
    size_t bytes; /* upper bound of the text's size */
};

/* Chooses the form of a tensor: the requested layout, or base64 if the tensor has strings that are
 * not UTF-8. */
static td_status choose_form(const struct td_tensor *tensor, td_layout layout,
                             const struct td_arena *arena, struct form *form, struct td_error *err)
{
    struct td_json_strings strings = { .valid = true };
    td_status status = TD_OK;
    if (tensor->dtype == TD_DTYPE_STRING && layout != TD_LAYOUT_BASE64)
        status = td_json_measure_strings(tensor, &arena->stop, &strings, err);
    if (status != TD_OK)
        return status;
    form->layout = strings.valid ? layout : TD_LAYOUT_BASE64;
    if (!tensor_bound(tensor, form->layout, &form->bytes) ||
        (strings.valid && !td_size_add(form->bytes, strings.escape_bytes, &form->bytes)))
        return td_error_resource(err, "output_bytes", UINT64_MAX, INT64_MAX, "the tensor as JSON");
    return TD_OK;
}

/* Writes elements and checks regularly whether to stop. Returns NULL with err filled if the call
 * must stop. */
static char *write_elements(char *at, const struct td_tensor *tensor, int64_t begin, int64_t n,
                            struct td_stop_meter *meter, struct td_error *err)
{
    if (tensor->dtype == TD_DTYPE_STRING)
        return td_json_write_strings(at, tensor, begin, n, meter, err);
    while (n > 0) {
        const int64_t step = n < TD_STOP_ELEMENTS ? n : TD_STOP_ELEMENTS;
        at = td_json_write_elements(at, tensor, begin, step);
        if (td_stop_work(meter, (size_t)step * TD_STOP_ELEMENT, err) != TD_OK)
            return NULL;
        begin += step;
        n -= step;
    }
    return at;
}

/* Writes nested lists, one innermost list at a time, including the brackets of outer lists that
 * start or end there. Only the last dimension can be zero. */
static char *write_nested(char *at, const struct td_tensor *tensor, int rank,
                          struct td_stop_meter *meter, struct td_error *err)
{
    const int64_t *dim = tensor->shape.dim;
    if (rank == 0)
        return (at = write_elements(at, tensor, 0, 1, meter, err)) ? at - 1 : NULL;
    int64_t n_rows = 1, done[TD_MAX_RANK] = { 0 };
    for (int i = 0; i < rank - 1; i++)
        n_rows *= dim[i];
    int64_t width = dim[rank - 1];
    int open = rank;
    for (int64_t r = 0; r < n_rows; r++) {
        memset(at, '[', (size_t)open);
        at += open;
        if (width && !(at = write_elements(at, tensor, r * width, width, meter, err)))
            return NULL;
        at -= width > 0; /* removes the last comma */
        *at++ = ']';
        open = 1;
        for (int i = rank - 2; i >= 0 && ++done[i] == dim[i]; i--) {
            done[i] = 0;
            *at++ = ']';
            open++;
        }
        *at++ = ',';
    }
    return at - 1;
}

static char *write_flat(char *at, const struct td_tensor *tensor, struct td_stop_meter *meter,
                        struct td_error *err)
{
    *at++ = '[';
    if (tensor->numel && !(at = write_elements(at, tensor, 0, tensor->numel, meter, err)))
        return NULL;
    at -= tensor->numel > 0;
    *at++ = ']';
    return at;
}

/* Writes the tensor's bytes as base64. First copies strings to a buffer, each with its length.
 * Returns NULL with err filled on error. */
static char *write_base64(char *at, const struct td_tensor *tensor, struct td_arena *arena,
                          struct td_error *err)
{
    enum { STEP = 6 << 20 };
    const void *bytes = tensor->data;
    size_t size = tensor->bytes;
    if (tensor->dtype == TD_DTYPE_STRING) {
        if (!td_raw_strings_size(tensor, &size)) {
            td_error_set(err, TD_NOT_ACCEPTABLE, "a string of 4 GiB or more has no base64 form");
            return NULL;
        }
        char *joined = td_arena_alloc(arena, size, 1, err);
        if (!joined)
            return NULL;
        if (td_raw_write_strings(joined, tensor, &arena->stop, err) != TD_OK)
            return NULL;
        bytes = joined;
    }
    for (size_t done = 0; done < size; done += STEP) { /* each step is a multiple of three bytes */
        const size_t left = size - done;
        if (done > 0 && td_stop_check(&arena->stop, err) != TD_OK)
            return NULL;
        at = td_base64_encode(at, (const char *)bytes + done, left < STEP ? left : STEP);
    }
    return at;
}

/* Writes T, the object of one tensor. */
static td_status write_tensor(struct td_text *text, const struct td_tensor *tensor,
                              td_layout layout, struct td_arena *arena, struct td_error *err)
{
    const bool base64 = layout == TD_LAYOUT_BASE64;
    struct td_stop_meter meter = td_stop_meter(&arena->stop);
    td_text_string(text, "{\"dtype\":\"");
    td_text_string(text, td_dtype_info(tensor->dtype)->name);
    td_text_string(text, "\",\"shape\":[");
    td_text_dims(text, tensor->shape.dim, tensor->shape.rank);
    td_text_string(text, base64 ? "],\"base64\":\"" : "],\"data\":");
    const int rank = nested_rank(tensor, layout);
    char *end = base64      ? write_base64(text->at, tensor, arena, err)
                : rank == 1 ? write_flat(text->at, tensor, &meter, err)
                            : write_nested(text->at, tensor, rank, &meter, err);
    if (!end)
        return err->status;
    text->at = end;
    if (base64)
        td_text_string(text, "\"");
    td_text_string(text, "}");
    return TD_OK;
}

/* ---- the reply ---- */

bool td_json_tensor_bound(const struct td_tensor *tensor, td_layout layout, size_t *bytes)
{
    /* Base64 of strings needs a buffer for their bytes and lengths. A string that is too long for
     * base64 is an error that td_json_encode_tensor reports. */
    size_t joined = 0;
    if (tensor->dtype == TD_DTYPE_STRING && !td_raw_strings_size(tensor, &joined))
        joined = 0;
    return tensor_bound(tensor, layout, bytes) && td_size_add(*bytes, joined, bytes);
}

/* Makes the written text the reply. A text that was cut must never be sent. */
static td_status set_reply(struct td_reply *reply, const char *begin, const struct td_text *text,
                           struct td_error *err)
{
    assert(!text->full);
    if (text->full)
        return td_error_set(err, TD_MEMORY_EXHAUSTED,
                            "the reply is longer than the memory that was computed for it");
    td_reply_set(reply, 200, "application/json", begin, (size_t)(text->at - begin));
    return TD_OK;
}

td_status td_json_encode_tensor(const struct td_tensor *tensor, td_layout layout,
                                struct td_arena *arena, struct td_reply *reply,
                                struct td_error *err)
{
    struct form form;
    if (choose_form(tensor, layout, arena, &form, err) != TD_OK)
        return err->status;
    char *begin = td_arena_alloc(arena, form.bytes, 1, err);
    struct td_text text = { .at = begin, .end = begin ? begin + form.bytes : NULL };
    if (!begin || write_tensor(&text, tensor, form.layout, arena, err) != TD_OK)
        return err->status;
    return set_reply(reply, begin, &text, err);
}

/* Text before and after the outputs. */
static const struct {
    const char *begin, *end;
} envelopes[] = {
    [TD_OUTPUT_ONE] = { "{\"output\":", "" },
    [TD_OUTPUT_LIST] = { "{\"outputs\":[", "]" },
    [TD_OUTPUT_NAMED] = { "{\"outputs\":{", "}" },
};

bool td_json_encoded_bound(const struct td_request *request, size_t *bytes)
{
    *bytes = ENVELOPE;
    for (int i = 0; i < td_request_n_outputs(request); i++) {
        size_t tensor;
        if (!tensor_bound(td_request_output(request, i), request->common.layout, &tensor) ||
            !td_size_add(*bytes, tensor, bytes))
            return false;
    }
    return true;
}

/* Chooses the form of each output, and sets *bytes to an upper bound of the reply's size. */
static td_status choose_forms(const struct td_request *request, const struct td_arena *arena,
                              struct form *forms, size_t *bytes, struct td_error *err)
{
    *bytes = ENVELOPE + td_replaced_bound(request) + td_step_times_bound(request);
    for (int i = 0; i < td_request_n_outputs(request); i++) {
        const td_status status = choose_form(td_request_output(request, i), request->common.layout,
                                             arena, &forms[i], err);
        if (status != TD_OK)
            return status;
        if (!td_size_add(*bytes, forms[i].bytes, bytes))
            return td_error_resource(err, "output_bytes", UINT64_MAX, INT64_MAX,
                                     "the reply as JSON");
    }
    return TD_OK;
}

td_status td_json_encode(const struct td_request *request, struct td_arena *arena,
                         struct td_reply *reply, struct td_error *err)
{
    const td_output_form output_form = td_op_output_form(request->op);
    struct form only;
    const int n = td_request_n_outputs(request);
    struct form *forms = n <= 1 ? &only : td_arena_alloc(arena, (size_t)n, sizeof *forms, err);
    size_t capacity;
    if (!forms || choose_forms(request, arena, forms, &capacity, err) != TD_OK)
        return err->status;
    char *begin = td_arena_alloc(arena, capacity, 1, err);
    if (!begin)
        return err->status;

    struct td_text text = { .at = begin, .end = begin + capacity };
    td_text_string(&text, envelopes[output_form].begin);
    for (int i = 0; i < n; i++) {
        if (i > 0)
            td_text_string(&text, ",");
        if (output_form == TD_OUTPUT_NAMED) {
            td_text_quote(&text, request->op->outputs[td_request_output_index(request, i)].name);
            td_text_string(&text, ":");
        }
        if (write_tensor(&text, td_request_output(request, i), forms[i].layout, arena, err) !=
            TD_OK)
            return err->status;
    }
    if (output_form != TD_OUTPUT_ONE)
        td_text_string(&text, envelopes[output_form].end);
    (void)td_replaced_write(request, ",\"bounds\":", &text);
    td_step_times_write(request, ",\"steps\":[", &text);
    td_text_string(&text, "}");
    return set_reply(reply, begin, &text, err);
}
