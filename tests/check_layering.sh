#!/usr/bin/env bash
# check_layering.sh - checks that every #include follows the arrows between folders and between the modules of a folder.
#
#     server ──► api ──► kernels        server ──► gpu ──► kernels        tests ──► what they test
#
# The script lists the modules of a folder from the lowest to the highest. A module may include itself and the modules before it,
# so there are no cycles. "." is the folder itself.
#
# In api/ (except api/clients) and server/, no whole string and no path in a string is the name of an op. In the
# console, the names of members are checked as well. What depends on an op comes from its descriptor, or from its
# description in GET /v1/ops/{op}. The example programs of the console are data, so they can name ops.
#
#   tests/check_layering.sh [ROOT]
#
# Prints FILE:LINE and the reason for each violation, and exits with status 1. Without violations, prints a line that starts with "ok".
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

folders=()
for folder in kernels api gpu server tests; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
done

# A name of an op counts if it is a whole string or a segment of a path, and in the console also if it is the name of a member. The
# type of an HTML input can be "search". The ops of these families have ordinary words as names, such as "add", so only a path in C
# counts.
families='elementwise|shapes'
named=0
if [ -e kernels/ops.def ]; then
    names=$(sed -nE "/^TD_OP\(($families),/d; s/^TD_OP\(.*, (.*)\)$/\1/p" kernels/ops.def kernels/changes.def | paste -sd'|')
    words=$(sed -nE "s/^TD_OP\(($families), (.*)\)$/\2/p" kernels/ops.def | paste -sd'|')
    code="^(?!\s*(/\*|\*[ /]|//|#\s*include)).*(\"($names)\"|\"[^\"]*/($names)\b|\"/v[12]/[^\"]*/?($words)\b)"
    page="(?<!type: )[\"'\`]($names)[\"'\`]|/($names)\b|\b($names):"
    hits=$(grep -rnP --include='*.[ch]' --include='*.cc' --exclude-dir=clients "$code" api server || true
           grep -rnP --exclude='*.json' "$page" server/console/page || true)
    if [ -n "$hits" ]; then
        sed 's/^\([^:]*:[0-9]*\):.*/\1: names an op, which only kernels\/ knows/' <<<"$hits"
        named=1
    fi
fi

find "${folders[@]}" -type f -regex '.*[.]\(c\|h\|inc\|def\|cc\|cpp\|cxx\|hh\|hpp\|cu\|cuh\)' |
    LC_ALL=C sort | awk -v named=$named '
BEGIN {
    # The folders that each folder may include, including itself.
    may["kernels"] = "kernels"
    may["api"] = "api kernels"
    may["gpu"] = "gpu kernels"
    may["server"] = "server api gpu kernels"
    may["tests/kernels"] = "kernels"
    may["tests/api"] = "api kernels"
    may["tests/gpu"] = "gpu kernels"
    may["tests/support"] = "kernels"
    may["tests"] = "server api gpu kernels"

    modules["kernels"] = ". functions convert rows permute key_index chain *"  # *: the ops, which do not include each other
    modules["kernels/einsum"] = "nest gemm sumprod ."
    modules["api"] = "text message json programs files oip openapi ."
    modules["gpu"] = ". reference cuda loader"
    modules["gpu/cuda"] = "kernels runtime ops ."
    modules["server"] = "config observe traces auth memory workers clients compression store devices calls console http check ."

    # Headers of the system and of libraries that a folder must not include, as a regular expression.
    http = "microhttpd[.]h"
    json = "(cjson/|cJSON[.]h|simdjson|yyjson|dragonbox)"
    threads = "(pthread|threads|semaphore|sched)[.]h|thread|mutex|future|condition_variable"
    clocks = "(sys/)?time[.]h|sys/times[.]h|ctime|chrono"
    sockets = "(sys/(socket|un|epoll|select|eventfd)|netinet/.*|arpa/.*|netdb|poll|ifaddrs)[.]h"
    files = "(fcntl|unistd|dirent|sys/(mman|stat|file|uio)|dlfcn)[.]h|fstream|filesystem"
    cuda = "cuda.*|cublas.*|nvrtc.*|curand.*"
    forbidden["kernels"] = http "|" json "|" threads "|" clocks "|" sockets "|" files "|" cuda
    forbidden["api"] = http "|" threads "|" clocks "|" sockets "|" files "|" cuda
    forbidden["gpu"] = http "|" json "|" threads "|" sockets
    forbidden["server"] = cuda
}

