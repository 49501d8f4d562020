#include "api/programs/names.h"

#include "api/message/common_members.h"
#include "api/text/suggest.h"
#include "kernels/name.h"
#include "kernels/shown_text.h"

#include <string.h>

/* ---- Adding ------------------------------------------------------------------------------ */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool td_program_name_valid(const char *text, size_t length)
{
    if (length == 0 || length > TD_PROGRAM_NAME_MOST || !is_letter(text[0]))
        return false;
    for (size_t i = 1; i < length; i++)
        if (!is_letter(text[i]) && !(text[i] >= '0' && text[i] <= '9'))
            return false;
    return true;
}

/* True for the names of members of a request, and of parameters that the Open Inference Protocol
 * reserves. An input of that name could not be given. */
static bool is_reserved(const char *text, size_t length)
{
    static const char *const reserved[] = {
        "inputs",       "outputs",        "steps",        "ttl_s",
        "priority",     "timeout",        "headers",      "binary_data_output",
        "sequence_id",  "sequence_start", "sequence_end", "complex",
        "content_type",
    };
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (td_name_is(reserved[i], text, length))
            return true;
    for (int i = 0; i < TD_COMMON_MEMBER_COUNT; i++)
        if (td_name_is(td_common_member_names[i], text, length))
            return true;
    return false;
}

/* Returns a number below, equal to or above 0 as the name comes before, is or comes after the
 * text. */
static int compare(const char *name, const char *text, size_t length)
{
    const size_t its = strlen(name), both = its < length ? its : length;
    const int order = memcmp(name, text, both);
    return order != 0 ? order : (its > length) - (its < length);
}

/* Returns the place of the text among the sorted names: of the first name that does not come before
 * it. */
static int place_of(const struct td_program_names *names, const char *text, size_t length)
{
    int begin = 0, end = names->count;
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (compare(names->at[names->sorted[middle]].text, text, length) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static struct td_program_name *find(const struct td_program_names *names, const char *text,
                                    size_t length)
{
    const int place = place_of(names, text, length);
    if (place == names->count)
        return NULL;
    struct td_program_name *name = &names->at[names->sorted[place]];
    return td_name_is(name->text, text, length) ? name : NULL;
}

bool td_program_names_has_argument(const struct td_program_names *names, const char *text,
                                   size_t length)
{
    const struct td_program_name *name = find(names, text, length);
    return name && name->value == TD_PROGRAM_ARGUMENT;
}

static td_status taken(const struct td_program_name *other, struct td_error *err)
{
    if (other->step >= 0)
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "\"%s\" is already the name of a result of step %d; expected a new "
                            "name",
                            other->text, other->step);
    return td_error_set(err, TD_MALFORMED_REQUEST,
                        "\"%s\" is already the name of an %s; expected a new name", other->text,
                        other->value == TD_PROGRAM_ARGUMENT ? "argument" : "input");
}

td_status td_program_names_add(struct td_program_names *names, const char *text, size_t length,
                               int value, int step, struct td_arena *arena, struct td_error *err)
{
    if (!td_program_name_valid(text, length))
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "\"%s\" is not a name; expected " TD_PROGRAM_NAME_EXPECTED,
                            TD_SHOWN(text, length));
    if (is_reserved(text, length))
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "\"%s\" is reserved for a member of requests; expected another name",
                            TD_SHOWN(text, length));
    const struct td_program_name *other = find(names, text, length);
    if (other)
        return taken(other, err);
    names->at =
        td_arena_grow(arena, names->at, names->count, &names->capacity, sizeof(*names->at), err);
    names->sorted = td_arena_grow(arena, names->sorted, names->count, &names->sorted_capacity,
                                  sizeof(*names->sorted), err);
    char *copy = td_arena_text(arena, text, length, err);
    if (!names->at || !names->sorted || !copy)
        return err->status;
    int *sorted = names->sorted + place_of(names, text, length);
    memmove(sorted + 1, sorted,
            (size_t)(names->sorted + names->count - sorted) * sizeof(*names->sorted));
    *sorted = names->count;
    names->at[names->count++] =
        (struct td_program_name){ .text = copy, .value = value, .step = step };
    return TD_OK;
}

/* ---- Using ------------------------------------------------------------------------------- */

/* Suggests the nearest of the names that the step can use. */
static void suggest(const struct td_program_names *names, const char *text, size_t length, int step,
                    struct td_error *err)
{
    enum { MOST = 256 };
    const char *known[MOST];
    int n = 0;
    for (int i = 0; i < names->count && n < MOST; i++)
        if (names->at[i].step < step && names->at[i].value != TD_PROGRAM_ARGUMENT)
            known[n++] = names->at[i].text;
    td_suggest(err, text, length, known, n);
}

td_status td_program_names_use(struct td_program_names *names, const char *text, size_t length,
                               int step, int *value, struct td_error *err)
{
    struct td_program_name *name = find(names, text, length);
    if (!name) {
        td_error_set(err, TD_MALFORMED_REQUEST, "there is no input or result \"%s\" in the program",
                     TD_SHOWN(text, length));
        suggest(names, text, length, step, err);
        return TD_MALFORMED_REQUEST;
    }
    if (name->value == TD_PROGRAM_ARGUMENT)
        return td_error_set(err, TD_MALFORMED_REQUEST,
                            "\"%s\" is an argument, which sets attributes; expected an input or a "
                            "result",
                            name->text);
    if (name->step >= step) {
        td_error_set(err, TD_MALFORMED_REQUEST,
                     "\"%s\" does not exist yet: it is a result of step %d; a step can use inputs "
                     "and the results of earlier steps",
                     name->text, name->step);
        suggest(names, text, length, step, err);
        return TD_MALFORMED_REQUEST;
    }
    name->used = true;
    *value = name->value;
    return TD_OK;
}

void td_program_names_hint(const struct td_program_names *names, const char *text, size_t length,
                           int step, struct td_error *err)
{
    const size_t dollar = length > 0 && text[0] == '$';
    const struct td_program_name *name = find(names, text + dollar, length - dollar);
    if (!name || name->value == TD_PROGRAM_ARGUMENT || name->step >= step)
        return;
    td_error_hint(err, "to use the %s \"%s\" of the program, write \"$%s\"",
                  name->step < 0 ? "input" : "result", name->text, name->text);
}

const char *td_program_names_of(const struct td_program_names *names, int value)
{
    for (int i = 0; i < names->count; i++)
        if (names->at[i].value == value)
            return names->at[i].text;
    return NULL;
}
