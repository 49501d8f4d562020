#!/usr/bin/env bash
# sbom.sh - prints the software bill of materials of a tensord that was built on this machine, as SPDX 2.3 in JSON.
#
#   deploy/sbom.sh BINARY VERSION [LIBMICROHTTPD [DRAGONBOX [ARCHIVE...]]]
#
# LIBMICROHTTPD is the prefix of libmicrohttpd if it is linked statically; the file source.sha256 in the prefix names the
# sources (dependencies.sh). DRAGONBOX is the folder of that header-only library. Each ARCHIVE is another static library that is
# linked, from a package of the distribution or from a prefix that dependencies.sh has built. All other linked libraries belong
# to packages of the distribution, in the versions that are installed here. The time is SOURCE_DATE_EPOCH, or now.
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
fi
binary=$1 version=$2 microhttpd=${3:-} dragonbox=${4:-}
shift $(($# < 4 ? $# : 4))
archives=("$@")
releases=$(dirname "${BASH_SOURCE[0]}")/libmicrohttpd.sha256
# shellcheck source=/dev/null
distribution=$(. /etc/os-release 2>/dev/null && echo "${ID:-}") || true
packages='' relationships=''

# Prints the licence of the libraries of a source package that tensord or its libraries link.
licence() {
    case $1 in
    glibc | gnutls28 | libtasn1-6 | libmicrohttpd) echo LGPL-2.1-or-later ;;
    gcc-*) echo 'GPL-3.0-or-later WITH GCC-exception-3.1' ;;
    nettle | gmp | libidn2 | libunistring) echo 'LGPL-3.0-or-later OR GPL-2.0-or-later' ;;
    p11-kit) echo BSD-3-Clause ;;
    cjson | libcjson | libffi) echo MIT ;;
    xxhash) echo BSD-2-Clause ;;
    curl) echo curl ;;
    dragonbox) echo 'Apache-2.0 WITH LLVM-exception OR BSL-1.0' ;;
    zlib) echo Zlib ;;
    *) echo NOASSERTION ;;
    esac
}

# add NAME VERSION LICENCE DOWNLOAD RELATIONSHIP [MEMBERS]: adds a package and its relationship to tensord.
add() {
    local id=SPDXRef-${1//[^a-zA-Z0-9.-]/-}
    packages+=$(printf ',\n    { "name": "%s", "SPDXID": "%s", "versionInfo": "%s", "downloadLocation": "%s",
      "filesAnalyzed": false, "licenseConcluded": "%s", "licenseDeclared": "%s", "copyrightText": "NOASSERTION"%s }' \
        "$1" "$id" "$2" "$4" "$3" "$3" "${6:-}")
    relationships+=$(printf ',\n    { "spdxElementId": "SPDXRef-%s", "relationshipType": "%s", "relatedSpdxElement": "%s" }' \
        "$([ "$5" = DESCRIBES ] && echo DOCUMENT || echo tensord)" "$5" "$id")
}

# Prints the packages that own the files, without duplicates.
owners() {
    local file
    for file; do
        # Where /lib is a link to /usr/lib, a package can list its files under either name.
        dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "/usr$file" 2>/dev/null || dpkg-query -S "${file#/usr}" 2>/dev/null ||
            echo "sbom: no package owns $file" >&2
    done | grep -v '^diversion ' | sed 's/: .*//' | sort -u
}

# add_package NAME RELATIONSHIP: adds a package of the distribution.
add_package() {
    local name version source architecture locator
    IFS=' ' read -r name version source architecture < <(
        # shellcheck disable=SC2016 # dpkg-query's variables
        dpkg-query -W -f '${Package} ${Version} ${source:Package} ${Architecture}\n' "$1")
    locator=$(sed 's/+/%2B/g; s/:/%3A/g; s/~/%7E/g' <<<"$version")
    locator="pkg:deb/$distribution/${name//+/%2B}@$locator?arch=$architecture"
    add "$name" "$version" "$(licence "$source")" NOASSERTION "$2" ",
      \"externalRefs\": [{ \"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"$locator\" }]"
}

# add_built NAME PREFIX: adds a static library that dependencies.sh has built into a prefix.
add_built() {
    local version sum='' name='' url=NOASSERTION members=''
    version=$(find "$2"/lib* -name "$1.pc" -exec sed -n 's/^Version: //p' {} + | head -n 1)
    if [ -f "$2/source.sha256" ]; then
        read -r sum name <"$2/source.sha256"
        members=",
      \"sourceInfo\": \"built from $name\",
      \"checksums\": [{ \"algorithm\": \"SHA256\", \"checksumValue\": \"$sum\" }]"
        ! grep -q "^$sum  $1-${version}[.]tar" "$releases" ||
            url=https://ftp.gnu.org/gnu/$1/$1-$version.tar.gz
    fi
    add "$1" "${version:-unknown}" "$(licence "$1")" "$url" STATIC_LINK "$members"
}

# add_archives ARCHIVE...: adds static libraries. An archive that no package owns is in a prefix of dependencies.sh.
add_archives() {
    local archive prefix owned=() package
    for archive; do
        prefix=$(dirname "$(dirname "$archive")")
        if [ -f "$prefix/source.sha256" ]; then
            add_built "$(basename "$archive" .a)" "$prefix"
        else
            owned+=("$archive")
        fi
    done
    for package in $(owners "${owned[@]}"); do add_package "$package" STATIC_LINK; done
}

add tensord "$version" Apache-2.0 NOASSERTION DESCRIBES ",
      \"primaryPackagePurpose\": \"APPLICATION\""
[ -z "$microhttpd" ] || add_built libmicrohttpd "$microhttpd"
if command -v dpkg-query >/dev/null; then
    if [ -n "$dragonbox" ]; then
        for package in $(owners "$dragonbox/dragonbox/dragonbox.h"); do add_package "$package" STATIC_LINK; done
    fi
    [ ${#archives[@]} -eq 0 ] || add_archives "${archives[@]}"
    mapfile -t libraries < <(ldd "$binary" | sed -n 's/.* => \(\/[^ ]*\) (.*/\1/p; s/^[ \t]*\(\/[^ ]*\) (.*/\1/p')
    for package in $(owners "${libraries[@]}"); do add_package "$package" DYNAMIC_LINK; done
    # libcurl is loaded only with --otlp-endpoint.
    for package in $(owners '*/libcurl.so.4'); do add_package "$package" DEPENDS_ON; done
else
    echo "sbom: dpkg-query is not installed; the dynamically linked libraries are left out" >&2
fi

# The namespace is an identifier of this content, which the format requires.
content=$(printf '%s%s' "$packages" "$relationships" | sha256sum | cut -c 1-32)
cat <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "tensord-$version",
  "documentNamespace": "https://spdx.org/spdxdocs/tensord-$version-$content",
  "creationInfo": { "created": "$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)", "creators": ["Tool: tensord-sbom-$version"] },
  "packages": [
${packages:2}
  ],
  "relationships": [
${relationships:2}
  ]
}
END
