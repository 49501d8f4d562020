#!/usr/bin/env bash
# wheel.sh - tests the wheel that deploy/wheel/build.py makes: the same bytes twice, its tag, its libraries and licences, the
# command that pip installs, TLS, the Python client with its notebook, an old processor, and a minimal system. Several minutes: everything
# is compiled twice.
#
# Without root, or the tools named in a line "SKIP", what needs them is left out. auditwheel is installed once, into
# ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/wheel-venv.
# shellcheck disable=SC2317 # functions that serve calls
set -euo pipefail
# shellcheck source=tests/deploy/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/machine.sh"
readonly TOOLS=auditwheel==6.8.2
cd "$root"
work=$(mktemp -d) daemon=''
trap 'stop_daemon; remove_machine; rm -rf "$work"' EXIT

quietly() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "$*"; }; }
stop_daemon() { [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; }

# The daemon listens, or has ended.
has_begun() { grep -q ' listening address=[^ ]* ' "$work/daemon" || ! kill -0 "$daemon" 2>/dev/null; }

# serve WHAT COMMAND...: the command, a daemon, starts, answers a gather, and ends with status 0 after SIGTERM. Before that the
# function meanwhile is called.
serve() {
    local what=$1 address status=0
    shift
    "$@" --data-dir "$work/tables" --listen 127.0.0.1:0 >"$work/daemon" 2>&1 &
    daemon=$!
    eventually has_begun
    address=$(sed -n 's/.* listening address=\([^ ]*\).*/\1/p' "$work/daemon")
    [ -n "$address" ] || { cat "$work/daemon" >&2; fail "$what: the daemon does not start"; }
    said=$(curl -s "$address/v1/gather" -d '{"params": {"ref": "planets"}, "indices": [2, 3]}')
    [ "$said" = '{"output":{"dtype":"float32","shape":[2,4],"data":[[5.97,6378.0,149.6,1.0],[0.642,3396.0,228.0,2.0]]}}' ] ||
        fail "$what: a gather is answered with $said"
    meanwhile
    kill -TERM "$daemon"
    wait "$daemon" || status=$?
    daemon=''
    [ $status -eq 0 ] || { cat "$work/daemon" >&2; fail "$what: the daemon ends with status $status"; }
    echo "ok: $what"
}
meanwhile() { :; }

mkdir "$work/tables"
cp deploy/sample/planets.npy "$work/tables/"

# ---------------------------------------------------------------- the file
say "building the wheel twice, the second time in another folder"
quietly deploy/dependencies.sh --wheel
if said=$(TENSORD_CACHE=$work/none deploy/wheel/build.py --build "$work/early" 2>&1); then fail "there is a wheel without the static libraries"; fi
[[ $said == *"deploy/dependencies.sh --wheel"* ]] || fail "without the static libraries build.py says: $said"
SOURCE_DATE_EPOCH=1767225600
export SOURCE_DATE_EPOCH
quietly deploy/wheel/build.py --build "$work/early" --output "$work/first" # a failed run leaves nothing in its way
wheel=$(echo "$work"/first/tensord-*.whl)
mkdir "$work/tree"
git ls-files -co --exclude-standard -z | xargs -0 tar -c | tar -x -C "$work/tree"
(cd "$work/tree" && CCACHE_DISABLE=1 quietly deploy/wheel/build.py --output "$work/second")
cmp "$wheel" "$work/second/${wheel##*/}" || fail "two builds of the same sources differ"
rm -rf "$work/tree"
echo "ok: reproducible"

python3 - "$wheel" <<'END'
import base64, email, hashlib, json, sys, zipfile

wheel = zipfile.ZipFile(sys.argv[1])
folder = next(name.split("/")[0] for name in wheel.namelist() if name.endswith("/RECORD"))
for row in wheel.read(f"{folder}/RECORD").decode().splitlines():
    name, digest, size = row.rsplit(",", 2)
    content = wheel.read(name)
    expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert name.endswith("/RECORD") or (digest, int(size)) == (f"sha256={expected}", len(content)), row
assert len(wheel.namelist()) == len(set(wheel.namelist())), wheel.namelist()

metadata = email.message_from_bytes(wheel.read(f"{folder}/METADATA"))
licences = set(metadata.get_all("License-File"))
assert {f"{folder}/licenses/{name}" for name in licences} == {name for name in wheel.namelist() if "/licenses/" in name}, licences
bill = json.loads(wheel.read(f"{folder}/sboms/tensord.spdx.json"))
packages = {package["SPDXID"]: package for package in bill["packages"]}
linked = [packages[one["relatedSpdxElement"]] for one in bill["relationships"] if one["relationshipType"] == "STATIC_LINK"]
names = {package["name"] for package in linked}
assert {"libmicrohttpd", "libcjson", "libgnutls28-dev", "nettle-dev", "libgmp-dev", "libxxhash-dev", "zlib1g-dev"} <= names, names
for package in linked:
    assert f"{package['name']}.txt" in licences, f"{package['name']} has no licence in {licences}"
    assert package["licenseDeclared"] in metadata["License-Expression"].replace("(", "").replace(")", ""), package
assert "LICENSE" in licences and "common-licenses/LGPL-2.1" in licences, licences
print(f"ok: licences of {len(linked)} libraries that are linked")
END

venv=$cache/wheel-venv
mkdir -p "$cache"
exec 9>"$venv.lock" # one run at a time installs it
flock 9
if ! { [ -x "$venv/bin/auditwheel" ] || { python3 -m venv "$venv" && "$venv/bin/pip" install -q "$TOOLS"; }; } >/dev/null 2>&1; then
    echo "SKIP auditwheel: $TOOLS cannot be installed into $venv"
else
    tag=${wheel##*-none-}
    tag=${tag%.whl}
    "$venv/bin/auditwheel" show "$wheel" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "auditwheel"; }
    tr '\n' ' ' <"$work/log" | grep -q "following platform tag: \"$tag\"" || { cat "$work/log" >&2; fail "auditwheel expects another tag than $tag"; }
    "$venv/bin/python" -c '
import sys, zipfile
from packaging.metadata import Metadata
wheel = zipfile.ZipFile(sys.argv[1])
Metadata.from_email(wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))), validate=True)' "$wheel" ||
        fail "METADATA"
    echo "ok: auditwheel finds $tag, and the metadata are valid"
