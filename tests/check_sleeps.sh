#!/usr/bin/env bash
# check_sleeps.sh - checks that no test sleeps to wait for an event and that no test asserts how long something took. Both fail on a
# busy machine. Instead, a test opens and closes gates (tests/gates/README.md), waits for an event, or polls a state with `eventually`.
# Only these files may sleep:
set -euo pipefail
cd "$(dirname "$0")/.."

allowed=(
    tests/http/daemon.py                 # eventually(): between two checks of a state
    tests/clients/python/conftest.py     # the same for the tests of the package, which must not import other tests
    tests/support/eventually.c           # the same in C
    tests/support/eventually.sh          # the same in shell
    tests/gates/clock.c                  # replaces the functions that wait
    tests/run.sh                         # to refresh the progress line each second
    tests/check_sleeps.sh
)
exclude=(':!tests/bench') # benchmarks measure time
for file in "${allowed[@]}"; do exclude+=(":!$file"); done

status=0
# refuse MESSAGE PATTERN FILE...
refuse() {
    local found
    found=$(git grep -nP "$2" -- "${@:3}" "${exclude[@]}" || true)
    [ -n "$found" ] || return 0
    printf '%s:\n%s\n' "$1" "$found"
    status=1
}

refuse "a test sleeps" '\b(u|nano|clock_nano)?sleep\(' 'tests/*.c' 'tests/*.h' 'tests/*.cc'
refuse "a test sleeps" '\b(time|asyncio)\.sleep\((?!0\))|waitForTimeout|wait_for_timeout' 'tests/*.py' 'tests/*.js'
refuse "a test sleeps" '(^|[;&|({]|\b(do|then|else|while|until|if)) *sleep +[^ ]' 'tests/*.sh'
refuse "a test asserts how long something took" \
    'assert(Less|Greater)(Equal)?\(.*(monotonic|perf_counter|elapsed|took)|assert .*(monotonic|perf_counter)\(\) *-' 'tests/*.py'
refuse "a test stretches its limits" 'TD_TEST_TIME_SCALE|\bSCALE\b' tests
[ $status -ne 0 ] || echo "no test sleeps or asserts a duration"
exit $status
