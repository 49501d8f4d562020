#!/usr/bin/env bash
# clean_machine.sh [--install] - tests deploy/quickstart.sh on a minimal Debian.
#
# Copies the work tree, uncommitted files included, into a minimal Debian and runs the README's command there as
# root; then once more, which must install and build nothing. SUITE=trixie selects another release.
set -euo pipefail
# shellcheck source=tests/deploy/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"

trap remove_machine EXIT

make_machine() {
    unpack_machine
    mkdir "$machine/root/tensord"
    # Skips files that git lists but that are deleted in the work tree.
    (cd "$root" && git ls-files -z --cached --others --exclude-standard | sort -zu |
        while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
        tar --null -T - -cf - | tar -C "$machine/root/tensord" -xf - --no-same-owner)
}

need "${1:-}" debootstrap unshare git
say "making a minimal Debian $suite"
make_machine

say "deploy/quickstart.sh --once"
in_machine "cd tensord && deploy/quickstart.sh --once" || fail "the first run"

say "deploy/quickstart.sh --once, again"
started=$SECONDS
in_machine "cd tensord && deploy/quickstart.sh --once" >"$machine/again" || { cat "$machine/again"; fail "the second run"; }
! grep -E 'installing|building' "$machine/again" || fail "the second run installed something"
say "passed; the second run took $((SECONDS - started)) s"