fi
exec 9>&-

# ---------------------------------------------------------------- the command
quietly python3 -m venv "$work/venv"
quietly "$work/venv/bin/pip" install --no-index --no-deps "$wheel"
binary=$("$work/venv/bin/python" -c 'import tensord_daemon; print(tensord_daemon.BINARY)')
said=$("$work/venv/bin/python" -c 'import importlib.metadata; print("tensord", importlib.metadata.version("tensord"))')
[ "$("$work/venv/bin/tensord" --version)" = "$said" ] || fail "the wheel says $said, the program $("$work/venv/bin/tensord" --version)"
! "$work/venv/bin/pip" install --no-index --no-deps --dry-run --target "$work/none" --platform manylinux_2_17_x86_64 \
    --only-binary=:all: "$wheel" >"$work/log" 2>&1 || fail "pip installs $wheel for glibc 2.17"
grep -q 'not a supported wheel' "$work/log" || { cat "$work/log" >&2; fail "pip does not say that the platform is not supported"; }

others=$(ldd "$binary" | grep -vE '^\s*(linux-vdso|libc|libm|/lib(64)?/ld-linux-[-a-z0-9_]*)\.so\.[0-9]' || true)
[ -z "$others" ] || fail "the program loads $others"
! readelf -d "$binary" | grep -E 'RPATH|RUNPATH' || fail "the program has a path of libraries"
! nm -D "$binary" | grep -E '(arc4random|_dl_find_object|@GLIBC_2\.(3[5-9]|[4-9][0-9]))' || fail "the program needs a newer glibc than its tag should say"
! strings -a "$binary" | grep -F -e "$root" -e "$work" || fail "the program names folders of this machine"
echo "ok: no library but glibc's"

# The process that was started is the daemon: no Python waits for it.
meanwhile() { [ "$(readlink "/proc/$daemon/exe")" = "$binary" ] || fail "the process is $(readlink "/proc/$daemon/exe")"; }
serve "the command, with no environment" env -i "$work/venv/bin/tensord"
meanwhile() { :; }
if unshare --mount true 2>/dev/null; then
    # shellcheck disable=SC2016 # $1 and $2 belong to the inner shell
    serve "without the tree and the cache" unshare --mount sh -c \
        'cd / && mount -t tmpfs none "$1" && mount -t tmpfs none "$2" && shift 2 && exec env -i "$@"' sh "$root" "$cache" "$work/venv/bin/tensord"
else
    echo "SKIP without the tree: unshare --mount is not permitted"
fi

# Tests that stop the daemon at gates start another program, which the wheel does not have: that of the release build.
if [ ! -x build/tests/gates/tensord-gated ]; then
    quietly cmake --preset release -DTD_GPU=OFF
    quietly cmake --build --preset release --target tensord-gated -j "$(nproc)"
fi
mkdir -p "${binary%/*}/tests/gates"
ln -s "$root/build/tests/gates/tensord-gated" "${binary%/*}/tests/gates/"
quietly python3 tests/http/run.py --binary "$binary" --only test_tls --only test_ops
echo "ok: HTTP and TLS: $(grep -E '[0-9]+ passed' "$work/log" | tail -n 1)"

# A library that the program loads itself, for --otlp-endpoint, has a GnuTLS of its own.
quietly python3 tests/http/run.py --binary "$binary" --only test_traces
echo "ok: spans: $(grep -E '[0-9]+ passed' "$work/log" | tail -n 1)"

