#!/usr/bin/env bash
# package.sh [--install] - tests the Debian package: lintian has no complaints, and on a minimal system apt installs it with its
# dependencies, the service's command runs, an upgrade keeps a changed configuration, and a purge leaves nothing. Then, where
# systemd-nspawn can boot that system, the same with the service that systemd runs.
#
# The system is that of this machine's release, since the package depends on the libraries that it was built with.
set -euo pipefail
SUITE=${SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}
# shellcheck source=tests/deploy/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
cd "$root"
log=$(mktemp)
trap 'remove_machine; rm -f "$log"' EXIT

quietly() { "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "$*"; }; }

# ---------------------------------------------------------------- on this machine
# make_package VERSION OPTION...: a package that says it has that version.
make_package() {
    (cd build-package && cpack -D "CPACK_PACKAGE_VERSION=$1" "${@:2}")
    mv "build-package/tensord_$1_$(dpkg --print-architecture).deb" "$machine/root/$1.deb"
}

# ---------------------------------------------------------------- in the machine
# expect WHAT COMMAND: the command succeeds in the machine.
expect() { in_machine "$2" >"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "$1"; }; echo "ok: $1"; }
apt() { echo "DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o Dpkg::Use-Pty=0 $*"; }

# The commands of the unit run as its user: the service starts, serves a table, and stops with status 0.
service() {
    local unit=/usr/lib/systemd/system/tensord.service pre start
    pre=$(sed -n 's/^ExecStartPre=//p' "$machine$unit") start=$(sed -n 's/^ExecStart=//p' "$machine$unit")
    cat >"$machine/root/service" <<END
set -eu
install -d -o tensord -g tensord /var/lib/tensord
cp /usr/share/doc/tensord/examples/planets.npy /var/lib/tensord/
as_user='setpriv --reuid tensord --regid tensord --clear-groups --no-new-privs'
\$as_user $pre
rm -f log
mkfifo log
\$as_user $start 2>log & daemon=\$!
exec 3<log
while read -r line <&3; do case \$line in *ready*) break ;; esac; done
cat <&3 >/dev/null &
$start --check-health
bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; printf "GET /v1/tensors/planets HTTP/1.0\r\n\r\n" >&3; cat <&3' | grep -a '"shape":\[8,4\]'
kill -TERM \$daemon
wait \$daemon
END
    in_machine "sh ./service" --net >"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "$1: the commands of the unit"; }
    echo "ok: $1: the commands of the unit"
}

# Boots the machine with the package installed; boot_test runs in it and ends it.
under_systemd() {
    local wants=$machine/etc/systemd/system/default.target.wants
    mkdir -p "$wants"
    cp "$root"/tests/{deploy/package_boot,support/eventually}.sh "$machine/root/"
    cat >"$machine/etc/systemd/system/boot-test.service" <<'END'
[Unit]
After=multi-user.target tensord.service
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/sh -c 'sh /root/package_boot.sh >/root/result 2>&1; systemctl poweroff --force'
END
    ln -s ../boot-test.service "$wants/boot-test.service"
    timeout 1200 systemd-nspawn -D "$machine" --boot --register=no --keep-unit --private-network >"$log" 2>&1 || true
    if [ ! -s "$machine/root/result" ]; then
        echo "SKIP systemd: it does not boot here: $(tail -n 1 "$log")"
        return
    fi
    cat "$machine/root/result"
    [ "$(tail -n 1 "$machine/root/result")" = passed ] || fail "under systemd"
}

need "${1:-}" debootstrap unshare dpkg-shlibdeps ip
say "building the package"
if command -v ccache >/dev/null; then export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
quietly cmake --preset package
quietly cmake --build --preset package -j "$(nproc)"
unpack_machine
quietly make_package 0.3.0
quietly make_package 0.3.1
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$machine/root/0.3.0.deb" ||
        fail "lintian"
    echo "ok: lintian"
else
    echo "SKIP lintian is not installed"
fi

say "installing it in a minimal $suite"
expect "apt update" "apt-get update -qq"
expect "installation" "$(apt install --no-install-recommends ./0.3.0.deb)"
expect "the libraries are there" "tensord --version | grep -F 0.3.0"
expect "the account" "getent passwd tensord | grep nologin"
expect "the service is enabled" "test -L /etc/systemd/system/multi-user.target.wants/tensord.service"
expect "the socket is enabled" "test -L /etc/systemd/system/sockets.target.wants/tensord.socket"
service "first version"

expect "a changed configuration" "sed -i 's|}|,\"workers\": 3}|' /etc/tensord/tensord.json && echo A=1 >/etc/tensord/tensord.env"
expect "upgrade" "$(apt install ./0.3.1.deb)"
expect "the new version" "dpkg-query -W -f '\${Version}' tensord | grep -x 0.3.1"
expect "the upgrade keeps the configuration" "grep workers /etc/tensord/tensord.json"
service "second version"

expect "removal" "$(apt remove tensord)"
expect "the removal keeps configuration and tables" "test -f /etc/tensord/tensord.json -a -f /var/lib/tensord/planets.npy"
expect "the removal removes the program" "! test -e /usr/bin/tensord -o -e /usr/lib/systemd/system/tensord.service"
expect "purge" "$(apt purge tensord)"
expect "the purge leaves no file" "find / -xdev -name '*tensord*' ! -path '/proc/*' | grep . && exit 1 || exit 0"

expect "installation once more" "$(apt install --no-install-recommends ./0.3.1.deb)"
expect "purge at once" "$(apt purge tensord)"

if command -v systemd-nspawn >/dev/null; then
    say "under systemd"
    expect "installation with systemd" "$(apt install --no-install-recommends systemd systemd-sysv dbus curl ./0.3.0.deb)"
    under_systemd
else
    echo "SKIP systemd: systemd-nspawn is not installed (package systemd-container)"
fi
say "passed"
