#include "kernels/einsum/equation.h"
#include "kernels/utf8.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

#define MAX_SHAPES 20

/* "[2,3] [3,4]": returns the number of shapes. */
static int shapes_of(const char *text, struct td_shape *shapes, const struct td_shape **pointers)
{
    int n = 0;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        EXPECT(n < MAX_SHAPES, "too many shapes");
        pointers[n] = &shapes[n];
        shapes[n++] = shape(text);
        text = strchr(text, ']') + 1;
    }
    return n;
}

static td_status parse(const char *text, const char *shapes_text, struct td_equation **equation,
                       struct td_error *err)
{
    struct td_shape shapes[MAX_SHAPES];
    const struct td_shape *pointers[MAX_SHAPES];
    int n = shapes_of(shapes_text, shapes, pointers);
    return td_equation_parse(text, pointers, n, &test_arena, equation, err);
}

/* The parsed equation with a character for every dimension: "Aij,Ajk->Aik". */
static const char *parsed_text(const struct td_equation *equation, char *text)
{
    char *at = text;
    for (int k = 0; k <= equation->n_inputs; k++) {
        const struct td_subscript *subscript =
            k < equation->n_inputs ? &equation->inputs[k] : &equation->output;
        if (k > 0)
            at += sprintf(at, "%s", k < equation->n_inputs ? "," : "->");
        for (int d = 0; d < subscript->rank; d++)
            at = td_utf8_write(at, equation->character[subscript->label[d]]);
    }
    *at = '\0';
    return text;
}

