#include "server/calls/models.h"

#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"
#include "server/calls/services.h"
#include "server/calls/stored_programs.h"
#include "server/store/aliases/aliases.h"
#include "server/store/table_name.h"

#include <stdio.h>
#include <string.h>

static const char only_version[] = "1";

const char *td_model_version(const char *name)
{
    const char *version = td_table_version(name);
    return version ? version : only_version;
}

/* True if the /v2 path for a model of this name belongs to the statistics of all models. */
static bool is_reserved(const char *name, size_t length)
{
    return td_name_is("stats", name, length);
}

/* True if the tensor has rows. A scalar has no rows. */
static bool has_rows(const struct td_tensor_listing *listing)
{
    return listing->tensor->shape.rank > 0;
}

/* ---- one model ------------------------------------------------------------------------------- */

/* Sets the error for a name that is not a model. On entry, *err is the store's error, which names
 * the most similar tensor. */
static void unknown_model(const char *name, struct td_error *err)
{
    int count;
    const struct td_op *const *ops = td_ops(&count);
    const char *names[TD_OP_COUNT + 1];
    struct td_unicode_reason reason;
    const char *why = td_name_fault(name, strlen(name), &reason);
    if (why) {
        td_error_set(err, TD_UNKNOWN_OP, "there is no model '%s': %s", TD_SHOWN(name, strlen(name)),
                     why);
        return;
    }
    char nearest[sizeof err->did_you_mean];
    snprintf(nearest, sizeof nearest, "%s", err->did_you_mean);
    int n = 0;
    for (int i = 0; i < count; i++)
        if (strcmp(ops[i]->name, name) != 0) /* the name is that of a table */
            names[n++] = ops[i]->name;
    if (nearest[0])
        names[n++] = nearest;
    td_unknown_name(err, TD_UNKNOWN_OP, "model", name, strlen(name), names, n,
                    "POST /v2/repository/index");
}

/* Returns MODEL@VERSION with the version in the path, for example "movies@2". */
static const char *with_version(struct td_call *call, const char *model, struct td_error *err)
{
    const char *version = call->table.version;
    const size_t size = strlen(model) + strlen(version) + sizeof "@";
    char *text = td_arena_alloc(&call->arena, size, 1, err);
    if (text)
        snprintf(text, size, "%s@%s", model, version);
    return text;
}

static td_status get(struct td_call *call, const char *name, struct td_tensor_listing *out,
                     struct td_error *err)
{
    call->table.name = name;
    return td_catalog_get(&call->catalog, name, &call->arena, out, err);
}

/* Gets the tensor for a model and a version: MODEL@VERSION, or the tensor that MODEL names if its
 * version is VERSION. Because an alias can change before the tensor is read, the call continues
 * with the tensor's own name. */
static td_status get_version(struct td_call *call, struct td_tensor_listing *out,
                             struct td_error *err)
{
    struct td_path_table *table = &call->table;
    struct td_error of_model = { 0 };
    const char *name = with_version(call, table->model, err);
    if (!name)
        return TD_MEMORY_EXHAUSTED;
    const td_status absent = get(call, name, out, err);
    const bool in_refused_folder =
        absent == TD_DEVICE_UNAVAILABLE && !td_catalog_know(&call->catalog, name);
    if (absent != TD_TENSOR_NOT_FOUND && !in_refused_folder)
        return absent;
    td_status status = get(call, table->model, out, &of_model);
    if (status == TD_OK && strcmp(td_model_version(out->name), table->version) == 0) {
        table->name = out->name;
        return TD_OK;
    }
    if (status != TD_OK && status != TD_TENSOR_NOT_FOUND)
        *err = of_model;
    return status == TD_OK || status == TD_TENSOR_NOT_FOUND ? absent : status;
}

/* Maximum number of versions in an error. */
enum { VERSIONS_SHOWN = 8 };

struct versions {
    const char *names[VERSIONS_SHOWN + 1]; /* the last one stands for all further versions */
    int n;
};

