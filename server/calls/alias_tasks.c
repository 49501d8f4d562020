#include "server/calls/alias_tasks.h"

#include "api/codec.h"
#include "api/json/string_map.h"
#include "api/message/common_members.h"
#include "api/text/suggest.h"
#include "api/text/text.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"
#include "server/calls/audit.h"
#include "server/calls/conditions.h"
#include "server/calls/services.h"
#include "server/store/aliases/aliases.h"

#include <string.h>

/* ---- the text of replies --------------------------------------------------------------------- */

/* Returns an upper bound for the size of the quoted text. Tensor names need no escapes, but the
 * reasons of problems do. */
static size_t quoted_size(const char *text)
{
    enum { LONGEST_ESCAPE = 6 };
    return text ? LONGEST_ESCAPE * strlen(text) + 8 : 8;
}

static void quote(struct td_text *text, const char *string)
{
    if (string)
        td_text_quote(text, string);
    else
        td_text_string(text, "null");
}

/* Appends "name":"target" or "name":null, with a comma before it unless it is the first member. */
static void add_alias(struct td_text *text, const char *name, const char *target, bool *first)
{
    td_text_string(text, *first ? "" : ",");
    *first = false;
    quote(text, name);
    td_text_string(text, ":");
    quote(text, target);
}

static char *begin_text(struct td_call *call, struct td_text *text, size_t size)
{
    char *begin = td_arena_alloc(&call->arena, size, 1, &call->error);
    *text = (struct td_text){ .at = begin, .end = begin ? begin + size : NULL };
    return begin;
}

/* ---- the list -------------------------------------------------------------------------------- */

enum { FRAME = 128 }; /* maximum size of a document without its members */

struct lists {
    struct td_alias_change *aliases;
    struct td_problem_listing *problems;
    int n_aliases, n_problems;
    int n_others; /* number of problems not listed */
};

static size_t lists_size(const struct lists *lists)
{
    size_t size = FRAME;
    for (int i = 0; i < lists->n_aliases; i++)
        size += quoted_size(lists->aliases[i].name) + quoted_size(lists->aliases[i].target);
    for (int i = 0; i < lists->n_problems; i++)
        size +=
            FRAME + quoted_size(lists->problems[i].source) + quoted_size(lists->problems[i].reason);
    return size;
}

static void add_problems(struct td_text *text, const struct lists *lists)
{
    for (int i = 0; i < lists->n_problems; i++) {
        td_text_string(text, i > 0 ? ",{\"source\":" : "{\"source\":");
        quote(text, lists->problems[i].source);
        td_text_string(text, ",\"reason\":");
        quote(text, lists->problems[i].reason);
        td_text_string(text, "}");
    }
}

static bool may_name(const struct td_call *call, const char *name)
{
    return td_store_allows(&call->catalog.access, name, strlen(name));
}

static td_status read_lists(struct td_call *call, struct lists *lists)
{
    struct td_store *store = call->services->store;
    td_status status = td_store_list_aliases(store, &call->arena, &lists->aliases,
                                             &lists->n_aliases, &call->error);
    if (status == TD_OK)
        status = td_store_list_problems(store, &call->arena, &lists->problems, &lists->n_problems,
                                        &lists->n_others, &call->error);
    if (call->catalog.access.n_prefixes > 0)
        /* The problems name files that the token must not reveal. */
        lists->n_problems = lists->n_others = 0;
    return status;
}

static td_status encode_list(struct td_call *call)
{
    struct lists lists;
    struct td_text text;
    bool first = true;
    const td_status status = read_lists(call, &lists);
    const char *begin = status == TD_OK ? begin_text(call, &text, lists_size(&lists)) : NULL;
    if (!begin)
        return call->error.status;
    td_text_string(&text, "{\"aliases\":{");
    for (int i = 0; i < lists.n_aliases; i++) {
        const struct td_alias_change *alias = &lists.aliases[i];
        if (may_name(call, alias->name) && may_name(call, alias->target))
            add_alias(&text, alias->name, alias->target, &first);
    }
    td_text_string(&text, "},\"problems\":[");
    add_problems(&text, &lists);
    td_text_string(&text, "]");
    if (lists.n_others > 0) {
        td_text_string(&text, ",\"problems_not_listed\":");
        td_text_uint(&text, (uint64_t)lists.n_others);
    }
    td_text_string(&text, "}");
    td_reply_set(&call->reply, 200, "application/json", begin, (size_t)(text.at - begin));
    return TD_OK;
}