/* Cases with "tf" are from tf.einsum's documentation, those with "numpy" from numpy.einsum's. */
static const struct {
    const char *case_name;
    const char *equation, *shapes;
    const char *parsed, *output;
} results[] = {
    { "tf: matrix product", "ij,jk->ik", "[2,3] [3,4]", "ij,jk->ik", "[2,4]" },
    { "tf: batched matrix product", "bij,bjk->bik", "[7,2,3] [7,3,4]", "bij,bjk->bik", "[7,2,4]" },
    { "tf: trace", "ii", "[3,3]", "ii->", "[]" },
    { "tf: repeated labels of the output", "i->iii", "[3]", "i->iii", "[3,3,3]" },
    { "tf: ellipses broadcast", "...ij,...jk->...ik", "[4,1,2,3] [5,3,6]", "ABij,Bjk->ABik",
      "[4,5,2,6]" },
    { "numpy: implicit matrix product", "ij,jk", "[2,3] [3,4]", "ij,jk->ik", "[2,4]" },
    { "numpy: implicit output is sorted", "ba", "[2,3]", "ba->ab", "[3,2]" },
    { "numpy: an implicit output may be transposed", "ij,jh", "[2,3] [3,4]", "ij,jh->hi", "[4,2]" },
    { "numpy: the implicit output begins with the ellipsis", "i...j", "[2,7,3]", "iAj->Aij",
      "[7,2,3]" },
    { "upper case sorts before lower case", "aB", "[2,3]", "aB->Ba", "[3,2]" },
    { "labels are sorted by code point", "\xc3\xa9z1", "[2,3,4]", "\xc3\xa9z1->1z\xc3\xa9",
      "[4,3,2]" },
    { "characters of two, three and four bytes",
      "\xce\xb1\xe2\x88\x91\xf0\x9f\x98\x80->\xf0\x9f\x98\x80\xce\xb1\xe2\x88\x91", "[2,3,4]",
      "\xce\xb1\xe2\x88\x91\xf0\x9f\x98\x80->\xf0\x9f\x98\x80\xce\xb1\xe2\x88\x91", "[4,2,3]" },
    { "the highest character", "\xf4\x8f\xbf\xbf->", "[2]", "\xf4\x8f\xbf\xbf->", "[]" },
    { "symbols are labels", "1$->$1", "[2,3]", "1$->$1", "[3,2]" },
    { "a control character", "\t->\t", "[2]", "\t->\t", "[2]" },
    { "a label in three inputs is summed", "i,i,i", "[4] [4] [4]", "i,i,i->", "[]" },
    { "spaces are ignored", " i j,  j k - > i k ", "[2,3] [3,4]", "ij,jk->ik", "[2,4]" },
    { "spaces are ignored in an ellipsis", ". . .i", "[2,3]", "Ai->Ai", "[2,3]" },
    { "a scalar", "->", "[]", "->", "[]" },
    { "an empty equation is a scalar", "", "[]", "->", "[]" },
    { "scalars", ",->", "[] []", ",->", "[]" },
    { "a sum of all elements", "ij->", "[2,3]", "ij->", "[]" },
    { "an ellipsis of no dimension", "i...->i", "[3]", "i->i", "[3]" },
    { "an output ellipsis of no dimension", "i...->...i", "[3]", "i->i", "[3]" },
    { "an output ellipsis that no input has", "i->...i", "[3]", "i->i", "[3]" },
    { "only an ellipsis", "...", "[2,3]", "AB->AB", "[2,3]" },
    { "labels around an ellipsis", "i...j->j...i", "[2,3,4,5]", "iABj->jABi", "[5,3,4,2]" },
    { "an ellipsis at different positions", "...i,j...->...ij", "[3,2] [4,3]", "Ai,jA->Aij",
      "[3,2,4]" },
    { "an ellipsis in one input only", "i...,i->...", "[3,2,4] [3]", "iAB,i->AB", "[2,4]" },
    { "ellipses align from the right", "...,...->...", "[3] [2,3]", "B,AB->AB", "[2,3]" },
    { "extents of 1 are broadcast in both inputs", "...,...->...", "[1,5] [4,1]", "AB,AB->AB",
      "[4,5]" },
    { "an extent of 1 is broadcast to the third input", "...,...,...->...", "[1] [1] [4]",
      "A,A,A->A", "[4]" },
    { "1 is broadcast to 0", "...,...->...", "[1] [0]", "A,A->A", "[0]" },
    { "1 is broadcast to an earlier 0", "...,...->...", "[0] [1]", "A,A->A", "[0]" },
    { "dimensions of the ellipsis are named by unused letters", "A...C->...", "[2,3,4,5]",
      "ABDC->BD", "[3,4]" },
    { "16 labels", "abcdefghijklmnop->ponmlkjihgfedcba", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]",
      "abcdefghijklmnop->ponmlkjihgfedcba", "[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]" },
    { "an output of rank 16", "i->iiiiiiiiiiiiiiii", "[1]", "i->iiiiiiiiiiiiiiii",
      "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]" },
    { "16 inputs", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p->p",
      "[1] [1] [1] [1] [1] [1] [1] [1] [1] [1] [1] [1] [1] [1] [1] [9]",
      "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p->p", "[9]" },
};

TD_TEST_EACH(an_equation_is_parsed_as_this, results)
{
    struct td_equation *equation;
    struct td_error err;
    td_status status = parse(results[_i].equation, results[_i].shapes, &equation, &err);
    ck_assert_msg(status == TD_OK, "%s: %s", results[_i].case_name, err.message);
    char text[4096];
    ck_assert_msg(strcmp(parsed_text(equation, text), results[_i].parsed) == 0, "%s: parsed as %s",
                  results[_i].case_name, text);
    expect_shape(&equation->output_shape, results[_i].output, results[_i].case_name);
}

TD_TEST(labels_are_numbered_by_first_occurrence_and_have_extents)
{
    struct td_equation *equation;
    struct td_error err;
    ck_assert_int_eq(parse("z...a,b...->...zb", "[2,1,5,3] [7,4,1]", &equation, &err), TD_OK);
    static const int64_t extents[] = { 2, 3, 7, 4, 5 }; /* z, a, b, the ellipsis */
    ck_assert_int_eq(equation->n_labels, 5);
    ck_assert_int_eq(equation->n_named, 3);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(equation->extent[i], extents[i]);
    ck_assert_int_eq(equation->inputs[1].label[0], 2);
    ck_assert_int_eq(equation->inputs[1].label[2], 4);
}

