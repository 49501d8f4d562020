#!/usr/bin/env bash
# quickstart.sh - installs dependencies, builds and starts tensord, and shows requests with their replies.
#
#   deploy/quickstart.sh               keeps serving after the requests, until Ctrl-C
#   deploy/quickstart.sh --once        stops after the requests; exits with status 0 if all replies were as expected
#   deploy/quickstart.sh --port 9000   serves on this port (default: 8080, or the next free port)
#
# The script is for Debian and Ubuntu. It needs root or sudo only if a package is missing. Running it again builds only
# what has changed. While it serves, the commands that it prints can be used in another terminal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/progress.sh
. deploy/progress.sh

say() { printf '\n== %s\n' "$*"; }
die() { printf 'quickstart: error: %s\n' "$*" >&2; exit 1; }

once=no port='' daemon='' work=$(mktemp -d)

stop_daemon() {
    local code=0
    [ -n "$daemon" ] || return 0
    kill -TERM "$daemon" 2>/dev/null || true
    wait "$daemon" || code=$?
    daemon=''
    return "$code"
}

clean_up() { stop_daemon || true; rm -rf "$work"; }

# port_is_free PORT: succeeds if nothing listens on 127.0.0.1:PORT.
port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

choose_port() {
    if [ -n "$port" ]; then
        port_is_free "$port" || die "port $port is in use; choose another with --port"
        return
    fi
    for port in {8080..8179}; do
        port_is_free "$port" && break
    done
    port_is_free "$port" || die "no port from 8080 to 8179 is free; choose another with --port"
    [ "$port" -eq 8080 ] || say "port 8080 is in use, using $port"
}

build() {
    local log=$work/build.log jobs
    jobs=$(nproc)
    say "Building (cmake --preset release)"
    if ! step "$log" "configure" cmake --preset release ||
        ! step "$log" "compile, $jobs at a time" \
            cmake --build --preset release --target tensord --parallel "$jobs"; then
        tail -n 30 "$log" >&2
        die "the build failed"
    fi
    echo "build/tensord is ready"
}

start_daemon() {
    local deadline=$((SECONDS + 30))
    say "Starting: build/tensord --listen 127.0.0.1:$port --data-dir deploy/sample"
    build/tensord --listen "127.0.0.1:$port" --data-dir deploy/sample &
    daemon=$!
    until command curl -sf -o /dev/null --max-time 2 "http://127.0.0.1:$port/readyz"; do
        kill -0 "$daemon" 2>/dev/null || die "tensord has exited; see its message above"
        [ "$SECONDS" -lt "$deadline" ] || die "tensord was not ready within 30 seconds"
        sleep 0.1
    done
    kill -0 "$daemon" 2>/dev/null || die "tensord has exited; another program listens on port $port"
}

# The commands below call this function. It writes the status to a file, so the printed commands need no option for the status.
curl() { command curl --max-time 30 -w '%{stderr}%{http_code}' "$@" 2>"$work/status"; }

# show TITLE STATUS EXPECTED COMMAND: prints the command and its reply. The reply must have the status STATUS and contain
# the text EXPECTED.
show() {
    local title=$1 status=$2 expected=$3 command=$4 reply
    printf '\n# %s\n$ %s\n' "$title" "$command"
    reply=$(eval "$command") || die "the command failed"
    [ -z "$reply" ] || printf '%s\n' "$reply"
    [ "$(cat "$work/status")" = "$status" ] || die "expected status $status, got $(cat "$work/status")"
    [[ $reply == *"$expected"* ]] || die "expected the reply to contain: $expected"
}

show_requests() {
    local url=http://127.0.0.1:$port file=$work/moons.safetensors
    say "Requests and replies"
    show "gather: select rows by index, all tensors in the request" 200 '[["c","d"],["a","b"]]' \
        "curl -s $url/v1/gather -d '{\"params\": [[\"a\",\"b\"],[\"c\",\"d\"]], \"indices\": [1,0]}'"
    show "gather from the resident table deploy/sample/planets.npy: Earth and Mars" 200 '[[5.97,6378.0,149.6,1.0],[0.642,3396.0,228.0,2.0]]' \
        "curl -s $url/v1/gather -d '{\"params\": {\"ref\": \"planets\"}, \"indices\": [2,3]}'"
    show "gather_nd: single values by row and column: the moons of Jupiter and of Saturn" 200 '[95.0,146.0]' \
        "curl -s $url/v1/gather_nd -d '{\"params\": {\"ref\": \"planets\"}, \"indices\": [[4,3],[5,3]]}'"
    show "an index out of bounds is refused, and the reply names it" 422 '"position":[1],"index":9,"bound":8' \
        "curl -s $url/v1/gather -d '{\"params\": {\"ref\": \"planets\"}, \"indices\": [2,9]}'"
    show "column 3 of all planets as a binary reply, a safetensors file" 200 '' \
        "curl -s $url/v1/gather -H 'Accept: application/vnd.safetensors' -d '{\"params\": {\"ref\": \"planets\"}, \"indices\": [3], \"axis\": 1}' -o $file"
    show_safetensors "$file" 32
    show "the resident tables" 200 '"planets"' "curl -s $url/v1/tensors"
}

# show_safetensors FILE SIZE: prints the header of a safetensors file. The file has an 8-byte header length, the header as
# JSON, and SIZE bytes of values.
show_safetensors() {
    local file=$1 data_bytes=$2 bytes header_bytes
    bytes=$(stat -c %s "$file")
    header_bytes=$(od -An -t u8 -N 8 "$file" | tr -d ' ')
    echo "$bytes bytes, header: $(tail -c +9 "$file" | head -c "$header_bytes")"
    [ "$bytes" -eq $((8 + header_bytes + data_bytes)) ] || die "expected $data_bytes bytes of values in $file"
}

while [ $# -gt 0 ]; do
    case $1 in
    --once) once=yes ;;
    --port) port=${2:-}; [[ $port =~ ^[0-9]+$ && $port -ge 1 && $port -le 65535 ]] || die "--port takes 1 to 65535"; shift ;;
    -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) die "unknown option $1 (see --help)" ;;
    esac
    shift
done

trap clean_up EXIT
say "Checking dependencies (deploy/dependencies.sh)"
deploy/dependencies.sh
build
choose_port
start_daemon
show_requests

if [ "$once" = no ]; then
    say "tensord serves on http://127.0.0.1:$port until Ctrl-C"
    trap 'echo' INT TERM # The signal ends the wait below.
    wait "$daemon" || true
    trap - INT TERM
fi
say "Stopping (SIGTERM)"
stop_daemon || die "tensord ended with exit code $?"
echo "all replies were as expected"
