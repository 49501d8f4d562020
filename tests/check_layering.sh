#!/usr/bin/env bash
# check_layering.sh - does every #include follow the arrows between the folders?
#
#     server ──► api ──► kernels        server ──► gpu ──► kernels        tests ──► what they test
#
#   tests/check_layering.sh [ROOT]
#
# Reads the #include lines only. Prints FILE:LINE and the reason for each that goes the wrong way and exits
# with 1; else prints one line that begins with "ok".
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

folders=()
for folder in kernels api gpu server tests; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
done

find "${folders[@]}" -type f -regex '.*[.]\(c\|h\|inc\|def\|cc\|cpp\|cxx\|hh\|hpp\|cu\|cuh\)' |
    LC_ALL=C sort | awk '
BEGIN {
    # Which of our folders a folder may name, itself included.
    may["kernels"] = "kernels"
    may["api"] = "api kernels"
    may["gpu"] = "gpu kernels"
    may["server"] = "server api gpu kernels"
    may["tests/kernels"] = "kernels"
    may["tests/api"] = "api kernels"
    may["tests/gpu"] = "gpu kernels"
    may["tests/support"] = "kernels"
    may["tests"] = "server api gpu kernels"

    # What a folder may not take from the system or from a library, as a regular expression.
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

# The longest entry of `may` that the file lies in.
function place_of(file,    parts)
{
    split(file, parts, "/")
    return (parts[1] "/" parts[2]) in may ? parts[1] "/" parts[2] : parts[1]
}

function check_own(line, name, place,    folder, i, n, allowed)
{
    folder = name
    sub("/.*", "", folder)
    if (folder !~ /^(kernels|api|gpu|server|tests)$/ || name ~ /(^|\/)[.][.]?\//) {
        # Beside the file itself is fine for what tests generate and for nothing else.
        if (place !~ /^tests/)
            wrong(line, "\"" name "\" is not a path from the root")
        return
    }
    if (folder == "tests") {
        if (place !~ /^tests/)
            wrong(line, place "/ includes " name ": nothing depends on tests")
        return
    }
    n = split(may[place], allowed, " ")
    for (i = 1; i <= n; i++)
        if (allowed[i] == folder)
            return
    wrong(line, place "/ includes " name ": there is no arrow from " place " to " folder)
}

function check_foreign(line, name, place,    rule)
{
    rule = forbidden[place]
    if (place == "gpu" && path !~ /^gpu\/cuda\//)
        rule = rule "|" cuda
    if (rule != "" && name ~ ("^(" rule ")"))
        wrong(line, place "/ includes <" name ">, which it must not know")
}

{
    path = $0
    place = place_of($0)
    n_files++
    if ($0 ~ /[.](cc|cpp|cxx|hh|hpp)$/ && $0 !~ /^api\/[^\/]*[.]cc$/ && $0 !~ /^tests\//)
        wrong(1, "C++ belongs into api/*.cc")
    if ($0 ~ /[.](cu|cuh)$/ && $0 !~ /^gpu\/cuda\//)
        wrong(1, "CUDA belongs into gpu/cuda/")
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
        print "there is no source file here"
        exit 1
    }
    if (n_wrong > 0)
        exit 1
    printf "ok: %d includes of %d files follow the arrows\n", n_includes, n_files
}'