TD_TEST(an_equation_may_have_256_labels)
{
    char text[16 * (16 * 3 + 1) + 8], *at = text;
    struct td_shape all = { .rank = 16 };
    const struct td_shape *shapes[16];
    for (int d = 0; d < 16; d++)
        all.dim[d] = d + 1;
    for (int k = 0; k < 16; k++) {
        shapes[k] = &all;
        for (int d = 0; d < 16; d++)
            at = td_utf8_write(at, (uint32_t)(0x3b1 + k * 16 + d));
        *at++ = ',';
    }
    strcpy(at - 1, "->");
    struct td_equation *equation;
    struct td_error err;
    ck_assert_int_eq(td_equation_parse(text, shapes, 16, &test_arena, &equation, &err), TD_OK);
    ck_assert_int_eq(equation->n_labels, 256);
    ck_assert_int_eq(equation->inputs[15].label[15], 255);
    ck_assert_int_eq(equation->extent[255], 16);
    ck_assert_uint_eq(equation->character[255], 0x3b1 + 255);
}

static const struct {
    const char *case_name;
    const char *equation;
    int64_t offset;
    const char *message;
} malformed[] = {
    { "a dash", "i\u2013>j", 4,
      "equation has '>' at byte 4; expected a label, \"...\", ',', \"->\" or the end. '\u2013' is "
      "read as a label. Write \"-\" instead" },
    { "an ellipsis in the output alone", "i->\u2026i", 3,
      "equation has '\u2026' at byte 3, in the output; expected a label of an input. '\u2026' is "
      "read as a label. Write \"...\" instead" },
    { "half an arrow", "i-j", 2, "equation has 'j' at byte 2; expected '>', as in \"->\"" },
    { "an arrow that ends", "i-", 2, "equation ends at byte 2; expected '>', as in \"->\"" },
    { "trailing spaces count in offsets", "i- ", 3,
      "equation ends at byte 3; expected '>', as in \"->\"" },
    { "the second half of an arrow", "i>j", 1,
      "equation has '>' at byte 1; expected a label, \"...\", ',', \"->\" or the end" },
    { "a second arrow", "ij->i->j", 5,
      "equation has '-' at byte 5; expected a label, \"...\" or the end" },
    { "half a second arrow", "i->i>", 4,
      "equation has '>' at byte 4; expected a label, \"...\" or the end" },
    { "a comma in the output", "i->i,", 4,
      "equation has ',' at byte 4; expected a label, \"...\" or the end" },
    { "one dot", "i.j->i", 2, "equation has 'j' at byte 2; expected '.', as in \"...\"" },
    { "two dots", "i..->i", 3, "equation has '-' at byte 3; expected '.', as in \"...\"" },
    { "four dots", "....->", 3,
      "equation has '.' at byte 3; expected at most one \"...\" in a subscript" },
    { "a dot at the end", "i->i.", 5, "equation ends at byte 5; expected '.', as in \"...\"" },
    { "two ellipses", "...i...->...i", 4,
      "equation has '.' at byte 4; expected at most one \"...\" in a subscript" },
    { "two ellipses in the output", "...i->...i...", 10,
      "equation has '.' at byte 10; expected at most one \"...\" in a subscript" },
    { "an output label that no input has", "ij,jk->iz", 8,
      "equation has 'z' at byte 8, in the output; expected a label of an input" },
    { "a label of the wrong case", "i->I", 3,
      "equation has 'I' at byte 3, in the output; expected a label of an input" },
    { "offsets are bytes", "\xc3\xa9->z", 4,
      "equation has 'z' at byte 4, in the output; expected a label of an input" },
    { "invisible labels are written as code points", "i->\t", 3,
      "equation has U+0009 at byte 3, in the output; expected a label of an input" },
    { "so are characters that change the text direction", "i->\xe2\x80\xae", 3,
      "equation has U+202E at byte 3, in the output; expected a label of an input" },
    { "a byte that begins no character", "i\xff", 1,
      "equation has 0xff at byte 1, which is not UTF-8; expected a label, \"...\", ',', \"->\" or "
      "the end" },
    { "a continuation byte", "\x80", 0, NULL },
    { "a character truncated by the end", "ij\xe2\x88", 2, NULL },
    { "a character truncated by another", "\xe2\x88j", 0, NULL },
    { "an overlong form", "\xc0\xaf", 0, NULL },
    { "an overlong form of three bytes", "\xe0\x9f\xbf", 0, NULL },
    { "a surrogate", "\xed\xa0\x80", 0, NULL },
    { "a code point above the highest", "\xf4\x90\x80\x80", 0, NULL },
    { "a code point far above the highest", "\xf5\x80\x80\x80", 0, NULL },
    { "bytes in the output that are not UTF-8", "i->i\xff", 4,
      "equation has 0xff at byte 4, which is not UTF-8; expected a label, \"...\" or the end" },
    { "an error after too many subscripts", ",,,,,,,,,,,,,,,,,,>", 18, NULL },
    { "an error after too many labels", "abcdefghijklmnopqrst-", 21, NULL },
};