static void add_version(struct versions *versions, const char *name)
{
    const char *version = td_model_version(name);
    for (int i = 0; i < versions->n; i++)
        if (strcmp(versions->names[i], version) == 0)
            return;
    if (versions->n == VERSIONS_SHOWN)
        version = "...";
    if (versions->n <= VERSIONS_SHOWN)
        versions->names[versions->n++] = version;
}

/* Finds the versions of a table or of a program: the version that the model's name refers to, and
 * all MODEL@VERSION. */
static td_status find_versions(struct td_call *call, bool of_program, struct versions *out)
{
    const struct td_catalog *catalog = &call->catalog;
    const char *model = call->table.model;
    struct td_tensor_listing current, *list;
    int count;
    out->n = 0;
    if ((of_program ? td_catalog_get_program : td_catalog_get)(catalog, model, &call->arena,
                                                               &current, TD_IGNORED) == TD_OK)
        add_version(out, current.name);
    const td_status status = td_catalog_list_versions(catalog, model, of_program, &call->arena,
                                                      &list, &count, &call->error);
    for (int i = 0; status == TD_OK && i < count; i++)
        if (has_rows(&list[i]))
            add_version(out, list[i].name);
    return status;
}

/* Returns NOT_FOUND if the table or program has versions, but not the version in the path. Returns
 * TD_OK, and leaves call->error unchanged, if it has none. */
static td_status check_version(struct td_call *call, bool of_program)
{
    const struct td_path_table *table = &call->table;
    struct versions versions;
    char text[256];
    const td_status status = table->version ? find_versions(call, of_program, &versions) : TD_OK;
    if (status != TD_OK || !table->version || versions.n == 0)
        return status;
    return td_error_set(
        &call->error, TD_NOT_FOUND, "there is no version '%s' of model '%s'; expected %s%s",
        TD_SHOWN(table->version, strlen(table->version)),
        TD_SHOWN(table->model, strlen(table->model)), versions.n > 1 ? "one of " : "",
        td_names_text(versions.names, versions.n, text, sizeof text));
}

