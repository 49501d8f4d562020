#include "server/observe/exposition.h"

#include <string.h>

enum { NS_PER_S = 1000000000 };

static void clear_labels(struct td_exposition *exposition)
{
    exposition->labels = (struct td_text){ .at = exposition->room,
                                           .end = exposition->room + sizeof exposition->room };
}

void td_exposition_begin(struct td_exposition *exposition, struct td_text *text, bool openmetrics)
{
    exposition->text = text;
    exposition->openmetrics = openmetrics;
    clear_labels(exposition);
}

void td_exposition_end(struct td_exposition *exposition)
{
    if (exposition->openmetrics)
        td_text_string(exposition->text, "# EOF\n");
}

void td_family(struct td_exposition *exposition, const char *name, td_metric_type type,
               const char *help)
{
    static const char *const types[] = { "counter", "gauge", "histogram" };
    const char *total = type == TD_COUNTER && !exposition->openmetrics ? "_total" : "";
    exposition->family = name;
    exposition->type = type;
    td_text_print(exposition->text, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, total, help, name,
                  total, types[type]);
}

void td_label(struct td_exposition *exposition, const char *name, const char *value)
{
    struct td_text *labels = &exposition->labels;
    td_text_print(labels, "%s%s=\"", labels->at > exposition->room ? "," : "", name);
    for (; *value; value++) {
        const char *escaped = *value == '\\' ? "\\\\" : *value == '"' ? "\\\"" : "\\n";
        if (*value == '\\' || *value == '"' || *value == '\n')
            td_text_string(labels, escaped);
        else
            td_text_add(labels, value, 1);
    }
    td_text_string(labels, "\"");
}

/* Writes the name, the labels and a space. `le` is an additional label, or "" if there is none. */
static void begin_sample(struct td_exposition *exposition, const char *suffix, const char *le)
{
    struct td_text *text = exposition->text;
    const size_t length = (size_t)(exposition->labels.at - exposition->room);
    td_text_string(text, exposition->family);
    td_text_string(text, exposition->type == TD_COUNTER ? "_total" : suffix);
    if (length > 0 || *le) {
        td_text_string(text, "{");
        td_text_add(text, exposition->room, length);
        if (*le)
            td_text_print(text, "%sle=\"%s\"", length > 0 ? "," : "", le);
        td_text_string(text, "}");
    }
    td_text_string(text, " ");
}

/* Writes the exact number of seconds. A double would lose nanoseconds after 100 days. */
static void print_seconds(struct td_text *text, uint64_t ns)
{
    char fraction[16] = "";
    struct td_text digits = { .at = fraction, .end = fraction + sizeof fraction };
    td_text_uint(text, ns / NS_PER_S);
    td_text_uint(&digits, NS_PER_S + ns % NS_PER_S); /* a 1 followed by nine digits */
    size_t length = 10;
    while (length > 1 && fraction[length - 1] == '0')
        length--;
    if (length == 1)
        return;
    fraction[0] = '.';
    td_text_add(text, fraction, length);
}

typedef void print_value(struct td_text *text, uint64_t value);

static void write_sample(struct td_exposition *exposition, const char *suffix, const char *le,
                         print_value *print, uint64_t value)
{
    if (exposition->labels.full)
        return;
    begin_sample(exposition, suffix, le);
    print(exposition->text, value);
    td_text_string(exposition->text, "\n");
}

void td_sample_uint(struct td_exposition *exposition, const char *suffix, uint64_t value)
{
    write_sample(exposition, suffix, "", td_text_uint, value);
    clear_labels(exposition);
}

void td_sample_seconds(struct td_exposition *exposition, const char *suffix, uint64_t ns)
{
    write_sample(exposition, suffix, "", print_seconds, ns);
    clear_labels(exposition);
}

void td_sample_histogram(struct td_exposition *exposition, const int64_t *bounds_ns,
                         const uint64_t *buckets, int n_bounds, uint64_t sum_ns)
{
    uint64_t count = 0;
    for (int i = 0; i < n_bounds; i++) {
        char bound[32] = "";
        struct td_text le = { .at = bound, .end = bound + sizeof bound - 1 };
        print_seconds(&le, (uint64_t)bounds_ns[i]);
        if (exposition->openmetrics && !memchr(bound, '.', sizeof bound))
            td_text_string(&le, ".0");
        count += buckets[i];
        write_sample(exposition, "_bucket", bound, td_text_uint, count);
    }
    count += buckets[n_bounds];
    write_sample(exposition, "_bucket", "+Inf", td_text_uint, count);
    write_sample(exposition, "_count", "", td_text_uint, count);
    write_sample(exposition, "_sum", "", print_seconds, sum_ns);
    clear_labels(exposition);
}