TD_TEST_EACH(malformed_text_is_rejected_with_its_byte_offset, malformed)
{
    struct td_equation *equation;
    struct td_error err;
    td_status status = parse(malformed[_i].equation, "[2,3]", &equation, &err);
    ck_assert_msg(status == TD_INVALID_EQUATION, "%s: %s", malformed[_i].case_name,
                  td_status_name(status));
    ck_assert_int_eq(err.status, TD_INVALID_EQUATION);
    ck_assert_int_eq(err.offset, malformed[_i].offset);
    ck_assert_str_eq(err.attribute, "equation");
    ck_assert_str_eq(err.input, "");
    if (malformed[_i].message)
        ck_assert_str_eq(err.message, malformed[_i].message);
}

static const struct {
    const char *case_name;
    const char *equation, *shapes;
    td_status status;
    const char *message;
    const char *input;
    int n_shapes; /* in the error; the last is that of `input` */
} rejected[] = {
    { "an arrow that is a label", "ij,jk\u2192ik", "[2,3] [3,4]", TD_SHAPE_MISMATCH,
      "inputs[1] has shape [3,4], rank 2; its subscript expects rank 5. '\u2192' is read as a "
      "label. Write \"->\" instead",
      "inputs[1]", 1 },
    { "an ellipsis that is a label", "\u2026ij->\u2026ji", "[2,3]", TD_SHAPE_MISMATCH,
      "inputs[0] has shape [2,3], rank 2; its subscript expects rank 3. '\u2026' is read as a "
      "label. Write \"...\" instead",
      "inputs[0]", 1 },
    { "parentheses that are labels", "(ij),jk->ik", "[2,3] [3,4]", TD_SHAPE_MISMATCH,
      "inputs[0] has shape [2,3], rank 2; its subscript expects rank 4. '(' is read as a label. "
      "Remove it",
      "inputs[0]", 1 },
    { "another separator", "ij;jk->ik", "[2,3] [3,4]", TD_INVALID_ARGUMENT,
      "inputs has 2 tensors; the equation expects 1. ';' is read as a label. Write \",\" instead",
      "inputs", 0 },
    { "one input too many", "ij->ij", "[2,3] [2,3]", TD_INVALID_ARGUMENT,
      "inputs has 2 tensors; the equation expects 1", "inputs", 0 },
    { "one input too few", "ij,jk->ik", "[2,3]", TD_INVALID_ARGUMENT,
      "inputs has 1 tensor; the equation expects 2", "inputs", 0 },
    { "17 inputs", ",,,,,,,,,,,,,,,,", "[] [] [] [] [] [] [] [] [] [] [] [] [] [] [] [] []",
      TD_INVALID_ARGUMENT, "inputs has 17 tensors; must have at most 16", "inputs", 0 },
    { "17 subscripts", ",,,,,,,,,,,,,,,,", "[]", TD_INVALID_ARGUMENT,
      "inputs has 1 tensor; the equation expects 17", "inputs", 0 },
    { "a rank too low", "ijk->i", "[2,3]", TD_SHAPE_MISMATCH,
      "inputs[0] has shape [2,3], rank 2; its subscript expects rank 3", "inputs[0]", 1 },
    { "a rank too high", "j,i->i", "[1] [2,3]", TD_SHAPE_MISMATCH,
      "inputs[1] has shape [2,3], rank 2; its subscript expects rank 1", "inputs[1]", 1 },
    { "a rank too low for an ellipsis", "i...jk->i", "[2,3]", TD_SHAPE_MISMATCH,
      "inputs[0] has shape [2,3], rank 2; its subscript expects rank 3 or more", "inputs[0]", 1 },
    { "17 labels", "abcdefghijklmnopq->z", "[1]", TD_SHAPE_MISMATCH,
      "inputs[0] has shape [1], rank 1; its subscript expects rank 17", "inputs[0]", 1 },
    { "two extents of a label", "ij,jk->ik", "[2,3] [4,2]", TD_SHAPE_MISMATCH,
      "label 'j' is 3 in inputs[0] and 4 in inputs[1]; the sizes must be equal", "inputs[1]", 2 },
    { "the first input with the extent is named", "i,ij,j,jk->ik", "[2] [2,3] [3] [4,2]",
      TD_SHAPE_MISMATCH, "label 'j' is 3 in inputs[1] and 4 in inputs[3]; the sizes must be equal",
      "inputs[3]", 2 },
    { "labels do not broadcast", "ij,ij->ij", "[1,3] [2,3]", TD_SHAPE_MISMATCH,
      "label 'i' is 1 in inputs[0] and 2 in inputs[1]; the sizes must be equal", "inputs[1]", 2 },
    { "labels do not broadcast in the other order", "ij,ij->ij", "[2,3] [1,3]", TD_SHAPE_MISMATCH,
      "label 'i' is 2 in inputs[0] and 1 in inputs[1]; the sizes must be equal", "inputs[1]", 2 },
    { "a diagonal that is not square", "ii->i", "[2,3]", TD_SHAPE_MISMATCH,
      "label 'i' is 2 in inputs[0] and 3 in inputs[0]; the sizes must be equal", "inputs[0]", 1 },
    { "a label of several bytes", "\xc3\xa9,\xc3\xa9", "[2] [3]", TD_SHAPE_MISMATCH,
      "label '\xc3\xa9' is 2 in inputs[0] and 3 in inputs[1]; the sizes must be equal", "inputs[1]",
      2 },
    { "an invisible label", "\x01,\x01", "[2] [3]", TD_SHAPE_MISMATCH,
      "label U+0001 is 2 in inputs[0] and 3 in inputs[1]; the sizes must be equal", "inputs[1]",
      2 },
    { "ellipses that do not broadcast", "...ij,...jk->...ik", "[3,2,3] [5,3,2]", TD_SHAPE_MISMATCH,
      "dimension -1 of the ellipsis is 3 in inputs[0] and 5 in inputs[1]; the sizes must be equal "
      "unless one is 1",
      "inputs[1]", 2 },
    { "ellipses that do not broadcast after one that does", "...,...,...", "[1,7] [3,1] [4,7]",
      TD_SHAPE_MISMATCH,
      "dimension -2 of the ellipsis is 3 in inputs[1] and 4 in inputs[2]; the sizes must be equal "
      "unless one is 1",
      "inputs[2]", 2 },
    { "0 does not broadcast", "...,...", "[0] [2]", TD_SHAPE_MISMATCH,
      "dimension -1 of the ellipsis is 0 in inputs[0] and 2 in inputs[1]; the sizes must be equal "
      "unless one is 1",
      "inputs[1]", 2 },
    { "tf: broadcast dimensions without an output ellipsis", "...ij->ij", "[2,3,4]",
      TD_INVALID_ARGUMENT,
      "the ellipsis of the inputs has 1 dimension; the output of the equation must also have "
      "\"...\"",
      "", 0 },
    { "broadcast dimensions of extent 1 without an output ellipsis", "...ij->ij", "[1,1,3,4]",
      TD_INVALID_ARGUMENT,
      "the ellipsis of the inputs has 2 dimensions; the output of the equation must also have "
      "\"...\"",
      "", 0 },
    { "an output of rank 17", "i->iiiiiiiiiiiiiiiii", "[1]", TD_RESOURCE_LIMIT,
      "output needs 17 dimensions; the limit is 16", "", 0 },
    { "an implicit output of rank 18", "abcdefghi,jklmnopqr",
      "[1,1,1,1,1,1,1,1,1] [1,1,1,1,1,1,1,1,1]", TD_RESOURCE_LIMIT,
      "output needs 18 dimensions; the limit is 16", "", 0 },
    { "the dimensions of the ellipsis count", "...,abcdefgh->...abcdefgh",
      "[1,1,1,1,1,1,1,1,1] [1,1,1,1,1,1,1,1]", TD_RESOURCE_LIMIT,
      "output needs 17 dimensions; the limit is 16", "", 0 },
};

