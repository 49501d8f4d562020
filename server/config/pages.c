/* pages.c - the program tensord-pages, which inserts the options into the man page and the shell
 * completions when tensord is built.
 *
 *   tensord-pages <TEMPLATE >PAGE
 * The templates are in deploy/pages. A line "{{NAME}}" in a template is replaced with the output of
 * the function listed under that name in `parts`. For any other name, the program prints a message
 * and exits with status 1. */
#include "server/config/options.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of the table of options or of the table of arguments. */
struct item {
    const char *name, *letter, *value_name, *help, *default_text;
    bool may_repeat;   /* the option is a list */
    bool may_be_alone; /* the option is a switch; its value can be omitted */
    const char *choices[TD_MOST_CHOICES + 1];
};

enum { N_ITEMS = TD_N_OPTIONS + TD_N_ARGUMENTS };

/* Returns item `i`. The options come first, then the arguments. */
static struct item item_at(int i)
{
    if (i >= TD_N_OPTIONS) {
        const struct td_argument *argument = &td_arguments[i - TD_N_OPTIONS];
        return (struct item){ .name = argument->name,
                              .letter = argument->letter,
                              .value_name = argument->value_name,
                              .help = argument->help };
    }
    const struct td_option *option = &td_options[i];
    struct item item = { .name = option->name,
                         .letter = "",
                         .value_name = option->value_name,
                         .help = option->help,
                         .default_text = option->default_text,
                         .may_repeat = td_option_is_list(option),
                         .may_be_alone = option->kind == KIND_SWITCH };
    item.choices[td_option_choices(option, item.choices)] = NULL;
    return item;
}

static bool takes_value(const struct item *item)
{
    return item->value_name[0] || item->may_be_alone;
}

/* Prints the choices, separated by spaces: "info warn". */
static void print_choices(const struct item *item)
{
    for (int i = 0; item->choices[i]; i++)
        printf("%s%s", i > 0 ? " " : "", item->choices[i]);
}

/* Prints the text, with `prefix` before each occurrence of one of the characters. */
static void print_escaped(const char *text, const char *characters, const char *prefix)
{
    for (; *text; text++) {
        if (strchr(characters, *text))
            fputs(prefix, stdout);
        putchar(*text);
    }
}

/* Prints the text for use inside single quotes in a shell, with a backslash before each occurrence
 * of one of the characters. */
static void print_quoted(const char *text, const char *characters)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", strchr(characters, *text) ? "\\" : "", *text);
}

/* ---- man page ------------------------------------------------------------------------------- */

/* Prints a paragraph in lines that fit a terminal. No line starts with a control character of
 * roff. */
