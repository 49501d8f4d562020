#include "server/calls/stored_programs.h"

#include "server/calls/catalog.h"
#include "server/calls/models.h"
#include "server/calls/services.h"
#include "server/calls/table_reads.h"
#include "server/store/store.h"

/* Compiles the text. Returns a reference to the form, which the store keeps if it has room. */
static struct td_buffer *compile(struct td_services *services, const struct td_tensor *text,
                                 struct td_error *err)
{
    struct td_memory *memory = td_buffer_pool_memory(services->buffers);
    struct td_stored_program *made;
    const char *name = "";
    uint64_t number;
    (void)td_store_identity(text, &name, &number);
    if (td_stored_program_read(text->data, text->bytes, TD_NAMED(name), memory, &made, err) !=
        TD_OK)
        return NULL;
    return td_store_keep_compiled(services->store, text, &made->base, made->arena.taken);
}

const struct td_stored_program *
td_stored_program_of(struct td_call *call, const struct td_tensor *text, struct td_error *err)
{
    struct td_buffer *form = td_store_compiled(call->services->store, text);
    if (!form)
        form = compile(call->services, text, err);
    return form && td_arena_keep(&call->arena, form, err)
               ? (const struct td_stored_program *)(void *)form
               : NULL;
}

/* Only the number of references changes. */
static struct td_buffer *buffer_of(const struct td_stored_program *stored)
{
    return &((struct td_stored_program *)(uintptr_t)stored)->base;
}

void td_stored_program_drop(struct td_call *call, const struct td_stored_program *stored)
{
    td_arena_drop(&call->arena, buffer_of(stored));
}

void td_stored_program_keep(struct td_call *call, const struct td_tensor *text,
                            const struct td_stored_program *stored)
{
    struct td_buffer *form = td_buffer_ref(buffer_of(stored));
    td_buffer_unref(td_store_keep_compiled(call->services->store, text, form, stored->arena.taken));
}

td_status td_stored_program_describe(struct td_call *call, const char *name,
                                     const struct td_stored_program *stored,
                                     struct td_program_signature *out)
{
    struct td_error why = { 0 };
    const td_status status =
        td_stored_program_check(stored, name, &call->catalog.resolver, &call->arena, out, &why);
    if (status == TD_MEMORY_EXHAUSTED)
        call->error = why;
    if (status == TD_OK || status == TD_MEMORY_EXHAUSTED)
        return status;
    out->is_ready = false;
    out->problem = why;
    return TD_OK;
}

td_status td_stored_program_use(struct td_call *call)
{
    const struct td_common_members common = call->request.common;
    struct td_tensor text;
    struct td_program *program;
    td_status status = td_catalog_resolve_program(&call->catalog, call->program, &call->arena,
                                                  &text, &call->error);
    if (status != TD_OK)
        return status;
    const struct td_stored_program *stored = td_stored_program_of(call, &text, &call->error);
    if (!stored)
        return call->error.status;
    status = td_stored_program_bind(stored, call->program, &call->borrowed.resolver, &call->arena,
                                    &program, &call->error);
    if (status != TD_OK)
        return status;
    const char *name;
    uint64_t number;
    if (td_store_identity(&text, &name, &number))
        call->program_version = td_model_version(name);
    call->table.place = td_table_reads_place(call->services->metrics, &text);
    call->op = &program->op;
    td_request_init(&call->request, call->op);
    call->request.common = common;
    return TD_OK;
}

struct td_program_listing td_stored_program_listing(const struct td_tensor_listing *listing)
{
    return (struct td_program_listing){ .name = listing->name,
                                        .version = listing->version,
                                        .etag = listing->etag,
                                        .source = listing->source,
                                        .persisted = listing->persisted,
                                        .bytes = listing->tensor->bytes };
}
