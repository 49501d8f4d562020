/* forms.h - a case as a request in each form that the API reads, and the tensors of a reply in that
 * form. Independent of api/.
 *
 * Ownership  All results are in the arena, and point into the text of the case or reply. */
#ifndef TD_TESTS_CONFORMANCE_FORMS_H
#define TD_TESTS_CONFORMANCE_FORMS_H

#include "tests/conformance/values.h"

enum form {
    FORM_FLAT,        /* JSON, "data" flat; the reply, too */
    FORM_NESTED,      /* JSON, "data" nested */
    FORM_BASE64,      /* JSON with "base64" */
    FORM_SAFETENSORS, /* with the attributes in the query string */
    FORM_OIP,         /* the Open Inference Protocol */
    FORM_OIP_BINARY,  /* the same, with binary tensors */
    FORM_PLAN,        /* POST /v1/einsum/plan */
    FORM_COUNT
};

const char *form_name(enum form form);

enum { MOST_TENSORS = 32, MOST_ATTRS = 8 };

struct body {
    struct text bytes;
    size_t json_bytes; /* of the Open Inference Protocol: of its JSON */
    int n_attrs;       /* of the query string */
    struct {
        struct text name, value;
    } attrs[MOST_ATTRS];
};

/* False if the form cannot express the case. */
bool write_body(const struct tree *one, enum form form, struct td_arena *arena, struct body *out);

/* A tensor by the name that it has in safetensors: "output", "outputs.1", "values". */
struct named {
    struct text name;
    struct values values;
};
struct outputs {
    int count;
    struct named at[MOST_TENSORS];
    struct text policy, replaced; /* what the reply says of replaced indices; empty: nothing */
};

/* The outputs that a case expects; `list`: those of an op that has a list of them. */
void read_expected(const struct tree *one, bool list, struct td_arena *arena, struct outputs *out);

/* Reads a reply; json_bytes is the value of Inference-Header-Content-Length, or SIZE_MAX. */
bool read_reply(struct text bytes, size_t json_bytes, enum form form, struct td_arena *arena,
                struct outputs *out, struct why *why);

#endif
