#!/usr/bin/env bash
# install.sh [BUILD] - tests what `cmake --install` installs: the files and their folders, the unit, the sample configuration,
# the man page, and the completions, with the tools that are installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source=$PWD
documents=$(ls docs)
build=$(realpath "${1:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null || { echo "SKIP $2: $1 is not installed"; return 1; }; }
install_to() { DESTDIR=$1 cmake --install "$build" --prefix "$2" >"$work/log" 2>&1 || { cat "$work/log"; fail "cmake --install"; }; }

install_to "$work/usr" /usr
cd "$work/usr"
for file in usr/bin/tensord usr/lib/systemd/system/tensord.{service,socket} usr/share/man/man8/tensord.8.gz etc/tensord/tensord.json \
    usr/share/tensord/import/{__main__.py,requirements.txt} usr/share/bash-completion/completions/tensord usr/share/fish/vendor_completions.d/tensord.fish \
    usr/share/doc/tensord/{README.md,copyright,tensord.spdx.json,docs/operation.md,examples/planets.npy}; do
    [ -f "$file" ] || fail "$file is not installed"
done
[ "$(ls usr/share/doc/tensord/docs)" = "$documents" ] || fail "not all documents are installed: $(ls usr/share/doc/tensord/docs)"
[ "$(ls)" = $'etc\nusr' ] || fail "installed outside of the prefix: $(ls)"
grep -qx 'ExecStart=/usr/bin/tensord --config /etc/tensord/tensord.json' usr/lib/systemd/system/tensord.service ||
    fail "ExecStart: $(grep ExecStart= usr/lib/systemd/system/tensord.service)"
! grep /usr/local usr/lib/systemd/system/* || fail "the units name another prefix"

echo '{"workers": 3}' >etc/tensord/tensord.json
install_to "$work/usr" /usr
[ "$(cat etc/tensord/tensord.json)" = '{"workers": 3}' ] || fail "the configuration of an administrator was replaced"

install_to "$work/other" /opt/it
cd "$work/other/opt/it"
grep -qx 'ExecStart=/opt/it/bin/tensord --config /opt/it/etc/tensord/tensord.json' lib/systemd/system/tensord.service ||
    fail "another prefix: $(grep ExecStart= lib/systemd/system/tensord.service)"

# ---------------------------------------------------------------- systemd finds the units
if has systemctl "enabling the units"; then
    # enable ROOT UNIT...: without their comments on targets that this root lacks
    enable() { systemctl --root="$1" enable "${@:2}" >"$work/log" 2>&1 || { cat "$work/log"; fail "systemctl enable ${*:2}"; }; }
    install_to "$work/local" /usr/local
    enable "$work/local" tensord.socket tensord.service
    enable "$work/other" /opt/it/lib/systemd/system/tensord.{socket,service}
    for root in local other; do
        for wants in sockets.target.wants/tensord.socket multi-user.target.wants/tensord.service; do
            [ -L "$work/$root/etc/systemd/system/$wants" ] || fail "$wants was not enabled below $root"
        done
    done
fi

# ---------------------------------------------------------------- what is not built is named, and is a target
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }; }
quietly cmake --build "$build" --target installation
quietly cmake -S "$source" -B "$work/part" -DTD_TESTS=OFF -DTD_GPU=OFF
touch "$work/part/tensord"
! DESTDIR=$work/none cmake --install "$work/part" --prefix /usr >"$work/log" 2>&1 || fail "a part was installed"
tr -s ' \n' ' ' <"$work/log" | grep -q "cmake --build $work/part --target installation" || fail "the target is not named: $(cat "$work/log")"
[ -z "$(find "$work/none" -type f 2>/dev/null)" ] || fail "installed before the check: $(find "$work/none" -type f)"

mkdir "$work/tables"
said=$(TENSORD_DATA_DIR=$work/tables bin/tensord --config etc/tensord/tensord.json --check-config --listen 127.0.0.1:0 2>&1) ||
    fail "the sample configuration: $said"

# ---------------------------------------------------------------- the pages
"$work/usr/usr/bin/tensord" --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' | sort >"$work/options"
[ "$(wc -l <"$work/options")" -gt 40 ] || fail "--help has too few options"

gunzip -c share/man/man8/tensord.8.gz >"$work/tensord.8"
sed -n 's/^\\fB\(\\-\\-[a-z0-9\\-]*\)\\fR.*/\1/p' "$work/tensord.8" | tr -d '\\' | sort | cmp - "$work/options" ||
    fail "the man page has other options than --help"
if has man "the man page"; then
    said=$(man --warnings -l "$work/tensord.8" 2>&1 >/dev/null)
    [ -z "$said" ] || fail "man: $said"
fi
if has mandoc "the style of the man page"; then
    said=$(mandoc -Tlint "$work/tensord.8" 2>&1) || fail "mandoc: $said"
fi

# complete WORD...: what the function for bash answers for the last word.
complete_bash() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tensord; printf "%s\n" "${COMPREPLY[@]}"' \
        - share/bash-completion/completions/tensord tensord "$@"
}
# expect WHAT EXPECTED GIVEN
expect() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }
complete_bash -- | sort | cmp - "$work/options" || fail "bash completes other options than --help has"
expect "bash, a prefix" $'--drain-delay-ms\n--drain-timeout-ms' "$(complete_bash --drain)"
expect "bash, a choice" $'warn' "$(complete_bash --log-level w)"
expect "bash, after =" $'text' "$(complete_bash --log-format = t)"
expect "bash, a number" '' "$(complete_bash --workers '')"
expect "bash, a switch" $'on\noff' "$(complete_bash --compress o)"
expect "bash, an option after a switch" $'--config' "$(complete_bash --compress --conf)"
expect "bash, a folder" "$work/tables" "$(complete_bash --data-dir "$work/ta")"
expect "bash, a file" "$work/options" "$(complete_bash --config "$work/op")"

if has zsh "the completion for zsh"; then
    zsh -n share/zsh/*/_tensord || fail "zsh cannot read the completion"
    # Quotes and brackets are balanced, and each option is there: the array that _arguments gets.
    zsh -c '_arguments() { print -l -- "$@" }; . "$1"' - share/zsh/*/_tensord |
        sed -n 's/^[*]\{0,1\}\(--[a-z0-9-]*\)=\{0,1\}\[.*/\1/p' | sort | cmp - "$work/options" ||
        fail "zsh completes other options than --help has"
fi
if has fish "the completion for fish"; then
    fish --no-config -c "source share/fish/vendor_completions.d/tensord.fish; complete -C 'tensord --'" | cut -f 1 | sort |
        cmp - "$work/options" || fail "fish completes other options than --help has"
    expect "fish, a choice" $'warn' \
        "$(fish --no-config -c "source share/fish/vendor_completions.d/tensord.fish; complete -C 'tensord --log-level w'" | cut -f 1)"
fi

# A template with a part that does not exist.
! echo '{{nothing}}' | "$build/server/tensord-pages" 2>/dev/null || fail "an unknown part of a page was accepted"
echo "passed"
