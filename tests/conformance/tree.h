/* tree.h - reads JSON into a tree whose nodes keep their text, so that the numbers of a case are
 * sent as they are written. Independent of api/json.
 *
 * NaN, Infinity and -Infinity without quotes are numbers, as in replies of the Open Inference
 * Protocol.
 *
 * Ownership  Nodes are in the arena and point into the text. */
#ifndef TD_TESTS_CONFORMANCE_TREE_H
#define TD_TESTS_CONFORMANCE_TREE_H

#include "kernels/arena.h"

struct text {
    const char *at;
    size_t length;
};

struct tree {
    char kind;          /* '{', '[', '"', '0' of a number, 't', 'f', 'n' */
    struct text source; /* as it is written */
    struct text string; /* of kind '"': without escapes */
    struct text name;   /* of a member of an object, without escapes */
    struct tree *first; /* element or member */
    struct tree *next;  /* after this one */
    int64_t count;      /* of elements or members */
};

/* The whole text is one value; NULL if it is not, or an object has a name twice. */
struct tree *tree_read(struct text text, struct td_arena *arena);

/* NULL if `object` is NULL, no object, or has no such member. */
const struct tree *tree_member(const struct tree *object, const char *name);

bool text_is(struct text text, const char *expected);
bool same_text(struct text a, struct text b);

/* Are two values equal, numbers by their text, objects in any order? False for NULL. */
bool tree_equal(const struct tree *a, const struct tree *b);

#endif
