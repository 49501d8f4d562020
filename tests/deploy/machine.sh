# machine.sh - shared by the tests of this folder: a minimal Debian to install into, made by debootstrap from
# the mirror that apt uses on this machine. Sourced, not run.
#
# SUITE selects the release (default: bookworm). Exit code 77 means skipped, as in CTest.
# shellcheck shell=bash

# shellcheck disable=SC2034 # for the scripts that source this
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
suite=${SUITE:-bookworm}
cache=${TENSORD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensord}

# shellcheck source=tests/support/eventually.sh
. "$root/tests/support/eventually.sh"

say() { printf '== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }

# need INSTALL TOOL... - skips the test unless the tools are installed; INSTALL is --install to install them with apt.
need() {
    local install=$1 tool missing=()
    shift
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    for tool in "$@"; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$install" = --install ] || skip "not installed: ${missing[*]} (--install installs them)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

mirror() {
    apt-get update --print-uris 2>/dev/null |
        sed -n "s|^'\([^']*\)/dists/[^']*InRelease' .*|\1|p" | grep -v security | head -n 1
}

# Prints the path of a tar file of a minimal Debian, made once per release and cached.
base_tarball() {
    local tarball=$cache/debian-$suite-base.tar staging lock
    mkdir -p "$cache"
    exec {lock}>"$tarball.lock" # one run at a time makes it
    flock "$lock"
    if [ ! -f "$tarball" ]; then
        staging=$(mktemp -d)
        debootstrap --variant=minbase --force-check-gpg "$suite" "$staging" "$(mirror)" >"$staging.log" 2>&1 ||
            { tail -n 5 "$staging.log" >&2; fail "debootstrap of $suite"; }
        # apt inside uses this machine's settings for the mirror.
        apt-config dump | grep -E '^Acquire::(https?|Check)' >"$staging/etc/apt/apt.conf.d/90acquire" || true
        rm -rf "$staging"/var/cache/apt/archives/*.deb "$staging"/var/lib/apt/lists/*
        chmod 755 "$staging" # becomes "/", which all users must be able to enter
        tar -C "$staging" -cf "$tarball.new" . && mv "$tarball.new" "$tarball"
        rm -rf "$staging" "$staging.log"
    fi
    exec {lock}>&-
    echo "$tarball"
}

# Makes the folder $machine with a minimal Debian; remove_machine removes it.
unpack_machine() {
    local tarball
    tarball=$(base_tarball)
    machine=$(mktemp -d)
    tar -C "$machine" -xf "$tarball"
    cp -L /etc/resolv.conf /etc/hosts "$machine/etc/"
}

remove_machine() { [ -z "${machine:-}" ] || rm -rf --one-file-system "$machine"; }

# A port that nothing uses and that the kernel assigns to nobody.
free_port() { PYTHONPATH=$root/tests/http python3 -B -c 'import daemon; print(daemon.free_ports(1)[0])'; }

# in_machine COMMAND [UNSHARE-OPTION...]: runs a command in the machine's /root, in mount and PID namespaces of its own. With
# --net it has a loopback interface of its own too.
in_machine() {
    local command=$1
    shift
    # shellcheck disable=SC2016 # $1 belongs to the inner shell
    unshare --mount --pid --fork "$@" sh -c '
        case $1 in *--net*) ip link set lo up ;; esac && shift &&
        mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$@"' \
        sh "$*" "$machine" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        sh -c "cd /root && $command"
}