TD_TEST_EACH(shapes_that_do_not_match_the_equation_are_rejected, rejected)
{
    struct td_equation *equation;
    struct td_error err;
    td_status status = parse(rejected[_i].equation, rejected[_i].shapes, &equation, &err);
    ck_assert_msg(status == rejected[_i].status, "%s: %s", rejected[_i].case_name,
                  td_status_name(status));
    ck_assert_str_eq(err.message, rejected[_i].message);
    ck_assert_str_eq(err.input, rejected[_i].input);
    ck_assert_int_eq(err.offset, -1);
    ck_assert_int_eq(err.n_shapes, rejected[_i].n_shapes);
    if (err.n_shapes > 0)
        ck_assert_str_eq(err.shapes[err.n_shapes - 1].name, rejected[_i].input);
    if (status == TD_INVALID_ARGUMENT && err.input[0] == '\0')
        ck_assert_str_eq(err.attribute, "equation");
}

TD_TEST(a_shape_mismatch_reports_both_shapes)
{
    struct td_equation *equation;
    struct td_error err;
    ck_assert_int_eq(parse("ij,jk", "[2,3] [4,2]", &equation, &err), TD_SHAPE_MISMATCH);
    ck_assert_str_eq(err.shapes[0].name, "inputs[0]");
    expect_shape(&err.shapes[0].shape, "[2,3]", "the first");
    ck_assert_str_eq(err.shapes[1].name, "inputs[1]");
    expect_shape(&err.shapes[1].shape, "[4,2]", "the second");
}

