#!/usr/bin/env bash
# dependencies.sh - tests where deploy/dependencies.sh takes libmicrohttpd from, with a mirror on the loopback interface.
#
# Copies of the scripts run beside a list with the checksum of a small tar file, whose configure and make install nothing but
# libmicrohttpd.pc; programs in front of PATH stand for apt, and curl may reach only the loopback interface.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d) server=''
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

fail() { printf 'FAILED: %s\n' "$*" >&2; [ ! -f "$work/out" ] || sed 's/^/    /' "$work/out" >&2; exit 1; }

readonly name=libmicrohttpd-1.0.77.tar.gz pooled=libmicrohttpd_1.0.77.orig.tar.gz
pool=$work/mirror/pool/main/libm/libmicrohttpd
mkdir -p "$work/deploy" "$work/bin" "$work/sources/tree" "$pool"
cp "$root"/deploy/{dependencies,progress}.sh "$work/deploy/"

cat >"$work/sources/tree/configure" <<'END'
#!/bin/sh
for option; do case $option in --prefix=*) prefix=${option#--prefix=} ;; esac; done
printf 'Name: libmicrohttpd\nDescription: d\nVersion: 1.0.77\n' >libmicrohttpd.pc
printf 'all:\ninstall:\n\tmkdir -p $(DESTDIR)%s/lib/pkgconfig\n\tcp libmicrohttpd.pc $(DESTDIR)%s/lib/pkgconfig/\n' \
    "$prefix" "$prefix" >Makefile
END
chmod +x "$work/sources/tree/configure"
tar -C "$work/sources" -czf "$work/right.tar.gz" tree
echo wrong >"$work/wrong.tar.gz"
right=$(sha256sum <"$work/right.tar.gz" | cut -d ' ' -f 1)
wrong=$(sha256sum <"$work/wrong.tar.gz" | cut -d ' ' -f 1)
printf '%064d  libmicrohttpd-1.0.88.tar.gz\n%s  %s\n' 0 "$right" "$name" >"$work/deploy/libmicrohttpd.sha256"

# A server that says its port, for any free one.
mkfifo "$work/port"
python3 -u -c '
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_port)
server.serve_forever()' "$work/mirror" >"$work/port" 2>"$work/requests" &
server=$!
read -r port <"$work/port" || fail "the mirror does not start"
mirror=http://127.0.0.1:$port

cat >"$work/bin/apt-get" <<END
#!/bin/sh
case "\$*" in
"update --print-uris") echo "'$mirror/dists/stable/InRelease' x 0" ;;
*) echo "apt-get \$*: no network"; exit 100 ;;
esac
END
printf '#!/bin/sh\n' >"$work/bin/apt-cache"
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
shift 2
for package; do printf 'installed=%s ' "$package"; done
END
chmod +x "$work/bin"/*

# run [VARIABLE=VALUE...]: the status of the script; its output is $work/out.
run() {
    local status=0
    rm -rf "$work/cache"
    env PATH="$work/bin:$PATH" PKG_CONFIG_LIBDIR=/nonexistent TENSORD_CACHE="$work/cache" all_proxy=http://127.0.0.1:1 \
        no_proxy=127.0.0.1 TENSORD_MICROHTTPD_PREFIX= TENSORD_MICROHTTPD_TARBALL= "$@" \
        "$work/deploy/dependencies.sh" >"$work/out" 2>&1 || status=$?
    return "$status"
}
says() { grep -qF -- "$1" "$work/out" || fail "expected: $1"; }
installed() { [ "$(cat "$work/cache/libmicrohttpd/source.sha256")" = "$1" ] || fail "expected as the source: $1"; }

cp "$work/right.tar.gz" "$pool/$pooled"
run || fail "a mirror with the right file"
installed "$right  $pooled"
grep -q libmicrohttpd_1.0.88 "$work/requests" || fail "the newest release was not asked for first"
env PATH="$work/bin:$PATH" PKG_CONFIG_LIBDIR=/nonexistent TENSORD_CACHE="$work/cache" "$work/deploy/dependencies.sh" \
    >"$work/out" 2>&1 || fail "a second run"
! grep -E 'downloading|building' "$work/out" || fail "a second run built it again"

mkdir "$work/system"
printf 'Name: libmicrohttpd\nDescription: d\nVersion: 1.0.60\n' >"$work/system/libmicrohttpd.pc"
run PKG_CONFIG_LIBDIR="$work/system" || fail "a system with the library"
[ ! -e "$work/cache/libmicrohttpd" ] || fail "it was built though the system has it"
run PKG_CONFIG_LIBDIR="$work/system" TENSORD_MICROHTTPD=build || fail "a system with the library, and TENSORD_MICROHTTPD=build"
installed "$right  $pooled"
! run TENSORD_MICROHTTPD=static || fail "a wrong value was accepted"
says "TENSORD_MICROHTTPD is 'static'; expected build or nothing"

cp "$work/wrong.tar.gz" "$pool/$pooled"
! run || fail "a wrong checksum was accepted"
says "$pooled has the SHA-256 $wrong, but libmicrohttpd.sha256 lists $right for $name"
[ ! -e "$work/cache/libmicrohttpd" ] || fail "something was installed despite a wrong checksum"

mkdir -p "$work/mirror/pool/universe/libm/libmicrohttpd"
rm "$pool/$pooled"
cp "$work/right.tar.gz" "$work/mirror/pool/universe/libm/libmicrohttpd/$pooled"
run || fail "a mirror with the right file in another section"
installed "$right  $pooled"

rm -r "$work/mirror/pool"
! run || fail "no mirror has it"
says "no listed release of libmicrohttpd could be downloaded: taking the distribution's newest"
says "no libmicrohttpd >= 1.0.5 in suite"

cp "$work/right.tar.gz" "$work/$name"
run TENSORD_MICROHTTPD_TARBALL="$work/$name" || fail "a tar file of the list"
installed "$right  $name"
cp "$work/wrong.tar.gz" "$work/$name"
! run TENSORD_MICROHTTPD_TARBALL="$work/$name" || fail "a tar file of the list with a wrong checksum was accepted"
says "$work/$name has the SHA-256 $wrong, but"
run TENSORD_MICROHTTPD_TARBALL="$work/right.tar.gz" || fail "a tar file of another name"
installed "$right  right.tar.gz"

grep -vqE '^[0-9a-f]{64}  libmicrohttpd-[0-9.]+[.]tar[.]gz$' "$root/deploy/libmicrohttpd.sha256" &&
    fail "deploy/libmicrohttpd.sha256 has a line that is no checksum and name"
echo "passed"