static td_status begin_list(struct td_call *call)
{
    call->reply_format = TD_FORMAT_JSON;
    return TD_OK;
}

/* Sets the maximum size of the reply. If the list is long, a worker encodes it. */
static td_status admit_list(struct td_call *call, struct td_admission *admission)
{
    enum { PER_ALIAS = 1024 };
    admission->encoded_bound =
        PER_ALIAS * ((size_t)td_store_count_aliases(call->services->store) + 1);
    return td_call_admit_memory(call, admission->encoded_bound);
}

const struct td_task td_aliases_list_task = { .begin = begin_list,
                                              .admit = admit_list,
                                              .encode = encode_list };

/* ---- flips ----------------------------------------------------------------------------------- */

struct state {
    struct td_alias_flip flip;
    struct td_json_scan scan; /* scan of the body */
    bool persist_given, set_given;
    /* Reply to the flip. It is made before the flip, because no error is allowed afterwards. */
    const char *reply;
    size_t reply_bytes;
};

static td_status begin_flip(struct td_call *call)
{
    struct state *state = td_arena_alloc(&call->arena, 1, sizeof *state, &call->error);
    if (!state || td_conditions_refuse(
                      call, "does not apply to aliases; use the member \"if\" of the body: "
                            "{\"set\": {...}, \"if\": {\"NAME\": \"NAME@VERSION\"}}") != TD_OK)
        return call->error.status;
    *state = (struct state){ .flip.access = &call->catalog.access };
    call->state = state;
    call->schedule.must_queue = true;
    const td_status status =
        td_codec_request_format(call->headers.content_type, &call->body_format, &call->error);
    if (status == TD_OK && call->body_format != TD_FORMAT_JSON)
        return td_error_set(&call->error, TD_UNSUPPORTED_MEDIA_TYPE,
                            "the body that sets aliases must be application/json");
    return status;
}

static td_status flip_argument(struct td_call *call, const char *name, size_t length,
                               const char *value, size_t value_length)
{
    static const char *const known[] = { "persist" };
    struct state *state = call->state;
    const char *shown = TD_SHOWN(name, length);
    if (!td_name_is(known[0], name, length)) {
        td_error_set(&call->error, TD_MALFORMED_REQUEST,
                     "POST of aliases has no query parameter \"%s\"; expected persist", shown);
        td_suggest(&call->error, name, length, known, 1);
        return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, shown);
    }
    if (state->persist_given) {
        td_error_set(&call->error, TD_MALFORMED_REQUEST, "persist is given twice");
        return td_error_at_attribute(&call->error, TD_MALFORMED_REQUEST, known[0]);
    }
    const int truth =
        td_common_member_choose(known[0], td_bool_names, value, value_length, &call->error);
    state->persist_given = true;
    state->flip.persist = truth % 2 == 1;
    return truth < 0 ? TD_MALFORMED_REQUEST : TD_OK;
}

/* Reads a JSON object of aliases and their targets. */
static td_status read_changes(struct td_call *call, const struct td_json_path *path,
                              const char *what, const struct td_alias_change **out, int *count)
{
    struct state *state = call->state;
    struct td_string_map map;
    const td_status status =
        td_json_string_map(&state->scan, path, what, &call->arena, &map, &call->error);
    if (status != TD_OK)
        return status;
    struct td_alias_change *changes =
        td_arena_alloc(&call->arena, (size_t)map.count, sizeof *changes, &call->error);
    if (!changes)
        return call->error.status;
    for (int i = 0; i < map.count; i++)
        changes[i] = (struct td_alias_change){ map.pairs[i].name, map.pairs[i].value };
    *out = changes;
    *count = map.count;
    return TD_OK;
}

static td_status read_member(void *context, const struct td_json_path *path,
                             struct td_json_name name)
{
    static const char *const known[] = { "set", "if" };
    struct td_call *call = context;
    struct state *state = call->state;
    struct td_alias_flip *flip = &state->flip;
    if (td_json_name_is(name, "set")) {
        state->set_given = true;
        return read_changes(call, path, "set", &flip->set, &flip->n_set);
    }
    if (td_json_name_is(name, "if"))
        return read_changes(call, path, "if", &flip->wanted, &flip->n_wanted);
    td_json_refuse(path, &call->error, "the member \"%s\" is unknown; expected set or if",
                   TD_SHOWN(name.text, name.length));
    td_suggest(&call->error, name.text, name.length, known, 2);
    return TD_MALFORMED_REQUEST;
}