TD_TEST(a_shape_mismatch_reports_the_label_and_its_extents)
{
    struct td_equation *equation;
    struct td_error err;
    ck_assert_int_eq(parse("i\xc3\xa9,\xc3\xa9k->ik", "[2,3] [4,5]", &equation, &err),
                     TD_SHAPE_MISMATCH);
    ck_assert_str_eq(err.label, "\xc3\xa9");
    ck_assert(err.has_extents);
    ck_assert_int_eq(err.extents[0], 3);
    ck_assert_int_eq(err.extents[1], 4);
    ck_assert_int_eq(parse("...,...", "[2,3] [4,3]", &equation, &err), TD_SHAPE_MISMATCH);
    ck_assert_str_eq(err.label, ""); /* the ellipsis has none */
    ck_assert_int_eq(err.extents[0], 2);
    ck_assert_int_eq(err.extents[1], 4);
}

/* ---- Random text ------------------------------------------------------------------------- */

/* Usually a byte of the grammar. */
static char random_byte(void)
{
    static const char usual[] = "ijkabij,->... \xc3\xa9\xe2\x88\x91";
    return random_below(4) ? usual[random_below((int)sizeof(usual) - 1)]
                           : (char)(1 + random_below(255));
}

/* Random bytes, or a valid equation with some bytes replaced, added and removed. */
static size_t random_text(char *text, size_t size)
{
    if (random_below(3) == 0) {
        size_t length = (size_t)random_below((int)size);
        for (size_t i = 0; i < length; i++)
            text[i] = random_byte();
        return length;
    }
    const char *valid = results[random_below(COUNT_OF(results))].equation;
    size_t length = strlen(valid);
    memcpy(text, valid, length);
    for (int changes = random_below(4); changes > 0; changes--) {
        size_t at = (size_t)random_below((int)length + 1);
        if (at < length && random_below(3) == 0) {
            memmove(text + at, text + at + 1, length - at - 1);
            length--;
        } else if (at < length && random_below(2) == 0) {
            text[at] = random_byte();
        } else if (length < size - 1) {
            memmove(text + at + 1, text + at, length - at);
            text[at] = random_byte();
            length++;
        }
    }
    return length;
}

