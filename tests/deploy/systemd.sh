#!/usr/bin/env bash
# systemd.sh [BINARY] - checks the units of deploy/systemd.
#
# Their syntax, the exposure that systemd-analyze computes (at most 1.5), and that a daemon restricted to the system calls and
# address families of the unit passes tests over HTTP: see sandboxed.py. systemd need not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
binary=$(realpath "${1:-build/tensord}")
units=deploy/systemd
readonly MOST_EXPOSURE=15 # in tenths
# Files, signals, connections, processor time, shared memory, inherited sockets, and a library that is loaded later.
readonly TOPICS=(test_metrics test_oip_memory test_ops test_restart test_traces.Spans)

fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is not installed (deploy/dependencies.sh --test)"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The binary is not installed where the units expect it.
cp "$units"/* "$work"
sed -i "s|/usr/\(local/\)\?bin/tensord|$binary|" "$work"/tensord.service
systemd-analyze verify --man=no "$work"/tensord.service "$work"/tensord.socket 2>"$work/said" ||
    fail "systemd-analyze verify: $(cat "$work/said")"
! grep "^$work" "$work/said" || fail "systemd-analyze verify has complaints, see above"

systemd-analyze security --offline=true --no-pager --threshold=$MOST_EXPOSURE "$units/tensord.service" >"$work/said" ||
    fail "too much exposure: $(tail -n 1 "$work/said")"
exposure=$(sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p' "$work/said")

sandboxed() { python3 tests/deploy/sandboxed.py "$units/tensord.service" "$@"; }
sandboxed /bin/true || fail "a program that needs nothing special does not run"
status=0
(sandboxed "$(command -v chroot)" / true) 2>/dev/null || status=$?
[ $status -eq 159 ] || fail "a forbidden system call has status $status, expected 159 (SIGSYS)"

# The daemon, and that with gates, which tests look for beside it.
readonly GATED=tests/gates/tensord-gated
mkdir -p "$work/${GATED%/*}"
for program in tensord $GATED; do
    printf '#!/bin/sh\nexec python3 "%s" "%s" "%s" "$@"\n' \
        "$PWD/tests/deploy/sandboxed.py" "$PWD/$units/tensord.service" "$(dirname "$binary")/$program" >"$work/$program"
    chmod +x "$work/$program"
done
tests/http/run.py --binary "$work/tensord" "${TOPICS[@]/#/--only=}"
echo "exposure $exposure; 1 passed, 0 failed"
