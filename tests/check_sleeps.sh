#!/usr/bin/env bash
# check_sleeps.sh - no test sleeps until something is likely to have happened, and none asserts how long something took:
# both fail on a machine that is busy. A test opens and closes gates (tests/gates/README.md), waits for an event, or asks for a
# state with `eventually`. Only these files may sleep:
set -euo pipefail
cd "$(dirname "$0")/.."

allowed=(
    tests/http/daemon.py                 # eventually(): between two looks at a state
    tests/clients/python/conftest.py     # the same for the tests of the package, which import nothing of the others
    tests/support/eventually.c           # the same in C
    tests/support/eventually.sh          # the same in shell
    tests/gates/clock.c                  # replaces the functions that wait
    tests/run.sh                         # a line of progress each second
    tests/check_sleeps.sh
)
exclude=(':!tests/bench') # benchmarks measure time
for file in "${allowed[@]}"; do exclude+=(":!$file"); done

status=0
# refuse WHAT PATTERN FILE...
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
[ $status -ne 0 ] || echo "no test sleeps or judges a time"
exit $status
