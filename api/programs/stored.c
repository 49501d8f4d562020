#include "api/programs/stored.h"

#include "api/programs/read.h"
#include "kernels/program/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- Compiling --------------------------------------------------------------------------- */

static void release(struct td_buffer *base)
{
    struct td_stored_program *stored = (struct td_stored_program *)(void *)base;
    td_arena_reset(&stored->arena);
    free(stored);
}

static td_status compile(struct td_stored_program *stored, const char *text, size_t bytes,
                         struct td_error *err)
{
    char *copy = td_arena_alloc(&stored->arena, bytes + TD_JSON_PADDING, 1, err);
    if (!copy)
        return err->status;
    memcpy(copy, text, bytes);
    memset(copy + bytes, 0, TD_JSON_PADDING);
    stored->text = copy;
    stored->bytes = bytes;
    return td_program_read_declared(copy, bytes, &stored->arena, &stored->builder, err);
}

static td_status refuse_compiled(size_t bytes, const char *name, struct td_error *err)
{
    td_error_resource(err, "compiled_bytes", bytes, TD_PROGRAM_COMPILED_BYTES, name);
    td_error_hint(err, "each constant in the text takes hundreds of bytes; move the constants into "
                       "a table, or pass them as an input");
    return TD_RESOURCE_LIMIT;
}

td_status td_stored_program_read(const char *text, size_t bytes, const char *name,
                                 struct td_memory *memory, struct td_stored_program **out,
                                 struct td_error *err)
{
    if (bytes > TD_PROGRAM_BYTES)
        return td_error_resource(err, "program_bytes", bytes, TD_PROGRAM_BYTES, name);
    struct td_stored_program *stored = malloc(sizeof(*stored));
    if (!stored)
        return td_error_set(err, TD_MEMORY_EXHAUSTED, "no memory to store the program");
    td_buffer_init(&stored->base, NULL, 0, release);
    td_arena_init(&stored->arena, NULL, 0, memory);
    td_status status = compile(stored, text, bytes, err);
    if (status == TD_OK && stored->arena.taken > TD_PROGRAM_COMPILED_BYTES)
        status = refuse_compiled(stored->arena.taken, name, err);
    if (status == TD_OK)
        *out = stored;
    else
        td_buffer_unref(&stored->base);
    return status;
}

td_status td_program_check_text(const char *text, size_t bytes, struct td_error *err)
{
    struct td_stored_program *stored = NULL;
    const td_status status =
        td_stored_program_read(text, bytes, "the program", td_memory_heap(), &stored, err);
    if (stored)
        td_buffer_unref(&stored->base);
    return status;
}

/* ---- Binding ----------------------------------------------------------------------------- */

/* Copies the parts of the program that differ between calls: its op and its values. */
static struct td_program *copy_program(const struct td_program *from, const char *name,
                                       struct td_arena *arena, struct td_error *err)
{
    struct td_program *program = td_arena_alloc(arena, 1, sizeof(*program), err);
    struct td_program_value *values =
        td_arena_alloc(arena, (size_t)from->n_values, sizeof(*values), err);
    if (!program || !values)
        return NULL;
    memcpy(values, from->values, (size_t)from->n_values * sizeof(*values));
    *program = *from;
    program->values = values;
    program->op.name = name;
    program->op.detail = program;
    return program;
}

static td_status find_table(const struct td_program *program, const struct td_program_table *table,
                            struct td_resolver *resolver, struct td_arena *arena,
                            struct td_error *err)
{
    struct td_tensor *tensor = td_arena_alloc(arena, 1, sizeof(*tensor), err);
    if (!tensor)
        return err->status;
    const td_status status = td_resolve(resolver, table->name, table->length, arena, tensor, err);
    program->values[table->value].constant = status == TD_OK ? tensor : NULL;
    program->values[table->value].is_missing = status != TD_OK;
    if (status == TD_OK || status == TD_MEMORY_EXHAUSTED)
        return status;
    const struct td_program_builder *builder = program->context;
    if (status == TD_TENSOR_NOT_FOUND)
        td_program_names_hint(&builder->names, table->name, table->length, table->step, err);
    td_error_at_input(err, status, "%s", table->input);
    return td_program_blame(program, table->step, status, err);
}

td_status td_stored_program_bind(const struct td_stored_program *stored, const char *name,
                                 struct td_resolver *resolver, struct td_arena *arena,
                                 struct td_program **out, struct td_error *err)
{
    const struct td_program_builder *builder = stored->builder;
    struct td_program *program = copy_program(builder->program, name, arena, err);
    td_status status = program ? TD_OK : err->status;
    for (int t = 0; t < builder->n_tables && status == TD_OK; t++)
        status = find_table(program, &builder->tables[t], resolver, arena, err);
    *out = program;
    return status;
}

/* ---- Checking ---------------------------------------------------------------------------- */

td_status td_stored_program_check(const struct td_stored_program *stored, const char *name,
                                  struct td_resolver *resolver, struct td_arena *arena,
                                  struct td_program_signature *out, struct td_error *err)
{
    const struct td_program_builder *builder = stored->builder;
    struct td_program *program = copy_program(builder->program, name, arena, err);
    struct td_program_result *results =
        td_arena_alloc(arena, (size_t)builder->n_values, sizeof(*results), err);
    if (!program || !results)
        return err->status;
    for (int v = 0; v < builder->n_values; v++)
        results[v] = (struct td_program_result){ .shape.rank = -1 };
    *out = (struct td_program_signature){ .program = program, .results = results };
    out->is_ready = true;
    for (int t = 0; t < builder->n_tables; t++) {
        struct td_error why = { 0 };
        const td_status status = find_table(program, &builder->tables[t], resolver, arena, &why);
        if (status == TD_OK)
            continue;
        if (status == TD_MEMORY_EXHAUSTED) {
            *err = why;
            return status;
        }
        if (out->is_ready)
            out->problem = why;
        out->is_ready = false;
    }
    return td_program_results(program, arena, results, err);
}
