#include "server/calls/stored_programs.h"

#include "server/calls/catalog.h"
#include "server/calls/services.h"
#include "server/calls/table_reads.h"
#include "server/store/store.h"

const struct td_stored_program *td_stored_program_of(const struct td_tensor *text,
                                                     struct td_error *err)
{
    struct td_buffer *compiled = td_store_compiled(text);
    struct td_stored_program *made;
    if (!compiled && td_stored_program_read(text->data, text->bytes, &made, err) == TD_OK)
        compiled = td_store_keep_compiled(text, &made->base);
    return (const struct td_stored_program *)(void *)compiled;
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
    const struct td_stored_program *stored = td_stored_program_of(&text, &call->error);
    if (!stored)
        return call->error.status;
    status = td_stored_program_bind(stored, call->program, &call->borrowed.resolver, &call->arena,
                                    &program, &call->error);
    if (status != TD_OK)
        return status;
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
