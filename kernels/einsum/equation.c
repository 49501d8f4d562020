#include "kernels/einsum/equation.h"

#include "kernels/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Characters -------------------------------------------------------------------------- */

#define END_OF_TEXT 0u
#define NOT_UTF8    UINT32_MAX /* the bytes are not a UTF-8 character */

/* True if `c` is invisible in a message or changes the direction of the text. */
static bool is_invisible(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* Writes the character in quotes, such as 'j', or as "U+0009" if it is invisible. Returns
 * `text`. */
#define QUOTED_SIZE 16
static const char *quoted(uint32_t character, char *text)
{
    if (is_invisible(character)) {
        snprintf(text, QUOTED_SIZE, "U+%04" PRIX32, character);
        return text;
    }
    char *at = text;
    *at++ = '\'';
    at = td_utf8_write(at, character);
    *at++ = '\'';
    *at = '\0';
    return text;
}

/* ---- Parsing ----------------------------------------------------------------------------- */

/* A subscript as parsed from the text. */
struct parsed_subscript {
    /* Number of labels, of which at most TD_MAX_RANK are stored. */
    int64_t n_labels;
    uint8_t label[TD_MAX_RANK];
    /* Number of labels before the ellipsis, or -1 if there is no ellipsis. */
    int ellipsis;
};

struct parser {
    const char *text;
    /* The next character, after peek has skipped spaces. */
    const unsigned char *at;
    /* Length in bytes of the next character, or 0 if it is not UTF-8. */
    size_t size;
    struct td_equation *equation;
    const struct td_shape *const *shapes;
    /* True if labels were dropped because no shapes can have that many labels. */
    bool too_large;
    int64_t n_inputs;
    struct parsed_subscript inputs[TD_EINSUM_MAX_INPUTS];
    bool has_output;
    struct parsed_subscript output;
    struct td_error *err;
};

static uint32_t peek(struct parser *p)
{
    while (*p->at == ' ')
        p->at++;
    /* Handles ASCII in a fast path, without which parsing is a fifth slower in bench_plan. */
    if (*p->at < 0x80) {
        p->size = 1;
        return *p->at;
    }
    p->size = td_utf8_character(p->at, TD_UTF8_MAX);
    return p->size > 0 ? td_utf8_code_point(p->at, p->size) : NOT_UTF8;
}

static bool accept(struct parser *p, uint32_t character)
{
    if (peek(p) != character)
        return false;
    p->at += p->size;
    return true;
}

/* Adds the position of the next character to an INVALID_EQUATION error. */
static td_status fail_here(const struct parser *p)
{
    p->err->offset = (const char *)p->at - p->text;
    return td_error_at_attribute(p->err, TD_INVALID_EQUATION, "equation");
}

static td_status fail_expected(struct parser *p, const char *expected)
{
    char text[QUOTED_SIZE];
    uint32_t character = peek(p);
    ptrdiff_t offset = (const char *)p->at - p->text;
    if (character == END_OF_TEXT)
        td_error_set(p->err, TD_INVALID_EQUATION, "equation ends at byte %td; expected %s", offset,
                     expected);
    else if (character == NOT_UTF8)
        td_error_set(p->err, TD_INVALID_EQUATION,
                     "equation has 0x%02x at byte %td, which is not UTF-8; expected %s", *p->at,
                     offset, expected);
    else
        td_error_set(p->err, TD_INVALID_EQUATION, "equation has %s at byte %td; expected %s",
                     quoted(character, text), offset, expected);
    return fail_here(p);
}

/* Returns the number of a label, or -1 if no previous subscript has it. */
static int find_label(const struct td_equation *equation, uint32_t character)
{
    for (int i = 0; i < equation->n_named; i++)
        if (equation->character[i] == character)
            return i;
    return -1;
}

/* Adds a label to the subscript of an input. If `keep` is false, because there are too many inputs,
 * only counts the label. */
static void add_input_label(struct parser *p, struct parsed_subscript *to, uint32_t character,
                            bool keep)
{
    struct td_equation *equation = p->equation;
    if (!keep || to->n_labels >= TD_MAX_RANK) {
        p->too_large = true;
    } else {
        int label = find_label(equation, character);
        if (label < 0) {
            label = equation->n_named++;
            equation->character[label] = character;
        }
        to->label[to->n_labels] = (uint8_t)label;
    }
    to->n_labels++;
}

static td_status add_output_label(struct parser *p, struct parsed_subscript *to, uint32_t character)
{
    if (to->n_labels < TD_MAX_RANK && !p->too_large) {
        int label = find_label(p->equation, character);
        if (label < 0) {
            char text[QUOTED_SIZE];
            td_error_set(p->err, TD_INVALID_EQUATION,
                         "equation has %s at byte %td, in the output; expected a label of an "
                         "input",
                         quoted(character, text), (const char *)p->at - p->text);
            return fail_here(p);
        }
        to->label[to->n_labels] = (uint8_t)label;
    }
    to->n_labels++;
    return TD_OK;
}

static td_status parse_ellipsis(struct parser *p, struct parsed_subscript *to)
{
    if (to->ellipsis >= 0)
        return fail_expected(p, "at most one \"...\" in a subscript");
    for (int i = 0; i < 3; i++)
        if (!accept(p, '.'))
            return fail_expected(p, "'.', as in \"...\"");
    to->ellipsis = (int)(to->n_labels < TD_MAX_RANK ? to->n_labels : TD_MAX_RANK);
    return TD_OK;
}

/* Parses labels up to the character that ends the subscript. */
static td_status parse_subscript(struct parser *p, struct parsed_subscript *to, bool keep)
{
    to->n_labels = 0;
    to->ellipsis = -1;
    for (;;) {
        td_status status = TD_OK;
        uint32_t character = peek(p);
        if (character == END_OF_TEXT || character == ',' || character == '-')
            return TD_OK;
        if (character == NOT_UTF8 || character == '>')
            return fail_expected(p, p->has_output ? "a label, \"...\" or the end"
                                                  : "a label, \"...\", ',', \"->\" or the end");
        if (character == '.') {
            status = parse_ellipsis(p, to);
        } else {
            if (p->has_output)
                status = add_output_label(p, to, character);
            else
                add_input_label(p, to, character, keep);
            p->at += p->size;
        }
        if (status != TD_OK)
            return status;
    }
}

static td_status parse_text(struct parser *p)
{
    td_status status;
    do {
        struct parsed_subscript discarded;
        bool keep = p->n_inputs < TD_EINSUM_MAX_INPUTS;
        status = parse_subscript(p, keep ? &p->inputs[p->n_inputs] : &discarded, keep);
        if (status != TD_OK)
            return status;
        p->n_inputs++;
    } while (accept(p, ','));
    if (accept(p, '-')) {
        if (!accept(p, '>'))
            return fail_expected(p, "'>', as in \"->\"");
        p->has_output = true;
        status = parse_subscript(p, &p->output, true);
        if (status != TD_OK)
            return status;
    }
    if (peek(p) != END_OF_TEXT)
        return fail_expected(p, "a label, \"...\" or the end");
    return TD_OK;
}

/* ---- Shapes ------------------------------------------------------------------------------ */

static td_status check_count(const struct parser *p, int n_shapes)
{
    if (n_shapes > TD_EINSUM_MAX_INPUTS) {
        td_error_set(p->err, TD_INVALID_ARGUMENT, "inputs has %d tensors; must have at most %d",
                     n_shapes, TD_EINSUM_MAX_INPUTS);
        return td_error_at_input(p->err, TD_INVALID_ARGUMENT, "inputs");
    }
    if (n_shapes != p->n_inputs) {
        td_error_set(p->err, TD_INVALID_ARGUMENT,
                     "inputs has %d tensor%s; the equation expects %" PRId64, n_shapes,
                     n_shapes == 1 ? "" : "s", p->n_inputs);
        td_error_at_attribute(p->err, TD_INVALID_ARGUMENT, "equation");
        return td_error_at_input(p->err, TD_INVALID_ARGUMENT, "inputs");
    }
    return TD_OK;
}

static void add_input_shape(const struct parser *p, int input)
{
    char name[32];
    snprintf(name, sizeof(name), "inputs[%d]", input);
    td_error_add_shape(p->err, name, p->shapes[input]);
}

/* Adds shapes to a SHAPE_MISMATCH error: the shape of `input`, and the shape of the conflicting
 * input `other`. `other` is -1 if the error concerns only one input. */
static td_status fail_shapes(const struct parser *p, int other, int input)
{
    if (other >= 0 && other != input)
        add_input_shape(p, other);
    add_input_shape(p, input);
    td_error_at_attribute(p->err, TD_SHAPE_MISMATCH, "equation");
    return td_error_at_input(p->err, TD_SHAPE_MISMATCH, "inputs[%d]", input);
}

static td_status check_rank(const struct parser *p, int input)
{
    const struct parsed_subscript *subscript = &p->inputs[input];
    const struct td_shape *shape = p->shapes[input];
    bool open = subscript->ellipsis >= 0;
    if (subscript->n_labels == shape->rank || (open && subscript->n_labels < shape->rank))
        return TD_OK;
    char text[TD_SHAPE_TEXT];
    td_error_set(p->err, TD_SHAPE_MISMATCH,
                 "inputs[%d] has shape %s, rank %d; its subscript expects rank %" PRId64 "%s",
                 input, td_shape_text(shape, text, sizeof(text)), shape->rank, subscript->n_labels,
                 open ? " or more" : "");
    return fail_shapes(p, -1, input);
}

/* Returns the first input that has the label with its current extent. Such an input always
 * exists. */
static int input_with_extent(const struct parser *p, int label)
{
    const struct td_equation *equation = p->equation;
    for (int input = 0;; input++)
        for (int d = 0; d < equation->inputs[input].rank; d++)
            if (equation->inputs[input].label[d] == label &&
                p->shapes[input]->dim[d] == equation->extent[label])
                return input;
}

static td_status fail_extent(const struct parser *p, int label, int input, int64_t extent)
{
    const struct td_equation *equation = p->equation;
    int other = input_with_extent(p, label);
    char text[QUOTED_SIZE];
    if (label >= equation->n_named)
        td_error_set(p->err, TD_SHAPE_MISMATCH,
                     "dimension %d of the ellipsis is %" PRId64 " in inputs[%d] and %" PRId64
                     " in inputs[%d]; the sizes must be equal unless one is 1",
                     label - equation->n_labels, equation->extent[label], other, extent, input);
    else
        td_error_set(p->err, TD_SHAPE_MISMATCH,
                     "label %s is %" PRId64 " in inputs[%d] and %" PRId64
                     " in inputs[%d]; the sizes must be equal",
                     quoted(equation->character[label], text), equation->extent[label], other,
                     extent, input);
    if (label < equation->n_named)
        *td_utf8_write(p->err->label, equation->character[label]) = '\0';
    p->err->extents[0] = equation->extent[label];
    p->err->extents[1] = extent;
    p->err->has_extents = true;
    return fail_shapes(p, other, input);
}

/* Expands a subscript into the labels before the ellipsis, the last n dimensions of the ellipsis
 * and the labels after it. The caller has checked that the rank is at most TD_MAX_RANK. */
static void expand_subscript(const struct td_equation *equation,
                             const struct parsed_subscript *parsed, int n, struct td_subscript *to)
{
    int before = parsed->ellipsis >= 0 ? parsed->ellipsis : (int)parsed->n_labels;
    int after = (int)parsed->n_labels - before;
    memcpy(to->label, parsed->label, (size_t)before);
    for (int i = 0; i < n; i++)
        to->label[before + i] = (uint8_t)(equation->n_labels - n + i);
    memcpy(to->label + before + n, parsed->label + before, (size_t)after);
    to->rank = before + n + after;
}

static uint32_t next_letter(uint32_t letter)
{
    return letter == 'Z' ? 'a' : letter == 'z' ? 0x100 : letter + 1;
}

/* Assigns the first unused letters to the dimensions of the ellipsis. */
static void name_ellipsis(struct td_equation *equation)
{
    uint32_t letter = 'A';
    for (int i = equation->n_named; i < equation->n_labels; i++) {
        while (find_label(equation, letter) >= 0)
            letter = next_letter(letter);
        equation->character[i] = letter;
        letter = next_letter(letter);
    }
}

static td_status resolve_shapes(const struct parser *p)
{
    struct td_equation *equation = p->equation;
    const int n_inputs = (int)p->n_inputs; /* also the number of shapes */
    int n_ellipsis = 0;                    /* maximum number of dimensions of an ellipsis */
    for (int k = 0; k < n_inputs; k++) {
        td_status status = check_rank(p, k);
        if (status != TD_OK)
            return status;
        int n = p->shapes[k]->rank - (int)p->inputs[k].n_labels;
        n_ellipsis = n > n_ellipsis ? n : n_ellipsis;
    }
    equation->n_inputs = n_inputs;
    equation->n_labels = equation->n_named + n_ellipsis;
    name_ellipsis(equation);
    for (int i = 0; i < equation->n_labels; i++)
        equation->extent[i] = i < equation->n_named ? -1 : 1;

    for (int k = 0; k < n_inputs; k++) {
        const struct td_shape *shape = p->shapes[k];
        struct td_subscript *input = &equation->inputs[k];
        expand_subscript(equation, &p->inputs[k], shape->rank - (int)p->inputs[k].n_labels, input);
        for (int d = 0; d < shape->rank; d++) {
            int label = input->label[d];
            int64_t *extent = &equation->extent[label];
            bool named = label < equation->n_named;
            if (*extent == (named ? -1 : 1))
                *extent = shape->dim[d];
            else if (*extent != shape->dim[d] && (named || shape->dim[d] != 1))
                return fail_extent(p, label, k, shape->dim[d]);
        }
    }
    return TD_OK;
}

/* ---- Output ------------------------------------------------------------------------------ */

/* Finds the labels that occur once in all inputs, sorted by code point. Writes at most TD_MAX_RANK
 * labels and returns the total number. */
static int implicit_output_labels(const struct td_equation *equation, uint8_t *label)
{
    uint16_t occurrences[TD_EINSUM_MAX_LABELS];
    memset(occurrences, 0, (size_t)equation->n_labels * sizeof(occurrences[0]));
    for (int k = 0; k < equation->n_inputs; k++)
        for (int d = 0; d < equation->inputs[k].rank; d++)
            occurrences[equation->inputs[k].label[d]]++;
    uint8_t sorted[TD_EINSUM_MAX_LABELS];
    int n = 0;
    for (int i = 0; i < equation->n_named; i++) {
        if (occurrences[i] != 1)
            continue;
        int at = n++;
        for (; at > 0 && equation->character[sorted[at - 1]] > equation->character[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (uint8_t)i;
    }
    memcpy(label, sorted, (size_t)(n < TD_MAX_RANK ? n : TD_MAX_RANK));
    return n;
}

static td_status resolve_output(struct parser *p)
{
    struct td_equation *equation = p->equation;
    int n_ellipsis = equation->n_labels - equation->n_named;
    struct parsed_subscript *output = &p->output;
    if (!p->has_output) {
        output->n_labels = implicit_output_labels(equation, output->label);
        output->ellipsis = 0;
    }
    if (output->ellipsis < 0 && n_ellipsis > 0) {
        td_error_set(p->err, TD_INVALID_ARGUMENT,
                     "the ellipsis of the inputs has %d dimension%s; the output of the equation "
                     "must also have \"...\"",
                     n_ellipsis, n_ellipsis == 1 ? "" : "s");
        return td_error_at_attribute(p->err, TD_INVALID_ARGUMENT, "equation");
    }
    if (output->n_labels + n_ellipsis > TD_MAX_RANK)
        return td_error_resource(p->err, "rank", (uint64_t)(output->n_labels + n_ellipsis),
                                 TD_MAX_RANK, "output");
    expand_subscript(equation, output, n_ellipsis, &equation->output);
    equation->output_shape.rank = equation->output.rank;
    for (int d = 0; d < equation->output.rank; d++)
        equation->output_shape.dim[d] = equation->extent[equation->output.label[d]];
    return TD_OK;
}

/* ---- Advice ------------------------------------------------------------------------------ */

/* Characters that are valid labels but were probably intended as syntax. */
static const struct {
    uint32_t character;
    const char *instead; /* NULL if the advice is to remove the character */
} lookalikes[] = {
    { 0x2192, "->" },  { 0x27f6, "->" },  { 0x21d2, "->" }, /* arrows */
    { 0x2026, "..." }, { 0x22ef, "..." },                   /* ellipses */
    { 0x2013, "-" },   { 0x2014, "-" },   { 0x2212, "-" },  /* dashes, a minus */
    { ';', "," },      { 0xff0c, "," },                     /* other separators */
    { '(', NULL },     { ')', NULL },     { '[', NULL },
    { ']', NULL },     { '{', NULL },     { '}', NULL },
};

/* Appends advice to the error message about the first such character in the text. */
static void add_advice(const char *text, struct td_error *err)
{
    const unsigned char *at = (const unsigned char *)text;
    const size_t length = strlen(err->message);
    for (size_t size; (size = *at ? td_utf8_character(at, TD_UTF8_MAX) : 0) > 0; at += size)
        for (size_t i = 0; i < sizeof(lookalikes) / sizeof(lookalikes[0]); i++) {
            char label[QUOTED_SIZE];
            if (td_utf8_code_point(at, size) != lookalikes[i].character)
                continue;
            snprintf(err->message + length, sizeof(err->message) - length,
                     lookalikes[i].instead ? ". %s is read as a label. Write \"%s\" instead"
                                           : ". %s is read as a label. Remove it",
                     quoted(lookalikes[i].character, label), lookalikes[i].instead);
            return;
        }
}

td_status td_equation_parse(const char *text, const struct td_shape *const *shapes, int n_shapes,
                            struct td_arena *arena, struct td_equation **equation,
                            struct td_error *err)
{
    struct td_equation *made = td_arena_alloc(arena, 1, sizeof(*made), err);
    if (!made)
        return err->status;
    made->n_named = 0;
    struct parser p; /* not cleared, because every field is set before it is read */
    p.text = text;
    p.at = (const unsigned char *)text;
    p.equation = made;
    p.shapes = shapes;
    p.too_large = false;
    p.n_inputs = 0;
    p.has_output = false;
    p.err = err;

    td_status status = parse_text(&p);
    if (status == TD_OK)
        status = check_count(&p, n_shapes);
    if (status == TD_OK)
        status = resolve_shapes(&p);
    if (status == TD_OK)
        status = resolve_output(&p);
    if (status == TD_OK)
        *equation = made;
    else
        add_advice(text, err);
    return status;
}
