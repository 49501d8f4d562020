#include "api/text/suggest.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/tensors.h"

#include <stdio.h>
#include <string.h>

#define LETTERS_62 "a-name-of-63-letters-is-the-longest-one-that-can-be-suggested-"

static const char *const known[] = {
    "gather",
    "gather_nd",
    "einsum",
    "x",
    "model:encoder.layer.0.attention.self.query.weight",
    LETTERS_62 "z",
    LETTERS_62 "yy",
    "users:rows",
    "movies@2",
    "movies@3",
    "tests",
    "best.values",
    "best.indices",
    "a.b:rows",
};

static const struct {
    const char *case_name, *name, *near; /* "" if there is none */
} names[] = {
    { "a missing character", "gathr", "gather" },
    { "an additional character", "einssum", "einsum" },
    { "a different character", "einsun", "einsum" },
    { "an exchange counts as one edit", "gather_dn", "gather_nd" },
    { "the nearer of two names", "gatherr_nd", "gather_nd" },
    { "a third of its characters differ", "eimsun", "einsum" },
    { "more than a third of its characters differ", "eimzun", "" },
    { "nothing", "", "" },
    { "a name of one character", "y", "" },
    { "a long name", "model:encoder.layer.0.atention.self.query.weight",
      "model:encoder.layer.0.attention.self.query.weight" },
    { "a name of 63 characters", LETTERS_62 "x", LETTERS_62 "z" },
    { "a longer known name", LETTERS_62 "y", LETTERS_62 "z" },
    { "the file of a tensor in it", "users", "users:rows" },
    { "a tensor in a file", "rows", "users:rows" },
    { "a table that has only versions", "movies", "movies@2" },
    { "the end of a part", "sers", "" },
    { "the start of a part", "movie", "" },
    { "a version", "2", "" },
    { "one of several results, before a name of one edit", "best", "best.values" },
    { "the file of a tensor whose name has a dot", "a.b", "a.b:rows" },
    { "the end of a name after a dot", "values", "" },
    { "too long to be compared", LETTERS_62 "zz", "" },
};

TD_TEST_EACH(the_nearest_known_name_is_suggested, names)
{
    struct td_error err;
    td_error_set(&err, TD_UNKNOWN_OP, "what");
    td_suggest(&err, names[_i].name, strlen(names[_i].name), known, COUNT_OF(known));
    ck_assert_msg(strcmp(err.did_you_mean, names[_i].near) == 0, "%s: %s", names[_i].case_name,
                  err.did_you_mean);
    ck_assert_str_eq(err.message, "what");
}

TD_TEST(an_unknown_name_is_refused_with_the_nearest)
{
    struct td_error err;
    ck_assert_int_eq(td_unknown_name(&err, TD_UNKNOWN_OP, "op", "gathr and more", 5, known,
                                     COUNT_OF(known), "GET /v1/ops"),
                     TD_UNKNOWN_OP);
    ck_assert_int_eq(err.status, TD_UNKNOWN_OP);
    ck_assert_str_eq(err.message,
                     "there is no op 'gathr' (did you mean 'gather'?); GET /v1/ops lists them");
    ck_assert_str_eq(err.did_you_mean, "gather");
}

TD_TEST(an_unknown_name_that_is_near_to_none_gets_no_suggestion)
{
    struct td_error err;
    ck_assert_int_eq(td_unknown_name(&err, TD_TENSOR_NOT_FOUND, "resident tensor", "moons", 5,
                                     known, COUNT_OF(known), "GET /v1/tensors"),
                     TD_TENSOR_NOT_FOUND);
    ck_assert_str_eq(err.message,
                     "there is no resident tensor 'moons'; GET /v1/tensors lists them");
    ck_assert_str_eq(err.did_you_mean, "");
}

TD_TEST(a_long_name_is_cut_in_the_message)
{
    char name[1000], expected[200];
    struct td_error err;
    memset(name, 'z', sizeof name);
    td_unknown_name(&err, TD_UNKNOWN_OP, "op", name, sizeof name, known, COUNT_OF(known),
                    "GET /v1/ops");
    snprintf(expected, sizeof expected, "there is no op '%.128s'; GET /v1/ops lists them", name);
    ck_assert_str_eq(err.message, expected);
}

/* ---- distances ------------------------------------------------------------------------------- */

enum { LONGEST = 63 };

/* The definition of the distance: D[i][j] is the minimum over all last edits. */
static size_t plain_distance(const char *a, size_t n, const char *b, size_t m)
{
    static size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            size_t best = i == 0 ? j : j == 0 ? i : SIZE_MAX;
            if (i > 0 && j > 0) {
                best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
                best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = d[i - 2][j - 2] + 1 < best ? d[i - 2][j - 2] + 1 : best;
            d[i][j] = best;
        }
    return d[n][m];
}

static size_t random_name(char name[LONGEST + 1])
{
    const size_t length = (size_t)random_below(LONGEST + 1);
    for (size_t i = 0; i < length; i++)
        name[i] = (char)('a' + random_below(3));
    name[length] = '\0';
    return length;
}

