#!/usr/bin/env bash
# dependencies.sh - installs the dependencies of tensord on Debian and Ubuntu.
#
#   deploy/dependencies.sh          installs the packages to build and run tensord
#   deploy/dependencies.sh --test   also installs the packages for the tests and checks
#   deploy/dependencies.sh --wheel  also installs the packages for deploy/wheel
#   deploy/dependencies.sh --profiled  also installs the packages for deploy/profiled_build.sh
#
# Run the script as any user. It uses sudo only if a package is missing. If nothing is missing, it ends within a
# fraction of a second.
#
# All packages are the distribution's own, with one exception: libmicrohttpd must be 1.0.5 or newer, because
# older versions accept ambiguous request framing (request smuggling). The script uses the first of these sources that is
# new enough; CMake searches them in the same order:
#   1. An existing installation, with TENSORD_MICROHTTPD_PREFIX=/path.
#   2. A static library in the cache, ${TENSORD_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tensord}/libmicrohttpd. The script
#      builds the library once, if TENSORD_MICROHTTPD=build or a tarball asks for it, or if neither 1 nor 3 is available.
#      The sources are the first of these that is available:
#        TENSORD_MICROHTTPD_TARBALL=/path/libmicrohttpd-x.y.z.tar.gz   a release; nothing is downloaded;
#        a release that deploy/libmicrohttpd.sha256 lists, from this machine's apt mirrors or from GNU's server;
#        the distribution's newest source package (Debian unstable, Ubuntu devel), which apt downloads
#        from this machine's mirror and checks against the archive's signing keys.
#      A tar file with the name of a listed release but a different checksum is an error.
#      For these downloads apt uses separate folders, so the machine's configuration and package lists do not change.
#      To build the library again, remove the folder.
#   3. The library that pkg-config finds on the system, or the distribution's package, which the script then installs.
#      This is a shared library. With it, replies to requests that are not well-formed HTTP are HTML pages.
#
# With --wheel, libmicrohttpd is built as with TENSORD_MICROHTTPD=build. cJSON, which Debian lacks as a static library, is
# built from the source package of the installed version into the folder cjson of the cache.
#
# Without apt-get, install the packages below by other means and use 1, or 2 with a tarball.
set -euo pipefail
deploy=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/progress.sh
. "$deploy/progress.sh"

readonly MICROHTTPD_AT_LEAST=1.0.5
# File with the releases that can be downloaded, newest first, each with its SHA-256. The files are upstream's. Debian
# distributes them with upstream's signature, and the checksums come from Debian's signed lists.
readonly MICROHTTPD_RELEASES=$deploy/libmicrohttpd.sha256
readonly BUILD_PACKAGES=(
    build-essential ca-certificates check cmake curl libcjson-dev libcurl4-openssl-dev libdragonbox-dev
    libgnutls28-dev libsimdjson-dev libunistring-dev libxxhash-dev nettle-dev pkg-config zlib1g-dev
)
readonly TEST_PACKAGES=(
    chromium-driver chromium-headless-shell clang clang-format clang-tidy fish haproxy libb64-0d libclang-rt-dev man-db mandoc openssl prometheus
    python3 python3-venv systemd valgrind wrk zsh
)
readonly PROFILED_PACKAGES=(python3)
# Packages that libgnutls.a depends on, and the package with the header of p11-kit, which has no static library
# (deploy/wheel/without_p11_kit.c).
readonly WHEEL_PACKAGES=(
    binutils libgmp-dev libidn2-dev libp11-kit-dev libtasn1-6-dev python3
)

# The build omits features that tensord does not use but requests could reach. The flags are part of the
# stamp: changing one rebuilds the library.
readonly MICROHTTPD_FLAGS=(
    --disable-shared --enable-static --with-pic --enable-epoll --enable-itc=eventfd
    --enable-https --disable-bauth --disable-dauth --disable-cookie --disable-postprocessor
    --disable-httpupgrade --disable-doc --disable-examples --disable-tools --disable-curl
    "CFLAGS=-O2 -g -fstack-protector-strong -fno-omit-frame-pointer"
)

say() { printf 'dependencies: %s\n' "$*"; }
die() { printf 'dependencies: error: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; return; fi
    command -v sudo >/dev/null || die "'$1' needs root, and sudo is not installed. Run this script as root"
    sudo "$@"
}

# Prints the named packages that are not installed.
missing_packages() {
    local installed package
    installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "$@" 2>/dev/null || true)"
    for package in "$@"; do
        [[ $installed == *" installed=$package "* ]] || echo "$package"
    done
}

