#!/usr/bin/env bash
# image.sh - runs the steps that the images of the Dockerfile share.
#
#   image.sh build PROFILED [CMAKE-OPTION...]
#       Builds in the source folder, with deploy/profiled_build.sh if PROFILED is yes, without it if PROFILED is no. Fills
#       /image with the files that an image adds to its base: the program, the plugin if it is built, the bill of materials,
#       this script.
#   image.sh finish
#       In an image with these files: installs the packages of the libraries that the program loads, and creates the user.
set -euo pipefail

readonly USER_ID=65532 # the same id as in other images with an unprivileged user

build() {
    local image=/image folder=build-package
    local options=(--preset package -DCMAKE_INSTALL_PREFIX=/usr/local "${@:2}")
    case $1 in
    yes)
        folder=build-profiled
        deploy/profiled_build.sh "${options[@]}"
        ;;
    no) cmake "${options[@]}" ;;
    *)
        echo "image.sh: PROFILED is '$1'; expected yes or no" >&2
        return 1
        ;;
    esac
    cmake --build "$folder" --parallel "$(nproc)"
    DESTDIR=/installed cmake --install "$folder" --strip
    mkdir -p $image/usr/local/{bin,lib} $image/usr/local/share/doc/tensord $image/opt/tensord
    cp /installed/usr/local/bin/tensord $image/usr/local/bin/
    [ ! -d /installed/usr/local/lib/tensord ] || cp -r /installed/usr/local/lib/tensord $image/usr/local/lib/
    cp /installed/usr/local/share/doc/tensord/{copyright,tensord.spdx.json} $image/usr/local/share/doc/tensord/
    cp deploy/image.sh $image/opt/tensord/
    # The names of the packages depend on the release. Where /lib is a link to /usr/lib, a package can list its files under
    # either name. The program loads libcurl only with --otlp-endpoint, so ldd does not list it.
    (ldd $image/usr/local/bin/tensord | sed -n 's|.* => .*/\([^/ ]*\) (.*|*/\1|p'; echo '*/libcurl.so.4') | xargs dpkg-query -S |
        sed 's|:.*||' | sort -u >$image/opt/tensord/packages
}

finish() {
    apt-get update -qq
    xargs apt-get install -y -qq --no-install-recommends </opt/tensord/packages >/dev/null
    groupadd --gid $USER_ID tensord
    useradd --uid $USER_ID --gid tensord --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin tensord
    install -d -o tensord -g tensord /data
    tensord --version # This command fails if a library is missing.
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /opt/tensord
}

"$@"