static void print_paragraph(const char *text)
{
    enum { MOST_COLUMNS = 72 };
    size_t column = 0;
    while (*text) {
        const size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > MOST_COLUMNS)
            column = 0, putchar('\n');
        else if (column > 0)
            putchar(' ');
        if (column == 0 && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        char word[256];
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        print_escaped(word, "-\\", "\\");
        column += length + 1;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void print_man_item(const struct item *item)
{
    printf(".TP\n\\fB\\-\\-");
    print_escaped(item->name, "-", "\\");
    printf("\\fR");
    if (item->letter[0])
        printf(", \\fB\\-%s\\fR", item->letter);
    if (item->value_name[0])
        printf(" \\fI%s\\fR", item->value_name);
    else if (item->may_be_alone)
        printf(" [\\fBon\\fR|\\fBoff\\fR]");
    putchar('\n');
    print_paragraph(item->help);
    if (item->default_text) {
        char text[128];
        snprintf(text, sizeof text, "Default: %s.",
                 item->default_text[0] ? item->default_text : "none");
        printf(".br\n");
        print_paragraph(text);
    }
}

static void print_man_options(void)
{
    for (int i = 0; i < TD_N_OPTIONS; i++) {
        const struct item item = item_at(i);
        const char *heading = td_option_section(&td_options[i]);
        if (heading)
            printf(".SS %s\n", heading);
        print_man_item(&item);
    }
}

static void print_man_arguments(void)
{
    for (int i = TD_N_OPTIONS; i < N_ITEMS; i++) {
        const struct item item = item_at(i);
        print_man_item(&item);
    }
}

/* ---- completions ---------------------------------------------------------------------------- */

static bool is_file(const struct item *item)
{
    return strcmp(item->value_name, "FILE") == 0;
}

static bool is_folder(const struct item *item)
{
    return strcmp(item->value_name, "DIR") == 0;
}

static void print_names(void)
{
    for (int i = 0; i < N_ITEMS; i++)
        printf("    --%s\n", item_at(i).name);
}

/* Prints the cases that complete the value of an option. After a switch, another option is possible
 * too. */
static void print_bash_cases(void)
{
    for (int i = 0; i < N_ITEMS; i++) {
        const struct item item = item_at(i);
        if (!takes_value(&item))
            continue;
        printf("    --%s) ", item.name);
        if (item.may_be_alone)
            printf("values='on off' ;;\n");
        else if (is_file(&item))
            printf("_tensord_reply -f; return ;;\n");
        else if (is_folder(&item))
            printf("_tensord_reply -d; return ;;\n");
        else if (item.choices[0]) {
            printf("_tensord_reply -W '");
            print_choices(&item);
            printf("'; return ;;\n");
        } else
            printf("return ;;\n");
    }
}

static void print_zsh_arguments(void)
{
    for (int i = 0; i < N_ITEMS; i++) {
        const struct item item = item_at(i);
        printf("    '%s--%s%s[", item.may_repeat ? "*" : "", item.name,
               takes_value(&item) ? "=" : "");
        print_quoted(item.help, "[]\\");
        putchar(']');
        if (item.may_be_alone)
            printf("::value:(on off)");
        else if (item.choices[0]) {
            printf(":%s:(", item.value_name);
            print_choices(&item);
            putchar(')');
        } else if (takes_value(&item)) {
            putchar(':');
            print_quoted(item.value_name, ":");
            printf(":%s", is_file(&item) ? "_files" : is_folder(&item) ? "_files -/" : " ");
        }
        printf("' \\\n");
    }
}

static void print_fish_lines(void)
{
    for (int i = 0; i < N_ITEMS; i++) {
        const struct item item = item_at(i);
        printf("complete -c tensord -l %s", item.name);
        if (item.letter[0])
            printf(" -s %s", item.letter);
        if (is_file(&item))
            printf(" -r -F");
        else if (is_folder(&item))
            printf(" -x -a '(__fish_complete_directories)'");
        else if (item.choices[0] && !item.may_be_alone) {
            printf(" -x -a '");
            print_choices(&item);
            putchar('\'');
        } else if (takes_value(&item) && !item.may_be_alone)
            printf(" -x");
        printf(" -d \"");
        print_escaped(item.help, "\"\\$", "\\");
        printf("\"\n");
    }
}

/* ---- templates ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*print)(void);
} parts[] = {
    { "man-options", print_man_options },
    { "man-arguments", print_man_arguments },
    { "names", print_names },
    { "bash-cases", print_bash_cases },
    { "zsh-arguments", print_zsh_arguments },
    { "fish-lines", print_fish_lines },
};

/* Prints the part that a line "{{NAME}}\n" names. Prints other lines unchanged. */
static bool print_line(const char *line)
{
    const size_t length = strlen(line);
    if (strncmp(line, "{{", 2) != 0 || length < 5 || strcmp(line + length - 3, "}}\n") != 0)
        return fputs(line, stdout) >= 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strlen(parts[i].name) == length - 5 &&
            strncmp(line + 2, parts[i].name, length - 5) == 0) {
            parts[i].print();
            return true;
        }
    fprintf(stderr, "tensord-pages: unknown part in the line %s", line);
    return false;
}

int main(void)
{
    char line[1024];
    bool good = true;
    while (good && fgets(line, sizeof line, stdin))
        good = print_line(line);
    return good && fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