function wrong(line, reason)
{
    printf "%s:%d: %s\n", path, line, reason
    n_wrong++
}

# Returns the longest entry of `may` that contains the file.
function place_of(file,    parts)
{
    split(file, parts, "/")
    return (parts[1] "/" parts[2]) in may ? parts[1] "/" parts[2] : parts[1]
}

# Returns the position of the module of a file in the list of a folder, from 1, or 0 if no module contains the file.
function height(file, folder,    rest, module, list, n, i)
{
    rest = substr(file, length(folder) + 2)
    module = rest ~ /\// ? rest : "."
    sub("/.*", "", module)
    n = split(modules[folder], list, " ")
    for (i = 1; i <= n; i++)
        if (list[i] == module || list[i] == "*")
            return i
    return 0
}

function in_folder(file, folder) { return index(file, folder "/") == 1 }

function module_of(file, folder,    rest)
{
    rest = substr(file, length(folder) + 2)
    return rest ~ /\// ? substr(rest, 1, index(rest, "/") - 1) : "."
}

# Checks that a file includes only files of its own module or of a lower one in the same folder.
function check_modules(line, name,    folder, from, to)
{
    for (folder in modules) {
        if (!in_folder(path, folder) || !in_folder(name, folder))
            continue
        from = height(path, folder)
        to = height(name, folder)
        if (!from || !to)
            wrong(line, "the module of " (from ? name : path) " is not in the list of " folder "/")
        else if (to > from || (to == from && module_of(path, folder) != module_of(name, folder)))
            wrong(line, folder "/" module_of(path, folder) " includes " name ", which is not below it")
    }
}

function check_own(line, name, place,    folder, i, n, allowed)
{
    folder = name
    sub("/.*", "", folder)
    if (folder !~ /^(kernels|api|gpu|server|tests)$/ || name ~ /(^|\/)[.][.]?\//) {
        # Only files that tests generate may be included by a relative path.
        if (place !~ /^tests/)
            wrong(line, "\"" name "\" is not a path from the root")
        return
    }
    if (folder == "tests") {
        if (place !~ /^tests/)
            wrong(line, place "/ includes " name ": nothing depends on tests")
        return
    }
    check_modules(line, name)
    n = split(may[place], allowed, " ")
    for (i = 1; i <= n; i++)
        if (allowed[i] == folder)
            return
    wrong(line, place "/ includes " name ", but there is no arrow from " place " to " folder)
}

function check_foreign(line, name, place,    rule)
{
    rule = forbidden[place]
    if (place == "gpu" && path !~ /^gpu\/cuda\//)
        rule = rule "|" cuda
    if (rule != "" && name ~ ("^(" rule ")"))
        wrong(line, place "/ includes <" name ">, which " place "/ must not use")
}

{
    path = $0
    place = place_of($0)
    n_files++
    if ($0 ~ /[.](cc|cpp|cxx|hh|hpp)$/ && $0 !~ /^api\/json\/[^\/]*[.]cc$/ && $0 !~ /^tests\//)
        wrong(1, "C++ is allowed only in api/json/*.cc")
    if ($0 ~ /[.](cu|cuh)$/ && $0 !~ /^gpu\/cuda\//)
        wrong(1, "CUDA is allowed only in gpu/cuda/")
    line = 0
    while ((getline text < path) > 0) {
        line++
        if (text !~ /^[ \t]*#[ \t]*include[ \t]*["<]/)
            continue
        n_includes++
        quoted = text ~ /include[ \t]*"/
        sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", text)
        sub(/[">].*/, "", text)
        if (quoted || text ~ /^(kernels|api|gpu|server|tests)\//)
            check_own(line, text, place)
        else
            check_foreign(line, text, place)
    }
    close(path)
}

END {
    if (n_files == 0) {
        print "no source files found"
        exit 1
    }
    if (n_wrong > 0 || named)
        exit 1
    printf "ok: %d includes in %d files follow the arrows\n", n_includes, n_files
}'