static td_status scalar(const struct td_tensor_listing *listing, struct td_error *err)
{
    td_error_set(err, TD_NOT_FOUND,
                 "the tensor '%s' is not a model: it is a scalar, which has no rows",
                 listing->name);
    return TD_NOT_FOUND;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Gets the program for a model and a version, as get_version does for a table. */
static td_status get_program(struct td_call *call, const char *model, const char **asked,
                             struct td_tensor_listing *out, struct td_error *err)
{
    const struct td_path_table *table = &call->table;
    *asked = model;
    if (table->version && !td_table_version(model)) {
        const char *name = with_version(call, model, err);
        if (!name)
            return TD_MEMORY_EXHAUSTED;
        const td_status status =
            td_catalog_get_program(&call->catalog, name, &call->arena, out, err);
        *asked = name;
        if (status != TD_TENSOR_NOT_FOUND)
            return status;
    }
    const td_status status = td_catalog_get_program(&call->catalog, model, &call->arena, out, err);
    /* A version that an alias names is asked for by its own name, which cannot change. */
    *asked = status == TD_OK && table->version ? out->name : model;
    return status == TD_OK && table->version &&
                   strcmp(td_model_version(out->name), table->version) != 0
               ? TD_TENSOR_NOT_FOUND
               : status;
}

static void set_shape(const struct td_program_shape *from, struct td_oip_shape *to)
{
    to->rank = from->rank;
    for (int i = 0; i < from->rank; i++)
        to->dim[i] = from->sizes[i].letter == TD_SIZE_NUMBER ? from->sizes[i].size : -1;
}

td_status td_model_describe_program(struct td_call *call, struct td_oip_model *model,
                                    struct td_error *problem)
{
    struct td_program_signature signature;
    const struct td_stored_program *stored = td_stored_program_of(call, model->text, &call->error);
    const td_status status = stored
                                 ? td_stored_program_describe(call, model->name, stored, &signature)
                                 : call->error.status;
    if (status != TD_OK)
        return status;
    problem->status = TD_OK;
    if (!signature.is_ready)
        *problem = signature.problem;
    const struct td_op *op = &signature.program->op;
    const size_t n = (size_t)op->n_inputs + (size_t)op->n_outputs;
    struct td_oip_shape *shapes = td_arena_alloc(&call->arena, n, sizeof *shapes, &call->error);
    if (!shapes)
        return call->error.status;
    model->inputs = shapes;
    model->outputs = shapes + op->n_inputs;
    for (int i = 0; i < op->n_inputs; i++, shapes++) {
        *shapes = (struct td_oip_shape){ .has_dtype = true,
                                         .dtype = (td_dtype)__builtin_ctz(op->inputs[i].dtypes) };
        set_shape(&signature.program->shapes[i], shapes);
    }
    for (int i = 0; i < op->n_outputs; i++, shapes++) {
        const struct td_program_result *result = &signature.results[signature.program->outputs[i]];
        *shapes = (struct td_oip_shape){ .has_dtype = result->has_dtype, .dtype = result->dtype };
        set_shape(&result->shape, shapes);
    }
    return TD_OK;
}

/* Makes the program of this name the model of the call, if there is one. */
static td_status find_program(struct td_call *call, const char *model, struct td_oip_model *out,
                              bool *found)
{
    struct td_tensor_listing listing;
    struct td_error err = { 0 };
    const char *asked;
    const td_status status = get_program(call, model, &asked, &listing, &err);
    *found = status == TD_OK || status == TD_MEMORY_EXHAUSTED;
    if (status == TD_MEMORY_EXHAUSTED)
        call->error = err;
    if (status != TD_OK)
        return status;
    if (call->operation == td_operation_of(call->op))
        call->operation = TD_OPERATION_RUN_PROGRAM;
    call->program = asked;
    call->program_version = td_model_version(listing.name);
    call->table.model = model;
    call->table.name = NULL;
    call->table.known = true;
    const struct td_stored_program *stored =
        td_stored_program_of(call, listing.tensor, &call->error);
    if (!stored)
        return call->error.status;
    call->op = &stored->builder->program->op;
    call->error.status = TD_OK; /* clears the error that there is no table of this name */
    *out = (struct td_oip_model){ .name = model,
                                  .version = td_model_version(listing.name),
                                  .op = call->op,
                                  .text = listing.tensor };
    return TD_OK;
}

static td_status find_table(struct td_call *call, struct td_tensor_listing *out)
{
    const struct td_path_table *table = &call->table;
    struct td_error found = { 0 };
    if (is_reserved(table->model, strlen(table->model))) {
        call->error = found; /* zero; call->error can still hold the error of an earlier call */
        unknown_model(table->model, &call->error);
        return TD_UNKNOWN_OP;
    }
    const td_status status =
        table->version ? get_version(call, out, &found) : get(call, table->model, out, &found);
    if (status == TD_OK)
        return has_rows(out) ? TD_OK : scalar(out, &call->error);
    call->error = found;
    if (status != TD_TENSOR_NOT_FOUND)
        return status;
    const td_status other = check_version(call, false);
    if (other == TD_OK)
        unknown_model(table->model, &call->error);
    return other == TD_OK ? TD_UNKNOWN_OP : other;
}

/* Makes the table that has the name of the call's op, if there is one, the call's model. The router
 * cannot do this, because it does not know which tables the call is allowed to name. */
static void prefer_table(struct td_call *call)
{
    const char *name = call->op->name;
    if (call->table.model || !td_catalog_has_table(&call->catalog, name))
        return;
    if (call->operation == td_operation_of(call->op))
        call->operation = td_operation_of(td_table_op);
    call->op = td_table_op;
    call->table.model = call->table.name = name;
}

/* Checks the version of an op in the path. */
static td_status check_op_version(struct td_call *call)
{
    const char *version = call->table.version;
    if (!version || strcmp(version, only_version) == 0)
        return TD_OK;
    return td_error_set(&call->error, TD_NOT_FOUND,
                        "%s has no version '%s'; the only version is %s", td_call_subject(call),
                        TD_SHOWN(version, strlen(version)), only_version);
}

td_status td_model_find(struct td_call *call, struct td_oip_model *out)
{
    struct td_tensor_listing listing;
    bool is_program = false;
    prefer_table(call);
    *out = td_oip_model_of(call->op);
    if (!call->table.model) {
        const td_status status = find_program(call, call->op->name, out, &is_program);
        return is_program ? status : check_op_version(call);
    }
    const td_status status = find_table(call, &listing);
    if (is_reserved(call->table.model, strlen(call->table.model)))
        return status;
    if (status == TD_UNKNOWN_OP || status == TD_NOT_FOUND) {
        const td_status program = find_program(call, call->table.model, out, &is_program);
        if (is_program)
            return program;
        const td_status other = status == TD_UNKNOWN_OP ? check_version(call, true) : TD_OK;
        return other != TD_OK ? other : status;
    }
    if (status != TD_OK)
        return status;
    call->table.known = true;
    *out = (struct td_oip_model){ .name = call->table.model,
                                  .version = td_model_version(listing.name),
                                  .op = td_table_op,
                                  .table = listing.tensor };
    return TD_OK;
}

/* ---- all models ------------------------------------------------------------------------------ */

/* Tensors and aliases whose names might be model names. */
struct named {
    struct td_tensor_listing *tensors;
    struct td_alias_change *aliases;
    struct td_tensor_listing *programs;
    int n_tensors, n_aliases, n_programs;
};

static td_status read_named(const struct td_catalog *catalog, struct td_arena *arena,
                            struct named *out, struct td_error *err)
{
    const struct td_name_range all = { .prefix = "", .after = "" };
    bool more;
    td_status status =
        td_catalog_list(catalog, &all, arena, &out->tensors, &out->n_tensors, &more, err);
    if (status == TD_OK)
        status = td_catalog_list_programs(catalog, &all, arena, &out->programs, &out->n_programs,
                                          &more, err);
    return status != TD_OK
               ? status
               : td_store_list_aliases(catalog->store, arena, &out->aliases, &out->n_aliases, err);
}

static void add_entry(struct td_oip_entry *entries, int *count, const char *name, size_t length,
                      const char *version)
{
    entries[(*count)++] = (struct td_oip_entry){ name, length, version, NULL };
}

/* Returns why a program cannot run now, or NULL. */
static const char *why_not_ready(struct td_call *call, const struct td_tensor *text)
{
    const struct td_catalog *catalog = &call->catalog;
    const struct td_stored_program *stored = td_stored_program_of(call, text, TD_IGNORED);
    const char *reason = NULL;
    if (!stored)
        return "the program cannot be compiled";
    for (int i = 0; i < stored->builder->n_tables && !reason; i++)
        if (!td_catalog_know(catalog, stored->builder->tables[i].name))
            reason = "a table of the program does not exist";
    td_stored_program_drop(call, stored);
    return reason;
}

/* True if a program of this name is not a model, because the name is reserved or a table has it. */
static bool is_taken(const struct td_catalog *catalog, const char *name, size_t length)
{
    char base[TD_TENSOR_NAME];
    snprintf(base, sizeof base, "%.*s", (int)length, name);
    return is_reserved(name, length) || td_catalog_has_table(catalog, base);
}

/* True if a program, or an alias of a program, has this name, which has no version. It is then the
 * model in place of an op. */
static bool is_program(struct td_call *call, const char *name)
{
    struct td_tensor_listing listing;
    return td_catalog_get_program(&call->catalog, name, &call->arena, &listing, TD_IGNORED) ==
           TD_OK;
}

/* True if the list contains the alias of a table. If an alias has the name of its target's table,
 * it is listed as a version of that table. */
static bool is_table_alias(const struct td_catalog *catalog, const struct td_alias_change *alias)
{
    const size_t length = strlen(alias->name);
    if (is_reserved(alias->name, length) || td_is_program_name(alias->name, length) ||
        td_name_is(alias->name, alias->target, td_table_base(alias->target)))
        return false;
    return td_access_has_table(&catalog->access, alias->name, length) &&
           td_access_has_table(&catalog->access, alias->target, strlen(alias->target));
}

/* True if the list contains the alias of a program, under the same rules as for tables. Sets
 * `program` to the name of the model. */
static bool is_program_alias(const struct td_catalog *catalog, const struct td_alias_change *alias,
                             char program[TD_TENSOR_NAME])
{
    char target[TD_TENSOR_NAME];
    size_t length, target_length;
    if (!td_table_of_program(alias->name, strlen(alias->name), program, &length) ||
        !td_table_of_program(alias->target, strlen(alias->target), target, &target_length))
        return false;
    return !td_name_is(program, target, td_table_base(target)) &&
           !is_taken(catalog, program, length) &&
           td_access_has_table(&catalog->access, program, length) &&
           td_access_has_table(&catalog->access, target, target_length);
}

/* Adds the models that are aliases of programs. */
static td_status add_program_aliases(struct td_call *call, const struct named *named,
                                     struct td_oip_entry *entries, int *count)
{
    char program[TD_TENSOR_NAME];
    for (int i = 0; i < named->n_aliases; i++) {
        const struct td_alias_change *alias = &named->aliases[i];
        struct td_tensor_listing listing;
        if (!is_program_alias(&call->catalog, alias, program))
            continue;
        const size_t length = strlen(program);
        const char *name = td_arena_text(&call->arena, program, length, &call->error);
        if (!name)
            return call->error.status;
        const td_status status =
            td_catalog_get_program(&call->catalog, name, &call->arena, &listing, TD_IGNORED);
        add_entry(entries, count, name, length, td_model_version(alias->target));
        entries[*count - 1].reason = status == TD_OK ? why_not_ready(call, listing.tensor)
                                                     : "the version of the alias cannot be read";
    }
    return TD_OK;
}

td_status td_models_list(struct td_call *call, struct td_oip_entry **entries, int *count)
{
    int n_ops;
    struct named named;
    const struct td_op *const *ops = td_ops(&n_ops);
    const td_status status = read_named(&call->catalog, &call->arena, &named, &call->error);
    if (status != TD_OK)
        return status;
    *count = 0;
    *entries = td_arena_alloc(&call->arena,
                              (size_t)n_ops + (size_t)named.n_tensors + (size_t)named.n_aliases +
                                  (size_t)named.n_programs,
                              sizeof **entries, &call->error);
    if (!*entries)
        return call->error.status;
    for (int i = 0; i < named.n_tensors; i++) {
        const char *name = named.tensors[i].name;
        const size_t length = td_table_base(name);
        if (has_rows(&named.tensors[i]) && !is_reserved(name, length))
            add_entry(*entries, count, name, length, td_model_version(name));
    }
    for (int i = 0; i < named.n_aliases; i++) {
        const struct td_alias_change *alias = &named.aliases[i];
        if (is_table_alias(&call->catalog, alias))
            add_entry(*entries, count, alias->name, strlen(alias->name),
                      td_model_version(alias->target));
    }
    for (int i = 0; i < named.n_programs; i++) {
        const char *name = named.programs[i].name;
        const size_t length = td_table_base(name);
        if (is_taken(&call->catalog, name, length))
            continue;
        add_entry(*entries, count, name, length, td_model_version(name));
        (*entries)[*count - 1].reason = why_not_ready(call, named.programs[i].tensor);
    }
    const td_status aliases = add_program_aliases(call, &named, *entries, count);
    if (aliases != TD_OK)
        return aliases;
    for (int i = 0; i < n_ops; i++)
        if (!td_catalog_has_table(&call->catalog, ops[i]->name) && !is_program(call, ops[i]->name))
            add_entry(*entries, count, ops[i]->name, strlen(ops[i]->name), only_version);
    return TD_OK;
}

/* Gets the tensor to list under a table name that has counts. */
static td_status find_counted(struct td_call *call, const char *name, struct td_tensor_listing *out,
                              struct td_error *err)
{
    if (is_reserved(name, strlen(name)))
        return TD_TENSOR_NOT_FOUND;
    if (td_is_program_name(name, strlen(name)))
        return TD_TENSOR_NOT_FOUND; /* its counts are in the statistics of the model */
    const td_status status = td_catalog_get(&call->catalog, name, &call->arena, out, err);
    return status == TD_TENSOR_NOT_FOUND || status == TD_FORBIDDEN
               ? td_catalog_newest(&call->catalog, name, &call->arena, out, err)
               : status;
}

td_status td_models_counted(struct td_call *call, struct td_oip_entry **entries, int *count)
{
    struct td_table_totals *totals =
        td_arena_alloc(&call->arena, TD_METRICS_TABLES + 1, sizeof *totals, &call->error);
    *entries = td_arena_alloc(&call->arena, TD_METRICS_TABLES, sizeof **entries, &call->error);
    *count = 0;
    if (!totals || !*entries)
        return call->error.status;
    const int n = td_metrics_read_tables(call->services->metrics, totals);
    for (int i = 0; i < n && i < TD_METRICS_TABLES; i++) {
        struct td_tensor_listing listing;
        struct td_error err = { 0 };
        const td_status status = find_counted(call, totals[i].name, &listing, &err);
        if (status == TD_OK && has_rows(&listing))
            add_entry(*entries, count, totals[i].name, strlen(totals[i].name),
                      td_model_version(listing.name));
        if (status != TD_MEMORY_EXHAUSTED)
            continue;
        call->error = err;
        return status;
    }
    return TD_OK;
}

/* True if the name is reserved or the name of an op, unless the maximum number of lines is
 * reached. */
static bool must_log(const char *name, int *logged)
{
    const size_t length = td_table_base(name);
    return (is_reserved(name, length) || td_op_named(name, length)) && (*logged)++ < TD_SCAN_LINES;
}

static void log_table(struct td_services *services, const char *name, int *logged)
{
    const struct td_log_field tensor = TD_TEXT("tensor", name);
    if (!must_log(name, logged))
        return;
    if (is_reserved(name, td_table_base(name)))
        td_log(&services->log, TD_LOG_WARN, "table_is_no_model", tensor);
    else
        td_log(&services->log, TD_LOG_WARN, "table_replaces_op", tensor);
}

/* A program takes the place of an op only under its own name, not as one of its versions. */
static void log_program(struct td_services *services, const char *name, int *logged)
{
    const struct td_log_field program = TD_TEXT("program", name);
    const bool reserved = is_reserved(name, td_table_base(name));
    if ((!reserved && td_table_version(name)) || !must_log(name, logged))
        return;
    if (reserved)
        td_log(&services->log, TD_LOG_WARN, "program_is_no_model", program);
    else
        td_log(&services->log, TD_LOG_WARN, "program_replaces_op", program);
}

void td_models_log_names(struct td_services *services)
{
    struct td_catalog catalog;
    struct td_arena arena;
    struct td_error err;
    struct named named;
    int logged = 0;
    td_catalog_init(&catalog, services->store);
    td_arena_init(&arena, NULL, 0, td_buffer_pool_memory(services->buffers));
    if (read_named(&catalog, &arena, &named, &err) == TD_OK) {
        for (int i = 0; i < named.n_tensors; i++)
            if (has_rows(&named.tensors[i]))
                log_table(services, named.tensors[i].name, &logged);
        for (int i = 0; i < named.n_aliases; i++)
            log_table(services, named.aliases[i].name, &logged);
        for (int i = 0; i < named.n_programs; i++)
            log_program(services, named.programs[i].name, &logged);
    }
    td_arena_reset(&arena);
}
