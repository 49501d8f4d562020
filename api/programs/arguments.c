#include "api/programs/arguments.h"

#include "api/json/members.h"
#include "api/json/values.h"
#include "api/text/text.h"
#include "kernels/shown_text.h"

#include <inttypes.h>
#include <string.h>

#define ATTR "attr"

/* ---- Reading ----------------------------------------------------------------------------- */

struct reader {
    struct td_json_source *source;
    struct td_argument *out;
};

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    struct reader *reader = context;
    struct td_json_source *source = reader->source;
    if (td_json_name_is(name, ATTR))
        return td_json_text(&source->scan, source->arena, path, ATTR, &reader->out->name,
                            &reader->out->length, source->err);
    if (!td_json_name_is(name, TD_ARGUMENT_DEFAULT))
        return td_json_refuse(path, source->err,
                              "an argument has no member \"%s\"; expected attr or default",
                              TD_SHOWN(name.text, name.length));
    reader->out->has_default = true;
    td_json_peek(&source->scan);
    reader->out->value = source->scan;
    return td_json_ignore(&source->scan, source->arena, source->err);
}

td_status td_argument_read(struct td_json_source *source, const struct td_json_path *path,
                           struct td_argument *out)
{
    struct reader reader = { source, out };
    *out = (struct td_argument){ 0 };
    const td_status status = td_json_object(&source->scan, path, "an argument", read_member,
                                            &reader, source->arena, source->err);
    return status == TD_OK && !out->name
               ? td_json_refuse(path, source->err, "the argument has no attr: its name")
               : status;
}

/* ---- Adding ------------------------------------------------------------------------------ */

static td_status refuse(const struct td_program_builder *builder, const struct td_json_path *path,
                        td_status status)
{
    if (status == TD_MALFORMED_REQUEST || status == TD_RESOURCE_LIMIT)
        td_json_set_pointer(path, builder->source.err);
    return status;
}

static td_status too_many(const struct td_program_builder *builder, int most)
{
    td_error_resource(builder->source.err, "arguments", (uint64_t)most + 1, (uint64_t)most,
                      "the program");
    td_error_hint(builder->source.err, "one argument can set attributes of several steps");
    return TD_RESOURCE_LIMIT;
}

/* Returns the place of an attribute of this kind after the others, or SIZE_MAX if there is none. A
 * place has 16 bytes, so a program has at most 8 arguments of any kinds. */
static size_t place_of(const struct td_program_builder *builder, td_attr_kind kind)
{
    const size_t size = td_attr_size(kind), place = (builder->arguments_size + 15) / 16 * 16;
    return place + size <= TD_ATTRS_SIZE ? place : SIZE_MAX;
}

/* Writes a list as td_attr_spec.default_text, such as "[0,-1]". */
static const char *write_list(const int64_t *values, size_t count, struct td_arena *arena,
                              struct td_error *err)
{
    enum { NUMBER = 21 }; /* a comma and an int64_t */
    const size_t size = count * NUMBER + sizeof("[]");
    char *list = td_arena_alloc(arena, size, 1, err);
    struct td_text text = { .at = list, .end = list ? list + size : NULL };
    if (!list)
        return NULL;
    td_text_string(&text, "[");
    for (size_t i = 0; i < count; i++)
        td_text_print(&text, "%s%" PRId64, i > 0 ? "," : "", values[i]);
    td_text_add(&text, "]", sizeof("]"));
    return list;
}

/* Copies a default to the descriptor, so that descriptions of the program show it. */
static td_status document_default(const struct td_attr_spec *of, const struct td_op_args *args,
                                  struct td_attr_spec *spec, struct td_arena *arena,
                                  struct td_error *err)
{
    size_t size = 0;
    const void *value = td_op_attr_bytes(of, args, &size);
    int choice = 0;
    spec->default_text = NULL;
    switch (of->kind) {
    case TD_ATTR_INT:
        memcpy(&spec->default_int, value, sizeof(int64_t));
        break;
    case TD_ATTR_FLOAT:
        memcpy(&spec->default_float, value, sizeof(double));
        break;
    case TD_ATTR_BOOL:
        spec->default_int = *(const bool *)value;
        break;
    case TD_ATTR_CHOICE:
    case TD_ATTR_DTYPE:
        memcpy(&choice, value, sizeof(choice));
        spec->default_int = choice;
        break;
    case TD_ATTR_INTS:
        spec->default_text = write_list(value, size / sizeof(int64_t), arena, err);
        return spec->default_text ? TD_OK : err->status;
    case TD_ATTR_TEXT:
    case TD_ATTR_KIND_COUNT:
        spec->default_text = td_arena_text(arena, value, size, err);
        return spec->default_text ? TD_OK : err->status;
    }
    return TD_OK;
}

