#include "api/programs/declare.h"

#include "api/json/members.h"
#include "api/json/values.h"
#include "kernels/shown_text.h"

#include <string.h>

#define DTYPE "dtype"
#define SHAPE "shape"

struct reader {
    struct td_program_builder *builder;
    struct td_program_shape *shape;
    td_dtype dtype;
    bool has_dtype, has_shape;
};

static struct td_json_scan *scan_of(struct reader *reader)
{
    return &reader->builder->source.scan;
}

static struct td_error *error_of(const struct reader *reader)
{
    return reader->builder->source.err;
}

/* ---- Shapes with letters ----------------------------------------------------------------- */

static td_status add_letter(struct reader *reader, const struct td_json_path *path,
                            const char *text, size_t length, int *number)
{
    struct td_program_builder *builder = reader->builder;
    if (!td_program_name_valid(text, length))
        return td_json_refuse(path, error_of(reader),
                              "\"%s\" is not a letter; expected " TD_PROGRAM_NAME_EXPECTED,
                              TD_SHOWN(text, length));
    for (*number = 0; *number < builder->n_letters; ++*number)
        if (td_name_is(builder->letters[*number], text, length))
            return TD_OK;
    if (*number == TD_PROGRAM_LETTERS) {
        td_error_resource(error_of(reader), "letters", TD_PROGRAM_LETTERS + 1, TD_PROGRAM_LETTERS,
                          "the program");
        td_json_set_pointer(path, error_of(reader));
        return TD_RESOURCE_LIMIT;
    }
    builder->letters[builder->n_letters] =
        td_arena_text(builder->source.arena, text, length, error_of(reader));
    return builder->letters[builder->n_letters++] ? TD_OK : error_of(reader)->status;
}

static td_status refuse_size(const struct reader *reader, const struct td_json_path *path)
{
    return td_json_refuse(path, error_of(reader),
                          "a size must be an integer from 0 to 2^63 - 1, or a letter such as "
                          "\"n\"");
}

static td_status read_size(void *context, const struct td_json_path *path)
{
    struct reader *reader = context;
    struct td_program_shape *shape = reader->shape;
    struct td_program_size *size = &shape->sizes[shape->rank];
    const char *text = "";
    size_t length = 0;
    bool fits = false;
    if (shape->rank == TD_MAX_RANK) {
        td_error_resource(error_of(reader), "rank", TD_MAX_RANK + 1, TD_MAX_RANK, "the shape");
        td_json_set_pointer(path->up, error_of(reader));
        return TD_RESOURCE_LIMIT;
    }
    shape->rank++;
    const char c = td_json_peek(scan_of(reader));
    if (c == '"') {
        const td_status status = td_json_text(scan_of(reader), reader->builder->source.arena, path,
                                              "a letter", &text, &length, error_of(reader));
        return status == TD_OK ? add_letter(reader, path, text, length, &size->letter) : status;
    }
    size->letter = TD_SIZE_NUMBER;
    if (c != '-' && !(c >= '0' && c <= '9'))
        return refuse_size(reader, path);
    const td_status status = td_json_int64(scan_of(reader), &size->size, &fits, error_of(reader));
    return status == TD_OK && (!fits || size->size < 0) ? refuse_size(reader, path) : status;
}

/* ---- Declarations ------------------------------------------------------------------------ */

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct reader *reader = context;
    if (td_json_name_is(name, DTYPE)) {
        reader->has_dtype = true;
        return td_json_dtype(scan_of(reader), reader->builder->source.arena, path, &reader->dtype,
                             error_of(reader));
    }
    if (td_json_name_is(name, SHAPE)) {
        if (td_json_peek(scan_of(reader)) == 'n')
            return td_json_refuse(path, error_of(reader),
                                  "shape is null; expected a list of sizes");
        reader->has_shape = true;
        return td_json_list(scan_of(reader), path, SHAPE, read_size, reader, error_of(reader));
    }
    return td_json_refuse(path, error_of(reader),
                          "an input of a stored program has no member \"%s\"; expected dtype and "
                          "shape",
                          TD_SHOWN(name.text, name.length));
}

td_status td_declare_input(struct td_program_builder *builder, const struct td_json_path *path,
                           td_dtype *dtype, struct td_program_shape *shape)
{
    struct reader reader = { .builder = builder, .shape = shape };
    shape->rank = 0;
    const char *kind = NULL;
    if (td_json_peek(&builder->source.scan) != '{')
        kind = td_json_value_kind(&builder->source.scan);
    if (kind)
        return td_json_refuse(path, builder->source.err,
                              "the input is %s; expected its dtype and shape, such as "
                              "{\"dtype\": \"float32\", \"shape\": [\"n\", 64]}",
                              kind);
    const td_status status = td_json_object(&builder->source.scan, path, "an input", read_member,
                                            &reader, builder->source.arena, builder->source.err);
    *dtype = reader.dtype;
    if (status != TD_OK || (reader.has_dtype && reader.has_shape))
        return status;
    return td_json_refuse(path, builder->source.err, "the input has no %s",
                          reader.has_dtype ? SHAPE : DTYPE);
}
