#!/usr/bin/env bash
# progress.sh - tests deploy/progress.sh, with and without a terminal.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/progress.sh
. "$root/deploy/progress.sh"
work=$(mktemp -d)
log=$work/log script=$work/script
trap 'rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
# expect WHAT GIVEN PATTERN: the whole text matches the extended regular expression.
expect() { [[ $2 =~ ^$3$ ]] || fail "$1: got '$2', expected '$3'"; }

noise() { echo out; echo err >&2; }
broken() { echo gone wrong; return 7; }

expect "a step of a script" "$(step "$log" "building x" noise)" $'building x \.\.\.\nbuilding x: [0-9]+ s'
expect "its output" "$(cat "$log")" $'out\nerr'
status=0
said=$(step "$log" "breaking" broken) || status=$?
expect "a step that fails" "$said" $'breaking \.\.\.\nbreaking: [0-9]+ s \(failed\)'
expect "its status" $status 7
expect "its output, appended" "$(cat "$log")" $'out\nerr\ngone wrong'

# percent TEXT: of a log with that text
percent() { printf '%b' "$1" >"$log"; percentage "$log" "${2:-0}"; }
expect "no count" "$(percent 'Scanning\n')" ''
expect "no log" "$(percentage /nonexistent 0)" ''
expect "make" "$(percent '[  1%] a\n[ 42%] Building C object x\nwarning: y\n')" ', 42%'
expect "the end of make" "$(percent '[100%] Built target x\n')" ', 100%'
expect "ninja" "$(percent '[1/8] a\n[2/8] Building C object x\n')" ', 25%'
expect "only what a step has printed itself" "$(percent '[100%] x\n[ 5%] y\n' 9)" ', 5%'
expect "nothing so far" "$(percent '[100%] x\n' 9)" ''

# In a script of its own, since a terminal is given to a process.
cat >"$script" <<END
set -euo pipefail
. "$root/deploy/progress.sh"
slow() { echo '[ 42%] x'; read -r _ <"$work/drawn"; }
step "$log" compiling slow
END
: >"$log"
mkfifo "$work/drawn"
# The step ends when its percentage has been drawn.
said='' drawn=no
while IFS= read -r -N 1 character; do
    [ "$character" = $'\r' ] || said+=$character
    [[ $drawn = yes || $said != *", 42%"* ]] || { echo >"$work/drawn" && drawn=yes; }
done < <(script -qec "bash '$script'" /dev/null </dev/null)
expect "a terminal" "$said" $'.*compiling: [0-9]+ s, 42%.*\e\\[Kcompiling: [0-9]+ s\n'
echo "passed"