static td_status add_first(struct td_program_builder *builder, const struct td_argument *argument,
                           int step, int attr, const struct td_op_args *args, int *number)
{
    const struct td_attr_spec *of = &builder->steps[step].op->attrs[attr];
    const size_t place = place_of(builder, of->kind);
    if (builder->n_arguments == TD_MAX_ATTRS || place == SIZE_MAX)
        return too_many(builder, builder->n_arguments);
    td_status status =
        td_program_names_add(&builder->names, argument->name, argument->length, TD_PROGRAM_ARGUMENT,
                             -1, builder->source.arena, builder->source.err);
    if (status != TD_OK)
        return status;
    struct td_program_name *name = &builder->names.at[builder->names.count - 1];
    struct td_attr_spec *spec = &builder->arguments[builder->n_arguments];
    name->used = true;
    *spec = *of;
    spec->name = name->text;
    spec->required = !argument->has_default;
    spec->offset = place;
    if (argument->has_default)
        status = document_default(of, args, spec, builder->source.arena, builder->source.err);
    if (status != TD_OK)
        return status;
    builder->uses[builder->n_arguments] = (struct td_argument_use){ step, attr };
    builder->arguments_size = place + td_attr_size(of->kind);
    *number = builder->n_arguments++;
    return TD_OK;
}

/* Restricts the range of an argument to the values that another attribute accepts. */
static td_status restrict_range(struct td_program_builder *builder, struct td_attr_spec *spec,
                                const struct td_attr_spec *of)
{
    if (of->kind == TD_ATTR_DTYPE)
        spec->dtypes &= of->dtypes;
    if (of->range && spec->range) {
        struct td_int_range *both =
            td_arena_alloc(builder->source.arena, 1, sizeof(*both), builder->source.err);
        if (!both)
            return builder->source.err->status;
        both->min = of->range->min > spec->range->min ? of->range->min : spec->range->min;
        both->max = of->range->max < spec->range->max ? of->range->max : spec->range->max;
        spec->range = both;
    } else if (of->range) {
        spec->range = of->range;
    }
    /* Each step checks its own range of numbers with a fraction. */
    spec->float_range = of->float_range == spec->float_range ? spec->float_range : NULL;
    return TD_OK;
}

/* Uses an existing argument for another attribute. The kind and the default must be the same. */
static td_status add_use(struct td_program_builder *builder, int number,
                         const struct td_argument *argument, int step, int attr,
                         const struct td_op_args *args)
{
    struct td_attr_spec *spec = &builder->arguments[number];
    const struct td_argument_use *use = &builder->uses[number];
    const struct td_program_step *first = &builder->steps[use->step];
    const struct td_attr_spec *of = &builder->steps[step].op->attrs[attr];
    struct td_op_args of_first = { 0 };
    size_t size = 0, other_size = 0;
    if (of->kind != spec->kind || of->choices != spec->choices)
        return td_error_set(builder->source.err, TD_MALFORMED_REQUEST,
                            "\"%s\" sets %s of step %d, which is not the same kind of attribute as "
                            "%s; expected another name",
                            spec->name, first->op->attrs[use->attr].name, use->step, of->name);
    if (use->step == step)
        of_first = *args;
    else
        memcpy(of_first.attrs, first->attrs, sizeof(of_first.attrs));
    const void *value = td_op_attr_bytes(of, args, &size),
               *other = td_op_attr_bytes(&first->op->attrs[use->attr], &of_first, &other_size);
    if (argument->has_default == spec->required ||
        (argument->has_default &&
         (size != other_size || (size > 0 && memcmp(value, other, size) != 0))))
        return td_error_set(builder->source.err, TD_MALFORMED_REQUEST,
                            "\"%s\" has another default in step %d; give the same default in both "
                            "places, or none",
                            spec->name, use->step);
    return restrict_range(builder, spec, of);
}

td_status td_argument_add(struct td_program_builder *builder, const struct td_argument *argument,
                          int step, int attr, const struct td_op_args *args,
                          const struct td_json_path *path, int *number)
{
    if (!td_program_names_has_argument(&builder->names, argument->name, argument->length))
        return refuse(builder, path, add_first(builder, argument, step, attr, args, number));
    *number = 0;
    while (!td_name_is(builder->arguments[*number].name, argument->name, argument->length))
        ++*number;
    return refuse(builder, path, add_use(builder, *number, argument, step, attr, args));
}
