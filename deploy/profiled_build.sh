#!/usr/bin/env bash
# profiled_build.sh - builds a faster tensord with GCC, in build-profiled/.
#
#   deploy/profiled_build.sh [CMAKE-OPTION...]
#
# The script first builds a program that counts how often each part of the code runs, and sends it typical requests
# (deploy/load/train.py). It then builds the program again. With the counts, GCC places the code of these requests close
# together, and optimises across source files. The two builds take about three times as long as cmake --preset release.
#
# Results are the same as with other builds. The counts stay in build-profiled/profile.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=deploy/progress.sh
. deploy/progress.sh

readonly FOLDER=build-profiled
log=$FOLDER/build.log
jobs=$(nproc)

# build PROFILE [CMAKE-OPTION...]
build() {
    cmake -S . -B $FOLDER -DCMAKE_BUILD_TYPE=Release -DTD_TESTS=OFF "-DTD_PROFILE=$1" "${@:2}" &&
        cmake --build $FOLDER --target tensord --parallel "$jobs"
}

train() {
    deploy/load/train.py $FOLDER/tensord && [ -n "$(find $FOLDER/profile -name '*routes.c.gcda')" ]
}

mkdir -p $FOLDER
: >$log
rm -rf $FOLDER/profile
if ! step $log "Building a program that counts" build generate "$@" ||
    ! step $log "Sending requests to it" train ||
    ! step $log "Building with the counts" build use "$@"; then
    tail -n 20 $log >&2
    echo "profiled_build.sh: a step failed; $FOLDER/build.log has all of its output" >&2
    exit 1
fi
echo "built $FOLDER/tensord"
