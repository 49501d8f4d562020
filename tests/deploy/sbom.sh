#!/usr/bin/env bash
# sbom.sh [BUILD] - tests the bill of materials that a build makes: it has each library that the program loads, and
# spdx-tools find it valid. They are installed once, into ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/spdx-venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(realpath "${1:-build}")
document=$build/deploy/tensord.spdx.json
venv=${TENSORD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensord}/spdx-venv
readonly TOOLS=spdx-tools==0.8.3

command -v dpkg-query >/dev/null || { echo "skipped: no dpkg-query, so the libraries' packages are not known"; exit 77; }
python3 - "$document" "$build/tensord" <<'END'
import json, re, subprocess, sys

document, binary = json.load(open(sys.argv[1])), sys.argv[2]
packages = {package["SPDXID"]: package for package in document["packages"]}
linked = {(one["relationshipType"], packages[one["relatedSpdxElement"]]["name"]) for one in document["relationships"]}
assert ("DESCRIBES", "tensord") in linked, linked

version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
assert packages["SPDXRef-tensord"]["versionInfo"] in version, version

loaded = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
for path in re.findall(r"(/\S+) \(0x", loaded):
    # With /lib a link to /usr/lib, the package may know either name.
    for name in (path, "/usr" + path, path.removeprefix("/usr")):
        owner = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True).stdout
        if owner:
            break
    owner = owner.split(":")[0]
    assert not owner or ("DYNAMIC_LINK", owner) in linked, f"{path} of {owner} is missing: {sorted(linked)}"

if "libmicrohttpd" not in loaded:
    library = packages["SPDXRef-libmicrohttpd"]
    assert ("STATIC_LINK", "libmicrohttpd") in linked, linked
    assert re.fullmatch(r"1\.\d+\.\d+", library["versionInfo"]), library
    for checksum in library.get("checksums", []):
        assert re.fullmatch(r"[0-9a-f]{64}", checksum["checksumValue"]), library
    if "checksums" not in library:
        print("SKIP checksum of libmicrohttpd: it was built by an older deploy/dependencies.sh, or elsewhere")
for package in packages.values():
    assert package["licenseDeclared"] != "NOASSERTION", f"deploy/sbom.sh does not know the licence of {package['name']}"
print(f"{len(packages)} packages")
END

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock" # one run at a time installs them
flock 9
if ! { [ -x "$venv/bin/pyspdxtools" ] || { python3 -m venv "$venv" && "$venv/bin/pip" install -q "$TOOLS"; }; } >/dev/null 2>&1; then
    echo "SKIP validation: $TOOLS cannot be installed into $venv"
else
    exec 9>&-
    "$venv/bin/pyspdxtools" -i "$document" --version SPDX-2.3 || { echo "FAILED: pyspdxtools finds $document invalid"; exit 1; }
    # The validator finds faults: without its licence of data the document is not valid.
    grep -v dataLicense "$document" >"$document.wrong.spdx.json"
    ! "$venv/bin/pyspdxtools" -i "$document.wrong.spdx.json" --version SPDX-2.3 2>/dev/null ||
        { echo "FAILED: pyspdxtools accepts a document without dataLicense"; exit 1; }
    rm "$document.wrong.spdx.json"
    echo "valid SPDX 2.3"
fi

echo "passed"
