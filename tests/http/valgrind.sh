#!/usr/bin/env bash
# valgrind.sh [BINARY] - the daemon under valgrind: serves the conformance cases of all ops and einsum's plans,
# inline and through the queue, stops on SIGTERM, and must leave no error and no leak.
#
# valgrind supports and reports at most AVX2, so the daemon chooses that by default; the second run uses the generic
# code. AddressSanitizer covers the code for AVX-512.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=${1:-build/tensord}
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkfifo "$work/stderr"

replay() { python3 tests/conformance/run.py --url "http://$address" --jobs 4 "$@"; }

run_with() {
    : >"$work/log"
    valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible \
        --errors-for-leak-kinds=definite,indirect,possible --num-callers=30 \
        "$binary" --listen 127.0.0.1:0 --log-format json --data-dir deploy/sample --default-timeout-ms 0 "$@" 2>"$work/stderr" &
    local pid=$! address="" line="" status=0 failed=0
    exec 3<"$work/stderr" # ends when the daemon has
    while [ -z "$address" ] && read -r line <&3; do
        echo "$line" >>"$work/log"
        address=$(sed -n 's/.*"event":"listening","address":"\([^"]*\)".*/\1/p' <<<"$line")
    done
    cat <&3 >>"$work/log" &
    local reader=$!
    [ -n "$address" ] || { cat "$work/log"; echo "the daemon did not start"; return 1; }
    for transport in json json-base64 safetensors; do replay --transport $transport || failed=1; done
    replay --plan || failed=1
    kill -TERM $pid
    wait $pid || status=$?
    wait $reader
    exec 3<&-
    [ $status -eq 0 ] && [ $failed -eq 0 ] || { cat "$work/log"; echo "exit status $status"; return 1; }
}

run_with
run_with --inline-limit-us 0 --isa generic