if command -v qemu-x86_64 >/dev/null; then
    meanwhile() {
        curl -s "$address/v1/devices" | grep -q '"isa":"generic"' || fail "the device on an emulated Nehalem: $(curl -s "$address/v1/devices")"
        said=$(curl -s "$address/v1/einsum" -d '{"equation": "ij,jk->ik", "inputs": [[[1,2],[3,4]], [[5,6],[7,8]]]}')
        [ "$said" = '{"output":{"dtype":"int32","shape":[2,2],"data":[[19,22],[43,50]]}}' ] || fail "einsum on an emulated Nehalem: $said"
    }
    serve "a processor without AVX" qemu-x86_64 -cpu Nehalem "$binary"
    meanwhile() { :; }
else
    echo "SKIP a processor without AVX: qemu-x86_64 is not installed (package qemu-user)"
fi

# ---------------------------------------------------------------- the daemon and the client
if "$work/venv/bin/pip" install -q numpy >/dev/null 2>&1; then
    cat >"$work/together.py" <<'END'
import importlib.metadata, os, sys
from pathlib import Path
import tensord
from tensord import serving
program = Path(serving.binary())
assert program == Path(tensord.__file__).parent / "bin" / "tensord" and os.access(program, os.X_OK), program
assert tensord.__version__ == importlib.metadata.version("tensord")
with tensord.serve(sys.argv[1]) as server:
    assert server.client.gather("planets", [2, 3])[:, 3].tolist() == [1, 2]
END
    env -i PATH=/usr/bin:/bin "$work/venv/bin/python" "$work/together.py" "$work/tables" || fail "tensord.serve of the wheel"
    "$work/venv/bin/python" -c 'import numpy, sys; numpy.savez(sys.argv[1], rows=[[1.5], [2.5]])' "$work/films.npz"
    quietly env -i "$work/venv/bin/tensord-import" "$work/films.npz" --data-dir "$work/tables"
    meanwhile() {
        said=$("$work/venv/bin/python" -m tensord --url "http://$address" gather params=planets 'indices=[2]')
        [ "$said" = '[[5.97, 6378.0, 149.6, 1.0]]' ] || fail "python -m tensord gather is answered with $said"
        said=$("$work/venv/bin/python" -m tensord --url "http://$address" get films:rows)
        [ "$said" = '[[1.5], [2.5]]' ] || fail "the table of tensord-import has $said"
    }
    serve "the command tensord, asked by python -m tensord" env -i "$work/venv/bin/tensord"
    meanwhile() { :; }
    echo "ok: tensord.serve starts the daemon of the wheel"
    status=0
    tests/deploy/notebook.py "$wheel" || status=$?
    [ $status -eq 0 ] || [ $status -eq 77 ] || fail "the notebook"
else
    echo "SKIP the client: numpy cannot be installed"
fi

# ---------------------------------------------------------------- exceptions of C++ with older_glibc.c
cat >"$work/throw.cc" <<'END'
#include <stdexcept>
#include <string>
int main(int argc, char **argv)
{
    try {
        return std::stoi(argc > 1 ? argv[1] : "none");
    } catch (const std::invalid_argument &) {
        return 42;
    }
}
END
gcc -O2 -D_GNU_SOURCE -c deploy/wheel/older_glibc.c -o "$work/older_glibc.o"
g++ -O2 -static-libgcc -static-libstdc++ "$work/throw.cc" "$work/older_glibc.o" -o "$work/throw"
status=0
"$work/throw" || status=$?
[ $status -eq 42 ] || fail "an exception ends a program with status $status"
! nm -D "$work/throw" | grep _dl_find_object || fail "_dl_find_object is that of glibc"
echo "ok: exceptions without glibc's _dl_find_object"

# ---------------------------------------------------------------- a minimal system
if [ "$(id -u)" -ne 0 ]; then
    echo "SKIP a minimal system: needs root"
elif ! command -v debootstrap >/dev/null && [ ! -f "$cache/debian-$suite-base.tar" ]; then
    echo "SKIP a minimal system: debootstrap is not installed"
else
    unpack_machine
    python3 -m zipfile -e "$wheel" "$machine/root/wheel"
    chmod 755 "$machine/root/wheel/tensord/bin/tensord"
    cp -R "$work/tables" "$machine/root/"
    cat >"$machine/root/serve" <<'END'
set -eu
mkfifo log
env -i wheel/tensord/bin/tensord --data-dir tables 2>log & daemon=$!
exec 3<log
while read -r line <&3; do case $line in *ready*) break ;; esac; done
cat <&3 >/dev/null &
env -i wheel/tensord/bin/tensord --check-health
bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; printf "GET /v1/tensors/planets HTTP/1.0\r\n\r\n" >&3; cat <&3' | grep -a '"shape":\[8,4\]'
kill -TERM $daemon
wait $daemon
END
    in_machine "sh ./serve" --net >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "in a minimal $suite"; }
    echo "ok: in a minimal $suite, unpacked"
fi
echo "SKIP a distribution older than this machine's: ${wheel##*/} asks for a newer glibc than that of Debian 11 (2.31)"
say "passed"
