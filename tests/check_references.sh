#!/usr/bin/env bash
# check_references.sh - checks that every file named in a comment or a document exists.
#
#   tests/check_references.sh [ROOT]
#
# Looks for names of source files, scripts and documents in the comments of C, C++ and CUDA, and in all of *.md. A name is a path from
# the root, a path from the folder of the file that contains it, or the end of a path in the same top-level folder. In tests/ and in
# top-level documents, a name can be the end of a path in any folder. The script ignores system headers in #include <...>. It prints
# FILE:LINE and the name of each missing file, and exits with status 1. If no file is missing, it prints a line that starts with "ok".
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

system=$(mktemp)
trap 'rm -f "$system"' EXIT
grep -rhoE --include='*.[ch]' --include='*.inc' --include='*.cc' --include='*.cu' --include='*.cuh' \
    '^[ \t]*#[ \t]*include[ \t]*<[^>]+>' api gpu kernels server tests 2>/dev/null | sed 's/.*<\(.*\)>/\1/' >"$system" || true

find . \( -name '.?*' -o -name 'build' -o -name 'build-*' -o -name __pycache__ \) -prune -o -type f -print |
    sed 's,^[.]/,,' | LC_ALL=C sort | awk -v system_names="$system" '
function top_of(path)
{
    return path ~ /\// ? substr(path, 1, index(path, "/") - 1) : ""
}

# Returns the path without "folder/.." and "./" steps.
function normal(path)
{
    while (sub(/(^|\/)[.]\//, "/", path) || sub(/(^|\/)[^\/.][^\/]*\/[.][.](\/|$)/, "/", path))
        sub(/^\//, "", path)
    return path
}

function exists(name, path,    folder, top)
{
    folder = path
    if (!sub(/\/[^\/]*$/, "", folder))
        folder = "."
    top = top_of(path)
    return name in is_file || name in is_system || normal(folder "/" name) in is_file ||
           (top " " name) in ends || ((top == "tests" || top == "") && ("* " name) in ends)
}

function check_text(path, line, text,    name)
{
    while (match(text, /[A-Za-z0-9_.][A-Za-z0-9_.\/-]*/)) {
        before = RSTART > 1 ? substr(text, RSTART - 1, 1) : " "
        name = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        sub(/[.]+$/, "", name)
        # Skips names after a pattern, a variable, a URI or an address.
        if (name !~ /[A-Za-z0-9_][.](c|h|inc|def|cc|cu|cuh|md|sh|py|lua|go)$/ || before ~ /[*$@%}>~:\/-]/)
            continue
        n_names++
        if (!exists(name, path)) {
            printf "%s:%d: there is no file %s\n", path, line, name
            n_wrong++
        }
    }
}

# Returns the comments in a line of code. `within` is true while a comment is open.
function comment_of(text,    out, end)
{
    out = ""
    while (text != "") {
        if (within) {
            end = index(text, "*/")
            out = out " " (end ? substr(text, 1, end - 1) : text)
            text = end ? substr(text, end + 2) : ""
            within = !end
        } else if (match(text, /"([^"\\]|\\.)*"|\/\*|\/\//)) {
            if (substr(text, RSTART, 2) == "//")
                return out " " substr(text, RSTART + 2)
            within = substr(text, RSTART, 2) == "/*"
            text = substr(text, RSTART + RLENGTH)
        } else {
            text = ""
        }
    }
    return out
}

{
    files[++n_files] = $0
    is_file[$0] = 1
    rest = $0
    for (;;) {
        ends[top_of($0) " " rest] = ends["* " rest] = 1
        if (!sub(/^[^\/]*\//, "", rest))
            break
    }
}

END {
    while ((getline text < system_names) > 0)
        is_system[text] = 1
    for (i = 1; i <= n_files; i++) {
        path = files[i]
        is_code = path ~ /[.](c|h|inc|def|cc|cu|cuh)$/
        if (!is_code && path !~ /[.]md$/)
            continue
        line = within = 0
        while ((getline text < path) > 0)
            check_text(path, ++line, is_code ? comment_of(text) : text)
        close(path)
    }
    if (n_names == 0) {
        print "nothing here names a file"
        exit 1
    }
    if (n_wrong > 0)
        exit 1
    printf "ok: all %d file names in comments and documents exist\n", n_names
}'