static td_status read_body(struct td_call *call)
{
    struct state *state = call->state;
    struct td_json_scan *scan = &state->scan;
    *scan = (struct td_json_scan){ .begin = call->body,
                                   .at = call->body,
                                   .end = call->body + call->body_bytes };
    if (td_json_peek(scan) != '{')
        return td_json_refuse(NULL, &call->error,
                              "expected a JSON object with the aliases to set: {\"set\": {...}}");
    td_status status =
        td_json_object(scan, NULL, "the body", read_member, call, &call->arena, &call->error);
    td_json_peek(scan);
    if (status == TD_OK && scan->at != scan->end)
        return td_json_syntax(scan, scan->at, &call->error, "expected the end of the body");
    if (status == TD_OK && !state->set_given)
        return td_json_refuse(NULL, &call->error,
                              "set is missing; expected the aliases to set: {\"set\": {\"NAME\": "
                              "\"NAME@VERSION\"}}");
    return status;
}

static td_status check_rights(const struct td_call *call, struct td_error *err)
{
    const struct state *state = call->state;
    const struct td_alias_flip *flip = &state->flip;
    td_status status = TD_OK;
    for (int i = 0; i < flip->n_set && status == TD_OK; i++) {
        status = td_catalog_may_write_alias(&call->catalog, flip->set[i].name, err);
        if (status == TD_OK && flip->set[i].target)
            status = td_catalog_may_name_alias(&call->catalog, flip->set[i].target, err);
    }
    for (int i = 0; i < flip->n_wanted && status == TD_OK; i++) {
        status = td_catalog_may_name_alias(&call->catalog, flip->wanted[i].name, err);
        if (status == TD_OK && flip->wanted[i].target)
            status = td_catalog_may_name_alias(&call->catalog, flip->wanted[i].target, err);
    }
    return status;
}

static td_status make_reply(struct td_call *call)
{
    struct state *state = call->state;
    const struct td_alias_flip *flip = &state->flip;
    const bool persisted = td_store_persists_aliases(call->services->store);
    struct td_text text;
    size_t size = FRAME;
    bool first = true;
    for (int i = 0; i < flip->n_set; i++)
        size += quoted_size(flip->set[i].name) + quoted_size(flip->set[i].target);
    state->reply = begin_text(call, &text, size);
    if (!state->reply)
        return call->error.status;
    td_text_string(&text, "{\"aliases\":{");
    for (int i = 0; i < flip->n_set; i++)
        add_alias(&text, flip->set[i].name, flip->set[i].target, &first);
    td_text_string(&text, persisted ? "},\"persisted\":true}" : "},\"persisted\":false}");
    state->reply_bytes = (size_t)(text.at - state->reply);
    return TD_OK;
}

static td_status decode_flip(struct td_call *call)
{
    td_status status = read_body(call);
    if (status == TD_OK)
        status = check_rights(call, &call->error);
    return status == TD_OK ? make_reply(call) : status;
}

static td_effect flip_effect(struct td_call *call, struct td_writer *writer)
{
    struct state *state = call->state;
    state->flip.writer = writer;
    return td_store_plan_flip(call->services->store, writer) ? TD_EFFECT_DISK : TD_EFFECT_MEMORY;
}

static td_status change_flip(struct td_call *call, struct td_worker *worker)
{
    const struct state *state = call->state;
    struct td_store *store = call->services->store;
    const struct td_alias_flip *flip = &state->flip;
    (void)worker;
    const td_status status = td_store_flip(store, flip, &call->error);
    const bool persisted = td_store_persists_aliases(store);
    for (int i = 0; status == TD_OK && i < flip->n_set; i++)
        td_audit_alias(call, flip->set[i].name, flip->set[i].target, persisted);
    return status;
}

static td_status encode_flip(struct td_call *call)
{
    const struct state *state = call->state;
    td_reply_set(&call->reply, 200, "application/json", state->reply, state->reply_bytes);
    return TD_OK;
}

const struct td_task td_aliases_flip_task = { .begin = begin_flip,
                                              .argument = flip_argument,
                                              .decode = decode_flip,
                                              .effect = flip_effect,
                                              .change = change_flip,
                                              .encode = encode_flip,
                                              .body_limit = TD_BODY_ANY };