TD_TEST(random_text_is_parsed_or_rejected)
{
    enum { ROUNDS = 60000, SIZE = 80 };
    int times[TD_STATUS_COUNT] = { 0 };
    for (int round = 0; round < ROUNDS; round++) {
        random_seed((uint64_t)round);
        char text[SIZE];
        size_t length = random_text(text, SIZE);
        /* On the heap with its exact size, so that a sanitizer detects reads past the end. */
        char *exact = td_arena_text(&test_arena, text, length, TD_IGNORED);
        struct td_shape shapes[TD_EINSUM_MAX_INPUTS + 1];
        const struct td_shape *pointers[TD_EINSUM_MAX_INPUTS + 1];
        int n = 1 + random_below(random_below(8) == 0 ? 17 : 3);
        for (int i = 0; i < n; i++) {
            pointers[i] = &shapes[i];
            shapes[i].rank = random_below(random_below(8) == 0 ? 17 : 5);
            for (int d = 0; d < shapes[i].rank; d++)
                shapes[i].dim[d] = random_below(4) == 0 ? random_below(3) : 2;
        }
        struct td_equation *equation;
        struct td_error err;
        td_status status = td_equation_parse(exact, pointers, n, &test_arena, &equation, &err);
        times[status]++;
        switch (status) {
        case TD_OK:
            EXPECT(equation->n_inputs == n && equation->output.rank <= TD_MAX_RANK, "round %d",
                   round);
            for (int i = 0; i < n; i++)
                EXPECT(equation->inputs[i].rank == shapes[i].rank, "round %d", round);
            break;
        case TD_INVALID_EQUATION:
            EXPECT(err.offset >= 0 && err.offset <= (int64_t)length, "round %d: offset %d", round,
                   (int)err.offset);
            break;
        case TD_INVALID_ARGUMENT:
        case TD_SHAPE_MISMATCH:
        case TD_RESOURCE_LIMIT:
            EXPECT(err.message[0] != '\0', "round %d: no message", round);
            break;
        default:
            ck_abort_msg("round %d: %s", round, td_status_name(status));
        }
        td_arena_reset(&test_arena);
    }
    /* The generator produces all of them. */
    ck_assert_int_gt(times[TD_OK], ROUNDS / 100);
    ck_assert_int_gt(times[TD_INVALID_EQUATION], ROUNDS / 10);
    ck_assert_int_gt(times[TD_SHAPE_MISMATCH], ROUNDS / 100);
    ck_assert_int_gt(times[TD_INVALID_ARGUMENT], ROUNDS / 100);
    ck_assert_int_gt(times[TD_RESOURCE_LIMIT], 0);
}