# Prints the version that apt would install, or nothing.
apt_candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p' | grep -v '(none)' || true; }

# long_step TITLE COMMAND...: runs the command as a step with progress. If the command fails, the function prints only the
# end of its output, because apt, package scripts and compilers print a lot.
long_step() {
    local log title=$1 status=0
    shift
    log=$(mktemp)
    step "$log" "dependencies: $title" "$@" || status=$?
    [ "$status" -eq 0 ] || tail -n 20 "$log" >&2
    rm -f "$log"
    return "$status"
}

apt_install() {
    long_step "installing $*" as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends -o Dpkg::Use-Pty=0 "$@" || die "apt-get could not install: $*"
}

install_packages() {
    local missing absent=() package cache
    if ! command -v apt-get >/dev/null; then
        say "no apt-get on this machine; the build needs: ${BUILD_PACKAGES[*]}"
        return
    fi
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    lock_cache # apt cannot run twice at a time, and another run of this script might be installing the packages
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    say "packages are missing: ${missing[*]}"
    as_root true # sudo asks for a password before the progress line appears
    long_step "updating the lists of packages" as_root apt-get update -qq || die "apt-get update failed"
    for package in "${missing[@]}"; do
        [ -n "$(apt_candidate "$package")" ] || absent+=("$package")
    done
    [ ${#absent[@]} -eq 0 ] || die "$(distribution) has no package ${absent[*]}:" \
        "use Debian 12 or newer, Ubuntu 24.04 or newer, or the container image"
    apt_install "${missing[@]}"
}

# shellcheck source=/dev/null
distribution() { (. /etc/os-release 2>/dev/null && echo "${PRETTY_NAME:-this system}") || echo "this system"; }

# --- libmicrohttpd -----------------------------------------------------------------------------------

system_has_microhttpd() { pkg-config --atleast-version="$MICROHTTPD_AT_LEAST" libmicrohttpd 2>/dev/null; }

# Succeeds if prefix $1 has an installation of libmicrohttpd that is new enough.
prefix_has_microhttpd() {
    local pc
    for pc in "$1"/lib/pkgconfig "$1"/lib64/pkgconfig "$1"/lib/*/pkgconfig; do
        [ -f "$pc/libmicrohttpd.pc" ] || continue
        PKG_CONFIG_LIBDIR=$pc pkg-config --atleast-version="$MICROHTTPD_AT_LEAST" libmicrohttpd && return 0
    done
    return 1
}

# source_apt WORK LINE...: sets the array `own` to options for apt. With these options, apt uses the sources in the lines
# "MIRROR SUITE SECTION..." and separate folders in WORK.
source_apt() {
    local work=$1 keyring line
    shift
    rm -rf "$work/apt" "$work/source"
    mkdir -p "$work"/apt/lists/partial "$work"/apt/cache/archives/partial "$work/source"
    # As root, apt downloads as user _apt and warns if that user cannot write.
    if [ "$(id -u)" -eq 0 ] && id _apt >/dev/null 2>&1; then chown _apt "$work/source"; fi
    # Accept only the archive's own keys, not others that this machine trusts.
    for keyring in /usr/share/keyrings/{debian,ubuntu}-archive-keyring.{gpg,pgp} ''; do
        [ ! -f "$keyring" ] || break
    done
    for line; do echo "deb-src ${keyring:+[signed-by=$keyring] }$line"; done >"$work/apt/sources.list"
    own=(-o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache"
        -o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false
        -o Acquire::Languages=none)
    apt-get "${own[@]}" update -qq
}

# Downloads the distribution's newest source package of libmicrohttpd to folder $1/source, or fails if none is new enough.
# $2 is the mirror, and $3 is the suite that receives new source packages.
fetch_source_package() {
    local work=$1 own version
    source_apt "$work" "$2 $3 main" || return 1
    version=$(apt-cache "${own[@]}" showsrc libmicrohttpd | sed -n 's/^Version: //p' | sort -V | tail -n 1)
    [ -n "$version" ] || { echo "no libmicrohttpd in $3"; return 1; }
    dpkg --compare-versions "$version" ge "$MICROHTTPD_AT_LEAST" ||
        { echo "the libmicrohttpd in $3 is only $version"; return 1; }
    (cd "$work/source" && apt-get "${own[@]}" source -qq --download-only "libmicrohttpd=$version")
}

# Prints the mirrors of this machine's apt, without security archives.
apt_mirrors() {
    apt-get update --print-uris 2>/dev/null |
        sed -n "s|^'\([^']*\)/dists/[^']*InRelease' .*|\1/|p" | grep -v security | sort -u
}

# Prints the URLs where file $1, a listed release, might be found. Debian names libmicrohttpd-1.0.10.tar.gz
# libmicrohttpd_1.0.10.orig.tar.gz. On Ubuntu the file is in the section universe.
release_urls() {
    local name=$1 pool mirror
    pool=libm/libmicrohttpd/$(sed 's/-/_/; s/[.]tar/.orig.tar/' <<<"$name")
    if command -v apt-get >/dev/null; then
        apt_mirrors | while read -r mirror; do
            printf '%s\n' "${mirror%/}/pool/main/$pool" "${mirror%/}/pool/universe/$pool"
        done
    fi
    echo "https://ftp.gnu.org/gnu/libmicrohttpd/$name"
}

# fetch_release NAME FILE: downloads a listed release from the first URL that has it, and writes the URL to FILE.url.
fetch_release() {
    local url
    while read -r url; do
        echo "$url"
        echo "$url" >"$2.url"
        if curl --fail --silent --show-error --location --connect-timeout 10 --max-time 120 --output "$2.part" "$url"; then
            mv "$2.part" "$2"
            return
        fi
    done < <(release_urls "$1")
    return 1
}

# check_release FILE NAME: ends the script if the list has a different checksum for FILE. NAME is the upstream or Debian
# name of FILE.
check_release() {
    local name expected given
    name=$(sed 's/_/-/; s/[.]orig[.]/./' <<<"${2##*/}")
    expected=$(awk -v name="$name" '$2 == name { print $1 }' "$MICROHTTPD_RELEASES")
    given=$(sha256sum <"$1")
    given=${given%% *}
    [ -z "$expected" ] || [ "$given" = "$expected" ] ||
        die "$2 has the SHA-256 $given, but ${MICROHTTPD_RELEASES##*/} lists $expected for $name"
}

# Downloads the newest listed release that is available to $1/release.tar.gz, or fails if none is.
download_release() {
    local work=$1 name
    command -v curl >/dev/null || return 1
    while read -r _ name; do
        if step "$work/log" "dependencies: downloading $name" fetch_release "$name" "$work/release.tar.gz"; then
            check_release "$work/release.tar.gz" "$(cat "$work/release.tar.gz.url")"
            return
        fi
    done <"$MICROHTTPD_RELEASES"
    tail -n 5 "$work/log" >&2
    return 1
}

# unpack_release WORK FILE NAME: unpacks the tar file FILE, called NAME, into WORK/tree.
unpack_release() {
    mkdir "$1/tree"
    tar -xf "$2" -C "$1/tree" --strip-components=1 || die "cannot unpack $3"
    [ -f "$1/tree/configure" ] || die "$3 is not a libmicrohttpd release: no configure in it"
    note_source "$1" "$2" "$3"
}

# note_source WORK FILE NAME: writes the line "SHA-256  NAME" to the file source.sha256, for the installation.
note_source() { printf '%s  %s\n' "$(sha256sum <"$2" | cut -d ' ' -f 1)" "${3##*/}" >"$1/source.sha256"; }

# Unpacks the distribution's sources of libmicrohttpd into $1/tree.
unpack_distribution_source() {
    local work=$1 mirror suite file
    command -v apt-get >/dev/null || die "neither libmicrohttpd >= $MICROHTTPD_AT_LEAST nor apt-get is" \
        "installed: set TENSORD_MICROHTTPD_TARBALL or TENSORD_MICROHTTPD_PREFIX"
    suite=unstable
    ! grep -qi '^ID=ubuntu' /etc/os-release || suite=devel
    while read -r mirror; do
        if step "$work/log" "dependencies: fetching the sources of libmicrohttpd" \
            fetch_source_package "$work" "$mirror" "$suite"; then
            # apt has checked the files against the signed lists. The uploader's own key is not installed.
            dpkg-source --no-check -x "$work"/source/*.dsc "$work/tree" >>"$work/log" 2>&1 ||
                { tail -n 5 "$work/log" >&2; die "cannot unpack the source package"; }
            for file in "$work"/source/*.orig.tar.[gx]z; do note_source "$work" "$file" "$file"; done
            return
        fi
    done < <(apt_mirrors)
    tail -n 5 "$work/log" >&2 2>/dev/null || true
    die "no libmicrohttpd >= $MICROHTTPD_AT_LEAST in suite '$suite' of this machine's apt mirrors:" \
        "set TENSORD_MICROHTTPD_TARBALL to a release, or TENSORD_MICROHTTPD_PREFIX to an installation"
}

# Compiles the sources in $1/tree for prefix $2, into $1/root.
compile_microhttpd() (
    cd "$1/tree" && ./configure --quiet --prefix="$2" "${MICROHTTPD_FLAGS[@]}" &&
        make -s -j "$(nproc)" && make -s install DESTDIR="$1/root"
)

# replace_installation ROOT PREFIX: replaces the installation at PREFIX with the files in ROOT, with one rename.
replace_installation() {
    local staged
    # ROOT might be on another file system, so copy it to a sibling of the target, then rename the copy.
    staged=$(mktemp -d "$2.new.XXXXXX")
    cp -R "$1/." "$staged/"
    chmod 755 "$staged"
    rm -rf "$2"
    mv -T "$staged" "$2"
}

# Builds the sources in $1/tree and replaces the installation at $2.
build_microhttpd() {
    local work=$1 prefix=$2 stamp=$3
    # Give all files the same time, so that a patched Makefile.am does not make automake run again.
    find "$work/tree" -exec touch -r "$work/tree/configure" {} +
    long_step "building libmicrohttpd, $(nproc) files at a time" compile_microhttpd "$work" "$prefix" ||
        die "building libmicrohttpd failed"
    prefix_has_microhttpd "$work/root$prefix" || die "the sources given are older than $MICROHTTPD_AT_LEAST"
    echo "$stamp" >"$work/root$prefix/stamp"
    mv "$work/source.sha256" "$work/root$prefix/"
    replace_installation "$work/root$prefix" "$prefix"
}

# Sets `cache` to the folder of the libraries that this script builds, and locks it. A concurrent run waits until this run
# ends, so each library is built once.
lock_cache() {
    cache=${TENSORD_CACHE:-${XDG_CACHE_HOME:-${HOME:?is not set: set TENSORD_CACHE}/.cache}/tensord}
    mkdir -p "$cache"
    cache=$(cd "$cache" && pwd)
    exec 9>"$cache/.lock"
    flock 9
}

# Creates the folder `work`. A trap removes it when the script ends.
make_work() {
    [ -z "${work:-}" ] || rm -rf "$work"
    work=$(mktemp -d) # `work` is global, because the trap runs after the functions have returned
    trap 'rm -rf "$work"' EXIT
    chmod 755 "$work"
}

provide_microhttpd() {
    local tarball=${TENSORD_MICROHTTPD_TARBALL:-} asked=${TENSORD_MICROHTTPD:-} prefix cache stamp candidate
    case $asked in '' | build) ;; *) die "TENSORD_MICROHTTPD is '$asked'; expected build or nothing" ;; esac
    [ -z "$tarball" ] || asked=build
    if [ -n "${TENSORD_MICROHTTPD_PREFIX:-}" ]; then
        prefix_has_microhttpd "$TENSORD_MICROHTTPD_PREFIX" ||
            die "TENSORD_MICROHTTPD_PREFIX=$TENSORD_MICROHTTPD_PREFIX holds no libmicrohttpd >= $MICROHTTPD_AT_LEAST"
        return
    fi
    [ "$asked" = build ] || ! system_has_microhttpd || return 0

    lock_cache
    prefix=$cache/libmicrohttpd
    stamp=${MICROHTTPD_FLAGS[*]}
    if [ -n "$tarball" ]; then
        [ -f "$tarball" ] || die "TENSORD_MICROHTTPD_TARBALL=$tarball is not a file"
        stamp+=" $(sha256sum <"$tarball")"
    else
        stamp+=" $(sha256sum <"$MICROHTTPD_RELEASES")"
    fi

    if [ "$(cat "$prefix/stamp" 2>/dev/null)" = "$stamp" ] && prefix_has_microhttpd "$prefix"; then return; fi

    candidate=
    [ "$asked" = build ] || ! command -v apt-cache >/dev/null || candidate=$(apt_candidate libmicrohttpd-dev)
    if [ -n "$candidate" ] && dpkg --compare-versions "$candidate" ge "$MICROHTTPD_AT_LEAST"; then
        apt_install libmicrohttpd-dev
        return
    fi

    make_work
    if [ -n "$tarball" ]; then
        check_release "$tarball" "$tarball"
        say "building libmicrohttpd from $tarball"
        unpack_release "$work" "$tarball" "$tarball"
    else
        [ "$asked" = build ] ||
            say "the system's libmicrohttpd is missing or older than $MICROHTTPD_AT_LEAST: building a newer one"
        if download_release "$work"; then
            unpack_release "$work" "$work/release.tar.gz" "$(cat "$work/release.tar.gz.url")"
        else
            say "no listed release of libmicrohttpd could be downloaded: taking the distribution's newest"
            unpack_distribution_source "$work"
        fi
    fi
    build_microhttpd "$work" "$prefix" "$stamp"
    say "libmicrohttpd $(PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" pkg-config --modversion libmicrohttpd) is in $prefix"
}

# --- cJSON -------------------------------------------------------------------------------------------

# Prints the archives of this machine's release, as lines "MIRROR SUITE SECTION...".
release_sources() {
    local codename sections=main
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    ! grep -qi '^ID=ubuntu' /etc/os-release || sections='main universe'
    apt-get update --print-uris 2>/dev/null |
        sed -n "s|^'\([^']*\)/dists/\(${codename}[^/']*\)/InRelease' .*|\1 \2 $sections|p" | sort -u
}

# Downloads version $2 of the source package cjson to folder $1/source.
fetch_cjson() {
    local work=$1 version=$2 own lines
    mapfile -t lines < <(release_sources)
    source_apt "$work" "${lines[@]}" || return 1
    (cd "$work/source" && apt-get "${own[@]}" source -qq --download-only "cjson=$version")
}

# Compiles the sources in $1/tree into $1/root.
compile_cjson() {
    local tree=$1/tree root=$1/root
    mkdir -p "$root"/{include/cjson,lib/pkgconfig}
    (cd "$tree" && cc -O2 -D_FORTIFY_SOURCE=2 -fPIC -fstack-protector-strong -fno-omit-frame-pointer -c cJSON.c) || return 1
    ar rcsD "$root/lib/libcjson.a" "$tree/cJSON.o"
    cp "$tree/cJSON.h" "$root/include/cjson/"
    cp "$tree/debian/copyright" "$root/"
}

# Builds cJSON as a static library, in the version that is installed as a shared library.
provide_cjson() {
    local cache prefix version file
    command -v apt-get >/dev/null || die "apt-get is not installed; --wheel needs it for the sources of cJSON"
    lock_cache
    prefix=$cache/cjson
    # shellcheck disable=SC2016 # dpkg-query's variables
    version=$(dpkg-query -W -f '${source:Version}' libcjson-dev)
    [ "$(cat "$prefix/stamp" 2>/dev/null)" != "$version" ] || return 0

    make_work
    long_step "fetching the sources of cJSON" fetch_cjson "$work" "$version" || die "cannot fetch the source package cjson $version"
    dpkg-source --no-check -x "$work"/source/*.dsc "$work/tree" >"$work/log" 2>&1 ||
        { tail -n 5 "$work/log" >&2; die "cannot unpack the source package cjson $version"; }
    long_step "building cJSON" compile_cjson "$work" || die "building cJSON failed"
    for file in "$work"/source/*.orig.tar.*; do note_source "$work/root" "$file" "$file"; done
    printf 'prefix=%s\nName: libcjson\nDescription: cJSON, static\nVersion: %s\n%s\n%s\n' "$prefix" "${version%%-*}" \
        "Libs: -L\${prefix}/lib -lcjson" "Cflags: -I\${prefix}/include" >"$work/root/lib/pkgconfig/libcjson.pc"
    echo "$version" >"$work/root/stamp"
    replace_installation "$work/root" "$prefix"
    say "cJSON $version is in $prefix"
}

main() {
    local packages=("${BUILD_PACKAGES[@]}") wheel=no option
    for option in "$@"; do
        case $option in
        --test) packages+=("${TEST_PACKAGES[@]}") ;;
        --wheel) packages+=("${WHEEL_PACKAGES[@]}") wheel=yes TENSORD_MICROHTTPD=build ;;
        --profiled) packages+=("${PROFILED_PACKAGES[@]}") ;;
        -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        *) die "unknown option $option (see --help)" ;;
        esac
    done
    install_packages "${packages[@]}"
    command -v pkg-config >/dev/null || die "pkg-config is missing"
    provide_microhttpd
    [ $wheel = no ] || provide_cjson
    say "all dependencies are installed"
}

main "$@"