/* Inserts, removes or replaces a character, or exchanges two. */
static size_t random_edit(char name[LONGEST + 1], size_t length)
{
    const size_t at = (size_t)random_below((int)length + 1);
    const int kind = random_below(4);
    if (kind == 0 && length < LONGEST) {
        memmove(name + at + 1, name + at, length++ - at);
        name[at] = (char)('a' + random_below(3));
    } else if (kind == 1 && at < length) {
        memmove(name + at, name + at + 1, --length - at);
    } else if (kind == 2 && at < length) {
        name[at] = (char)('a' + random_below(3));
    } else if (at + 1 < length) {
        const char letter = name[at];
        name[at] = name[at + 1];
        name[at + 1] = letter;
    }
    name[length] = '\0';
    return length;
}

TD_TEST_LOOP(distances_are_those_of_the_definition, 0, 20)
{
    random_seed((uint64_t)_i + 1);
    int n_near = 0;
    for (int i = 0; i < 500; i++) {
        char a[LONGEST + 1], b[LONGEST + 1];
        const char *other[] = { b };
        const size_t n = random_name(a), most = n < 6 ? 1 : n / 3;
        uint32_t work;
        size_t m = n;
        memcpy(b, a, sizeof b);
        for (int edits = random_below(3 * (int)most); edits > 0; edits--)
            m = random_edit(b, m);
        const size_t distance = plain_distance(a, n, b, m);
        const bool near = n >= 2 && distance > 0 && distance <= most;
        n_near += near;
        ck_assert_msg((td_nearest_name(a, n, other, 1, &work) != NULL) == near, "%s %s", a, b);
    }
    ck_assert(n_near > 100 && n_near < 490);
}

/* ---- work ------------------------------------------------------------------------------------ */

enum { MANY = 2000 };

static char many[MANY][LONGEST + 1];
static const char *many_names[MANY];

/* Names that differ only near the end, so that no comparison ends early: the worst case. */
static void fill_many(void)
{
    for (int i = 0; i < MANY; i++) {
        memset(many[i], 'a', 40);
        snprintf(many[i] + 40, sizeof many[i] - 40, "%023d", i);
        many_names[i] = many[i];
    }
}

TD_TEST(the_work_for_many_long_names_is_bounded)
{
    static const char name[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaXXXXXXXXXXXXXXXXXXXXXXX";
    uint32_t work;
    fill_many();
    ck_assert_ptr_null(td_nearest_name(name, LONGEST, many_names, MANY, &work));
    ck_assert_uint_ge(work, TD_SUGGEST_WORK);
    ck_assert_uint_le(work, TD_SUGGEST_WORK + LONGEST);
}

TD_TEST(the_first_names_are_compared_whatever_follows)
{
    uint32_t work;
    fill_many();
    many[120][41] = 'x';
    ck_assert_ptr_eq(td_nearest_name(many[120], LONGEST - 1, many_names, MANY, &work),
                     many_names[120]);
}

TD_TEST(a_near_name_makes_the_others_cheap)
{
    char name[46], near[46], far[46];
    const char *const far_first[] = { far, near }, *const near_first[] = { near, far };
    uint32_t late, early;
    memset(name, 'a', sizeof name);
    memcpy(near, "b", 1);
    memset(near + 1, 'a', 44);
    memset(far, 'b', 20);
    memset(far + 20, 'a', 25);
    near[45] = far[45] = '\0';
    ck_assert_ptr_eq(td_nearest_name(name, 45, far_first, 2, &late), near);
    ck_assert_ptr_eq(td_nearest_name(name, 45, near_first, 2, &early), near);
    ck_assert_uint_lt(early, late);
}

TD_TEST(a_name_of_another_length_is_one_step)
{
    static const char *const others[] = { "gather_the_rows_of_it", "g", "" };
    uint32_t work;
    ck_assert_ptr_null(td_nearest_name("gather", 6, others, 3, &work));
    ck_assert_uint_eq(work, 3);
    /* too short to be near any name */
    ck_assert_ptr_null(td_nearest_name("g", 1, others, 3, &work));
    ck_assert_uint_eq(work, 0);
}

static const struct {
    const char *name;
    td_dtype_set accepted;
    const char *near;
} dtypes[] = {
    { "float", TD_DTYPES_ALL, "float32" },   { "double", TD_DTYPES_ALL, "float64" },
    { "FP16", TD_DTYPES_ALL, "float16" },    { "F32", TD_DTYPES_ALL, "float32" },
    { "long", TD_DTYPES_ALL, "int64" },      { "int", TD_DTYPES_ALL, "int32" },
    { "str", TD_DTYPES_ALL, "string" },      { "Float32", TD_DTYPES_ALL, "float32" },
    { "flaot32", TD_DTYPES_ALL, "float32" }, { "i8", TD_DTYPES_ALL, "" },
    { "float", TD_DTYPE_BIT(INT8), "" },     { "quaternion", TD_DTYPES_ALL, "" },
};

TD_TEST_EACH(dtypes_are_known_by_the_names_of_other_libraries, dtypes)
{
    struct td_error err;
    td_error_set(&err, TD_MALFORMED_REQUEST, "no dtype");
    td_suggest_dtype(&err, dtypes[_i].name, strlen(dtypes[_i].name), dtypes[_i].accepted);
    ck_assert_msg(strcmp(err.did_you_mean, dtypes[_i].near) == 0, "%s: '%s'", dtypes[_i].name,
                  err.did_you_mean);
}
